//! Layers over libtorch's operations, and the registry of what they learn.
//!
//! Each layer makes exactly the calls of its namesake in `torch.nn`, so that a step takes the same time as
//! in PyTorch. It adds an error where tch would panic, and a count of floating-point operations.

pub mod activation;
pub mod attention;
pub mod conv_norm;
pub mod convolution;
pub mod dense;
pub mod dropout;
pub mod flops;
pub mod init;
pub mod loss;
pub mod multi_head;
pub mod norm;
pub mod parameters;
pub mod perceptron;
pub mod precision;
pub mod recurrent;
pub mod relative_bias;
pub mod rotary;
pub mod split;
pub mod squeeze;
pub mod tensor_parallel;

use tch::{TchError, Tensor};

/// A tensor of the same values whose channels lie side by side in memory (PyTorch's `channels_last`).
///
/// Images and convolution weights are kept so: oneDNN and cuDNN then convolve without converting, and batch norm and
/// ReLU go along. `images` has four dimensions, `[samples, channels, height, width]`, and keeps this shape.
///
/// # Errors
/// Out of memory.
pub fn channels_last(images: &Tensor) -> Result<Tensor, TchError> {
    images.f_permute([0, 2, 3, 1])?.f_contiguous()?.f_permute([0, 3, 1, 2])
}

/// ReLU that overwrites its argument. Only for what no other operation keeps for its backward pass: the outputs of
/// batch norm, addition, convolutions and linear layers.
///
/// # Errors
/// None is known; libtorch reserves the right.
pub fn relu_in_place(mut activation: Tensor) -> Result<Tensor, TchError> {
    activation.f_relu_()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_last_changes_the_order_in_memory_and_no_value() {
        let plain = Tensor::arange(2 * 3 * 4 * 5, tch::kind::FLOAT_CPU).view([2, 3, 4, 5]);
        let arranged = channels_last(&plain).unwrap();
        assert_eq!(arranged.stride(), [60, 1, 15, 3]);
        assert_eq!(arranged, plain);
        assert_eq!(
            channels_last(&arranged).unwrap().data_ptr(),
            arranged.data_ptr(),
            "the second time copies nothing"
        );
    }
}
