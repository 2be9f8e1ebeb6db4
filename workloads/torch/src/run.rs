//! The worker protocol: says hello, builds, and trains as far as the grant goes, one event a step.

mod obey;
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

/// How often a resting job looks for commands; its grant wakes it at once.
const COMMAND_POLL: Duration = Duration::from_millis(50);
/// How often a running job says what memory it has.
const MEMORY_PERIOD: Nanos = Nanos(2_000_000_000);
/// Memory is first said after this step: by then gradients and workspaces have been allocated and freed once.
const FIRST_MEMORY_STEP: u64 = 2;

/// Work that a device may have left while the host issues another step: enough that it is never idle while the host
/// writes an event or is kept from its core for a moment. One step may always be left, and never more than a few.
const WORK_IN_FLIGHT: Nanos = Nanos(100_000_000);
const STEPS_IN_FLIGHT: RangeInclusive<u64> = 1..=4;

/// What a job got done.
#[derive(Default)]
struct Progress {
    steps: u64,
    samples: u64,
    loss: Option<f64>,
    /// How long the last step took.
    dur: Nanos,
}

impl Progress {
    /// How many steps like the last one may be left to do.
    fn steps_in_flight(&self) -> usize {
        let steps = WORK_IN_FLIGHT.0 / self.dur.0.max(1);
        steps.clamp(*STEPS_IN_FLIGHT.start(), *STEPS_IN_FLIGHT.end()) as usize
    }
}

/// Runs the launch that the environment names, from `hello` to `finished` or `failed`, and ends the process: with exit
/// code 0, or 1 after a failure, which is an event.
///
/// # Errors
/// When the environment does not name a launch or its files cannot be opened: nobody can be told anything then.
pub fn run() -> anyhow::Result<Infallible> {
    let file = |variable| {
        env::var_os(variable).map(PathBuf::from).with_context(|| {
            format!(
                "{variable} is not set: torch-worker is started by profile; for what else it does see --help"
            )
        })
    };
    let (spec, events, control) =
        (file(wire::WORKER_SPEC)?, file(wire::WORKER_EVENTS)?, file(wire::WORKER_CONTROL)?);
    let rank = rank_of_this_process()?;
    let mut events = EventWriter::create(&events, rank)
        .with_context(|| format!("cannot write events to {}", events.display()))?;
    let grant =
        Grant::open(&control).with_context(|| format!("cannot read the grant in {}", control.display()))?;
    let capabilities = capabilities::probe();
    events.say(Event::Hello(Hello {
        protocol: wire::PROTOCOL,
        worker: env!("CARGO_PKG_NAME").into(),
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
            let mut job = Job::new(None, Some(&group), steps.device(), &mut events, grant);
            job.say_ready_without_parameters(all_reduce.bytes)?;
            return job.follow(&mut *steps);
        }
        let launch = Launch::of(told, rank)?;
        // Both are never dropped, as the process ends soon. A group would wait for collectives to which the others do not
        // come any more. On a device that has failed, freeing may fail as well, and libtorch then ends the process before
        // `failed` is said.
        let group = ManuallyDrop::new(launch.meet()?);
        let mut built = ManuallyDrop::new(launch.build(group.as_ref())?);
        let device = launch.execution.device;
        let mut job = Job::new(Some(&launch), group.as_ref(), device, &mut events, grant);
        job.say_ready(&launch.training, &built)?;
        job.follow(&mut built.trainer)
    });
    // tch turns some failed operations into panics; `failed` is to be the last word for those too.
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
    /// What is trained; absent where nothing is.
    launch: Option<&'a Launch>,
    /// That of the ranks, where there are several.
    group: Option<&'a Group>,
    device: tch::Device,
    events: &'a mut EventWriter,
    grant: Grant,
    commands: Commands,
    memory_said: Nanos,
}

impl<'a> Job<'a> {
    /// Listens to commands from here on.
    fn new(
        launch: Option<&'a Launch>,
        group: Option<&'a Group>,
        device: tch::Device,
        events: &'a mut EventWriter,
        grant: Grant,
    ) -> Self {
        let commands = Commands::listen();
        Self { launch, group, device, events, grant, commands, memory_said: Nanos::ZERO }
    }

