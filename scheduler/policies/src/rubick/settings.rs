//! The settings of Rubick, as they follow its name: `rubick:risk=0.9:restarts=5%`.

use std::ops::Bound::{Excluded, Included, Unbounded};

use schema::units::Nanos;

use crate::kit::{
    elastic::Freedom,
    settings::{Kind, Setting, Values},
};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Settings {
    /// The longest interval between rounds.
    pub(super) every: Nanos,
    pub(super) freedom: Freedom,
    /// The share of the time since its first start that a job may lose by restarts. `None` for any.
    pub(super) restarts: Option<f64>,
    /// A job keeps its guarantee if this many times its speed is that of what it asks for.
    pub(super) slack: f64,
    /// The largest number of restarts of a job.
    pub(super) most_restarts: Option<u32>,
    /// The time from its arrival from which on a job is not reconfigured.
    pub(super) shield: Option<Nanos>,
    /// The wait after which devices are kept for a guaranteed job. `None` for never.
    pub(super) bound: Option<Nanos>,
    /// Whether an exchange has to gain more work than its restarts cost.
    pub(super) counts_restarts: bool,
    /// Whether jobs give up devices for others that only gain, or that wait.
    pub(super) reclaims: bool,
    /// Whether jobs that wait are started on the devices of others.
    pub(super) packs: bool,
}

pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        "every",
        Kind::TIME,
        "60s",
        "the longest time between two rounds; a round also begins whenever a job arrives, ends or has settled",
    ),
    Setting::new(
        "only",
        Kind::Words(&["both", "plans", "resources", "nothing"]),
        "both",
        "what the policy may choose: plans, on the devices that a job asks for; resources, by another degree of data parallelism \
         of its plan; both or nothing",
    ),
    Setting::new(
        "risk",
        Kind::number("Q", Excluded(0.0), Excluded(1.0)),
        "0.5",
        "the quantile of the predicted times by which the policy decides; 0.9 is careful where predictions have wide intervals",
    ),
    Setting::new(
        "restarts",
        Kind::Percent,
        "any",
        "the share of the time since its first start that a job may lose by restarts, except for the guarantee and the start of \
         another job",
    )
    .or("any")
    .such_as("3%"),
    Setting::new(
        "pack",
        Kind::ON_OFF,
        "off",
        "whether waiting best-effort jobs are started beside jobs on the same number of devices, if the tables know both together \
         and the gain is sure, as for packing-fifo; the other job keeps its guarantee",
    ),
    Setting::new(
        "slack",
        Kind::number("FACTOR", Included(1.0), Unbounded),
        "1",
        "how many times slower than its guarantee a job may run; 1.5 in the artifact",
    )
    .such_as("1.5"),
    Setting::new(
        "most-restarts",
        Kind::whole("N", 0.0, 1e9),
        "any",
        "the largest number of restarts of a job; 5 in the artifact",
    )
    .or("any")
    .such_as("5"),
    Setting::new(
        "shield",
        Kind::TIME,
        "never",
        "the time from its arrival after which a job is not reconfigured; 200000s in the artifact",
    )
    .or("never")
    .such_as("200000s"),
    Setting::new(
        "bound",
        Kind::TIME,
        "10m",
        "the wait after which nodes are kept for a guaranteed job; with never, jobs that need fewer devices may pass it for ever",
    )
    .or("never"),
    Setting::new(
        "exchange",
        Kind::Words(&["benefit", "slope"]),
        "benefit",
        "when devices go to another job or plan: benefit, if the work that is gained until the job ends exceeds the work that others lose \
         and the restarts; slope, if the job gains more speed than others lose, whatever restarts cost, as in the artifact",
    ),
    Setting::new(
        "reclaim",
        Kind::ON_OFF,
        "on",
        "with off, no device is taken from one job for the gain or the start of another, as in the artifact, where a defect \
         prevents it",
    ),
];

impl Settings {
    pub(super) fn read(values: &Values) -> Settings {
        let (plans, resources) = values.word(
            "only",
            &[
                ("both", (true, true)),
                ("plans", (true, false)),
                ("resources", (false, true)),
                ("nothing", (false, false)),
            ],
        );
        Settings {
            every: values.time("every"),
            freedom: Freedom { plans, resources, quantile: values.number("risk"), margin: 0.0 },
            restarts: values.number_or_none("restarts"),
            slack: values.number("slack"),
            most_restarts: values.number_or_none("most-restarts").map(|most| most as u32),
            shield: values.time_or_none("shield"),
            bound: values.time_or_none("bound"),
            counts_restarts: values.word("exchange", &[("benefit", true), ("slope", false)]),
            reclaims: values.is_on("reclaim"),
            packs: values.is_on("pack"),
        }
    }
}
