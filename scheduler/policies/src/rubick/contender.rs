//! A job in a round: its curve, what it has, and what it may be given or lose.

use std::rc::Rc;

use engine::{
    cluster::JobId,
    job::{Placed, State},
    topology::NodeId,
    view::View,
};
use formats::trace::Class;
use schema::units::Nanos;

use super::{Settings, floor::Claim};
use crate::kit::{
    belief,
    elastic::{Curve, Freedom, Level, Standing, restart_s, steps_left},
};

/// A longer time is as good as no end.
const NO_END_S: f64 = 1e9;

/// A job that waits, or that may be reconfigured.
#[derive(Clone, Debug)]
pub(super) struct Contender {
    pub(super) job: JobId,
    pub(super) curve: Rc<Curve>,
    /// Steps per second with what the job asks for. Speeds are relative to it.
    reference: f64,
    /// The place of the highest level with no more devices than it asks for.
    asked: usize,
    /// Whether a guaranteed job has waited longer than `bound` and may reserve nodes.
    pub(super) is_overdue: bool,
    /// The speed that is guaranteed; 0 for a best-effort job.
    pub(super) guarantee: f64,
    /// The place of the lowest level with the guaranteed speed, which needs no more devices than the job asks for. `None` for a
    /// best-effort job, which may have nothing.
    pub(super) least: Option<usize>,
    /// What it has before the round. `None` if it waits.
    pub(super) before: Option<Has>,
    /// What it has in the round.
    pub(super) has: Option<Has>,
    /// Steps that it still has to do, in seconds at the reference.
    left_s: f64,
    /// What it costs to stop and start it again, in seconds. Infinite if it is not known.
    restart_s: f64,
    /// Whether what a restart costs counts against an exchange.
    counts_restarts: bool,
    /// Whether another restart keeps the time that it loses by restarts within its share.
    pub(super) may_restart: bool,
}

/// The resources of a job.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Has {
    pub(super) devices: u32,
    /// The devices on each node.
    pub(super) nodes: Vec<(NodeId, u32)>,
    /// The fewest cores with which each rank may run.
    pub(super) cpus: u16,
    /// Throughput over the reference.
    pub(super) speed: f64,
    /// The place of its level; `None` if it runs in another way than the curve has it.
    pub(super) level: Option<usize>,
}

impl Contender {
    pub(super) fn new(
        view: &View<'_>,
        job: JobId,
        standing: Standing<'_>,
        curve: Rc<Curve>,
        settings: &Settings,
    ) -> Contender {
        let asked = view.request(job);
        let reference = curve.reference(asked);
        let guarantee = match (asked.class, curve.asked_rate) {
            (Class::BestEffort, _) => 0.0,
            (Class::Guaranteed, Some(_)) => 1.0 / settings.slack,
            // Nothing is known of what it asks for, so that it gets the devices.
            (Class::Guaranteed, None) => {
                curve.levels[curve.at(asked.devices).unwrap_or(0)].fair().rate / reference
            }
        };
        let mut contender = Contender {
            job,
            reference,
            asked: curve.at(asked.devices).unwrap_or(0),
            is_overdue: false,
            guarantee,
            least: None,
            before: None,
            has: None,
            left_s: NO_END_S,
            restart_s: restart_s(view, job).unwrap_or(f64::INFINITY),
            counts_restarts: settings.counts_restarts,
            may_restart: true,
            curve,
        };
        if asked.class == Class::Guaranteed {
            contender.least = Some(contender.least_level());
            contender.is_overdue = is_overdue(view, job, settings);
        }
        if let Standing::Runs(placed) = standing {
            contender.before = Some(contender.present(view, placed, &settings.freedom));
            contender.has.clone_from(&contender.before);
            contender.may_restart = contender.restarts_are_few(view, settings);
        }
        let rate = contender.has.as_ref().map_or(0.0, |has| has.speed) * reference;
        if contender.curve.is_known {
            contender.left_s = (steps_left(view, job, rate) / reference).min(NO_END_S);
        }
        contender
    }

    fn least_level(&self) -> usize {
        let reaches = |level: &Level| level.fair().rate / self.reference >= self.guarantee * (1.0 - 1e-9);
        let levels = &self.curve.levels;
        levels.iter().take(self.asked + 1).position(reaches).unwrap_or(self.asked)
    }

