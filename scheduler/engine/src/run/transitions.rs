//! Transitions: every change of the state of a job, with what follows for its account and the devices.

use std::collections::BTreeSet;

use super::Engine;
use crate::{
    cluster::{Action, JobId, Share},
    job::{Ending, Phase, Placed, State},
    topology::DeviceId,
    view::Change,
};

impl Engine<'_> {
    /// Updates the state of a job after the cluster has begun an action.
    pub(super) fn done(&mut self, action: &Action) {
        let id = action.job();
        match action {
            Action::Start { devices, cpus, plan, .. } => {
                let placed = Placed {
                    devices: devices.clone(),
                    plan: *plan,
                    cpus: *cpus,
                    phase: Phase::Starting,
                    since: self.now,
                    share: Share::FULL,
                };
                self.change(id, State::Placed(Box::new(placed)));
                let job = &mut self.jobs[id.0 as usize];
                job.account.first_start.get_or_insert(self.now);
                job.account.starts += 1;
                if let Some(rare) = &mut job.rare {
                    rare.measured = None;
                    let left = std::mem::take(&mut rare.stopped_on);
                    job.account.migrations += u32::from(!left.is_empty() && !are_same(&left, devices));
                }
                self.changes.push(Change::Placed(id));
            }
            Action::Pause { .. } => {
                self.enter(id, Phase::Pausing);
                self.jobs[id.0 as usize].account.pauses += 1;
            }
            Action::Resume { .. } => self.enter(id, Phase::Resuming),
            Action::Stop { .. } => {
                self.enter(id, Phase::Stopping);
                self.jobs[id.0 as usize].account.stops += 1;
            }
            Action::End { .. } => match self.jobs[id.0 as usize].state {
                State::Placed(_) => self.enter(id, Phase::Ending),
                _ => self.end(id, Ending::ByPolicy),
            },
            Action::Throttle { share, .. } => {
                let job = &mut self.jobs[id.0 as usize];
                (job.measured, job.rate_since) = (None, self.now);
                if let State::Placed(placed) = &mut job.state {
                    placed.share = *share;
                }
            }
        }
    }

    pub(super) fn end(&mut self, id: JobId, how: Ending) {
        self.change(id, State::Ended { at: self.now, how });
        self.changes.push(Change::Ended(id));
    }

    /// Sets the phase of a job that has devices.
    pub(super) fn enter(&mut self, id: JobId, phase: Phase) {
        if let State::Placed(placed) = &self.jobs[id.0 as usize].state {
            let placed = Placed { phase, since: self.now, ..(**placed).clone() };
            self.change(id, State::Placed(Box::new(placed)));
        }
    }

    /// Sets the state of a job, and updates its account and the occupancy of devices with it. During a run, no other code changes
    /// the state of a job.
    pub(super) fn change(&mut self, id: JobId, next: State) {
        let job = &mut self.jobs[id.0 as usize];
        job.account = job.account_at(self.now);
        let before = std::mem::replace(&mut job.state, next);
        let after = &job.state;
        self.busy = self.busy + usize::from(is_busy(after)) - usize::from(is_busy(&before));
        self.left -= usize::from(matches!(after, State::Ended { .. }));
        if !matches!(after, State::Placed(_)) {
            self.crowded.remove(&id);
        }
        // A job that keeps the same devices also keeps its place in the order of arrival on them.
        match (kept(&before), kept(after)) {
            (Some(placed), None) => self.occupancy.leave(id, &placed.devices, placed.cpus),
            (None, Some(placed)) => self.occupancy.keep(id, &placed.devices, placed.cpus),
            _ => {}
        }
        match (paused(&before), paused(after)) {
            (Some(devices), None) => {
                for device in devices {
                    if let Some(there) = self.paused_on.get_mut(device) {
                        there.retain(|other| *other != id);
                    }
                }
            }
            (None, Some(devices)) => {
                for device in devices {
                    self.paused_on.entry(*device).or_default().push(id);
                }
            }
            _ => {}
        }
        if let Some(learning) = &mut self.learning {
            learning.changed(id, &before, after, self.now);
        }
        self.shares.changed(id, &before, self.now, &self.jobs[id.0 as usize]);
        self.packing.changed(id, &before, self.now, &self.jobs, &self.occupancy);
    }
}

/// The placement of a job that holds its devices in this state.
pub(super) fn kept(state: &State) -> Option<&Placed> {
    match state {
        State::Placed(placed) if !placed.phase.has_left() => Some(placed),
        _ => None,
    }
}

/// The devices on which a job in this state is paused or is being paused.
pub(super) fn paused(state: &State) -> Option<&[DeviceId]> {
    match state {
        State::Placed(placed) if matches!(placed.phase, Phase::Pausing | Phase::Paused) => {
            Some(&placed.devices)
        }
        _ => None,
    }
}

/// Whether these are the same devices, in any order.
fn are_same(some: &[DeviceId], others: &[DeviceId]) -> bool {
    let set = |devices: &[DeviceId]| devices.iter().copied().collect::<BTreeSet<_>>();
    set(some) == set(others)
}

fn is_busy(state: &State) -> bool {
    matches!(state, State::Placed(placed) if placed.phase != Phase::Paused)
}
