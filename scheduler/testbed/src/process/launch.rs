//! A launch: where it is in its life, its work, and what is known of its processes.

use engine::cluster::{ClusterEvent, DeviceId, JobId, Settled};
use launches::{
    launcher::{StartRequest, came_short},
    machine::{Effect, Input, LaunchMachine, LaunchPhase, Traits},
};
use record::{launch_end::LaunchEnd, rows::ErrorKind, suspension::Suspension};
use rig::cuda_checkpoint::{PROGRAM, Switching};
use schema::{
    device::Device,
    spec::{JobCheckpoint, LaunchSpec},
    units::Nanos,
    wire::{Event, Step},
};

use super::{
    throttle::Throttle,
    work::{Ending, LaunchWork},
};

/// The event that ends the start of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    /// The start of the first process. For a command that runs until it ends: its length includes its start.
    Started,
    /// The first line of output that shows a step. For a command with a pattern for its steps.
    Heard,
    /// The `ready` of all ranks of a worker, or of the first rank of a command that sends one.
    Ready,
}

pub(super) struct LaunchState {
    pub(super) job: JobId,
    pub(super) name: String,
    pub(super) devices: Vec<DeviceId>,
    /// Cores of the host that its ranks are bound to.
    pub(super) host_cores: Vec<Device>,
    pub(super) is_command: bool,
    pub(super) begins: Begins,
    machine: LaunchMachine,
    pub(super) work: LaunchWork,
    /// Ranks that have said so. A command that is ready obeys a grant.
    pub(super) ready: usize,
    /// Processes that we start for it.
    pub(super) ranks: usize,
    pub(super) pids: Vec<u32>,
    /// The process of its first rank that trains. A command may have started it through another program.
    trainer: Option<u32>,
    /// The program that moves its memory.
    pub(super) mover: Option<Switching>,
    /// The estimated peak of tensor memory of its largest rank, if it is known.
    pub(super) memory_bytes: Option<u64>,
    /// When it is to be saved the next time.
    pub(super) save_at: Option<Nanos>,
    /// Its job has finished.
    pub(super) has_finished: bool,
}

impl LaunchState {
    /// The launch of a job that had done `before` steps and has `left` more to do. `left` is `None` for a command that runs until it ends.
    pub(super) fn new(
        start: &StartRequest,
        spec: &LaunchSpec,
        suspension: Suspension,
        before: u64,
        left: Option<u64>,
    ) -> LaunchState {
        let is_command = !spec.program.speaks();
        let ranks = spec.processes() as usize;
        let begins = match (is_command, left, &spec.steps_regex) {
            (true, None, _) => Begins::Started,
            (true, _, Some(_)) => Begins::Heard,
            _ => Begins::Ready,
        };
        let ending = match (is_command, &spec.steps_regex) {
            (false, _) => Ending::Worker,
            (true, None) => Ending::OneMoreStep,
            (true, Some(_)) => Ending::LastLine,
        };
        LaunchState {
            job: start.job,
            name: spec.launch.clone(),
            devices: start.devices.clone(),
            host_cores: spec.host_cores.clone(),
            is_command,
            begins,
            machine: LaunchMachine::new(Traits {
                ranks,
                answers: !is_command,
                saves_on_order: saves_on_order(spec),
                suspension,
            }),
            work: LaunchWork::new(ending, ranks, before, left, Throttle::of(start.share)),
            ready: 0,
            ranks,
            pids: Vec::new(),
            trainer: None,
            mover: None,
            memory_bytes: None,
            save_at: None,
            has_finished: false,
        }
    }

    /// Takes an input of its life. Returns the effects, in order.
    pub(super) fn step(&mut self, input: Input) -> Vec<Effect> {
        let effects = self.machine.step(input, self.work.is_idle());
        if let Some(parts) = &mut self.work.parts {
            parts.note(self.machine.trains(), Nanos::monotonic_now());
        }
        effects
    }

    /// Whether it saves on an order.
    pub(super) fn saves_on_order(&self) -> bool {
        self.machine.saves_on_order()
    }

    /// Whether a command to a rank, or an order to save, has no answer yet.
    pub(super) fn is_commanded(&self) -> bool {
        self.machine.is_commanded()
    }

    pub(super) fn phase(&self) -> LaunchPhase {
        self.machine.phase()
    }

    /// Whether its processes have ended.
    pub(super) fn is_over(&self) -> bool {
        self.phase() == LaunchPhase::Gone
    }

    /// Whether nothing keeps it from training.
    pub(super) fn trains(&self) -> bool {
        self.machine.trains()
    }

    /// Whether its memory is not on its device as a whole.
    pub(super) fn is_moved(&self) -> bool {
        !self.machine.is_on_device()
    }

    /// Whether it has turns, in a mode that gives turns.
    pub(super) fn takes_part(&self) -> bool {
        self.trains() && self.work.obeys_turns()
    }

    /// Sets the interval between reads of the launch's events. The interval shrinks towards the end of the grant if other jobs wait for
    /// this launch to rest: rivals for a turn, or the job for which it is held. Returns the time at which to call again.
    pub(super) fn choose_look(&mut self, now: Nanos, has_rivals: bool) -> Option<Nanos> {
        let others_wait = self.phase() == LaunchPhase::Draining || has_rivals;
        self.work.choose_look(now, others_wait && !self.is_over())
    }

    pub(super) fn on_event(&mut self, rank: u32, at: Nanos, event: &Event) {
        if let (Event::Hello(hello), 0) = (event, rank) {
            self.trainer = Some(hello.pid);
        }
        self.work.on_event(rank, at, event, self.machine.is_commanded());
    }

