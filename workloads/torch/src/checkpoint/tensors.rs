//! Converts tensors to the bytes of a safetensors file and back.
//!
//! Parameters are cut into pieces of whole tensors, because a file is written and read in memory as a
//! whole. Only in this way are the bytes in use the ones whose hash was checked.

use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use tch::{TchError, Tensor};

use super::held::Held;

/// The largest piece, unless a single tensor is larger. Writing one takes twice this memory, and reading
/// one takes this memory and a tensor.
const PIECE_BYTES: usize = 128 << 20;

/// Cuts tensors into pieces, in their order.
pub(super) fn pieces(held: Vec<Held>) -> Vec<Vec<Held>> {
    cut(held, |held| bytes(&held.tensor), PIECE_BYTES)
}

fn cut<T>(tensors: Vec<T>, bytes: impl Fn(&T) -> usize, limit: usize) -> Vec<Vec<T>> {
    let mut pieces: Vec<Vec<T>> = Vec::new();
    let mut space = 0;
    for tensor in tensors {
        let bytes = bytes(&tensor);
        match pieces.last_mut().filter(|_| bytes <= space) {
            Some(piece) => piece.push(tensor),
            None => {
                pieces.push(vec![tensor]);
                space = limit;
            }
        }
        space = space.saturating_sub(bytes);
    }
    pieces
}

/// The content of a file with `tensors`, which are made contiguous from any layout and device.
///
/// # Errors
/// An error of the device, or out of memory.
pub(super) fn encode(tensors: &[(String, Tensor)]) -> Result<Vec<u8>, TchError> {
    let copies = tensors
        .iter()
        .map(|(name, tensor)| {
            let mut copy = vec![0; bytes(tensor)];
            tensor.f_copy_data_u8(&mut copy, tensor.numel())?;
            Ok((name, Dtype::try_from(tensor.f_kind()?)?, shape(tensor), copy))
        })
        .collect::<Result<Vec<_>, TchError>>()?;
    let views = copies.iter().map(|(name, dtype, shape, copy)| {
        let view = TensorView::new(*dtype, shape.clone(), copy).expect("its bytes were counted");
        (name.as_str(), view)
    });
    serialize(views, &None).map_err(|error| TchError::Convert(error.to_string()))
}

/// The reason why the tensors of a file were refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum DecodeError {
    #[error("holds no tensors: {0}")]
    Malformed(String),
    /// It is not what the manifest says.
    #[error("tensor {name}: {problem}")]
    Wrong { name: String, problem: String },
    /// The job cannot use it.
    #[error("tensor {name}: {problem}")]
    Unfit { name: String, problem: String },
    #[error(transparent)]
    Torch(#[from] TchError),
}

/// The tensors of a file, in host memory.
///
/// # Errors
/// The file is invalid, or there is not enough memory.
pub(super) fn decode(content: &[u8]) -> Result<Vec<(String, Tensor)>, DecodeError> {
    let file = read(content)?;
    file.tensors().into_iter().map(|(name, view)| Ok((name, Tensor::try_from(view)?))).collect()
}

/// The directory of a file, whose tensors are still bytes of `content`.
///
/// # Errors
/// The file is invalid.
pub(super) fn read(content: &[u8]) -> Result<SafeTensors<'_>, DecodeError> {
    SafeTensors::deserialize(content).map_err(|error| DecodeError::Malformed(error.to_string()))
}

fn bytes(tensor: &Tensor) -> usize {
    tensor.numel() * tensor.kind().elt_size_in_bytes()
}

fn shape(tensor: &Tensor) -> Vec<usize> {
    tensor.size().into_iter().map(|size| size as usize).collect()
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;
    use crate::nn::channels_last;

    #[test]
    fn pieces_are_full_and_hold_every_tensor_once_in_order() {
        for (sizes, pieces) in [
            (&[][..], &[][..]),
            (&[1], &[1][..]),
            (&[9], &[1]),
            (&[2, 2, 1], &[2, 1]),
            (&[1, 9, 1, 3, 4], &[1, 1, 2, 1]),
        ] {
            let cut = cut(sizes.to_vec(), |size| *size, 4);
            assert_eq!(cut.iter().map(Vec::len).collect::<Vec<_>>(), pieces, "{sizes:?}");
            assert_eq!(cut.into_iter().flatten().collect::<Vec<usize>>(), sizes);
        }
    }

    #[test]
    fn tensors_of_every_kind_and_layout_come_back_to_the_bit() {
        let numbers = || Tensor::arange(48, (Kind::Float, Device::Cpu)).view([2, 3, 2, 4]).sin();
        let source = [
            ("weight", channels_last(&numbers()).unwrap().set_requires_grad(true)),
            ("double", numbers().to_kind(Kind::Double)),
            ("scalar", Tensor::from(7.0f32)),
            ("bytes", Tensor::from_slice(&[1u8, 255])),
            ("turned", numbers().view([6, 8]).tr()),
        ]
        .map(|(name, tensor)| (name.to_owned(), tensor));
        let mut decoded = decode(&encode(&source).unwrap()).unwrap();
        assert_eq!(decoded.len(), source.len());
        decoded.sort_by_key(|(name, _)| source.iter().position(|(other, _)| other == name));
        for ((name, tensor), (other, found)) in source.iter().zip(&decoded) {
            assert_eq!((name, tensor, tensor.kind()), (other, found, found.kind()));
        }
    }
}
