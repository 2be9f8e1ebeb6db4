//! The maximum of a posterior as a problem of least squares.

use formats::fitted::FormulaName;
use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::{DMatrix, DVector, Dyn, storage::Owned};

use crate::{
    Observation,
    formula::{self, LogTime, Parameters},
    priors::Prior,
};

/// Degrees of freedom of the residuals, whose distribution is Student's t: a wrong row has little weight.
const FREEDOM: f64 = 4.0;

/// The density at 0 of Student's t with these degrees of freedom.
pub(crate) const PEAK: f64 = 0.375;

/// Residuals of the logarithms of times, and of parameters that have a prior.
#[derive(Clone)]
pub(crate) struct Problem<'a> {
    pub(crate) formula: FormulaName,
    pub(crate) observations: &'a [Observation],
    pub(crate) priors: &'a [Prior],
    /// Scale of the residuals of logarithms.
    pub(crate) scale: f64,
    /// The parameters that are fitted.
    free: Vec<usize>,
    logarithms: Parameters,
    terms: Vec<(f64, Parameters)>,
}

impl<'a> Problem<'a> {
    pub(crate) fn new(
        formula: FormulaName,
        observations: &'a [Observation],
        priors: &'a [Prior],
        scale: f64,
        start: Parameters,
    ) -> Problem<'a> {
        let free = (0..priors.len()).filter(|index| !priors[*index].is_given()).collect();
        let mut problem =
            Problem { formula, observations, priors, scale, free, logarithms: start, terms: Vec::new() };
        problem.evaluate();
        problem
    }

    /// The number of residuals of times.
    pub(crate) fn len(&self) -> usize {
        self.terms.len()
    }

    /// The logarithms of the parameters at the minimum, and the value there: half of the sum of squares.
    pub(crate) fn solve(self) -> (Parameters, f64) {
        let (solved, report) = LevenbergMarquardt::new().with_patience(40).minimize(self);
        let value = report.objective_function;
        (solved.logarithms, if value.is_finite() { value } else { f64::INFINITY })
    }

    /// Residuals of logarithms of the total times, one for each observation, with their derivatives.
    fn evaluate(&mut self) {
        self.terms.clear();
        for observation in self.observations {
            let step = formula::log_step(self.formula, &self.logarithms, &observation.setting);
            let mut push = |predicted: Option<LogTime>, measured: Option<f64>| {
                if let (Some((log, derivatives)), Some(measured)) = (predicted, measured) {
                    self.terms.push((log - measured.ln(), derivatives));
                }
            };
            push(Some(step.total), Some(observation.step_s));
            push(step.synchronised, observation.synchronised_s.filter(|time| *time > 0.0));
            push(step.updated, observation.updated_s.filter(|time| *time > 0.0));
        }
    }
}

/// The weight of a squared residual, relative to that of a small one over its variance.
pub(crate) fn weight(residual: f64, scale: f64) -> f64 {
    (FREEDOM + 1.0) / (FREEDOM * scale * scale + residual * residual)
}

/// A number whose square is twice the negative logarithm of the density of Student's t, and its derivative by the residual.
pub(crate) fn robust(residual: f64, scale: f64) -> (f64, f64) {
    let ratio = residual * residual / (FREEDOM * scale * scale);
    let size = ((FREEDOM + 1.0) * ratio.ln_1p()).sqrt();
    if ratio < 1e-12 {
        let slope = ((FREEDOM + 1.0) / FREEDOM).sqrt() / scale;
        return (slope * residual, slope);
    }
    (size.copysign(residual), weight(residual, scale) * residual.abs() / size)
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Problem<'_> {
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;
    type ParameterStorage = Owned<f64, Dyn>;

    fn set_params(&mut self, free: &DVector<f64>) {
        for (value, index) in free.iter().zip(&self.free) {
            // Beyond this, the exponential overflows.
            self.logarithms[*index] = value.clamp(-60.0, 60.0);
        }
        self.evaluate();
    }

    fn params(&self) -> DVector<f64> {
        DVector::from_iterator(self.free.len(), self.free.iter().map(|index| self.logarithms[*index]))
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        let of_rows = self.terms.iter().map(|(residual, _)| robust(*residual, self.scale).0);
        let of_priors = self.free.iter().map(|&index| {
            let Prior { mean, sd } = self.priors[index];
            (self.logarithms[index] - mean.ln()) / sd
        });
        let all: Vec<f64> = of_rows.chain(of_priors).collect();
        all.iter().all(|residual| residual.is_finite()).then(|| DVector::from_vec(all))
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let rows = self.terms.len();
        let mut jacobian = DMatrix::zeros(rows + self.free.len(), self.free.len());
        for (row, (residual, derivatives)) in self.terms.iter().enumerate() {
            let (_, slope) = robust(*residual, self.scale);
            for (column, index) in self.free.iter().enumerate() {
                jacobian[(row, column)] = slope * derivatives[*index];
            }
        }
        for (column, index) in self.free.iter().enumerate() {
            jacobian[(rows + column, column)] = 1.0 / self.priors[*index].sd;
        }
        Some(jacobian)
    }
}
