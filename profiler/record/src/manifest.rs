//! `manifest.toml`, written before anything starts, and `end.toml`, written last.

use std::{collections::BTreeMap, path::PathBuf, time::SystemTime};

use schema::{
    device::Device, plan::Plan, sharing::Sharing, spec::Collectives, surroundings::Surroundings,
    values::Values,
};
use serde::{Deserialize, Serialize};

use crate::{folder::Folder, group::Group, placement::Placement, suspension::Suspension};

/// The request, the machine and the seed of a run, which is enough to repeat it and all that `--resume`
/// needs. It contains no name of a host or a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub format: u32,
    /// Start of the run, as `2026-11-20T10:13:40Z`.
    pub started_utc: String,
    /// The command as typed, program name first.
    pub command: Vec<String>,
    pub version: String,
    /// The revision of the source tree that the program was built from, if that was a git checkout.
    pub git_revision: Option<String>,
    pub seed: u64,
    /// Words by which the user finds the run again, of `--tag`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    pub settings: Settings,
    /// Present if the run takes programs, data or catalogs from the folder in which it was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<Folder>,
    pub machine: Machine,
    pub devices: Vec<DeviceFacts>,
    /// What the run measures, in the order of the command line. The seed and the number of a block decide
    /// the order of its visits (`profiler::order`).
    pub cells: Vec<Cell>,
    /// Groups of those cells, in a run of `profile colocate`. A block then visits all cells, all groups,
    /// and all cells again in reverse order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Group>,
    /// Present in a run of `sched`. The number of a device is then its position in `devices` or in the
    /// nodes of a simulated cluster. The cells of `sched run` are the jobs of a trace, in order of arrival
    /// and without devices. A simulation has no cells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<Scheduling>,
}

impl Manifest {
    /// Start of the run; `None` if it is misspelled.
    pub fn started(&self) -> Option<SystemTime> {
        humantime::parse_rfc3339(&self.started_utc).ok()
    }

    /// The command of the program, as `single`; `None` if none was typed. Options such as `--quiet` may stand before it.
    pub fn subcommand(&self) -> Option<&str> {
        self.command.iter().skip(1).map(String::as_str).find(|word| !word.starts_with('-'))
    }
}

/// How the jobs of a trace are scheduled. Copies of the trace and of the policy's inputs lie in `inputs/`
/// of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduling {
    /// The policy as typed.
    pub policy: String,
    /// Where the policy places jobs. Runs without this field were spread.
    #[serde(default = "Placement::unrecorded")]
    pub placement: Placement,
    /// What the run lacks for the policy, a sentence each. Absent in runs from before this was said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacking: Vec<String>,
    /// How jobs share a device. Jobs of runs without this field shared by time slices.
    #[serde(default = "Sharing::unrecorded")]
    pub sharing: Sharing,
    /// How policies suspend jobs. Jobs of runs without this field were paused.
    #[serde(default)]
    pub suspension: Suspension,
    /// Number of tables of step times in `inputs/`.
    pub tables: u32,
    /// Whether `inputs/` has the history that the policy may learn from.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub history: bool,
    /// The numbers of the tables from which the policy's model is made; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Vec<u32>>,
    /// The fitted models in `inputs/`, by their numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fitted: Vec<FittedFile>,
    /// The numbers of the fitted models that the policy believes where its tables have no row, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fitted_model: Vec<u32>,
    /// Whether fitted models answer for devices of all types.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_device: bool,
    /// Whether the steps of jobs fit the policy's model again during the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refit: bool,
    /// The error of the policy's model; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub belief_error: Option<SizeOfError>,
    /// Step time of a job on more nodes than it needs over that on one node, where no table has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_slowdown: Option<f64>,
    /// The cost of a switch of a job that was not calibrated, with one device or more.
    pub switch_cost_s: Option<f64>,
    /// The interval between checkpoints of a job that trains.
    pub checkpoint_every_s: Option<f64>,
    /// The interval between reports of the progress of a job that trains.
    pub progress_every_s: Option<f64>,
    pub jobs_per_device: u32,
    /// Number of restarts of a job that fails.
    pub retries: u32,
    /// Whether the CPUs that jobs are started with are counted. Runs without this field did not count them.
    #[serde(default)]
    pub counts_cpus: bool,
    /// Number of cores of the machine for jobs on its GPUs; absent if the run was simulated or has no GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_cores: Option<u32>,
    /// The costs of switches of jobs with more devices, if they differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switch_cost_from: Vec<SwitchCostFrom>,
    /// The cost of a resumption after a pause of a job that was not calibrated; if absent, that of a switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_cost_s: Option<f64>,
    /// The cost of the first start of a job without a measured start. If absent, the start costs nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_cost_s: Option<f64>,
    /// Present if steps of jobs were skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fast_forward: Option<FastForward>,
    /// Present if the run was simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated: Option<Simulated>,
}

