//! What follows from the rows of `outcomes.csv`, `predictions.csv` and `draws.csv`: the totals of a run, its prediction over draws,
//! the errors of the prediction, and how fairly jobs were treated. The functions are pure: callers read the rows.

pub mod draws;
pub mod fairness;
pub mod fidelity;
pub mod totals;
