//! The work of a launch: its steps, its grant, and when it rests.

use std::time::Duration;

use launches::fast_forward::TimedStep;
use rig::{
    IdleTracker,
    pace::{Pace, SHORTEST_LOOK},
};
use schema::{
    units::Nanos,
    wire::{Event, Step},
};

use super::{mean_loss::MeanLoss, parts::Parts, throttle::Throttle};

/// The work that a launch is granted ahead, in place of the default of [`Pace`]: the longest time that others wait until it rests.
pub(super) const TESTBED_AHEAD: Duration = Duration::from_millis(500);

/// The interval between looks at its events: several within one grant.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The interval until its first step shows its pace. Its grant is small until then, and it would wait for more. Also that towards the end
/// of a launch that skipped steps.
pub(super) const LOOK_AT_FIRST: Duration = Duration::from_millis(5);

/// The work that is left to a launch, on average, when it is to come to rest: its grant is extended when half is used up, which is
/// seen half a look later.
pub const WORK_LEFT: Nanos =
    Nanos(((TESTBED_AHEAD.as_nanos() * 3 / 2 - LOOK_EVERY.as_nanos() / 2) / 2) as u64);

/// What ends a launch when its job has done its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// A worker leaves after its last step.
    Worker,
    /// A program of the user's that obeys its grant is granted one more step. Before this step, the program may end by itself and
    /// save its work. If it takes the step, it is ended from here.
    OneMoreStep,
    /// A program of the user's whose output shows its steps is ended from here when the last one is seen.
    LastLine,
}

pub(super) struct LaunchWork {
    ending: Ending,
    /// Steps that the job had done when it began.
    before: u64,
    /// Steps that are left to it. `None` for a command that runs until it ends.
    left: Option<u64>,
    /// Steps that all ranks have done, with one more than are left after the last of a program.
    done: u64,
    /// Done by each rank. Those of a command are known when they are heard of.
    of_ranks: Vec<u64>,
    /// Whether steps of its job were skipped since it began. Its process would take so many steps too many.
    has_skipped: bool,
    /// The loss of the steps since the last report.
    pub(super) loss: MeanLoss,
    pace: Pace,
    pub(super) throttle: Option<Throttle>,
    granted_at: Nanos,
    last_step_at: Nanos,
    /// Where ranks rest. Only the first rank of a command is known.
    rests: IdleTracker,
    /// Whether a rank is leaving by itself.
    has_said_last_word: bool,
    /// Steps of its first rank that were not taken yet, if they are kept, and the end of the last one.
    pub(super) timed: Option<Vec<TimedStep>>,
    timed_until: Option<Nanos>,
    /// Whether it was commanded something since then.
    was_commanded: bool,
    /// The interval between reads of its events, and when to look whether another one is better.
    pub(super) look: Duration,
    look_at: Nanos,
    /// The progress of a program without steps whose duration is known.
    pub(super) parts: Option<Parts>,
}

impl LaunchWork {
    pub(super) fn new(
        ending: Ending,
        ranks: usize,
        before: u64,
        left: Option<u64>,
        throttle: Option<Throttle>,
    ) -> LaunchWork {
        let is_command = ending != Ending::Worker;
        let speakers = if is_command { 1 } else { ranks };
        LaunchWork {
            ending,
            before,
            left,
            done: 0,
            of_ranks: vec![0; speakers],
            has_skipped: false,
            loss: MeanLoss::default(),
            pace: Pace::ahead_by(TESTBED_AHEAD),
            throttle,
            granted_at: Nanos::ZERO,
            last_step_at: Nanos::ZERO,
            rests: IdleTracker::new(speakers),
            has_said_last_word: false,
            timed: None,
            timed_until: None,
            was_commanded: false,
            // Whether a command ever reports a step is not known.
            look: if is_command { LOOK_EVERY } else { LOOK_AT_FIRST },
            look_at: Nanos::ZERO,
            parts: None,
        }
    }

    /// Steps that all ranks have done in this launch.
    pub(super) fn done(&self) -> u64 {
        self.left.map_or(self.done, |left| self.done.min(left))
    }

