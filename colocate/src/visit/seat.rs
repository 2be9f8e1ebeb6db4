//! The state of a member while its group runs.

use std::time::Duration;

use rig::{Member, POLL_TRAINING, Patience, pace::Pace};
use schema::{
    spec::{LaunchSpec, Program},
    units::{Nanos, Window},
    wire::Event,
};

use crate::window;

/// The shortest interval between reads of the events of a member that is about to rest.
pub(super) const SHORTEST_LOOK: Duration = Duration::from_millis(1);

/// The share of a member's remaining time that passes before its events are read again.
const SLEPT_SHARE: f64 = 0.9;

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
    /// The duration of these steps, without time in which the job was held.
    pub(super) worked_ns: u64,
    started: Option<Nanos>,
    pub(super) ended: Option<Nanos>,
    granted_at: Nanos,
    /// The time limit for the first step of a program of the user's. Workers have a limit of their own.
    ready_by: Option<Nanos>,
    /// The number of steps after which each rank last came to rest. A rank that is ready rests after 0 steps.
    rests_after: Vec<Option<u64>>,
}

impl Seat {
    pub(super) fn new(outside: bool) -> Seat {
        Seat { outside, launches: Vec::new() }
    }

    /// The current launch.
    pub(super) fn launched_mut(&mut self) -> Option<&mut Launched> {
        self.launches.last_mut()
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
    pub(super) fn new(member: Member, spec: &LaunchSpec, patience: Patience) -> Launched {
        let now = Nanos::monotonic_now();
        // Only one process of a user's program speaks for it, and it obeys grants for all processes that it starts.
        let (ranks, ready_by) = match spec.program {
            Program::Command(_) => (1, Some(now + patience.startup.into())),
            Program::Training(_) | Program::AllReduce(_) => (spec.devices.len(), None),
        };
        Launched {
            name: spec.launch.clone(),
            member,
            pids: Vec::new(),
            pace: Pace::default(),
            steps: Vec::new(),
            worked_ns: 0,
            started: None,
            ended: None,
            granted_at: now,
            ready_by,
            rests_after: vec![None; ranks],
        }
    }

    pub(super) fn started(&mut self, pid: u32) {
        self.pids.push(pid);
        self.started = self.started.or(Some(Nanos::monotonic_now()));
    }

    pub(super) fn hear(&mut self, rank: u32, at: Nanos, event: &Event) {
        let rests_after = match event {
            Event::Ready(_) => 0,
            Event::Held { index } => {
                if rank == 0 {
                    self.pace.rested(*index);
                }
                *index
            }
            Event::Step(step) if rank == 0 => {
                self.pace.count(step);
                self.worked_ns += step.dur_ns.0;
                self.steps.push(window::Step { end: at, dur_ns: step.dur_ns.0 });
                return;
            }
            _ => return,
        };
        if let Some(rank) = self.rests_after.get_mut(rank as usize) {
            *rank = Some(rests_after);
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.rests_after.iter().all(Option::is_some)
    }

    /// Whether its time limit has passed and it is not ready.
    pub(super) fn keeps_us_waiting(&self) -> bool {
        !self.is_ready() && self.ready_by.is_some_and(|by| Nanos::monotonic_now() > by)
    }

    pub(super) fn rests(&self) -> bool {
        self.rests_after.iter().all(|after| after.is_some_and(|steps| steps >= self.pace.granted()))
    }

    /// Grants `steps` more and returns the total.
    pub(super) fn grant(&mut self, steps: u64) -> u64 {
        self.granted_at = Nanos::monotonic_now();
        self.pace.grant(steps)
    }

    /// The time until the next read of events, so that a rest is noticed soon.
    pub(super) fn look_after(&self, now: Nanos) -> Duration {
        let Some(step_ns) = self.pace.step_ns() else { return POLL_TRAINING };
        let last = self.steps.last().map_or(self.granted_at, |step| step.end.max(self.granted_at));
        let steps_left = self.pace.granted().saturating_sub(self.pace.done());
        let rests_at = last.0 as f64 + steps_left as f64 * step_ns;
        let left_ns = (rests_at - now.0 as f64).max(0.0);
        Duration::from_nanos((SLEPT_SHARE * left_ns) as u64).clamp(SHORTEST_LOOK, POLL_TRAINING)
    }
}
