//! The worker protocol: reports `hello`, builds, and trains within the grant, one event per step.

mod obey;
mod recording;
#[cfg(test)]
mod tests;

use std::{
    convert::Infallible,
    env, io,
    mem::ManuallyDrop,
    ops::RangeInclusive,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    process,
    time::Duration,
};

use anyhow::Context;
use procfs::{Current, Uptime, process::Process};
use schema::{
    events::EventWriter,
    grant::Grant,
    plan::Precision,
    spec::{Program, Training},
    units::Nanos,
    wire::{self, Command, Event, FailureKind, Hello, Memory, Ready, Statistics, Step},
};

use self::recording::Recording;
use crate::{
    all_reduce::AllReduces,
    capabilities,
    commands::Commands,
    failure::{Failure, words_of},
    group::Group,
    launch::{self, Built, Launch},
    nn::recurrent,
    shim::{
        library,
        memory::{page_locked_bytes, reset_peak, tensor_memory},
    },
    step::Completed,
    steps::Steps,
};

/// Exit codes of a job.
const SUCCESS: u8 = 0;
const FAILURE: u8 = 1;

/// The interval at which a resting job looks for commands, which is a part of what a pause takes; its grant wakes it at once.
const COMMAND_POLL: Duration = Duration::from_millis(10);
/// The interval between memory reports of a running job.
const MEMORY_PERIOD: Nanos = Nanos(2_000_000_000);
/// The first step with a memory report: by then gradients and workspaces have been allocated and freed
/// once.
const FIRST_MEMORY_STEP: u64 = 2;

/// Work that may remain on the device while the host issues another step: enough that the device is never
/// idle while the host writes an event or briefly loses its core. At least one step may remain, and at most
/// a few.
const WORK_IN_FLIGHT: Nanos = Nanos(100_000_000);
const STEPS_IN_FLIGHT: RangeInclusive<u64> = 1..=4;

/// The progress of a job.
#[derive(Default)]
struct Progress {
    steps: u64,
    samples: u64,
    loss: Option<f64>,
    /// Duration of the last step.
    dur: Nanos,
}

impl Progress {
    /// Number of steps like the last one that may be in flight.
    fn steps_in_flight(&self) -> usize {
        let steps = WORK_IN_FLIGHT.0 / self.dur.0.max(1);
        steps.clamp(*STEPS_IN_FLIGHT.start(), *STEPS_IN_FLIGHT.end()) as usize
    }
}

/// Runs the launch that the environment names, from `hello` to `finished` or `failed`, and ends the process: with exit
/// code 0, or 1 after a failure, which is an event.
///
/// # Errors
/// The environment names no launch, or its files cannot be opened. No event can report this.
pub fn run() -> anyhow::Result<Infallible> {
    let file = |variable| {
        env::var_os(variable).map(PathBuf::from).with_context(|| {
            format!(
                "{variable} is not set: torch-worker is started by profile; for what else it does see --help"
            )
        })
    };
    let (spec, events_path, control) =
        (file(wire::TANDEM_SPEC)?, file(wire::TANDEM_EVENTS)?, file(wire::TANDEM_CONTROL)?);
    let rank = rank_of_this_process()?;
    let mut events = EventWriter::create(&events_path, rank)
        .with_context(|| format!("cannot write events to {}", events_path.display()))?;
    let grant =
        Grant::open(&control).with_context(|| format!("cannot read the grant in {}", control.display()))?;
    let capabilities = capabilities::probe();
    events.say(Event::Hello(Hello {
        protocol: wire::PROTOCOL,
        worker: crate::NAME.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        libtorch: Some(capabilities.libtorch),
        cuda: capabilities.cuda,
        ranks: None,
        pid: process::id(),
    }))?;

    let attempt = AssertUnwindSafe(|| {
        let told = launch::read(&spec)?;
        if let Program::AllReduce(all_reduce) = &told.program {
            let mut steps = ManuallyDrop::new(AllReduces::start(all_reduce, &told, rank)?);
            let group = steps.group().clone();
            let mut job = Job::new(None, group, steps.device(), &mut events, grant);
            job.say_ready_without_parameters(all_reduce.bytes)?;
            return job.follow(&mut *steps);
        }
        let operators = told.operators;
        let launch = Launch::of(told, rank)?;
        // Neither is dropped, because the process ends soon. A group would wait for collectives to which
        // the others do not come any more. On a device that has failed, freeing may fail as well, and
        // libtorch would then end the process before `failed` is reported.
        let world = launch.meet()?;
        let group = world.all.clone();
        let mut built = ManuallyDrop::new(launch.build(world)?);
        let device = launch.execution.device;
        let mut job = ManuallyDrop::new(Job::new(Some(&launch), group, device, &mut events, grant));
        job.recording = operators.map(|steps| Recording::new(steps, device, &events_path));
        job.say_ready(&launch.training, &built)?;
        job.follow(&mut built.trainer)
    });
    // tch turns some failed operations into panics, which must end with `failed`, too.
    let outcome = panic::catch_unwind(attempt)
        .unwrap_or_else(|payload| Err(Failure::classify(FailureKind::Internal, words_of(&*payload))));
    let code = match outcome {
        Ok(Progress { steps, samples, loss, dur: _ }) => {
            events.say(Event::Finished { steps, samples: Some(samples), loss })?;
            SUCCESS
        }
        Err(Failure { kind, message }) => {
            eprintln!("torch-worker: {message}");
            events.say(Event::Failed { kind, error: message })?;
            FAILURE
        }
    };
    library::leave(code)
}

