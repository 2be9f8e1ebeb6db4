//! Rubick's formula for tensor and pipeline parallelism (`throughput_3D` of AlibabaPAI/reconfigurable-dl-scheduler).
//!
//! With d, t and p the data, tensor and pipeline degrees, A micro-batches, m samples of a data-parallel rank, s the sequence, h the
//! width, L layers and P parameters in 10^9:
//!
//! ```text
//! T_fwd = t_fwd m / t (A + p - 1) / (A p)                 the released code takes a measured time for each configuration
//! T_bwd = k_bwd T_fwd
//! T_tp  = 8 · 4 s h m L (t - 1) / t / b_intra             four all-reduces a layer
//! T_pp  = 2 · 8 m s h / t / b_inter · p                   if p > 1
//! T_dp  = 8 (d - 1) / d P / (t p) / (b_intra if a node has more than t devices and p nodes, else b_inter)
//! T     = T_fwd + f(T_bwd, T_dp) + k_opt P / (t p) + k_const + T_pp + T_tp
//! ```
//!
//! `f` is the power mean with exponent k_sync. The factor of bubbles is that of 1F1B (Narayanan et al., SC 2021).

use num_dual::DualNum;
use schema::plan::Precision;

use super::{Parameter, Step, overlapped, parameter, seconds_per_sample};
use crate::{
    Observation, Setting,
    priors::{Parts, Prior},
};

pub(super) const PARAMETERS: [Parameter; 7] = [
    parameter("k_bwd_1", "", "backward over forward passes, less 1"),
    parameter("k_sync_1", "", "overlap of backward passes with all-reduces; 0 for no overlap"),
    parameter("k_opt", "s/G", "update of 10^9 parameters on a device"),
    parameter("k_const", "s", "rest of a step"),
    parameter("t_fwd", "s", "forward pass of a sample on one device"),
    parameter("b_intra", "GB/s", "bandwidth between devices of a node"),
    parameter("b_inter", "GB/s", "bandwidth between nodes"),
];

pub(super) fn priors(parts: &Parts, observations: &[Observation]) -> Vec<Prior> {
    let p = |mean, sd| Prior { mean, sd };
    vec![
        p(1.0, 0.1),
        p(1.0, 1.0),
        p(0.03, 1.5),
        p(0.01, 1.5),
        p(0.2 * seconds_per_sample(observations), 5.0),
        Prior::given(parts.intra.mean),
        Prior::given(parts.inter.mean),
    ]
}

pub(super) fn applies(setting: &Setting) -> Result<(), &'static str> {
    let Setting { plan, placement, facts, .. } = setting;
    if !setting.divides_the_model() {
        return Err("its plan has neither tensor nor pipeline parallelism");
    }
    if plan.gc || plan.offload || plan.precision != Precision::Fp32 {
        return Err("its plan has gc, offload or bf16");
    }
    if setting.billions().is_none() || facts.layers.is_none() || setting.activations().is_none() {
        return Err("the parameters, the layers, the sequence or the width of its model are not known");
    }
    match placement.devices == plan.ranks() && setting.ranks_per_device == 1 {
        true => Ok(()),
        false => Err("its plan takes another number of devices"),
    }
}

pub(super) fn step<D: DualNum<f64> + Copy>(values: &[D], setting: &Setting) -> Step<D> {
    let &[k_bwd, k_sync, k_opt, k_const, t_fwd, b_intra, b_inter] = values else {
        unreachable!("there are as many values as parameters")
    };
    let Setting { plan, placement, facts, .. } = setting;
    let (data, tensor, stages) = (f64::from(plan.dp), f64::from(plan.tp), f64::from(plan.pp));
    let micro_batches = f64::from(plan.ga);
    let of_rank = setting.billions().unwrap_or_default() / (tensor * stages);
    let activations = setting.activations().unwrap_or_default();
    let layers = f64::from(facts.layers.unwrap_or_default());
    let samples = f64::from(setting.global_batch) / data;
    let bubbles = (micro_batches + stages - 1.0) / (micro_batches * stages);
    let forward = t_fwd * (samples / tensor * bubbles);
    let backward = forward * (k_bwd + 1.0);
    let is_local = placement.fewest > u32::from(plan.tp) && u32::from(plan.pp) == placement.nodes;
    let link = if is_local || placement.nodes == 1 { b_intra } else { b_inter };
    let reduced = link.recip() * (8.0 * (data - 1.0) / data * of_rank);
    let synchronised = overlapped(backward, reduced, k_sync + 1.0);
    let updated = k_opt * of_rank;
    let mut total = forward + synchronised + updated + k_const;
    total += b_intra.recip() * (8.0 * activations * layers * (tensor - 1.0) / tensor);
    if plan.pp > 1 {
        let between = if placement.nodes > 1 { b_inter } else { b_intra };
        total += between.recip() * (4.0 * activations / tensor * stages);
    }
    Step { total, synchronised: Some(synchronised), updated: Some(updated) }
}
