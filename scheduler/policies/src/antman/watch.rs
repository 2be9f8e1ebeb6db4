//! Throttles best-effort jobs by the speed of the guaranteed jobs beside them.
//!
//! The speed of a guaranteed job is that between two of its reports, since nothing changed beside it. Reports count whole steps, so
//! that it may have done almost one step more or less. A job is throttled if the speed is too low even with a step more. Its share
//! rises if the speed suffices even with a step less, and the loss, which grows with the share, still would. A measurement begins anew
//! after 400 steps, so that it is not of the distant past.

use std::collections::BTreeMap;

use engine::{
    cluster::{Action, JobId, Share},
    job::{Phase, Placed},
    view::{Change, View},
};
use formats::trace::Class;
use schema::units::Nanos;

use super::{AntMan, Making, Settings, holds, others_on};
use crate::kit::belief;

/// A share of the time falls to this part of it, and rises by [`RISE`].
const FALL: f64 = 0.5;
const RISE: f64 = 0.1;
/// The number of steps after which a measurement begins anew.
const STEPS: u64 = 400;

/// The measurements of guaranteed jobs that share devices.
#[derive(Debug, Default)]
pub(super) struct Watched(BTreeMap<JobId, Measurement>);

/// The speed of a guaranteed job under the same conditions.
#[derive(Debug, PartialEq)]
struct Measurement {
    /// The time since which it runs, and the jobs beside it with their shares.
    conditions: (Nanos, Vec<(JobId, Phase, Share)>),
    /// The steps and the time of its first report.
    first: Option<(u64, Nanos)>,
}

impl AntMan {
    pub(super) fn throttle(&mut self, view: &View<'_>, making: &mut Making<'_>) {
        let mut throttled = BTreeMap::new();
        for &guest in &self.placed {
            let Some(placed) = runs(view, guest) else { continue };
            let beside = || others_on(view, guest, &placed.devices);
            if placed.share.get() < 1.0 && !beside().iter().any(|host| runs(view, *host).is_some()) {
                throttled.insert(guest, Share::FULL);
            }
        }
        let mut watched = BTreeMap::new();
        for &host in &self.placed {
            let Some(placed) = runs(view, host) else { continue };
            let others: Vec<(JobId, &Placed)> = others_on(view, host, &placed.devices)
                .into_iter()
                .filter_map(|other| Some((other, holds(view, other)?)))
                .collect();
            if view.request(host).class == Class::BestEffort || others.is_empty() {
                continue;
            }
            let with = others.iter().map(|(guest, placed)| (*guest, placed.phase, placed.share)).collect();
            let now = Measurement { conditions: (placed.since, with), first: None };
            let before = self.watched.0.remove(&host).filter(|before| before.conditions == now.conditions);
            let mut measurement = before.unwrap_or(now);
            if view.changes.contains(&Change::Progressed(host)) {
                let alone = belief::step_on(view, host, &placed.devices, &[]);
                let speed = alone.and_then(|alone| measurement.speed(view, host, alone.step_ns));
                let running = others.iter().filter(|(_, placed)| placed.phase == Phase::Running);
                let shares: Vec<(JobId, Share)> =
                    running.map(|(guest, placed)| (*guest, placed.share)).collect();
                let next = speed.and_then(|speed| next_shares(&self.settings, speed, &shares));
                if let Some((why, next)) = next {
                    making.reasons.push(format!("{} {why}", view.request(host).name));
                    throttled.extend(next);
                }
            }
            watched.insert(host, measurement);
        }
        self.watched.0 = watched;
        let stays = |(guest, _): &(JobId, Share)| !making.evicted.contains(guest);
        let actions = throttled.into_iter().filter(stays).map(|(job, share)| Action::Throttle { job, share });
        making.actions.extend(actions.collect::<Vec<_>>());
    }
}

impl Measurement {
    /// The least and the largest part of its speed alone at which the job may have run since its first report. `None` before it has
    /// reported again.
    fn speed(&mut self, view: &View<'_>, host: JobId, alone_ns: f64) -> Option<(f64, f64)> {
        let (steps, at) = (view.job(host).steps, view.job(host).steps_at);
        let (first, from) = *self.first.get_or_insert((steps, at));
        let (done, passed_ns) = (steps.saturating_sub(first), at.saturating_sub(from).0);
        if passed_ns == 0 {
            return None;
        }
        if done >= STEPS {
            self.first = Some((steps, at));
        }
        let part = |steps: u64| alone_ns * steps as f64 / passed_ns as f64;
        Some((part(done.saturating_sub(1)), part(done + 1)))
    }
}

/// The shares to which the jobs beside a guaranteed job change at these speeds, with the reason. `None` if they stay.
fn next_shares(
    settings: &Settings,
    (least, most): (f64, f64),
    shares: &[(JobId, Share)],
) -> Option<(String, Vec<(JobId, Share)>)> {
    let Settings { keep, floor } = *settings;
    let changed = |next: &dyn Fn(f64) -> f64| -> Vec<(JobId, Share)> {
        let next = |&(job, share): &(JobId, Share)| Some((job, Share::new(next(share.get()))?));
        shares.iter().filter_map(next).filter(|next| !shares.contains(next)).collect()
    };
    if most < keep {
        let next = changed(&|share| in_hundredths(share * FALL).max(floor).min(share));
        let why = format!("runs at {:.0} % of its speed alone at most", 100.0 * most);
        return (!next.is_empty()).then_some((why, next));
    }
    let rise = |share: f64| in_hundredths(share + RISE).min(1.0);
    let grows = shares.iter().map(|(_, share)| rise(share.get()) / share.get()).fold(1.0, f64::max);
    if (1.0 - least).max(0.0) * grows > 1.0 - keep {
        return None;
    }
    let next = changed(&rise);
    let why = format!("runs at {:.0} % of its speed alone at least", 100.0 * least);
    (!next.is_empty()).then_some((why, next))
}

fn in_hundredths(share: f64) -> f64 {
    (share * 100.0).round() / 100.0
}

/// The placement of a job that runs.
fn runs<'a>(view: &'a View<'_>, job: JobId) -> Option<&'a Placed> {
    holds(view, job).filter(|placed| placed.phase == Phase::Running)
}
