//! What a cumulative counter did in a window, and what a gauge was in it.

use schema::units::Nanos;
pub use schema::units::Window;

/// The growth of a cumulative counter over the window, by straight lines between readings.
///
/// `readings` are (time, value) in order of time. `None` where they do not reach around the window
/// to within a tenth of its length on either side: then part of it was not seen.
pub fn growth(readings: impl IntoIterator<Item = (Nanos, u64)>, window: Window) -> Option<u64> {
    let readings: Vec<(Nanos, u64)> = readings.into_iter().collect();
    let slack = window.length().0 / 10;
    let (first, last) = (readings.first()?.0, readings.last()?.0);
    if first.0 > window.start.0 + slack || last.0 + slack < window.end.0 || readings.len() < 2 {
        return None;
    }
    let (start, end) = (window.start.max(first), window.end.min(last));
    let grown = value_at(&readings, end) - value_at(&readings, start);
    // What the readings leave out at the edges is at most the slack; the rate fills it in.
    let seen = end.saturating_sub(start).0;
    (seen > 0).then(|| (grown * window.length().0 as f64 / seen as f64).round().max(0.0) as u64)
}

/// The value at `at`, which lies between the first and the last reading.
fn value_at(readings: &[(Nanos, u64)], at: Nanos) -> f64 {
    let after = readings.partition_point(|(t, _)| *t < at).clamp(1, readings.len() - 1);
    let ((t0, v0), (t1, v1)) = (readings[after - 1], readings[after]);
    let part = if t1 > t0 { (at.0 as f64 - t0.0 as f64) / (t1.0 - t0.0) as f64 } else { 1.0 };
    v0 as f64 + part * (v1 as f64 - v0 as f64)
}

/// The growth over several windows that do not overlap; `None` where one of them was not seen.
pub fn growth_in(readings: impl IntoIterator<Item = (Nanos, u64)>, windows: &[Window]) -> Option<u64> {
    let readings: Vec<(Nanos, u64)> = readings.into_iter().collect();
    windows.iter().map(|window| growth(readings.iter().copied(), *window)).sum()
}

/// The mean of a gauge's readings in the windows.
pub fn mean(readings: impl IntoIterator<Item = (Nanos, f64)>, windows: &[Window]) -> Option<f64> {
    let is_inside = |at: Nanos| windows.iter().any(|window| window.contains(at));
    let inside: Vec<f64> = readings.into_iter().filter(|(t, _)| is_inside(*t)).map(|(_, v)| v).collect();
    (!inside.is_empty()).then(|| inside.iter().sum::<f64>() / inside.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { start: Nanos(1_000), end: Nanos(2_000) };

    fn readings(points: &[(u64, u64)]) -> Vec<(Nanos, u64)> {
        points.iter().map(|(t, v)| (Nanos(*t), *v)).collect()
    }

    #[test]
    fn growth_is_interpolated_at_both_ends() {
        assert_eq!(growth(readings(&[(500, 0), (1_500, 100), (2_500, 300)]), WINDOW), Some(150));
        assert_eq!(growth(readings(&[(1_000, 7), (2_000, 7)]), WINDOW), Some(0));
        // Readings that begin a little late still tell the rate.
        assert_eq!(growth(readings(&[(1_050, 0), (2_050, 100)]), WINDOW), Some(100));
    }

    #[test]
    fn a_window_that_was_not_seen_has_no_growth() {
        assert_eq!(growth(readings(&[]), WINDOW), None);
        assert_eq!(growth(readings(&[(1_000, 5)]), WINDOW), None);
        assert_eq!(growth(readings(&[(1_500, 0), (2_500, 100)]), WINDOW), None);
        assert_eq!(growth(readings(&[(500, 0), (1_500, 100)]), WINDOW), None);
    }

    #[test]
    fn a_mean_is_of_the_window_alone() {
        let gauge = [(500, 9.0), (1_000, 1.0), (1_600, 2.0), (2_000, 3.0), (2_001, 9.0)];
        let of = |windows: &[Window]| mean(gauge.map(|(t, v)| (Nanos(t), v)), windows);
        assert_eq!(of(&[WINDOW]), Some(2.0));
        assert_eq!(of(&[Window { start: Nanos(5), end: Nanos(6) }]), None);
    }

    #[test]
    fn several_windows_add_up_and_one_that_was_not_seen_spoils_the_sum() {
        let window = |start, end| Window { start: Nanos(start), end: Nanos(end) };
        let readings = || readings(&[(1_000, 0), (2_000, 1_000), (3_000, 3_000)]);
        assert_eq!(growth_in(readings(), &[window(1_000, 1_500), window(2_000, 3_000)]), Some(2_500));
        assert_eq!(growth_in(readings(), &[window(1_000, 1_500), window(2_000, 9_000)]), None);
        let gauge = [(1_000, 1.0), (1_700, 7.0), (2_500, 3.0)].map(|(t, v)| (Nanos(t), v));
        assert_eq!(mean(gauge, &[window(1_000, 1_500), window(2_000, 3_000)]), Some(2.0));
    }
}
