//! Prediction errors: a simulated run against a measured one, or two runs against each other.

use schema::units::Nanos;
use serde::{Deserialize, Serialize};

use super::{
    draw::{DrawnTotals, Range},
    fairness::FinishTimeFairness,
    machine_speed::MachineSpeed,
};
use crate::decision::Action;

/// Differences between two runs of one trace, over the jobs that ended well in both. An error is positive
/// if the predicted value is the larger one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fidelity {
    pub jobs: u32,
    /// Names of jobs that failed to end well on one side or both.
    pub left_out: Vec<String>,
    /// The number of jobs that the policy ended on both sides. They are not compared.
    #[serde(default)]
    pub ended_by_policy: u32,
    pub average_jct: Times,
    /// The 99th percentile over jobs.
    pub p99_jct: Times,
    /// Time from the first arrival to the last end.
    pub makespan: Times,
    pub utilisation: Utilisation,
    /// Absent if no job that ended well on both sides has a `fair_ns` on both.
    #[serde(default)]
    pub fairness: Option<Fairness>,
    /// Absent if no job has the time of its first 100 steps on both sides.
    #[serde(default)]
    pub first_100: Option<FirstSteps>,
    /// Absolute errors of single jobs.
    pub job_jct: JobErrors,
    /// Means over jobs, which add up to the error of the average JCT.
    pub arose: Arose,
    /// Present if the prediction has intervals.
    pub intervals: Option<Intervals>,
    /// Present if the run was simulated again with the measured times.
    pub hindsight: Option<Hindsight>,
    pub per_job: Vec<JobFidelity>,
}

/// The errors of a simulation with the step times and the costs of switches that were measured in the run, and
/// the two parts of the error of the average JCT that follow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hindsight {
    pub average_jct: Times,
    pub makespan: Times,
    pub job_jct: JobErrors,
    /// The part that the measured times remove: their difference from the predicted times, with its effect on
    /// waiting.
    pub drift_ns: i64,
    /// The part that remains: the error of the simulation itself.
    pub simulation_ns: i64,
    pub speed: Vec<MachineSpeed>,
    /// The first decision about a job that was another in the simulation than in the run, or came at another time.
    /// Absent if all decisions about each job were the same, in the same order, at about the same times.
    #[serde(default)]
    pub first_difference: Option<DecisionDifference>,
}

/// A decision about a job in the run, and the decision about the job in its place in a simulation. One is absent if that side
/// decided no more about the job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecisionDifference {
    /// The name of the job.
    pub job: String,
    pub run: Option<TimedAction>,
    pub simulation: Option<TimedAction>,
}

/// An action, and the time from the start of the run to its decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedAction {
    pub at_ns: Nanos,
    pub action: Action,
}

/// The intervals of a prediction, and how many of them hold the measured value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intervals {
    /// Jobs with an interval, and those whose measured completion time is inside.
    pub jobs: u32,
    pub jobs_inside: u32,
    /// Totals over draws; absent if they are not known.
    pub drawn: Option<DrawnTotals>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Times {
    pub predicted_ns: u64,
    pub measured_ns: u64,
    pub error_percent: f64,
}

/// Utilisation as in [`Totals`](super::Totals), over all jobs of a side. A side whose utilisation is unknown has
/// no number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Utilisation {
    pub predicted_percent: Option<f64>,
    pub measured_percent: Option<f64>,
    /// In percent of the measured utilisation.
    pub error_percent: Option<f64>,
}

/// Finish-time fairness on both sides, over the same jobs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fairness {
    pub predicted: FinishTimeFairness,
    pub measured: FinishTimeFairness,
}

/// The time from arrival until a job had done 100 steps, over the compared jobs that have it on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FirstSteps {
    pub average: Times,
    pub median: Times,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobErrors {
    pub median_percent: f64,
    /// The 90th percentile over jobs.
    pub p90_percent: f64,
    pub max_percent: f64,
}

/// The origin of an error of JCT, in parts that add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Arose {
    /// Running time of jobs that were alone on their devices on both sides.
    pub step_time_ns: i64,
    /// Running time of jobs that were packed on one side or both.
    pub interference_ns: i64,
    /// Time of the starts that both sides have. Absent if one side lacks it; the time is then part of `switch_cost_ns`.
    pub start_up_ns: Option<i64>,
    /// Cost of the other switches that both sides had.
    pub switch_cost_ns: i64,
    /// Waiting, queued or paused, and switches that only one side had, because other jobs came first or
    /// came earlier.
    pub order_ns: i64,
}

impl Arose {
    /// The parts with their names.
    pub fn parts(&self) -> [(&'static str, Option<i64>); 5] {
        [
            ("step time", Some(self.step_time_ns)),
            ("interference", Some(self.interference_ns)),
            ("start-up", self.start_up_ns),
            ("switch cost", Some(self.switch_cost_ns)),
            ("order", Some(self.order_ns)),
        ]
    }
}

/// One job on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobFidelity {
    pub name: String,
    pub jct: Times,
    /// The predicted completion time over draws.
    pub drawn: Option<Range>,
    pub arose: Arose,
}
