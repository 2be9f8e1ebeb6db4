//! `manifest.toml`, written before anything starts, and `end.toml`, written last.

use std::{collections::BTreeMap, path::PathBuf, time::SystemTime};

use serde::{Deserialize, Serialize};

use crate::{device::Device, group::Group, plan::Plan, sharing::Sharing, spec::Collectives};

/// What a run was asked to do, on what, and with which seed: enough to do it again, and all that
/// `--resume` needs to do what is missing. Holds no name of a host or a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub format: u32,
    /// Start of the run, as `2026-11-20T10:13:40Z`.
    pub started_utc: String,
    /// As typed, program name first.
    pub command: Vec<String>,
    pub version: String,
    /// Of the source tree the program was built from, where it was a git checkout.
    pub git_revision: Option<String>,
    pub seed: u64,
    pub settings: Settings,
    pub machine: Machine,
    pub devices: Vec<DeviceFacts>,
    /// What the run measures, in the order it was asked for. In which order a block visits them is
    /// decided by the seed and the number of the block (`profiler::order`).
    pub cells: Vec<Cell>,
    /// Groups of those cells, where the run is one of `profile colocate`: then a block is all cells, all groups, and all
    /// cells again in reverse.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// Where the run is one of `sched`: then the number of a device is its place in `devices`, or in the nodes of a simulated cluster.
    /// The cells of `sched run` are the jobs of a trace, in order of arrival and without devices; what is simulated has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
}

impl Manifest {
    /// Start of the run; `None` where it is not written as it should be.
    pub fn started(&self) -> Option<SystemTime> {
        humantime::parse_rfc3339(&self.started_utc).ok()
    }
}

/// How the jobs of a trace are scheduled. The trace, and what the policy believes, lie in `inputs/` of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduling {
    /// As typed.
    pub policy: String,
    /// How many tables of step times lie in `inputs/`.
    pub tables: u32,
    /// Said of every switch in place of a calibration.
    pub switch_cost_s: Option<f64>,
    /// The interval between checkpoints of a job that trains.
    pub checkpoint_every_s: Option<f64>,
    /// The interval between reports of the progress of a job that trains.
    pub progress_every_s: Option<f64>,
    pub jobs_per_device: u32,
    /// How often a job that fails is started again.
    pub retries: u32,
    /// Where the run took place in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<Simulated>,
}

/// What was simulated, beside what `inputs/` hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulated {
    /// Standard deviation of the step times of launches on the log scale, in percent.
    pub noise_percent: f64,
    /// Means of exponential times: until a device is lost, until it is back, and until a launch crashes.
    pub device_up_s: Option<f64>,
    pub device_down_s: Option<f64>,
    pub launch_up_s: Option<f64>,
    /// In order; none where the cluster was the `devices` of this machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<AlikeNodes>,
}

/// Nodes of a simulated cluster that stand together and are the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlikeNodes {
    pub nodes: u32,
    /// Of each of them.
    pub devices: u32,
    pub device_type: String,
}

/// How each cell is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Blocks at least.
    pub repeats: u32,
    /// Steady time asked of a launch; absent where `steps` are counted instead.
    pub seconds: Option<f64>,
    pub steps: Option<u64>,
    /// Half-width in percent at which a cell has been repeated enough.
    pub ci_percent: Option<f64>,
    /// The time after which the run starts no further launch.
    pub budget_s: Option<f64>,
    /// The silence after which a job is hung. Absent where commands are measured to their end, in which they may be
    /// silent for as long as they like.
    #[serde(default)]
    pub heartbeat_s: Option<f64>,
    pub threads: Option<u32>,
    /// Cores of the host for all ranks of a job on GPUs; as many as there are for each of those measured together where absent.
    #[serde(default)]
    pub cpus_per_job: Option<u32>,
    pub data: Option<PathBuf>,
    /// Threads of each rank that make batches of `data` ahead of the training thread.
    #[serde(default)]
    pub loaders: u32,
    /// Threads of each rank for the optimizer's step on the host; as many as the rank has where absent.
    #[serde(default)]
    pub offload_threads: Option<u32>,
    /// Who moves tensors between ranks; the usual one of the devices where absent.
    #[serde(default)]
    pub collectives: Option<Collectives>,
    /// Matches the lines of output that end a step of a program of the user's.
    #[serde(default)]
    pub steps_regex: Option<String>,
    /// Memory of each CPU device, to which its jobs are held; its share of the machine's where absent.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Workloads whose batch is a dial, beside which others have a curve in `curves.csv`; none where no curves were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stressors: Vec<String>,
    /// Files of workloads beyond the embedded ones.
    #[serde(default)]
    pub catalogs: Vec<PathBuf>,
}

