//! What follows from the rows of `outcomes.csv`, `predictions.csv` and `draws.csv`: the totals of a run, its prediction over draws,
//! and the errors of the prediction. The functions are pure: callers read the rows.

pub mod draws;
pub mod fidelity;
pub mod totals;
