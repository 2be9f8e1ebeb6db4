//! `sched plan`: the best plan for each number of devices and cores.

use schema::plan::Plan;
use schema::words;
use serde::{Deserialize, Serialize};

use crate::fitted::{BasisWord, FormulaName};

words! {
    /// What a peak of memory is known from.
    MemorySource {
        /// The configuration was measured.
        Measured = "measured",
        /// The plan, or one that needs as much or more, ran on a device of this memory.
        Ran = "ran",
        /// The plan, or one that needs as little or less, did not fit on a device of less memory.
        Unfit = "unfit",
        /// A formula with coefficients that were fitted to measured peaks.
        Fitted = "fitted",
        /// A formula with coefficients that are usual for models of its kind.
        Assumed = "assumed",
        /// Model states alone: a lower bound.
        States = "states",
    }
}

words! {
    /// By what plans are compared.
    RankBy {
        /// The median of the predicted time of a step.
        Median = "median",
        /// Its mean, which is longer than the median by more the wider the interval is.
        Mean = "mean",
        /// The upper end of its 95 % interval.
        Upper = "upper",
    }
}

/// The best plan for a number of devices, and the point of the resource-sensitivity curve there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BestPlan {
    pub workload: String,
    pub global_batch: u32,
    /// The number of devices that are offered.
    pub devices: u32,
    /// Cores of the host that are offered for each rank, if known.
    pub cpus: Option<u16>,
    /// 1 for the best plan, and 2 for the next best.
    pub order: u32,
    /// Absent, with all that follows of it, if no plan fits.
    pub plan: Option<Plan>,
    /// The devices that the plan takes, at most as many as are offered.
    pub ranks: Option<u32>,
    /// Number of nodes that they are on.
    pub nodes: Option<u32>,
    pub step_ns: Option<u64>,
    /// The 95 % interval.
    pub step_ns_ci_lo: Option<u64>,
    pub step_ns_ci_hi: Option<u64>,
    pub samples_per_s: Option<f64>,
    /// What the time stands on.
    pub basis: Option<BasisWord>,
    /// Absent if the configuration was measured.
    pub formula: Option<FormulaName>,
    /// Peak of the largest rank, with the memory of CUDA itself on a GPU; absent if it is not known.
    pub memory_bytes: Option<u64>,
    /// The upper end of the 95 % interval; plans fit if it does.
    pub memory_bytes_ci_hi: Option<u64>,
    pub memory_source: Option<MemorySource>,
    /// The best of the measured plans that fit, if `plan` is none of them.
    pub measured_plan: Option<Plan>,
    pub measured_step_ns: Option<u64>,
    /// The resource-sensitivity curve: what is worth taking of the devices and cores that are offered.
    pub curve_plan: Option<Plan>,
    pub curve_devices: Option<u32>,
    pub curve_cpus: Option<u16>,
    pub curve_samples_per_s: Option<f64>,
}
