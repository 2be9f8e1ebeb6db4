//! Fits of a formula to measurements.

use formats::fitted::FormulaName;
use nalgebra::{DMatrix, SMatrix};

use crate::{
    Observation, Setting,
    choice::described,
    formula::{self, MOST_PARAMETERS, Parameters},
    hull::Hull,
    least_squares::{PEAK, Problem, weight},
    priors::{Parts, Prior},
};

/// The least scale of residuals of logarithms: the spread of repeated measurements on a quiet machine.
pub(crate) const LEAST_SCALE: f64 = 0.03;

/// Number of starting points: the priors, and draws from them.
const STARTS: usize = 12;
const FEW_STARTS: usize = 2;

/// A standard deviation above this share of that of the prior means that the rows say nothing of a parameter.
const UNIDENTIFIED: f64 = 0.9;

/// Covariance of the logarithms of the parameters.
pub(crate) type Covariance = SMatrix<f64, MOST_PARAMETERS, MOST_PARAMETERS>;

/// How a fit is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// What is known of the machine.
    pub parts: Parts,
    pub seed: u64,
    /// Standard deviations of all priors, times this. 1 except to learn how far the rows alone determine the parameters.
    pub doubt: f64,
}

impl Options {
    pub fn new(parts: Parts, seed: u64) -> Options {
        Options { parts, seed, doubt: 1.0 }
    }
}

/// A fitted formula.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    pub formula: FormulaName,
    pub priors: Vec<Prior>,
    /// Logarithms of the parameters.
    pub logarithms: Parameters,
    pub covariance: Covariance,
    /// Scale of the residuals of logarithms.
    pub scale: f64,
    /// Half of the 95 % interval of a logarithm over its standard deviation.
    pub reach: f64,
    /// Number of rows.
    pub rows: usize,
    /// Where these rows lie.
    pub(crate) hull: Hull,
}

/// Half of a 95 % interval over the standard deviation, for Student's t with four degrees of freedom.
const REACH: f64 = 2.776;

/// The same for the normal distribution.
const NORMAL: f64 = 1.96;

/// The factor above which the end of an interval is far from the prediction.
const WIDE: f64 = 1.5;

/// Why a formula cannot be fitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    #[error(
        "{found} {}, and a fit needs {needed} or more that differ; measure more plans, batches or devices",
        if *found == 1 { "configuration" } else { "configurations" }
    )]
    TooFew { found: usize, needed: usize },
    #[error("row {row}: its step time is {value}, and a time is a finite number above 0")]
    Time { row: usize, value: String },
}

/// The least number of different configurations that a fit is made from.
pub(crate) const FEWEST: usize = 3;

/// Fits a formula to the observations that it describes. Others are left out.
///
/// # Errors
/// Fails if a time is not a positive number, and if there are fewer than three different configurations.
pub fn fit(formula: FormulaName, observations: &[Observation], options: &Options) -> Result<Fit, FitError> {
    check_times(observations)?;
    let described = described(formula, observations);
    let found = configurations(&described);
    if found < FEWEST {
        return Err(FitError::TooFew { found, needed: FEWEST });
    }
    Ok(fit_described(formula, &described, options))
}

/// # Errors
/// A time is not a finite number above 0.
pub(crate) fn check_times(observations: &[Observation]) -> Result<(), FitError> {
    let is_time = |row: &Observation| row.step_s > 0.0 && row.step_s.is_finite();
    match observations.iter().position(|row| !is_time(row)) {
        Some(row) => Err(FitError::Time { row, value: observations[row].step_s.to_string() }),
        None => Ok(()),
    }
}

/// Number of different configurations.
pub(crate) fn configurations(observations: &[Observation]) -> usize {
    let is_first = |(index, row): &(usize, &Observation)| {
        !observations[..*index].iter().any(|other| other.setting == row.setting)
    };
    observations.iter().enumerate().filter(is_first).count()
}

/// A fit to observations all of which the formula describes.
pub(crate) fn fit_described(formula: FormulaName, observations: &[Observation], options: &Options) -> Fit {
    fit_from(STARTS, formula, observations, options)
}

/// The same fit from fewer starting points, where many fits to nearly the same rows are made.
pub(crate) fn fit_quickly(formula: FormulaName, observations: &[Observation], options: &Options) -> Fit {
    fit_from(FEW_STARTS, formula, observations, options)
}

fn fit_from(starts: usize, formula: FormulaName, observations: &[Observation], options: &Options) -> Fit {
    let mut priors = formula::priors(formula, &options.parts, observations);
    for prior in &mut priors {
        prior.sd *= options.doubt;
    }
    let mut random = fastrand::Rng::with_seed(options.seed);
    let centre = logarithms_of(&priors);
    let mut best = (centre, f64::INFINITY);
    for start in 0..starts {
        let mut logarithms = centre;
        if start > 0 {
            for (index, prior) in priors.iter().enumerate() {
                logarithms[index] += prior.sd.min(1.0) * (2.0 * random.f64() - 1.0);
            }
        }
        let found = Problem::new(formula, observations, &priors, LEAST_SCALE, logarithms).solve();
        if found.1 < best.1 {
            best = found;
        }
    }
    finish(formula, observations, priors, best.0)
}

