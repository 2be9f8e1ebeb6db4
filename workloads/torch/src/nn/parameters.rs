//! The parameters and buffers of a model, by name.

mod scope;

use std::ops::Range;

use tch::{Device, Kind, Tensor};

pub use self::scope::Scope;
use super::{split::Slice, tensor_parallel::TensorParallel};

/// The persistent tensors of a model in the order of construction, which is PyTorch's.
///
/// A rank may hold a part of them: the slices of a tensor-parallel rank, and the tensors of the links of its pipeline stage.
/// All of them are drawn nevertheless, so that the numbers are those of a model on one rank.
pub struct Parameters {
    place: Place,
    exact: bool,
    tensor_parallel: TensorParallel,
    /// The links of the model that this rank holds; all of them if absent.
    links: Option<Range<usize>>,
    /// The link that tensors are registered for at present.
    link: usize,
    entries: Vec<Entry>,
    /// Constants that the model computed once.
    tables: Vec<Tensor>,
    /// Numbers of the whole model, trained and not trained.
    whole: Counts,
}

#[derive(Clone, Copy)]
enum Place {
    Device(Device),
    /// No device: tensors have a shape and a kind, and no memory.
    Shapes,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    trained: u64,
    buffers: u64,
}

/// A tensor that this rank holds, or its slice of it.
pub struct Entry {
    name: String,
    tensor: Tensor,
    /// Whether an optimizer moves it. The others are buffers, such as the running statistics of batch norm.
    trainable: bool,
    /// Of the whole tensor.
    shape: Vec<i64>,
    /// The part of the whole tensor; all of it if absent.
    slice: Option<Slice>,
    /// The links that use it, in ascending order. There are several for a tied weight.
    links: Vec<usize>,
}

impl Entry {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    pub fn is_trainable(&self) -> bool {
        self.trainable
    }

    /// The shape of the whole tensor.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The part of the whole tensor that this rank holds; `None` for all of it.
    pub fn slice(&self) -> Option<&Slice> {
        self.slice.as_ref()
    }

    /// The links that use it, in ascending order.
    pub fn links(&self) -> &[usize] {
        &self.links
    }
}

impl Parameters {
    /// An empty registry whose tensors will live on `device`.
    pub fn new(device: Device) -> Self {
        Self::at(Place::Device(device))
    }

    /// An empty registry whose tensors will have shapes and no values: for models too large for the machine.
    pub fn shapes_only() -> Self {
        Self::at(Place::Shapes)
    }

    fn at(place: Place) -> Self {
        Self {
            place,
            exact: false,
            tensor_parallel: TensorParallel::default(),
            links: None,
            link: 0,
            entries: Vec::new(),
            tables: Vec::new(),
            whole: Counts::default(),
        }
    }

    /// The registry of a model whose samples do not depend on each other and which computes in fp64, so that every
    /// plan gives it the same losses (`schema::spec::Training::exact`). Its parameters are drawn as always, then widened.
    #[must_use = "it gives the registry back"]
    pub fn exact(self) -> Self {
        Self { exact: true, ..self }
    }

    /// The registry of a rank that holds a slice of each layer, and of the links only these.
    #[must_use = "it gives the registry back"]
    pub fn part_of(self, tensor_parallel: TensorParallel, links: Option<Range<usize>>) -> Self {
        Self { tensor_parallel, links, ..self }
    }

    /// An empty registry for networks beside the model, with the same settings.
    pub fn beside(&self) -> Self {
        Self { exact: self.exact, ..Self::at(self.place) }
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

    /// The links that this rank holds; `None` for all of them.
    pub fn links(&self) -> Option<&Range<usize>> {
        self.links.as_ref()
    }

    /// Drops the tensors that no link of this rank uses. To be called when all links have registered theirs.
    pub(crate) fn drop_unused(&mut self) {
        if let Some(held) = &self.links {
            self.entries.retain(|entry| entry.links.iter().any(|link| held.contains(link)));
        }
    }

    /// Handles on the trainable parameters whose name starts with `prefix`.
    pub fn with_prefix(&self, prefix: &str) -> Vec<Tensor> {
        self.trainable(prefix).map(|entry| entry.tensor.shallow_clone()).collect()
    }

    /// The trainable parameters whose name starts with `prefix`.
    pub fn trainable(&self, prefix: &str) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.trainable && entry.name.starts_with(prefix))
    }

    /// The state of the model for a checkpoint: parameters and buffers. A tied weight occurs once.
    pub fn state(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// All persistent tensors that this rank holds: parameters, buffers and tables.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.entries.iter().map(|entry| &entry.tensor).chain(&self.tables)
    }

    /// Number of trainable parameters of the whole model.
    pub fn count(&self) -> u64 {
        self.whole.trained
    }

    /// Number of values of the whole model that are stored and not trained.
    pub fn buffers(&self) -> u64 {
        self.whole.buffers
    }

    /// Whether a layer normalises over the samples of a micro-batch, so that its size affects the result.
    /// Batch norm alone keeps a running mean.
    pub fn has_batch_norm(&self) -> bool {
        self.entries.iter().any(|entry| !entry.trainable && entry.name.ends_with("running_mean"))
    }

    /// Whether a layer is an LSTM, which alone has recurrent weights.
    pub fn has_lstm(&self) -> bool {
        self.trainable("").any(|entry| entry.name.contains("weight_hh_l"))
    }

    /// Whether a layer is a convolution. Its weights alone have dimensions besides inputs and outputs.
    pub fn has_convolution(&self) -> bool {
        self.trainable("").any(|entry| entry.name.ends_with("weight") && entry.tensor.dim() > 2)
    }

    /// Bytes of the parameters and buffers that this rank holds.
    pub fn bytes(&self) -> u64 {
        let bytes = |tensor: &Tensor| tensor.numel() * tensor.kind().elt_size_in_bytes();
        self.entries.iter().map(|entry| bytes(&entry.tensor) as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{
        init::Init,
        norm::{BatchNorm2d, LayerNorm},
    };

    #[test]
    fn names_follow_the_tree_and_buffers_are_not_trained() {
        let mut parameters = Parameters::new(Device::Cpu);
        let mut root = parameters.root();
        let weight = root.part("head").part(0).parameter("weight", &[2, 3], Init::ONES).unwrap();
        let mean = root.part("tail").buffer("mean", &[5], 0.5).unwrap();
        let table = root.part("tail").table(&Tensor::ones([7], (Kind::Float, Device::Cpu))).unwrap();
        assert!(!mean.requires_grad());
        assert!(weight.is_leaf() && weight.requires_grad());

        assert_eq!(parameters.state().map(Entry::name).collect::<Vec<_>>(), ["head.0.weight", "tail.mean"]);
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
        let (usual, exact) =
            (built(Parameters::new(Device::Cpu)), built(Parameters::new(Device::Cpu).exact()));
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
