//! The specification of a launch: the file `jobs/<launch>.json` of a run, which `TANDEM_SPEC` names.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    FORMAT,
    catalog::{ProgramCheckpoint, Workload},
    device::Device,
    files::{self, RunError},
    mesh::Mesh,
    plan::Plan,
    sharing::Sharing,
    surroundings::Surroundings,
    words,
};

/// One start of a job, with everything that decides what the worker computes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchSpec {
    pub format: u32,
    /// As `0007-resnet50`. The number counts up in a run, and a repeated cell has a new one.
    pub launch: String,
    /// The job in full spelling, with every default filled in.
    pub job: String,
    /// The cell and the block that this launch belongs to. Blocks count from 0. In a run of the scheduler,
    /// the number counts the starts of the job.
    pub cell: String,
    pub block: u32,
    /// The part of the run that it was started in: 0 at first, and one more after each `--resume`.
    #[serde(default)]
    pub part: u32,
    pub program: Program,
    /// The pattern for lines of a command's output that end a step, in the syntax of the crate `regex`. If
    /// absent, the command is offered the step hook of Python, and is measured from outside if it does not
    /// use it.
    #[serde(default)]
    pub steps_regex: Option<String>,
    /// The file that a command reads from stdin, from its beginning; if absent, its stdin is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<PathBuf>,
    /// The folder and the environment of a command. If absent, the command runs in the folder and the environment of the harness, and
    /// no words are filled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surroundings: Option<Surroundings>,
    /// How a program of the catalog saves its work, if its definition says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<JobCheckpoint>,
    /// One device for each rank, in order of ranks.
    pub devices: Vec<Device>,
    /// Cores of the host that each rank of a job on GPUs is bound to, in order of ranks. Empty if the rank
    /// may use all of them, and on CPU devices, which are cores themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_cores: Vec<Device>,
    pub sharing: Sharing,
    /// Absent for a job alone.
    #[serde(default)]
    pub seat: Option<Seat>,
    /// Threads of each rank for work inside one operation.
    pub threads: u32,
    /// Whether the user gave that number. A command receives it only in this case, because it may have a
    /// default of its own.
    #[serde(default)]
    pub threads_named: bool,
    /// Limit of tensor memory of each rank on a CPU device; unlimited if absent. A GPU has its own limit.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    pub seed: u64,
    /// The steps whose operators are recorded, in a launch that is made for this and not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operators: Option<OperatorSteps>,
}

/// Where the program of a job saves its work, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobCheckpoint {
    /// The name of its folder among the checkpoints of the run.
    pub folder: String,
    pub definition: ProgramCheckpoint,
}

/// Steps during which each rank records its operators with PyTorch's profiler. The trace of a rank is in a file beside its events, with
/// [`OPERATORS`] in place of `.jsonl`, before the rank rests or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorSteps {
    /// The index of the first of these steps.
    pub first: u64,
    pub count: u32,
}

impl OperatorSteps {
    /// The number of steps after which the recording is over.
    pub fn end(self) -> u64 {
        self.first + u64::from(self.count)
    }
}

/// The ending of a trace of operators, beside the file of events.
pub const OPERATORS: &str = ".operators.json";

impl LaunchSpec {
    /// The first launch of a job alone on its devices, with one rank per device and one thread per rank.
    pub fn new(
        launch: impl Into<String>,
        job: impl Into<String>,
        program: Program,
        devices: Vec<Device>,
    ) -> LaunchSpec {
        let job = job.into();
        LaunchSpec {
            format: FORMAT,
            launch: launch.into(),
            cell: job.clone(),
            job,
            block: 0,
            part: 0,
            program,
            steps_regex: None,
            input: None,
            surroundings: None,
            checkpoint: None,
            devices,
            host_cores: Vec::new(),
            sharing: Sharing::Alone,
            seat: None,
            threads: 1,
            threads_named: false,
            memory_bytes: None,
            seed: 0,
            operators: None,
        }
    }

    /// The number of processes that the harness starts: one for each device of a worker. A command is one process, which may start
    /// others on its devices.
    pub fn processes(&self) -> u32 {
        if self.program.speaks() { self.devices.len() as u32 } else { 1 }
    }

    /// The part of a list with an entry for each device that belongs to a process that the harness starts.
    pub fn of_process<'a, T>(&self, process: u32, of_devices: &'a [T]) -> &'a [T] {
        let of_worker = || of_devices.get(process as usize..=process as usize);
        if self.program.speaks() { of_worker().unwrap_or_default() } else { of_devices }
    }
}

