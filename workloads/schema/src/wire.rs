//! The worker protocol: the events that a rank reports, and the commands that it takes while at rest.
//!
//! A worker appends one JSON object per line to the file that [`TANDEM_EVENTS`] names. A file never blocks
//! the trainer, is the raw evidence, and survives both processes. Commands arrive as lines on stdin, and
//! only at rest: before the first grant, or while the job is held (see [`crate::grant`]). End of file on
//! stdin means that the worker must exit. `workloads/README.md` describes the protocol in prose; a test
//! keeps the two in step.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// The version of the protocol. A worker with another version in its `hello` is refused.
pub const PROTOCOL: u32 = 1;

/// The variable that names the event file of a rank.
pub const TANDEM_EVENTS: &str = "TANDEM_EVENTS";
/// The variable that names the page with the grant of the job.
pub const TANDEM_CONTROL: &str = "TANDEM_CONTROL";
/// The variable that names the file with the launch's [`crate::spec::LaunchSpec`].
pub const TANDEM_SPEC: &str = "TANDEM_SPEC";

/// The variable that names the steps of [`crate::spec::OperatorSteps`] to the step hook, as `FIRST:COUNT`.
pub const TANDEM_OPERATORS: &str = "TANDEM_OPERATORS";

/// One line of an event file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventLine {
    /// Counts from 0 for each launch and rank, so that a lost line is detected.
    pub seq: u64,
    pub rank: u32,
    /// The time of the event on the host's `CLOCK_MONOTONIC`.
    pub mono_ns: Nanos,
    pub event: Event,
}

/// An event that a rank reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Event {
    /// The first event of every rank.
    Hello(Hello),
    /// The job is built and waits for its grant.
    Ready(Ready),
    Step(Step),
    /// The grant is used up; `index` steps are complete.
    Held {
        index: u64,
    },
    Memory(Memory),
    Paused {
        dur_ns: Nanos,
        bytes_freed: u64,
    },
    Resumed {
        dur_ns: Nanos,
    },
    Checkpointed {
        bytes: u64,
        dur_ns: Nanos,
    },
    /// The answer to a command that cannot be obeyed. Nothing has changed, and the job stays at rest.
    Refused {
        error: String,
    },
    /// The last event after success.
    Finished {
        steps: u64,
        /// Absent if unknown, as in [`Step`].
        #[serde(skip_serializing_if = "Option::is_none")]
        samples: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        loss: Option<f64>,
    },
    /// The last event after a failure.
    Failed {
        kind: FailureKind,
        error: String,
    },
}

impl Event {
    /// The name as spelled in a line.
    pub fn name(&self) -> &'static str {
        match self {
            Event::Hello(_) => "hello",
            Event::Ready(_) => "ready",
            Event::Step(_) => "step",
            Event::Held { .. } => "held",
            Event::Memory(_) => "memory",
            Event::Paused { .. } => "paused",
            Event::Resumed { .. } => "resumed",
            Event::Checkpointed { .. } => "checkpointed",
            Event::Refused { .. } => "refused",
            Event::Finished { .. } => "finished",
            Event::Failed { .. } => "failed",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    pub protocol: u32,
    /// The name of the program.
    pub worker: String,
    pub version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub libtorch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cuda: Option<String>,
    /// Number of ranks of the job, if a user's program reports it. The harness knows that of its own workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
    pub pid: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// Number of trainable parameters of the whole model, on every rank; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<u64>,
    /// Size of the parameters and buffers that this rank holds; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_bytes: Option<u64>,
    /// Size of the state that the optimizers of this rank hold; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer_bytes: Option<u64>,
    /// Peak of tensor memory while the job was built, if the worker can measure it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// Present if batch norm sees less than the global batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statistics: Option<Statistics>,
    /// Kinds of layers that compute in fp32 under bf16, because the device has no bf16 kernel for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fp32_layers: Vec<String>,
    /// Time from the start of the process to this event.
    pub startup_ns: Nanos,
    /// The part of `startup_ns` in which a checkpoint was read; absent if the launch started without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_ns: Option<Nanos>,
}

/// The statistics that batch norm normalises by, if they depend on the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistics {
    /// Mean and variance of each rank's own micro-batch, as in PyTorch's DistributedDataParallel: the plan
    /// then computes something slightly different from `dp1`.
    Local,
}

