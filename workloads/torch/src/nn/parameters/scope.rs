//! The registration of the tensors of a model.

use std::fmt::Display;

use tch::{TchError, Tensor};

use super::{Entry, Parameters, Place};
use crate::{
    nn::{
        channels_last,
        init::Init,
        split::{Slice, Split},
        tensor_parallel::TensorParallel,
    },
    shim::meta,
};

/// A place in the tree of names; layers register under it.
pub struct Scope<'a> {
    pub(super) parameters: &'a mut Parameters,
    /// Empty, or ends in a dot.
    pub(super) prefix: String,
}

impl Scope<'_> {
    /// The scope of a part, as `layer1` or `0`.
    pub fn part(&mut self, name: impl Display) -> Scope<'_> {
        Scope { prefix: format!("{}{name}.", self.prefix), parameters: self.parameters }
    }

    /// Whether results must not depend on other samples of a batch or on chance: see [`Parameters::exact`].
    pub fn is_exact(&self) -> bool {
        self.parameters.exact
    }

    /// The ranks that share each layer.
    pub fn tensor_parallel(&self) -> &TensorParallel {
        &self.parameters.tensor_parallel
    }

    /// From here on, tensors are registered for link number `link` of the model, in every scope.
    pub fn begin_link(&mut self, link: usize) {
        self.parameters.link = link;
    }

    /// A new trainable parameter, whole on every tensor-parallel rank. One of four dimensions is a convolution's and is
    /// kept channels-last.
    ///
    /// # Errors
    /// Out of memory.
    pub fn parameter(&mut self, name: &str, shape: &[i64], init: Init) -> Result<Tensor, TchError> {
        self.new_parameter(name, shape, init, None, false)
    }

    /// A new trainable parameter that tensor-parallel ranks divide. Gives the slice of this rank.
    ///
    /// # Errors
    /// Out of memory.
    pub fn divided(
        &mut self,
        name: &str,
        shape: &[i64],
        init: Init,
        split: Split,
    ) -> Result<Tensor, TchError> {
        self.new_parameter(name, shape, init, Some(split), false)
    }

    /// As [`Scope::divided`], or whole without a split, for a parameter that links after the present one use as well
    /// ([`Scope::tie`]).
    ///
    /// # Errors
    /// Out of memory.
    pub fn tied(
        &mut self,
        name: &str,
        shape: &[i64],
        init: Init,
        split: Option<Split>,
    ) -> Result<Tensor, TchError> {
        self.new_parameter(name, shape, init, split, true)
    }

    /// Says that the present link uses the tied parameter of this full name, too.
    ///
    /// # Panics
    /// If there is no such parameter.
    pub fn tie(&mut self, full_name: &str) {
        let Parameters { entries, link, .. } = &mut *self.parameters;
        let entry = entries.iter_mut().find(|entry| entry.name == full_name);
        let entry = entry.unwrap_or_else(|| panic!("no tied parameter is called {full_name}"));
        if entry.links.last() != Some(link) {
            entry.links.push(*link);
        }
    }

    /// The full name of a tensor of this scope.
    pub fn full_name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn new_parameter(
        &mut self,
        name: &str,
        shape: &[i64],
        init: Init,
        split: Option<Split>,
        is_tied: bool,
    ) -> Result<Tensor, TchError> {
        let kind = self.parameters.kind();
        let slice = split.and_then(|split| self.parameters.tensor_parallel.slice(split, shape));
        let of_rank = slice.as_ref().map_or_else(|| shape.to_vec(), |slice| slice.shape(shape));
        let tensor = match self.parameters.place {
            Place::Shapes => meta::empty(&of_rank, kind)?,
            Place::Device(device) => {
                // The whole tensor is drawn on every rank, so that random numbers go on as on one rank.
                let drawn = init.draw(shape)?;
                if !self.is_held() && !is_tied {
                    // It is dropped when the model is complete.
                    return Ok(self.register(name, meta::empty(&of_rank, kind)?, true, shape, slice));
                }
                let drawn = slice.as_ref().map_or(Ok(drawn.shallow_clone()), |slice| slice.of(&drawn))?;
                let drawn = drawn.f_totype(kind)?;
                let arranged = if shape.len() == 4 { channels_last(&drawn)? } else { drawn };
                arranged.f_to(device)?
            }
        };
        Ok(self.register(name, tensor.f_set_requires_grad(true)?, true, shape, slice))
    }

    /// Whether this rank holds the present link.
    fn is_held(&self) -> bool {
        self.parameters.links.as_ref().is_none_or(|held| held.contains(&self.parameters.link))
    }

    /// A new buffer filled with `value`: kept and saved, never trained.
    ///
    /// # Errors
    /// Out of memory.
    pub fn buffer(&mut self, name: &str, shape: &[i64], value: f64) -> Result<Tensor, TchError> {
        let kind = self.parameters.kind();
        let tensor = match self.parameters.place {
            Place::Device(device) if self.is_held() => Tensor::f_full(shape, value, (kind, device))?,
            _ => meta::empty(shape, kind)?,
        };
        Ok(self.register(name, tensor, false, shape, None))
    }

    /// Moves a table that the model computes once to where its parameters live, in their kind where it holds no whole
    /// numbers. It is neither trained nor saved.
    ///
    /// # Errors
    /// Out of memory.
    pub fn table(&mut self, table: &Tensor) -> Result<Tensor, TchError> {
        let kind = if table.f_is_floating_point()? { self.parameters.kind() } else { table.f_kind()? };
        let table = match self.parameters.place {
            Place::Shapes => meta::empty(&table.size(), kind),
            Place::Device(device) => table.f_totype(kind)?.f_to(device),
        }?;
        self.parameters.tables.push(table.shallow_clone());
        Ok(table)
    }

    fn register(
        &mut self,
        name: &str,
        tensor: Tensor,
        trainable: bool,
        shape: &[i64],
        slice: Option<Slice>,
    ) -> Tensor {
        let name = self.full_name(name);
        let numbers = shape.iter().product::<i64>() as u64;
        let Parameters { entries, link, whole, .. } = &mut *self.parameters;
        assert!(entries.iter().all(|entry| entry.name != name), "two tensors of a model are called {name}");
        *if trainable { &mut whole.trained } else { &mut whole.buffers } += numbers;
        let handle = tensor.shallow_clone();
        let (shape, links) = (shape.to_vec(), vec![*link]);
        entries.push(Entry { name, tensor, trainable, shape, slice, links });
        handle
    }
}
