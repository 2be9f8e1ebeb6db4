//! Differences between runs that measure the same.
//!
//! The causes of differences between runs (the placement of pages in memory, the temperature, neighbours at
//! the time) shift all measurements of a run together, so that many numbers of two runs say hardly more
//! about a third run than one number would. The unit is therefore the run. Two of them leave one degree of
//! freedom, whose t quantile is 12.7, so that the interval is wide.

use crate::{
    interval::{Interval, mean, standard_deviation, t_quantile},
    launches::logarithms,
};

/// One quantity that every run measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// One estimate per run.
    pub estimates: Vec<f64>,
    /// Standard deviation of each estimate on the log scale, derived from the run's own interval; absent
    /// without one.
    pub deviations: Vec<Option<f64>>,
}

/// The differences between runs, over everything that they measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeatability {
    /// Ratio of each later run to the first: the geometric mean over all quantities. The interval is that
    /// of the ratio of two such runs.
    pub ratios: Vec<Interval>,
    /// For each later run, the number of estimates above those of the first.
    pub higher: Vec<usize>,
    /// Standard deviation of single estimates between runs, in percent, including shifts of whole runs.
    pub scatter_percent: f64,
    /// The standard deviation that the intervals within the runs predict; absent if no estimate has one.
    pub promised_percent: Option<f64>,
}

/// `None` for fewer than two runs, for no quantities, and for an estimate that is not a positive number.
pub fn between_runs(measured: &[Measured]) -> Option<Repeatability> {
    let logs: Vec<Vec<f64>> =
        measured.iter().map(|one| logarithms(one.estimates.iter().copied())).collect::<Option<_>>()?;
    let runs = logs.first()?.len();
    let of_run = |run: usize| mean(&logs.iter().map(|of| of[run]).collect::<Vec<_>>());
    let means: Vec<f64> = (0..runs).map(of_run).collect();
    let half_width = t_quantile(runs.checked_sub(1)?.max(1)) * 2f64.sqrt() * standard_deviation(&means)?;
    let ratio = |run: usize| {
        let log = means[run] - means[0];
        let [estimate, lo, hi] = [log, log - half_width, log + half_width].map(f64::exp);
        Interval { estimate, lo, hi, n: runs }
    };
    let higher = |run: usize| logs.iter().filter(|of| of[run] > of[0]).count();
    let between: Vec<f64> = logs.iter().filter_map(|of| standard_deviation(of)).collect();
    let within: Vec<f64> = measured.iter().flat_map(|one| one.deviations.iter().copied().flatten()).collect();
    Some(Repeatability {
        ratios: (1..runs).map(ratio).collect(),
        higher: (1..runs).map(higher).collect(),
        scatter_percent: 100.0 * root_mean_square(&between)?,
        promised_percent: root_mean_square(&within).map(|deviation| 100.0 * deviation),
    })
}

fn root_mean_square(values: &[f64]) -> Option<f64> {
    let squares: Vec<f64> = values.iter().map(|value| value * value).collect();
    (!squares.is_empty()).then(|| mean(&squares).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(actual: f64, expected: f64) {
        assert!((actual / expected - 1.0).abs() < 1e-6, "{actual} is not {expected}");
    }

    fn measured(estimates: &[f64], deviation: Option<f64>) -> Measured {
        Measured { estimates: estimates.to_vec(), deviations: vec![deviation; estimates.len()] }
    }

    /// Run means 0 and ln 1.1: their standard deviation is ln 1.1 / sqrt(2), and that of a difference of two is ln 1.1.
    #[test]
    fn two_runs_have_one_degree_of_freedom_however_much_they_measured() {
        for count in [1, 42] {
            let found = between_runs(&vec![measured(&[2.0, 2.2], Some(0.01)); count]).expect("two runs");
            let [ratio] = found.ratios[..] else { panic!("{found:?}") };
            let half_width = (0.475 * std::f64::consts::PI).tan() * 1.1f64.ln();
            assert_close(ratio.estimate, 1.1);
            assert_close(ratio.lo, 1.1 * (-half_width).exp());
            assert_close(ratio.hi, 1.1 * half_width.exp());
            assert_eq!((ratio.n, found.higher), (2, vec![count]));
            assert_close(found.scatter_percent, 100.0 * 1.1f64.ln() / 2f64.sqrt());
            assert_close(found.promised_percent.expect("they have intervals"), 1.0);
        }
    }

    /// Changes in both directions shift no run, but are scatter.
    #[test]
    fn scatter_is_that_of_single_estimates() {
        let up_and_down = [measured(&[1.0, 1.2, 1.0], None), measured(&[1.2, 1.0, 1.2], None)];
        let found = between_runs(&up_and_down).expect("three runs");
        for ratio in &found.ratios {
            assert!((ratio.estimate - 1.0).abs() < 1e-9 && ratio.hi - ratio.lo < 1e-9, "{ratio:?}");
        }
        assert_eq!((found.higher, found.promised_percent), (vec![1, 0], None));
        // Of 0, x and 0: the mean is x / 3, and the squares add up to 2 x^2 / 3.
        assert_close(found.scatter_percent, 100.0 * 1.2f64.ln() / 3f64.sqrt());
    }

    #[test]
    fn what_cannot_be_compared_is_nothing() {
        for none in [
            vec![],
            vec![measured(&[1.0], None)],
            vec![measured(&[], None)],
            vec![measured(&[1.0, 0.0], None)],
        ] {
            assert_eq!(between_runs(&none), None, "{none:?}");
        }
    }
}