/// One mini-batch, that is one optimizer update. The `mono_ns` of its line is the end of the step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Counts from 0. Warm-up steps are real steps.
    pub index: u64,
    /// Time from boundary to boundary, without the time in which the job was held.
    pub dur_ns: Nanos,
    /// Number of samples that this rank accounts for, so that those of all ranks add up to the global batch;
    /// absent if unknown, as in a user's program. Of the ranks that work on the same samples, tensor-parallel
    /// rank 0 of the last pipeline stage reports them and the others report 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Absent if it was not read or is not finite, and on ranks that report 0 samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phases: Option<Phases>,
    /// Bytes that this rank sent to others, by the ring algorithms of n ranks (Patarasuk and Yuan, JPDC
    /// 2009): `2 (n - 1) / n` of the bytes of an all-reduce, `(n - 1) / n` of the whole result of an
    /// all-gather, of the whole input of a reduce-scatter and of a broadcast, and all bytes of a send. Each
    /// collective is rounded down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    pub timing: Timing,
}

/// Where the time of a step went. Phases that a plan does not have are absent, and so are those that the host
/// does not learn. All but `sync_total_ns` exclude each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phases {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_ns: Option<Nanos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_ns: Option<Nanos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backward_ns: Option<Nanos>,
    /// All of gradient synchronisation, whether hidden or exposed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_total_ns: Option<Nanos>,
    /// The part of the synchronisation that the step waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_exposed_ns: Option<Nanos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer_ns: Option<Nanos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offload_ns: Option<Nanos>,
    /// Time that the step waited for collectives of tensor-parallel ranks. Absent without tensor parallelism,
    /// and where the host does not learn it, as with NCCL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensor_ns: Option<Nanos>,
    /// Time that the step waited for parameters that ZeRO gathers. Absent without ZeRO, and where the host
    /// does not learn it, as with NCCL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gather_ns: Option<Nanos>,
    /// Time that the step waited for activations and gradients of other pipeline stages. Absent without
    /// pipeline parallelism, and where the host does not learn it, as with NCCL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline_ns: Option<Nanos>,
}

impl Phases {
    /// All phases with their names in a line.
    pub fn named(&self) -> [(&'static str, Option<Nanos>); 10] {
        [
            ("data_ns", self.data_ns),
            ("forward_ns", self.forward_ns),
            ("backward_ns", self.backward_ns),
            ("sync_total_ns", self.sync_total_ns),
            ("sync_exposed_ns", self.sync_exposed_ns),
            ("optimizer_ns", self.optimizer_ns),
            ("offload_ns", self.offload_ns),
            ("tensor_ns", self.tensor_ns),
            ("gather_ns", self.gather_ns),
            ("pipeline_ns", self.pipeline_ns),
        ]
    }
}

/// How the boundaries of steps were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// The worker read the host's clock while the device had nothing queued.
    Host,
    /// Events recorded on the device's own stream.
    DeviceEvent,
    /// A hook inside an unmodified program read the host's clock.
    Hook,
    /// A hook inside an unmodified program recorded events on the device's own stream.
    HookDeviceEvent,
    /// Lines of the program's output mark the steps.
    Scraped,
    /// No steps are known; the program was measured from outside.
    Outside,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Tensor memory in use on the device.
    pub allocated_bytes: u64,
    /// Memory that the caching allocator holds; absent without such an allocator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_bytes: Option<u64>,
    /// The highest `allocated_bytes` since the start.
    pub peak_bytes: u64,
    /// Tensor memory in use on the host, if the device has memory of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_bytes: Option<u64>,
    /// Number of times since the start that the caching allocator was refused memory and released all unused
    /// memory before it tried again; absent without such an allocator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocator_retries: Option<u64>,
}

/// The kinds of failure that a worker can report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    OutOfMemory,
    Unsupported,
    Data,
    Collective,
    Internal,
}

/// A command to a job at rest, one per line on stdin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Moves everything that the job has on the device to host memory.
    Pause {},
    Resume {},
    Checkpoint {
        path: String,
    },
    /// Ends the job: it reports `finished` and exits.
    Stop {},
}

impl Command {
    /// The name as spelled in a line.
    pub fn name(&self) -> &'static str {
        match self {
            Command::Pause {} => "pause",
            Command::Resume {} => "resume",
            Command::Checkpoint { .. } => "checkpoint",
            Command::Stop {} => "stop",
        }
    }
}
