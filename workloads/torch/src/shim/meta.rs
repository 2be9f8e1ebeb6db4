//! Tensors of PyTorch's `meta` device: shapes and kinds without memory.
//!
//! Operations on them check and infer shapes and compute nothing. tch's [`tch::Device`] has no name for this device:
//! `Tensor::device` is wrong about such tensors, so what runs on them must not ask.

use std::{ffi::c_int, ptr};

use tch::{Kind, TchError, Tensor};
use torch_sys::C_tensor;

use super::check;

unsafe extern "C" {
    fn tw_meta_empty(shape: *const i64, dimensions: usize, tensor: *mut *mut C_tensor) -> c_int;
    fn tw_zeros_beside(
        like: *const C_tensor,
        shape: *const i64,
        dimensions: usize,
        tensor: *mut *mut C_tensor,
    ) -> c_int;
}

/// A tensor that has a shape and a kind and nothing else.
///
/// # Errors
/// For a shape whose number of elements has no name in 64 bits.
pub fn empty(shape: &[i64], kind: Kind) -> Result<Tensor, TchError> {
    let mut tensor = ptr::null_mut();
    // SAFETY: the shape is borrowed for the length of the call; the other pointer is that of a local.
    check(unsafe { tw_meta_empty(shape.as_ptr(), shape.len(), &mut tensor) })?;
    // SAFETY: on success the handle is new and belongs to us alone.
    unsafe { Tensor::from_ptr(tensor) }.f_totype(kind)
}

/// Zeros in `shape`, of the kind and on the device of `like`, whichever device that is.
///
/// # Errors
/// Out of memory.
pub fn zeros_beside(like: &Tensor, shape: &[i64]) -> Result<Tensor, TchError> {
    let mut tensor = ptr::null_mut();
    // SAFETY: handle and shape are borrowed for the length of the call; the last pointer is that of a local.
    check(unsafe { tw_zeros_beside(like.as_ptr(), shape.as_ptr(), shape.len(), &mut tensor) })?;
    // SAFETY: on success the handle is new and belongs to us alone.
    Ok(unsafe { Tensor::from_ptr(tensor) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_of_terabytes_has_a_shape() {
        let million = empty(&[1 << 20, 1 << 20], Kind::Float).unwrap();
        let product = million.f_matmul(&empty(&[1 << 20, 3], Kind::Float).unwrap()).unwrap();
        assert_eq!((product.size(), product.kind()), (vec![1 << 20, 3], Kind::Float));
        assert!(million.f_matmul(&empty(&[5, 3], Kind::Float).unwrap()).is_err(), "shapes are checked");
        assert_eq!(empty(&[2], Kind::Int64).unwrap().kind(), Kind::Int64);
    }

    #[test]
    fn zeros_lie_beside_what_they_are_for() {
        let zeros = zeros_beside(&Tensor::ones([4], tch::kind::INT64_CPU), &[2, 3]).unwrap();
        assert_eq!(zeros, Tensor::zeros([2, 3], tch::kind::INT64_CPU));
        let shape_only = zeros_beside(&empty(&[4], Kind::Float).unwrap(), &[1 << 40]).unwrap();
        assert_eq!(shape_only.size(), [1 << 40]);
    }
}
