//! Converts tensors to the bytes of a safetensors file and back.
//!
//! Parameters are cut into pieces of whole tensors, because a file is written and read in memory as a
//! whole. Only in this way are the bytes in use the ones whose hash was checked.

use std::collections::HashMap;

use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use tch::{Kind, TchError, Tensor, no_grad};

/// The largest piece, unless a single tensor is larger. Writing one takes twice this memory, and reading
/// one takes this memory and a tensor.
const PIECE_BYTES: usize = 128 << 20;

/// Cuts `tensors` into pieces, in their order.
pub(super) fn pieces(tensors: &[(String, Tensor)]) -> Vec<&[(String, Tensor)]> {
    cut(tensors, PIECE_BYTES)
}

fn cut(tensors: &[(String, Tensor)], limit: usize) -> Vec<&[(String, Tensor)]> {
    let mut pieces = Vec::new();
    let (mut begin, mut held) = (0, 0);
    for (index, (_, tensor)) in tensors.iter().enumerate() {
        if index > begin && held + bytes(tensor) > limit {
            pieces.push(&tensors[begin..index]);
            (begin, held) = (index, 0);
        }
        held += bytes(tensor);
    }
    if begin < tensors.len() {
        pieces.push(&tensors[begin..]);
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

/// Copies the tensors of a file into those of `targets` with the same names, and removes these. Layouts stay.
///
/// # Errors
/// A tensor has no target, or another shape or kind of number than its target; or an error of the device.
pub(super) fn decode_into(targets: &mut HashMap<String, Tensor>, content: &[u8]) -> Result<(), DecodeError> {
    for (name, view) in read(content)?.tensors() {
        let target = targets.remove(&name);
        let refuse = |problem| Err(DecodeError::Unfit { name, problem });
        let Some(mut target) = target else {
            return refuse("the job has none of this name".into());
        };
        let (expected, kind) = (shape(&target), target.f_kind()?);
        if view.shape() != expected {
            return refuse(format!("it has the shape {:?}, and the job's {expected:?}", view.shape()));
        }
        let found = Kind::try_from(view.dtype())?;
        if found != kind {
            return refuse(format!("it is of {found:?}, and the job's of {kind:?}"));
        }
        let value = Tensor::try_from(view)?;
        no_grad(|| target.f_copy_(&value))?;
    }
    Ok(())
}

fn read(content: &[u8]) -> Result<SafeTensors<'_>, DecodeError> {
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

    fn named(name: &str, tensor: Tensor) -> (String, Tensor) {
        (name.into(), tensor)
    }

    #[test]
    fn pieces_are_full_and_hold_every_tensor_once_in_order() {
        for (numbers, pieces) in [
            (&[][..], &[][..]),
            (&[1], &[1][..]),
            (&[9], &[1]),
            (&[2, 2, 1], &[2, 1]),
            (&[1, 9, 1, 3, 4], &[1, 1, 2, 1]),
        ] {
            let tensors: Vec<_> = numbers
                .iter()
                .map(|&n: &i64| named("t", Tensor::zeros([n], (Kind::Float, Device::Cpu))))
                .collect();
            let cut = cut(&tensors, 16);
            assert_eq!(cut.iter().map(|piece| piece.len()).collect::<Vec<_>>(), pieces, "{numbers:?}");
            let sizes: Vec<_> = cut.into_iter().flatten().map(|(_, tensor)| tensor.size()[0]).collect();
            assert_eq!(sizes, numbers);
        }
    }

    #[test]
    fn tensors_of_every_kind_and_layout_come_back_to_the_bit() {
        let numbers = || Tensor::arange(48, (Kind::Float, Device::Cpu)).view([2, 3, 2, 4]).sin();
        let source = [
            named("weight", channels_last(&numbers()).unwrap().set_requires_grad(true)),
            named("double", numbers().to_kind(Kind::Double)),
            named("scalar", Tensor::from(7.0f32)),
            named("bytes", Tensor::from_slice(&[1u8, 255])),
            named("turned", numbers().view([6, 8]).tr()),
        ];
        let content = encode(&source).unwrap();
        let mut targets: HashMap<_, _> = source
            .iter()
            .map(|(name, tensor)| {
                let zeros = tensor.detach().zeros_like();
                assert_eq!(zeros.stride(), tensor.stride());
                (name.clone(), zeros.set_requires_grad(tensor.requires_grad()))
            })
            .collect();
        let filled: Vec<_> = source.iter().map(|(name, _)| targets[name].shallow_clone()).collect();
        decode_into(&mut targets, &content).unwrap();
        assert!(targets.is_empty());
        for ((name, tensor), filled) in source.iter().zip(&filled) {
            assert_eq!((filled, filled.stride()), (tensor, tensor.stride()), "{name}");
        }
    }

    #[test]
    fn a_tensor_that_does_not_fit_is_refused_by_name() {
        let zeros = |shape: &[i64], kind| Tensor::zeros(shape, (kind, Device::Cpu));
        let content = encode(&[named("a.weight", zeros(&[2, 3], Kind::Float))]).unwrap();
        for (target, words) in [
            (named("b.weight", zeros(&[2, 3], Kind::Float)), "none of this name"),
            (named("a.weight", zeros(&[3, 2], Kind::Float)), "shape [2, 3], and the job's [3, 2]"),
            (named("a.weight", zeros(&[2, 3], Kind::Double)), "of Float, and the job's of Double"),
        ] {
            let error = decode_into(&mut HashMap::from([target]), &content).unwrap_err().to_string();
            assert!(error.contains("tensor a.weight: ") && error.contains(words), "{error}");
        }
    }
}
