//! The settings of Rubick, as they follow its name: `rubick:risk=0.9:restarts=5%`.

use anyhow::{Context as _, bail, ensure};
use schema::units::Nanos;

use super::super::elastic::Freedom;

#[derive(Clone, Debug, PartialEq)]
pub(in crate::policy) struct Settings {
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
    /// Whether jobs give up devices for others that only gain.
    pub(super) reclaims: bool,
    /// Whether jobs that wait are started on the devices of others.
    pub(super) packs: bool,
}

impl Settings {
    pub(in crate::policy) const USAGE: &str = "[:every=TIME][:only=plans|resources|nothing][:risk=Q][:restarts=PERCENT][:pack=on][:slack=F][:most-restarts=N][:shield=TIME][:reclaim=off]";

    /// Parses the settings that follow the name.
    pub(in crate::policy) fn parse(text: &str) -> anyhow::Result<Settings> {
        let mut settings = Settings {
            every: Nanos(60 * Nanos::SECOND.0),
            freedom: Freedom::ALL,
            restarts: 0.03,
            slack: 1.0,
            most_restarts: None,
            shield: None,
            reclaims: true,
            packs: false,
        };
        let mut named = Vec::new();
        for part in text.split(':').filter(|_| !text.is_empty()) {
            let (key, value) = part.split_once('=').with_context(|| format!("'{part}' is not KEY=VALUE"))?;
            ensure!(!named.contains(&key), "'{key}' is given twice");
            named.push(key);
            match key {
                "every" => settings.every = time(part, value)?,
                "only" => {
                    let (plans, resources) = match value {
                        "plans" => (true, false),
                        "resources" => (false, true),
                        "nothing" => (false, false),
                        _ => bail!("'{part}': write only=plans, only=resources or only=nothing"),
                    };
                    settings.freedom = Freedom { plans, resources, ..settings.freedom };
                }
                "risk" => {
                    settings.freedom.quantile = number(part, value, |q| 0.0 < q && q < 1.0)
                        .context("write a quantile between 0 and 1, such as risk=0.9")?;
                }
                "restarts" => {
                    let percent = value.strip_suffix('%').unwrap_or(value);
                    let percent = number(part, percent, |percent| percent >= 0.0);
                    settings.restarts = percent.context("write a percentage, such as restarts=3%")? / 100.0;
                }
                "slack" => {
                    settings.slack = number(part, value, |slack| slack >= 1.0)
                        .context("write 1 or more, such as slack=1.5")?;
                }
                "most-restarts" => {
                    let most = value.parse().with_context(|| format!("'{part}': write a whole number"))?;
                    settings.most_restarts = Some(most);
                }
                "shield" => settings.shield = Some(time(part, value)?),
                "pack" => {
                    ensure!(value == "on", "'{part}': write pack=on, or leave it out");
                    settings.packs = true;
                }
                "reclaim" => {
                    ensure!(value == "off", "'{part}': write reclaim=off, or leave it out");
                    settings.reclaims = false;
                }
                _ => bail!("there is no setting '{key}'"),
            }
        }
        Ok(settings)
    }
}

fn time(part: &str, value: &str) -> anyhow::Result<Nanos> {
    let time =
        humantime::parse_duration(value).with_context(|| format!("'{part}': write a time, such as 60s"))?;
    ensure!(!time.is_zero(), "'{part}': write a time above 0");
    Ok(Nanos::from(time))
}

fn number(part: &str, value: &str, is_valid: impl Fn(f64) -> bool) -> anyhow::Result<f64> {
    let number = value.parse().ok().filter(|number: &f64| number.is_finite() && is_valid(*number));
    number.with_context(|| format!("'{part}' is out of range"))
}
