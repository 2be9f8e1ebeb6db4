//! Fits loss curves to the losses that a job reported.
//!
//! The curve is that of Optimus ([`LossCurve`]), `1 / (b0 k + b1) + b2` after `k` steps. Its parameters are squares, so that none is
//! negative. They start from a linear regression: without `b2`, the inverse of the loss is linear in `k`. The sum of squares has
//! several minima, so that some values of `b2` are tried; the best fit is taken.

use formats::loss_curve::LossCurve;
use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::{Dyn, Matrix3xX, OMatrix, OVector, U3, Vector3, storage::Owned};

/// A report: the mean loss of the steps after the first `before` ones, up to `until`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReportedLoss {
    pub before: u64,
    pub until: u64,
    pub loss: f64,
}

/// A curve and how far it is from the reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossFit {
    pub curve: LossCurve,
    /// The root of the mean square of the differences, with the weight of their steps.
    pub rms_error: f64,
}

/// The fewest reports that determine a curve.
pub const FEWEST_REPORTS: usize = 4;

/// The mean of a report of more steps is that of this many, at equal distances.
const MOST_POINTS: u64 = 32;

/// The shares of the lowest loss from which `b2` starts.
const STARTS: [f64; 5] = [0.0, 0.5, 0.8, 0.95, 0.999];

/// Fits a curve by least squares. `None` if there are fewer than [`FEWEST_REPORTS`], or if one of them has a loss of 0 or less, which no
/// such curve has.
pub fn fit(reports: &[ReportedLoss]) -> Option<LossFit> {
    let is_valid = |report: &&ReportedLoss| report.until > report.before && report.loss.is_finite();
    let reports: Vec<ReportedLoss> = reports.iter().filter(is_valid).copied().collect();
    if reports.len() < FEWEST_REPORTS || reports.iter().any(|report| report.loss <= 0.0) {
        return None;
    }
    let lowest = reports.iter().map(|report| report.loss).fold(f64::INFINITY, f64::min);
    let highest = reports.iter().map(|report| report.loss).fold(0.0, f64::max);
    let last = reports.iter().map(|report| report.until).max()? as f64;
    let fits = STARTS.iter().filter_map(|share| {
        let problem = Problem::new(&reports, last, highest, start(&reports, last, highest, share * lowest));
        let (solved, report) = LevenbergMarquardt::new().minimize(problem);
        let [b0, b1, b2] = solved.roots.map(|root| root * root).into();
        let [b0, b1, b2] = [b0 / last / highest, b1 / highest, b2 * highest].map(rounded);
        let curve = LossCurve::new(b0, b1, b2).ok()?;
        let rms_error = (2.0 * report.objective_function / solved.steps).sqrt() * highest;
        rms_error.is_finite().then_some(LossFit { curve, rms_error })
    });
    fits.min_by(|one, other| one.rms_error.total_cmp(&other.rms_error))
}

/// The number with the digits that a fit may have, and 0 for one that does not matter.
fn rounded(number: f64) -> f64 {
    if number < 1e-12 { 0.0 } else { format!("{number:.5e}").parse().unwrap_or(number) }
}

/// The roots of the parameters of the line through the inverses of losses above `b2`, in units of the last step and the highest loss.
fn start(reports: &[ReportedLoss], last: f64, highest: f64, b2: f64) -> Vector3<f64> {
    let points = reports.iter().map(|report| {
        let step = (report.before + report.until + 1) as f64 / 2.0 / last;
        // The loss that is the lowest may be no more than `b2`.
        (step, highest / (report.loss - b2).max(1e-3 * report.loss))
    });
    let number = reports.len() as f64;
    let (steps, inverses) =
        points.clone().fold((0.0, 0.0), |(x, y), (step, inverse)| (x + step, y + inverse));
    let (step, inverse) = (steps / number, inverses / number);
    let (above, below) = points.fold((0.0, 0.0), |(above, below), (x, y)| {
        (above + (x - step) * (y - inverse), below + (x - step) * (x - step))
    });
    let b0 = (above / below).max(1e-3);
    Vector3::new(b0, (inverse - b0 * step).max(1e-3), (b2 / highest).max(1e-6)).map(f64::sqrt)
}

/// Residuals of means, each with the root of the number of its steps as its weight.
struct Problem<'a> {
    reports: &'a [ReportedLoss],
    last: f64,
    highest: f64,
    /// The number of steps of all reports.
    steps: f64,
    roots: Vector3<f64>,
}