    /// From `ready` to the last step, and until all ranks have come there.
    fn follow(&mut self, steps: &mut dyn Steps) -> Result<Progress, Failure> {
        // What building and loading took for a while is said in `ready` and is not the peak of the training.
        reset_peak(self.device)?;
        let progress = self.train(steps)?;
        // Connections close with the process, and what the others have not read yet of the last step could be lost with
        // them. After the end of stdin nobody may come: ranks that leave at once do so at different steps.
        if let Some(group) = self.group.filter(|_| !self.commands.ended()) {
            // Whether the others come or are gone, this rank has done what it was asked to.
            let _ = group.barrier();
        }
        Ok(progress)
    }

    fn say_ready_without_parameters(&mut self, bytes: u64) -> Result<(), Failure> {
        self.say(Event::Ready(Ready {
            parameters: Some(0),
            model_bytes: Some(bytes),
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
            model_bytes: Some(parameters.bytes()),
            peak_bytes: Some(tensor_memory(self.device)?.peak_bytes),
            statistics: local.then_some(Statistics::Local),
            fp32_layers: lstm_in_fp32.then(|| "LSTM".into()).into_iter().collect(),
            startup_ns: process_age()?,
            restore_ns: built.restored_in,
        }))
    }

    /// Trains until the step budget is spent, `stop` or the end of stdin.
    fn train(&mut self, steps: &mut dyn Steps) -> Result<Progress, Failure> {
        let budget = self.launch.and_then(|launch| launch.training.steps);
        let mut progress = Progress::default();
        let mut issued = 0;
        steps.restart()?;
        while budget != Some(issued) && !self.commands.ended() {
            if self.grant.get() <= issued {
                let in_flight = issued - progress.steps;
                if in_flight > 0 {
                    // What is left of the grant is with the device. Should more be granted before that is done, the
                    // device goes on without having been idle.
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
                // Time held belongs to no step.
                steps.restart()?;
            }
            if let Err(error) = steps.issue() {
                // The steps before it count. Should the device fail on those too, the first error still says why.
                let _ = self.say_completed(steps, 0, &mut progress);
                return Err(error.into());
            }
            issued += 1;
            let in_flight = progress.steps_in_flight();
            self.say_completed(steps, in_flight, &mut progress)?;
        }
        self.say_completed(steps, 0, &mut progress)?;
        // A bad line may be what ended the training, and then the job did not do what it was told.
        if let Some(error) = self.commands.pending_error() {
            return Err(not_a_command(&error));
        }
        self.say_memory()?;
        Ok(progress)
    }

    /// Says the steps that are complete, and waits for the oldest ones until no more than `in_flight` are left.
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

    /// Sleeps until more than `done` steps are granted, and obeys commands meanwhile; `false` when told to leave instead.
    fn rest(&mut self, steps: &mut dyn Steps, done: u64) -> Result<bool, Failure> {
        let mut paused = None;
        loop {
            // A paused job has nothing to train with: whatever it is granted, it waits for commands alone.
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

/// As torchrun and the harness set it; a process without it is the only one of its launch.
fn rank_of_this_process() -> anyhow::Result<u32> {
    let Some(rank) = env::var_os("RANK") else { return Ok(0) };
    let number = rank.to_str().and_then(|rank| rank.parse().ok());
    number.with_context(|| format!("RANK is {}, which is no rank", rank.display()))
}

/// Time since the kernel started this process, to 10 ms: loading libtorch, before `main`, is part of it.
fn process_age() -> Result<Nanos, Failure> {
    let age = || -> Result<f64, procfs::ProcError> {
        let started = Process::myself()?.stat()?.starttime as f64 / procfs::ticks_per_second() as f64;
        Ok(Uptime::current()?.uptime - started)
    };
    let seconds = age().map_err(|error| Failure::new(FailureKind::Internal, format!("/proc: {error}")))?;
    Ok(Nanos::from_secs_f64(seconds))
}
