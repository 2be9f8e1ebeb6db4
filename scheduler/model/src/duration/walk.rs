//! The errors of an estimator on a history: each job is estimated when it arrives, from the jobs that had ended by then.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{Arrival, Durations};

/// A job of a history.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PastArrival<'a> {
    pub job: Arrival<'a>,
    /// Seconds since 1970, if the time is known. A job without it is taken to have ended when the next one arrives.
    pub submit_s: Option<u64>,
    pub duration_s: f64,
}

/// The shares of the estimates at which quantiles of their errors are reported.
pub const SHARES: [f64; 4] = [0.25, 0.5, 0.75, 0.9];

/// The errors of estimates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WalkErrors {
    /// The number of estimates.
    pub jobs: u32,
    /// Quantiles of the absolute errors, in seconds, at [`SHARES`].
    pub absolute_s: [f64; SHARES.len()],
    pub mean_absolute_s: f64,
    /// The factors by which these shares of the estimates are off at most, above or below; durations below a second count as one.
    pub factors: [f64; SHARES.len()],
    /// Spearman's rank correlation of estimates and durations; 0 if either does not vary.
    pub rank_correlation: f64,
}

/// Walks through a history in order of arrival. Errors are those of the jobs from the place `from` on. `None` if none of these is
/// estimated.
pub fn walk(history: &[PastArrival<'_>], from: usize, estimator: &mut dyn Durations) -> Option<WalkErrors> {
    let mut running: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut found: Vec<(f64, f64)> = Vec::new();
    for (place, past) in history.iter().enumerate() {
        let now = past.submit_s.unwrap_or(u64::MAX);
        while let Some(Reverse((_, ended))) = running.peek().copied().filter(|Reverse((end, _))| *end <= now)
        {
            running.pop();
            estimator.learn(&history[ended].job, history[ended].duration_s);
        }
        if place >= from
            && let Some(estimate_s) = estimator.estimate(&past.job)
        {
            found.push((estimate_s, past.duration_s));
        }
        let end = past.submit_s.map_or(0, |submit_s| submit_s + past.duration_s.ceil() as u64);
        running.push(Reverse((end, place)));
    }
    errors(&found)
}

fn errors(found: &[(f64, f64)]) -> Option<WalkErrors> {
    let absolute: Vec<f64> =
        found.iter().map(|(estimate_s, duration_s)| (estimate_s - duration_s).abs()).collect();
    let log = |seconds: f64| seconds.max(1.0).ln();
    let factors: Vec<f64> =
        found.iter().map(|(estimate_s, duration_s)| (log(*estimate_s) - log(*duration_s)).abs()).collect();
    let (estimates, durations): (Vec<f64>, Vec<f64>) = found.iter().copied().unzip();
    Some(WalkErrors {
        jobs: found.len() as u32,
        absolute_s: quantiles(&absolute)?,
        mean_absolute_s: absolute.iter().sum::<f64>() / found.len() as f64,
        factors: quantiles(&factors)?.map(f64::exp),
        rank_correlation: correlation(&ranks(&estimates), &ranks(&durations)),
    })
}

/// The quantiles at [`SHARES`], between the two nearest values by their distance: the median of an even number of values is the mean of the two
/// in the middle. `None` of no values.
pub(super) fn quantiles(values: &[f64]) -> Option<[f64; SHARES.len()]> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some(SHARES.map(|share| {
        let at = share * last as f64;
        let lower = sorted[at.floor() as usize];
        lower + at.fract() * (sorted[at.ceil() as usize] - lower)
    }))
}

/// The rank of each value; equal values have the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for equal in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let rank = first as f64 + (equal.len() - 1) as f64 / 2.0;
        equal.iter().for_each(|place| ranks[*place] = rank);
        first += equal.len();
    }
    ranks
}

/// Pearson's correlation; 0 if either does not vary.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let (mut products, mut squares_a, mut squares_b) = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        products += (a - mean_a) * (b - mean_b);
        squares_a += (a - mean_a).powi(2);
        squares_b += (b - mean_b).powi(2);
    }
    let scale = (squares_a * squares_b).sqrt();
    if scale > 0.0 { products / scale } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::duration::Last;

    fn history(jobs: &[(Option<u64>, f64)]) -> Vec<PastArrival<'static>> {
        let job = Arrival {
            name: "",
            user: "",
            virtual_cluster: "",
            workload: "",
            plan: None,
            devices: 1,
            time: None,
        };
        jobs.iter().map(|&(submit_s, duration_s)| PastArrival { job, submit_s, duration_s }).collect()
    }

    #[test]
    fn only_jobs_that_have_ended_are_known() {
        // At 5 s none has ended, at 10 s the second, at 100 s the first, which ended last.
        let jobs = history(&[(Some(0), 50.0), (Some(5), 4.0), (Some(10), 8.0), (Some(100), 20.0)]);
        let errors = walk(&jobs, 0, &mut Last::default()).expect("two are estimated");
        assert_eq!((errors.jobs, errors.absolute_s[1], errors.mean_absolute_s), (2, 17.0, 17.0));
        // 4 s for 8 s, and 50 s for 20 s: the median of two logarithms is their mean.
        assert!((errors.factors[1] - (2.0f64 * 2.5).sqrt()).abs() < 1e-12, "{errors:?}");
        assert_eq!(errors.rank_correlation, 1.0);
        assert_eq!(walk(&jobs, 3, &mut Last::default()).map(|errors| errors.jobs), Some(1));
        assert_eq!(walk(&jobs[..1], 0, &mut Last::default()), None);
        // Without times, each is known when the next arrives.
        let errors = walk(&history(&[(None, 8.0), (None, 2.0), (None, 1.0)]), 0, &mut Last::default());
        assert_eq!(errors.map(|errors| (errors.jobs, errors.mean_absolute_s)), Some((2, 3.5)));
    }

    #[test]
    fn ranks_of_equal_values_are_shared() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [2.5, 0.0, 2.5, 1.0]);
        let found: Vec<(f64, f64)> = [(1.0, 5.0), (2.0, 4.0), (3.0, 9.0), (4.0, 7.0)].to_vec();
        // 1 - 6 (1 + 1 + 1 + 1) / (4 * 15)
        let correlation = errors(&found).expect("there are some").rank_correlation;
        assert!((correlation - 0.6).abs() < 1e-12, "{correlation}");
    }
}
