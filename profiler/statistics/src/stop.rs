//! Decides when a cell has enough launches.

use crate::interval::{Interval, standard_deviation, t_quantile};
use crate::launches::{between_launches, log_deviation, logarithms};

/// Fewer launches are never enough: with two, the interval is 13 standard errors wide on each side, but may
/// be narrow by chance.
pub const MIN_REPEATS: usize = 3;

/// The limit of the estimated number of launches; a larger estimate only means "too many".
pub const MOST_LAUNCHES: usize = 1_000;

/// Whether to start more launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The interval between launches is as narrow as requested.
    Reached,
    /// The interval is too wide.
    Continue {
        /// Number of further launches that would suffice if they scatter like those so far; at most 1,000.
        estimated_more_launches: usize,
    },
}

/// Judges the launches of a cell so far by the half-width of [`between_launches`].
///
/// Looking after every launch stops more often on a lucky scatter than on an unlucky one, so the
/// interval at the stop contains the truth a little less often than 95 times in 100. Simulated with
/// 1 % noise between launches and a minimum of 3 (of 5): 95 % (95 %) at a target of 2 %, 92 % (94 %)
/// at 1 %; with 2 % noise and a target of 1 %, 90 % (92 %).
///
/// `min_repeats` below 2 counts as 2.
pub fn verdict(launch_medians: &[f64], target_half_width_percent: f64, min_repeats: usize) -> Verdict {
    let count = launch_medians.len();
    let min_repeats = min_repeats.max(2);
    let half_width_percent = between_launches(launch_medians).map(|i| i.half_width_percent());
    if count >= min_repeats && half_width_percent.is_some_and(|h| h <= target_half_width_percent) {
        return Verdict::Reached;
    }
    let deviation = logarithms(launch_medians.iter().copied())
        .and_then(|logs| standard_deviation(&logs))
        // Without two good launches there is no scatter, and only the minimum counts.
        .unwrap_or(0.0);
    // Half the width of exp(-h) to exp(h), in units of the estimate, is sinh(h).
    let target = (target_half_width_percent / 100.0).asinh();
    let suffices =
        |launches: usize| t_quantile(launches - 1) * deviation / (launches as f64).sqrt() <= target;
    let fewest = min_repeats.max(count + 1);
    let needed = (fewest..count + MOST_LAUNCHES).find(|&launches| suffices(launches));
    Verdict::Continue { estimated_more_launches: needed.unwrap_or(count + MOST_LAUNCHES) - count }
}

/// The approximate number of launches of each of two kinds that would separate their intervals, if launches
/// scatter like those so far and the estimates stay the same.
///
/// `None` where more than [`MOST_LAUNCHES`] would, or one of the two is no interval of [`between_launches`].
pub fn launches_to_part(one: &Interval, other: &Interval) -> Option<usize> {
    let deviation = |of: &Interval| log_deviation(of.lo, of.hi, of.n);
    let deviations = deviation(one)? + deviation(other)?;
    let distance = (one.estimate / other.estimate).ln().abs();
    let parts =
        |launches: &usize| t_quantile(launches - 1) * deviations / (*launches as f64).sqrt() < distance;
    (MIN_REPEATS..=MOST_LAUNCHES).find(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn more(estimated_more_launches: usize) -> Verdict {
        Verdict::Continue { estimated_more_launches }
    }

    #[test]
    fn before_the_minimum_nothing_is_reached() {
        assert_eq!(verdict(&[], 1.0, MIN_REPEATS), more(3));
        assert_eq!(verdict(&[1e6], 1.0, MIN_REPEATS), more(2));
        assert_eq!(verdict(&[1e6, 1e6], 1.0, MIN_REPEATS), more(1));
        assert_eq!(verdict(&[1e6, 1e6, 1e6], 1.0, MIN_REPEATS), Verdict::Reached);
    }

    /// Logs -0.01, 0, 0.01 deviate by 0.01; t of 2 degrees of freedom is 4.3027, so the half-width
    /// of three is 2.484 %. The t interval of 1 % noise first falls below 1 % with 7 launches:
    /// 2.5706 / sqrt(6) = 1.0494 and 2.4469 / sqrt(7) = 0.9248.
    #[test]
    fn the_estimate_is_the_fewest_launches_that_would_do() {
        let launches = [-0.01_f64, 0.0, 0.01].map(f64::exp);
        assert_eq!(verdict(&launches, 2.5, MIN_REPEATS), Verdict::Reached);
        assert_eq!(verdict(&launches, 2.4, MIN_REPEATS), more(1));
        assert_eq!(verdict(&launches, 1.0, MIN_REPEATS), more(4));
    }

    #[test]
    fn an_impossible_target_is_a_large_number_and_ends() {
        assert_eq!(verdict(&[1e6, 2e6, 3e6], 0.0, MIN_REPEATS), more(1_000));
        assert_eq!(verdict(&[1e6, f64::NAN, 3e6], 1.0, MIN_REPEATS), more(1));
    }

    /// With one standard deviation of 2 % each, the half-widths of 9 launches add up to 2 * 2.306 * 2 % / 3 = 3.07 %.
    #[test]
    fn two_kinds_part_where_their_half_widths_add_up_to_less_than_their_distance() {
        let interval = |centre: f64, launches: usize| {
            let half_width = t_quantile(launches - 1) * 0.02 / (launches as f64).sqrt();
            let at = |log: f64| (centre + log).exp();
            Interval { estimate: at(0.0), lo: at(-half_width), hi: at(half_width), n: launches }
        };
        for launches in [2, 5] {
            let to_part =
                |distance| launches_to_part(&interval(0.0, launches), &interval(distance, launches));
            assert_eq!((to_part(0.0308), to_part(-0.0308)), (Some(9), Some(9)));
            assert_eq!(to_part(0.0306), Some(10));
            assert_eq!((to_part(0.0), to_part(1e-4)), (None, None));
        }
        assert_eq!(launches_to_part(&interval(0.0, 5), &Interval { n: 1, ..interval(1.0, 5) }), None);
    }
}
