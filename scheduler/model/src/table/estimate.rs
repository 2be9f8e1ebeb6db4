//! Estimates: numbers with an interval, from rows of tables.

use record::rows::{Status, Summary};

/// A number, and its interval if it has one.
pub(super) type Estimate = (f64, Option<(f64, f64)>);

/// The step time of a job alone. Durations of jobs are sums of mean step times, but the known interval is that of
/// their median. Tables of versions before the column of the mean have the rate. A program without steps counts
/// as one step.
pub(super) fn step_alone(row: &Summary) -> Option<Estimate> {
    if row.status != Status::Ok {
        return None;
    }
    let Some(median) = row.step_ns_median else {
        return Some((row.wall_ns? as f64, interval(row.wall_ns_ci_lo, row.wall_ns_ci_hi, 1.0)));
    };
    let rate = || row.global_batch.zip(row.samples_per_s.filter(|rate| *rate > 0.0));
    let of_rate = || rate().map(|(batch, samples_per_s)| f64::from(batch) * 1e9 / samples_per_s);
    let mean = row.step_ns_mean.map(|ns| ns as f64).or_else(of_rate);
    let step_ns = mean.unwrap_or(median as f64);
    let scale = step_ns / median as f64;
    Some((step_ns, interval(row.step_ns_median_ci_lo, row.step_ns_median_ci_hi, scale)))
}

/// Pools several rows: the geometric mean, and the union of their intervals. Rows of different runs differ
/// by more than their own intervals show.
pub(super) fn pooled(rows: &[Estimate]) -> Option<Estimate> {
    let (first, rest) = rows.split_first()?;
    let logs: f64 = rows.iter().map(|(value, _)| value.ln()).sum();
    let around = |found: Option<(f64, f64)>, (_, interval): &Estimate| {
        let ((lo, hi), (row_lo, row_hi)) = found.zip(*interval)?;
        Some((lo.min(row_lo), hi.max(row_hi)))
    };
    Some(((logs / rows.len() as f64).exp(), rest.iter().fold(first.1, around)))
}

/// The product of two estimates, whose intervals are multiplied bound by bound.
pub(super) fn times((a, a_interval): Estimate, (b, b_interval): Estimate) -> Estimate {
    let interval = a_interval.zip(b_interval).map(|((a_lo, a_hi), (b_lo, b_hi))| (a_lo * b_lo, a_hi * b_hi));
    (a * b, interval)
}

fn interval(lo: Option<u64>, hi: Option<u64>, scale: f64) -> Option<(f64, f64)> {
    lo.zip(hi).map(|(lo, hi)| (lo as f64 * scale, hi as f64 * scale))
}
