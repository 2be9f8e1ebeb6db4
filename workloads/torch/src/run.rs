//! The worker protocol: says hello, builds, and trains as far as the grant goes, one event a step.

use std::{
    any::Any,
    env, io,
    panic::{self, AssertUnwindSafe},
    path::PathBuf,
    process::{self, ExitCode},
    time::Duration,
};

use anyhow::Context;
use procfs::{Current, Uptime, process::Process};
use schema::{
    events::EventWriter,
    grant::Grant,
    units::Nanos,
    wire::{self, Command, Event, FailureKind, Hello, Memory, Ready, Step, Timing},
};

use crate::{
    capabilities,
    commands::Commands,
    failure::Failure,
    launch::Launch,
    shim::memory::{reset_peak, tensor_memory},
    step::Trainer,
};

/// How often a resting job looks for commands; its grant wakes it at once.
const COMMAND_POLL: Duration = Duration::from_millis(50);
/// How often a running job says what memory it has.
const MEMORY_PERIOD: Nanos = Nanos(2_000_000_000);
/// Memory is first said after this step: by then gradients and workspaces have been allocated and freed once.
const FIRST_MEMORY_STEP: u64 = 2;

/// What a job got done.
#[derive(Default)]
struct Progress {
    steps: u64,
    samples: u64,
    loss: Option<f64>,
}

/// Runs the launch that the environment names, from `hello` to `finished` or `failed`.
///
/// # Errors
/// When the environment does not name a launch or its files cannot be opened: nobody can be told anything then. Every
/// later failure is an event, and the exit code is 1.
pub fn run() -> anyhow::Result<ExitCode> {
    let file = |variable| {
        env::var_os(variable).map(PathBuf::from).with_context(|| {
            format!(
                "{variable} is not set: torch-worker is started by profile; for what else it does see --help"
            )
        })
    };
    let (spec, events, control) =
        (file(wire::WORKER_SPEC)?, file(wire::WORKER_EVENTS)?, file(wire::WORKER_CONTROL)?);
    let mut events = EventWriter::create(&events, 0)
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
        pid: process::id(),
    }))?;

    let attempt = AssertUnwindSafe(|| {
        let launch = Launch::read(&spec)?;
        let trainer = launch.build()?;
        let mut job = Job {
            launch: &launch,
            events: &mut events,
            grant,
            commands: Commands::listen(),
            memory_said: Nanos::ZERO,
        };
        job.say_ready(&trainer)?;
        // What building and loading took for a while is said in `ready` and is not the peak of the training.
        reset_peak(launch.execution.device)?;
        job.train(trainer)
    });
    // tch turns some failed operations into panics; `failed` is to be the last word for those too.
    let outcome = panic::catch_unwind(attempt)
        .unwrap_or_else(|payload| Err(Failure::classify(FailureKind::Internal, words_of(&*payload))));
    Ok(match outcome {
        Ok(Progress { steps, samples, loss }) => {
            events.say(Event::Finished { steps, samples, loss })?;
            ExitCode::SUCCESS
        }
        Err(Failure { kind, message }) => {
            eprintln!("torch-worker: {message}");
            events.say(Event::Failed { kind, error: message })?;
            ExitCode::FAILURE
        }
    })
}

/// One launch, from its `ready` on.
struct Job<'a> {
    launch: &'a Launch,
    events: &'a mut EventWriter,
    grant: Grant,
    commands: Commands,
    memory_said: Nanos,
}

