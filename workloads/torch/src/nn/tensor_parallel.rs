//! Layers that several ranks share (Shoeybi et al., "Megatron-LM", 2019): each rank holds some outputs of a layer and the
//! corresponding inputs of the layer after it, whose partial results are added up.

use std::ops::Range;

use tch::{Device, Kind, TchError, Tensor, no_grad};

use super::split::{Slice, Split, share};
use crate::{
    group::{Group, Reduction},
    shim::{
        function::function,
        random::{random_state, set_random_state},
    },
};

/// The ranks that share each layer, from the view of one. By default there is no other rank.
#[derive(Clone, Default)]
pub struct TensorParallel {
    group: Option<Group>,
}

impl TensorParallel {
    /// Layers are shared by the ranks of `group`.
    pub fn new(group: Group) -> Self {
        Self { group: Some(group).filter(|group| group.size() > 1) }
    }

    /// The place of this rank without the others: nothing is moved.
    pub fn absent(&self) -> Self {
        Self { group: self.group.as_ref().map(|group| Group::absent(group.rank(), group.size())) }
    }

    /// Whether there is no other rank.
    pub fn is_alone(&self) -> bool {
        self.group.is_none()
    }

    /// The units of a divided dimension that this rank holds.
    pub fn share(&self, units: i64) -> Range<i64> {
        self.group.as_ref().map_or(0..units, |group| share(units, group.rank(), group.size()))
    }

    /// Number of units of a divided dimension that this rank holds.
    pub fn local(&self, units: i64) -> i64 {
        let Range { start, end } = self.share(units);
        end - start
    }

    /// Whether every rank has at least one of these units.
    pub fn can_divide(&self, units: i64) -> bool {
        self.group.as_ref().is_none_or(|group| units >= i64::from(group.size()))
    }

    /// The part of a tensor of this shape that this rank holds; `None` for all of it.
    pub fn slice(&self, split: Split, shape: &[i64]) -> Option<Slice> {
        self.group.as_ref().map(|group| split.slice(shape, group.rank(), group.size()))
    }

    /// The input of a shared layer, which all ranks have whole. In the backward pass each rank has the gradient from its own
    /// outputs, and they are added up: `f` of the paper.
    ///
    /// # Errors
    /// As [`Group::all_reduce`], here or in the backward pass.
    pub fn enter(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let Some(group) = self.group.clone() else { return Ok(input.shallow_clone()) };
        let backward = move |gradients: Vec<Option<Tensor>>| {
            let [gradient] = <[_; 1]>::try_from(gradients).expect("there is one output");
            let Some(gradient) = gradient else { return Ok(vec![None]) };
            // A copy, because others may still have to read it.
            let sum = gradient.f_empty_like()?;
            no_grad(|| sum.shallow_clone().f_copy_(&gradient))?;
            group.all_reduce(&sum, Reduction::Sum)?.wait()?;
            Ok(vec![Some(sum)])
        };
        one(function(&[input.shallow_clone()], &[input.detach()], Box::new(backward))?)
    }

    /// The sum over all ranks of their partial results, which are overwritten. Their gradients are that of the sum: `g` of
    /// the paper. The operation that made them must not need them in its backward pass, as those of linear layers and sums
    /// do not.
    ///
    /// # Errors
    /// As [`Group::all_reduce`].
    pub fn leave(&self, partial: Tensor) -> Result<Tensor, TchError> {
        let Some(group) = &self.group else { return Ok(partial) };
        let sum = partial.f_detach()?.f_contiguous()?;
        group.all_reduce(&sum, Reduction::Sum)?.wait()?;
        one(function(&[partial], &[sum], Box::new(Ok))?)
    }

    /// The largest number of all ranks in each place. It has no gradient.
    ///
    /// # Errors
    /// As [`Group::all_reduce`].
    pub fn maximum(&self, numbers: &Tensor) -> Result<Tensor, TchError> {
        let numbers = numbers.f_detach()?.f_contiguous()?;
        if let Some(group) = &self.group {
            group.all_reduce(&numbers, Reduction::Maximum)?.wait()?;
        }
        Ok(numbers)
    }

    /// Runs `body`, which draws random numbers for a part of the activations that only this rank has. It draws others than
    /// the other ranks do, and afterwards the generators of all ranks are in the same state again: whole activations need
    /// the same masks everywhere. The numbers follow from the generator of the CPU, so that a second run of an activation
    /// checkpoint repeats them.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn draw_apart(
        &self,
        device: Device,
        body: impl FnOnce() -> Result<Tensor, TchError>,
    ) -> Result<Tensor, TchError> {
        let Some(group) = &self.group else { return body() };
        let common = Tensor::f_randint(i64::MAX, [1], (Kind::Int64, Device::Cpu))?.f_int64_value(&[0])?;
        let devices =
            [Some(Device::Cpu), Some(device).filter(|device| device.is_cuda())].into_iter().flatten();
        let states = devices
            .map(|device| Ok((device, random_state(device)?)))
            .collect::<Result<Vec<_>, TchError>>()?;
        tch::manual_seed(common.wrapping_add(i64::from(group.rank())));
        let made = body();
        for (device, state) in &states {
            set_random_state(*device, state)?;
        }
        made
    }
}

/// The only tensor of a list.
fn one(tensors: Vec<Tensor>) -> Result<Tensor, TchError> {
    let [tensor] = <[_; 1]>::try_from(tensors).expect("one value has one output");
    Ok(tensor)
}
