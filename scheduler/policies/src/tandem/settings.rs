//! The settings of `tandem`, as they follow its name: `tandem:preempt=off:bound=12h`. All parts are on by default, and an ablation switches
//! them off one by one.

use std::ops::Bound::Included;

use schema::units::Nanos;

use crate::kit::{
    elastic::Freedom,
    settings::{Kind, Setting, Values},
};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Settings {
    /// The power of the number of devices in the key of a job: 0 orders by remaining time, and 1 by remaining service.
    pub(super) width: f64,
    pub(super) preempts: bool,
    pub(super) packs: bool,
    pub(super) freedom: Freedom,
    pub(super) grows: bool,
    /// Whether a guaranteed job keeps the speed that it has with what it asks for.
    pub(super) guarantees: bool,
    /// The wait after which a job comes before all others. `None` for never.
    pub(super) bound: Option<Nanos>,
}

pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        "width",
        Kind::number("POWER", Included(0.0), Included(1.0)),
        "0.5",
        "the power of the number of devices by which the remaining time is multiplied in the order of jobs: 0 is the order of srtf, and 1 that \
         of srsf",
    ),
    Setting::new("preempt", Kind::ON_OFF, "on", "whether running jobs are stopped for others where that pays"),
    Setting::new("pack", Kind::ON_OFF, "on", "whether jobs share devices where the gain is sure and that pays"),
    Setting::new("plans", Kind::ON_OFF, "on", "whether elastic jobs are given other plans on as many devices"),
    Setting::new("resize", Kind::ON_OFF, "on", "whether elastic jobs are given other numbers of devices"),
    Setting::new(
        "grow",
        Kind::ON_OFF,
        "on",
        "whether elastic jobs take devices for which no job waits; needs resize=on",
    ),
    Setting::new(
        "guarantee",
        Kind::ON_OFF,
        "on",
        "whether guaranteed jobs keep the speed that they have with what they ask for",
    ),
    Setting::new("bound", Kind::TIME, "never", "the wait after which a job comes before all others")
        .or("never")
        .such_as("12h"),
];

impl Settings {
    pub(super) fn read(values: &Values) -> Settings {
        let freedom = Freedom {
            plans: values.is_on("plans"),
            resources: values.is_on("resize"),
            quantile: 0.5,
        };
        Settings {
            width: values.number("width"),
            preempts: values.is_on("preempt"),
            packs: values.is_on("pack"),
            freedom,
            grows: values.is_on("grow") && freedom.resources,
            guarantees: values.is_on("guarantee"),
            bound: values.time_or_none("bound"),
        }
    }
}
