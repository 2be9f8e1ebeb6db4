//! The state of a launch: its steps, its grant, its commands, and its answers.

use std::{collections::VecDeque, time::Duration};

use rig::{
    IdleTracker,
    cuda_checkpoint::PROGRAM,
    pace::{Pace, SHORTEST_LOOK},
};
use schema::{
    device::Device,
    rows::ErrorKind,
    spec::{LaunchEnd, LaunchSpec},
    units::Nanos,
    wire::{Command, Event, Step},
};

use super::{
    super::fast_forward::TimedStep, mean_loss::MeanLoss, suspend::ProcessMemory, throttle::Throttle,
};
use crate::{
    cluster::{ClusterEvent, DeviceId, JobId, Settled},
    launch::launcher::{StartRequest, came_short},
};

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

pub(super) struct LaunchState {
    pub(super) job: JobId,
    pub(super) name: String,
    pub(super) devices: Vec<DeviceId>,
    /// Cores of the host that its ranks are bound to.
    pub(super) host_cores: Vec<Device>,
    pub(super) is_command: bool,
    /// Processes that we start for it.
    pub(super) ranks: usize,
    /// Steps that the job had done when it began.
    before: u64,
    /// Steps that are left to it; absent for a command that runs until it ends.
    left: Option<u64>,
    /// Steps that all ranks have done.
    done: u64,
    /// Whether steps of its job were skipped since it began. Its process would take so many steps too many.
    has_skipped: bool,
    /// Steps of its first rank that were not taken yet, if they are kept, and the end of the last one.
    pub(super) timed: Option<Vec<TimedStep>>,
    timed_until: Option<Nanos>,
    /// Whether it was commanded something since then.
    was_commanded: bool,
    /// Done by each rank. Those of a command are known when they are heard of.
    of_ranks: Vec<u64>,
    /// The loss of the steps since the last report.
    pub(super) loss: MeanLoss,
    pace: Pace,
    pub(super) throttle: Option<Throttle>,
    /// Ranks that have said so. A command that is ready obeys a grant.
    pub(super) ready: usize,
    pub(super) is_training: bool,
    /// Nothing is granted to it: it is paused, or shall be.
    pub(super) is_held: bool,
    /// Whether its suspension goes on when it rests.
    pub(super) is_coming_to_rest: bool,
    /// Where its memory is, if `cuda-checkpoint` moves it.
    pub(super) memory: ProcessMemory,
    pub(super) is_leaving: bool,
    pub(super) is_over: bool,
    /// Its job has finished.
    pub(super) has_finished: bool,
    /// The estimated peak of tensor memory of its largest rank, if it is known.
    pub(super) memory_bytes: Option<u64>,
    /// Commands that not all ranks have answered. Ranks answer them in this order.
    pub(super) commands: VecDeque<Command>,
    answers: usize,
    refused: Option<String>,
    /// Where ranks rest. Only the first rank of a command is known.
    rests: IdleTracker,
    /// Whether a rank is leaving by itself.
    has_said_last_word: bool,
    granted_at: Nanos,
    last_step_at: Nanos,
    /// The interval between reads of its events, and when to look whether another one is better.
    pub(super) look: Duration,
    pub(super) look_at: Nanos,
    /// Its processes.
    pub(super) pids: Vec<u32>,
    /// The process of its first rank that trains. A command may have started it through another program.
    trainer: Option<u32>,
    /// When it is to be saved the next time.
    pub(super) save_at: Option<Nanos>,
    saves: u32,
    /// Why we end it.
    failure: Option<(ErrorKind, String)>,
}

impl LaunchState {
    pub(super) fn new(
        start: &StartRequest,
        spec: &LaunchSpec,
        before: u64,
        left: Option<u64>,
    ) -> LaunchState {
        let is_command = !spec.program.speaks();
        let ranks = spec.devices.len();
        let speakers = if is_command { 1 } else { ranks };
        LaunchState {
            job: start.job,
            name: spec.launch.clone(),
            devices: start.devices.clone(),
            host_cores: spec.host_cores.clone(),
            is_command,
            ranks,
            before,
            left,
            done: 0,
            has_skipped: false,
            timed: None,
            timed_until: None,
            was_commanded: false,
            of_ranks: vec![0; speakers],
            loss: MeanLoss::default(),
            pace: Pace::ahead_by(TESTBED_AHEAD),
            throttle: Throttle::of(start.share),
            ready: 0,
            is_training: false,
            is_held: false,
            is_coming_to_rest: false,
            memory: ProcessMemory::OnDevice,
            is_leaving: false,
            is_over: false,
            has_finished: false,
            memory_bytes: None,
            commands: VecDeque::new(),
            answers: 0,
            refused: None,
            rests: IdleTracker::new(speakers),
            has_said_last_word: false,
            granted_at: Nanos::ZERO,
            last_step_at: Nanos::ZERO,
            // Whether a command ever reports a step is not known.
            look: if is_command { LOOK_EVERY } else { LOOK_AT_FIRST },
            look_at: Nanos::ZERO,
            pids: Vec::new(),
            trainer: None,
            save_at: None,
            saves: 0,
            failure: None,
        }
    }

