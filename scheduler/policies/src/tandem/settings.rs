//! The settings of `tandem`, as they follow its name: `tandem:preempt=off:bound=12h`. Each part can be switched off, for an ablation.

use schema::units::Nanos;

use crate::kit::{
    elastic::Freedom,
    settings::{Kind, Setting, Values},
};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) preempts: bool,
    pub(super) packs: bool,
    pub(super) grows: bool,
    pub(super) freedom: Freedom,
    /// Whether a guaranteed job keeps the speed that it has with what it asks for.
    pub(super) guarantees: bool,
    /// The wait after which a job comes before all others. `None` for never.
    pub(super) bound: Option<Nanos>,
}

pub(super) const SETTINGS: &[Setting] = &[
    Setting::new("preempt", Kind::ON_OFF, "on", "whether running jobs give up devices to jobs that wait"),
    Setting::new(
        "pack",
        Kind::ON_OFF,
        "on",
        "whether two jobs share devices where the tables know both together, the gain is sure, and both together lose less time than the \
         job that waits would lose by waiting",
    ),
    Setting::new("plans", Kind::ON_OFF, "on", "whether elastic jobs are given plans of another kind"),
    Setting::new(
        "margin",
        Kind::Percent,
        "30%",
        "by how much a plan of another kind, and another option of a guaranteed job, has to be predicted to be faster: of many predictions \
         with errors, the best is too good",
    ),
    Setting::new("resize", Kind::ON_OFF, "on", "whether elastic jobs are given other numbers of devices"),
    Setting::new(
        "grow",
        Kind::ON_OFF,
        "on",
        "whether elastic jobs take more devices while no job waits; needs resize=on",
    ),
    Setting::new(
        "guarantee",
        Kind::ON_OFF,
        "on",
        "whether guaranteed jobs keep the speed that they have with what they ask for",
    ),
    Setting::new("bound", Kind::TIME, "never", "the wait after which a job comes before all others; it takes devices of running jobs with preempt=on alone")
        .or("never")
        .such_as("12h"),
];

impl Settings {
    pub(super) fn read(values: &Values) -> Settings {
        let freedom = Freedom {
            plans: values.is_on("plans"),
            resources: values.is_on("resize"),
            quantile: 0.5,
            margin: values.number("margin"),
        };
        Settings {
            preempts: values.is_on("preempt"),
            packs: values.is_on("pack"),
            grows: values.is_on("grow"),
            freedom,
            guarantees: values.is_on("guarantee"),
            bound: values.time_or_none("bound"),
        }
    }
}
