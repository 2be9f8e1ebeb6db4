//! The interval of a share, such as that of jobs inside their predicted intervals.

use crate::interval::Interval;

/// The share of `inside` among `all` with its 95 % interval (E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical
/// Inference", JASA 22, 1927). It stays within 0 and 1, and has a width also if all are inside or none.
///
/// `None` of nothing.
pub fn wilson(inside: u32, all: u32) -> Option<Interval> {
    const Z: f64 = 1.959_963_985;
    if all == 0 {
        return None;
    }
    let (n, share) = (f64::from(all), f64::from(inside) / f64::from(all));
    let middle = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    let [lo, hi] = [(middle - half) / scale, (middle + half) / scale];
    Some(Interval { estimate: share, lo, hi, n: all as usize })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `binom.confint(x, n, methods = "wilson")` of R.
    #[test]
    fn the_interval_is_that_of_wilson() {
        for (inside, all, lo, hi) in [(14, 14, 0.7847, 1.0), (5, 10, 0.2366, 0.7634), (0, 10, 0.0, 0.2775)] {
            let share = wilson(inside, all).expect("there are some");
            assert!((share.lo - lo).abs() < 1e-4 && (share.hi - hi).abs() < 1e-4, "{share:?}");
        }
        assert_eq!(wilson(0, 0), None);
    }
}
