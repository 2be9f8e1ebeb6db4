//! Nights: fewer jobs arrive while people sleep.

use formats::trace::TraceRow;

use super::in_ms;

const DAY_S: f64 = 86_400.0;
/// Nights are from 0 to 8 o'clock.
const NIGHT_S: f64 = 8.0 * 3600.0;

/// Moves an arrival so that at night they come at `rate` times the rate of the rest of the day. A day as a whole has as many as before.
/// `start_s` is the time of day at which the trace starts, in seconds.
///
/// Each arrival moves to the time up to which as many are expected as were before (time change of a Poisson process), so that a
/// Poisson process remains one.
pub fn set_nights(row: &mut TraceRow, rate: f64, start_s: f64) {
    let day = Day::new(rate);
    let before_s = day.expected_s(start_s);
    row.submit_s = in_ms((day.time_s(before_s + row.submit_s) - start_s).max(0.0));
}

/// The rates of arrivals at night and by day. Their mean over a day is 1.
struct Day {
    night: f64,
    day: f64,
}

impl Day {
    fn new(rate: f64) -> Day {
        let day = DAY_S / (NIGHT_S * rate + (DAY_S - NIGHT_S));
        Day { night: rate * day, day }
    }

    /// The time in which as many arrivals are expected at the rate 1 as from midnight up to this time.
    fn expected_s(&self, time_s: f64) -> f64 {
        let of_day = time_s.rem_euclid(DAY_S);
        let own = of_day.min(NIGHT_S) * self.night + (of_day - NIGHT_S).max(0.0) * self.day;
        time_s - of_day + own
    }

    /// The inverse of [`Day::expected_s`].
    fn time_s(&self, expected_s: f64) -> f64 {
        let own = expected_s.rem_euclid(DAY_S);
        let of_night = NIGHT_S * self.night;
        let of_day = if own < of_night { own / self.night } else { NIGHT_S + (own - of_night) / self.day };
        expected_s - own + of_day
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(arrivals: &[f64], rate: f64, start_s: f64) -> Vec<f64> {
        let row = |submit_s: &f64| TraceRow { submit_s: *submit_s, ..TraceRow::default() };
        let mut rows: Vec<TraceRow> = arrivals.iter().map(row).collect();
        rows.iter_mut().for_each(|row| set_nights(row, rate, start_s));
        rows.iter().map(|row| row.submit_s).collect()
    }

    /// With the rate 0.25 a night of 8 hours has 8/4 of 18 parts of the arrivals of a day, and each other hour one.
    #[test]
    fn a_day_keeps_its_arrivals_and_a_night_has_fewer() {
        let hour = 3600.0;
        let of_night = 24.0 * 2.0 / 18.0 * hour;
        let [start, end_of_night, noon, midnight, later] =
            moved(&[0.0, of_night, of_night + 4.0 * 24.0 / 18.0 * hour, DAY_S, 3.0 * DAY_S], 0.25, 0.0)[..]
        else {
            panic!("five arrivals")
        };
        assert_eq!((start, midnight, later), (0.0, DAY_S, 3.0 * DAY_S));
        assert!((end_of_night - 8.0 * hour).abs() < 0.01, "{end_of_night}");
        assert!((noon - 12.0 * hour).abs() < 0.01, "{noon}");
        // From noon on, the rest of the day has 12 of 18 parts.
        let [from_noon, to_midnight] = moved(&[0.0, 24.0 * 12.0 / 18.0 * hour], 0.25, 12.0 * hour)[..] else {
            panic!("two arrivals")
        };
        assert_eq!(from_noon, 0.0);
        assert!((to_midnight - 12.0 * hour).abs() < 0.01, "{to_midnight}");
    }

    #[test]
    fn equal_rates_move_nothing() {
        let arrivals = [0.0, 10.5, 40_000.0, 200_000.25];
        assert_eq!(moved(&arrivals, 1.0, 30_000.0), arrivals);
    }
}
