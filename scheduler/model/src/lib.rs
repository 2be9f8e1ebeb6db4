//! Performance models, which predict step times for a placement. They are pure: a model is read from tables
//! and queried.

mod belief_error;
mod chance;
pub mod choice;
mod cost;
mod covered;
mod doubts;
mod drawn;
pub mod duration;
mod fit;
mod fitted;
pub mod formula;
pub mod held_out;
mod host_drift;
mod hull;
mod in_turns;
pub mod interference;
mod known_or_fitted;
mod learning_curve;
mod least_squares;
mod load;
pub mod loss_fit;
pub mod memory;
mod observation;
mod observed;
mod packing;
mod priors;
mod published;
mod setting;
mod spread;
pub mod suggest;
pub mod switch_costs;
mod table;
mod trace_time;

use record::rows::Warnings;
use schema::{plan::Plan, sharing::Sharing};

pub use belief_error::BeliefError;
pub use cost::{Launches, Length};
pub use drawn::Drawn;
pub use fit::{Fit, FitError, Options, fit};
pub use fitted::{
    Answer, Basis, FittedModel, OtherParameters, RowsLeftOut, WIDEST_INTERVAL, fit_and_predict, fit_workload,
    observation,
};
pub use host_drift::HostDrift;
pub use in_turns::InTurns;
pub use known_or_fitted::KnownOrFitted;
pub use learning_curve::{LearningCurve, MeasuredConfiguration, widest};
pub use load::{Load, LoadErrors, Predicted, walk_load};
pub use memory::{MemoryModel, MemorySetting};
pub use observation::Observation;
pub use packing::{Classified, PackingClass, PackingClasses, UseAlone};
pub use priors::{Parts, Prior};
pub use published::{forward_s, published};
pub use setting::{Placement, Setting};
pub use spread::Spread;
pub use table::Table;
pub use trace_time::TraceTime;

/// A predictor of step times. The simulated cluster uses one, and the beliefs of a policy are another.
pub trait Throughput: Sync {
    /// Predicts a step time; `None` if the model does not know.
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction>;

    /// The warnings of the rows that the prediction stands on.
    fn warnings(&self, _question: &PredictRequest<'_>) -> Warnings {
        Warnings::default()
    }

    /// The largest peak of memory of a device that a job was measured to need alone in this placement. `None` if no row has it.
    fn peak_memory_bytes(&self, _question: &PredictRequest<'_>) -> Option<u64> {
        None
    }

    /// Whether any prediction depends on neighbours. If not, a question may leave them out.
    fn minds_neighbours(&self) -> bool {
        false
    }

    /// Learns the measured step time of a job alone. Returns whether the predictions for its workload have changed. A model that
    /// does not learn changes nothing.
    fn observe(&mut self, _question: &PredictRequest<'_>, _step_ns: f64) -> bool {
        false
    }

    /// The number of times that the model has changed; `None` if it does not learn.
    fn version(&self) -> Option<u64> {
        None
    }
}

/// A job in a placement with other jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictRequest<'a> {
    pub job: JobKey<'a>,
    /// Number of devices on each of its nodes, in descending order: `[4, 4]` are two nodes. All devices
    /// have one type.
    pub placement: &'a [u32],
    pub device_type: &'a str,
    /// Cores of the host for each rank, if decided.
    pub cpus: Option<u16>,
    /// The other jobs on its devices.
    pub co_runners: &'a [JobKey<'a>],
    pub sharing: &'a Sharing,
    /// Jobs on other devices of its nodes and on none of its own.
    pub neighbours: &'a [Neighbour<'a>],
}

/// A job that uses shared resources of a node, such as its memory bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour<'a> {
    pub job: JobKey<'a>,
    /// Share of the time in which it runs, in (0, 1]: below 1 if other jobs are on its devices.
    pub share: f64,
}

/// A job by the names in rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobKey<'a> {
    /// The workload of the catalog, or the name of a command.
    pub workload: &'a str,
    pub global_batch: Option<u32>,
    pub plan: Option<Plan>,
    /// The step time alone in the job's trace, if present.
    pub trace_time: Option<TraceTime<'a>>,
    /// The number of equal parts of its duration that count as its steps, for a program that was measured without steps; else 1.
    pub parts: u32,
}

impl<'a> JobKey<'a> {
    /// A job with steps, of which no trace gives the time.
    pub fn new(workload: &'a str, global_batch: Option<u32>, plan: Option<Plan>) -> JobKey<'a> {
        JobKey { workload, global_batch, plan, trace_time: None, parts: 1 }
    }
}

impl<T: Throughput + ?Sized> Throughput for &T {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        (**self).predict(question)
    }

    fn warnings(&self, question: &PredictRequest<'_>) -> Warnings {
        (**self).warnings(question)
    }

    fn peak_memory_bytes(&self, question: &PredictRequest<'_>) -> Option<u64> {
        (**self).peak_memory_bytes(question)
    }

    fn minds_neighbours(&self) -> bool {
        (**self).minds_neighbours()
    }

    fn version(&self) -> Option<u64> {
        (**self).version()
    }
}

impl<T: Throughput + ?Sized> Throughput for Box<T> {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        (**self).predict(question)
    }

    fn warnings(&self, question: &PredictRequest<'_>) -> Warnings {
        (**self).warnings(question)
    }

    fn peak_memory_bytes(&self, question: &PredictRequest<'_>) -> Option<u64> {
        (**self).peak_memory_bytes(question)
    }

    fn minds_neighbours(&self) -> bool {
        (**self).minds_neighbours()
    }

    fn observe(&mut self, question: &PredictRequest<'_>, step_ns: f64) -> bool {
        (**self).observe(question, step_ns)
    }

    fn version(&self) -> Option<u64> {
        (**self).version()
    }
}

/// The predicted step time, with an interval from its sources.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    pub step_ns: f64,
    /// The 95 % interval; absent if the source has none.
    pub step_ns_ci: Option<(f64, f64)>,
}

impl Prediction {
    /// The prediction and its interval, times a factor.
    pub fn times(self, factor: f64) -> Prediction {
        let step_ns_ci = self.step_ns_ci.map(|(lo, hi)| (lo * factor, hi * factor));
        Prediction { step_ns: self.step_ns * factor, step_ns_ci }
    }
}
