//! Takes one job from its start to enough steady steps, and lets it go at a step boundary.

use std::time::Duration;

use schema::{
    spec::LaunchEnd,
    units::Nanos,
    wire::{Event, Step, Timing},
};
use statistics::{interval::MIN_STEPS, steady};

use crate::{
    first_step::FirstStep,
    interrupt::Interrupt,
    rig::{LaunchRequest, Leave, Member, Rig, RigEvent},
    sampler::Sampler,
};

/// How long a rank works on what it was granted before it can run dry: several of the rig's looks,
/// so that a busy host does not hold it. It is also how long a job goes on after enough of it was seen.
const GRANTED_AHEAD: Duration = Duration::from_millis(1000);

/// Steps whose mean is the pace of a job.
const PACE_STEPS: usize = 8;

/// A launch that does not become steady is let go after so many times what was asked for.
const PATIENCE: usize = 3;

/// A look at the interrupt flag, at least so often.
const LOOK: Duration = Duration::from_millis(200);

/// When a launch has been measured for long enough.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Enough {
    /// So much steady time, and steps for an interval if they come before three times as much. Of a program that takes no
    /// steps, so much time from its start.
    Seconds(f64),
    /// So many steady steps.
    Steps(u64),
    /// As many steps as the job was given, or the end of the program.
    End,
}

/// Runs a launch alone on the rig until there is enough of it. Its raw files tell the rest.
pub fn alone(
    rig: &mut Rig,
    sampler: &Sampler,
    request: LaunchRequest,
    enough: Enough,
    interrupt: &Interrupt,
) -> LaunchEnd {
    let launch = request.spec.launch.clone();
    let mut first_step = FirstStep::of(&request, enough);
    let member = rig.add(request);
    let mut watch = Watch::new(member, enough);
    let mut leaving = None;
    loop {
        match rig.next(Some(Nanos::monotonic_now() + Nanos::from(LOOK))) {
            Some(RigEvent::Started { rank, pid, .. }) => {
                sampler.watch(&launch, rank, pid);
                first_step.iter_mut().for_each(|first| first.started(pid));
            }
            Some(RigEvent::Said { rank: 0, event, .. }) => {
                // From its first step on, steps tell when there is enough.
                first_step = first_step.filter(|_| !matches!(event, Event::Hello(_)));
                watch.hear(rig, &event);
            }
            Some(RigEvent::Ended { end, .. }) => {
                sampler.unwatch(&launch);
                return end;
            }
            _ => {}
        }
        if interrupt.asked() && leaving != Some(Leave::Now) {
            leaving = Some(Leave::Now);
            rig.remove(member, Leave::Now);
        } else if leaving.is_none() && first_step.as_mut().is_some_and(FirstStep::is_given_up) {
            leaving = Some(Leave::AtBoundary);
            rig.remove(member, Leave::AtBoundary);
        }
    }
}

/// What is known of a launch while it runs.
struct Watch {
    member: Member,
    enough: Enough,
    step_ns: Vec<u64>,
    /// Time of all steps so far.
    spent_ns: u64,
    /// Steps that may be under way beyond the last one that was told.
    under_way: u64,
    /// The steady state is looked for again when this much time was spent.
    look_at_ns: u64,
    granted: u64,
    leaving: bool,
}

impl Watch {
    fn new(member: Member, enough: Enough) -> Watch {
        Watch {
            member,
            enough,
            step_ns: Vec::new(),
            spent_ns: 0,
            under_way: 1,
            look_at_ns: 0,
            granted: 0,
            leaving: false,
        }
    }

    fn hear(&mut self, rig: &Rig, event: &Event) {
        match event {
            Event::Ready(_) | Event::Held { .. } => {}
            Event::Step(step) => self.count(step),
            _ => return,
        }
        if self.leaving {
            return;
        }
        if self.has_enough() {
            self.leaving = true;
            rig.remove(self.member, Leave::AtBoundary);
        } else if let Some(steps) = self.grant_due() {
            rig.extend(self.member, steps);
        }
    }

    fn count(&mut self, step: &Step) {
        self.step_ns.push(step.dur_ns.0);
        self.spent_ns += step.dur_ns.0;
        // A device has the next step in its queue while it works on this one.
        self.under_way =
            if matches!(step.timing, Timing::DeviceEvent | Timing::HookDeviceEvent) { 2 } else { 1 };
    }

    /// The steps to grant now, if it is time.
    fn grant_due(&mut self) -> Option<u64> {
        let (done, ahead) = (self.step_ns.len() as u64, self.steps_ahead());
        // Each order wakes the supervisor, so it gets one when half is used up and not one a step. But
        // the step after those under way is granted always: its job must not wait for us.
        let due = self.granted < done + ahead.div_ceil(2).max(self.under_way + 1);
        due.then(|| {
            self.granted = done + ahead;
            self.granted
        })
    }

    /// Steps that fill [`GRANTED_AHEAD`], at the pace of the last ones, and those that are under way. Of very
    /// short steps a single one says little: a thousand times as many would be granted after a lucky one.
    fn steps_ahead(&self) -> u64 {
        let last = &self.step_ns[self.step_ns.len().saturating_sub(PACE_STEPS)..];
        let sum_ns = last.iter().map(|ns| u128::from(*ns)).sum::<u128>().max(1);
        let ahead = (GRANTED_AHEAD.as_nanos() * last.len() as u128).div_ceil(sum_ns);
        self.under_way + ahead.max(1) as u64
    }

