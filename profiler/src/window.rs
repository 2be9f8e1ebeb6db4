//! The growth of a cumulative counter in a window, and the mean of a gauge.

use schema::units::Nanos;
pub use schema::units::{Window, total};

/// The growth of a cumulative counter over windows that do not overlap, with linear interpolation between readings.
///
/// `readings` are pairs of time and value in order of time. `own_period` is the interval at which the device itself updates the
/// counter, if it is known. The result is `None` if the readings do not determine it:
/// - Readings do not extend to within a tenth of a window's length of both of its ends: a part of the window was not observed.
/// - A window is shorter than the time between two readings that it touches, or than the counter's own period. The course of
///   the counter within that time is not known, and interpolation would not be a measurement. If such windows make up at most
///   a tenth of all, as the first steps of a job do between its first grants, the rate in the other windows is used for them.
/// - The counter fell, as it does when a device is reset: what it had counted before is lost.
pub fn growth_in(
    readings: impl IntoIterator<Item = (Nanos, u64)>,
    own_period: Nanos,
    windows: &[Window],
) -> Option<u64> {
    let readings: Vec<(Nanos, u64)> = readings.into_iter().collect();
    let mut known = (Nanos::ZERO, 0.0);
    let mut short = Nanos::ZERO;
    for window in windows {
        let touched = touched_by(&readings, *window)?;
        if touched.windows(2).any(|pair| pair[1].1 < pair[0].1) {
            return None;
        }
        let apart = touched.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].0)).max()?;
        if window.length() < apart.max(own_period) {
            short += window.length();
        } else {
            known = (known.0 + window.length(), known.1 + grown(touched, *window));
        }
    }
    let (length, grown) = known;
    let all = length + short;
    let is_enough = length > Nanos::ZERO && 10 * short.0 <= all.0;
    is_enough.then(|| (grown * all.0 as f64 / length.0 as f64).round() as u64)
}

/// The readings within the window, and the next one on either side if there is one.
fn touched_by(readings: &[(Nanos, u64)], window: Window) -> Option<&[(Nanos, u64)]> {
    let slack = window.length().0 / 10;
    let (first, last) = (readings.first()?.0, readings.last()?.0);
    let (start, end) = (window.start.max(first), window.end.min(last));
    if first.0 > window.start.0 + slack || last.0 + slack < window.end.0 || start >= end {
        return None;
    }
    let before = readings.partition_point(|(t, _)| *t <= start) - 1;
    let after = readings.partition_point(|(t, _)| *t < end);
    Some(&readings[before..=after])
}

/// The growth over a window that these readings cover except for the slack at its ends, which is filled with the mean rate.
fn grown(touched: &[(Nanos, u64)], window: Window) -> f64 {
    let (start, end) = (window.start.max(touched[0].0), window.end.min(touched[touched.len() - 1].0));
    let seen = end.saturating_sub(start);
    (value_at(touched, end) - value_at(touched, start)) * window.length().0 as f64 / seen.0 as f64
}

/// The value at `at`, which lies between the first and the last reading.
fn value_at(readings: &[(Nanos, u64)], at: Nanos) -> f64 {
    let after = readings.partition_point(|(t, _)| *t < at).clamp(1, readings.len() - 1);
    let ((t0, v0), (t1, v1)) = (readings[after - 1], readings[after]);
    let part = if t1 > t0 { (at.0 as f64 - t0.0 as f64) / (t1.0 - t0.0) as f64 } else { 1.0 };
    v0 as f64 + part * (v1 as f64 - v0 as f64)
}

/// The longest time without a reading that overlaps the window. `readings` has the begin and the end of each, in order of time.
/// A value may be from either moment, so a gap is from the begin of one reading to the end of the next.
pub fn longest_gap(readings: impl IntoIterator<Item = (Nanos, Nanos)>, window: Window) -> Nanos {
    let mut longest = Nanos::ZERO;
    let mut begin = None;
    for (next, end) in readings {
        // Before the first reading, the last known moment is the start of the window.
        let begin = begin.replace(next).unwrap_or(window.start.min(next));
        if begin < window.end && end > window.start {
            longest = longest.max(end.saturating_sub(begin));
        }
    }
    let last = begin.unwrap_or(window.start);
    longest.max(window.end.saturating_sub(last))
}

/// The mean of a gauge's readings in the windows.
pub fn mean(readings: impl IntoIterator<Item = (Nanos, f64)>, windows: &[Window]) -> Option<f64> {
    let is_inside = |at: Nanos| windows.iter().any(|window| window.contains(at));
    let inside: Vec<f64> = readings.into_iter().filter(|(t, _)| is_inside(*t)).map(|(_, v)| v).collect();
    (!inside.is_empty()).then(|| inside.iter().sum::<f64>() / inside.len() as f64)
}

