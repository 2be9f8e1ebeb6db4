//! Starts the program as the harness does, and reads its events.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    rc::Rc,
};

use front_door::wait_for;
use schema::{
    catalog::{Catalog, Optimizer, Workload},
    device::Device,
    events::{self, EventReader},
    grant::Grant,
    plan::Plan,
    spec::{LaunchSpec, Program, Training},
    wire::{self, Event, EventLine, FailureKind, Step},
};
use tempfile::TempDir;

/// A launch of `workload` with its default optimizer on one CPU thread.
pub(crate) fn launch(workload: &str, global_batch: u32, plan: &str, steps: Option<u64>) -> LaunchSpec {
    let workload = Catalog::embedded().get(workload).expect("a workload of the catalog").clone();
    launch_of(workload, global_batch, plan.parse().expect("a canonical plan"), steps)
}

/// As [`launch`], of any workload.
pub(crate) fn launch_of(workload: Workload, global_batch: u32, plan: Plan, steps: Option<u64>) -> LaunchSpec {
    let (name, job) =
        (format!("0001-{}", workload.name), format!("{}@b{global_batch}@{plan}", workload.name));
    let training = Training { steps, ..Training::new(workload, global_batch, plan) };
    let program = Program::Training(Box::new(training));
    LaunchSpec { seed: 11, ..LaunchSpec::new(name, job, program, cores(1)) }
}

/// A launch of `workload` with a rank on each of this number of CPU devices.
pub(crate) fn launch_ranks(
    ranks: u16,
    workload: &str,
    global_batch: u32,
    plan: &str,
    steps: Option<u64>,
) -> LaunchSpec {
    LaunchSpec { devices: cores(ranks), ..launch(workload, global_batch, plan, steps) }
}

/// The launch with plain SGD, under which a constant factor in gradients changes losses as much as one in the rate does.
/// AdamW would hide it.
pub(crate) fn with_sgd(mut spec: LaunchSpec, learning_rate: f64) -> LaunchSpec {
    let Program::Training(training) = &mut spec.program else { panic!("it has no optimizer") };
    training.workload.optimizer = Optimizer::Sgd { learning_rate, momentum: 0.0, weight_decay: 0.0 };
    spec
}

/// A CPU device of one core for each rank.
pub(crate) fn cores(ranks: u16) -> Vec<Device> {
    (0..ranks).map(|core| Device::Cpu(vec![core])).collect()
}

/// The program, with the command line that cargo built it for.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_torch-worker"));
    // It has to find libtorch by itself.
    command.env_remove("LD_LIBRARY_PATH").env_remove("LIBTORCH");
    command
}

/// The files of a launch, which go with its last rank.
struct Files {
    folder: TempDir,
    /// Its path leads nowhere without it.
    _grant: Grant,
}

impl Files {
    /// Several ranks meet in a file of the folder unless the spec names another one.
    fn new(spec: &LaunchSpec) -> Rc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut spec = spec.clone();
        if let Some(rendezvous) = spec.program.rendezvous().filter(|_| spec.devices.len() > 1) {
            rendezvous.get_or_insert(folder.path().join("rendezvous"));
        }
        fs::write(folder.path().join("spec.json"), serde_json::to_vec(&spec).unwrap()).unwrap();
        let _grant = Grant::create(&folder.path().join("control")).unwrap();
        Rc::new(Self { folder, _grant })
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// A running rank, which ends with this value.
pub(crate) struct Worker {
    /// That of the whole launch.
    pub(crate) grant: Grant,
    /// Dropped to end the worker's stdin.
    pub(crate) stdin: Option<ChildStdin>,
    child: Child,
    reader: EventReader,
    said: Vec<EventLine>,
    _files: Rc<Files>,
}

impl Worker {
    pub(crate) fn start(spec: &LaunchSpec) -> Self {
        Self::start_as(program(), spec)
    }

    /// Starts it with an address space of this size, including libtorch itself.
    pub(crate) fn start_with_address_space(bytes: u64, spec: &LaunchSpec) -> Self {
        let mut shell = Command::new("sh");
        let limited = format!("ulimit -v {} && exec \"$0\"", bytes / 1024);
        shell.arg("-c").arg(limited).arg(program().get_program());
        Self::start_as(shell, spec)
    }

    pub(crate) fn start_as(program: Command, spec: &LaunchSpec) -> Self {
        Self::start_rank(program, &Files::new(spec), 0)
    }

    /// Starts every rank of a launch, in their order.
    pub(crate) fn start_ranks(spec: &LaunchSpec) -> Vec<Self> {
        let files = Files::new(spec);
        (0..spec.devices.len()).map(|rank| Self::start_rank(program(), &files, rank as u32)).collect()
    }

    fn start_rank(mut program: Command, files: &Rc<Files>, rank: u32) -> Self {
        let events = files.path(format!("{rank}.jsonl"));
        fs::write(&events, "").unwrap();
        let mut child = program
            .env("RANK", rank.to_string())
            .env(wire::TANDEM_SPEC, files.path("spec.json"))
            .env(wire::TANDEM_EVENTS, &events)
            .env(wire::TANDEM_CONTROL, files.path("control"))
            // These tests are about the CPU, and one asks for a GPU that is not there: a real one is hidden.
            .env("CUDA_VISIBLE_DEVICES", "")
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let reader = EventReader::open(&events, rank).unwrap();
        let grant = Grant::open(&files.path("control")).unwrap();
        Self { grant, stdin, child, reader, said: Vec::new(), _files: Rc::clone(files) }
    }