    /// Steps that its job had done when it began, and those that were skipped since.
    pub(super) fn before(&self) -> u64 {
        self.before
    }

    /// Steps of its job.
    pub(super) fn steps(&self) -> u64 {
        let done = self.parts.as_ref().map(|parts| parts.done(Nanos::monotonic_now()));
        self.before + done.unwrap_or(self.done())
    }

    /// The steps of its job at the end of the program.
    pub(super) fn steps_at_end(&self) -> u64 {
        self.before + self.parts.as_ref().map_or(self.done(), Parts::count)
    }

    /// Steps that the launch had to do when it began, less those that were skipped. `None` for a command that runs until it ends.
    pub(super) fn left(&self) -> Option<u64> {
        self.left
    }

    pub(super) fn has_done_all(&self) -> bool {
        self.left.is_some_and(|left| self.done >= left)
    }

    /// Ranks that were heard of, or are known to train.
    pub(super) fn ranks(&self) -> usize {
        self.of_ranks.len()
    }

    pub(super) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Whether all ranks are ready and none is leaving by itself.
    pub(super) fn obeys_turns(&self) -> bool {
        self.rests.is_ready() && !self.has_said_last_word
    }

    /// Whether it has used up its grant. A launch that is leaving by itself takes no more steps.
    pub(super) fn rests(&self) -> bool {
        self.has_said_last_word || self.rests.at(self.pace.granted())
    }

    /// Whether it has used up its grant and does not leave by itself.
    pub(super) fn is_idle(&self) -> bool {
        !self.has_said_last_word && self.rests()
    }

    /// See [`super::launch::LaunchState::choose_look`].
    pub(super) fn choose_look(&mut self, now: Nanos, others_wait: bool) -> Option<Nanos> {
        if self.rests() || !others_wait {
            (self.look, self.look_at) = (self.usual_look(), now);
            return None;
        }
        if self.look_at <= now {
            self.look = self.pace.look_after(self.last_step_at.max(self.granted_at), now);
            self.look_at = now + self.look.into();
        }
        // At the shortest interval the rig reads often enough, and wakes the caller when there is an event.
        (self.look > SHORTEST_LOOK).then_some(self.look_at)
    }

    /// `is_commanded` says whether a rank has not answered a command.
    pub(super) fn on_event(&mut self, rank: u32, at: Nanos, event: &Event, is_commanded: bool) {
        self.rests.on_event(rank, event);
        match event {
            Event::Step(_) => {
                self.last_step_at = at;
                if rank == 0 {
                    self.time_step(at, is_commanded);
                }
            }
            Event::Finished { .. } | Event::Failed { .. } => self.has_said_last_word = true,
            _ => {}
        }
    }

    fn time_step(&mut self, end: Nanos, is_commanded: bool) {
        let before = self.timed_until.replace(end).filter(|_| !self.was_commanded);
        // The first step after the answer to a command ends the time for which it rested.
        self.was_commanded &= is_commanded;
        let took = before.map(|before| end.saturating_sub(before));
        self.timed.iter_mut().for_each(|timed| timed.push(TimedStep { end, took }));
    }

    /// Notes that a command was given to it, for which it rests.
    pub(super) fn note_command(&mut self) {
        self.was_commanded = true;
    }

    pub(super) fn count(&mut self, rank: u32, step: &Step) {
        if rank == 0 {
            self.pace.count(step);
        }
        self.loss.add(step);
        self.has_done(rank, step.index.saturating_add(1));
    }

    /// Sets the number of steps of a rank. Not every step of a program of the user's is reported by an event.
    pub(super) fn has_done(&mut self, rank: u32, steps: u64) {
        let index = rank as usize;
        if index >= self.of_ranks.len() {
            self.of_ranks.resize(index + 1, 0);
        }
        self.of_ranks[index] = self.of_ranks[index].max(steps);
        // A rank that is first heard of when others have told of steps takes back none of them.
        self.done = self.done.max(self.of_ranks.iter().copied().min().unwrap_or(0));
        self.loss.complete(self.done());
        if rank == 0 {
            self.pace.rested(steps);
        }
    }