    pub(super) fn count(&mut self, rank: u32, step: &Step) {
        self.work.count(rank, step);
    }

    /// The steps it may do in all from now on, where it is time to let it do more. A worker ends by itself; a command has to be
    /// kept from doing more than was asked for.
    pub(super) fn grant(&mut self) -> Option<u64> {
        if self.trains() { self.work.grant() } else { None }
    }

    /// When a throttled launch is granted its next work, unless it has to do more of the last first.
    pub(super) fn next_burst_at(&self) -> Option<Nanos> {
        if self.trains() { self.work.next_burst_at() } else { None }
    }

    /// # Errors
    /// Fails for a program that is not known to rest when its grant is used up.
    pub(super) fn obeys_grants(&self) -> Result<(), String> {
        match self.is_command && self.ready == 0 {
            true => {
                Err("it is a program that obeys no grant, so nothing can hold it between two steps".into())
            }
            false => Ok(()),
        }
    }

    /// Its only process that trains.
    ///
    /// # Errors
    /// Fails if several processes train.
    pub(super) fn only_process(&self) -> Result<u32, String> {
        let processes = self.ranks.max(self.work.ranks());
        match self.trainer.or(self.pids.first().copied()) {
            Some(pid) if processes == 1 => Ok(pid),
            _ => Err(format!("{PROGRAM} moves the memory of one process, and {processes} train")),
        }
    }

    /// The name of a checkpoint of this number.
    pub(super) fn checkpoint(&self, number: u32) -> String {
        format!("{}-{number}", self.name)
    }

    /// How it ended, with the steps that its job's last checkpoint holds.
    pub(super) fn ended(&self, end: &LaunchEnd, saved: u64) -> ClusterEvent {
        let job = self.job;
        let finished = ClusterEvent::Finished { job, steps: self.work.steps_at_end() };
        let failed = |kind, detail| ClusterEvent::Failed { job, steps: saved, kind, detail };
        match (self.machine.failure(), end.err) {
            // Whatever we ended it for came too late.
            (_, None | Some(ErrorKind::Interrupted)) if self.work.has_done_all() => finished,
            (Some((kind, why)), _) => failed(*kind, format!("{} {why}", self.name)),
            // A worker does not leave by itself after it has saved.
            (None, None) if self.is_command && self.phase() == LaunchPhase::Saving => {
                failed(ErrorKind::NoFinish, format!("{} ended in place of saving", self.name))
            }
            (None, None | Some(ErrorKind::Interrupted)) if self.phase().is_leaving() => {
                ClusterEvent::Settled { job, now: Settled::Stopped, steps: saved }
            }
            (None, None) if self.is_command => match came_short(self.work.done(), self.work.left()) {
                None => finished,
                Some(what) => failed(ErrorKind::TooShort, format!("{}: {what}", self.name)),
            },
            (None, None) => {
                let (done, left) = (self.work.done(), self.work.left().unwrap_or_default());
                failed(ErrorKind::NoFinish, format!("{} left after {done} of {left} steps", self.name))
            }
            (None, Some(kind)) => failed(kind, end.err_detail.clone().unwrap_or_default()),
        }
    }
}

/// Whether a launch saves on an order.
fn saves_on_order(spec: &LaunchSpec) -> bool {
    let takes_orders = |JobCheckpoint { definition, .. }: &JobCheckpoint| {
        definition.save.is_some() && !definition.saves_at_its_end()
    };
    spec.program.speaks() || spec.checkpoint.as_ref().is_some_and(takes_orders)
}

#[cfg(test)]
mod tests {
    use formats::decision::Share;
    use record::launch_end::Notes;
    use schema::{FORMAT, spec::Program};

    use super::*;
    use launches::machine::Place;

    /// A launch of a command whose job has 9 steps to do.
    fn launch(suspension: Suspension) -> LaunchState {
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
        LaunchState::new(&start, &spec, suspension, 0, Some(9))
    }

    /// Its process must not be locked.
    #[test]
    fn the_memory_of_a_launch_that_leaves_is_not_moved() {
        for leaves in [false, true] {
            let mut launch = launch(Suspension::CudaCheckpoint);
            launch.step(Input::Ready);
            let mut effects = launch.step(Input::Suspend);
            if leaves {
                effects.extend(launch.step(Input::Stop { checkpoint: false }));
            }
            launch.on_event(0, Nanos(1), &Event::Held { index: 0 });
            effects.extend(launch.step(Input::CameToRest));
            let then = if leaves { Effect::Leave } else { Effect::Move(Place::Host) };
            assert_eq!(effects, [then]);
        }
    }

    /// `cuda-checkpoint` fails on a process that was ended because its device was lost.
    #[test]
    fn a_launch_fails_for_the_first_reason() {
        let mut launch = launch(Suspension::CudaCheckpoint);
        launch.step(Input::Failed(ErrorKind::DeviceLost, "lost its device cuda:0".into()));
        launch.step(Input::Failed(ErrorKind::Suspension, "could not be suspended".into()));
        let end = LaunchEnd {
            format: FORMAT,
            mono_ns: Nanos(1),
            enough_mono_ns: None,
            err: Some(ErrorKind::Interrupted),
            err_detail: None,
            killed_after: None,
            notes: Notes::default(),
            ranks: Vec::new(),
        };
        let ended = launch.ended(&end, 4);
        assert!(
            matches!(ended, ClusterEvent::Failed { steps: 4, kind: ErrorKind::DeviceLost, .. }),
            "{ended:?}"
        );
    }
}
