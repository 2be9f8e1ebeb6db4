//! The settings of Gandiva, as they follow its name: `gandiva:quantum=5s:pack=off`.

use std::ops::Bound::Included;

use anyhow::ensure;
use schema::units::Nanos;

use super::rates::LAPS;
use crate::kit::{
    search::{ETA, KEEP, RUNG, Rule, SEARCH, TARGET},
    settings::{Kind, Setting, Values},
};

/// The largest number of laps that a rate may need: a move that changes nothing is judged by twice as many.
const MOST_REPORTS: usize = LAPS / 2;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Settings {
    /// The time between two turns, in which jobs are chosen that run until the next one.
    pub(super) quantum: Nanos,
    /// Whether more jobs are placed on devices than run there at a time.
    pub(super) slices: bool,
    pub(super) packs: bool,
    pub(super) migrates: bool,
    pub(super) grows: bool,
    /// The time for which devices are free before a job grows.
    pub(super) idle: Nanos,
    /// The time after which a job that waits is placed without regard to the affinity of nodes.
    pub(super) relax: Nanos,
    /// The number of reports that an estimate of a rate needs.
    pub(super) reports: usize,
    /// The largest share of its time that a job may lose by restarts if it moves to devices that are not less loaded, or if a restart takes
    /// longer than a quantum.
    pub(super) moves: f64,
    /// What is done with the members of searches.
    pub(super) search: Rule,
}

pub(super) const SETTINGS: &[Setting] = &[
    Setting::new("quantum", Kind::ROUND, "60s", "the time between two turns"),
    Setting::new(
        "slice",
        Kind::ON_OFF,
        "on",
        "whether jobs take turns; with off, a job waits for free devices, and no job moves",
    ),
    Setting::new("pack", Kind::ON_OFF, "on", "whether jobs are packed; needs slice=on"),
    Setting::new(
        "migrate",
        Kind::ON_OFF,
        "on",
        "whether jobs move to other nodes; with off, a suspended job still moves within its node",
    ),
    Setting::new("grow", Kind::ON_OFF, "on", "whether elastic jobs take further devices"),
    Setting::new(
        "idle",
        Kind::TIME,
        "quantum",
        "the time for which devices are free before a job grows; one quantum if it is not given",
    )
    .or("quantum")
    .such_as("10s"),
    Setting::new(
        "relax",
        Kind::TIME,
        "10-quanta",
        "the wait after which a job shares devices on nodes of another affinity; ten quanta if it is not given",
    )
    .or("10-quanta")
    .such_as("1m"),
    Setting::new(
        "reports",
        Kind::whole("N", 2.0, MOST_REPORTS as f64),
        "5",
        "the number of laps that a rate needs; a lap is the time of at least 5 steps between two reports",
    ),
    Setting::new(
        "moves",
        Kind::number("SHARE", Included(0.0), Included(1.0)),
        "0.03",
        "a job moves only if all its restarts, this one included, take at most this share of the time since its first start; to \
         less loaded devices it also moves if the restart takes no longer than a quantum, and to share devices with other jobs only \
         if it is behind them by a quantum and by a time of which the restart is at most this share",
    ),
    SEARCH,
    ETA,
    RUNG,
    KEEP,
    TARGET,
];

impl Settings {
    /// Reads the settings.
    ///
    /// # Errors
    /// Fails if they do not fit together.
    pub(super) fn read(values: &Values) -> anyhow::Result<Settings> {
        let quantum = values.time("quantum");
        let made = Settings {
            quantum,
            slices: values.is_on("slice"),
            packs: values.is_on("pack"),
            migrates: values.is_on("migrate"),
            grows: values.is_on("grow"),
            idle: values.time_or_none("idle").unwrap_or(quantum),
            relax: values.time_or_none("relax").unwrap_or(Nanos(quantum.0.saturating_mul(10))),
            reports: values.number("reports") as usize,
            moves: values.number("moves"),
            search: Rule::read(values)?,
        };
        ensure!(
            made.slices || !made.packs,
            "jobs are packed only where they take turns; write pack=off, too"
        );
        ensure!(
            made.slices || !made.search.holds(),
            "members that wait at a rung keep their devices, and others take turns there; leave out slice=off"
        );
        Ok(made)
    }
}