    /// The steps it may do in all from now on, where it is time to let it do more. See [`super::launch::LaunchState::grant`].
    pub(super) fn grant(&mut self) -> Option<u64> {
        let left = self.granted_steps_left();
        let due = match (&mut self.throttle, self.pace.step_ns()) {
            (Some(throttle), Some(step_ns)) => {
                self.pace.grant(throttle.due(Nanos::monotonic_now(), left, step_ns)?)
            }
            // The pace is not known before the first step.
            _ => self.pace.due()?,
        };
        Some(self.granted(due))
    }

    /// The same for a turn of this number of steps.
    pub(super) fn grant_turn(&mut self, steps: u64) -> u64 {
        let steps = self.pace.grant(steps);
        self.granted(steps)
    }

    fn granted(&mut self, steps: u64) -> u64 {
        self.granted_at = Nanos::monotonic_now();
        self.last_grant().map_or(steps, |last| steps.min(last))
    }

    /// The steps after which the launch is granted no more, and is ended from here. `None` if it leaves by itself before.
    fn last_grant(&self) -> Option<u64> {
        let left = self.left?;
        match self.ending {
            Ending::OneMoreStep if !self.has_skipped => Some(left.saturating_add(1)),
            Ending::Worker if !self.has_skipped => None,
            Ending::OneMoreStep | Ending::Worker | Ending::LastLine => Some(left),
        }
    }

    /// Whether its program has done its steps and would go on.
    pub(super) fn has_to_be_ended(&self) -> bool {
        self.last_grant().is_some_and(|last| self.done >= last)
    }

    /// The interval between reads of its events while no other launch waits for its rest. A launch that skipped steps is ended from here
    /// after its last one, which is to be noticed soon.
    fn usual_look(&self) -> Duration {
        let is_granted_its_end =
            self.has_skipped && self.left.is_some_and(|left| self.pace.granted() >= left);
        if is_granted_its_end { LOOK_AT_FIRST } else { LOOK_EVERY }
    }

    /// The steps that are left and not granted.
    pub(super) fn room(&self) -> Option<u64> {
        Some(self.left?.saturating_sub(self.done.max(self.pace.granted())))
    }

    /// Counts this number of steps as done.
    pub(super) fn skip(&mut self, steps: u64) {
        self.before += steps;
        self.left = self.left.map(|left| left.saturating_sub(steps));
        self.has_skipped |= steps > 0;
    }

    /// When a throttled launch is granted its next work, unless it has to do more of the last first.
    pub(super) fn next_burst_at(&self) -> Option<Nanos> {
        self.throttle.as_ref()?.next_at(self.granted_steps_left(), self.pace.step_ns()?)
    }

    fn granted_steps_left(&self) -> u64 {
        self.pace.granted().saturating_sub(self.pace.done())
    }
}

#[cfg(test)]
mod tests {
    use formats::decision::Share;
    use proptest::prelude::*;
    use schema::wire::Timing;

    use super::*;

    /// The work of a command whose job had done `before` steps and has `left` more to do.
    fn work(before: u64, left: Option<u64>) -> LaunchWork {
        LaunchWork::new(Ending::OneMoreStep, 1, before, left, None)
    }

    const STEP: Nanos = Nanos(10_000_000);

    fn step(index: u64) -> Step {
        let (samples, loss, phases, sent_bytes) = (None, None, None, None);
        Step { index, dur_ns: STEP, samples, loss, phases, sent_bytes, timing: Timing::Hook }
    }