/// The program of a launch: a workload, a part of a workload that is measured by itself, or a user's
/// program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Program {
    Training(Box<Training>),
    AllReduce(AllReduce),
    /// A user's program and its arguments, as given.
    Command(Vec<String>),
}

/// The seat of a member in one visit of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seat {
    /// The name of the group.
    pub group: String,
    /// Visits of groups count up in a run, as launches do. All members of a visit have the same name here.
    pub visit: String,
    /// Counts from 0.
    pub number: u32,
}

impl Program {
    /// Whether it must speak the worker protocol. A command does only if it uses the hook.
    pub fn speaks(&self) -> bool {
        !matches!(self, Program::Command(_))
    }

    /// Number of pipeline stages of its ranks.
    pub fn stages(&self) -> u32 {
        match self {
            Program::Training(training) => Mesh::of(&training.plan).stages,
            Program::AllReduce(_) | Program::Command(_) => 1,
        }
    }

    /// Where its ranks find each other; `None` for a program that is started as one process.
    pub fn rendezvous(&mut self) -> Option<&mut Option<PathBuf>> {
        match self {
            Program::Training(training) => Some(&mut training.rendezvous),
            Program::AllReduce(all_reduce) => Some(&mut all_reduce.rendezvous),
            Program::Command(_) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// The definition from the catalog, with the learning rate of the job if it has one of its own.
    pub workload: Workload,
    pub global_batch: u32,
    pub plan: Plan,
    /// The worker ends after this number of steps; if absent, on the order to stop.
    pub steps: Option<u64>,
    /// A folder with real data; if absent, the seeded synthetic stream.
    pub data: Option<PathBuf>,
    /// Loader threads per rank that prepare batches of `data`; with 0 the training thread makes them.
    #[serde(default)]
    pub loaders: u32,
    /// A checkpoint to continue from; if absent, the seed initialises the parameters.
    #[serde(default)]
    pub restore: Option<PathBuf>,
    /// Threads per rank for the optimizer's step on the host, if the plan offloads it; if absent, all
    /// threads of the rank.
    #[serde(default)]
    pub offload_threads: Option<u32>,
    /// The library for collectives; if absent, the default of the devices.
    #[serde(default)]
    pub collectives: Option<Collectives>,
    /// Computes in fp64, with constant running statistics of batch norm, without normalisation of
    /// advantages, and with means instead of random samples. Every plan then gives the same losses if the
    /// definition has no dropout. This is for checks; no measurement uses it.
    #[serde(default)]
    pub exact: bool,
    /// Where the ranks find each other; new for every launch, absent for one rank.
    pub rendezvous: Option<PathBuf>,
}

words! {
    /// A library that moves tensors between ranks, under PyTorch's process groups.
    Collectives {
        /// Over sockets of the host; the default of CPU devices. On GPUs it goes through host memory, and
        /// several ranks may share a GPU.
        Gloo = "gloo",
        /// Between GPUs; their default, with one rank per GPU.
        Nccl = "nccl",
    }
}

impl Training {
    /// Training from the seed on the synthetic stream, without loader threads, until the order to stop.
    pub fn new(workload: Workload, global_batch: u32, plan: Plan) -> Training {
        Training {
            workload,
            global_batch,
            plan,
            steps: None,
            data: None,
            loaders: 0,
            restore: None,
            offload_threads: None,
            collectives: None,
            exact: false,
            rendezvous: None,
        }
    }

    /// Makes it [`exact`](Training::exact) and removes dropout, so that its losses equal those of any other
    /// plan.
    pub fn make_exact(&mut self) {
        self.exact = true;
        self.workload.model = self.workload.model.without_dropout();
    }

    /// Samples that one rank works on in one micro-step.
    pub fn micro_batch(&self) -> u32 {
        self.global_batch / self.plan.batch_divisor()
    }
}

/// Repeated sums of one tensor over all ranks, until the order to stop. Each sum is a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllReduce {
    /// Size of the tensor of each rank. It has fp32 numbers, so this is a multiple of four.
    pub bytes: u64,
    /// The library for collectives; if absent, the default of the devices.
    #[serde(default)]
    pub collectives: Option<Collectives>,
    /// Where the ranks find each other; new for every launch.
    pub rendezvous: Option<PathBuf>,
}

/// Reads the launch specification of a worker from the file that `TANDEM_SPEC` names.
pub fn read_spec(path: &Path) -> Result<LaunchSpec, RunError> {
    files::read_json(path)
}