impl Job<'_> {
    fn say_ready(&mut self, trainer: &Trainer) -> Result<(), Failure> {
        let parameters = trainer.workload().parameters();
        self.say(Event::Ready(Ready {
            parameters: parameters.count(),
            model_bytes: parameters.bytes(),
            peak_bytes: Some(tensor_memory(self.launch.execution.device)?.peak_bytes),
            startup_ns: process_age()?,
        }))
    }

    /// Trains until the step budget is spent, `stop` or the end of stdin.
    fn train(&mut self, mut trainer: Trainer) -> Result<Progress, Failure> {
        let mut progress = Progress::default();
        let mut boundary = Nanos::monotonic_now();
        while self.launch.training.steps != Some(progress.steps) && !self.commands.ended() {
            if self.grant.get() <= progress.steps {
                if progress.steps > 0 {
                    self.say_memory()?;
                    self.say(Event::Held { index: progress.steps })?;
                }
                if !self.rest(progress.steps)? {
                    break;
                }
                // Time held belongs to no step.
                boundary = Nanos::monotonic_now();
            }
            let completed = trainer.step()?;
            let end = Nanos::monotonic_now();
            let loss = completed.loss.is_finite().then_some(completed.loss);
            let step = Step {
                index: progress.steps,
                dur_ns: end - boundary,
                samples: completed.samples,
                loss,
                phases: completed.phases,
                sent_bytes: None,
                timing: Timing::Host,
            };
            self.events.say_at(end, Event::Step(step)).map_err(cannot_say)?;
            boundary = end;
            progress =
                Progress { steps: progress.steps + 1, samples: progress.samples + completed.samples, loss };
            let due =
                progress.steps == FIRST_MEMORY_STEP || end.saturating_sub(self.memory_said) >= MEMORY_PERIOD;
            if progress.steps >= FIRST_MEMORY_STEP && due {
                self.say_memory()?;
            }
        }
        // A bad line may be what ended the training, and then the job did not do what it was told.
        if let Some(error) = self.commands.pending_error() {
            return Err(not_a_command(&error));
        }
        self.say_memory()?;
        Ok(progress)
    }

    /// Sleeps until more than `done` steps are granted; `false` when told to leave instead.
    fn rest(&mut self, done: u64) -> Result<bool, Failure> {
        let cannot = |command| {
            Err(Failure::unsupported(format!(
                "torch-worker cannot {command}; end the job with stop and start it anew"
            )))
        };
        loop {
            match self.commands.next() {
                None => {}
                Some(Ok(Command::Stop {})) => return Ok(false),
                Some(Ok(Command::Pause {})) => return cannot("pause"),
                Some(Ok(Command::Resume {})) => return cannot("resume"),
                Some(Ok(Command::Checkpoint { .. })) => return cannot("write a checkpoint"),
                Some(Err(error)) => return Err(not_a_command(&error)),
            }
            if self.commands.ended() {
                return Ok(false);
            }
            if self.grant.wait_beyond(done, COMMAND_POLL) {
                return Ok(true);
            }
        }
    }

    fn say_memory(&mut self) -> Result<(), Failure> {
        let device = self.launch.execution.device;
        let memory = tensor_memory(device)?;
        let host = device.is_cuda().then(|| tensor_memory(tch::Device::Cpu)).transpose()?;
        self.memory_said = Nanos::monotonic_now();
        self.say(Event::Memory(Memory {
            allocated_bytes: memory.allocated_bytes,
            reserved_bytes: memory.reserved_bytes,
            peak_bytes: memory.peak_bytes,
            host_bytes: host.map(|memory| memory.allocated_bytes),
            allocator_retries: None,
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

/// Time since the kernel started this process, to 10 ms: loading libtorch, before `main`, is part of it.
fn process_age() -> Result<Nanos, Failure> {
    let age = || -> Result<f64, procfs::ProcError> {
        let started = Process::myself()?.stat()?.starttime as f64 / procfs::ticks_per_second() as f64;
        Ok(Uptime::current()?.uptime - started)
    };
    let seconds = age().map_err(|error| Failure::new(FailureKind::Internal, format!("/proc: {error}")))?;
    Ok(Nanos::from_secs_f64(seconds))
}

/// What a panic said.
fn words_of(payload: &(dyn Any + Send)) -> &str {
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("panic without words")
}
