//! Models of performance: how long a step takes where a job is put. Pure: a model is read from tables and asked.

mod table;

use schema::{plan::Plan, sharing::Sharing};

pub use table::Table;

/// A predictor of step times. What a simulated cluster runs on and what a policy believes are two of them.
pub trait Throughput {
    /// `None` where the model does not know, which is an answer.
    fn predict(&self, question: &Question<'_>) -> Option<Prediction>;

    /// Whether any answer depends on neighbours. Where none does, neighbours need not be given.
    fn minds_neighbours(&self) -> bool {
        false
    }
}

/// A job somewhere, beside others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question<'a> {
    pub job: Subject<'a>,
    /// Devices on each node it would have, the most first: `[4, 4]` are two nodes. One type of device for all.
    pub placement: &'a [u32],
    pub device_type: &'a str,
    /// Cores of the host for each rank, where that is decided.
    pub cpus: Option<u16>,
    /// Who else is on its devices.
    pub co_runners: &'a [Subject<'a>],
    pub sharing: &'a Sharing,
    /// Who is on other devices of its nodes, and on none of its own.
    pub neighbours: &'a [Neighbour<'a>],
}

/// A job that takes of what devices of a node have in common, as of the bandwidth of its memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour<'a> {
    pub job: Subject<'a>,
    /// Part of the time in which it is its turn, in (0, 1]: below 1 where others are on its devices.
    pub share: f64,
}

/// A job as rows name it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Subject<'a> {
    /// The workload of the catalog, or the name of a command.
    pub workload: &'a str,
    pub global_batch: Option<u32>,
    pub plan: Option<Plan>,
    /// Time of a step alone that came with the job, where its trace has one.
    pub step_ns: Option<u64>,
}

/// The time of a step, with the interval that its sources give it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    pub step_ns: f64,
    /// 95 %; absent where the source has none.
    pub step_ns_ci: Option<(f64, f64)>,
}
