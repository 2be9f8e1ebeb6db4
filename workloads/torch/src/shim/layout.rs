//! A tensor as a line: its numbers in memory order, for any shape and strides.

use std::ffi::c_int;

use tch::{TchError, Tensor};
use torch_sys::C_tensor;

use super::check;

unsafe extern "C" {
    fn tw_line(tensor: *const C_tensor, line: *mut *mut C_tensor) -> c_int;
    fn tw_gradient_line(parameter: *const C_tensor, line: *mut *mut C_tensor) -> c_int;
    fn tw_gradient_as_line(parameter: *const C_tensor, line: *mut *mut C_tensor) -> c_int;
}

/// The numbers of `tensor`, `[numbers]`, in its own memory and outside of autograd.
///
/// # Errors
/// For a tensor with gaps in memory.
pub fn line(tensor: &Tensor) -> Result<Tensor, TchError> {
    let mut line = std::ptr::null_mut();
    // SAFETY: the handle is borrowed for the length of the call and the pointer is that of a local variable.
    check(unsafe { tw_line(tensor.as_ptr(), &mut line) })?;
    // SAFETY: on success the handle has no other owner, like those that tch's own functions return.
    Ok(unsafe { Tensor::from_ptr(line) })
}

/// The gradient of `parameter`, `[numbers]`, in the order of the parameter's line; undefined without a
/// gradient. It shares the gradient's memory unless that has another layout.
///
/// # Errors
/// Out of memory.
pub fn gradient_line(parameter: &Tensor) -> Result<Tensor, TchError> {
    let mut line = std::ptr::null_mut();
    // SAFETY: the handle is borrowed for the length of the call and the pointer is that of a local variable.
    check(unsafe { tw_gradient_line(parameter.as_ptr(), &mut line) })?;
    // SAFETY: on success the handle has no other owner, like those that tch's own functions return.
    Ok(unsafe { Tensor::from_ptr(line) })
}

/// The gradient of `parameter`, which must exist, `[numbers]`, in the order of the parameter's line. It
/// shares the gradient's memory, so that writing to it writes the gradient. A gradient with another layout
/// is moved first.
///
/// # Errors
/// Out of memory.
pub fn gradient_as_line(parameter: &Tensor) -> Result<Tensor, TchError> {
    let mut line = std::ptr::null_mut();
    // SAFETY: the handle is borrowed for the length of the call and the pointer is that of a local variable.
    check(unsafe { tw_gradient_as_line(parameter.as_ptr(), &mut line) })?;
    // SAFETY: on success the handle has no other owner, like those that tch's own functions return.
    Ok(unsafe { Tensor::from_ptr(line) })
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;
    use crate::{nn::channels_last, shim::autograd::backward};

    fn numbered() -> Tensor {
        Tensor::arange(2 * 3 * 2 * 2, (Kind::Float, Device::Cpu)).view([2, 3, 2, 2])
    }

    #[test]
    fn a_line_follows_memory_and_shares_it() {
        let weight = channels_last(&numbered()).unwrap().set_requires_grad(true);
        let line = line(&weight).unwrap();
        assert_eq!((line.data_ptr(), line.requires_grad()), (weight.data_ptr(), false));
        let first = Vec::<f32>::try_from(line.narrow(0, 0, 6)).unwrap();
        assert_eq!(first, [0.0, 4.0, 8.0, 1.0, 5.0, 9.0], "the channels of a pixel lie together");
        assert!(super::line(&numbered().narrow(3, 0, 1)).is_err(), "it has gaps");
    }

    #[test]
    fn a_gradient_comes_in_the_order_of_its_parameter() {
        let weight = channels_last(&numbered()).unwrap().set_requires_grad(true);
        assert!(!gradient_line(&weight).unwrap().defined());
        backward(&(&weight * numbered()).sum(None), &[]).unwrap();
        let shared = gradient_line(&weight).unwrap();
        assert_eq!((&shared, shared.data_ptr()), (&line(&weight).unwrap(), weight.grad().data_ptr()));
        // Another layout, as operations may return it.
        weight.grad().set_data(&numbered());
        assert_eq!(gradient_line(&weight).unwrap(), line(&weight).unwrap());
    }

    #[test]
    fn writing_to_a_gradient_as_a_line_writes_the_gradient_in_every_layout() {
        let weight = channels_last(&numbered()).unwrap().set_requires_grad(true);
        assert!(gradient_as_line(&weight).is_err(), "there is none");
        backward(&(&weight * numbered()).sum(None), &[]).unwrap();
        let left = weight.grad().data_ptr();
        assert_eq!(gradient_as_line(&weight).unwrap().data_ptr(), left);
        let expanded = Tensor::from(3.0f32).expand([2, 3, 2, 2], false);
        for otherwise in [numbered(), numbered().repeat([1, 1, 1, 2]).narrow(3, 0, 2), expanded] {
            weight.grad().set_data(&otherwise);
            let (mut line, expected) = (gradient_as_line(&weight).unwrap(), &otherwise + 1.0);
            let _ = line.f_add_scalar_(1.0).unwrap();
            assert_eq!((weight.grad(), weight.grad().stride()), (expected, weight.stride()));
        }
    }

    #[test]
    fn a_dimension_of_one_number_has_no_layout() {
        let numbers = Tensor::arange(6, (Kind::Float, Device::Cpu)).view([2, 3, 1, 1]);
        let weight = channels_last(&numbers).unwrap().set_requires_grad(true);
        backward(&(&weight * &numbers).sum(None), &[]).unwrap();
        // Strides as made by the kernels of convolutions.
        weight.grad().set_data(&numbers.as_strided([2, 3, 1, 1], [3, 1, 3, 3], 0));
        assert_ne!(weight.grad().stride(), weight.stride());
        let left = weight.grad().data_ptr();
        assert_eq!(gradient_line(&weight).unwrap().data_ptr(), left);
        assert_eq!(gradient_as_line(&weight).unwrap().data_ptr(), left);
        assert_eq!(gradient_line(&weight).unwrap(), line(&weight).unwrap());
    }
}
