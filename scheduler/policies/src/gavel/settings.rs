//! The settings of Gavel, as they follow its name: `gavel:objective=max-min:space-sharing=on`.

use schema::units::Nanos;

use crate::kit::{
    in_order::every,
    settings::{Kind, Setting, Values},
};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) objective: Objective,
    /// Whether two jobs may share devices.
    pub(super) shares: bool,
    /// The length of a round.
    pub(super) every: Nanos,
}

/// What an allocation is the best for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Objective {
    /// The largest smallest share of service.
    MaxMin,
    /// The largest sum of normalised throughputs.
    MaxThroughput,
    /// The smallest largest finish-time fairness.
    FinishTime,
}

pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        "objective",
        Kind::Words(&["max-min", "max-throughput", "finish-time"]),
        "max-min",
        "what the allocation is the best for",
    ),
    Setting::new("space-sharing", Kind::ON_OFF, "off", "whether two jobs may share devices"),
    every("360s"),
];

impl Settings {
    pub(super) fn read(values: &Values) -> Settings {
        let objectives = [
            ("max-min", Objective::MaxMin),
            ("max-throughput", Objective::MaxThroughput),
            ("finish-time", Objective::FinishTime),
        ];
        Settings {
            objective: values.word("objective", &objectives),
            shares: values.is_on("space-sharing"),
            every: values.time("every"),
        }
    }
}