    /// Steps that all ranks have done in this launch.
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// Steps of its job.
    pub(super) fn steps(&self) -> u64 {
        self.before + self.done()
    }

    pub(super) fn has_done_all(&self) -> bool {
        self.left.is_some_and(|left| self.done() >= left)
    }

    /// Whether nothing keeps it from training.
    pub(super) fn trains(&self) -> bool {
        self.is_training && !self.is_held && !self.is_leaving && !self.is_over && self.commands.is_empty()
    }

    /// Whether it has turns, in a mode that gives turns.
    pub(super) fn takes_part(&self) -> bool {
        self.trains() && self.rests.is_ready() && !self.has_said_last_word
    }

    /// Whether it has used up its grant. A launch that is leaving by itself takes no more steps.
    pub(super) fn rests(&self) -> bool {
        self.has_said_last_word || self.rests.at(self.pace.granted())
    }

    pub(super) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Sets the interval between reads of the launch's events. The interval shrinks towards the end of the grant if other jobs wait for
    /// this launch to rest: rivals for a turn, or the job for which it is held. Returns the time at which to call again.
    pub(super) fn choose_look(&mut self, now: Nanos, has_rivals: bool) -> Option<Nanos> {
        let others_wait = self.is_coming_to_rest || has_rivals;
        if self.is_over || self.rests() || !others_wait {
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

    pub(super) fn on_event(&mut self, rank: u32, at: Nanos, event: &Event) {
        self.rests.on_event(rank, event);
        match event {
            Event::Hello(hello) if rank == 0 => self.trainer = Some(hello.pid),
            Event::Step(_) => {
                self.last_step_at = at;
                if rank == 0 {
                    self.time_step(at);
                }
            }
            Event::Finished { .. } | Event::Failed { .. } => self.has_said_last_word = true,
            _ => {}
        }
    }

    fn time_step(&mut self, end: Nanos) {
        let before = self.timed_until.replace(end).filter(|_| !self.was_commanded);
        // The first step after the answer to a command ends the time for which it rested.
        self.was_commanded &= !self.commands.is_empty();
        let took = before.map(|before| end.saturating_sub(before));
        self.timed.iter_mut().for_each(|timed| timed.push(TimedStep { end, took }));
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
        let place = rank as usize;
        if place >= self.of_ranks.len() {
            self.of_ranks.resize(place + 1, 0);
        }
        self.of_ranks[place] = self.of_ranks[place].max(steps);
        // A rank that is first heard of when others have told of steps takes back none of them.
        self.done = self.done.max(self.of_ranks.iter().copied().min().unwrap_or(0));
        self.loss.complete(self.done);
        if rank == 0 {
            self.pace.rested(steps);
        }
    }

    /// The steps it may do in all from now on, where it is time to let it do more. A worker ends by itself; a command has to be
    /// kept from doing more than was asked for.
    pub(super) fn grant(&mut self) -> Option<u64> {
        if !self.trains() {
            return None;
        }
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
        self.left.filter(|_| self.has_to_be_ended()).map_or(steps, |left| steps.min(left))
    }

    /// Whether its program would take more steps than are left.
    pub(super) fn has_to_be_ended(&self) -> bool {
        self.is_command || self.has_skipped
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

    /// Notes that a command was given to it, for which it rests.
    pub(super) fn note_command(&mut self, command: Command) {
        self.commands.push_back(command);
        self.was_commanded = true;
    }

    /// When a throttled launch is granted its next work, unless it has to do more of the last first.
    pub(super) fn next_burst_at(&self) -> Option<Nanos> {
        let throttle = self.throttle.as_ref().filter(|_| self.trains())?;
        throttle.next_at(self.granted_steps_left(), self.pace.step_ns()?)
    }

    fn granted_steps_left(&self) -> u64 {
        self.pace.granted().saturating_sub(self.pace.done())
    }

    /// # Errors
    /// Fails for a program that is not known to rest when its grant is used up.
    pub(super) fn obeys_grants(&self) -> Result<(), String> {
        match self.is_command && self.ready == 0 {
            true => Err("it is a program that obeys no grant, so nothing can hold it".into()),
            false => Ok(()),
        }
    }

    /// Whether it rests, after all that it was granted and told to do. One that leaves does not stay at rest.
    pub(super) fn has_come_to_rest(&self) -> bool {
        !self.is_leaving && !self.has_said_last_word && self.commands.is_empty() && self.rests()
    }

    /// Whether its memory is not on its device as a whole.
    pub(super) fn is_moved(&self) -> bool {
        !matches!(self.memory, ProcessMemory::OnDevice)
    }

    /// Its only process that trains.
    ///
    /// # Errors
    /// Fails if several processes train.
    pub(super) fn only_process(&self) -> Result<u32, String> {
        let processes = self.ranks.max(self.of_ranks.len());
        match self.trainer.or(self.pids.first().copied()) {
            Some(pid) if processes == 1 => Ok(pid),
            _ => Err(format!("{PROGRAM} moves the memory of one process, and {processes} train")),
        }
    }

    /// Notes why we end it. The first reason stays, because later ones follow from it: an action on a process whose device was lost fails
    /// as well.
    pub(super) fn fails_as(&mut self, kind: ErrorKind, why: String) {
        self.failure.get_or_insert((kind, why));
    }

    /// A rank has answered the first command. Returns that command, with the reason of a refusal, when all ranks have answered.
    pub(super) fn answered(&mut self, refused: Option<String>) -> Option<(Command, Option<String>)> {
        self.answers += 1;
        self.refused = self.refused.take().or(refused);
        if self.answers < self.ranks {
            return None;
        }
        self.answers = 0;
        Some((self.commands.pop_front()?, self.refused.take()))
    }

    /// The name of its next checkpoint.
    pub(super) fn next_checkpoint(&mut self) -> String {
        self.saves += 1;
        format!("{}-{}", self.name, self.saves)
    }

    /// How it ended, with the steps that its job's last checkpoint holds.
    pub(super) fn ended(&self, end: &LaunchEnd, saved: u64) -> ClusterEvent {
        let job = self.job;
        let finished = ClusterEvent::Finished { job, steps: self.steps() };
        let failed = |kind, detail| ClusterEvent::Failed { job, steps: saved, kind, detail };
        match (&self.failure, end.err) {
            // Whatever we ended it for came too late.
            (_, None | Some(ErrorKind::Interrupted)) if self.has_done_all() => finished,
            (Some((kind, why)), _) => failed(*kind, format!("{} {why}", self.name)),
            (None, None | Some(ErrorKind::Interrupted)) if self.is_leaving => {
                ClusterEvent::Settled { job, now: Settled::Stopped, steps: saved }
            }
            (None, None) if self.is_command => match came_short(self.done(), self.left) {
                None => finished,
                Some(what) => failed(ErrorKind::TooShort, format!("{}: {what}", self.name)),
            },
            (None, None) => {
                let (done, left) = (self.done(), self.left.unwrap_or_default());
                failed(ErrorKind::NoFinish, format!("{} left after {done} of {left} steps", self.name))
            }
            (None, Some(kind)) => failed(kind, end.err_detail.clone().unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use schema::{
        FORMAT,
        decision::Share,
        spec::{Notes, Program},
        wire::Timing,
    };

    use super::*;

    /// A launch of a command whose job had done `before` steps and has `left` more to do.
    fn launch(before: u64, left: Option<u64>) -> LaunchState {
        let command = Program::Command(vec!["torchrun".into()]);
        let spec = LaunchSpec::new("0001-cmd", "cmd", command, vec![Device::AllCores]);
        let start = StartRequest {
            job: JobId(0),
            number: 0,
            devices: vec![DeviceId(0)],
            cpus: None,
            plan: None,
            share: Share::FULL,
        };
        LaunchState::new(&start, &spec, before, left)
    }

    const STEP: Nanos = Nanos(10_000_000);

    fn step(index: u64) -> Step {
        let (samples, loss, phases, sent_bytes) = (None, None, None, None);
        Step { index, dur_ns: STEP, samples, loss, phases, sent_bytes, timing: Timing::Hook }
    }

    #[test]
    fn a_rank_that_is_heard_of_late_takes_no_steps_back() {
        let mut launch = launch(10, None);
        let steps = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2), (1, 3)].map(|(rank, index)| {
            launch.count(rank, &step(index));
            launch.steps()
        });
        assert_eq!(steps, [11, 12, 12, 12, 12, 13, 13]);
    }

    #[test]
    fn a_launch_that_leaves_does_not_come_to_rest() {
        let mut launch = launch(0, Some(9));
        launch.on_event(0, Nanos(1), &Event::Held { index: 0 });
        assert!(launch.has_come_to_rest());
        launch.is_leaving = true;
        assert!(!launch.has_come_to_rest(), "its process must not be locked");
    }

    /// `cuda-checkpoint` fails on a process that was ended because its device was lost.
    #[test]
    fn a_launch_fails_for_the_first_reason() {
        let mut launch = launch(0, Some(9));
        launch.fails_as(ErrorKind::DeviceLost, "lost its device cuda:0".into());
        launch.fails_as(ErrorKind::Suspension, "could not be suspended".into());
        let end = LaunchEnd {
            format: FORMAT,
            mono_ns: Nanos(1),
            enough_mono_ns: None,
            err: Some(ErrorKind::Interrupted),
            err_detail: None,
            notes: Notes::default(),
            ranks: Vec::new(),
        };
        let ended = launch.ended(&end, 4);
        assert!(
            matches!(ended, ClusterEvent::Failed { steps: 4, kind: ErrorKind::DeviceLost, .. }),
            "{ended:?}"
        );
    }

    /// Returns the delay between the end of the last granted step of a launch and the read that sees this step. The clock is simulated.
    /// `after` the first step, the launch is told to hold (`is_to_be_held`), or rivals begin to wait for its turn to end (`has_rivals`).
    fn unseen_rest(after: Nanos, is_to_be_held: bool, has_rivals: bool) -> Nanos {
        let mut launch = launch(0, None);
        launch.is_training = true;
        launch.grant();
        launch.on_event(0, STEP, &Event::Step(step(0)));
        launch.count(0, &step(0));
        let granted = launch.grant().expect("its pace is known");
        let wait_from = STEP + after;
        let mut now = STEP;
        launch.granted_at = now;
        let end_of = |index: u64| Nanos(STEP.0 * (index + 1));
        while launch.done() < granted {
            let others_wait = now >= wait_from;
            launch.is_coming_to_rest = others_wait && is_to_be_held;
            launch.choose_look(now, others_wait && has_rivals);
            let read_at = now + launch.look.into();
            now = if others_wait { read_at } else { read_at.min(wait_from) };
            while launch.done() < granted && end_of(launch.done()) <= now {
                let index = launch.done();
                launch.on_event(0, end_of(index), &Event::Step(step(index)));
                launch.count(0, &step(index));
            }
        }
        now - end_of(granted - 1)
    }

    #[test]
    fn a_rest_is_seen_soon_if_others_wait_for_it() {
        let ms = |ms: u64| Nanos(ms * 1_000_000);
        for after in (0..490).step_by(7).map(ms) {
            for (is_to_be_held, has_rivals) in [(true, false), (false, true)] {
                let unseen = unseen_rest(after, is_to_be_held, has_rivals);
                assert!(unseen <= ms(5), "{unseen} after the rest, {after} after its first step");
            }
        }
        let unseen: Vec<Nanos> =
            (0..490).step_by(7).map(|after| unseen_rest(ms(after), false, false)).collect();
        assert!(
            unseen.iter().any(|unseen| *unseen > ms(50)),
            "its events are read rarely otherwise: {unseen:?}"
        );
    }

    #[test]
    fn the_end_of_a_launch_that_skipped_steps_is_looked_for_more_often() {
        let mut launch = launch(0, Some(1_000));
        launch.is_training = true;
        launch.count(0, &step(0));
        assert!(launch.grant().is_some_and(|granted| granted < 100));
        assert_eq!(launch.usual_look(), LOOK_EVERY);
        launch.skip(launch.room().expect("it has an end") - 10);
        assert_eq!(launch.usual_look(), LOOK_EVERY, "ten steps are not granted yet");
        launch.skip(10);
        assert_eq!(launch.usual_look(), LOOK_AT_FIRST);
    }
}
