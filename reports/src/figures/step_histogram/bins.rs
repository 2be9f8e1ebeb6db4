//! Divides numbers into the bins of a histogram.

use statistics::quantile_of_sorted;

use crate::chart::{Point, Scale};

const LEAST_BINS: f64 = 10.0;
const MOST_BINS: f64 = 80.0;

/// The left edge of each bin with its number of steps, and the right edge of the last with none.
pub(super) fn histogram(sorted: &[f64], scale: Scale) -> Vec<Point> {
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else { return Vec::new() };
    let on_axis = |ns: f64| if scale == Scale::Log { ns.ln() } else { ns };
    let from_axis = |place: f64| if scale == Scale::Log { place.exp() } else { place };
    if first == last {
        // Equal times still have a width.
        return vec![Point::at(first - 0.5, sorted.len() as f64), Point::at(first + 0.5, 0.0)];
    }
    let quartiles = on_axis(quantile_of_sorted(sorted, 0.75)) - on_axis(quantile_of_sorted(sorted, 0.25));
    // The width of D. Freedman and P. Diaconis ("On the histogram as a density estimator", 1981).
    let width = 2.0 * quartiles / (sorted.len() as f64).cbrt();
    let (begin, range) = (on_axis(*first), on_axis(*last) - on_axis(*first));
    let bins = (range / width).ceil();
    let bins = if bins.is_finite() { bins.clamp(LEAST_BINS, MOST_BINS) } else { MOST_BINS };
    let edge = |bin: f64| from_axis(begin + range * bin / bins);
    let mut counts = vec![0_u64; bins as usize];
    for ns in sorted {
        let bin = ((on_axis(*ns) - begin) / range * bins) as usize;
        counts[bin.min(bins as usize - 1)] += 1;
    }
    let left = counts.iter().enumerate().map(|(bin, count)| Point::at(edge(bin as f64), *count as f64));
    left.chain([Point::at(*last, 0.0)]).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_step_is_in_the_bin_that_holds_it(
            mut ns in prop::collection::vec((1..1_000_000_u64).prop_map(|ns| ns as f64), 1..400), is_log: bool,
        ) {
            ns.sort_unstable_by(f64::total_cmp);
            let points = histogram(&ns, if is_log { Scale::Log } else { Scale::Linear });
            prop_assert_eq!(points.iter().map(|point| point.y).sum::<f64>(), ns.len() as f64);
            prop_assert!(points[0].x <= ns[0] * (1.0 + 1e-9));
            prop_assert!(points[points.len() - 1].x >= ns[ns.len() - 1]);
            for pair in points.windows(2) {
                prop_assert!(pair[0].x < pair[1].x);
                // Times at an edge may be on either side of it, because of rounding.
                let (lo, hi) = (pair[0].x * (1.0 - 1e-9), pair[1].x * (1.0 + 1e-9));
                let surely = ns.iter().filter(|ns| (pair[0].x * (1.0 + 1e-9)..pair[1].x * (1.0 - 1e-9)).contains(ns)).count();
                let perhaps = ns.iter().filter(|ns| (lo..=hi).contains(ns)).count();
                prop_assert!((surely as f64..=perhaps as f64).contains(&pair[0].y));
            }
        }
    }
}