/// The logarithm of the density of observations at a scale of residuals, with the parameters integrated out by Laplace's approximation, and
/// the logarithms of the most probable parameters. The formula describes all of them.
pub(crate) fn log_density(
    formula: FormulaName,
    observations: &[Observation],
    scale: f64,
    options: &Options,
) -> (f64, Parameters) {
    let Fit { priors, logarithms, .. } = fit_quickly(formula, observations, options);
    let problem = Problem::new(formula, observations, &priors, scale, logarithms);
    let terms = problem.len();
    let (logarithms, cost) = problem.solve();
    let covariance = covariance(formula, observations, &priors, scale, &logarithms);
    let free = (0..priors.len()).filter(|index| !priors[*index].is_given());
    let free: Vec<usize> = free.collect();
    let narrowed = DMatrix::from_fn(free.len(), free.len(), |row, column| {
        let (i, j) = (free[row], free[column]);
        covariance[(i, j)] / (priors[i].sd * priors[j].sd)
    });
    let log_volume = 0.5 * narrowed.determinant().ln();
    (terms as f64 * (PEAK / scale).ln() - cost + log_volume, logarithms)
}

impl Fit {
    /// What is known of a formula before any fit. Of `observations`, only the scale of the compute time is taken.
    pub fn of_priors(formula: FormulaName, parts: &Parts, observations: &[Observation]) -> Fit {
        let priors = formula::priors(formula, parts, observations);
        let mut covariance = Covariance::zeros();
        for (index, prior) in priors.iter().enumerate() {
            covariance[(index, index)] = prior.sd * prior.sd;
        }
        let logarithms = logarithms_of(&priors);
        let (scale, reach, hull) = (LEAST_SCALE, REACH, Hull::default());
        Fit { formula, priors, logarithms, covariance, scale, reach, rows: 0, hull }
    }

    /// The fit with other observations, from the parameters of this one. The priors stay.
    #[must_use]
    pub fn again(&self, observations: &[Observation]) -> Fit {
        let problem = Problem::new(self.formula, observations, &self.priors, self.scale, self.logarithms);
        let mut fit = finish(self.formula, observations, self.priors.clone(), problem.solve().0);
        fit.reach = self.reach;
        fit
    }

    /// The values of the parameters, in the order of [`formula::parameters`].
    pub fn values(&self) -> Vec<f64> {
        (0..self.priors.len()).map(|index| self.logarithms[index].exp()).collect()
    }

    /// Standard deviation of the logarithm of a parameter.
    pub fn deviation(&self, parameter: usize) -> f64 {
        self.covariance[(parameter, parameter)].max(0.0).sqrt()
    }

    /// Whether the rows say something of a parameter.
    pub fn is_identified(&self, parameter: usize) -> bool {
        !self.priors[parameter].is_given()
            && !says_little(self.deviation(parameter), self.priors[parameter].sd)
    }

    /// The time of a step in seconds and its 95 % interval; `None` if the formula does not describe the setting.
    pub fn predict(&self, setting: &Setting) -> Option<(f64, (f64, f64))> {
        let (step_s, interval_s, _) = self.answer(setting)?;
        Some((step_s, interval_s))
    }

    /// The prediction, and whether it is extrapolated.
    pub(crate) fn answer(&self, setting: &Setting) -> Option<(f64, (f64, f64), bool)> {
        formula::applies(self.formula, setting).ok()?;
        let (log, derivatives) = formula::log_step(self.formula, &self.logarithms, setting).total;
        let half = self.reach * self.deviation_at(setting, &derivatives);
        let is_extrapolated = !self.hull.contains(setting) || self.leans_on_priors(&derivatives);
        Some((log.exp(), ((log - half).exp(), (log + half).exp()), is_extrapolated))
    }

    /// Whether the setting lies outside of the rows, or its interval would be wide if not for what was assumed of a parameter.
    pub fn is_extrapolated(&self, setting: &Setting) -> bool {
        self.answer(setting).is_some_and(|(.., is_extrapolated)| is_extrapolated)
    }

