//! A job in a decision: how it may run, how long it still takes, and what it costs to stop it.

use std::collections::BTreeMap;

use engine::{
    cluster::JobId,
    job::{Placed, State},
    occupancy::PoolId,
    topology::{DeviceId, NodeId},
    view::View,
};
use formats::trace::Class;
use schema::{plan::Plan, units::Nanos};

use super::settings::Settings;
use crate::kit::{
    belief,
    elastic::{Curve, Level, Standing, Target, restart_s, steps_left},
    progress::Progress,
};

/// The remaining time in seconds of a job of which nothing is known and that has not run yet.
const FIRST_GUESS_S: f64 = 1.0;

/// A job that waits or has devices.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) job: JobId,
    pub(super) pool: PoolId,
    /// The ways in which it may run, in ascending order of devices and of rate. There is at least one.
    pub(super) options: Vec<RunOption>,
    /// The index of the option with the least device time.
    pub(super) base: usize,
    pub(super) work: Work,
    pub(super) now: Now,
    /// Since when it has waited for longer than the bound.
    pub(super) overdue_since: Option<Nanos>,
}

/// A number of devices that a job may have, and what it does with them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RunOption {
    pub(super) devices: u32,
    /// Cores for each rank.
    pub(super) cpus: Option<u16>,
    pub(super) plan: Option<Plan>,
    /// Steps per second.
    pub(super) rate: f64,
}

/// The remaining work of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Work {
    /// Steps.
    Steps(f64),
    /// A guess, because the number of its steps or their time is not known: as many seconds as it has run.
    Guessed(f64),
}

/// Where a job is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Now {
    Waits,
    Runs(Runs),
    /// It has these devices, and may not be changed in this decision.
    Stays(Runs),
}

/// How a job runs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Runs {
    pub(super) target: Target,
    /// The devices of each node that are free once it has left: no other job holds them or is to come there, and they are not lost.
    pub(super) own: Vec<(NodeId, u32)>,
    /// Steps per second, beside the jobs that share its devices.
    pub(super) rate: f64,
    /// What it costs to stop it and to start it again, in seconds. `None` if it is not to be stopped, or if that is not known.
    pub(super) restart_s: Option<f64>,
    /// In how many seconds its devices are free if it is not stopped. `None` if it shares those of another job.
    pub(super) ends_s: Option<f64>,
}

impl Entry {
    /// `is_own` says of a device whether it is free once the job has left it. `None` for a job that is on its way to other devices, or
    /// leaves those that it has.
    pub(super) fn new(
        view: &View<'_>,
        (job, standing): (JobId, Standing<'_>),
        curve: &Curve,
        settings: &Settings,
        is_own: &dyn Fn(DeviceId) -> bool,
    ) -> Option<Entry> {
        let now = match standing {
            Standing::Waits => Now::Waits,
            Standing::Runs(placed) => {
                Now::Runs(runs(view, job, placed, curve).with_own(view, placed, is_own))
            }
            Standing::Stays(placed) => Now::Stays(Runs { restart_s: None, ..runs(view, job, placed, curve) }),
            Standing::IsOnItsWay => return None,
        };
        let options = options(view, job, curve, settings);
        let area = |option: &RunOption| f64::from(option.devices) / option.rate;
        let base = (0..options.len()).min_by(|a, b| area(&options[*a]).total_cmp(&area(&options[*b])))?;
        let rate = if let Now::Runs(runs) | Now::Stays(runs) = &now { runs.rate } else { 0.0 };
        let steps = steps_left(view, job, rate);
        let work = if curve.is_known && steps.is_finite() {
            Work::Steps(steps)
        } else {
            Work::Guessed(view.job(job).account_at(view.now).running.as_secs_f64().max(FIRST_GUESS_S))
        };
        let overdue_since = match view.job(job).state {
            State::Waiting { since } => {
                settings.bound.filter(|bound| view.now.saturating_sub(since) >= *bound).map(|_| since)
            }
            _ => None,
        };
        let mut entry = Entry { job, pool: curve.pool, options, base, work, now, overdue_since };
        let ends_s = entry.left_at(rate);
        if let Now::Runs(runs) | Now::Stays(runs) = &mut entry.now {
            runs.ends_s = Some(ends_s);
        }
        Some(entry)
    }

    /// Its option on this number of devices.
    pub(super) fn option_on(&self, devices: u32) -> Option<&RunOption> {
        self.options.iter().find(|option| option.devices == devices)
    }

    /// The remaining time in seconds at a rate.
    pub(super) fn left_at(&self, rate: f64) -> f64 {
        match self.work {
            Work::Steps(steps) => steps / rate,
            Work::Guessed(left_s) => left_s,
        }
    }

    /// The remaining time in seconds with the option of least device time.
    pub(super) fn left_s(&self) -> f64 {
        self.left_at(self.options[self.base].rate)
    }

    pub(super) fn waits(&self) -> bool {
        self.now == Now::Waits
    }

    /// Notes that the job is a guest, on the devices of its host. Returns the seconds until the job leaves them.
    pub(super) fn share_devices(&mut self) -> Option<f64> {
        if let Now::Runs(runs) | Now::Stays(runs) = &mut self.now { runs.ends_s.take() } else { None }
    }

    /// Notes that it is a host: it keeps its devices, and they are free when its guest has left them as well.
    pub(super) fn hold_devices(&mut self, guest_s: Option<f64>) {
        if let Now::Runs(runs) | Now::Stays(runs) = &mut self.now {
            runs.restart_s = None;
            runs.ends_s = runs.ends_s.zip(guest_s).map(|(own, other)| own.max(other)).or(runs.ends_s);
        }
    }

    /// The cost in seconds of stopping it. `None` if it does not run, or is not to be stopped.
    pub(super) fn restart_s(&self) -> Option<f64> {
        if let Now::Runs(runs) = &self.now { runs.restart_s } else { None }
    }

    pub(super) fn runs(&self) -> Option<&Runs> {
        if let Now::Runs(runs) | Now::Stays(runs) = &self.now { Some(runs) } else { None }
    }
}

impl Runs {
    /// Notes which devices are its own. A job that has others as well is not to be stopped.
    fn with_own(mut self, view: &View<'_>, placed: &Placed, is_own: &dyn Fn(DeviceId) -> bool) -> Runs {
        let mut nodes: BTreeMap<NodeId, u32> = BTreeMap::new();
        for device in placed.devices.iter().filter(|device| is_own(**device)) {
            *nodes.entry(view.topology.node_of(*device)).or_default() += 1;
        }
        self.own = nodes.into_iter().collect();
        self.restart_s = self.restart_s.filter(|_| self.own == self.target.nodes);
        self
    }