/// One launch, from its `ready` on.
struct Job<'a> {
    /// The training; absent for all-reduces.
    launch: Option<&'a Launch>,
    /// All ranks.
    group: Group,
    device: tch::Device,
    events: &'a mut EventWriter,
    grant: Grant,
    commands: Commands,
    memory_said: Nanos,
    recording: Option<Recording>,
}

impl<'a> Job<'a> {
    /// Starts to listen to commands.
    fn new(
        launch: Option<&'a Launch>,
        group: Group,
        device: tch::Device,
        events: &'a mut EventWriter,
        grant: Grant,
    ) -> Self {
        let commands = Commands::listen();
        Self { launch, group, device, events, grant, commands, memory_said: Nanos::ZERO, recording: None }
    }

    /// Runs from `ready` to the last step, until all ranks have reached it.
    fn follow(&mut self, steps: &mut dyn Steps) -> Result<Progress, Failure> {
        // The temporary memory of building and loading is part of `ready` and not of the training's peak.
        reset_peak(self.device)?;
        let progress = self.train(steps)?;
        // Connections close with the process, and data of the last step that the others have not read could
        // be lost. After the end of stdin there may be no barrier, because ranks leave at different steps.
        if !self.commands.ended() {
            // This rank has completed its work even if the others are gone.
            let _ = self.group.barrier();
        }
        Ok(progress)
    }

    fn say_ready_without_parameters(&mut self, bytes: u64) -> Result<(), Failure> {
        self.say(Event::Ready(Ready {
            parameters: Some(0),
            model_bytes: Some(bytes),
            optimizer_bytes: None,
            peak_bytes: Some(tensor_memory(self.device)?.peak_bytes),
            statistics: None,
            fp32_layers: Vec::new(),
            startup_ns: process_age()?,
            restore_ns: None,
        }))
    }

    fn say_ready(&mut self, training: &Training, built: &Built) -> Result<(), Failure> {
        let parameters = built.trainer.workload().parameters();
        let Training { plan, exact, .. } = training;
        let local = plan.batch_divisor() > 1 && !exact && parameters.has_batch_norm();
        let bf16 = plan.precision == Precision::Bf16;
        let lstm_in_fp32 = bf16 && !recurrent::has_bf16_kernel(self.device) && parameters.has_lstm();
        self.say(Event::Ready(Ready {
            parameters: Some(parameters.count()),
            model_bytes: Some(built.trainer.model_bytes()),
            optimizer_bytes: None,
            peak_bytes: Some(tensor_memory(self.device)?.peak_bytes),
            statistics: local.then_some(Statistics::Local),
            fp32_layers: lstm_in_fp32.then(|| "LSTM".into()).into_iter().collect(),
            startup_ns: process_age()?,
            restore_ns: built.restored_in,
        }))
    }

    /// Trains until the last step, `stop` or the end of stdin.
    fn train(&mut self, steps: &mut dyn Steps) -> Result<Progress, Failure> {
        let budget = self.launch.and_then(|launch| launch.training.steps);
        let mut progress = Progress::default();
        let mut issued = 0;
        steps.restart()?;
        while budget != Some(issued) && !self.commands.ended() {
            self.record_operators(steps, issued, &mut progress)?;
            if self.grant.get() <= issued {
                let in_flight = issued - progress.steps;
                if in_flight > 0 {
                    // The rest of the grant is on the device. If the grant grows before that is done, the
                    // device continues without a gap.
                    steps.wait();
                    self.say_completed(steps, in_flight as usize, &mut progress)?;
                    continue;
                }
                if issued > 0 {
                    self.say_memory()?;
                    self.say(Event::Held { index: issued })?;
                }
                if !self.rest(steps, issued)? {
                    break;
                }
                // The time held belongs to no step.
                steps.restart()?;
            }
            if let Err(error) = steps.issue() {
                // Earlier steps count. If the device fails on those too, the first error is still the
                // reason.
                let _ = self.say_completed(steps, 0, &mut progress);
                return Err(error.into());
            }
            issued += 1;
            let in_flight = progress.steps_in_flight();
            self.say_completed(steps, in_flight, &mut progress)?;
        }
        self.say_completed(steps, 0, &mut progress)?;
        // An invalid line may have ended the training, so that the job did not do what it was asked to.
        if let Some(error) = self.commands.pending_error() {
            return Err(not_a_command(&error));
        }
        self.say_memory()?;
        Ok(progress)
    }

