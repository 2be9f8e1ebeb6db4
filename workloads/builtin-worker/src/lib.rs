//! A worker without libtorch, with faults on demand, and [stressors](stress).
//!
//! It follows the worker protocol exactly and trains nothing: a step burns some CPU time and sleeps for the
//! rest. It serves tests and trials of the harness that need no real model, and its
//! [faults](schema::catalog::Fault) are those that a harness must survive.

pub mod caches;
mod fault;
pub mod stress;
mod task;
pub mod triad;
mod work;

use std::{
    env,
    fs::File,
    io::{BufReader, Write, stdin},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::mpsc::{self, Receiver, RecvError},
    thread,
    time::Duration,
};

use anyhow::Context;
use schema::{
    events::{EventWriter, read_command},
    grant::Grant,
    spec::{LaunchSpec, read_spec},
    units::Nanos,
    wire::{
        Command, Event, FailureKind, Hello, Memory, PROTOCOL, Ready, Step, TANDEM_CONTROL, TANDEM_EVENTS,
        TANDEM_SPEC, Timing,
    },
};

use crate::{
    fault::Faults,
    stress::Stressors,
    task::{Cost, Task},
    work::{Burner, Work},
};

/// The interval at which a rank at rest looks for commands. A grant wakes it at once.
const COMMAND_POLL: Duration = Duration::from_millis(10);

/// Steps between two reports of memory.
const MEMORY_EVERY_STEPS: u64 = 100;

