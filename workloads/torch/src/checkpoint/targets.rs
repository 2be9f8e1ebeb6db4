//! The tensors of a job that a checkpoint is copied into.

use std::collections::{HashMap, HashSet};

use schema::checkpoint::{CheckpointFile, StoredTensor};
use tch::{Kind, TchError, Tensor, no_grad};

use super::{
    held::Held,
    region::{self, Ranges, boxes, narrowed, overlap, views, volume},
    tensors::{DecodeError, read},
};

/// What a rank holds of one content, on its way to the values of a checkpoint.
pub(super) struct Targets {
    by_name: HashMap<String, Target>,
    /// The names of all tensors of the job, where this rank knows them.
    all_names: Option<HashSet<String>>,
}

/// A part of a tensor that this rank holds.
struct Target {
    shape: Vec<usize>,
    kind: Kind,
    boxes: Vec<(Ranges, Tensor)>,
    /// Numbers that have no value yet.
    missing: usize,
}

impl Targets {
    /// # Errors
    /// None is known; libtorch reserves the right.
    pub(super) fn new(held: Vec<Held>, all_names: Option<HashSet<String>>) -> Result<Self, TchError> {
        let target = |Held { stored, tensor, .. }: Held| {
            // Layouts stay.
            let boxes = views(&stored, &tensor.f_detach()?)?;
            let (kind, missing) = (tensor.f_kind()?, tensor.numel());
            Ok((stored.name, Target { shape: stored.shape, kind, boxes, missing }))
        };
        Ok(Self { by_name: held.into_iter().map(target).collect::<Result<_, TchError>>()?, all_names })
    }

    /// Whether a stored part has numbers that this rank holds.
    ///
    /// # Errors
    /// The job has no such tensor, or one of another shape.
    pub(super) fn want(&self, stored: &StoredTensor) -> Result<bool, DecodeError> {
        let refuse = |problem| Err(DecodeError::Unfit { name: stored.name.clone(), problem });
        let Some(target) = self.by_name.get(&stored.name) else {
            let is_known = self.all_names.as_ref().is_none_or(|names| names.contains(&stored.name));
            return if is_known { Ok(false) } else { refuse("the job has none of this name".into()) };
        };
        if target.shape != stored.shape {
            return refuse(format!("it has the shape {:?}, and the job's {:?}", stored.shape, target.shape));
        }
        let parts =
            boxes(stored).map_err(|problem| DecodeError::Wrong { name: stored.name.clone(), problem })?;
        let is_common = |part: &Ranges| target.boxes.iter().any(|(held, _)| overlap(part, held).is_some());
        Ok(parts.iter().any(is_common))
    }

    /// Copies what this rank holds out of a file. A file of format 1, which lists nothing, has whole tensors.
    ///
    /// # Errors
    /// A tensor is not what the manifest says, or the job cannot use it; or an error of the device.
    pub(super) fn fill(
        &mut self,
        file: &CheckpointFile,
        content: &[u8],
        is_listed: bool,
    ) -> Result<(), DecodeError> {
        let mut listed: HashMap<&str, &StoredTensor> =
            file.tensors.iter().map(|stored| (stored.name.as_str(), stored)).collect();
        for (name, view) in read(content)?.tensors() {
            let wrong = |problem| DecodeError::Wrong { name: name.clone(), problem };
            let stored = match listed.remove(name.as_str()) {
                Some(stored) => stored.clone(),
                None if is_listed => return Err(wrong("the manifest does not list it".into())),
                None => StoredTensor { name: name.clone(), shape: view.shape().to_vec(), region: None },
            };
            let shape = region::shape(&stored).map_err(wrong)?;
            if view.shape() != shape {
                let problem = format!("it has the shape {:?}, and the manifest says {shape:?}", view.shape());
                return Err(wrong(problem));
            }
            if self.want(&stored)? {
                let found = Kind::try_from(view.dtype())?;
                let target = self.by_name.get_mut(&name).expect("it is wanted");
                target.check(found, &name)?;
                target.copy(&stored, &Tensor::try_from(view)?)?;
            }
        }
        match listed.into_keys().min() {
            None => Ok(()),
            Some(name) => {
                let problem = "the manifest lists it, and the file does not hold it".into();
                Err(DecodeError::Wrong { name: name.into(), problem })
            }
        }
    }

    /// The name of a tensor that has not got all of its values, if any. The first in alphabetical order is the same in every
    /// run.
    pub(super) fn first_without_values(&self) -> Option<&str> {
        let missing = self.by_name.iter().filter(|(_, target)| target.missing > 0);
        missing.map(|(name, _)| name.as_str()).min()
    }
}

impl Target {
    fn check(&self, found: Kind, name: &str) -> Result<(), DecodeError> {
        if found == self.kind {
            return Ok(());
        }
        let problem = format!("it is of {found:?}, and the job's of {:?}", self.kind);
        Err(DecodeError::Unfit { name: name.into(), problem })
    }

