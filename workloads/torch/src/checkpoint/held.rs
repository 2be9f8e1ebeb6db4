//! The tensors that a rank holds, or the parts of them.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
};

use schema::checkpoint::{Content, Region, StoredTensor};
use tch::Tensor;

use crate::{
    nn::{
        parameters::{Entry, Parameters},
        split::Slice,
    },
    optimizer::{Optimizer, STEP},
    parallel::Parallel,
    step::Trainer,
    workload::Update,
    world::World,
    zero::Shard,
};

/// A tensor of the model or of an optimizer that this rank holds, or its part of it.
pub(super) struct Held {
    /// The name and the shape of the whole tensor, and the part.
    pub(super) stored: StoredTensor,
    /// Shares its memory with the tensor in training.
    pub(super) tensor: Tensor,
    /// Whether this rank writes it. Of the ranks that hold the same numbers, one does.
    pub(super) is_written: bool,
}

/// The tensors of one content of a checkpoint that this rank holds.
pub(super) fn held(trainer: &Trainer, content: Content) -> Vec<Held> {
    match content {
        Content::Model => model(trainer),
        Content::Optimizer => optimizers(trainer),
        Content::Random | Content::Data => Vec::new(),
    }
}

/// The names of all tensors of one content, also of those of which another data-parallel rank has the shard; `None` where this
/// rank has one stage of the model and does not know those of the others.
pub(super) fn all_names(trainer: &Trainer, content: Content) -> Option<HashSet<String>> {
    let workload = trainer.workload();
    let parameters = workload.parameters();
    if parameters.links().is_some() {
        return None;
    }
    let of_update = |(update, optimizer): (&Update, &Optimizer)| -> Vec<String> {
        let kinds = optimizer.state().into_iter().map(|(kind, _)| kind);
        kinds.flat_map(|kind| state_names(update, kind, parameters)).collect()
    };
    Some(match content {
        Content::Model => parameters.state().map(|entry| entry.name().to_owned()).collect(),
        Content::Optimizer => {
            workload.updates().iter().zip(trainer.optimizers()).flat_map(of_update).collect()
        }
        Content::Random | Content::Data => HashSet::new(),
    })
}

/// The names of one kind of state.
fn state_names(update: &Update, kind: &str, parameters: &Parameters) -> Vec<String> {
    match kind {
        STEP => vec![format!("{}.{STEP}", update.name)],
        _ => {
            let moved = parameters.trainable(update.parameter_prefix);
            moved.map(|entry| state_name(update, kind, entry.name())).collect()
        }
    }
}

fn state_name(update: &Update, kind: &str, parameter: &str) -> String {
    format!("{}.{kind}.{parameter}", update.name)
}

/// The parameters and buffers that this rank holds. Of a tied weight the first stage that uses it writes the numbers, and of
/// everything that data-parallel ranks have in common the first of them does.
fn model(trainer: &Trainer) -> Vec<Held> {
    let parameters = trainer.workload().parameters();
    let are_divided = trainer.parallels().any(Parallel::divides_parameters);
    let entries = parameters.state().filter(|entry| !(are_divided && entry.is_trainable()));
    let mut held: Vec<Held> = entries
        .map(|entry| Held {
            stored: stored(entry.name().into(), entry, region_of(entry)),
            tensor: entry.tensor().shallow_clone(),
            is_written: is_first_copy(entry, parameters, trainer.world()),
        })
        .collect();
    let named = names(parameters);
    for parallel in trainer.parallels().filter(|parallel| parallel.divides_parameters()) {
        for (shards, tensor) in parallel.pieces().into_iter().flatten().zip(parallel.updated()) {
            held.extend(shards.iter().map(|shard| piece(shard.parameter.clone(), shard, &named, &tensor)));
        }
    }
    held
}

/// The state of the optimizers that this rank holds.
fn optimizers(trainer: &Trainer) -> Vec<Held> {
    let (workload, world) = (trainer.workload(), trainer.world());
    let parameters = workload.parameters();
    let named = names(parameters);
    let mut held = Vec::new();
    for ((update, optimizer), parallel) in
        workload.updates().iter().zip(trainer.optimizers()).zip(trainer.parallels())
    {
        let pieces = parallel.pieces();
        for (kind, tensors) in optimizer.state() {
            if kind == STEP {
                held.extend(tensors.iter().map(|count| Held {
                    stored: StoredTensor {
                        name: format!("{}.{STEP}", update.name),
                        shape: vec![],
                        region: None,
                    },
                    tensor: count.shallow_clone(),
                    is_written: world.mesh.rank(world.at) == 0,
                }));
                continue;
            }
            let name = |parameter: &str| state_name(update, kind, parameter);
            match &pieces {
                Some(pieces) => {
                    assert_eq!(tensors.len(), pieces.len(), "there is one '{kind}' for each shard");
                    for (shards, tensor) in pieces.iter().zip(tensors) {
                        let of_shard = |shard: &Shard| piece(name(&shard.parameter), shard, &named, tensor);
                        held.extend(shards.iter().map(of_shard));
                    }
                }
                None => {
                    let moved: Vec<_> = parameters.trainable(update.parameter_prefix).collect();
                    assert_eq!(tensors.len(), moved.len(), "there is one '{kind}' for each parameter");
                    held.extend(moved.into_iter().zip(tensors).map(|(entry, tensor)| Held {
                        stored: stored(name(entry.name()), entry, region_of(entry)),
                        tensor: tensor.shallow_clone(),
                        is_written: is_first_copy(entry, parameters, world),
                    }));
                }
            }
        }
    }
    held
}

fn names(parameters: &Parameters) -> HashMap<&str, &Entry> {
    parameters.state().map(|entry| (entry.name(), entry)).collect()
}

fn stored(name: String, entry: &Entry, region: Option<Region>) -> StoredTensor {
    StoredTensor { name, shape: sizes(entry.shape()), region }
}

fn region_of(entry: &Entry) -> Option<Region> {
    entry.slice().map(|Slice { dim, ranges }| Region::Slice {
        dim: *dim,
        ranges: ranges.iter().map(|range| range.start as usize..range.end as usize).collect(),
    })
}

/// Whether this rank is the first that holds these numbers.
fn is_first_copy(entry: &Entry, parameters: &Parameters, world: &World) -> bool {
    let is_of_first_stage = parameters.links().is_none_or(|held| held.contains(&entry.links()[0]));
    let is_of_tensor_rank = entry.slice().is_some() || world.at.tensor == 0;
    is_of_first_stage && is_of_tensor_rank && world.at.data == 0
}

/// The numbers of a parameter in a shard, or of something that has a number for each of the shard.
fn piece(name: String, shard: &Shard, named: &HashMap<&str, &Entry>, tensor: &Tensor) -> Held {
    let entry = named[shard.parameter.as_str()];
    let region =
        Region::Numbers { first: shard.first as usize, count: shard.count as usize, order: order(entry) };
    Held {
        stored: stored(name, entry, Some(region)),
        tensor: tensor.narrow(0, shard.place, shard.count),
        is_written: true,
    }
}

/// The dimensions of a parameter in the order of its memory, from the slowest to the fastest.
fn order(entry: &Entry) -> Vec<usize> {
    let strides = entry.tensor().stride();
    let mut order: Vec<usize> = (0..strides.len()).collect();
    // A dimension of one element may have the stride of another one, and its place makes no difference.
    order.sort_by_key(|dim| Reverse(strides[*dim]));
    order
}

fn sizes(shape: &[i64]) -> Vec<usize> {
    shape.iter().map(|size| *size as usize).collect()
}
