//! A worker without libtorch.

use serde::{Deserialize, Serialize};

use super::{Family, Samples};
use crate::plan::Axis;

/// The step time, the load and the faults of a synthetic job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Synthetic {
    pub step_us: u64,
    /// The percentage of a step that burns CPU time; the rest sleeps.
    pub busy_percent: u8,
    /// Standard deviation of the log of the step time, in percent, from the seed of the launch.
    #[serde(default)]
    pub noise_percent: f64,
    /// Number of longer steps at the start.
    #[serde(default)]
    pub warmup_steps: u64,
    /// Memory that the worker touches and keeps.
    #[serde(default)]
    pub memory_bytes: u64,
    pub fault: Option<Fault>,
}

/// The faults of a synthetic worker, in its protocol or in its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    CrashBeforeHello,
    WrongProtocol,
    /// The build never ends.
    NeverReady,
    Hang {
        after_steps: u64,
    },
    OutOfMemory {
        after_steps: u64,
    },
    GarbageLine {
        after_steps: u64,
    },
    LostLine {
        after_steps: u64,
    },
    ExitWithoutFinished {
        after_steps: u64,
    },
    /// One rank is killed by a signal.
    RankDies {
        rank: u32,
        after_steps: u64,
    },
    /// Leaves a child behind that ignores SIGTERM and holds no pipe of the harness.
    LeaveChild {
        after_steps: u64,
    },
}

impl Family for Synthetic {
    fn samples(&self) -> Samples {
        Samples::Nothing
    }

    /// It trains no network, and can act as any number of ranks.
    fn lacks(&self, _axis: Axis) -> Option<&'static str> {
        None
    }

    fn problem(&self) -> Option<String> {
        let Synthetic { busy_percent, noise_percent, .. } = *self;
        if busy_percent > 100 {
            return Some(format!("busy_percent {busy_percent}: use 0 to 100"));
        }
        // NaN is refused, too.
        (!(0.0..=100.0).contains(&noise_percent)).then(|| format!("noise_percent {noise_percent}: use 0 to 100"))
    }
}