impl<'a> Problem<'a> {
    fn new(reports: &'a [ReportedLoss], last: f64, highest: f64, roots: Vector3<f64>) -> Problem<'a> {
        let steps = reports.iter().map(|report| (report.until - report.before) as f64).sum();
        Problem { reports, last, highest, steps, roots }
    }

    /// The mean of a report by the curve, without `b2`, and its derivatives by `b0` and `b1`.
    fn mean(&self, report: &ReportedLoss) -> [f64; 3] {
        let all = report.until - report.before;
        let points = all.min(MOST_POINTS);
        let [b0, b1, _]: [f64; 3] = self.roots.map(|root| root * root).into();
        let mut sums = [0.0; 3];
        for point in 0..points {
            // The middle of each part of the steps from `before + 1` on: the step itself if each has its own.
            let within = (point as f64 + 0.5) * all as f64 / points as f64 + 0.5;
            let step = (report.before as f64 + within) / self.last;
            let inverse = 1.0 / (b0 * step + b1);
            let slope = -inverse * inverse;
            sums = [sums[0] + inverse, sums[1] + slope * step, sums[2] + slope];
        }
        sums.map(|sum| sum / points as f64)
    }

    fn weight(report: &ReportedLoss) -> f64 {
        ((report.until - report.before) as f64).sqrt()
    }
}

impl LeastSquaresProblem<f64, Dyn, U3> for Problem<'_> {
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, U3>;
    type ParameterStorage = Owned<f64, U3>;

    fn set_params(&mut self, roots: &Vector3<f64>) {
        self.roots = *roots;
    }

    fn params(&self) -> Vector3<f64> {
        self.roots
    }

    fn residuals(&self) -> Option<OVector<f64, Dyn>> {
        let b2 = self.roots[2] * self.roots[2];
        let residual = |report: &ReportedLoss| {
            (self.mean(report)[0] + b2 - report.loss / self.highest) * Problem::weight(report)
        };
        let residuals: Vec<f64> = self.reports.iter().map(residual).collect();
        residuals
            .iter()
            .all(|residual| residual.is_finite())
            .then(|| OVector::<f64, Dyn>::from_vec(residuals))
    }

    fn jacobian(&self) -> Option<OMatrix<f64, Dyn, U3>> {
        let row = |report: &ReportedLoss| {
            let [_, by_b0, by_b1] = self.mean(report);
            // A parameter is the square of its root.
            Vector3::new(by_b0, by_b1, 1.0).component_mul(&(2.0 * self.roots)) * Problem::weight(report)
        };
        let columns: Vec<Vector3<f64>> = self.reports.iter().map(row).collect();
        Some(Matrix3xX::from_columns(&columns).transpose())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(curve: LossCurve, every: u64, number: u64, noise: f64) -> Vec<ReportedLoss> {
        let mut random = fastrand::Rng::with_seed(7);
        let report = |index| {
            let (before, until) = (index * every, (index + 1) * every);
            let mean = curve.mean(before, until).expect("there are steps");
            ReportedLoss { before, until, loss: mean * (1.0 + noise * (2.0 * random.f64() - 1.0)) }
        };
        (0..number).map(report).collect()
    }

    #[test]
    fn planted_curves_are_found() {
        for (text, every) in
            [("0.01/0.5/0.2", 10), ("1/1/0", 1), ("0.0003/0.14/1.5", 500), ("0.02/0.4/0", 25)]
        {
            let curve: LossCurve = text.parse().unwrap();
            let found = fit(&reports(curve, every, 40, 0.0)).unwrap();
            for step in [1, 10 * every, 20 * every, 40 * every, 80 * every] {
                let ratio = found.curve.at(step) / curve.at(step);
                assert!((ratio - 1.0).abs() < 2e-3, "{text}: {} at {step}: {ratio}", found.curve);
            }
            assert!(found.rms_error < 1e-3 * curve.at(1), "{text}: {found:?}");
            // Noise of up to 5 % changes no part of the curve by more.
            let found = fit(&reports(curve, every, 40, 0.05)).unwrap();
            for step in [10 * every, 20 * every, 40 * every] {
                let ratio = found.curve.at(step) / curve.at(step);
                assert!((ratio - 1.0).abs() < 0.05, "{text} with noise: {} at {step}: {ratio}", found.curve);
            }
        }
    }

    #[test]
    fn losses_that_do_not_fall_have_a_flat_curve_and_few_have_none() {
        let report =
            |(index, loss): (u64, f64)| ReportedLoss { before: 10 * index, until: 10 * index + 10, loss };
        let rising: Vec<ReportedLoss> =
            (0..6).map(|index| report((index, 1.0 + 0.1 * index as f64))).collect();
        let found = fit(&rising).unwrap();
        assert!(
            (found.curve.at(1) - 1.25).abs() < 0.02 && (found.curve.at(60) - 1.25).abs() < 0.02,
            "{found:?}"
        );
        assert_eq!(fit(&rising[..3]), None);
        let negative = [(0, 1.0), (1, 0.5), (2, -0.1), (3, -0.5)].map(report);
        assert_eq!(fit(&negative), None);
    }
}
