//! How much the speed of a machine changes from one run to the next, for all of its jobs alike.

use schema::units::Nanos;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The drift of a host: the standard deviation of the logarithm of a factor that all step times have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostDrift {
    pub sigma: f64,
    /// The degrees of freedom of the estimate `sigma`, whose square has a scaled chi-squared distribution.
    pub degrees_of_freedom: f64,
    /// The number of runs in the mean that predictions are made from.
    pub runs: u32,
    /// The difference between the slowest and the fastest run, on the log scale.
    pub range: f64,
}

impl HostDrift {
    /// The time after which the correlation of the drift has fallen to 1/e. It is assumed, because tables are minutes apart and do
    /// not determine it. The virtual machines of reports/record/20261122-epyc change their speed within some minutes.
    pub const MEMORY: Nanos = Nanos(120 * Nanos::SECOND.0);

    /// The drift that is assumed before any run: 3 %, as if it came from four runs.
    const ASSUMED: HostDrift = HostDrift { sigma: 0.03, degrees_of_freedom: 3.0, runs: 1, range: 0.0 };

    /// The drift of a machine on which runs differed by these factors, on the log scale. Predictions are made from the mean of
    /// `pooled` of the runs.
    pub fn of_runs(effects: &[f64], pooled: u32) -> HostDrift {
        let HostDrift { sigma, degrees_of_freedom, .. } = HostDrift::ASSUMED;
        let more = effects.len().saturating_sub(1) as f64;
        let mean = effects.iter().sum::<f64>() / effects.len().max(1) as f64;
        let squares: f64 = effects.iter().map(|effect| (effect - mean).powi(2)).sum();
        let known = degrees_of_freedom + more;
        let variance = (degrees_of_freedom * sigma * sigma + squares) / known;
        let end = |end: fn(f64, f64) -> f64| effects.iter().copied().reduce(end).unwrap_or(0.0);
        HostDrift {
            sigma: variance.sqrt(),
            degrees_of_freedom: known,
            runs: pooled.max(1),
            range: end(f64::max) - end(f64::min),
        }
    }

    /// The largest factor that is expected between the tables and an instant of a run, in 95 of 100 runs: the upper end of the
    /// interval, whose lower end is its inverse.
    pub fn expected(&self) -> f64 {
        let t = StudentsT::new(0.0, 1.0, self.degrees_of_freedom).expect("there are degrees of freedom");
        (t.inverse_cdf(0.975) * self.sigma * (1.0 + 1.0 / f64::from(self.runs)).sqrt()).exp()
    }
}

/// The factors by which runs differ, on the log scale, from the logarithms of what each measured as (run, quantity, value). Runs
/// are numbers from 0 on, and a quantity that only one run measured has no effect. The model has two additive effects, whose least
/// squares are found by backfitting (A. Buja, T. Hastie and R. Tibshirani, Annals of Statistics 17, 1989).
pub(crate) fn effects_of_runs(runs: usize, measured: &[(usize, usize, f64)]) -> Vec<f64> {
    let quantities = measured.iter().map(|(_, quantity, _)| quantity + 1).max().unwrap_or(0);
    let mut of_runs = vec![0.0; runs];
    for _ in 0..ROUNDS {
        let mut of_quantities = vec![Mean::default(); quantities];
        for (run, quantity, value) in measured {
            of_quantities[*quantity].add(value - of_runs[*run]);
        }
        let mut means = vec![Mean::default(); runs];
        for (run, quantity, value) in measured {
            means[*run].add(value - of_quantities[*quantity].value());
        }
        of_runs = means.iter().map(Mean::value).collect();
    }
    of_runs
}

/// The number of iterations, after which the effects of a few dozen runs have converged.
const ROUNDS: usize = 100;

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1.0;
    }

    fn value(&self) -> f64 {
        if self.count > 0.0 { self.sum / self.count } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_of_runs_are_found_though_each_measured_other_jobs() {
        // The quantities are 10, 20 and 30, and the runs add 0, 0.2 and -0.1. No quantity is in all runs.
        let measured = [(0, 0, 10.0), (0, 1, 20.0), (1, 1, 20.2), (1, 2, 30.2), (2, 2, 29.9), (2, 0, 9.9)];
        let found = effects_of_runs(3, &measured);
        let from_first: Vec<f64> = found.iter().map(|effect| effect - found[0]).collect();
        for (found, expected) in from_first.iter().zip([0.0, 0.2, -0.1]) {
            assert!((found - expected).abs() < 1e-9, "{from_first:?}");
        }
    }

    #[test]
    fn drift_is_what_was_assumed_until_runs_tell_more() {
        let none = HostDrift::of_runs(&[], 0);
        assert_eq!((none.sigma, none.degrees_of_freedom, none.runs), (0.03, 3.0, 1));
        let two = HostDrift::of_runs(&[0.1, -0.1], 2);
        // Three parts of 0.0009, and one of 0.02, of four.
        assert!((two.sigma - ((0.0027 + 0.02) / 4.0f64).sqrt()).abs() < 1e-12, "{two:?}");
        assert_eq!((two.degrees_of_freedom, two.runs), (4.0, 2));
        assert!((two.range - 0.2).abs() < 1e-12);
        // The quantile of three degrees of freedom is 3.182.
        assert!((none.expected() / (3.182_446 * 0.03 * 2f64.sqrt()).exp() - 1.0).abs() < 1e-6);
    }
}
