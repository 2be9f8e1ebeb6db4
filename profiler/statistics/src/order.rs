//! Order statistics: the median, quantiles and the median absolute deviation.

/// The factor that turns a median absolute deviation into a standard deviation
/// where the values are normal: one over the upper quartile of the standard normal.
const MAD_TO_STANDARD_DEVIATION: f64 = 1.482_602_218_505_602;

/// The median of whole numbers such as nanoseconds, or `None` for an empty slice.
///
/// An even count gives the mean of the two middle values, in the unit of the input.
pub fn median(values: &[u64]) -> Option<f64> {
    let mut scratch: Vec<f64> = values.iter().map(|&value| value as f64).collect();
    (!scratch.is_empty()).then(|| median_in_place(&mut scratch))
}

/// The median, reordering `values`, which must not be empty.
pub fn median_in_place(values: &mut [f64]) -> f64 {
    let is_even = values.len().is_multiple_of(2);
    let middle = values.len() / 2;
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if is_even {
        let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        f64::midpoint(lower, upper)
    } else {
        upper
    }
}

/// The quantile at `part`, from 0 to 1: the smallest value that at least this part of all values do not exceed. `sorted` must
/// not be empty.
pub fn quantile_of_sorted<T: Copy>(sorted: &[T], part: f64) -> T {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// A standard deviation from the median absolute deviation, reordering and overwriting `values`.
///
/// Up to a quarter of wild values barely move it, which is why noise is estimated with it: the
/// traces it is applied to contain the very jumps that are being looked for.
pub(crate) fn robust_deviation(values: &mut [f64]) -> f64 {
    let centre = median_in_place(values);
    for value in values.iter_mut() {
        *value = (*value - centre).abs();
    }
    MAD_TO_STANDARD_DEVIATION * median_in_place(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_middle_two() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[4]), Some(4.0));
        assert_eq!(median(&[9, 1, 5]), Some(5.0));
        assert_eq!(median(&[9, 1, 5, 6]), Some(5.5));
    }

    #[test]
    fn quantiles_are_values_that_are_there() {
        let sorted: Vec<u64> = (1..=10).collect();
        for (part, value) in [(0.0, 1), (0.5, 5), (0.9, 9), (0.91, 10), (1.0, 10)] {
            assert_eq!(quantile_of_sorted(&sorted, part), value, "{part}");
        }
        assert_eq!(quantile_of_sorted(&[3.5], 0.99), 3.5);
    }

    /// Distances from the median 3 are 2, 1, 0, 1 and 97, with the median 1.
    #[test]
    fn one_wild_value_does_not_move_the_robust_deviation() {
        let deviation = robust_deviation(&mut [1.0, 2.0, 3.0, 4.0, 100.0]);
        assert_eq!(deviation, MAD_TO_STANDARD_DEVIATION);
    }
}