    pub(super) fn devices(&self) -> u32 {
        self.target.nodes.iter().map(|(_, devices)| devices).sum()
    }
}

impl RunOption {
    pub(super) fn on(&self, nodes: Vec<(NodeId, u32)>) -> Target {
        Target { nodes, plan: self.plan, cpus: self.cpus }
    }
}

/// The levels of the curve of a job that it may be given. A guaranteed job has the devices that it asks for, or what is predicted to be
/// faster than these by the margin, because predictions have errors.
fn options(view: &View<'_>, job: JobId, curve: &Curve, settings: &Settings) -> Vec<RunOption> {
    let asked = view.request(job);
    let is_guaranteed = settings.guarantees && asked.class == Class::Guaranteed;
    let promised = curve.reference(asked) * (1.0 + settings.freedom.margin);
    let as_asked = curve.at(asked.devices).unwrap_or(0);
    let levels = curve.levels.iter().enumerate();
    let may_have = |(index, level): &(usize, &Level)| {
        !is_guaranteed || *index == as_asked || level.fair().rate >= promised
    };
    let option = |(_, level): (usize, &Level)| {
        let point = level.fair();
        RunOption { devices: level.devices, cpus: point.cpus, plan: point.plan, rate: point.rate }
    };
    levels.filter(may_have).map(option).collect()
}

fn runs(view: &View<'_>, job: JobId, placed: &Placed, curve: &Curve) -> Runs {
    let is_alone = placed.devices.iter().all(|device| view.occupancy.kept_by(*device) == [job]);
    let of_level = || {
        let level = &curve.levels[curve.at(placed.devices.len() as u32)?];
        let point = level.fair();
        let is_same = level.devices as usize == placed.devices.len()
            && (point.plan, point.cpus) == (placed.plan, placed.cpus);
        is_same.then_some(point.rate)
    };
    let per_second = |step_ns: f64| 1e9 / step_ns;
    let predicted = || belief::step_placed(view, job, placed).map(|step| per_second(step.step_ns));
    let rate = of_level().filter(|_| is_alone).or_else(predicted);
    let rate = rate.or_else(|| Progress::new(view, job).step_ns().map(per_second)).unwrap_or(1.0);
    Runs {
        target: Target::of(view, placed),
        rate,
        restart_s: restart_s(view, job),
        ends_s: None,
        own: Vec::new(),
    }
}