    /// Whether the interval would end further than a factor of [`WIDE`] away if nothing had been assumed of a parameter that matters.
    /// Without its prior, which has the precision `1 / sd^2`, the variance of `d'x` grows by `(d'C)_j^2 / (sd^2 - C_jj)` (Sherman and
    /// Morrison, 1950).
    fn leans_on_priors(&self, derivatives: &Parameters) -> bool {
        let projected = self.covariance * derivatives;
        let variance = derivatives.dot(&projected).max(0.0);
        let without_prior = |parameter: usize| {
            let before = self.priors[parameter].sd.powi(2);
            let gained = (before - self.covariance[(parameter, parameter)]).max(1e-9 * before);
            variance + projected[parameter].powi(2) / gained
        };
        let matters =
            |parameter: &usize| (derivatives[*parameter] * self.deviation(*parameter)).abs() > LEAST_SCALE;
        let is_wide = |parameter: usize| NORMAL * without_prior(parameter).sqrt() > WIDE.ln();
        (0..self.priors.len()).filter(matters).any(is_wide)
    }

    /// Standard deviation of the logarithm of a measurement of a setting, at which the time has these derivatives.
    pub(crate) fn deviation_at(&self, setting: &Setting, derivatives: &Parameters) -> f64 {
        (self.variance(derivatives) + self.hull.variance(setting)).sqrt()
    }

    /// Variance of the logarithm of a measurement that has these derivatives.
    pub(crate) fn variance(&self, derivatives: &Parameters) -> f64 {
        // A plan depends on half of the parameters or fewer.
        let used = || (0..self.priors.len()).filter(|index| derivatives[*index] != 0.0);
        let of_row = |row: usize| -> f64 {
            used().map(|column| self.covariance[(column, row)] * derivatives[column]).sum()
        };
        let variance: f64 = used().map(|row| derivatives[row] * of_row(row)).sum();
        variance.max(0.0) + self.scale * self.scale
    }
}

/// Whether rows say little of a parameter that has this standard deviation after the fit, and had `prior_sd` before.
pub(crate) fn says_little(deviation: f64, prior_sd: f64) -> bool {
    deviation >= UNIDENTIFIED * prior_sd
}

fn logarithms_of(priors: &[Prior]) -> Parameters {
    let mut logarithms = Parameters::zeros();
    for (index, prior) in priors.iter().enumerate() {
        logarithms[index] = prior.mean.ln();
    }
    logarithms
}

/// Finds the scale of the residuals, solves again with it, and linearises there.
fn finish(formula: FormulaName, observations: &[Observation], priors: Vec<Prior>, start: Parameters) -> Fit {
    let mut logarithms = start;
    let mut scale = LEAST_SCALE;
    for _ in 0..2 {
        let found = scale_of(formula, observations, &logarithms);
        if (found / scale - 1.0).abs() < 0.05 {
            break;
        }
        scale = found;
        logarithms = Problem::new(formula, observations, &priors, scale, logarithms).solve().0;
    }
    let covariance = covariance(formula, observations, &priors, scale, &logarithms);
    let (rows, hull) = (observations.len(), Hull::of(observations));
    Fit { formula, priors, logarithms, covariance, scale, reach: REACH, rows, hull }
}

/// The scale of residuals: 1.48 times the median of their sizes, which is the standard deviation of normal ones.
fn scale_of(formula: FormulaName, observations: &[Observation], logarithms: &Parameters) -> f64 {
    let residual = |row: &Observation| {
        (formula::log_step(formula, logarithms, &row.setting).total.0 - row.step_s.ln()).abs()
    };
    let mut sizes: Vec<f64> = observations.iter().map(residual).collect();
    sizes.sort_by(f64::total_cmp);
    let median = sizes.get(sizes.len() / 2).copied().unwrap_or(0.0);
    (1.4826 * median).max(LEAST_SCALE)
}

/// The inverse of the Hessian of Gauss and Newton, with the weights of the residuals. Given parameters have none.
fn covariance(
    formula: FormulaName,
    observations: &[Observation],
    priors: &[Prior],
    scale: f64,
    logarithms: &Parameters,
) -> Covariance {
    let free: Vec<usize> = (0..priors.len()).filter(|index| !priors[*index].is_given()).collect();
    let mut information = DMatrix::zeros(free.len(), free.len());
    for observation in observations {
        let (log, derivatives) = formula::log_step(formula, logarithms, &observation.setting).total;
        let weight = weight(log - observation.step_s.ln(), scale);
        for (row, i) in free.iter().enumerate() {
            for (column, j) in free.iter().enumerate() {
                information[(row, column)] += weight * derivatives[*i] * derivatives[*j];
            }
        }
    }
    for (row, index) in free.iter().enumerate() {
        information[(row, row)] += priors[*index].sd.powi(-2);
    }
    let mut covariance = Covariance::zeros();
    if let Some(inverse) = information.cholesky().map(|cholesky| cholesky.inverse()) {
        for (row, i) in free.iter().enumerate() {
            for (column, j) in free.iter().enumerate() {
                covariance[(*i, *j)] = inverse[(row, column)];
            }
        }
    }
    covariance
}
