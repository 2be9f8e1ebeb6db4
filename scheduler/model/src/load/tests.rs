//! Arrivals whose hours and days are known.

use fastrand::Rng;

use super::*;

const BIN_S: u64 = 600;

/// Numbers of jobs that arrive in each bin, from Monday, 5 January 1970, on.
fn arrivals(bins: impl Iterator<Item = u64>) -> Vec<u64> {
    let at = |(bin, jobs): (u64, u64)| (0..jobs).map(move |job| 4 * DAY_S + bin * BIN_S + job);
    (0..).zip(bins).flat_map(at).collect()
}

/// Two jobs in each bin, ten more from 9 to 17 o'clock, and four more on Saturdays.
fn planted(bin: u64) -> u64 {
    let TimeOfWeek { day, hour } = TimeOfWeek::of_unix_time(4 * DAY_S + bin * BIN_S);
    2 + if (9..17).contains(&hour) { 10 } else { 0 } + if day == 5 { 4 } else { 0 }
}

#[test]
fn hours_that_are_busy_are_foreseen() {
    let weeks = 8 * 7 * DAY_S / BIN_S;
    let mut rng = Rng::with_seed(1);
    let mut noisy = |bin| planted(bin) + rng.u64(0..3) - 1;
    let past = arrivals((0..weeks).map(&mut noisy));
    let mut load = Load::new(BIN_S, 5, true);
    past.iter().for_each(|at_s| load.arrive(*at_s));
    // In the next week, at the first bin of an hour.
    for (day, hour, expected, before) in [
        (0, 3, 2.0, 2.0),
        (0, 9, 12.0, 2.0),
        (2, 13, 12.0, 12.0),
        (3, 17, 2.0, 12.0),
        (5, 3, 6.0, 6.0),
        (5, 9, 16.0, 6.0),
    ] {
        let until = weeks + (day * DAY_S + hour * HOUR_S) / BIN_S;
        let mut today = load.clone();
        for at_s in arrivals((0..until).map(|bin| if bin < weeks { 0 } else { planted(bin) })) {
            today.arrive(at_s);
        }
        today.advance(4 * DAY_S + until * BIN_S);
        let Predicted { jobs, terms } = today.predict().expect("weeks are known");
        assert!((jobs - expected).abs() < 2.5, "day {day}, {hour} o'clock: {jobs}");
        assert!((terms.iter().map(|(_, jobs)| jobs).sum::<f64>().max(0.0) - jobs).abs() < 1e-9);
        let names: Vec<&str> = terms.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["mean", "hour", "day", "last hour", "last 3 hours", "last day"]);
        // The hour before does not tell that this one is different.
        assert_eq!(today.recent(), before);
    }
    // The second half is predicted from what was before each bin: better than by the last hour.
    let from_s = 4 * DAY_S + weeks / 2 * BIN_S;
    let (model, baseline) = walk_load(&past, from_s, Load::new(BIN_S, 5, true)).expect("there are bins");
    assert_eq!((model.bins, baseline.bins), ((weeks / 2 - 4) as u32, model.bins));
    assert!(model.mean_absolute < 0.6 * baseline.mean_absolute, "{model:?} {baseline:?}");
    assert!(model.r2 > 0.9 && baseline.r2 < 0.8, "{model:?} {baseline:?}");
}

#[test]
fn errors_are_those_of_their_definition() {
    // Predictions 1 and 3 of 2 and 6: the squares 1 and 9 are left of 4 and 4.
    let found = errors(&[(1.0, 2.0), (3.0, 6.0)]).expect("there are two");
    assert_eq!(found, LoadErrors { bins: 2, mean_absolute: 2.0, r2: 1.0 - 10.0 / 8.0 });
    assert_eq!(errors(&[]), None);
}

/// Later arrivals change no prediction before them.
#[test]
fn a_prediction_is_of_the_past_alone() {
    let mut rng = Rng::with_seed(2);
    let counts: Vec<u64> = (0..2_000).map(|_| rng.u64(0..5)).collect();
    let mut one = Load::new(BIN_S, 5, true);
    let mut other = one.clone();
    let (past, all) = (arrivals(counts[..1_500].iter().copied()), arrivals(counts.iter().copied()));
    let now_s = 4 * DAY_S + 1_500 * BIN_S;
    past.iter().for_each(|at_s| one.arrive(*at_s));
    all.iter().filter(|at_s| **at_s < now_s).for_each(|at_s| other.arrive(*at_s));
    one.advance(now_s);
    other.advance(now_s);
    assert_eq!(one.predict(), other.predict());
    assert!(one.predict().is_some());
}

#[test]
fn the_present_bin_counts_at_once_and_an_hour_is_the_baseline() {
    let mut load = Load::new(BIN_S, 5, false);
    assert_eq!((load.recent(), load.at_least(), load.bin_ends_s()), (0.0, 0.0, None));
    (0..16).for_each(|_| load.arrive(30));
    assert_eq!((load.recent(), load.at_least(), load.bin_ends_s()), (0.0, 3.2, Some(600)));
    load.arrive(700);
    assert_eq!((load.recent(), load.at_least(), load.bin_ends_s()), (16.0, 0.2, Some(1200)));
    load.advance(6 * BIN_S);
    assert_eq!(load.recent(), 17.0 / 6.0);
    load.advance(7 * BIN_S);
    assert_eq!(load.recent(), 1.0 / 6.0);
    assert_eq!(load.predict(), None, "it has learned less than a day");
}

#[test]
fn a_day_without_arrivals_is_a_gap() {
    let mut load = Load::new(BIN_S, 1, true);
    arrivals((0..300).map(|_| 6)).iter().for_each(|at_s| load.arrive(*at_s));
    let end_s = 4 * DAY_S + 300 * BIN_S;
    load.advance(end_s);
    let full = load.predict().expect("two days were learned").jobs;
    assert!((full - 6.0).abs() < 0.2, "{full}");
    let mut quiet = load.clone();
    quiet.advance(end_s + DAY_S - BIN_S);
    assert!(quiet.predict().expect("it is no gap").jobs < 1.0);
    // After a gap, there is nothing before the first bin; what was learned stays.
    load.arrive(end_s + 30 * DAY_S);
    assert_eq!((load.recent(), load.predict()), (0.0, None));
    load.advance(end_s + 30 * DAY_S + BIN_S);
    assert!(load.predict().is_some());
}
