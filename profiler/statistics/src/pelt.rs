//! Optimal segmentation of a series into stretches of constant mean.
//!
//! PELT (pruned exact linear time): R. Killick, P. Fearnhead, I. A. Eckley, "Optimal Detection of
//! Changepoints With a Linear Computational Cost", JASA 107 (2012), arXiv 1101.1438, section 3.
//! The result is the same as that of the full dynamic programme; pruning only saves time.

/// The starts of the segments that minimise the squared distance of `series` from its segments'
/// means plus `penalty` per change, each segment having at least `min_length` points.
///
/// The first start is 0; a series too short for two segments comes back whole.
pub(crate) fn segment(series: &[f64], min_length: usize, penalty: f64) -> Vec<usize> {
    let n = series.len();
    // best[end] is the least cost of the first `end` points and last[end] the start of the last
    // segment that reaches it. A prefix too short for a segment has no segmentation.
    let mut best = vec![f64::INFINITY; n + 1];
    let mut last = vec![0; n + 1];
    best[0] = -penalty;
    let sums = RunningSums::of(series);
    let mut candidates: Vec<Candidate> = Vec::new();

    for end in min_length..=n {
        let start = end - min_length;
        candidates.push(Candidate::new(start, best[start], &sums));
        for candidate in &mut candidates {
            candidate.reach(end, &sums);
            let total = candidate.cost + penalty;
            if total < best[end] {
                best[end] = total;
                last[end] = candidate.start;
            }
        }
        candidates.retain_mut(|candidate| {
            // Whatever continues from this candidate past `end` would do at least as well to
            // change at `end`, once the piece after `end` is long enough to be a segment.
            if candidate.cost >= best[end] {
                candidate.obsolete_from = candidate.obsolete_from.min(end + min_length);
            }
            end + 1 < candidate.obsolete_from
        });
    }

    let mut starts = Vec::new();
    let mut end = n;
    while end > 0 {
        end = last[end];
        starts.push(end);
    }
    starts.reverse();
    starts
}

/// A place where the last segment may start.
struct Candidate {
    start: usize,
    /// The least cost of everything before `start`, less the squares summed up to there.
    offset: f64,
    /// The values summed up to `start`.
    sum: f64,
    /// The least cost of the points seen so far if the last segment starts here.
    cost: f64,
    /// From this end on the candidate can no longer be best.
    obsolete_from: usize,
}

impl Candidate {
    fn new(start: usize, cost_before: f64, sums: &RunningSums) -> Self {
        let offset = cost_before - sums.squares[start];
        Self { start, offset, sum: sums.values[start], cost: cost_before, obsolete_from: usize::MAX }
    }

    /// Extends the last segment to `end`; its squared distance from its own mean is its sum of
    /// squares less its squared sum over its length.
    fn reach(&mut self, end: usize, sums: &RunningSums) {
        let sum = sums.values[end] - self.sum;
        self.cost = self.offset + sums.squares[end] - sum * sum / (end - self.start) as f64;
    }
}

/// Sums of the first values and of their squares, of none up to all.
struct RunningSums {
    values: Vec<f64>,
    squares: Vec<f64>,
}

impl RunningSums {
    fn of(series: &[f64]) -> Self {
        // Centred first, so that the difference of two large sums keeps its digits.
        let mean = series.iter().sum::<f64>() / series.len().max(1) as f64;
        let mut values = vec![0.0; series.len() + 1];
        let mut squares = vec![0.0; series.len() + 1];
        for (index, value) in series.iter().enumerate() {
            let centred = value - mean;
            values[index + 1] = values[index] + centred;
            squares[index + 1] = squares[index] + centred * centred;
        }
        Self { values, squares }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The penalised cost of the segmentation with these starts, from the definition.
    fn cost_of(series: &[f64], starts: &[usize], penalty: f64) -> f64 {
        let ends = starts.iter().copied().skip(1).chain([series.len()]);
        let squares: f64 = starts
            .iter()
            .zip(ends)
            .map(|(&start, end)| {
                let values = &series[start..end];
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                values.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
            })
            .sum();
        squares + penalty * (starts.len() - 1) as f64
    }

    /// The least cost over every segmentation there is.
    fn least_cost(series: &[f64], min_length: usize, penalty: f64) -> f64 {
        let n = series.len();
        (0_u32..1 << (n - 1))
            .map(|changes| {
                let inner = (1..n).filter(|at| changes >> (at - 1) & 1 == 1);
                std::iter::once(0).chain(inner).collect::<Vec<usize>>()
            })
            .filter(|starts| {
                let ends = starts.iter().copied().skip(1).chain([n]);
                starts.iter().zip(ends).all(|(start, end)| end - start >= min_length)
            })
            .map(|starts| cost_of(series, &starts, penalty))
            .fold(f64::INFINITY, f64::min)
    }

    proptest! {
        #[test]
        fn no_segmentation_is_better(
            series in prop::collection::vec(-3.0..3.0, 8..12),
            min_length in 1_usize..4,
            penalty in 0.01..5.0,
        ) {
            let starts = segment(&series, min_length, penalty);
            let ends = starts.iter().copied().skip(1).chain([series.len()]);
            prop_assert_eq!(starts[0], 0);
            prop_assert!(starts.iter().zip(ends).all(|(start, end)| end - start >= min_length));
            let excess = cost_of(&series, &starts, penalty) - least_cost(&series, min_length, penalty);
            prop_assert!(excess.abs() < 1e-9, "{} above the best, by {:?}", excess, starts);
        }
    }

    #[test]
    fn a_noiseless_step_is_found_where_it_is() {
        let series: Vec<f64> = (0..100).map(|index| if index < 37 { 2.0 } else { 1.0 }).collect();
        assert_eq!(segment(&series, 5, 0.1), [0, 37]);
        // The step explains 37 * 63 / 100 = 23.31, and a dearer change is not made.
        assert_eq!(segment(&series, 5, 23.30), [0, 37]);
        assert_eq!(segment(&series, 5, 23.32), [0]);
    }

    #[test]
    fn a_series_too_short_for_two_segments_is_one() {
        assert_eq!(segment(&[1.0, 9.0, 9.0], 2, 0.1), [0]);
        assert_eq!(segment(&[1.0], 5, 0.1), [0]);
    }
}
