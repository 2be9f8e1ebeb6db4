//! The seven parameters of Pollux (Qiao et al., OSDI 2021, section 3.2).
//!
//! With K devices and the batch b of a rank:
//!
//! ```text
//! T_grad = ac + bc b
//! T_sync = 0 (K = 1) | al + bl (K - 2) (one node) | an + bn (K - 2) (several)
//! T      = (T_grad^g + T_sync^g)^(1/g), g >= 1; here g = 1 + gm
//! ```

use num_dual::DualNum;

use super::{
    Parameter, Step,
    batches::{batch_of_rank, compute_guess},
    overlapped, parameter,
};
use crate::{Observation, Setting, priors::Prior};

pub(super) const PARAMETERS: [Parameter; 7] = [
    parameter("ac", "s", "compute that does not depend on the batch"),
    parameter("bc", "s", "compute of a sample"),
    parameter("al", "s", "synchronisation of two devices of a node"),
    parameter("bl", "s", "its growth by a device"),
    parameter("an", "s", "synchronisation of two devices of different nodes"),
    parameter("bn", "s", "its growth by a device"),
    parameter("gm", "", "overlap; 0 for no overlap"),
];

pub(super) fn priors(observations: &[Observation]) -> Vec<Prior> {
    let (fixed, of_sample) = compute_guess(observations);
    let p = |mean, sd| Prior { mean, sd };
    vec![
        p(fixed, 3.0),
        p(of_sample, 3.0),
        p(0.2 * fixed, 3.0),
        p(0.01 * fixed, 3.0),
        p(fixed, 3.0),
        p(0.01 * fixed, 3.0),
        p(1.0, 1.5),
    ]
}

pub(super) fn step<D: DualNum<f64> + Copy>(values: &[D], setting: &Setting) -> Step<D> {
    let &[ac, bc, al, bl, an, bn, gm] = values else {
        unreachable!("there are as many values as parameters")
    };
    let more = f64::from(setting.placement.devices) - 2.0;
    let compute = bc * batch_of_rank(setting) + ac;
    let synchronised = match (setting.placement.devices, setting.placement.nodes) {
        (1, _) => D::from(0.0),
        (_, 1) => bl * more + al,
        _ => bn * more + an,
    };
    Step::of(overlapped(compute, synchronised, gm + 1.0))
}
