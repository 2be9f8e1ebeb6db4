//! The state of a member while its group runs.

use std::time::Duration;

use rig::{IdleTracker, Member, Timeouts, pace::Pace};
use schema::{
    spec::{LaunchSpec, Program},
    units::{Nanos, Window},
    wire::Event,
};

use crate::window;

/// A place in the group, and its launches in order.
pub(super) struct Seat {
    /// Whether its member obeys no grant.
    pub(super) outside: bool,
    pub(super) launches: Vec<Launched>,
}

/// A launch on the rig.
pub(super) struct Launched {
    pub(super) name: String,
    pub(super) member: Member,
    pub(super) pids: Vec<u32>,
    pub(super) pace: Pace,
    /// The steps of its first rank. Other ranks are within a step of it, which is accurate enough to decide whether the visit
    /// is long enough.
    pub(super) steps: Vec<window::Step>,
    started: Option<Nanos>,
    pub(super) ended: Option<Nanos>,
    granted_at: Nanos,
    /// The time limit for the first step of a program of the user's. Workers have a limit of their own.
    ready_by: Option<Nanos>,
    rests: IdleTracker,
}

impl Seat {
    pub(super) fn new(outside: bool) -> Seat {
        Seat { outside, launches: Vec::new() }
    }

    /// The current launch.
    pub(super) fn launched_mut(&mut self) -> Option<&mut Launched> {
        self.launches.last_mut()
    }

    /// The pace of the current launch.
    ///
    /// # Panics
    /// Nothing was launched for the seat.
    pub(super) fn pace(&self) -> &Pace {
        &self.launches.last().expect("it was launched").pace
    }

    pub(super) fn alive(&self) -> Option<&Launched> {
        self.launches.last().filter(|launched| launched.ended.is_none())
    }

    pub(super) fn has(&self, member: Member) -> bool {
        self.alive().is_some_and(|launched| launched.member == member)
    }

    pub(super) fn is_ready(&self) -> bool {
        self.alive().is_some_and(Launched::is_ready)
    }

    /// Whether the member has used up its grant.
    pub(super) fn rests(&self) -> bool {
        self.alive().is_some_and(Launched::rests)
    }

    /// Whether its steps are known, or will be.
    pub(super) fn has_steps(&self) -> bool {
        !self.outside || self.launches.iter().any(|launched| !launched.steps.is_empty())
    }

    /// Returns `None` if its steps are not known.
    pub(super) fn steps_since(&self, since: Nanos) -> Option<usize> {
        let of_launch = |launched: &Launched| {
            launched.steps.len() - launched.steps.partition_point(|step| step.end <= since)
        };
        self.has_steps().then(|| self.launches.iter().map(of_launch).sum())
    }

    pub(super) fn came_to_its_end_since(&self, since: Nanos) -> bool {
        self.launches.iter().any(|launched| launched.ended.is_some_and(|at| at >= since))
    }

    /// Its launches so far, as input of the search for the common window.
    pub(super) fn lanes(&self, now: Nanos) -> Vec<window::LaunchActivity> {
        let lane = |launched: &Launched| {
            if self.has_steps() {
                return Some(window::LaunchActivity::Steps(launched.steps.clone()));
            }
            let window = Window { start: launched.started?, end: launched.ended.unwrap_or(now) };
            Some(window::LaunchActivity::Outside(window))
        };
        self.launches.iter().filter_map(lane).collect()
    }
}

impl Launched {
    pub(super) fn new(member: Member, spec: &LaunchSpec, timeouts: Timeouts) -> Launched {
        let now = Nanos::monotonic_now();
        // Only one process of a user's program speaks for it, and it obeys grants for all processes that it starts.
        let (ranks, ready_by) = match spec.program {
            Program::Command(_) => (1, Some(now + timeouts.first_step.into())),
            Program::Training(_) | Program::AllReduce(_) => (spec.devices.len(), None),
        };
        Launched {
            name: spec.launch.clone(),
            member,
            pids: Vec::new(),
            pace: Pace::default(),
            steps: Vec::new(),
            started: None,
            ended: None,
            granted_at: now,
            ready_by,
            rests: IdleTracker::new(ranks),
        }
    }

    pub(super) fn started(&mut self, pid: u32) {
        self.pids.push(pid);
        self.started = self.started.or(Some(Nanos::monotonic_now()));
    }

    pub(super) fn on_event(&mut self, rank: u32, at: Nanos, event: &Event) {
        match event {
            Event::Held { index } if rank == 0 => self.pace.rested(*index),
            Event::Step(step) if rank == 0 => {
                self.pace.count(step);
                self.steps.push(window::Step { end: at, dur_ns: step.dur_ns.0 });
            }
            _ => {}
        }
        self.rests.on_event(rank, event);
    }

    pub(super) fn is_ready(&self) -> bool {
        self.rests.is_ready()
    }

    /// Whether it has shown a step.
    pub(super) fn is_seen(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Whether its time limit has passed and it is not ready.
    pub(super) fn keeps_us_waiting(&self) -> bool {
        !self.is_ready() && self.ready_by.is_some_and(|by| Nanos::monotonic_now() > by)
    }

    pub(super) fn rests(&self) -> bool {
        self.rests.at(self.pace.granted())
    }

    /// Grants `steps` more and returns the total.
    pub(super) fn grant(&mut self, steps: u64) -> u64 {
        self.granted_at = Nanos::monotonic_now();
        self.pace.grant(steps)
    }

    /// The time until the next read of events, so that a rest is noticed soon.
    pub(super) fn look_after(&self, now: Nanos) -> Duration {
        let since = self.steps.last().map_or(self.granted_at, |step| step.end.max(self.granted_at));
        self.pace.look_after(since, now)
    }
}
