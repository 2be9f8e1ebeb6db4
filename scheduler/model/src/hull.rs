//! Where the rows of a fit lie, and how far outside of them a setting is.

use std::collections::BTreeSet;

use schema::plan::{Plan, Precision};

use crate::{Observation, Setting};

/// Standard deviation of the logarithm of a time for each unit of distance, beyond what the parameters leave open: with 0.12, 85 % or
/// more of the published rows that lie outside are in their intervals (`tests/reference.rs`).
const SPREAD: f64 = 0.12;

/// The distance of a kind that no row has.
const OF_KIND: f64 = 1.5;

/// The same of a kind on which most of the time of a step may depend: fits to published rows of one node are off on more by a factor of
/// 1.8 (the root of the mean square of logarithms over six tables), and by up to 3.4.
const OF_FAR_KIND: f64 = 5.0;

/// The ranges and the kinds of the rows of a fit. That of no rows contains everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Hull {
    /// The least and the largest binary logarithm of each quantity.
    ranges: Option<[(f64, f64); QUANTITIES]>,
    kinds: BTreeSet<Kind>,
}

const QUANTITIES: usize = 5;

/// What a plan or a placement has or lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Zero(u8),
    Offload(bool),
    Gc(bool),
    Precision(Precision),
    Tensor(bool),
    Pipeline(bool),
    SeveralNodes(bool),
    /// Nodes have different numbers of devices.
    Uneven(bool),
}

impl Kind {
    fn distance(self) -> f64 {
        match self {
            // The network, and the update on the host, which hides what runs beside it.
            Kind::SeveralNodes(true) | Kind::Offload(_) => OF_FAR_KIND,
            _ => OF_KIND,
        }
    }
}

impl Hull {
    pub(crate) fn of(rows: &[Observation]) -> Hull {
        let mut hull = Hull::default();
        rows.iter().for_each(|row| hull.add(&row.setting));
        hull
    }

    /// Takes a setting in, as that of one more row.
    pub(crate) fn add(&mut self, setting: &Setting) {
        let own = quantities(setting);
        let ranges = self.ranges.get_or_insert(own.map(|value| (value, value)));
        for ((least, largest), value) in ranges.iter_mut().zip(own) {
            *least = least.min(value);
            *largest = largest.max(value);
        }
        self.kinds.extend(kinds(setting));
    }

    /// The square of the distance of a setting: doublings beyond the range of each quantity, and that of each kind that no row has. From the
    /// first doubling on the square grows by twice as much with each, as that of errors that are independent of each other.
    fn squared_distance(&self, setting: &Setting) -> f64 {
        let Some(ranges) = &self.ranges else { return 0.0 };
        let beyond = |((least, largest), value): (&(f64, f64), f64)| {
            let doublings = (least - value).max(value - largest).max(0.0);
            if doublings > 1.0 { 2.0 * doublings - 1.0 } else { doublings.powi(2) }
        };
        let quantities: f64 = ranges.iter().zip(quantities(setting)).map(beyond).sum();
        let unknown = kinds(setting).into_iter().filter(|kind| !self.kinds.contains(kind));
        quantities + unknown.map(|kind| kind.distance().powi(2)).sum::<f64>()
    }

    pub(crate) fn contains(&self, setting: &Setting) -> bool {
        self.squared_distance(setting) < 1e-9
    }

    /// Variance of the logarithm of a time that its distance adds.
    pub(crate) fn variance(&self, setting: &Setting) -> f64 {
        SPREAD * SPREAD * self.squared_distance(setting)
    }
}

/// Binary logarithms of the devices, the nodes, the samples of a micro-batch, and the tensor and pipeline degrees.
fn quantities(setting: &Setting) -> [f64; QUANTITIES] {
    let Setting { plan, placement, .. } = setting;
    [
        f64::from(placement.devices),
        f64::from(placement.nodes),
        setting.micro_batch(),
        f64::from(plan.tp),
        f64::from(plan.pp),
    ]
    .map(f64::log2)
}

fn kinds(setting: &Setting) -> [Kind; 8] {
    let Plan { zero, offload, gc, precision, .. } = setting.plan;
    let is_uneven = setting.placement.fewest != setting.placement.most;
    [
        Kind::Zero(zero),
        Kind::Offload(offload),
        Kind::Gc(gc),
        Kind::Precision(precision),
        Kind::Tensor(setting.plan.tp > 1),
        Kind::Pipeline(setting.plan.pp > 1),
        Kind::SeveralNodes(setting.placement.nodes > 1),
        Kind::Uneven(is_uneven),
    ]
}
