//! The time of a step of plain data parallelism, as it depends on the batch of a rank.
//!
//! With K devices on N nodes, the most devices M of a node, and the batch b of a rank:
//!
//! ```text
//! Tg = (ac + bc b (1 + cc b / b_max)) (1 + st log2 K + ct (M - 1) / 3)
//! Ts = 0 (K = 1) | vn (arr + brr max(K - 2, 0)) (one node) | vn (r2^[N = 2] (K - 1) / K + lr (K - 2)) (several)
//! T  = (Tg^k + Ts^k)^(1/k), k = 1 + gm
//! ```
//!
//! The form is that of Pollux (OSDI 2021, section 3.2) with a curved compute time, and with rings of two nodes apart.

use num_dual::DualNum;
use schema::plan::Plan;

use super::{Parameter, Step, overlapped, parameter};
use crate::{Observation, Setting, priors::Prior};

pub(super) const PARAMETERS: [Parameter; 12] = [
    parameter("ac", "s", "compute that does not depend on the batch"),
    parameter("bc", "s", "compute of a sample"),
    parameter("cc", "", "its growth up to the largest batch"),
    parameter("b_max", "", "the largest batch of a rank that was measured"),
    parameter("st", "", "growth of compute with each doubling of devices"),
    parameter("ct", "", "growth of compute by three more devices of a node"),
    parameter("vn", "s", "synchronisation across nodes"),
    parameter("arr", "", "that within a node, over it"),
    parameter("brr", "", "its growth by a device"),
    parameter("r2", "", "cost of a ring of two nodes"),
    parameter("lr", "", "growth of synchronisation across nodes by a device"),
    parameter("gm", "", "overlap; 0 for no overlap"),
];

/// The batch of a rank.
pub(super) fn batch_of_rank(setting: &Setting) -> f64 {
    f64::from(setting.global_batch) / f64::from(setting.placement.devices)
}

/// A compute time per sample and a fixed one, as the extremes of the observations on few devices suggest.
pub(super) fn compute_guess(observations: &[Observation]) -> (f64, f64) {
    let per_sample = |observation: &Observation| observation.step_s / batch_of_rank(&observation.setting);
    let least = observations.iter().map(per_sample).fold(f64::INFINITY, f64::min);
    let shortest = observations.iter().map(|observation| observation.step_s).fold(f64::INFINITY, f64::min);
    match least.is_finite() {
        true => (0.5 * shortest, 0.7 * least),
        false => (1e-2, 1e-3),
    }
}

pub(super) fn priors(observations: &[Observation]) -> Vec<Prior> {
    let (fixed, of_sample) = compute_guess(observations);
    let largest =
        observations.iter().map(|observation| batch_of_rank(&observation.setting)).fold(1.0, f64::max);
    let p = |mean, sd| Prior { mean, sd };
    vec![
        p(fixed, 2.0),
        p(of_sample, 2.0),
        p(0.23, 0.7),
        Prior::given(largest),
        p(0.022, 0.49),
        p(0.031, 0.56),
        p(fixed, 2.0),
        p(0.2, 0.7),
        p(0.05, 0.7),
        p(1.54, 0.21),
        p(0.014, 0.7),
        p(1.5, 0.42),
    ]
}

pub(super) fn applies(setting: &Setting) -> Result<(), &'static str> {
    let plain = Plan { dp: setting.plan.dp, ..Plan::default() };
    if setting.plan != plain {
        return Err("its plan is not plain data parallelism");
    }
    match setting.placement.devices == plan_devices(setting) && setting.ranks_per_device == 1 {
        true => Ok(()),
        false => Err("its plan takes another number of devices"),
    }
}

fn plan_devices(setting: &Setting) -> u32 {
    setting.plan.ranks()
}

pub(super) fn step<D: DualNum<f64> + Copy>(values: &[D], setting: &Setting) -> Step<D> {
    let &[ac, bc, cc, b_max, st, ct, vn, arr, brr, r2, lr, gm] = values else {
        unreachable!("there are as many values as parameters")
    };
    let placement = &setting.placement;
    let (devices, most) = (f64::from(placement.devices), f64::from(placement.most));
    let batch = batch_of_rank(setting);
    let grown = (cc / b_max * batch + 1.0) * bc * batch + ac;
    let compute = grown * (st * devices.log2() + ct * ((most - 1.0) / 3.0) + 1.0);
    let synchronised = match (placement.devices, placement.nodes) {
        (1, _) => D::from(0.0),
        (_, 1) => vn * (brr * (devices - 2.0) + arr),
        (_, nodes) => {
            let ring = if nodes == 2 { r2 } else { D::from(1.0) };
            vn * (ring * ((devices - 1.0) / devices) + lr * (devices - 2.0))
        }
    };
    Step::of(overlapped(compute, synchronised, gm + 1.0))
}
