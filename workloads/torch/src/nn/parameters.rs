//! The parameters and buffers of a model, by name.

use std::fmt::Display;

use tch::{Device, Kind, TchError, Tensor};

use super::{channels_last, init::Init};
use crate::shim::meta;

/// The persistent tensors of a model in the order of construction, which is PyTorch's.
pub struct Parameters {
    place: Place,
    exact: bool,
    entries: Vec<Entry>,
    /// Constants that the model computed once.
    tables: Vec<Tensor>,
}

#[derive(Clone, Copy)]
enum Place {
    Device(Device),
    /// No device: tensors have a shape and a kind, and no memory.
    Shapes,
}

struct Entry {
    name: String,
    tensor: Tensor,
    /// Whether an optimizer moves it. The others are buffers, such as the running statistics of batch norm.
    trainable: bool,
}

impl Parameters {
    /// An empty registry whose tensors will live on `device`.
    pub fn new(device: Device) -> Self {
        Self { place: Place::Device(device), exact: false, entries: Vec::new(), tables: Vec::new() }
    }

    /// An empty registry of a model whose samples do not depend on each other and which computes in fp64, so that every
    /// plan gives it the same losses (`schema::spec::Training::exact`). Its parameters are drawn as always, then widened.
    pub fn exact(device: Device) -> Self {
        Self { place: Place::Device(device), exact: true, entries: Vec::new(), tables: Vec::new() }
    }

    /// An empty registry whose tensors will have shapes and no values: for models too large for the machine.
    pub fn shapes_only() -> Self {
        Self { place: Place::Shapes, exact: false, entries: Vec::new(), tables: Vec::new() }
    }

    /// An empty registry for networks beside the model, with the same settings.
    pub fn beside(&self) -> Self {
        Self { place: self.place, exact: self.exact, entries: Vec::new(), tables: Vec::new() }
    }

    /// Whether the model is one of [`Parameters::exact`].
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// The kind of numbers that the model computes with.
    pub fn kind(&self) -> Kind {
        if self.exact { Kind::Double } else { Kind::Float }
    }

    /// The scope in which the layers of a model register their tensors.
    pub fn root(&mut self) -> Scope<'_> {
        Scope { parameters: self, prefix: String::new() }
    }

    /// Handles on the trainable parameters whose name starts with `prefix`.
    pub fn with_prefix(&self, prefix: &str) -> Vec<Tensor> {
        self.trainable(prefix).map(|(_, parameter)| parameter.shallow_clone()).collect()
    }

    /// The trainable parameters whose name starts with `prefix`, under their names.
    pub fn trainable(&self, prefix: &str) -> impl Iterator<Item = (&str, &Tensor)> {
        let chosen = move |entry: &&Entry| entry.trainable && entry.name.starts_with(prefix);
        self.entries.iter().filter(chosen).map(|entry| (entry.name.as_str(), &entry.tensor))
    }

    /// The state of the model for a checkpoint: parameters and buffers under their names. A tied weight
    /// occurs once.
    pub fn state(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.entries.iter().map(|entry| (entry.name.as_str(), &entry.tensor))
    }

    /// All persistent tensors of the model: parameters, buffers and tables.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.entries.iter().map(|entry| &entry.tensor).chain(&self.tables)
    }

    /// Number of trainable parameters.
    pub fn count(&self) -> u64 {
        self.numbers(true)
    }

    /// Number of values that are stored and not trained.
    pub fn buffers(&self) -> u64 {
        self.numbers(false)
    }

    fn numbers(&self, trainable: bool) -> u64 {
        let chosen = |entry: &&Entry| entry.trainable == trainable;
        self.entries.iter().filter(chosen).map(|entry| entry.tensor.numel() as u64).sum()
    }

    /// Whether a layer normalises over the samples of a micro-batch, so that its size affects the result.
    /// Batch norm alone keeps a running mean.
    pub fn has_batch_norm(&self) -> bool {
        self.entries.iter().any(|entry| !entry.trainable && entry.name.ends_with("running_mean"))
    }

    /// Whether a layer is an LSTM, which alone has recurrent weights.
    pub fn has_lstm(&self) -> bool {
        self.trainable("").any(|(name, _)| name.contains("weight_hh_l"))
    }

    /// Whether a layer is a convolution. Its weights alone have dimensions besides inputs and outputs.
    pub fn has_convolution(&self) -> bool {
        self.trainable("").any(|(name, weight)| name.ends_with("weight") && weight.dim() > 2)
    }

    /// Bytes of parameters and buffers together.
    pub fn bytes(&self) -> u64 {
        let bytes = |tensor: &Tensor| tensor.numel() * tensor.kind().elt_size_in_bytes();
        self.entries.iter().map(|entry| bytes(&entry.tensor) as u64).sum()
    }
}

