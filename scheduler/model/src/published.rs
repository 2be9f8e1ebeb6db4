//! Models of workloads without rows, by published parameters of Rubick's formulas.

use formats::{
    fitted::{FittedWorkload, FormulaFit, FormulaName},
    import::times::RubickParameters,
};
use record::facts::Facts;

use crate::{
    Fit, Observation, Parts, Prior,
    fit::Covariance,
    fitted::{observation, to_file},
    formula::{self, Parameters},
    hull::Hull,
};

/// Scale of the logarithms of times about these formulas: their published errors are 2 to 7 % in the mean.
const SCALE: f64 = 0.05;
/// Half of a 95 % interval over the scale.
const REACH: f64 = 1.96;

/// The time of a forward pass of a sample on one device, in seconds, of a workload without rows: for each parameter and position, that of
/// another workload. `None` if the parameters or the positions of either are not known.
pub fn forward_s(facts: Facts, like: &FittedWorkload) -> Option<f64> {
    let work = |facts: Facts| Some(facts.parameters? as f64 * f64::from(facts.sequence?));
    let rows: Vec<Observation> = like.rows.iter().map(|row| observation(like.facts, row)).collect();
    Some(formula::forward_per_sample(&rows) * work(facts)? / work(like.facts)?)
}

/// The model of a workload by published parameters. `forward_s` is the time of a forward pass of a sample on one device, in seconds,
/// which is not among them, and bandwidths are those of `parts`. All of them are `given`. The formula for tensor and pipeline
/// parallelism is only added if the layers, the positions and the width of the model are known.
pub fn published(
    workload: &str,
    facts: Facts,
    parameters: &RubickParameters,
    forward_s: f64,
    parts: &Parts,
) -> FittedWorkload {
    let RubickParameters { k_bwd, k_sync, k_opt, k_os_offload, k_const, k_off, k_swap, .. } = *parameters;
    // Theirs are in ms and count parameters in 2^20.
    let seconds = |ms: f64| ms / 1e3;
    let per_billion = |ms: f64| seconds(ms) * 1e9 / f64::from(1 << 20);
    // A parameter has a logarithm, and so is above 0.
    let above_one = |value: f64| (value - 1.0).max(1e-9);
    let (intra, inter) = (parts.intra.mean, parts.inter.mean);
    let of_data = [
        above_one(k_bwd),
        above_one(k_sync),
        per_billion(k_opt),
        per_billion(k_os_offload),
        seconds(k_const),
        seconds(k_off),
        seconds(k_swap),
        forward_s,
        intra,
        inter,
        parts.host_link,
    ];
    let of_model =
        [above_one(k_bwd), above_one(k_sync), per_billion(k_opt), seconds(k_const), forward_s, intra, inter];
    let mut fits = vec![given(FormulaName::Rubick, &of_data)];
    if [facts.layers, facts.sequence, facts.hidden].iter().all(Option::is_some) {
        fits.push(given(FormulaName::Rubick3d, &of_model));
    }
    FittedWorkload {
        workload: workload.into(),
        facts,
        rows: Vec::new(),
        launches_differ: None,
        fits,
        held_out: Vec::new(),
        memory: None,
    }
}

/// A formula with these values, of which none was fitted.
fn given(formula: FormulaName, values: &[f64]) -> FormulaFit {
    debug_assert_eq!(values.len(), formula::parameters(formula).len());
    let mut logarithms = Parameters::zeros();
    values.iter().enumerate().for_each(|(index, value)| logarithms[index] = value.ln());
    to_file(&Fit {
        formula,
        priors: values.iter().map(|value| Prior::given(*value)).collect(),
        logarithms,
        covariance: Covariance::zeros(),
        scale: SCALE,
        reach: REACH,
        rows: 0,
        hull: Hull::default(),
    })
}
