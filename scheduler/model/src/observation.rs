//! A measured time of a step.

use crate::Setting;

/// The time of a step of a configuration, as measured. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    pub setting: Setting,
    pub step_s: f64,
    /// The forward pass of a step, all of its micro-batches.
    pub forward_s: Option<f64>,
    /// Backward passes with what is exposed of synchronisation.
    pub synchronised_s: Option<f64>,
    /// The update of the parameters.
    pub updated_s: Option<f64>,
}

impl Observation {
    pub fn new(setting: Setting, step_s: f64) -> Observation {
        Observation { setting, step_s, forward_s: None, synchronised_s: None, updated_s: None }
    }
}