    fn present(&self, view: &View<'_>, placed: &Placed, freedom: &Freedom) -> Has {
        let devices = placed.devices.len() as u32;
        let level = self.curve.at(devices).filter(|at| self.curve.levels[*at].devices == devices);
        let as_known = level.and_then(|at| {
            let mut points = self.curve.levels[at].points.iter();
            points.find(|point| point.plan == placed.plan && point.cpus == placed.cpus)
        });
        let device_type = view.topology.type_of(placed.devices[0]);
        let placement = view.topology.placement(&placed.devices);
        let rate = as_known.map(|point| point.rate).or_else(|| {
            let predicted =
                belief::step_in(view, (self.job, placed.plan), &placement, device_type, placed.cpus)?;
            Some(1.0 / freedom.step_s(predicted))
        });
        let measured = || view.job(self.job).measured.map(|measured| 1e9 / measured.step_ns);
        let rate = rate.or_else(measured).unwrap_or(self.reference);
        let mut nodes: Vec<(NodeId, u32)> = Vec::new();
        for device in &placed.devices {
            let node = view.topology.node_of(*device);
            match nodes.iter_mut().find(|(known, _)| *known == node) {
                Some((_, count)) => *count += 1,
                None => nodes.push((node, 1)),
            }
        }
        let level = level.filter(|_| as_known.is_some());
        let cpus = level.map_or(placed.cpus.unwrap_or(0), |level| self.fewest_cpus(level));
        Has { devices, nodes, cpus, speed: rate / self.reference, level }
    }

    /// Whether restarts, with one more, take no more than their share of the time since the first start, and are no more than their
    /// number, where there are such limits.
    fn restarts_are_few(&self, view: &View<'_>, settings: &Settings) -> bool {
        let account = &view.job(self.job).account;
        let since = view.now - account.first_start.unwrap_or(view.now);
        let is_young = settings.shield.is_none_or(|after| view.now - view.request(self.job).arrival < after);
        let is_few = settings.most_restarts.is_none_or(|most| account.starts <= most);
        let lost_s = f64::from(account.starts) * self.restart_s;
        let is_short = settings.restarts.is_none_or(|share| lost_s <= share * Nanos::as_secs_f64(since));
        is_young && is_few && is_short
    }

    /// What it has at a level, on these nodes.
    pub(super) fn at_level(&self, level: usize, nodes: Vec<(NodeId, u32)>) -> Has {
        let devices = self.curve.levels[level].devices;
        Has { devices, nodes, cpus: self.fewest_cpus(level), speed: self.speed_at(level), level: Some(level) }
    }

    /// The fewest cores of each rank at a level.
    pub(super) fn fewest_cpus(&self, level: usize) -> u16 {
        self.curve.levels[level].points[0].cpus.unwrap_or(0)
    }

    /// The speed at a level.
    pub(super) fn speed_at(&self, level: usize) -> f64 {
        self.curve.levels[level].fair().rate / self.reference
    }

    /// The speed at a point of a level.
    pub(super) fn speed_at_point(&self, level: usize, point: usize) -> f64 {
        self.curve.levels[level].points[point].rate / self.reference
    }

    pub(super) fn speed(&self) -> f64 {
        self.has.as_ref().map_or(0.0, |has| has.speed)
    }

    pub(super) fn devices(&self) -> u32 {
        self.has.as_ref().map_or(0, |has| has.devices)
    }

    /// Whether it runs slower than it was promised, or waits though it was promised anything.
    pub(super) fn is_below_guarantee(&self) -> bool {
        self.guarantee > 0.0 && self.speed() < self.guarantee * (1.0 - 1e-9)
    }

    /// Whether the round has changed it already, so that a further change costs it nothing.
    pub(super) fn has_changed(&self) -> bool {
        self.has != self.before
    }

    /// What a change costs it once: the steps of a restart, in seconds at the reference. Nothing for a job that waits, or that the round has changed.
    pub(super) fn cost_of_change(&self) -> f64 {
        match &self.before {
            // A job that cannot restart, or whose restarts cost an unknown time, is left alone under either rule.
            Some(before) if !self.has_changed() && (self.counts_restarts || self.restart_s.is_infinite()) => {
                self.restart_s * before.speed
            }
            _ => 0.0,
        }
    }

