//! The settings of Lucid, as they follow its name: `lucid:sharing=on:bound=12h`.

use std::ops::Bound::{Included, Unbounded};

use schema::units::Nanos;

use crate::kit::settings::{Kind, Setting, Values};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) estimates: Estimator,
    /// The longest time for which a job is profiled.
    pub(super) profile: Nanos,
    /// The largest number of devices of a job that is profiled.
    pub(super) profile_devices: u32,
    /// Whether a job takes a checkpoint when it leaves the stage.
    pub(super) keeps_profiled_work: bool,
    /// Whether profiling costs the jobs that outlive it nothing.
    pub(super) is_profiling_free: bool,
    pub(super) sharing: Sharing,
    /// Jobs share if more than this number are expected in each bin of arrivals.
    pub(super) busy: f64,
    pub(super) bin: Nanos,
    /// Whether a job is packed even if devices are free.
    pub(super) shares_first: bool,
    /// The largest sum of the scores of two classes.
    pub(super) score: u32,
    /// Two jobs whose times together are predicted are packed if the sum of their throughputs is above this.
    pub(super) least_gain: f64,
    pub(super) pick: Pick,
    /// The wait after which a job holds up all others. `None` for no bound.
    pub(super) bound: Option<Nanos>,
    pub(super) backfill: Backfill,
}

/// The estimator of the time for which jobs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Estimator {
    Additive,
    Rolling,
}

/// When jobs share devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    ByLoad,
    Always,
    Never,
}

/// The choice among jobs that a job may be packed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// The one with the largest predicted gain. Those of which none is predicted come after those with one.
    Best,
    /// The first in the trace.
    First,
}

/// When a job that does not fit is passed by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backfill {
    Always,
    WhileSharing,
    Never,
}

pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        "estimates",
        Kind::Words(&["additive", "rolling"]),
        "additive",
        "how the time for which jobs run is estimated; rolling is the estimate of qssf",
    ),
    Setting::new("profile", Kind::TIME, "200s", "the longest time in the profiler stage"),
    Setting::new(
        "profile-devices",
        Kind::whole("N", 0.0, 1e9),
        "8",
        "jobs on more devices skip the profiler stage",
    ),
    Setting::new(
        "profile-checkpoint",
        Kind::ON_OFF,
        "off",
        "whether a job that leaves the profiler stage keeps its work",
    ),
    Setting::new(
        "sharing",
        Kind::Words(&["auto", "on", "off"]),
        "auto",
        "when jobs share devices: while the load is high, always or never",
    ),
    Setting::new(
        "busy",
        Kind::number("JOBS", Included(0.0), Unbounded),
        "2",
        "the number of jobs in each bin above which jobs share",
    ),
    Setting::new(
        "load-bin",
        Kind::Seconds(Nanos(3_600 * Nanos::SECOND.0)),
        "10m",
        "the length of a bin of arrivals",
    ),
    Setting::new(
        "share-first",
        Kind::ON_OFF,
        "off",
        "with off, a job is packed only if it would have to wait; with on, also if devices are free, as in the artifact",
    ),
    Setting::new(
        "score",
        Kind::whole("N", 0.0, 1e9),
        "2",
        "the largest sum of the scores of two jobs that share devices",
    ),
    Setting::new(
        "least-gain",
        Kind::number("FACTOR", Included(1.0), Unbounded),
        "1",
        "the bound of the sum of throughputs, each over the throughput alone; two jobs that take turns without loss have 1",
    )
    .such_as("1.1"),
    Setting::new(
        "pick",
        Kind::Words(&["best", "first"]),
        "best",
        "the running job that is joined: the job with the largest predicted gain, and if no gain is predicted, of the lightest \
         class; or the first in the trace",
    ),
    Setting::new(
        "bound",
        Kind::TIME,
        "7d",
        "a job that has waited for longer comes first and holds up all others of its virtual cluster; if it waits for the \
         profiler stage, it skips the stage; never in the artifact",
    )
    .or("never"),
    Setting::new(
        "backfill",
        Kind::Words(&["on", "sharing", "off"]),
        "on",
        "whether a job that does not fit is passed: always, only while jobs share, which is a confound of the artifact, or never",
    ),
    Setting::new(
        "free-profiling",
        Kind::ON_OFF,
        "off",
        "with on, a defect of the artifact, jobs that are known to outlive the profiler stage skip it and have their class at once",
    ),
];

impl Settings {
    pub(super) fn read(values: &Values) -> Settings {
        let estimators = [("additive", Estimator::Additive), ("rolling", Estimator::Rolling)];
        let sharing = [("auto", Sharing::ByLoad), ("on", Sharing::Always), ("off", Sharing::Never)];
        let backfill =
            [("on", Backfill::Always), ("sharing", Backfill::WhileSharing), ("off", Backfill::Never)];
        Settings {
            estimates: values.word("estimates", &estimators),
            profile: values.time("profile"),
            profile_devices: values.number("profile-devices") as u32,
            keeps_profiled_work: values.is_on("profile-checkpoint"),
            is_profiling_free: values.is_on("free-profiling"),
            sharing: values.word("sharing", &sharing),
            busy: values.number("busy"),
            bin: values.time("load-bin"),
            shares_first: values.is_on("share-first"),
            score: values.number("score") as u32,
            least_gain: values.number("least-gain"),
            pick: values.word("pick", &[("best", Pick::Best), ("first", Pick::First)]),
            bound: values.time_or_none("bound"),
            backfill: values.word("backfill", &backfill),
        }
    }
}