/// The sum as in [`total`], but `None` if there are no parts.
pub(crate) fn sum_of_all(parts: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    let mut parts = parts.peekable();
    parts.peek()?;
    total(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { start: Nanos(1_000), end: Nanos(2_000) };

    fn growth(readings: impl IntoIterator<Item = (Nanos, u64)>, window: Window) -> Option<u64> {
        growth_in(readings, Nanos::ZERO, &[window])
    }

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
    fn a_window_shorter_than_the_time_between_its_readings_has_no_growth() {
        let ms = |ms: u64| Nanos(ms * 1_000_000);
        let of = |start, end, points: &[(u64, u64)]| {
            let readings = points.iter().map(|&(at, value)| (ms(at), value));
            growth(readings, Window { start: ms(start), end: ms(end) })
        };
        let every_100: Vec<(u64, u64)> = (0..=20).map(|i| (100 * i, 100 * i)).collect();
        assert_eq!(of(230, 250, &every_100), None, "what happened in these 20 ms nothing tells");
        assert_eq!(of(230, 329, &every_100), None);
        assert_eq!(of(230, 330, &every_100), Some(100));
        let every_second = [(0, 0), (1_000, 450), (2_000, 900), (3_000, 2_000)];
        assert_eq!(of(400, 1_300, &every_second), None);
        assert_eq!(of(400, 1_400, &every_second), Some(450));
        // Frequent readings in most of a window do not make up for a long time without one.
        let with_a_gap: Vec<(u64, u64)> =
            [(0, 0)].into_iter().chain((50..100).map(|i| (40 * i, i))).collect();
        assert_eq!(of(1_900, 2_300, &with_a_gap), None);
        assert!(of(1_000, 3_900, &with_a_gap).is_some());
    }

    #[test]
    fn a_few_short_windows_are_filled_in_by_the_others_and_many_are_not() {
        let window = |start, end| Window { start: Nanos(start), end: Nanos(end) };
        let of =
            |windows: &[Window]| growth_in((0..200).map(|i| (Nanos(100 * i), 7 * i)), Nanos::ZERO, windows);
        // Steps of 20 between which a job was held, and then a long stretch: 1,000 in all, of which 80 can not be told.
        let held = [150, 240, 330, 420].map(|start| window(start, start + 20));
        assert_eq!(of(&[&held[..], &[window(1_000, 1_920)]].concat()), Some(70));
        assert_eq!(of(&[&held[..], &[window(1_000, 1_500)]].concat()), None);
        assert_eq!(of(&held), None);
        let of_slow =
            |own_period| growth_in((0..200).map(|i| (Nanos(100 * i), i)), own_period, &[window(150, 950)]);
        assert_eq!((of_slow(Nanos(800)), of_slow(Nanos(801))), (Some(8), None), "a period of its own");
    }

    #[test]
    fn a_counter_that_fell_has_no_growth_where_it_did() {
        let points = [(1_000, 500), (1_500, 900), (2_000, 0), (2_500, 700), (3_000, 800), (4_000, 900)];
        let of = |start, end| growth(readings(&points), Window { start: Nanos(start), end: Nanos(end) });
        assert_eq!((of(1_000, 2_000), of(1_800, 3_000), of(1_000, 3_000)), (None, None, None));
        assert_eq!((of(1_000, 1_500), of(2_000, 3_000)), (Some(400), Some(800)));
    }

    #[test]
    fn the_longest_gap_is_of_readings_that_the_window_touches() {
        let of = |readings: &[(u64, u64)]| {
            longest_gap(readings.iter().map(|&(begin, end)| (Nanos(begin), Nanos(end))), WINDOW).0
        };
        assert_eq!(of(&[(900, 910), (1_400, 1_410), (1_900, 1_905), (2_300, 2_310), (9_000, 9_001)]), 510);
        assert_eq!(
            of(&[(100, 110), (1_010, 1_020), (1_500, 1_510), (2_000, 2_010)]),
            920,
            "begun long before"
        );
        assert_eq!(of(&[(0, 5), (500, 505), (990, 1_000), (1_500, 1_500), (2_000, 2_000)]), 510);
        // The window's own ends stand in where no reading is.
        let lone = (of(&[(1_300, 1_310), (1_600, 1_610)]), of(&[(1_400, 1_401)]), of(&[]));
        assert_eq!(lone, (400, 600, 1_000));
    }

    #[test]
    fn several_windows_add_up_and_one_that_was_not_seen_spoils_the_sum() {
        let window = |start, end| Window { start: Nanos(start), end: Nanos(end) };
        let readings = || readings(&[(1_000, 0), (2_000, 1_000), (3_000, 3_000)]);
        let of = |windows: &[Window]| growth_in(readings(), Nanos::ZERO, windows);
        assert_eq!(of(&[window(1_000, 2_000), window(2_000, 3_000)]), Some(3_000));
        assert_eq!(of(&[window(1_000, 2_000), window(2_000, 9_000)]), None);
        let gauge = [(1_000, 1.0), (1_700, 7.0), (2_500, 3.0)].map(|(t, v)| (Nanos(t), v));
        assert_eq!(mean(gauge, &[window(1_000, 1_500), window(2_000, 3_000)]), Some(2.0));
    }
}
