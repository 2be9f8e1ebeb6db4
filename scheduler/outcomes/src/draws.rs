//! The totals of a prediction over its draws.

use formats::rows::{Draw, DrawnTotals, Range};
use statistics::quantile_of_sorted;

/// Computes the totals over all draws. `None` if there are no draws, or no job ended well in any of them.
pub fn totals_of_draws(rows: &[Draw]) -> Option<DrawnTotals> {
    let over = |of: fn(&Draw) -> Option<u64>| {
        let mut values: Vec<u64> = rows.iter().filter_map(of).collect();
        values.sort_unstable();
        range(&values)
    };
    Some(DrawnTotals {
        draws: rows.len() as u32,
        jct_ns_mean: over(|row| row.jct_ns_mean)?,
        makespan_ns: over(|row| row.makespan_ns)?,
    })
}

/// The median and the 95 % interval of sorted values; `None` without values.
pub fn range(sorted: &[u64]) -> Option<Range> {
    let at = |part| quantile_of_sorted(sorted, part);
    (!sorted.is_empty()).then(|| Range { median_ns: at(0.5), ci_lo_ns: at(0.025), ci_hi_ns: at(0.975) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_leaves_out_a_fortieth_on_either_side() {
        let draw = |n: u32| Draw {
            draw: n,
            seed: 1,
            ok: 1,
            jct_ns_mean: (n > 0).then(|| u64::from(n)),
            makespan_ns: Some(7),
        };
        let rows: Vec<Draw> = (0..=200).rev().map(draw).collect();
        let expected = DrawnTotals {
            draws: 201,
            jct_ns_mean: Range { median_ns: 100, ci_lo_ns: 5, ci_hi_ns: 195 },
            makespan_ns: Range { median_ns: 7, ci_lo_ns: 7, ci_hi_ns: 7 },
        };
        assert_eq!(totals_of_draws(&rows), Some(expected));
        assert_eq!((totals_of_draws(&[]), totals_of_draws(&[draw(0)])), (None, None));
    }
}
