//! The state of a stream in a checkpoint.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use fastrand::Rng;
use tch::{Device, TchError, Tensor, kind::Element};

/// Tensors in host memory, by name.
#[derive(Debug, Default)]
pub struct StreamState(BTreeMap<String, Tensor>);

impl StreamState {
    pub(crate) fn of(tensors: Vec<(String, Tensor)>) -> Self {
        Self(tensors.into_iter().collect())
    }

    pub(crate) fn into_tensors(self) -> Vec<(String, Tensor)> {
        self.0.into_iter().collect()
    }

    /// Adds a copy of a tensor.
    pub(crate) fn put(&mut self, name: impl Into<String>, tensor: &Tensor) -> Result<(), TchError> {
        self.0.insert(name.into(), tensor.f_detach_copy()?.f_to(Device::Cpu)?);
        Ok(())
    }

    pub(crate) fn put_numbers<T: Element>(&mut self, name: &str, numbers: &[T]) -> Result<(), TchError> {
        self.0.insert(name.into(), Tensor::f_from_slice(numbers)?);
        Ok(())
    }

    pub(crate) fn put_generator(&mut self, generator: &Rng) -> Result<(), TchError> {
        self.put_numbers(GENERATOR, &[generator.get_seed().cast_signed()])
    }

    pub(crate) fn tensor(&self, name: &str) -> anyhow::Result<&Tensor> {
        self.0.get(name).with_context(|| format!("the state of the data has no '{name}'"))
    }

    pub(crate) fn numbers<T>(&self, name: &str) -> anyhow::Result<Vec<T>>
    where
        Vec<T>: for<'a> TryFrom<&'a Tensor, Error = TchError>,
    {
        Ok(Vec::try_from(self.tensor(name)?)?)
    }

    /// This number of numbers.
    pub(crate) fn array<T, const N: usize>(&self, name: &str) -> anyhow::Result<[T; N]>
    where
        Vec<T>: for<'a> TryFrom<&'a Tensor, Error = TchError>,
    {
        let numbers: Vec<T> = self.numbers(name)?;
        let found = numbers.len();
        let array = <[T; N]>::try_from(numbers).ok();
        array.with_context(|| format!("'{name}' of the state of the data has {found} numbers and not {N}"))
    }

    /// Rows of `N` numbers.
    pub(crate) fn rows<const N: usize>(&self, name: &str) -> anyhow::Result<Vec<[f32; N]>> {
        let numbers: Vec<f32> = self.numbers(name)?;
        let (rows, rest) = numbers.as_chunks();
        ensure!(rest.is_empty(), "'{name}' of the state of the data has no rows of {N} numbers");
        Ok(rows.to_vec())
    }

    pub(crate) fn generator(&self) -> anyhow::Result<Rng> {
        let [seed] = self.array::<i64, 1>(GENERATOR)?;
        Ok(Rng::with_seed(seed.cast_unsigned()))
    }
}

const GENERATOR: &str = "generator";
