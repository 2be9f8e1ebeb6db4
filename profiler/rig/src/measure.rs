//! Runs one job from its start until it has enough steady steps, and ends it at a step boundary.

use std::collections::BTreeSet;

use record::launch_end::LaunchEnd;
use schema::{
    spec::{LaunchSpec, Program},
    units::Nanos,
    wire::Event,
};
use statistics::{steady, warm_up};

use crate::{
    event::{Member, RigEvent},
    event_loop::EventLoop,
    first_step::FirstStep,
    interrupt::Interrupt,
    launch::{LaunchRequest, StopMode},
    pace::Pace,
    rig::Rig,
    sampler::Sampler,
    stop::{Amount, StopCheck, StopRule},
};

/// Runs a launch alone on the rig until it is long enough. Its results are in its raw files.
///
/// A program of the user's without a step is ended at the time limit for its first step, unless it is to run `to_its_end`.
pub fn measure_alone(
    rig: &mut Rig,
    sampler: &Sampler,
    request: LaunchRequest,
    rule: StopRule,
    to_its_end: bool,
    interrupt: &Interrupt,
) -> LaunchEnd {
    let mut first_step = FirstStep::new(&request, rule).filter(|_| !to_its_end);
    let others = ranks_beside_the_first(&request.spec);
    let mut event_loop = EventLoop::new(rig, Some(sampler), interrupt);
    let member = event_loop.rig.add(request);
    let mut measured = MeasuredLaunch::new(member, rule, others);
    let mut leaving = None;
    loop {
        match event_loop.next(None) {
            Some(RigEvent::Started { .. }) => first_step.iter_mut().for_each(FirstStep::started),
            Some(RigEvent::Said { rank: 0, event, .. }) => {
                // After its first step, the number of steps decides when the launch is long enough.
                first_step = first_step.filter(|_| !matches!(event, Event::Hello(_)));
                measured.update(event_loop.rig, &event);
            }
            Some(RigEvent::Said { rank, event: Event::Step(_), .. }) => {
                measured.other_rank_stepped(event_loop.rig, rank);
            }
            Some(RigEvent::Ended { end, .. }) => return end,
            Some(_) | None => {}
        }
        if event_loop.is_interrupted() && leaving != Some(StopMode::Immediately) {
            leaving = Some(StopMode::Immediately);
            event_loop.rig.remove(member, StopMode::Immediately);
        } else if leaving.is_none() && first_step.as_mut().is_some_and(FirstStep::is_given_up) {
            leaving = Some(StopMode::AtStepBoundary);
            event_loop.rig.remove(member, StopMode::AtStepBoundary);
        }
    }
}

/// The state of a launch while it runs.
struct MeasuredLaunch {
    member: Member,
    pace: Pace,
    stop: StopCheck,
    /// The steps of its first rank. The others are within a step of it if they wait for each other.
    step_ns: Vec<u64>,
    /// The ranks beside the first that have done no step. Without a step of each, the launch has no complete step.
    without_step: BTreeSet<u32>,
    /// The total duration of the steps so far.
    spent_ns: u64,
    leaving: bool,
}

impl MeasuredLaunch {
    fn new(member: Member, rule: StopRule, others: BTreeSet<u32>) -> MeasuredLaunch {
        let (pace, stop) = (Pace::default(), StopCheck::new(rule));
        let (step_ns, without_step) = (Vec::new(), others);
        MeasuredLaunch { member, pace, stop, step_ns, without_step, spent_ns: 0, leaving: false }
    }

    fn other_rank_stepped(&mut self, rig: &Rig, rank: u32) {
        if self.without_step.remove(&rank) {
            self.leave_or_go_on(rig);
        }
    }

    fn update(&mut self, rig: &Rig, event: &Event) {
        match event {
            Event::Ready(_) => {}
            Event::Held { index } => self.pace.rested(*index),
            Event::Step(step) => {
                self.pace.count(step);
                self.count(step.dur_ns.0);
            }
            _ => return,
        }
        self.leave_or_go_on(rig);
    }