    fn has_enough(&mut self) -> bool {
        let (steps, seconds) = (self.step_ns.len(), self.spent_ns as f64 / 1e9);
        match self.enough {
            Enough::End => false,
            Enough::Steps(wanted) => {
                let wanted = wanted as usize;
                // The search is worth its cost only once a steady window can be long enough.
                steps >= wanted && steps.is_multiple_of(wanted.div_ceil(8).max(1)) && {
                    steps >= PATIENCE * wanted.max(MIN_STEPS) || self.steady_steps() >= wanted
                }
            }
            Enough::Seconds(wanted) => {
                if self.spent_ns < self.look_at_ns.max((wanted * 1e9) as u64) {
                    return false;
                }
                let used = self.steady_steps();
                let steady_s = self.step_ns[steps - used..].iter().sum::<u64>() as f64 / 1e9;
                // A twentieth at least until the next look, so that looking stays cheap.
                let missing_s = (wanted - steady_s).max(wanted / 20.0);
                self.look_at_ns = self.spent_ns + (missing_s * 1e9) as u64;
                (steady_s >= wanted && used >= MIN_STEPS) || seconds >= PATIENCE as f64 * wanted
            }
        }
    }

    /// Steps from the start of the steady state to now.
    fn steady_steps(&self) -> usize {
        let steady = steady::detect(&self.step_ns);
        if steady.is_steady() { self.step_ns.len() - steady.start } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Feeds steps of these lengths until there is enough; returns how many it took.
    fn steps_until_enough(enough: Enough, step_ns: impl Iterator<Item = u64>) -> usize {
        let mut watch = Watch::new(Member(0), enough);
        for (i, ns) in step_ns.enumerate() {
            watch.step_ns.push(ns);
            watch.spent_ns += ns;
            if watch.has_enough() {
                return i + 1;
            }
        }
        panic!("never enough");
    }

    fn noisy(ns: u64) -> impl Iterator<Item = u64> {
        let mut chance = fastrand::Rng::with_seed(1);
        std::iter::repeat_with(move || ns + chance.u64(0..ns / 50))
    }

    #[test]
    fn enough_is_counted_from_the_steady_state() {
        let ms = 1_000_000;
        let flat = steps_until_enough(Enough::Seconds(2.0), noisy(10 * ms));
        assert!((196..=215).contains(&flat), "{flat}");
        let warming = (0..20).map(|_| 30 * ms).chain(noisy(10 * ms));
        let warmed = steps_until_enough(Enough::Seconds(2.0), warming);
        assert!((216..=240).contains(&warmed), "{warmed}");
    }

    #[test]
    fn slow_steps_are_waited_for_with_patience_that_ends() {
        let second = 1_000_000_000;
        assert_eq!(steps_until_enough(Enough::Seconds(20.0), noisy(second)), 30);
        assert_eq!(steps_until_enough(Enough::Seconds(4.0), noisy(second)), 12);
    }

    #[test]
    fn steps_are_counted_where_steps_were_asked_for() {
        assert_eq!(steps_until_enough(Enough::Steps(40), noisy(1_000)), 40);
        let never_steady = (0..).map(|i: u64| 1_000 * (i + 1));
        let gave_up = steps_until_enough(Enough::Steps(40), never_steady);
        assert!(gave_up <= PATIENCE * 40 + 5, "{gave_up}");
    }

    /// Grants steps of this length as they are told; what was granted when each had been told, the
    /// beginning first.
    fn grants(ns: u64, timing: Timing) -> Vec<u64> {
        let mut watch = Watch::new(Member(0), Enough::End);
        watch.grant_due();
        let mut granted = vec![watch.granted];
        for index in 0..200 {
            let (samples, loss, phases, sent_bytes) = (1, None, None, None);
            watch.count(&Step { index, dur_ns: Nanos(ns), samples, loss, phases, sent_bytes, timing });
            watch.grant_due();
            granted.push(watch.granted);
        }
        granted
    }

    #[test]
    fn the_grant_runs_ahead_by_a_second() {
        let ms = 1_000_000;
        assert_eq!(grants(10 * ms, Timing::Host)[..2], [2, 1 + 101]);
        assert_eq!(grants(5_000 * ms, Timing::Host)[..3], [2, 3, 4]);
        assert_eq!(grants(5_000 * ms, Timing::DeviceEvent)[..3], [2, 4, 5], "one more is in its queue");
        let orders: HashSet<u64> = grants(10 * ms, Timing::Host).into_iter().collect();
        assert!(orders.len() < 8, "an order for half a second of steps, not for each: {orders:?}");
    }

    #[test]
    fn a_device_whose_host_runs_ahead_never_waits_for_a_grant() {
        for (step_ms, in_flight) in [(1, 4), (25, 4), (50, 2), (100, 1), (999, 1), (1_000, 1), (60_000, 1)] {
            let granted = grants(step_ms * 1_000_000, Timing::DeviceEvent);
            for done in 2..200 {
                // The worker issues a step as it tells this one, of which we have not heard yet.
                assert!(granted[done - 1] > done as u64 + in_flight, "{step_ms} ms, {done} done");
            }
        }
    }
}
