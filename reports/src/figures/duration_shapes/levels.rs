//! The levels of features: their names for people, and the order in which they are drawn.

use std::{cmp::Reverse, collections::BTreeMap};

const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// A feature for people.
pub(super) fn words(feature: &str) -> &str {
    match feature {
        "recurring_job" => "recurring job",
        "vc" => "virtual cluster",
        "last_duration" => "duration of the last job of its series",
        "hour" => "hour",
        "day" => "day of the week",
        "devices" => "number of devices",
        other => other,
    }
}

/// The day of the week of a level, which is a number from Monday as 0.
pub(super) fn days(level: &str) -> String {
    let day = level.parse::<usize>().ok().and_then(|day| DAYS.get(day));
    day.map_or_else(|| if level.is_empty() { "unknown".into() } else { level.into() }, |day| (*day).into())
}

/// The hour of a level.
pub(super) fn hour(level: &str) -> Option<f64> {
    level.parse().ok().filter(|hour: &f64| hour.is_finite())
}

/// The duration of a level such as `729s`, in nanoseconds.
pub(super) fn seconds(level: &str) -> Option<f64> {
    let seconds: f64 = level.strip_suffix('s')?.parse().ok()?;
    (seconds.is_finite() && seconds > 0.0).then_some(seconds * 1e9)
}

/// The quantity by which the levels of a feature are in order. `None` if they have no order of their own.
pub(super) fn order(feature: &str) -> Option<fn(&str) -> Option<f64>> {
    match feature {
        "hour" | "day" | "devices" => Some(hour),
        "last_duration" => Some(seconds),
        _ => None,
    }
}

/// The levels of a feature with the most jobs, in their own order, or else the ones with more jobs first. `jobs` may have a level several
/// times.
pub(super) fn chosen<'a>(
    feature: &str,
    jobs: impl Iterator<Item = (&'a str, u32)>,
    most: usize,
) -> Vec<&'a str> {
    let mut of_levels: BTreeMap<&str, u64> = BTreeMap::new();
    jobs.for_each(|(level, jobs)| *of_levels.entry(level).or_default() += u64::from(jobs));
    let mut levels: Vec<(&str, u64)> = of_levels.into_iter().collect();
    levels.sort_by_key(|(level, jobs)| (Reverse(*jobs), *level));
    let mut levels: Vec<&str> = levels.into_iter().take(most).map(|(level, _)| level).collect();
    if let Some(quantity) = order(feature) {
        // An unknown level is last.
        let key = |level: &str| quantity(level).unwrap_or(f64::INFINITY);
        levels.sort_by(|a, b| key(a).total_cmp(&key(b)));
    }
    levels
}