    /// Waits until the worker has said something that `is_it` accepts; everything said so far.
    pub(crate) fn wait_for(&mut self, is_it: impl Fn(&Event) -> bool) -> &[EventLine] {
        self.read_until(|said| said.iter().any(|line| is_it(&line.event)));
        &self.said
    }

    fn read_until(&mut self, is_enough: impl Fn(&[EventLine]) -> bool) {
        while !is_enough(&self.said) {
            let end = self.wait_for_news();
            assert!(end.is_none() || is_enough(&self.said), "it left; it said {:#?}", self.said);
        }
    }

    /// Waits until the worker says something more, or until everything that it said before its end is read.
    fn wait_for_news(&mut self) -> Option<ExitStatus> {
        let Self { child, reader, said, .. } = self;
        wait_for("the worker says something or ends", || {
            // Before reading: a worker that has ended says nothing after that.
            let end = child.try_wait().unwrap();
            let before = said.len();
            reader.poll(said).unwrap();
            if end.is_some() || said.len() > before { Ok(end) } else { Err(format!("{:?}", said.last())) }
        })
    }

    pub(crate) fn command(&mut self, command: &wire::Command) {
        events::write_command(self.stdin.as_mut().expect("stdin was not ended yet"), command).unwrap();
    }

    /// As `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Trains to the end of `step` steps, counted from the start of the launch, and rests.
    pub(crate) fn train_to(&mut self, step: u64) {
        self.grant.extend_to(step);
        self.wait_for(|event| matches!(event, Event::Held { index } if *index == step));
    }

    /// Tells a worker at rest something and waits for its answer.
    pub(crate) fn ask(&mut self, command: &wire::Command) -> Event {
        let is_answer = |line: &&EventLine| {
            matches!(
                line.event,
                Event::Paused { .. }
                    | Event::Resumed { .. }
                    | Event::Checkpointed { .. }
                    | Event::Refused { .. }
            )
        };
        let answers = |said: &[EventLine]| said.iter().filter(is_answer).count();
        let before = answers(&self.said);
        self.command(command);
        self.read_until(|said| answers(said) > before);
        self.said.iter().rfind(is_answer).expect("it was waited for").event.clone()
    }

    /// Lets a worker at rest write a checkpoint; its bytes.
    pub(crate) fn checkpoint(&mut self, place: &Path) -> u64 {
        let path = place.to_str().expect("a path of a test").to_owned();
        match self.ask(&wire::Command::Checkpoint { path }) {
            Event::Checkpointed { bytes, .. } => bytes,
            other => panic!("no checkpoint was written: {other:?}"),
        }
    }

    /// Waits for the end of the process; everything it said, and how it ended.
    pub(crate) fn finish(mut self) -> (Vec<EventLine>, ExitStatus) {
        let status = loop {
            if let Some(status) = self.wait_for_news() {
                break status;
            }
        };
        self.reader.finish().unwrap();
        (std::mem::take(&mut self.said), status)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Everything a launch says that is granted all the steps it wants.
pub(crate) fn run_to_end(spec: &LaunchSpec) -> (Vec<EventLine>, ExitStatus) {
    let worker = Worker::start(spec);
    worker.grant.extend_to(u64::MAX);
    worker.finish()
}

/// The job of `spec`, continued from a checkpoint under another plan for this number of steps.
pub(crate) fn restored(spec: &LaunchSpec, checkpoint: &Path, plan: &str, steps: u64) -> LaunchSpec {
    let mut spec = spec.clone();
    let Program::Training(training) = &mut spec.program else { panic!("a command has no checkpoints") };
    training.restore = Some(checkpoint.into());
    training.plan = plan.parse().expect("a canonical plan");
    training.steps = Some(steps);
    spec
}

pub(crate) fn steps(said: &[EventLine]) -> Vec<&Step> {
    said.iter()
        .filter_map(|line| match &line.event {
            Event::Step(step) => Some(step),
            _ => None,
        })
        .collect()
}

/// The loss of each step of a rank.
pub(crate) fn losses(said: &[EventLine]) -> Vec<f64> {
    steps(said).iter().map(|step| step.loss.expect("it has a loss")).collect()
}

/// The mean over ranks of the loss of each step.
pub(crate) fn mean_losses(of_ranks: &[Vec<f64>]) -> Vec<f64> {
    assert!(of_ranks.iter().all(|losses| losses.len() == of_ranks[0].len()), "{of_ranks:?}");
    let mean = |step: usize| of_ranks.iter().map(|losses| losses[step]).sum::<f64>() / of_ranks.len() as f64;
    (0..of_ranks[0].len()).map(mean).collect()
}

/// The largest difference between the losses of a step.
pub(crate) fn difference(ours: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(ours.len(), expected.len());
    ours.iter().zip(expected).map(|(ours, expected)| (ours - expected).abs()).fold(0.0, f64::max)
}

/// The kind and the words of the `failed` that must stand last.
pub(crate) fn failure(said: &[EventLine]) -> (FailureKind, &str) {
    match said.last().map(|line| &line.event) {
        Some(Event::Failed { kind, error }) => (*kind, error),
        _ => panic!("`failed` stands not last in {said:#?}"),
    }
}
