//! The tables of the scheduler, with one row type per file. [`record::rows`] reads and writes them.

mod best_plan;
mod command_output;
mod draw;
mod duration;
mod fairness;
mod fidelity;
mod machine_speed;
mod outcome;
mod part;
mod policy;
mod skip;
mod suggestion;
mod together;
mod totals;

pub use best_plan::{BestPlan, MemorySource, RankBy};
pub use command_output::{Explained, JobChange, Replayed, WrittenTrace};
pub use draw::{Draw, DrawnTotals, Range};
pub use duration::{DurationErrors, DurationEstimator, DurationShape};
pub use fairness::FinishTimeFairness;
pub use fidelity::{
    Arose, DecisionDifference, Fairness, Fidelity, FirstSteps, Hindsight, Intervals, JobErrors, JobFidelity,
    TimedAction, Times, Utilisation,
};
pub use machine_speed::MachineSpeed;
pub use outcome::{Outcome, Prediction};
pub use part::Part;
pub use policy::{PolicyRow, SettingRow};
pub use skip::{Skip, skipped_ns};
pub use suggestion::{CurvePoint, MeasuringOrder, Suggestion};
pub use together::TogetherRow;
pub use totals::{DecisionTimes, LowerThan, Totals};