    /// Copies the numbers that this part and the stored one have in common.
    fn copy(&mut self, stored: &StoredTensor, values: &Tensor) -> Result<(), DecodeError> {
        let Self { boxes, missing, .. } = self;
        for (from, source) in views(stored, values)? {
            for (to, target) in &*boxes {
                let Some(common) = overlap(&from, to) else { continue };
                let source = narrowed(&source, &from, &common)?;
                no_grad(|| narrowed(target, to, &common)?.f_copy_(&source).map(drop))?;
                *missing = missing.checked_sub(volume(&common)).ok_or_else(|| DecodeError::Wrong {
                    name: stored.name.clone(),
                    problem: "some of its numbers are stored twice".into(),
                })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use schema::checkpoint::{Content, Region};
    use tch::Device;

    use super::*;
    use crate::{checkpoint::tensors::encode, nn::channels_last};

    fn stored(shape: &[usize], region: Option<Region>) -> StoredTensor {
        StoredTensor { name: "a.weight".into(), shape: shape.to_vec(), region }
    }

    fn targets(stored: StoredTensor, tensor: &Tensor) -> Targets {
        let held = Held { stored, tensor: tensor.shallow_clone(), is_written: true };
        Targets::new(vec![held], Some(HashSet::from(["a.weight".to_owned()]))).unwrap()
    }

    fn file(tensors: Vec<StoredTensor>) -> CheckpointFile {
        let (name, blake3) = ("f".into(), String::new());
        CheckpointFile { name, content: Content::Model, rank: Some(0), bytes: 0, blake3, tensors }
    }

    #[test]
    fn any_part_is_copied_into_any_other_part() {
        let shape = [4, 3, 2, 2];
        let whole = Tensor::arange(48, (Kind::Float, Device::Cpu)).view([4, 3, 2, 2]);
        let in_memory = whole.permute([0, 2, 3, 1]).contiguous().view([48]);
        let slice = |dim: usize, range: std::ops::Range<usize>| {
            let part = whole.narrow(dim as i64, range.start as i64, range.len() as i64).contiguous();
            (Some(Region::Slice { dim, ranges: vec![range] }), part)
        };
        let numbers = |first: usize, count: usize| {
            let part = in_memory.narrow(0, first as i64, count as i64).contiguous();
            (Some(Region::Numbers { first, count, order: vec![0, 2, 3, 1] }), part)
        };
        let ways = [
            vec![(None, whole.contiguous())],
            vec![slice(0, 0..1), slice(0, 1..4)],
            vec![slice(1, 0..2), slice(1, 2..3)],
            vec![numbers(0, 17), numbers(17, 30), numbers(47, 1)],
        ];
        for written in &ways {
            for (region, expected) in ways.iter().flatten() {
                let mut tensor = expected.zeros_like().set_requires_grad(true);
                if tensor.dim() == 4 {
                    tensor = channels_last(&tensor.detach()).unwrap().set_requires_grad(true);
                }
                let mut targets = targets(stored(&shape, region.clone()), &tensor);
                assert_eq!(targets.first_without_values(), Some("a.weight"));
                for (region, part) in written {
                    let file = file(vec![stored(&shape, region.clone())]);
                    let content = encode(&[("a.weight".into(), part.shallow_clone())]).unwrap();
                    targets.fill(&file, &content, true).unwrap();
                }
                assert_eq!(&tensor, expected, "{region:?} from {written:?}");
                assert_eq!(targets.first_without_values(), None);
            }
        }
    }

    #[test]
    fn a_tensor_that_does_not_fit_is_refused_by_name() {
        let zeros = |shape: &[i64], kind| Tensor::zeros(shape, (kind, Device::Cpu));
        let content = encode(&[("a.weight".into(), zeros(&[2, 3], Kind::Float))]).unwrap();
        let rows = Some(Region::Slice { dim: 0, ranges: std::iter::once(0..2).collect() });
        let other = StoredTensor { name: "b.weight".into(), ..stored(&[2, 3], None) };
        let fits = || stored(&[2, 3], None);
        for (listed, target, kind, words) in [
            (vec![], &[3, 2][..], Kind::Float, "a.weight: it has the shape [2, 3], and the job's [3, 2]"),
            (vec![fits()], &[2, 3], Kind::Double, "a.weight: it is of Float, and the job's of Double"),
            (vec![stored(&[4, 3], rows)], &[2, 3], Kind::Float, "the shape [4, 3], and the job's [2, 3]"),
            (vec![stored(&[2, 4], None)], &[2, 3], Kind::Float, "and the manifest says [2, 4]"),
            (vec![fits(), other.clone()], &[2, 3], Kind::Float, "b.weight: the manifest lists it"),
            (vec![other], &[2, 3], Kind::Float, "a.weight: the manifest does not list it"),
        ] {
            let tensor = zeros(target, kind);
            let shape: Vec<usize> = target.iter().map(|size| *size as usize).collect();
            let mut targets = targets(stored(&shape, None), &tensor);
            let is_listed = !listed.is_empty();
            let error = targets.fill(&file(listed), &content, is_listed).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let mut unknown = Targets::new(vec![], Some(HashSet::new())).unwrap();
        let error = unknown.fill(&file(vec![fits()]), &content, true).unwrap_err().to_string();
        assert!(error.contains("tensor a.weight: the job has none of this name"), "{error}");
        let mut of_a_stage = Targets::new(vec![], None).unwrap();
        of_a_stage.fill(&file(vec![fits()]), &content, true).unwrap();
    }
}