/// A place in the tree of names; layers register under it.
pub struct Scope<'a> {
    parameters: &'a mut Parameters,
    /// Empty, or ends in a dot.
    prefix: String,
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

    /// A new trainable parameter. One of four dimensions is a convolution's and is kept channels-last.
    ///
    /// # Errors
    /// Out of memory.
    pub fn parameter(&mut self, name: &str, shape: &[i64], init: Init) -> Result<Tensor, TchError> {
        let kind = self.parameters.kind();
        let tensor = match self.parameters.place {
            Place::Shapes => meta::empty(shape, kind)?,
            Place::Device(device) => {
                let drawn = init.draw(shape)?.f_totype(kind)?;
                let arranged = if shape.len() == 4 { channels_last(&drawn)? } else { drawn };
                arranged.f_to(device)?
            }
        };
        Ok(self.register(name, tensor.f_set_requires_grad(true)?, true))
    }

    /// A new buffer filled with `value`: kept and saved, never trained.
    ///
    /// # Errors
    /// Out of memory.
    pub fn buffer(&mut self, name: &str, shape: &[i64], value: f64) -> Result<Tensor, TchError> {
        let kind = self.parameters.kind();
        let tensor = match self.parameters.place {
            Place::Shapes => meta::empty(shape, kind)?,
            Place::Device(device) => Tensor::f_full(shape, value, (kind, device))?,
        };
        Ok(self.register(name, tensor, false))
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

    fn register(&mut self, name: &str, tensor: Tensor, trainable: bool) -> Tensor {
        let name = format!("{}{name}", self.prefix);
        let entries = &mut self.parameters.entries;
        assert!(entries.iter().all(|entry| entry.name != name), "two tensors of a model are called {name}");
        let handle = tensor.shallow_clone();
        entries.push(Entry { name, tensor, trainable });
        handle
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::norm::{BatchNorm2d, LayerNorm};

    #[test]
    fn names_follow_the_tree_and_buffers_are_not_trained() {
        let mut parameters = Parameters::new(Device::Cpu);
        let mut root = parameters.root();
        let weight = root.part("head").part(0).parameter("weight", &[2, 3], Init::ONES).unwrap();
        let mean = root.part("tail").buffer("mean", &[5], 0.5).unwrap();
        let table = root.part("tail").table(&Tensor::ones([7], (Kind::Float, Device::Cpu))).unwrap();
        assert!(!mean.requires_grad());
        assert!(weight.is_leaf() && weight.requires_grad());

        assert_eq!(
            parameters.state().map(|(name, _)| name).collect::<Vec<_>>(),
            ["head.0.weight", "tail.mean"]
        );
        assert_eq!((parameters.count(), parameters.bytes()), (6, 4 * (6 + 5)));
        assert_eq!(
            parameters.tensors().map(Tensor::data_ptr).collect::<Vec<_>>(),
            [&weight, &mean, &table].map(Tensor::data_ptr),
            "a table is held and has no name"
        );
        assert_eq!(parameters.with_prefix("").len(), 1);
        assert_eq!(parameters.with_prefix("tail").len(), 0);
        assert_eq!(
            parameters.with_prefix("head")[0].data_ptr(),
            weight.data_ptr(),
            "handles share their storage"
        );
    }

    #[test]
    fn batch_norm_is_known_by_its_running_mean() {
        for (norms, expected) in [(&[][..], false), (&["last"], true), (&["first", "last"], true)] {
            let mut parameters = Parameters::new(Device::Cpu);
            let mut root = parameters.root();
            LayerNorm::new(root.part("norm"), 4).unwrap();
            for norm in norms {
                BatchNorm2d::new(root.part(norm), 4).unwrap();
            }
            assert_eq!(parameters.has_batch_norm(), expected, "{norms:?}");
        }
    }

    #[test]
    fn an_exact_model_has_the_same_numbers_in_fp64() {
        let built = |mut parameters: Parameters| {
            let mut root = parameters.root();
            let weight = root.parameter("weight", &[4, 3], Init::Constant(0.1)).unwrap().detach();
            let buffer = root.buffer("buffer", &[2], 0.1).unwrap();
            let whole = root.table(&Tensor::ones([2], tch::kind::INT64_CPU)).unwrap();
            let table = root.table(&Tensor::ones([2], tch::kind::DOUBLE_CPU)).unwrap();
            assert_eq!(parameters.beside().kind(), parameters.kind());
            [weight, buffer, table, whole]
        };
        let (usual, exact) = (built(Parameters::new(Device::Cpu)), built(Parameters::exact(Device::Cpu)));
        assert_eq!(usual.each_ref().map(Tensor::kind), [Kind::Float, Kind::Float, Kind::Float, Kind::Int64]);
        assert_eq!(
            exact.each_ref().map(Tensor::kind),
            [Kind::Double, Kind::Double, Kind::Double, Kind::Int64]
        );
        // 0.1 is another number in fp64.
        assert_eq!(exact[0], usual[0].to_kind(Kind::Double), "drawn as always, then widened");
    }

    #[test]
    fn weights_of_convolutions_are_channels_last() {
        let mut parameters = Parameters::new(Device::Cpu);
        let weight = parameters.root().parameter("weight", &[4, 3, 2, 2], Init::ONES).unwrap();
        assert_eq!((weight.size(), weight.stride()), (vec![4, 3, 2, 2], vec![12, 1, 6, 3]));
    }
}
