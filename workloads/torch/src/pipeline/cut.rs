//! The division of a model into stages.

use std::ops::Range;

use anyhow::ensure;
use schema::catalog::Workload;
use tch::{Kind, Tensor};

use crate::{
    models,
    nn::{flops, parameters::Parameters, precision::in_fp64, tensor_parallel::TensorParallel},
    shapes,
};

/// The stages of a model, and the tensors that pass between them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cut {
    /// The links of each stage.
    pub(crate) stages: Vec<Range<usize>>,
    /// The carry behind each stage but the last.
    pub(crate) boundaries: Vec<Vec<Passed>>,
}

/// A tensor that passes from a stage to the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) shape: Vec<i64>,
    /// Floating-point numbers pass in the kind of the parameters, also where autocast made them bf16, so that both sides
    /// know it.
    pub(crate) kind: Kind,
    /// Whether its gradient comes back.
    pub(crate) has_gradient: bool,
}

/// Cuts the model of a workload into `stages` stages for micro-batches of `samples` samples, on a rank that has its part of
/// each layer. The largest stage has as few floating-point operations as possible. They are counted and not timed, so that
/// every launch of a job, and every rank of a launch, has the same cut.
///
/// # Errors
/// The model is no chain of links, or has fewer links than there are stages.
pub(crate) fn cut(
    workload: &Workload,
    exact: bool,
    samples: i64,
    ranks: &TensorParallel,
    stages: usize,
) -> anyhow::Result<Cut> {
    let whole = Walk::of(workload, exact, samples, TensorParallel::default())?;
    let links = whole.operations.len();
    let name = &workload.name;
    ensure!(stages <= links, "{name} has {links} links, which cannot be cut into {stages} stages");
    // Tensor-parallel ranks have different parts of some carries, and all of them the same cut.
    let carries = if ranks.is_alone() {
        whole.carries
    } else {
        Walk::of(workload, exact, samples, ranks.absent())?.carries
    };
    let stages = balance(&whole.operations, stages);
    let boundaries = stages[..stages.len() - 1].iter().map(|links| carries[links.end - 1].clone()).collect();
    Ok(Cut { stages, boundaries })
}

/// A pass of shapes through all links of a model.
struct Walk {
    /// Floating-point operations of each link.
    operations: Vec<u64>,
    /// The carry behind each link.
    carries: Vec<Vec<Passed>>,
}

impl Walk {
    fn of(workload: &Workload, exact: bool, samples: i64, ranks: TensorParallel) -> anyhow::Result<Self> {
        let shapes = Parameters::shapes_only().part_of(ranks, None);
        let model = models::build_in(workload, if exact { shapes.exact() } else { shapes })?;
        let Some(supervised) = model.supervised() else {
            anyhow::bail!("{} is no chain of links, and cannot be cut into stages", workload.name)
        };
        let inputs = shapes::inputs(workload, samples)?;
        let mut carry = vec![if exact { in_fp64(&inputs)? } else { inputs }];
        let mut walk = Walk { operations: Vec::new(), carries: Vec::new() };
        for link in 0..supervised.chain().count() {
            let (outputs, operations) = flops::count(|| supervised.chain().run_link(link, &carry));
            carry = outputs?;
            walk.operations.push(operations);
            walk.carries.push(carry.iter().map(|tensor| passed(tensor, model.parameters().kind())).collect());
        }
        Ok(walk)
    }
}

fn passed(tensor: &Tensor, kind: Kind) -> Passed {
    let is_float = matches!(tensor.kind(), Kind::Float | Kind::Double | Kind::BFloat16);
    Passed {
        shape: tensor.size(),
        kind: if is_float { kind } else { tensor.kind() },
        has_gradient: tensor.requires_grad(),
    }
}

/// Cuts links of these costs into ranges, none of which is empty, so that the costliest one is as cheap as possible. Of
/// equally good cuts it takes the one whose earlier stages are shorter.
fn balance(costs: &[u64], stages: usize) -> Vec<Range<usize>> {
    let count = costs.len();
    let cost = |links: Range<usize>| costs[links].iter().sum::<u64>();
    // The least cost of the costliest stage if `n` stages take the links from `first` on, and the end of their first one.
    let mut best = vec![vec![(u64::MAX, count); count]; stages + 1];
    best[1] = (0..count).map(|first| (cost(first..count), count)).collect();
    for n in 2..=stages {
        for first in 0..=count - n {
            let ends = first + 1..=count - (n - 1);
            let choice = |end| (cost(first..end).max(best[n - 1][end].0), end);
            best[n][first] = ends.map(choice).min().expect("there are enough links");
        }
    }
    let mut ranges = Vec::new();
    let mut first = 0;
    for n in (1..=stages).rev() {
        let (_, end) = best[n][first];
        ranges.push(first..end);
        first = end;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use schema::catalog::Catalog;

    use super::*;

    #[test]
    fn the_costliest_stage_is_as_cheap_as_it_can_be() {
        for (costs, stages, ends) in [
            (&[0, 5, 5, 5, 5, 8][..], 2, &[4, 6][..]),
            (&[0, 5, 5, 5, 5, 8], 3, &[3, 5, 6]),
            (&[1, 1, 1, 1], 4, &[1, 2, 3, 4]),
            (&[0, 0, 0, 9], 2, &[1, 4]),
            (&[9, 1, 1, 1], 2, &[1, 4]),
        ] {
            let found: Vec<_> = balance(costs, stages).iter().map(|range| range.end).collect();
            assert_eq!(found, ends, "{costs:?} in {stages}");
        }
    }

    #[test]
    fn the_carry_of_a_boundary_is_known_without_running_the_model() {
        let catalog = Catalog::embedded();
        let of = |name: &str| {
            let alone = TensorParallel::default();
            cut(catalog.get(name).unwrap(), false, 3, &alone, 2).unwrap()
        };
        let gpt2 = of("gpt2-mini");
        let [boundary] = &gpt2.boundaries[..] else { panic!("two stages have one boundary") };
        assert_eq!((boundary.len(), boundary[0].shape[0], boundary[0].has_gradient), (1, 3, true));
        let [boundary] = &of("t5-mini").boundaries[..] else { panic!("two stages have one boundary") };
        let kinds: Vec<_> = boundary.iter().map(|passed| (passed.kind, passed.has_gradient)).collect();
        assert_eq!(kinds[..2], [(Kind::Float, true), (Kind::Float, true)], "activations and bias");
        assert_eq!(boundary.len(), 3);
    }

    #[test]
    fn an_exact_model_of_images_has_the_same_cut_and_passes_fp64() {
        let catalog = Catalog::embedded();
        for name in ["resnet18-mini", "vit-mini"] {
            let of = |exact: bool| {
                let alone = TensorParallel::default();
                cut(catalog.get(name).unwrap(), exact, 3, &alone, 2).unwrap()
            };
            let (usual, exact) = (of(false), of(true));
            assert_eq!(usual.stages, exact.stages, "{name}");
            let kinds = |cut: &Cut| cut.boundaries[0].iter().map(|passed| passed.kind).collect::<Vec<_>>();
            assert_eq!((kinds(&usual), kinds(&exact)), (vec![Kind::Float], vec![Kind::Double]), "{name}");
        }
    }
}
