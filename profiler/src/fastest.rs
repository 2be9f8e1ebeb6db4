//! Finds the fastest of several ways to run a workload, as far as the intervals of a run allow.

use record::rows::Summary;
use statistics::{
    Interval,
    stop::{MIN_REPEATS, MOST_LAUNCHES, launches_to_part},
};

/// A row for people to read, and its comparison with the rows of the same workload.
pub struct Ranked<'a> {
    pub row: &'a Summary,
    /// `None` if the row has no numbers, or no other row of its workload has.
    pub standing: Option<Standing>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Standing {
    Fastest,
    /// Its interval overlaps with that of the fastest.
    Maybe(Repeats),
    Slower,
}

/// The number of repeats that would separate a row from the fastest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Repeats {
    About(usize),
    /// More than [`MOST_LAUNCHES`].
    TooMany,
    /// One of the two rows has no interval to estimate the number from.
    Unknown,
}

/// The rows grouped by workload, in the order in which the workloads first occur, and sorted by speed within a workload, the
/// fastest first. A row without numbers is the last of its workload.
pub fn ranked(summaries: &[Summary]) -> Vec<Ranked<'_>> {
    let mut workloads: Vec<&str> = Vec::new();
    for row in summaries {
        if !workloads.contains(&&*row.workload) {
            workloads.push(&row.workload);
        }
    }
    let of = |workload| summaries.iter().filter(move |row| row.workload == workload).collect();
    workloads.into_iter().flat_map(|workload| of_workload(of(workload))).collect()
}

fn of_workload(rows: Vec<&Summary>) -> Vec<Ranked<'_>> {
    let has_samples = |row: &&Summary| row.step_ns_median.is_none() || row.samples_per_s.is_some();
    let speed: fn(&Summary) -> Option<Speed> =
        if rows.iter().all(has_samples) { Speed::in_samples } else { Speed::in_steps };
    let mut rows: Vec<(&Summary, Option<Speed>)> = rows.into_iter().map(|row| (row, speed(row))).collect();
    let per_s = |speed: &Option<Speed>| speed.map_or(0.0, |speed| speed.per_s);
    rows.sort_by(|(_, one), (_, other)| per_s(other).total_cmp(&per_s(one)));
    let fastest = match &rows[..] {
        [(_, Some(fastest)), (_, Some(_)), ..] => Some(*fastest),
        _ => None,
    };
    let standing = |place, speed| match place {
        0 => Some(Standing::Fastest).filter(|_| fastest.is_some()),
        _ => Some(Speed::beside(speed?, fastest?)),
    };
    let ranked = |(place, (row, speed))| Ranked { row, standing: standing(place, speed) };
    rows.into_iter().enumerate().map(ranked).collect()
}

#[derive(Clone, Copy)]
struct Speed {
    per_s: f64,
    interval: Option<Interval>,
}

impl Speed {
    fn in_samples(row: &Summary) -> Option<Speed> {
        Some(Speed::of(row, row.samples_per_s?))
    }

    fn in_steps(row: &Summary) -> Option<Speed> {
        Some(Speed::of(row, 1e9 / row.step_ns_median? as f64))
    }

    /// The speed of a row. The interval of a rate is as wide as that of the median step, because a launch that is slower by a
    /// factor is so in both.
    fn of(row: &Summary, per_s: f64) -> Speed {
        let ends = row.step_ns_median.zip(row.step_ns_median_ci_lo.zip(row.step_ns_median_ci_hi));
        let interval = ends.map(|(median, (lo, hi))| Interval {
            estimate: per_s,
            lo: per_s * median as f64 / hi as f64,
            hi: per_s * median as f64 / lo as f64,
            n: row.repeats as usize,
        });
        Speed { per_s, interval }
    }

    fn beside(self, fastest: Speed) -> Standing {
        let Some((own, best)) = self.interval.zip(fastest.interval) else {
            return Standing::Maybe(Repeats::Unknown);
        };
        match launches_to_part(&own, &best) {
            _ if own.hi < best.lo => Standing::Slower,
            Some(launches) => Standing::Maybe(Repeats::About(launches)),
            None => Standing::Maybe(Repeats::TooMany),
        }
    }
}

/// The lines below a table of these rows. For each workload with several rows they name the fastest, and the number of repeats
/// that would separate it from the others that may be as fast.
pub fn lines(ranked: &[Ranked]) -> Vec<String> {
    ranked.chunk_by(|one, other| one.row.workload == other.row.workload).flat_map(lines_of_workload).collect()
}

fn lines_of_workload(ranked: &[Ranked]) -> Vec<String> {
    let [first, others @ ..] = ranked else { return Vec::new() };
    if first.standing != Some(Standing::Fastest) {
        return Vec::new();
    }
    let name = |row: &Summary| format!("{}@on={}", row.job, row.device);
    let may_be = |other: &Ranked| {
        let Some(Standing::Maybe(repeats)) = other.standing else { return None };
        let remedy = match repeats {
            Repeats::About(repeats) => format!("about {repeats} repeats would tell (an estimate)"),
            Repeats::TooMany => format!("more than {MOST_LAUNCHES} repeats would tell (an estimate)"),
            Repeats::Unknown => format!("an interval needs at least {MIN_REPEATS} repeats"),
        };
        Some(format!("  {} may be as fast; {remedy}", name(other.row)))
    };
    let measured = ranked.iter().filter(|ranked| ranked.standing.is_some()).count();
    let fastest = format!("fastest of {measured}: {}", name(first.row));
    std::iter::once(fastest).chain(others.iter().filter_map(may_be)).collect()
}

