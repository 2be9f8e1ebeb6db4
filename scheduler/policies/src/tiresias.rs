//! Tiresias: discretised two-dimensional least attained service (Gu et al., NSDI 2019), in the variant that needs no knowledge of
//! jobs, Tiresias-L.
//!
//! The attained service of a job is its running time times the number of its devices. It determines the queue of the job: jobs
//! enter the first queue, and a job whose service reaches the threshold between two queues is demoted to the next. Devices go to
//! the queues in order, and within a queue to jobs in order of their first start; jobs that were never started come last, in order
//! of arrival. A job that does not fit is skipped, and stopped with a checkpoint if it runs (`kit/greedy.rs`). A job is promoted to the
//! first queue when the time since its last stop is `promote` times its running time. Its service and its running time then count
//! from 0 again.
//!
//! The parameters are the thresholds between queues in device-seconds, by default `3600s` (as in the simulator of the authors; two
//! queues, as the paper recommends), and `promote`, by default off (in the paper: infinite). The paper consolidates a job
//! if its tensors differ much in size, and spreads out all others, because those did not slow down in its profiles. Here the
//! placement of the run holds for all jobs.

use std::{
    collections::HashMap,
    ops::Bound::{Excluded, Unbounded},
};

use engine::{
    cluster::JobId,
    job::State,
    policy::{Decision, Policy},
    view::View,
};
use schema::units::Nanos;

use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        greedy::Greedy,
        ranking::SortedJobs,
        settings::{Kind, Setting},
    },
};

pub(super) const TIRESIAS: Declaration = Declaration {
    name: "tiresias",
    source: "Tiresias, NSDI 2019",
    order: "queue by service, then first start",
    misfit: "is passed",
    preemption: "stops jobs, with a checkpoint",
    packing: "no",
    needs: "none",
    uses: &[Uses::Stops],
    example: "tiresias:1h/4h:promote=8",
    settings: &[
        Setting::new(
            "THRESHOLD",
            Kind::Times,
            "3600s",
            "the attained services, in device-seconds, at which a job moves to the next queue",
        )
        .such_as("1h/4h"),
        Setting::new(
            "promote",
            Kind::number("FACTOR", Excluded(0.0), Unbounded),
            "never",
            "a job that has waited this many times as long as it ran returns to the first queue",
        )
        .or("never")
        .such_as("8"),
    ],
    build: |values| {
        let settings =
            Settings { thresholds: values.times("THRESHOLD"), promote: values.number_or_none("promote") };
        each(move || Tiresias::new(settings.clone()))
    },
};

struct Tiresias {
    settings: Settings,
    jobs: Greedy<Key>,
    /// The time at which each job will change its queue unless it changes before.
    changes_at: SortedJobs<Nanos>,
    promoted: HashMap<JobId, Promoted>,
}

#[derive(Clone, Debug, PartialEq)]
struct Settings {
    /// The attained services at which a job is demoted from one queue to the next, in ascending order.
    thresholds: Vec<Nanos>,
    /// The ratio of waiting time to running time at which a job is promoted.
    promote: Option<f64>,
}

/// The queue of a job and the time of its first start.
type Key = (usize, Nanos);
const NEVER_STARTED: Nanos = Nanos(u64::MAX);

/// The device time and the running time of a job at its last promotion.
#[derive(Clone, Copy, Debug, Default)]
struct Promoted {
    device_time: Nanos,
    running: Nanos,
}

impl Tiresias {
    fn new(settings: Settings) -> Tiresias {
        Tiresias {
            settings,
            jobs: Greedy::default(),
            changes_at: SortedJobs::default(),
            promoted: HashMap::new(),
        }
    }

    /// The key of a job that waits or runs, and the time at which the key changes unless the job changes before.
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
        // Only a promotion can be due now, because the next threshold is not reached yet.
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

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        let promoted = self.promoted.get(&job).copied().unwrap_or_default();
        let attained = view.job(job).account_at(view.now).device_time.saturating_sub(promoted.device_time);
        let thresholds = &self.settings.thresholds;
        let queue = thresholds.iter().take_while(|threshold| attained >= **threshold).count();
        let service = format!(
            "it has attained a service of {attained} and is in queue {} of {}",
            queue + 1,
            thresholds.len() + 1
        );
        match self.jobs.explain(view, job, "queue and first start") {
            place if place.is_empty() => service,
            place => format!("{service}; {place}"),
        }
    }
}