    fn leave_or_go_on(&mut self, rig: &Rig) {
        if self.leaving {
            return;
        }
        if self.has_enough() {
            self.leaving = true;
            rig.remove(self.member, StopMode::AtStepBoundary);
        } else if let Some(steps) = self.pace.due() {
            rig.extend(self.member, steps);
        }
    }

    fn count(&mut self, ns: u64) {
        let was_warm = warm_up::is_over(self.step_ns.len(), self.spent_ns);
        self.step_ns.push(ns);
        self.spent_ns += ns;
        if !was_warm {
            self.stop.warm_up = self.seen();
        }
    }

    fn seen(&self) -> Amount {
        Amount { seconds: Nanos(self.spent_ns).as_secs_f64(), steps: self.step_ns.len() }
    }

    fn has_enough(&mut self) -> bool {
        if !self.without_step.is_empty() {
            return false;
        }
        let seen = self.seen();
        let step_ns = &self.step_ns;
        let amount =
            |steps: &[u64]| Amount { seconds: Nanos(steps.iter().sum()).as_secs_f64(), steps: steps.len() };
        self.stop.is_reached(seen, || {
            // The time from the start of the steady state to now.
            let steady = steady::detect(step_ns);
            if steady.is_steady() { amount(&step_ns[steady.start..]) } else { Amount::default() }
        })
    }
}

/// The ranks of a worker but for the first. A user's program starts its ranks itself, so that their number is not known before.
fn ranks_beside_the_first(spec: &LaunchSpec) -> BTreeSet<u32> {
    match &spec.program {
        Program::Command(_) => BTreeSet::new(),
        Program::Training(_) | Program::AllReduce(_) => (1..spec.devices.len() as u32).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::PATIENCE;

    /// Feeds steps of these lengths until there is enough; returns how many it took.
    fn steps_until_enough(rule: StopRule, step_ns: impl Iterator<Item = u64>) -> usize {
        let mut measured = MeasuredLaunch::new(Member(0), rule, BTreeSet::new());
        for (i, ns) in step_ns.enumerate() {
            measured.count(ns);
            if measured.has_enough() {
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
        let flat = steps_until_enough(StopRule::Seconds(2.0), noisy(10 * ms));
        assert!((196..=215).contains(&flat), "{flat}");
        let warming = (0..20).map(|_| 30 * ms).chain(noisy(10 * ms));
        let warmed = steps_until_enough(StopRule::Seconds(2.0), warming);
        assert!((216..=240).contains(&warmed), "{warmed}");
    }

    #[test]
    fn slow_steps_are_waited_for_with_patience_that_ends() {
        let second = 1_000_000_000;
        assert_eq!(steps_until_enough(StopRule::Seconds(20.0), noisy(second)), 30);
        // Three to warm up, and three times what was asked for.
        assert_eq!(steps_until_enough(StopRule::Seconds(4.0), noisy(second)), 3 + 12);
        let cold = [9 * second, 5 * second].into_iter().chain(noisy(2 * second));
        assert_eq!(steps_until_enough(StopRule::Seconds(2.0), cold), 3 + 3);
    }

    #[test]
    fn a_launch_goes_on_until_each_rank_has_done_a_step() {
        let mut measured = MeasuredLaunch::new(Member(0), StopRule::Steps(5), [1, 2].into());
        let step = |measured: &mut MeasuredLaunch| {
            measured.count(10_000_000);
            measured.has_enough()
        };
        assert!((0..400).all(|_| !step(&mut measured)), "two ranks have no step");
        measured.without_step.remove(&2);
        assert!(!step(&mut measured), "one rank has no step");
        measured.without_step.remove(&1);
        assert!(step(&mut measured));
    }

    #[test]
    fn steps_are_counted_where_steps_were_asked_for() {
        assert_eq!(steps_until_enough(StopRule::Steps(40), noisy(1_000)), 40);
        // Six to warm up.
        let never_steady = (0..).map(|i: u64| 50_000_000 * (i + 1));
        let gave_up = steps_until_enough(StopRule::Steps(40), never_steady);
        assert!(gave_up <= 6 + PATIENCE as usize * 40, "{gave_up}");
    }
}
