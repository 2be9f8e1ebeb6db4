//! Where a quantity that several runs measured changes its level.
//!
//! `pelt` proposes the changes, and a t test over runs confirms each of them. A proposal is the best of all runs at which a change
//! could be, so its p-value is multiplied by the number of runs where a level of [`LEAST_RUNS`] could have begun (Bonferroni). The unit
//! is the run, as in [`runs`](crate::runs): intervals within a run do not see what shifts the whole run. In simulations of runs that do
//! not change, 2 to 5 in a hundred series have a change (`tests/it/levels.rs`). Runs of a machine whose speed wanders are no such
//! series: a wandering level is a level that changes.

use statrs::distribution::ContinuousCDF;

use crate::{
    interval::{Interval, mean, student_t, t_quantile},
    launches::logarithms,
    pelt, power,
};

/// A level has at least this number of runs. One run alone may be a bad moment of its machine.
pub const LEAST_RUNS: usize = 2;

/// Fewer runs are not judged.
pub const MIN_RUNS: usize = 2 * LEAST_RUNS;

/// The probability of showing any change in a series without one.
const SIGNIFICANCE: f64 = 0.05;

/// The penalty of a change, in units of the variance times ln n.
const STRICTNESS: f64 = 3.0;

/// Runs are taken to vary by at least 0.01 %, so that rounding is no change.
const MIN_VARIANCE: f64 = 1e-8;

/// A change from one level to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The position of the first run on the new level.
    pub first: usize,
    /// The new level over the old one. The interval is not corrected for the search.
    pub ratio: Interval,
    /// Corrected for the number of runs at which a change could be.
    pub p: f64,
}

/// Runs that follow each other and do not change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The position of the first run.
    pub first: usize,
    pub runs: usize,
    /// The geometric mean of the runs.
    pub mean: f64,
}

/// The levels of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Levels {
    /// At least one.
    pub levels: Vec<Level>,
    /// One between each level and the next.
    pub changes: Vec<Change>,
    /// Standard deviation of runs around their level, on the log scale.
    pub deviation: f64,
    /// The smallest ratio of the second half of the runs to the first that is shown with a probability of
    /// [`POWER`](power::POWER), if runs vary by `deviation`.
    pub detectable_ratio: f64,
}

/// The changes of level that hold at `tests` times the strictness, for a family of this number of series.
///
/// `None` for fewer than [`MIN_RUNS`] runs, and for an estimate that is not a positive number.
pub fn of_runs(estimates: &[f64], tests: usize) -> Option<Levels> {
    let logs = logarithms(estimates.iter().copied()).filter(|logs| logs.len() >= MIN_RUNS)?;
    let penalty = STRICTNESS * variance_of_neighbours(&logs) * (logs.len() as f64).ln();
    let mut starts = pelt::segment(&logs, LEAST_RUNS, penalty);
    loop {
        let fit = Fit::new(&logs, &starts, tests);
        let changes: Vec<Change> = (1..starts.len()).map(|nth| fit.change(nth)).collect();
        let weakest = changes.iter().max_by(|one, other| one.p.total_cmp(&other.p));
        match weakest.filter(|change| change.p >= SIGNIFICANCE).map(|change| change.first) {
            Some(first) => starts.retain(|start| *start != first),
            None => {
                return Some(Levels {
                    levels: (0..starts.len()).map(|nth| fit.level(nth)).collect(),
                    changes,
                    deviation: fit.deviation,
                    detectable_ratio: fit.detectable_ratio(),
                });
            }
        }
    }
}

/// Half of the mean square of the differences of neighbours, in which a single change of level hardly counts.
fn variance_of_neighbours(logs: &[f64]) -> f64 {
    let squares: Vec<f64> = logs.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).collect();
    (mean(&squares) / 2.0).max(MIN_VARIANCE)
}

/// Levels that begin at these runs.
struct Fit<'a> {
    logs: &'a [f64],
    starts: &'a [usize],
    deviation: f64,
    degrees_of_freedom: usize,
    /// The number of tests that the best p-value is chosen from.
    tests: f64,
}

