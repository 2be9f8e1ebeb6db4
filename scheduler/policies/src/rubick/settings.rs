//! The settings of Rubick, as they follow its name: `rubick:risk=0.9:restarts=5%`.

use anyhow::{Context as _, bail, ensure};
use schema::units::Nanos;

use crate::kit::{elastic::Freedom, settings};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    /// The longest interval between rounds.
    pub(super) every: Nanos,
    pub(super) freedom: Freedom,
    /// The share of the time since its first start that a job may lose by restarts.
    pub(super) restarts: f64,
    /// A job keeps its guarantee if this many times its speed is that of what it asks for.
    pub(super) slack: f64,
    /// The largest number of restarts of a job.
    pub(super) most_restarts: Option<u32>,
    /// The time from its arrival from which on a job is not reconfigured.
    pub(super) shield: Option<Nanos>,
    /// The wait after which devices are kept for a guaranteed job. `None` for never.
    pub(super) bound: Option<Nanos>,
    /// Whether jobs give up devices for others that only gain, or that wait.
    pub(super) reclaims: bool,
    /// Whether jobs that wait are started on the devices of others.
    pub(super) packs: bool,
}

impl Settings {
    pub(crate) const USAGE: &str = "[:every=TIME][:only=plans|resources|nothing][:risk=Q][:restarts=PERCENT][:pack=on][:slack=F][:most-restarts=N][:shield=TIME][:bound=TIME|never][:reclaim=off]";

    const BOUND: Nanos = Nanos(600 * Nanos::SECOND.0);

    /// Parses the settings that follow the name.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Settings> {
        let mut made = Settings {
            every: Nanos(60 * Nanos::SECOND.0),
            freedom: Freedom::ALL,
            restarts: 0.03,
            slack: 1.0,
            most_restarts: None,
            shield: None,
            bound: Some(Settings::BOUND),
            reclaims: true,
            packs: false,
        };
        for setting in settings::split(text)? {
            let settings::Setting { part, key, value } = setting;
            match key {
                "every" => made.every = setting.time()?,
                "only" => {
                    let (plans, resources) = match value {
                        "plans" => (true, false),
                        "resources" => (false, true),
                        "nothing" => (false, false),
                        _ => bail!("'{part}': write only=plans, only=resources or only=nothing"),
                    };
                    made.freedom = Freedom { plans, resources, ..made.freedom };
                }
                "risk" => {
                    made.freedom.quantile = setting
                        .number(|q| 0.0 < q && q < 1.0)
                        .context("write a quantile between 0 and 1, such as risk=0.9")?;
                }
                "restarts" => {
                    let percent =
                        settings::Setting { value: value.strip_suffix('%').unwrap_or(value), ..setting };
                    let percent = percent.number(|percent| percent >= 0.0);
                    made.restarts = percent.context("write a percentage, such as restarts=3%")? / 100.0;
                }
                "slack" => {
                    made.slack =
                        setting.number(|slack| slack >= 1.0).context("write 1 or more, such as slack=1.5")?;
                }
                "most-restarts" => {
                    let most = value.parse().with_context(|| format!("'{part}': write a whole number"))?;
                    made.most_restarts = Some(most);
                }
                "bound" => made.bound = if value == "never" { None } else { Some(setting.time()?) },
                "shield" => made.shield = Some(setting.time()?),
                "pack" => {
                    ensure!(value == "on", "'{part}': write pack=on, or leave it out");
                    made.packs = true;
                }
                "reclaim" => {
                    ensure!(value == "off", "'{part}': write reclaim=off, or leave it out");
                    made.reclaims = false;
                }
                _ => bail!("there is no setting '{key}'"),
            }
        }
        Ok(made)
    }
}