    /// Begins or ends the recording of operators if it is due, when the steps before it have completed.
    fn record_operators(
        &mut self,
        steps: &mut dyn Steps,
        issued: u64,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        if self.recording.as_ref().is_some_and(|recording| recording.is_due(issued)) {
            self.say_completed(steps, 0, progress)?;
            self.recording.as_mut().map_or(Ok(()), Recording::go_on)?;
            steps.restart()?;
        }
        Ok(())
    }

    /// Reports completed steps, and waits for the oldest ones until no more than `in_flight` are left.
    fn say_completed(
        &mut self,
        steps: &mut dyn Steps,
        in_flight: usize,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        while let Some(completed) = steps.completed(in_flight)? {
            let Completed { end, dur, samples, loss, phases, sent_bytes, timing } = completed;
            let loss = loss.is_finite().then_some(loss);
            let step = Step {
                index: progress.steps,
                dur_ns: dur,
                samples: Some(samples),
                loss,
                phases: Some(phases),
                sent_bytes,
                timing,
            };
            self.events.say_at(end, Event::Step(step)).map_err(cannot_say)?;
            *progress =
                Progress { steps: progress.steps + 1, samples: progress.samples + samples, loss, dur };
            let due =
                progress.steps == FIRST_MEMORY_STEP || end.saturating_sub(self.memory_said) >= MEMORY_PERIOD;
            if progress.steps >= FIRST_MEMORY_STEP && due {
                self.say_memory()?;
            }
        }
        Ok(())
    }

    /// Sleeps until more than `done` steps are granted, and obeys commands meanwhile; returns `false` on
    /// the order to exit.
    fn rest(&mut self, steps: &mut dyn Steps, done: u64) -> Result<bool, Failure> {
        let mut paused = None;
        loop {
            // A paused job cannot train, and waits for commands alone, regardless of its grant.
            let command =
                if paused.is_some() { self.commands.next_within(COMMAND_POLL) } else { self.commands.next() };
            match command {
                None => {}
                Some(Ok(Command::Stop {})) => return Ok(false),
                Some(Ok(Command::Pause {})) => self.pause(steps.trainer()?, &mut paused)?,
                Some(Ok(Command::Resume {})) => self.resume(steps.trainer()?, &mut paused)?,
                Some(Ok(Command::Checkpoint { path })) => {
                    self.checkpoint(steps.trainer()?, Path::new(&path))?
                }
                Some(Err(error)) => return Err(not_a_command(&error)),
            }
            if self.commands.ended() {
                return Ok(false);
            }
            if paused.is_none() && self.grant.wait_beyond(done, COMMAND_POLL) {
                return Ok(true);
            }
        }
    }

    fn say_memory(&mut self) -> Result<(), Failure> {
        let device = self.device;
        let memory = tensor_memory(device)?;
        let host_bytes = if device.is_cuda() {
            Some(tensor_memory(tch::Device::Cpu)?.allocated_bytes + page_locked_bytes()?)
        } else {
            None
        };
        self.memory_said = Nanos::monotonic_now();
        self.say(Event::Memory(Memory {
            allocated_bytes: memory.allocated_bytes,
            reserved_bytes: memory.reserved_bytes,
            peak_bytes: memory.peak_bytes,
            host_bytes,
            allocator_retries: memory.retries,
        }))
    }

    fn say(&mut self, event: Event) -> Result<(), Failure> {
        self.events.say(event).map_err(cannot_say)
    }
}

fn not_a_command(error: &io::Error) -> Failure {
    Failure::new(FailureKind::Internal, format!("stdin: not a command: {error}"))
}

fn cannot_say(error: io::Error) -> Failure {
    Failure::new(FailureKind::Internal, format!("cannot write an event: {error}"))
}

/// The rank that torchrun or the harness set. Without it, the process is the only rank.
fn rank_of_this_process() -> anyhow::Result<u32> {
    let Some(rank) = env::var_os("RANK") else { return Ok(0) };
    let number = rank.to_str().and_then(|rank| rank.parse().ok());
    number.with_context(|| format!("RANK is {}, which is no rank", rank.display()))
}

/// Time since the kernel started this process, with a resolution of 10 ms. It includes loading libtorch
/// before `main`.
fn process_age() -> Result<Nanos, Failure> {
    let age = || -> Result<f64, procfs::ProcError> {
        let started = Process::myself()?.stat()?.starttime as f64 / procfs::ticks_per_second() as f64;
        Ok(Uptime::current()?.uptime - started)
    };
    let seconds = age().map_err(|error| Failure::new(FailureKind::Internal, format!("/proc: {error}")))?;
    Ok(Nanos::from_secs_f64(seconds))
}