impl<'a> Fit<'a> {
    fn new(logs: &'a [f64], starts: &'a [usize], tests: usize) -> Fit<'a> {
        let degrees_of_freedom = logs.len() - starts.len();
        let possible_starts = logs.len() + 1 - MIN_RUNS;
        let tests = (possible_starts * tests.max(1)) as f64;
        let mut fit = Fit { logs, starts, deviation: 0.0, degrees_of_freedom, tests };
        let squares = |level: &[f64]| {
            let centre = mean(level);
            level.iter().map(|log| (log - centre).powi(2)).sum::<f64>()
        };
        let unexplained: f64 = (0..starts.len()).map(|nth| squares(fit.logs_of(nth))).sum();
        fit.deviation = (unexplained / degrees_of_freedom as f64).max(MIN_VARIANCE).sqrt();
        fit
    }

    fn logs_of(&self, nth: usize) -> &'a [f64] {
        let end = self.starts.get(nth + 1).copied().unwrap_or(self.logs.len());
        &self.logs[self.starts[nth]..end]
    }

    fn level(&self, nth: usize) -> Level {
        let logs = self.logs_of(nth);
        Level { first: self.starts[nth], runs: logs.len(), mean: mean(logs).exp() }
    }

    fn change(&self, nth: usize) -> Change {
        let (old, new) = (self.logs_of(nth - 1), self.logs_of(nth));
        let difference = mean(new) - mean(old);
        let error = self.error(old.len(), new.len());
        let half_width = t_quantile(self.degrees_of_freedom) * error;
        let [estimate, lo, hi] = [difference, difference - half_width, difference + half_width].map(f64::exp);
        let p = 2.0 * student_t(self.degrees_of_freedom as f64).sf((difference / error).abs());
        Change {
            first: self.starts[nth],
            ratio: Interval { estimate, lo, hi, n: old.len() + new.len() },
            p: (self.tests * p).min(1.0),
        }
    }

    /// The standard error of the difference of the means of two levels.
    fn error(&self, old: usize, new: usize) -> f64 {
        self.deviation * (1.0 / old as f64 + 1.0 / new as f64).sqrt()
    }

    /// PELT proposes a change if its square, in standard errors, exceeds the penalty. From about 60 runs on this is stricter than the
    /// test of a single series.
    fn detectable_ratio(&self) -> f64 {
        let (runs, half) = (self.logs.len(), self.logs.len() / 2);
        let degrees_of_freedom = (runs - 2) as f64;
        let confirmed = student_t(degrees_of_freedom).inverse_cdf(1.0 - SIGNIFICANCE / self.tests / 2.0);
        let proposed = (STRICTNESS * (runs as f64).ln()).sqrt();
        let error = self.error(half, runs - half);
        power::detectable_difference(error, degrees_of_freedom, confirmed.max(proposed)).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(actual: f64, expected: f64) {
        assert!((actual / expected - 1.0).abs() < 1e-6, "{actual} is not {expected}");
    }

    /// Logarithms -d and d around 0 in four runs and around 0.2 in four: the variance is 8 d^2 / 6, and t of 6 degrees of freedom
    /// is 2.446911851.
    #[test]
    fn a_step_has_the_t_interval_over_runs() {
        let d = 0.01;
        let logs = [-d, d, d, -d, 0.2 - d, 0.2 + d, 0.2 + d, 0.2 - d];
        let levels = of_runs(&logs.map(f64::exp), 1).expect("eight runs");
        let [change] = &levels.changes[..] else { panic!("one change: {levels:?}") };
        let half_width = 2.446_911_851 * d * (8.0_f64 / 6.0).sqrt() * 0.5_f64.sqrt();
        assert_eq!(change.first, 4);
        assert_close(change.ratio.estimate.ln(), 0.2);
        assert_close(change.ratio.lo.ln(), 0.2 - half_width);
        assert_close(change.ratio.hi.ln(), 0.2 + half_width);
        assert_close(levels.deviation, d * (8.0_f64 / 6.0).sqrt());
        let [old, new] = &levels.levels[..] else { panic!("two levels: {levels:?}") };
        assert_eq!((old.first, old.runs, new.first, new.runs), (0, 4, 4, 4));
        assert_close(old.mean, 1.0);
        assert_close(new.mean, 0.2_f64.exp());
    }

    #[test]
    fn two_steps_are_two_changes_and_a_single_slow_run_is_none() {
        let noise = [0.001, -0.001, 0.0005, -0.0005];
        let series = |levels: [f64; 3]| -> Vec<f64> {
            levels.iter().flat_map(|level| noise.map(|noise| (level + noise).exp())).collect()
        };
        let changes = |levels: &Levels| levels.changes.iter().map(|of| of.first).collect::<Vec<_>>();
        assert_eq!(changes(&of_runs(&series([0.0, 0.3, 0.1]), 1).expect("twelve")), [4, 8]);
        let mut slow = series([0.0; 3]);
        slow[6] *= 1.2;
        assert_eq!(changes(&of_runs(&slow, 1).expect("twelve")), Vec::<usize>::new());
    }

    #[test]
    fn more_series_make_each_change_harder_to_show() {
        let logs = [0.0, 0.01, 0.005, 0.02, 0.035, 0.03];
        let with = |tests| of_runs(&logs.map(f64::exp), tests).expect("six runs");
        assert!(with(100).changes.is_empty() && with(1).detectable_ratio < with(100).detectable_ratio);
    }

    #[test]
    fn equal_runs_have_one_level_and_too_few_have_none() {
        let equal = of_runs(&[7.0; 5], 1).expect("five runs");
        assert_eq!((equal.changes.len(), equal.deviation), (0, 1e-4));
        for none in [&[1.0, 1.0, 1.0][..], &[], &[1.0, 1.0, 1.0, 0.0]] {
            assert_eq!(of_runs(none, 1), None);
        }
    }
}
