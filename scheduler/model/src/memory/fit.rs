//! Fits the formula for memory to measured peaks.

use formats::fitted::{FitErrors, MemoryFit};
use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::{DMatrix, DVector, Dyn, SMatrix, storage::Owned};

use super::{COUNT, MemoryModel, MemorySetting, Parameters, log_peak};
use crate::{
    held_out::{reach, summary},
    least_squares::{robust, weight},
    priors::Prior,
};

/// A measured peak.
type Row = (MemorySetting, u64);

/// The least scale of residuals: one configuration has the same peak in nearly every launch.
const LEAST_SCALE: f64 = 0.01;

/// The scale that a fit starts from.
const FIRST_SCALE: f64 = 0.03;

/// The least number of different configurations that a fit is made from.
const FEWEST: usize = 3;

/// Fits the memory of a workload, and predicts each configuration from the others. `None` if fewer than three configurations have a
/// peak. Peaks of 0 are left out.
pub fn fit(rows: &[Row], priors: Vec<Prior>) -> Option<MemoryFit> {
    let rows: Vec<Row> = rows.iter().filter(|(_, bytes)| *bytes > 0).copied().collect();
    let mut firsts: Vec<MemorySetting> = Vec::new();
    for (setting, _) in &rows {
        if !firsts.contains(setting) {
            firsts.push(*setting);
        }
    }
    if firsts.len() < FEWEST {
        return None;
    }
    let start = Parameters::from_fn(|index, _| priors[index].mean.ln());
    let mut model = solved(&rows, MemoryModel { scale: FIRST_SCALE, ..MemoryModel::at(priors, start) });
    for _ in 0..2 {
        model.scale = scale_of(&rows, &model);
        model = solved(&rows, model);
    }
    let left_out = leave_one_out(&rows, &firsts, &mut model);
    Some(MemoryFit { leave_one_out: left_out.into_iter().collect(), ..model.to_file() })
}

/// The errors on each configuration of a fit to the others. Sets the reach of the intervals by them.
fn leave_one_out(rows: &[Row], firsts: &[MemorySetting], model: &mut MemoryModel) -> Option<FitErrors> {
    if firsts.len() <= FEWEST {
        return None;
    }
    // Sizes of errors, in percent and over their standard deviations.
    let (mut percents, mut ratios) = (Vec::new(), Vec::new());
    for first in firsts {
        let (own, others): (Vec<Row>, Vec<Row>) = rows.iter().partition(|(setting, _)| setting == first);
        let again = solved(&others, model.clone());
        for (setting, bytes) in own {
            let (log, derivatives) = log_peak(&again.logarithms, &setting);
            let error = log - (bytes as f64).ln();
            percents.push(100.0 * error.exp_m1().abs());
            ratios.push(error.abs() / again.variance(&derivatives).sqrt());
        }
    }
    model.reach = reach(ratios);
    Some(summary("all", percents, None))
}

/// The parameters of the maximum of the posterior, starting from those of `model`, with its scale.
fn solved(rows: &[Row], model: MemoryModel) -> MemoryModel {
    let mut problem = Problem { rows, model, terms: Vec::new() };
    problem.evaluate();
    let (problem, _) = LevenbergMarquardt::new().with_patience(20).minimize(problem);
    let Problem { terms, mut model, .. } = problem;
    let mut information = SMatrix::<f64, COUNT, COUNT>::zeros();
    for (residual, derivatives) in &terms {
        information += derivatives * derivatives.transpose() * weight(*residual, model.scale);
    }
    for (index, prior) in model.priors.iter().enumerate() {
        information[(index, index)] += prior.sd.powi(-2);
    }
    model.covariance = information.cholesky().map_or_else(SMatrix::zeros, |cholesky| cholesky.inverse());
    model.rows = rows.len();
    model
}

/// 1.48 times the median size of the residuals.
fn scale_of(rows: &[Row], model: &MemoryModel) -> f64 {
    let residual =
        |(setting, bytes): &Row| (log_peak(&model.logarithms, setting).0 - (*bytes as f64).ln()).abs();
    let mut sizes: Vec<f64> = rows.iter().map(residual).collect();
    sizes.sort_by(f64::total_cmp);
    (1.4826 * sizes[sizes.len() / 2]).max(LEAST_SCALE)
}

struct Problem<'a> {
    rows: &'a [Row],
    model: MemoryModel,
    /// Residuals of logarithms, with their derivatives.
    terms: Vec<(f64, Parameters)>,
}