impl Default for Settings {
    /// One launch of each cell, with nothing that ends it but its own steps.
    fn default() -> Settings {
        Settings {
            repeats: 1,
            seconds: None,
            steps: None,
            ci_percent: None,
            budget_s: None,
            heartbeat_s: Some(120.0),
            threads: None,
            cpus_per_job: None,
            data: None,
            loaders: 0,
            offload_threads: None,
            collectives: None,
            steps_regex: None,
            memory_bytes: None,
            stressors: Vec::new(),
            catalogs: Vec::new(),
        }
    }
}

/// A job alone on its devices. One that cannot run here keeps the reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    pub name: String,
    pub sharing: Sharing,
    pub job: String,
    pub workload: String,
    pub command: Option<Vec<String>>,
    /// Present where the cell is no job but all-reduces of this size between its devices.
    #[serde(default)]
    pub all_reduce_bytes: Option<u64>,
    pub global_batch: Option<u32>,
    pub plan: Option<Plan>,
    pub devices: Vec<Device>,
    /// Estimate of the peak of tensor memory of the largest rank, from before anything was started.
    #[serde(default)]
    pub memory_estimate_bytes: Option<u64>,
    pub unsupported: Option<String>,
}

/// The host, by an allow-list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    pub cpu: Option<String>,
    pub cores: Option<u32>,
    pub memory_bytes: Option<u64>,
    pub kernel: Option<String>,
    /// Drawn by the kernel at each start of the machine: times of two boots cannot be compared.
    pub boot_id: Option<String>,
    pub hypervisor: Option<bool>,
    /// Of the NVIDIA driver, as `580.159.03`.
    pub driver: Option<String>,
    /// The newest CUDA that the driver can run, as `13.0`.
    pub cuda: Option<String>,
    pub libtorch: Option<String>,
    /// Variables that change how workers compute, where they are set.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
}

/// A device as the run found it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFacts {
    pub device: Device,
    pub name: String,
    pub memory_bytes: Option<u64>,
    /// Vendor's dense peak for matrix work, FLOP/s, by arithmetic: `fp32`, `tf32`, `bf16`.
    #[serde(default)]
    pub peak_flops: BTreeMap<String, f64>,
    /// What it can be asked for, and why not where it cannot.
    #[serde(default)]
    pub capabilities: BTreeMap<String, String>,
    /// What it is made of, in whole numbers whose units stand in the names: `multiprocessors`, `l2_cache_bytes`.
    #[serde(default)]
    pub chip: BTreeMap<String, u64>,
    /// How it is connected, and how it is shared out: `pcie`, `numa_node`, `mig`, `compute_mode`.
    #[serde(default)]
    pub topology: BTreeMap<String, String>,
}

impl DeviceFacts {
    /// What a rate of one device also is of another: its name, and how many cores where it is a set of several.
    pub fn device_type(&self) -> String {
        match &self.device {
            Device::Cpu(cores) if cores.len() > 1 => format!("{} cores of {}", cores.len(), self.name),
            Device::Cpu(_) | Device::AllCores | Device::Cuda(_) => self.name.clone(),
        }
    }
}

/// How the run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    pub format: u32,
    pub ended_utc: String,
    pub exit_code: u8,
    /// Cells and blocks that were asked for and not measured.
    pub missing: Vec<String>,
    pub observer: ObserverCost,
}

/// What the harness itself cost, summed over the parts of a resumed run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObserverCost {
    pub wall_ns: u64,
    pub cpu_ns: u64,
    pub sampler_cpu_ns: u64,
    pub sampler_ticks: u64,
    pub sampler_late_ticks: u64,
    pub sampler_worst_tick_ns: u64,
}
