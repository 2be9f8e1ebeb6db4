//! Tiresias: discretised two-dimensional least attained service (Gu et al., NSDI 2019), in the variant that needs to know nothing: Tiresias-L.
//!
//! The attained service of a job is its running time times its devices. Jobs stand in queues by it: they enter the first, and whose
//! service reaches the threshold between two queues is demoted to the next. Devices go to the queues in order, and within a queue to
//! jobs by the time at which they were first started, those that never were last, by arrival; who does not fit is passed, and stopped
//! with a checkpoint if it runs (`greedy.rs`). A job that has waited since its last stop for `promote` times as long as it ran is
//! promoted to the first queue, where its service and its running time count from 0 again.
//!
//! Parameters, with what they are if not given: thresholds between queues in device-seconds, `3600s` (the simulator of the authors; two
//! queues, as the paper recommends), and `promote`, off (the paper's default: infinite). The paper spreads out jobs whose tensors are
//! alike in size, as it profiled that they do not suffer; here all are placed on as few nodes as can be.

use std::collections::HashMap;

use anyhow::{Context as _, ensure};
use schema::units::Nanos;

use super::{Decision, Policy, greedy::Greedy, ranking::SortedJobs};
use crate::{cluster::JobId, job::State, view::View};

pub(super) struct Tiresias {
    settings: Settings,
    jobs: Greedy<Key>,
    /// When a job will change its queue if nothing happens to it.
    changes_at: SortedJobs<Nanos>,
    promoted: HashMap<JobId, Promoted>,
}

#[derive(Clone, Debug, PartialEq)]
struct Settings {
    /// Device time at which a job leaves a queue for the next, rising.
    thresholds: Vec<Nanos>,
    promote: Option<f64>,
}

/// The queue, and the first start; none comes last.
type Key = (usize, Nanos);
const NEVER_STARTED: Nanos = Nanos(u64::MAX);

/// What a job had when it was last promoted.
#[derive(Clone, Copy, Debug, Default)]
struct Promoted {
    device_time: Nanos,
    running: Nanos,
}

impl Settings {
    const DEFAULT_THRESHOLD: Nanos = Nanos(3_600 * Nanos::SECOND.0);

    /// `[THRESHOLD[/THRESHOLD..]][:promote=FACTOR]`.
    fn parse(text: &str) -> anyhow::Result<Settings> {
        let (mut thresholds, mut promote) = (Vec::new(), None);
        for part in text.split(':').filter(|_| !text.is_empty()) {
            if let Some(factor) = part.strip_prefix("promote=") {
                let factor = factor.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor > 0.0);
                promote = Some(factor.context("promote wants a number above 0, as promote=8")?);
            } else {
                ensure!(thresholds.is_empty() && promote.is_none(), "'{part}' stands twice or out of order");
                for time in part.split('/') {
                    let time = humantime::parse_duration(time);
                    let time =
                        time.with_context(|| format!("'{part}': write device-seconds as 3600s or 1h/4h"))?;
                    thresholds.push(Nanos::from(time));
                }
            }
        }
        if thresholds.is_empty() {
            thresholds.push(Settings::DEFAULT_THRESHOLD);
        }
        let rise = thresholds.windows(2).all(|pair| pair[0] < pair[1]) && thresholds[0] > Nanos::ZERO;
        ensure!(rise, "thresholds must be above 0 and rise");
        Ok(Settings { thresholds, promote })
    }
}

impl Tiresias {
    pub(super) fn new(settings: &str) -> anyhow::Result<Tiresias> {
        let settings = Settings::parse(settings)?;
        Ok(Tiresias {
            settings,
            jobs: Greedy::default(),
            changes_at: SortedJobs::default(),
            promoted: HashMap::new(),
        })
    }

    /// The key of a job that waits or runs, and when it will be another if nothing happens to the job.
    fn key(&mut self, view: &View<'_>, job: JobId) -> (Key, Option<Nanos>) {
        let account = view.job(job).account_at(view.now);
        let (device_time, running) = (account.device_time, account.running);
        let promoted = self.promoted.get(&job).copied().unwrap_or_default();
        let attained = device_time.saturating_sub(promoted.device_time);
        let thresholds = &self.settings.thresholds;
        let queue = thresholds.iter().take_while(|threshold| attained >= **threshold).count();
        let first_start = account.first_start.unwrap_or(NEVER_STARTED);
        let changes_at = match &view.job(job).state {
            State::Placed(placed) => thresholds.get(queue).map(|threshold| {
                let left_ns = threshold.saturating_sub(attained).0;
                view.now + Nanos(left_ns.div_ceil(placed.devices.len().max(1) as u64))
            }),
            State::Waiting { since } if queue > 0 => {
                let ran = running.saturating_sub(promoted.running).as_secs_f64();
                self.settings.promote.map(|factor| *since + Nanos::from_secs_f64(ran * factor))
            }
            State::Waiting { .. } | State::Ended { .. } => None,
        };
        // Only a promotion can be due: the next threshold is one that was not reached.
        if changes_at.is_some_and(|at| at <= view.now) {
            self.promoted.insert(job, Promoted { device_time, running });
            return ((0, first_start), None);
        }
        ((queue, first_start), changes_at)
    }
}

impl Policy for Tiresias {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        while let Some((_, job)) = self.changes_at.first().filter(|(at, _)| *at <= view.now) {
            self.changes_at.remove(job);
            self.jobs.watch(job);
        }
        for (job, looks) in self.jobs.due(view) {
            self.changes_at.remove(job);
            if let Some(looks) = looks {
                let (key, changes_at) = self.key(view, job);
                self.jobs.put(view, job, looks, key);
                if let Some(at) = changes_at {
                    self.changes_at.put(job, at);
                }
            }
        }
        let decision = self.jobs.decide(view, |key| key, "least attained service");
        Decision { wake_at: self.changes_at.first().map(|(at, _)| at), ..decision }
    }
}
