//! The settings of Gavel, as they follow its name: `gavel:objective=max-min:space-sharing=on`.

use anyhow::{bail, ensure};
use schema::units::Nanos;

use crate::kit::settings::split;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Settings {
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

impl Settings {
    pub(crate) const USAGE: &str =
        "[:objective=max-min|max-throughput|finish-time][:space-sharing=on][:every=TIME]";
    const LEAST: Nanos = Nanos(Nanos::SECOND.0 / 10);

    /// Parses the settings that follow the name.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Settings> {
        let mut made =
            Settings { objective: Objective::MaxMin, shares: false, every: Nanos(360 * Nanos::SECOND.0) };
        for setting in split(text)? {
            match setting.key {
                "objective" => {
                    made.objective = setting.word(&[
                        ("max-min", Objective::MaxMin),
                        ("max-throughput", Objective::MaxThroughput),
                        ("finish-time", Objective::FinishTime),
                    ])?;
                }
                "space-sharing" => made.shares = setting.is_on()?,
                "every" => {
                    made.every = setting.time()?;
                    ensure!(made.every >= Settings::LEAST, "a round takes at least 100ms");
                }
                _ => bail!("there is no setting '{}'", setting.key),
            }
        }
        Ok(made)
    }
}