/// The whole life of one rank, under the environment variables of [`schema::wire`].
pub fn main() -> ExitCode {
    let started = Nanos::monotonic_now();
    let mut worker = match Worker::start() {
        Ok(worker) => worker,
        Err(error) => {
            eprintln!("synthetic: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    worker.live(started).unwrap_or_else(|error| {
        eprintln!("synthetic: {error:#}");
        let last_word = Event::Failed { kind: FailureKind::Internal, error: format!("{error:#}") };
        // If even this event cannot be written, the exit code reports the failure.
        let _ = worker.events.say(last_word);
        ExitCode::FAILURE
    })
}

struct Worker {
    events: EventWriter,
    grant: Grant,
    commands: Receiver<Command>,
    rank: u32,
    task: Task,
    faults: Faults,
    work: Box<dyn Work>,
    /// Peak of memory until it was ready.
    peak_bytes: u64,
    /// Steps of earlier launches, as recorded in the checkpoint.
    before: u64,
    done: u64,
    loss: Option<f64>,
}

/// The reason why a rest ended.
enum Rest {
    Granted,
    Stop,
}

impl Worker {
    fn start() -> anyhow::Result<Worker> {
        let rank: u32 =
            variable("RANK")?.to_str().and_then(|r| r.parse().ok()).context("RANK is no number")?;
        let LaunchSpec { program, seed, devices, threads, .. } =
            read_spec(&PathBuf::from(variable(TANDEM_SPEC)?))?;
        let task = Task::of(program, rank, devices.len() as u32)?;
        let events = PathBuf::from(variable(TANDEM_EVENTS)?);
        let control = PathBuf::from(variable(TANDEM_CONTROL)?);
        let faults = Faults::new(task.fault(), rank, events.clone());
        faults.before_hello();
        let work: Box<dyn Work> = match &task.cost {
            Cost::Synthetic(model) => Box::new(Burner::new(model, seed.wrapping_add(u64::from(rank)))),
            Cost::Stress { stress, dial_percent } => {
                let device = devices.get(rank as usize).context("the spec has no device for this rank")?;
                // The page is in a folder that exists as long as the launch.
                let folder = control.parent().context("the page of the grant lies in no folder")?;
                Box::new(Stressors::new(stress, *dial_percent, device, threads, folder.into()))
            }
        };
        Ok(Worker {
            events: EventWriter::create(&events, rank).with_context(|| events.display().to_string())?,
            grant: Grant::open(&control).with_context(|| control.display().to_string())?,
            commands: follow_commands(),
            rank,
            work,
            peak_bytes: 0,
            task,
            faults,
            before: 0,
            done: 0,
            loss: None,
        })
    }

    fn live(&mut self, started: Nanos) -> anyhow::Result<ExitCode> {
        self.events.say(Event::Hello(Hello {
            protocol: self.faults.protocol(PROTOCOL),
            worker: "synthetic".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            libtorch: None,
            cuda: None,
            ranks: None,
            pid: std::process::id(),
        }))?;
        if let Some(error) = self.refusal() {
            self.events.say(Event::Failed { kind: FailureKind::Unsupported, error })?;
            return Ok(ExitCode::FAILURE);
        }
        self.work.build()?;
        self.peak_bytes = self.work.memory_bytes();
        self.faults.before_ready();
        let begin = Nanos::monotonic_now();
        let restored = match self.task.restored_steps() {
            Ok(restored) => restored,
            Err(error) => {
                let error = format!("{error:#}");
                self.events.say(Event::Failed { kind: FailureKind::Data, error })?;
                return Ok(ExitCode::FAILURE);
            }
        };
        self.before = restored.unwrap_or(0);
        self.events.say(Event::Ready(Ready {
            parameters: Some(0),
            model_bytes: Some(self.peak_bytes),
            optimizer_bytes: None,
            peak_bytes: Some(self.peak_bytes),
            statistics: None,
            fp32_layers: Vec::new(),
            startup_ns: Nanos::monotonic_now() - started,
            restore_ns: restored.map(|_| Nanos::monotonic_now() - begin),
        }))?;

        let mut boundary = Nanos::monotonic_now();
        while self.task.steps.is_none_or(|steps| self.done < steps) {
            if self.grant.get() <= self.done {
                if let Rest::Stop = self.rest()? {
                    break;
                }
                boundary = Nanos::monotonic_now();
            }
            if let Some(error) = self.faults.before_step(self.done)? {
                self.events.say(Event::Failed { kind: FailureKind::OutOfMemory, error })?;
                return Ok(ExitCode::FAILURE);
            }
            boundary = self.step(boundary)?;
        }
        let samples = Some(self.done * self.task.samples_per_step);
        self.events.say(Event::Finished { steps: self.done, samples, loss: self.loss })?;
        Ok(ExitCode::SUCCESS)
    }

    /// The reason why the job cannot start.
    fn refusal(&self) -> Option<String> {
        let reads = self.task.data.is_some();
        let no_data = "the synthetic worker trains nothing and reads no data; leave out --data";
        reads.then(|| no_data.into()).or_else(|| self.work.refusal())
    }

    /// Does the next step, which began at `boundary`, and returns its end.
    fn step(&mut self, boundary: Nanos) -> anyhow::Result<Nanos> {
        let phases = self.work.step(self.done)?;
        self.loss = self.task.loss(self.before + self.done);
        let end = Nanos::monotonic_now();
        let step = Step {
            index: self.done,
            dur_ns: end - boundary,
            samples: Some(self.task.samples_per_step),
            loss: self.loss,
            phases: Some(phases),
            sent_bytes: self.task.sent_bytes,
            timing: Timing::Host,
        };
        self.events.say_at(end, Event::Step(step))?;
        if self.done.is_multiple_of(MEMORY_EVERY_STEPS) {
            self.say_memory()?;
        }
        self.done += 1;
        Ok(end)
    }

    /// Sleeps until more steps are granted, and obeys commands meanwhile.
    fn rest(&mut self) -> anyhow::Result<Rest> {
        // Before its first grant a job is at rest after `ready`, without a `held`.
        if self.done > 0 {
            self.events.say(Event::Held { index: self.done })?;
        }
        loop {
            if let Ok(command) = self.commands.try_recv() {
                if let Rest::Stop = self.obey(command)? {
                    return Ok(Rest::Stop);
                }
            } else if self.grant.wait_beyond(self.done, COMMAND_POLL) {
                return Ok(Rest::Granted);
            }
        }
    }

    fn obey(&mut self, command: Command) -> anyhow::Result<Rest> {
        let begin = Nanos::monotonic_now();
        match command {
            Command::Stop {} => return Ok(Rest::Stop),
            Command::Pause {} => {
                let bytes_freed = self.work.release();
                self.events.say(Event::Paused { dur_ns: Nanos::monotonic_now() - begin, bytes_freed })?;
                return self.stay_paused();
            }
            // A job that is not paused moves nothing back, and reports a duration of 0.
            Command::Resume {} => self.events.say(Event::Resumed { dur_ns: Nanos::ZERO })?,
            Command::Checkpoint { path } => self.checkpoint(Path::new(&path), begin)?,
        }
        Ok(Rest::Granted)
    }

    /// A paused job cannot train, and waits for commands alone, regardless of its grant.
    fn stay_paused(&mut self) -> anyhow::Result<Rest> {
        loop {
            let command = match self.commands.recv() {
                Ok(command) => command,
                // The sender ends the process before it drops the channel.
                Err(RecvError) => return Ok(Rest::Stop),
            };
            let begin = Nanos::monotonic_now();
            match command {
                Command::Resume {} => {
                    self.work.build()?;
                    self.events.say(Event::Resumed { dur_ns: Nanos::monotonic_now() - begin })?;
                    return Ok(Rest::Granted);
                }
                Command::Stop {} => return Ok(Rest::Stop),
                Command::Pause {} => {
                    self.events.say(Event::Paused { dur_ns: Nanos::ZERO, bytes_freed: 0 })?;
                }
                Command::Checkpoint { path } => self.checkpoint(Path::new(&path), begin)?,
            }
        }
    }

    /// One rank writes the checkpoint for all, so only this rank can refuse.
    fn checkpoint(&mut self, path: &Path, begin: Nanos) -> anyhow::Result<()> {
        let text = task::checkpoint(self.before + self.done);
        let written = if self.rank == 0 {
            File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()))
        } else {
            Ok(())
        };
        let bytes = if self.rank == 0 { text.len() as u64 } else { 0 };
        self.events.say(match written {
            Ok(()) => Event::Checkpointed { bytes, dur_ns: Nanos::monotonic_now() - begin },
            Err(error) => Event::Refused { error: format!("{}: {error}", path.display()) },
        })?;
        Ok(())
    }

    fn say_memory(&mut self) -> anyhow::Result<()> {
        self.events.say(Event::Memory(Memory {
            allocated_bytes: self.work.memory_bytes(),
            reserved_bytes: None,
            peak_bytes: self.peak_bytes,
            host_bytes: None,
            allocator_retries: None,
        }))?;
        Ok(())
    }
}

fn variable(name: &str) -> anyhow::Result<std::ffi::OsString> {
    env::var_os(name).with_context(|| format!("{name} is not set; a harness starts this program"))
}

/// Reads commands on a separate thread, so that the end of stdin ends the rank at any time.
fn follow_commands() -> Receiver<Command> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut from = BufReader::new(stdin());
        loop {
            match read_command(&mut from) {
                Ok(Some(command)) => {
                    if sender.send(command).is_err() {
                        return;
                    }
                }
                Ok(None) => std::process::exit(0),
                Err(error) => {
                    eprintln!("synthetic: stdin: {error}");
                    std::process::exit(1);
                }
            }
        }
    });
    receiver
}
