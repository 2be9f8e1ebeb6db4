//! The specification of a launch: the file `jobs/<launch>.json` of a run, named to it by `WORKER_SPEC`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{FORMAT, catalog::Workload, device::Device, plan::Plan, rows::words, sharing::Sharing};

/// One start of a job. Everything that decides what the worker computes is in here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchSpec {
    pub format: u32,
    /// `0007-resnet50`: counts up in a run; a redone cell gets a new one.
    pub launch: String,
    /// The job in full spelling, every default filled in.
    pub job: String,
    /// Which cell of the run, and which block, this launch belongs to. Blocks count from 0. In a run of the scheduler it is which
    /// start of its job this is.
    pub cell: String,
    pub block: u32,
    /// Which part of the run it was started in: 0 as the run began, and one more each time it was gone on with.
    #[serde(default)]
    pub part: u32,
    pub program: Program,
    /// Matches the lines of a command's output that end a step, in the syntax of the crate `regex`. Where it is absent the
    /// step hook of Python is offered to the command, and one that does not take it is measured from outside.
    #[serde(default)]
    pub steps_regex: Option<String>,
    /// One for each rank, in order of ranks.
    pub devices: Vec<Device>,
    /// Cores of the host that each rank of a job on GPUs is bound to, in order of ranks. None where it may use all of them, and
    /// on CPU devices, which are cores themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_cores: Vec<Device>,
    pub sharing: Sharing,
    /// Absent where the job is alone.
    #[serde(default)]
    pub seat: Option<Seat>,
    /// Threads of each rank for work inside one operation.
    pub threads: u32,
    /// Whether the user named that number. A command is told of it only then, as it may have a number of its own.
    #[serde(default)]
    pub threads_named: bool,
    /// What the tensors of each rank may take on a CPU device; as much as there is where absent. A GPU sees to it itself.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    pub seed: u64,
}

impl LaunchSpec {
    /// The first launch of a job that is alone on its devices, one a rank, with one thread each.
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
            devices,
            host_cores: Vec::new(),
            sharing: Sharing::Alone,
            seat: None,
            threads: 1,
            threads_named: false,
            memory_bytes: None,
            seed: 0,
        }
    }
}

/// What runs: one of our workloads, a part of one that is measured by itself, or any program at all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Program {
    Training(Box<Training>),
    AllReduce(AllReduce),
    /// Program and arguments of the user's, as given.
    Command(Vec<String>),
}

/// A member's place in one visit of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seat {
    /// The name of the group.
    pub group: String,
    /// Visits of groups count up in a run, as launches do; all members of one have the same.
    pub visit: String,
    /// From 0.
    pub number: u32,
}

impl Program {
    /// Whether it has to speak the worker protocol. A command does only where it takes the hook.
    pub fn speaks(&self) -> bool {
        !matches!(self, Program::Command(_))
    }

    /// Where its ranks find each other; `None` for a program of which we start only one process.
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
    /// The catalog's definition, resolved.
    pub workload: Workload,
    pub global_batch: u32,
    pub plan: Plan,
    /// Leave after so many steps; else when told to stop.
    pub steps: Option<u64>,
    /// A folder with real data; else the seeded synthetic stream.
    pub data: Option<PathBuf>,
    /// Threads of each rank that make batches of `data` ahead; with 0 the training thread makes them itself.
    #[serde(default)]
    pub loaders: u32,
    /// A checkpoint to go on from; else the parameters are drawn from the seed.
    #[serde(default)]
    pub restore: Option<PathBuf>,
    /// Threads of each rank for the optimizer's step on the host, where the plan offloads it; as many
    /// as the rank has where absent.
    #[serde(default)]
    pub offload_threads: Option<u32>,
    /// Who moves tensors between ranks; the usual one of the devices where absent.
    #[serde(default)]
    pub collectives: Option<Collectives>,
    /// Compute in fp64, with batch norm's running statistics as they began and never updated, advantages
    /// that are not normalised, and means in place of what a model draws: then every plan gives the same
    /// losses where the definition has no dropout. For checks; nothing that is measured computes so.
    #[serde(default)]
    pub exact: bool,
    /// Where the ranks find each other; fresh for every launch, absent for one rank.
    pub rendezvous: Option<PathBuf>,
}

words! {
    /// A library that moves tensors between ranks, under PyTorch's process groups.
    Collectives {
        /// Over sockets of the host; what CPU devices use. On GPUs it goes through host memory, and several
        /// ranks may share one.
        Gloo = "gloo",
        /// Between GPUs; what they use, one rank each.
        Nccl = "nccl",
    }
}

impl Training {
    /// Training from the seed on, over the synthetic stream, with one thread for each thing that may have several, until it
    /// is told to stop.
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

    /// Makes it [`exact`](Training::exact) and leaves dropout out, so that its losses are those of any other plan.
    pub fn make_exact(&mut self) {
        self.exact = true;
        self.workload.model = self.workload.model.without_dropout();
    }

    /// Samples that one rank works on in one micro-step.
    pub fn micro_batch(&self) -> u32 {
        self.global_batch / self.plan.batch_divisor()
    }
}

/// Sums of one tensor over all ranks, again and again until told to stop: a step is one of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllReduce {
    /// Of the tensor that each rank has; fp32, so a multiple of four.
    pub bytes: u64,
    /// Who moves the tensors; the usual one of the devices where absent.
    #[serde(default)]
    pub collectives: Option<Collectives>,
    /// Where the ranks find each other; fresh for every launch.
    pub rendezvous: Option<PathBuf>,
}

/// How a launch ended, written beside its spec when nothing of it is left: `jobs/<launch>.end.json`.
/// A launch without one was torn off together with the harness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchEnd {
    pub format: u32,
    pub mono_ns: crate::units::Nanos,
    /// When it was told to leave, as enough of it had been seen: steps that ended later were not asked for. Absent where it
    /// came to its own end.
    pub enough_mono_ns: Option<crate::units::Nanos>,
    /// Absent where the launch did what it was asked to.
    pub err: Option<crate::rows::ErrorKind>,
    pub err_detail: Option<String>,
    #[serde(default, skip_serializing_if = "Notes::are_empty")]
    pub notes: Notes,
    /// One for each rank, as the kernel accounted for it and its children when they were reaped.
    pub ranks: Vec<RankEnd>,
}

/// What is known of a program of the user's beside its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notes {
    /// A process of it has imported PyTorch.
    pub has_pytorch: bool,
    /// Processes of it that take optimizer steps which no event tells of. They obey no grant.
    pub unheard: u32,
    /// Several optimizers of it take turns, and steps are the calls of one of them.
    #[serde(default)]
    pub alternating: bool,
}

impl Notes {
    fn are_empty(&self) -> bool {
        *self == Notes::default()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankEnd {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    /// It ended before it was told to, by an exit or a fault of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_itself: bool,
    /// From its start to its end.
    pub wall_ns: Option<u64>,
    /// Largest resident set of any one process of the rank.
    pub rss_peak_bytes: Option<u64>,
    pub cpu_ns: Option<u64>,
}

impl RankEnd {
    /// As a leash reports it, one line.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("its fields are numbers")
    }

    pub fn from_line(line: &str) -> serde_json::Result<RankEnd> {
        serde_json::from_str(line)
    }
}
