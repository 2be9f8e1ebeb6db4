//! The settings of Lucid, as they follow its name: `lucid:sharing=on:bound=12h`.

use anyhow::{Context as _, bail, ensure};
use schema::units::Nanos;

use crate::kit::settings::split;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
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
    /// Whether the second job of a pack may have a partner again after the first has ended.
    pub(super) recovers_partners: bool,
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

impl Settings {
    pub(crate) const USAGE: &str = "[:estimates=additive|rolling][:profile=TIME][:profile-devices=N][:profile-checkpoint=on][:sharing=auto|on|off][:busy=JOBS][:load-bin=TIME][:share-first=on][:score=N][:least-gain=F][:pick=best|first][:bound=TIME|never][:backfill=on|sharing|off][:free-profiling=on][:partner-recovery=off]";

    /// Parses the settings that follow the name.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Settings> {
        let mut made = Settings {
            estimates: Estimator::Additive,
            profile: Nanos(200 * Nanos::SECOND.0),
            profile_devices: 8,
            keeps_profiled_work: false,
            is_profiling_free: false,
            sharing: Sharing::ByLoad,
            busy: 2.0,
            bin: Nanos(600 * Nanos::SECOND.0),
            shares_first: false,
            score: 2,
            least_gain: 1.0,
            pick: Pick::Best,
            bound: Some(Nanos(7 * 24 * 3600 * Nanos::SECOND.0)),
            backfill: Backfill::Always,
            recovers_partners: true,
        };
        for setting in split(text)? {
            let whole = || {
                let number = setting.value.parse().ok();
                number.with_context(|| format!("'{}': write a whole number", setting.part))
            };
            match setting.key {
                "estimates" => {
                    let words = [("additive", Estimator::Additive), ("rolling", Estimator::Rolling)];
                    made.estimates = setting.word(&words)?;
                }
                "profile" => made.profile = setting.time()?,
                "profile-devices" => made.profile_devices = whole()?,
                "profile-checkpoint" => made.keeps_profiled_work = setting.is_on()?,
                "free-profiling" => made.is_profiling_free = setting.is_on()?,
                "sharing" => {
                    let words = [("auto", Sharing::ByLoad), ("on", Sharing::Always), ("off", Sharing::Never)];
                    made.sharing = setting.word(&words)?;
                }
                "busy" => {
                    made.busy = setting
                        .number(|busy| busy >= 0.0)
                        .context("write the jobs that arrive in a bin, such as busy=2")?;
                }
                "load-bin" => {
                    made.bin = setting.time()?;
                    ensure!(
                        made.bin.0.is_multiple_of(Nanos::SECOND.0)
                            && made.bin <= Nanos(3600 * Nanos::SECOND.0),
                        "'{}': write whole seconds, an hour at most, such as load-bin=10m",
                        setting.part
                    );
                }
                "share-first" => made.shares_first = setting.is_on()?,
                "score" => made.score = whole()?,
                "least-gain" => {
                    made.least_gain = setting
                        .number(|gain| gain >= 1.0)
                        .context("write 1, for taking turns without loss, or more, such as least-gain=1.1")?;
                }
                "pick" => made.pick = setting.word(&[("best", Pick::Best), ("first", Pick::First)])?,
                "bound" => made.bound = if setting.value == "never" { None } else { Some(setting.time()?) },
                "backfill" => {
                    made.backfill = setting.word(&[
                        ("on", Backfill::Always),
                        ("sharing", Backfill::WhileSharing),
                        ("off", Backfill::Never),
                    ])?;
                }
                "partner-recovery" => made.recovers_partners = setting.is_on()?,
                _ => bail!("there is no setting '{}'", setting.key),
            }
        }
        Ok(made)
    }
}