/// What is measured of each job before steps of it are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FastForward {
    /// The least time and number of executed steps in which the time of a step is measured.
    pub window_s: f64,
    pub window_steps: u32,
    /// The largest half-width of the 95 % interval of the mean time of a step.
    pub error_percent: f64,
}

impl Scheduling {
    /// The numbers of the fitted models of the simulated cluster, or of the prediction of a run on devices.
    pub fn fitted_of_truth(&self) -> &[u32] {
        self.simulated.as_ref().map_or(&self.fitted_model, |simulated| &simulated.fitted_truth)
    }
}

/// A fitted model in `inputs/`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedFile {
    /// The last part of the path that the user typed.
    pub name: String,
    /// The BLAKE3 digest of the file.
    pub blake3: String,
}

/// The size of the random errors of a model: predictions are multiplied by a log-normal factor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeOfError {
    /// Standard deviation of the factor on the log scale.
    pub sigma: f64,
    /// Mean of the factor on the log scale.
    pub bias: f64,
}

/// The cost of a switch of jobs with at least this number of devices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchCostFrom {
    pub devices: u32,
    pub cost_s: f64,
}

/// Settings of a simulation besides the files in `inputs/`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulated {
    /// Standard deviation of the step times of launches on the log scale, in percent.
    pub noise_percent: f64,
    /// Means of exponential distributions: mean time between failures of a device, its repair time, and the
    /// time between crashes of a launch.
    pub device_up_s: Option<f64>,
    pub device_down_s: Option<f64>,
    pub launch_up_s: Option<f64>,
    /// The numbers of the tables from which the step times of the simulated cluster are made; all of them if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truth: Option<Vec<u32>>,
    /// The numbers of the fitted models that give step times where these tables have no row, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fitted_truth: Vec<u32>,
    /// Nodes in order; empty if the cluster was the `devices` of this machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<AlikeNodes>,
}

/// Neighbouring nodes that are identical.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlikeNodes {
    pub nodes: u32,
    /// Devices of each node.
    pub devices: u32,
    pub device_type: String,
    /// The virtual cluster of the nodes. Absent if the cluster is not divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtual_cluster: Option<String>,
    #[serde(default, skip_serializing_if = "NodeFacts::is_empty")]
    pub facts: NodeFacts,
}

/// The facts of a node besides its devices. Bandwidths are per direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeFacts {
    /// Number of cores of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Memory of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Memory of each device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_memory_bytes: Option<u64>,
    /// Bandwidth between two devices of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intra_node_bytes_per_s: Option<u64>,
    /// Bandwidth between the node and the network of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inter_node_bytes_per_s: Option<u64>,
    /// Whether jobs of every virtual cluster may run on the node, so that a policy can profile them there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub profiling: bool,
}

impl NodeFacts {
    pub fn is_empty(&self) -> bool {
        *self == NodeFacts::default()
    }
}

