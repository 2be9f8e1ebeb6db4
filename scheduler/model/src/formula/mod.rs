//! Formulas for the time of a step, each with parameters that are fitted to measurements.

mod batches;
mod pollux;
mod rubick;
mod rubick_3d;
mod tandem;

use formats::fitted::FormulaName;
use nalgebra::SVector;
use num_dual::{Derivative, DualNum, DualSVec64};

pub(crate) use self::rubick::forward_per_sample;
use crate::{
    Observation, Setting,
    priors::{Parts, Prior},
};

/// The largest number of parameters of a formula.
pub const MOST_PARAMETERS: usize = 23;

/// Values or derivatives by parameter; those beyond the parameters of the formula are 0.
pub type Parameters = SVector<f64, MOST_PARAMETERS>;

/// The time of a step, and its parts as far as the formula has them. In seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step<D> {
    pub total: D,
    /// Backward passes, overlapped with the synchronisation of gradients.
    pub synchronised: Option<D>,
    /// The update of the parameters.
    pub updated: Option<D>,
}

impl<D> Step<D> {
    fn of(total: D) -> Step<D> {
        Step { total, synchronised: None, updated: None }
    }
}

/// A parameter of a formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: &'static str,
    pub unit: &'static str,
    pub meaning: &'static str,
}

pub(crate) const fn parameter(name: &'static str, unit: &'static str, meaning: &'static str) -> Parameter {
    Parameter { name, unit, meaning }
}

/// The parameters of a formula, in order. All of them are above 0.
pub fn parameters(formula: FormulaName) -> &'static [Parameter] {
    match formula {
        FormulaName::Rubick => &rubick::PARAMETERS,
        FormulaName::Rubick3d => &rubick_3d::PARAMETERS,
        FormulaName::Pollux => &pollux::PARAMETERS,
        FormulaName::Tandem => &tandem::PARAMETERS,
        FormulaName::TandemBatches => &batches::PARAMETERS,
    }
}

/// What is known of each parameter before the fit. `observations` give the scale of the compute time.
pub(crate) fn priors(formula: FormulaName, parts: &Parts, observations: &[Observation]) -> Vec<Prior> {
    match formula {
        FormulaName::Rubick => rubick::priors(parts, observations),
        FormulaName::Rubick3d => rubick_3d::priors(parts, observations),
        FormulaName::Pollux => pollux::priors(observations),
        FormulaName::Tandem => tandem::priors(parts, observations),
        FormulaName::TandemBatches => batches::priors(observations),
    }
}

/// Why the formula has no answer; `Ok` if it has one.
///
/// # Errors
/// What is missing, or what the formula does not describe.
pub fn applies(formula: FormulaName, setting: &Setting) -> Result<(), &'static str> {
    if setting.placement.devices == 0 || setting.global_batch == 0 {
        return Err("it has no devices or no samples");
    }
    match formula {
        FormulaName::Rubick => rubick::applies(setting),
        FormulaName::Rubick3d => rubick_3d::applies(setting),
        FormulaName::Pollux | FormulaName::TandemBatches => batches::applies(setting),
        FormulaName::Tandem => tandem::applies(setting),
    }
}

/// Evaluates a formula. The setting is one to which it [`applies`].
fn evaluate<D: DualNum<f64> + Copy>(formula: FormulaName, values: &[D], setting: &Setting) -> Step<D> {
    match formula {
        FormulaName::Rubick => rubick::step(values, setting),
        FormulaName::Rubick3d => rubick_3d::step(values, setting),
        FormulaName::Pollux => pollux::step(values, setting),
        FormulaName::Tandem => tandem::step(values, setting),
        FormulaName::TandemBatches => batches::step(values, setting),
    }
}

/// The time of a step in seconds, with parameters in the order of [`parameters`].
pub fn step(formula: FormulaName, values: &[f64], setting: &Setting) -> Step<f64> {
    evaluate(formula, values, setting)
}

/// The logarithm of a time, and its derivatives by the logarithms of the parameters.
pub(crate) type LogTime = (f64, Parameters);

/// The logarithms of the time of a step and of its parts, with derivatives by the logarithms of the parameters.
pub(crate) fn log_step(formula: FormulaName, logarithms: &Parameters, setting: &Setting) -> Step<LogTime> {
    let mut values = [DualSVec64::<MOST_PARAMETERS>::from_re(0.0); MOST_PARAMETERS];
    let count = parameters(formula).len();
    for (index, value) in values.iter_mut().enumerate().take(count) {
        // The exponential is its own derivative.
        value.re = logarithms[index].exp();
        let mut derivatives = Parameters::zeros();
        derivatives[index] = value.re;
        value.eps = Derivative::some(derivatives);
    }
    let Step { total, synchronised, updated } = evaluate(formula, &values[..count], setting);
    let log = |time: DualSVec64<MOST_PARAMETERS>| {
        let time = time.ln();
        (time.re, time.eps.unwrap_generic(nalgebra::Const, nalgebra::Const))
    };
    Step { total: log(total), synchronised: synchronised.map(log), updated: updated.map(log) }
}

/// The power mean `(x^k + y^k)^(1/k)`, which is the sum at k = 1 and the maximum for large k (Pollux, OSDI 2021, section 3.2).
pub(crate) fn overlapped<D: DualNum<f64> + Copy>(x: D, y: D, k: D) -> D {
    // Nothing overlaps with nothing; its logarithm would be minus infinity.
    if y.re() <= 0.0 {
        return x;
    }
    // Relative to the larger, so that no power overflows.
    let (larger, smaller) = if x.re() >= y.re() { (x, y) } else { (y, x) };
    let ratio = smaller / larger;
    larger * (((ratio.ln() * k).exp() + 1.0).ln() / k).exp()
}

/// The shortest compute time of a sample on one device that the observations allow: a first guess.
fn seconds_per_sample(observations: &[Observation]) -> f64 {
    let of = |observation: &Observation| {
        let Setting { placement, global_batch, .. } = observation.setting;
        observation.step_s * f64::from(placement.devices) / f64::from(global_batch)
    };
    let longest = observations.iter().map(of).fold(0.0, f64::max);
    if longest > 0.0 { longest } else { 1e-3 }
}