    /// The time that the rest of the job takes at a speed, in seconds.
    pub(super) fn left_at(&self, speed: f64) -> f64 {
        (self.left_s / speed).min(NO_END_S)
    }

    /// The levels above what it has, and its present number of devices if another plan is faster there.
    pub(super) fn higher(&self) -> impl Iterator<Item = usize> {
        let (devices, speed) = (self.devices(), self.speed());
        let from = self.curve.levels.partition_point(|level| level.devices < devices);
        let least = self.least.filter(|_| self.has.is_none()).unwrap_or(0);
        (from.max(least)..self.curve.levels.len())
            .filter(move |level| self.speed_at(*level) > speed * (1.0 + 1e-9))
    }

    /// The largest gain in speed for each further device, if all devices were free.
    pub(super) fn slope_up(&self) -> Option<f64> {
        let slope = |level| self.slope_to(level);
        self.higher().map(slope).max_by(f64::total_cmp)
    }

    /// The gain in speed for each further device up to a level. Infinite if it takes no further device.
    pub(super) fn slope_to(&self, level: usize) -> f64 {
        let more = self.curve.levels[level].devices.saturating_sub(self.devices());
        (self.speed_at(level) - self.speed()) / f64::from(more)
    }

    /// The lowest level to which others may lower it. `None` if they may stop it. A job that starts, or that grows above what it asks for,
    /// leaves others what they ask for.
    fn keeps(&self, claim: Claim) -> Option<usize> {
        match claim {
            Claim::Guarantee | Claim::Gain => self.least,
            Claim::Start | Claim::Growth => Some(self.least.unwrap_or(0).max(self.asked)),
        }
    }

    /// Why it would claim the devices of a level, if they are to gain it speed.
    pub(super) fn claim_for(&self, level: usize) -> Claim {
        if level > self.asked { Claim::Growth } else { Claim::Gain }
    }

    /// The levels at which it may start, the devices that it asks for first, and then fewer.
    pub(super) fn starts(&self) -> impl Iterator<Item = usize> + use<> {
        (0..=self.asked).rev()
    }

    /// The time from now until it has ended at a level, with the restart that takes it there.
    pub(super) fn ends_after(&self, level: usize) -> f64 {
        let restart_s = if self.restart_s.is_finite() { self.restart_s } else { 0.0 };
        self.left_at(self.speed_at(level)) + restart_s
    }

    /// The time from now until it has ended as it is. `None` if it waits, or if the time is not known.
    pub(super) fn ends_in(&self) -> Option<f64> {
        let left_s = self.left_at(self.has.as_ref()?.speed);
        (left_s < NO_END_S).then_some(left_s)
    }

    /// What it has after a step down its curve that leaves devices of this node to a claim: the next lower level, or nothing. `None` if it
    /// has nothing there, or no more than it keeps.
    pub(super) fn lower(&self, has: &Has, node: NodeId, claim: Claim) -> Option<Option<Has>> {
        let here = has.nodes.iter().find(|(on, _)| *on == node)?.1;
        let elsewhere = has.devices - here;
        let below = self.curve.levels.partition_point(|level| level.devices < has.devices);
        // A job on several nodes leaves this one first.
        let leaves = |level: &usize| self.curve.levels[*level].devices < elsewhere + here;
        let is_whole = |level: &usize| {
            let devices = self.curve.levels[*level].devices;
            has.nodes.len() == 1 || devices <= elsewhere
        };
        let keeps = self.keeps(claim);
        let level = (keeps.unwrap_or(0)..below).rev().filter(leaves).find(is_whole);
        match level {
            Some(level) => {
                let devices = self.curve.levels[level].devices;
                let mut left = devices;
                let mut nodes: Vec<(NodeId, u32)> = has.nodes.clone();
                nodes.sort_by_key(|(on, _)| *on == node);
                for (_, count) in &mut nodes {
                    *count = (*count).min(left);
                    left -= *count;
                }
                nodes.retain(|(_, count)| *count > 0);
                Some(Some(self.at_level(level, nodes)))
            }
            None if keeps.is_none() => Some(None),
            None => None,
        }
    }
}

/// Whether a job has waited for the bound.
fn is_overdue(view: &View<'_>, job: JobId, settings: &Settings) -> bool {
    match (&view.job(job).state, settings.bound) {
        (State::Waiting { since }, Some(bound)) => view.now.saturating_sub(*since) >= bound,
        _ => false,
    }
}