    #[test]
    fn a_rank_that_is_heard_of_late_takes_no_steps_back() {
        let mut work = work(10, None);
        let steps = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2), (1, 3)].map(|(rank, index)| {
            work.count(rank, &step(index));
            work.steps()
        });
        assert_eq!(steps, [11, 12, 12, 12, 12, 13, 13]);
    }

    /// Returns the delay between the end of the last granted step of a launch and the read that sees this step. The clock is simulated.
    /// `after` the first step, others begin to wait for the launch to rest if `others_wait`.
    fn unseen_rest(after: Nanos, others_wait: bool) -> Nanos {
        let mut work = work(0, None);
        work.grant();
        work.on_event(0, STEP, &Event::Step(step(0)), false);
        work.count(0, &step(0));
        let granted = work.grant().expect("its pace is known");
        let wait_from = STEP + after;
        let mut now = STEP;
        work.granted_at = now;
        let end_of = |index: u64| Nanos(STEP.0 * (index + 1));
        while work.done() < granted {
            let wait_now = now >= wait_from;
            work.choose_look(now, wait_now && others_wait);
            let read_at = now + work.look.into();
            now = if wait_now { read_at } else { read_at.min(wait_from) };
            while work.done() < granted && end_of(work.done()) <= now {
                let index = work.done();
                work.on_event(0, end_of(index), &Event::Step(step(index)), false);
                work.count(0, &step(index));
            }
        }
        now - end_of(granted - 1)
    }

    #[test]
    fn a_rest_is_seen_soon_if_others_wait_for_it() {
        let ms = |ms: u64| Nanos(ms * 1_000_000);
        for after in (0..490).step_by(7).map(ms) {
            let unseen = unseen_rest(after, true);
            assert!(unseen <= ms(5), "{unseen} after the rest, {after} after its first step");
        }
        let unseen: Vec<Nanos> = (0..490).step_by(7).map(|after| unseen_rest(ms(after), false)).collect();
        assert!(
            unseen.iter().any(|unseen| *unseen > ms(50)),
            "its events are read rarely otherwise: {unseen:?}"
        );
    }

    #[test]
    fn a_program_takes_no_step_beyond_the_one_that_it_may_end_before() {
        for (ending, skipped, last) in
            [(Ending::OneMoreStep, 0, 10), (Ending::OneMoreStep, 2, 7), (Ending::LastLine, 0, 9)]
        {
            let mut work = LaunchWork::new(ending, 1, 100, Some(9), None);
            work.skip(skipped);
            assert_eq!(work.grant_turn(50), last, "{ending:?}");
            for index in 0..last {
                assert!(!work.has_to_be_ended(), "{ending:?} after {index} steps");
                work.count(0, &step(index));
            }
            assert!(work.has_to_be_ended() && work.has_done_all(), "{ending:?}");
            assert_eq!((work.done(), work.steps_at_end()), (9 - skipped, 109), "{ending:?}");
        }
        let mut worker = LaunchWork::new(Ending::Worker, 1, 0, Some(9), None);
        (0..9).for_each(|index| worker.count(0, &step(index)));
        assert!(worker.has_done_all() && !worker.has_to_be_ended(), "it leaves by itself");
    }

    #[test]
    fn the_end_of_a_launch_that_skipped_steps_is_looked_for_more_often() {
        let mut work = work(0, Some(1_000));
        work.count(0, &step(0));
        assert!(work.grant().is_some_and(|granted| granted < 100));
        assert_eq!(work.usual_look(), LOOK_EVERY);
        work.skip(work.room().expect("it has an end") - 10);
        assert_eq!(work.usual_look(), LOOK_EVERY, "ten steps are not granted yet");
        work.skip(10);
        assert_eq!(work.usual_look(), LOOK_AT_FIRST);
    }

    proptest! {
        #[test]
        fn grants_only_grow(
            left in prop::option::of(0..2_000_u64),
            ending in prop::sample::select(&[Ending::Worker, Ending::OneMoreStep, Ending::LastLine][..]),
            share in 0.05..1.0,
            choices in prop::collection::vec((0..6_u8, 1..50_u64), 1..100),
        ) {
            let mut work = LaunchWork::new(ending, 1, 7, left, None);
            let (mut granted, mut index) = (0, 0);
            for (choice, number) in choices {
                let grant = match choice {
                    0 | 1 => {
                        for _ in 0..number {
                            work.count(0, &step(index));
                            index += 1;
                        }
                        None
                    }
                    2 => work.grant(),
                    3 => Some(work.grant_turn(number)),
                    4 => {
                        work.skip(number.min(work.room().unwrap_or(number)));
                        None
                    }
                    _ => {
                        work.throttle = Throttle::of(Share::new(share).expect("it is a share"));
                        None
                    }
                };
                if let Some(grant) = grant {
                    prop_assert!(grant >= granted, "{grant} after {granted}");
                    granted = grant;
                }
            }
        }
    }
}
