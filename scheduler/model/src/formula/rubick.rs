//! Rubick's formula for data parallelism, ZeRO and offload (arXiv 2408.08586), as the released code has it (repository
//! AlibabaPAI/reconfigurable-dl-scheduler, `pred_throughput.py`).
//!
//! With g devices, c cores of the host for each, P parameters in 10^9, A micro-batches:
//!
//! ```text
//! T_fwd  = t_fwd b                              measured: a forward pass of the b samples of a micro-batch of a rank
//! T_bwd  = k_bwd T_fwd
//! T_cc   = f(T_bwd, 8 P (g - 1) / g / b_link)   f(x, y) = (x^k + y^k)^(1/k), k = k_sync
//! T_off  = 4 P / g / b_pcie                     under offload, else 0
//! T_oo   = k_opt P | k_opt P / g (ZeRO) | k_opt_off P / (g c) + k_swap + T_off (offload)
//! T      = alpha_f T_fwd + (A - 1) T_bwd + T_cc [+ k_off + T_off] + T_oo + k_const
//! ```
//!
//! alpha_f is A, and 2 A with gc. k_bwd and k_sync are at least 1. The published parameters are in ms and count parameters in
//! 2^20: `k_opt` and `k_opt_off` here are those times 10^-3 · 10^9 / 2^20, the others those times 10^-3, and a bandwidth here is that
//! times 2^20 / 10^6.

use num_dual::DualNum;
use schema::plan::Precision;

use super::{Parameter, Step, overlapped, parameter, seconds_per_sample};
use crate::{
    Observation, Setting,
    priors::{Parts, Prior},
};

pub(super) const PARAMETERS: [Parameter; 11] = [
    parameter("k_bwd_1", "", "backward over forward passes, less 1"),
    parameter("k_sync_1", "", "overlap of backward passes with all-reduces; 0 for no overlap"),
    parameter("k_opt", "s/G", "update of 10^9 parameters on a device"),
    parameter("k_opt_off", "s/G", "update of 10^9 parameters on a core of the host"),
    parameter("k_const", "s", "rest of a step"),
    parameter("k_off", "s", "offload of gradients"),
    parameter("k_swap", "s", "offload of parameters"),
    parameter("t_fwd", "s", "forward pass of a sample, as measured"),
    parameter("b_intra", "GB/s", "bandwidth between devices of a node"),
    parameter("b_inter", "GB/s", "bandwidth between nodes"),
    parameter("b_pcie", "GB/s", "bandwidth between a device and its host"),
];

/// Cores of the host for each rank where a row does not have them.
const CORES: f64 = 4.0;

pub(super) fn priors(parts: &Parts, observations: &[Observation]) -> Vec<Prior> {
    let p = |mean, sd| Prior { mean, sd };
    vec![
        p(0.8, 1.0),
        p(0.2, 2.0),
        p(0.02, 4.0),
        p(2.0, 2.0),
        p(0.01, 2.0),
        p(0.02, 2.0),
        p(0.02, 2.0),
        Prior::given(forward_per_sample(observations)),
        Prior::given(parts.intra.mean),
        parts.inter,
        Prior::given(parts.host_link),
    ]
}

/// The forward pass of a sample: of the row with the fewest devices that has its time; else a quarter of the time of a step under gc or
/// without it, because a step is about three forward passes and one that is repeated.
pub(crate) fn forward_per_sample(observations: &[Observation]) -> f64 {
    let fewest = |observations: &mut dyn Iterator<Item = (u32, f64)>| {
        observations.min_by_key(|(devices, _)| *devices).map(|(_, time)| time)
    };
    let of = |observation: &Observation, time: f64| {
        let passes = observation.setting.micro_batch() * f64::from(observation.setting.plan.ga);
        (observation.setting.placement.devices, time / passes)
    };
    let is_plain = |observation: &&Observation| {
        let plan = observation.setting.plan;
        !plan.offload && plan.zero == 0 && plan.precision == Precision::Fp32
    };
    let measured = &mut observations.iter().filter(is_plain).filter_map(|row| Some(of(row, row.forward_s?)));
    let repeated = observations.iter().filter(is_plain).filter(|row| row.setting.plan.gc);
    fewest(measured)
        .or_else(|| fewest(&mut repeated.map(|row| of(row, row.step_s / 4.0))))
        .unwrap_or_else(|| seconds_per_sample(observations) / 3.0)
}

pub(super) fn applies(setting: &Setting) -> Result<(), &'static str> {
    if setting.billions().is_none() {
        return Err("the number of parameters of its model is not known");
    }
    if setting.divides_the_model() {
        return Err("its plan has tensor or pipeline parallelism");
    }
    if setting.plan.precision != Precision::Fp32 {
        return Err("its plan has bf16");
    }
    match setting.placement.devices == setting.plan.ranks() && setting.ranks_per_device == 1 {
        true => Ok(()),
        false => Err("its plan takes another number of devices"),
    }
}

pub(super) fn step<D: DualNum<f64> + Copy>(values: &[D], setting: &Setting) -> Step<D> {
    let &[k_bwd, k_sync, k_opt, k_opt_off, k_const, k_off, k_swap, t_fwd, b_intra, b_inter, b_pcie] = values
    else {
        unreachable!("there are as many values as parameters")
    };
    let plan = &setting.plan;
    let (devices, micro_batches) = (f64::from(plan.dp), f64::from(plan.ga));
    let billions = setting.billions().unwrap_or_default();
    let forward = t_fwd * setting.micro_batch();
    let backward = forward * (k_bwd + 1.0);
    let link = if setting.placement.nodes > 1 { b_inter } else { b_intra };
    let reduced = link.recip() * (8.0 * billions * (devices - 1.0) / devices);
    let synchronised = overlapped(backward, reduced, k_sync + 1.0);
    let passes = if plan.gc { 2.0 * micro_batches } else { micro_batches };
    let offloaded = b_pcie.recip() * (4.0 * billions / devices);
    let (exposed, updated) = if plan.offload {
        let cores = setting.cpus.map_or(CORES, f64::from);
        (k_off + offloaded, k_opt_off * (billions / (devices * cores)) + k_swap + offloaded)
    } else if plan.zero > 0 {
        (D::from(0.0), k_opt * (billions / devices))
    } else {
        (D::from(0.0), k_opt * billions)
    };
    let overlapping = backward * (micro_batches - 1.0) + synchronised;
    let total = forward * passes + overlapping + exposed + updated + k_const;
    Step { total, synchronised: Some(overlapping + exposed), updated: Some(updated) }
}
