//! The worker protocol: what a rank says, and what it is told while at rest.
//!
//! A worker appends one JSON object a line to the file named by [`WORKER_EVENTS`]. A file cannot
//! push back on the trainer, is the raw evidence, and survives both processes. Commands arrive as
//! lines on stdin, and only at rest: before the first grant, or while held (see [`crate::grant`]).
//! End of file on stdin means leave now. `workloads/README.md` tells the protocol in prose; a test
//! holds the two together.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// A worker that says another number in `hello` is refused.
pub const PROTOCOL: u32 = 1;

/// Names the file that a rank appends its events to.
pub const WORKER_EVENTS: &str = "WORKER_EVENTS";
/// Names the page that holds the grant of the job.
pub const WORKER_CONTROL: &str = "WORKER_CONTROL";
/// Names the file that says what to run: [`crate::spec::LaunchSpec`].
pub const WORKER_SPEC: &str = "WORKER_SPEC";

/// One line of an event file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventLine {
    /// Rises by one from 0 for each launch and rank, so that a lost line is seen.
    pub seq: u64,
    pub rank: u32,
    /// When it happened, on the host's `CLOCK_MONOTONIC`.
    pub mono_ns: Nanos,
    pub event: Event,
}

/// What a rank says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Event {
    /// Always first.
    Hello(Hello),
    /// Built, and waiting for its grant.
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
    /// Answers a command that cannot be obeyed. Nothing has changed, and the job rests on.
    Refused {
        error: String,
    },
    /// Last, on success.
    Finished {
        steps: u64,
        /// Absent where nobody knows, as in a step.
        #[serde(skip_serializing_if = "Option::is_none")]
        samples: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        loss: Option<f64>,
    },
    /// Last, otherwise.
    Failed {
        kind: FailureKind,
        error: String,
    },
}

impl Event {
    /// As it is spelled in a line.
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
    /// Ranks of the job, where a program of the user's knows; of a worker of ours the harness does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
    pub pid: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// Trainable parameters of this rank, counted in numbers; absent where nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<u64>,
    /// Parameters and buffers; absent where nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_bytes: Option<u64>,
    /// Peak of tensor memory while building, where the worker can tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// Present where batch norm sees less than the global batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statistics: Option<Statistics>,
    /// Kinds of layers that compute in fp32 although the plan is bf16, as the device has no kernel for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fp32_layers: Vec<String>,
    /// From the start of the process to this line.
    pub startup_ns: Nanos,
    /// The part of it in which a checkpoint was read; absent where the launch goes on from none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore_ns: Option<Nanos>,
}

/// What batch norm normalises by, where the plan has a say in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Statistics {
    /// Mean and variance of each rank's own micro-batch, as in PyTorch's DistributedDataParallel: the plan
    /// then computes something slightly different from `dp1`.
    Local,
}

/// One mini-batch, that is one optimizer update. The line's `mono_ns` is the end of the step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Counts from 0. Warm-up steps are real steps.
    pub index: u64,
    /// Boundary to boundary, time held left out.
    pub dur_ns: Nanos,
    /// Samples this rank worked on; absent where nobody knows, as in a program of the user's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Absent where it was not read, and where it is not finite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phases: Option<Phases>,
    /// Bytes this rank handed to collectives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    pub timing: Timing,
}

/// Where the time of a step went. Phases that a plan does not have are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phases {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_ns: Option<Nanos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_ns: Option<Nanos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backward_ns: Option<Nanos>,
    /// All of gradient synchronisation, hidden or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_total_ns: Option<Nanos>,
    /// The part of it that the step waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_exposed_ns: Option<Nanos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer_ns: Option<Nanos>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offload_ns: Option<Nanos>,
}

/// How the boundaries of steps were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// The worker read the clock, and the device had nothing queued.
    Host,
    /// Events recorded on the device's own stream.
    DeviceEvent,
    /// A hook inside an unmodified program, by the host's clock.
    Hook,
    /// Such a hook, by events that it recorded on the device's own stream.
    HookDeviceEvent,
    /// Lines of the program's output.
    Scraped,
    /// No steps are known; the program was measured from outside.
    Outside,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Tensor memory in use on the device.
    pub allocated_bytes: u64,
    /// What the caching allocator holds; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_bytes: Option<u64>,
    /// Highest `allocated_bytes` since the start.
    pub peak_bytes: u64,
    /// Tensor memory in use on the host, for a device that has memory of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_bytes: Option<u64>,
    /// How often since the start the caching allocator was refused memory and had to give back all it
    /// did not use before it asked again; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocator_retries: Option<u64>,
}

/// What a worker can say of its own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    OutOfMemory,
    Unsupported,
    Data,
    Collective,
    Internal,
}

/// What a job at rest is told, one line each on stdin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Move what the job has on the device to host memory.
    Pause {},
    Resume {},
    Checkpoint {
        path: String,
    },
    /// Leave: say `finished` and exit.
    Stop {},
}

impl Command {
    /// As it is spelled in a line.
    pub fn name(&self) -> &'static str {
        match self {
            Command::Pause {} => "pause",
            Command::Resume {} => "resume",
            Command::Checkpoint { .. } => "checkpoint",
            Command::Stop {} => "stop",
        }
    }
}
