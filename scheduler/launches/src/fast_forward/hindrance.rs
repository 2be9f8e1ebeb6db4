//! Why steps are not skipped.

use std::{collections::BTreeMap, fmt};

use schema::units::Nanos;

/// A condition that keeps the clock from being advanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hindrance {
    /// A launch begins, is paused, resumed or saved, or leaves.
    Switch,
    /// The present window of a job is too short.
    Measuring,
    /// The step time of a job changes, or its mean is too uncertain.
    Unsteady,
    /// A job does its last steps.
    LastSteps,
    /// An event is near: a report, an arrival, a checkpoint, or the time at which the policy asks to be woken.
    NearEvent,
    /// A job may run for a share of the time only, and works in bursts.
    Throttled,
    /// A job runs until it ends by itself.
    NoEnd,
    /// Nothing trains, and nothing is expected.
    Nothing,
}

impl fmt::Display for Hindrance {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Hindrance::Switch => "switches",
            Hindrance::Measuring => "measured steps",
            Hindrance::Unsteady => "unsteady steps",
            Hindrance::LastSteps => "last steps of jobs",
            Hindrance::NearEvent => "steps up to the next event",
            Hindrance::Throttled => "throttled jobs",
            Hindrance::NoEnd => "jobs without a number of steps",
            Hindrance::Nothing => "waiting",
        })
    }
}

/// The time for which each hindrance was the first one that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waited(BTreeMap<Hindrance, Nanos>);

impl Waited {
    pub(super) fn add(&mut self, hindrance: Hindrance, time: Nanos) {
        *self.0.entry(hindrance).or_default() += time;
    }

    pub fn of(&self, hindrance: Hindrance) -> Nanos {
        self.0.get(&hindrance).copied().unwrap_or_default()
    }
}

impl fmt::Display for Waited {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(|(why, time)| format!("{why} {time}")).collect();
        out.write_str(&parts.join(", "))
    }
}