impl Problem<'_> {
    fn evaluate(&mut self) {
        let term = |(setting, bytes): &Row| {
            let (log, derivatives) = log_peak(&self.model.logarithms, setting);
            (log - (*bytes as f64).ln(), derivatives)
        };
        self.terms = self.rows.iter().map(term).collect();
    }
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Problem<'_> {
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;
    type ParameterStorage = Owned<f64, Dyn>;

    fn set_params(&mut self, values: &DVector<f64>) {
        // Beyond this, the exponential overflows.
        self.model.logarithms = Parameters::from_fn(|index, _| values[index].clamp(-60.0, 60.0));
        self.evaluate();
    }

    fn params(&self) -> DVector<f64> {
        DVector::from_column_slice(self.model.logarithms.as_slice())
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        let of_rows = self.terms.iter().map(|(residual, _)| robust(*residual, self.model.scale).0);
        let of_priors = self.model.priors.iter().enumerate();
        let of_priors =
            of_priors.map(|(index, prior)| (self.model.logarithms[index] - prior.mean.ln()) / prior.sd);
        let all: Vec<f64> = of_rows.chain(of_priors).collect();
        all.iter().all(|residual| residual.is_finite()).then(|| DVector::from_vec(all))
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let rows = self.terms.len();
        let mut jacobian = DMatrix::zeros(rows + COUNT, COUNT);
        for (row, (residual, derivatives)) in self.terms.iter().enumerate() {
            let (_, slope) = robust(*residual, self.model.scale);
            for column in 0..COUNT {
                jacobian[(row, column)] = slope * derivatives[column];
            }
        }
        for (index, prior) in self.model.priors.iter().enumerate() {
            jacobian[(rows + index, index)] = 1.0 / prior.sd;
        }
        Some(jacobian)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{peak, priors};
    use record::facts::Facts;
    use schema::plan::Plan;

    const PLANS: [&str; 26] = [
        "dp1",
        "ga2",
        "ga4",
        "gc",
        "ga2-gc",
        "bf16",
        "gc-bf16",
        "dp2",
        "dp2-ga2",
        "dp2-gc",
        "dp2-zero1",
        "dp2-zero1-ga2",
        "dp2-zero2",
        "dp2-zero2-ga2",
        "dp4-zero3",
        "dp2-zero3-gc",
        "tp2",
        "tp4-ga2",
        "tp2-gc",
        "pp2",
        "pp2-ga2",
        "pp4-ga4",
        "pp2-gc",
        "tp2-pp2-ga4-bf16",
        "dp4-zero2-bf16",
        "dp4-zero3-bf16",
    ];

    fn rows(values: &[f64; COUNT]) -> Vec<Row> {
        let settings = PLANS.iter().flat_map(|spelling| {
            let plan: Plan = spelling.parse().expect("canonical");
            [8, 32, 64].map(|global_batch| {
                let states_bytes =
                    12_000_000 / u64::from(plan.tp * plan.pp * if plan.zero > 0 { plan.dp } else { 1 });
                MemorySetting { parameters: 1_000_000, states_bytes, global_batch, plan }
            })
        });
        settings.map(|setting| (setting, peak(values, &setting).round() as u64)).collect()
    }

    #[test]
    fn planted_coefficients_are_recovered_where_the_rows_say_something_of_them() {
        let planted = [9e5, 0.4, 0.6, 0.8, 0.5, 0.3, 0.3, 1.5, 0.5, 0.15, 0.3, 0.2, 0.7];
        let rows = rows(&planted);
        let facts = Facts { layers: Some(4), ..Facts::default() };
        let found = fit(&rows, priors(3e5, 3.0, facts)).expect("there are rows");
        for (parameter, planted) in found.parameters.iter().zip(planted) {
            let error = (parameter.value / planted - 1.0).abs();
            assert!(error < 0.02, "{}: {} for {planted}", parameter.name, parameter.value);
        }
        let errors = &found.leave_one_out[0];
        assert!(errors.mean_percent < 0.5 && errors.covered_percent.is_none(), "{errors:?}");
        let model = MemoryModel::of_file(&found).expect("of this version");
        for (setting, bytes) in &rows {
            let (predicted, (lo, hi)) = model.predict(setting);
            assert!(
                (predicted / *bytes as f64 - 1.0).abs() < 0.01,
                "{}: {predicted} for {bytes}",
                setting.plan
            );
            assert!(lo < predicted && predicted < hi);
        }
        assert_eq!(fit(&rows[..2], priors(3e5, 3.0, facts)), None);
    }

    #[test]
    fn a_peak_grows_with_the_batch_and_never_falls_below_the_states() {
        let model = MemoryModel::assumed(priors(9e5, 0.5, Facts::default()));
        for spelling in PLANS {
            let plan: Plan = spelling.parse().expect("canonical");
            let at = |global_batch| {
                let setting =
                    MemorySetting { parameters: 1_000_000, states_bytes: 5_000_000, global_batch, plan };
                model.predict(&setting).0
            };
            assert!(at(8) <= at(16) && at(16) < at(512), "{spelling}");
            assert!(at(8) > 5e6, "{spelling}");
        }
    }
}
