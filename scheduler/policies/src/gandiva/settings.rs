//! The settings of Gandiva, as they follow its name: `gandiva:quantum=5s:pack=off`.

use anyhow::{bail, ensure};
use schema::units::Nanos;

use super::rates::LAPS;
use crate::kit::{search::Rule, settings::split};

/// The largest number of laps that a rate may need: a move that changes nothing is judged by twice as many.
const MOST_REPORTS: usize = LAPS / 2;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
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

impl Settings {
    pub(crate) const USAGE: &str = "[:quantum=TIME][:slice=off][:pack=off][:migrate=off][:grow=off][:idle=TIME][:relax=TIME][:reports=N][:moves=SHARE][:search=halving|keep|off][:eta=N][:rung=STEPS][:keep=M][:target=LOSS]";

    /// Parses the settings that follow the name. Without `idle` it is the quantum, and without `relax` ten times the quantum.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Settings> {
        let mut made = Settings {
            quantum: Nanos(60 * Nanos::SECOND.0),
            slices: true,
            packs: true,
            migrates: true,
            grows: true,
            idle: Nanos::ZERO,
            relax: Nanos::ZERO,
            reports: 5,
            moves: 0.03,
            search: Rule::default(),
        };
        let (mut idle, mut relax) = (None, None);
        for setting in split(text)? {
            if made.search.set(&setting)? {
                continue;
            }
            match setting.key {
                "quantum" => made.quantum = setting.time()?,
                "slice" => made.slices = setting.is_on()?,
                "pack" => made.packs = setting.is_on()?,
                "migrate" => made.migrates = setting.is_on()?,
                "grow" => made.grows = setting.is_on()?,
                "idle" => idle = Some(setting.time()?),
                "relax" => relax = Some(setting.time()?),
                "reports" => {
                    let is_valid =
                        |number: f64| number.fract() == 0.0 && (2.0..=MOST_REPORTS as f64).contains(&number);
                    made.reports = setting.number(is_valid)? as usize;
                }
                "moves" => made.moves = setting.number(|number| (0.0..=1.0).contains(&number))?,
                key => bail!("there is no setting '{key}'"),
            }
        }
        made.search.check()?;
        ensure!(made.quantum >= Nanos(Nanos::SECOND.0 / 10), "quantum needs at least 100ms");
        ensure!(
            made.slices || !made.packs,
            "jobs are packed only where they take turns; write pack=off, too"
        );
        ensure!(
            made.slices || !made.search.holds(),
            "members that wait at a rung keep their devices, and others take turns there; leave out slice=off"
        );
        made.idle = idle.unwrap_or(made.quantum);
        made.relax = relax.unwrap_or(Nanos(made.quantum.0.saturating_mul(10)));
        Ok(made)
    }
}