/// How each cell is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Minimum number of blocks.
    pub repeats: u32,
    /// Steady time of a launch; absent if `steps` are counted instead.
    pub seconds: Option<f64>,
    pub steps: Option<u64>,
    /// Half-width in percent at which a cell needs no more repeats.
    pub ci_percent: Option<f64>,
    /// The time after which the run starts no further launch.
    pub budget_s: Option<f64>,
    /// The silence after which a job counts as hung. Absent if commands are measured to their end, during
    /// which they may be silent.
    #[serde(default)]
    pub heartbeat_s: Option<f64>,
    /// The time in which a user's program must take its first step, if `seconds` or `steps` of it are
    /// measured; if absent, the default of `profile single`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_step_timeout_s: Option<f64>,
    pub threads: Option<u32>,
    /// Cores of the host for all ranks of a job on GPUs. If absent, the cores are divided between the jobs
    /// measured together.
    #[serde(default)]
    pub cpus_per_job: Option<u32>,
    pub data: Option<PathBuf>,
    /// Loader threads per rank that prepare batches of `data`.
    #[serde(default)]
    pub loaders: u32,
    /// Threads per rank for the optimizer's step on the host; if absent, all threads of the rank.
    #[serde(default)]
    pub offload_threads: Option<u32>,
    /// The library for collectives; if absent, the default of the devices.
    #[serde(default)]
    pub collectives: Option<Collectives>,
    /// The pattern for lines of output that end a step of a user's program.
    #[serde(default)]
    pub steps_regex: Option<String>,
    /// The file that users' programs read from stdin; if absent, their stdin is empty.
    #[serde(default)]
    pub input: Option<PathBuf>,
    /// The number of steps of each cell whose operators are recorded; absent without a recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operators: Option<u32>,
    /// Memory limit of the jobs on each CPU device; if absent, its share of the machine's memory.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Workloads with a dial, beside which others have a curve in `curves.csv`; empty if no curves were
    /// requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stressors: Vec<String>,
    /// Files of workloads besides the embedded ones.
    #[serde(default)]
    pub catalogs: Vec<PathBuf>,
    /// Present if the run measures programs of the user's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surroundings: Option<Surroundings>,
}

impl Default for Settings {
    /// One launch of each cell, limited only by its own steps.
    fn default() -> Settings {
        Settings {
            repeats: 1,
            seconds: None,
            steps: None,
            ci_percent: None,
            budget_s: None,
            heartbeat_s: Some(120.0),
            first_step_timeout_s: None,
            threads: None,
            cpus_per_job: None,
            data: None,
            loaders: 0,
            offload_threads: None,
            collectives: None,
            steps_regex: None,
            input: None,
            operators: None,
            memory_bytes: None,
            stressors: Vec::new(),
            catalogs: Vec::new(),
            surroundings: None,
        }
    }
}

/// A job alone on its devices. A cell that cannot run here has the reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    pub name: String,
    pub sharing: Sharing,
    pub job: String,
    pub workload: String,
    pub command: Option<Vec<String>>,
    /// The folder that the definition of its program names, as typed. The folder in the settings comes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Present if the cell is no job but all-reduces of this size between its devices.
    #[serde(default)]
    pub all_reduce_bytes: Option<u64>,
    pub global_batch: Option<u32>,
    pub plan: Option<Plan>,
    pub devices: Vec<Device>,
    /// The values that `--vary` gave to names in braces in the command. `job` ends with them.
    #[serde(default, skip_serializing_if = "Values::is_empty")]
    pub vary: Values,
    /// Estimated peak of tensor memory of the largest rank, made before the run.
    #[serde(default)]
    pub memory_estimate_bytes: Option<u64>,
    pub unsupported: Option<String>,
}

/// The host, limited to an allow-list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    pub cpu: Option<String>,
    pub cores: Option<u32>,
    pub memory_bytes: Option<u64>,
    pub kernel: Option<String>,
    /// Identifier of the boot. Monotonic times of two boots cannot be compared.
    pub boot_id: Option<String>,
    pub hypervisor: Option<bool>,
    /// Version of the NVIDIA driver, as `580.159.03`.
    pub driver: Option<String>,
    /// The newest CUDA version that the driver supports, as `13.0`.
    pub cuda: Option<String>,
    pub libtorch: Option<String>,
    /// Environment variables that affect how workers compute, if set.
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
    /// The vendor's dense peak for matrix products in FLOP/s, by arithmetic: `fp32`, `tf32`, `bf16`.
    #[serde(default)]
    pub peak_flops: BTreeMap<String, f64>,
    /// Its readings, with the reason if one is unavailable.
    #[serde(default)]
    pub capabilities: BTreeMap<String, String>,
    /// Hardware properties as whole numbers with units in their names: `multiprocessors`, `l2_cache_bytes`.
    #[serde(default)]
    pub chip: BTreeMap<String, u64>,
    /// Connection and partitioning: `pcie`, `numa_node`, `mig`, `compute_mode`.
    #[serde(default)]
    pub topology: BTreeMap<String, String>,
}

impl DeviceFacts {
    /// The type of device that a rate is valid for.
    pub fn device_type(&self) -> String {
        self.device.type_of(&self.name)
    }
}

/// How the run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    pub format: u32,
    pub ended_utc: String,
    pub exit_code: u8,
    /// Cells and blocks that were requested and not measured.
    pub missing: Vec<String>,
    pub observer: ObserverCost,
}

/// The cost of the harness itself, summed over the parts of a resumed run.
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