#[cfg(test)]
mod tests {
    use record::rows;

    use super::*;

    /// A row of a workload with five launches: the median step, and its distance to the ends of the interval.
    fn row(
        workload: &str,
        plan: &str,
        step_ns: Option<u64>,
        ends_ns: u64,
        samples_per_s: Option<f64>,
    ) -> Summary {
        let row: Summary = rows::from_json(&format!(
            r#"{{"run": "r", "job": "{workload}@b8@{plan}", "workload": "{workload}", "plan": "{plan}", "device": "cpu:0",
            "threads": 1, "sharing": "alone", "repeats": 5, "repeats_failed": 0, "warnings": "", "status": "ok"}}"#
        ))
        .expect("a row");
        Summary {
            step_ns_median: step_ns,
            step_ns_median_ci_lo: step_ns.map(|ns| ns - ends_ns),
            step_ns_median_ci_hi: step_ns.map(|ns| ns + ends_ns),
            samples_per_s,
            ..row
        }
    }

    fn found(rows: &[Summary]) -> Vec<(&str, Option<Standing>)> {
        ranked(rows).iter().map(|ranked| (&*ranked.row.job, ranked.standing)).collect()
    }

    #[test]
    fn rows_of_a_workload_stand_together_and_the_fastest_is_first() {
        let rows = [
            row("lstm", "gc", Some(200), 2, Some(4e7)),
            row("vae", "dp1", Some(7), 1, Some(1e9)),
            row("lstm", "ga2", None, 0, None),
            row("lstm", "dp1", Some(100), 1, Some(8e7)),
        ];
        let expected = [
            ("lstm@b8@dp1", Some(Standing::Fastest)),
            ("lstm@b8@gc", Some(Standing::Slower)),
            ("lstm@b8@ga2", None),
            ("vae@b8@dp1", None),
        ];
        assert_eq!(found(&rows), expected);
        assert_eq!(lines(&ranked(&rows)), ["fastest of 2: lstm@b8@dp1@on=cpu:0"]);
    }

    #[test]
    fn samples_count_and_steps_only_where_samples_are_not_known() {
        let slow_step = |samples| row("lstm", "ga2", Some(400), 1, samples);
        let rows = [row("lstm", "dp1", Some(100), 1, Some(8e7)), slow_step(Some(9e7))];
        assert_eq!(found(&rows)[0].0, "lstm@b8@ga2");
        let rows = [slow_step(None), row("lstm", "dp1", Some(100), 1, Some(8e7))];
        assert_eq!(found(&rows)[0].0, "lstm@b8@dp1");
    }

    #[test]
    fn a_row_whose_interval_overlaps_with_that_of_the_fastest_may_be_as_fast() {
        let rows = [
            row("lstm", "dp1", Some(1000), 10, Some(8e6)),
            row("lstm", "ga2", Some(1010), 10, Some(8e6 / 1.01)),
            row("lstm", "ga4", Some(1000), 10, Some(8e6)),
            row("lstm", "gc", Some(1021), 10, Some(8e6 / 1.021)),
        ];
        let found = found(&rows);
        let [_, (_, same), (_, Some(Standing::Maybe(Repeats::About(repeats)))), (_, apart)] = found[..]
        else {
            panic!("{found:?}")
        };
        // Half as wide as with 5: a quarter of the variance, of which t makes some less.
        assert!((12..=20).contains(&repeats), "{repeats}");
        assert_eq!((same, apart), (Some(Standing::Maybe(Repeats::TooMany)), Some(Standing::Slower)));
        let lines = lines(&ranked(&rows));
        assert!(lines[1].ends_with("more than 1000 repeats would tell (an estimate)"), "{lines:?}");
        assert_eq!(lines[0], "fastest of 4: lstm@b8@dp1@on=cpu:0");
        assert_eq!(
            lines[2],
            format!(
                "  lstm@b8@ga2@on=cpu:0 may be as fast; about {repeats} repeats would tell (an estimate)"
            )
        );
    }

    #[test]
    fn without_intervals_nothing_is_told_apart() {
        let once = |plan, ns: u64| Summary {
            step_ns_median_ci_lo: None,
            step_ns_median_ci_hi: None,
            ..row("lstm", plan, Some(ns), 0, None)
        };
        let rows = [once("dp1", 900), once("ga2", 100)];
        let found = found(&rows);
        assert_eq!(found[1], ("lstm@b8@dp1", Some(Standing::Maybe(Repeats::Unknown))));
        assert!(lines(&ranked(&rows))[1].ends_with("may be as fast; an interval needs at least 3 repeats"));
    }
}
