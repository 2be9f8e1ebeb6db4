//! What a run shows, as tables. Programs read the files of the run, or `--json`.

use cli::table::{Table, TableOptions, new, or_dash};
use record::{
    group::Group,
    manifest,
    rows::{Interference, Status, Summary, Warnings},
};
use schema::units::{HumanBytes, Nanos};

use crate::fastest::{Ranked, Standing};

/// The longest shown part of a command, which leaves room for the numbers.
const LONGEST_COMMAND_CHARS: usize = 40;

/// The largest half-width of an interval that is printed. A wider one would look like a measurement.
const WIDEST_PERCENT: f64 = 100.0;

/// The number of repeats below which an interval is so wide that one disturbed repeat makes it useless.
const FEW_REPEATS: u32 = 5;

/// The columns of the summaries of a run.
pub const SUMMARY_COLUMNS: [&str; 11] = [
    "job",
    "median step",
    "95 % interval",
    FASTEST,
    "samples/s",
    "peak memory",
    "device",
    "p99",
    "util",
    "repeats",
    "notes",
];

/// The column that marks the fastest job.
const FASTEST: &str = "fastest";

/// The summaries of a run, one line per job. There is a column for the fastest if a workload has several rows, or if it was named.
pub fn of_summaries(ranked: &[Ranked], options: &TableOptions) -> Table {
    let has_fastest = options.names(FASTEST) || ranked.iter().any(|ranked| ranked.standing.is_some());
    let header = SUMMARY_COLUMNS.into_iter().filter(|name| *name != FASTEST || has_fastest);
    let mut table = new(&header.collect::<Vec<_>>());
    table.mark_text(&["device", "notes"]);
    for &Ranked { row, standing } in ranked {
        let mut cells = vec![
            named(&row.job, row.command.as_deref().filter(|_| row.plan.is_none())),
            step_or_wall(row),
            half_width(row),
        ];
        if has_fastest {
            cells.push(or_dash(standing.map(yes_or_no)));
        }
        cells.extend([
            row.samples_per_s.map_or("-".into(), |rate| format!("{rate:.1}")),
            memory(row),
            row.device.clone(),
            or_dash(row.step_ns_p99.map(Nanos)),
            row.device_util_percent_mean.map_or("-".into(), |percent| format!("{percent:.0} %")),
            and_failed(row.repeats, row.repeats_failed),
            notes(row.status, row.err_detail.as_deref(), &row.warnings),
        ]);
        table.add_row(cells);
    }
    table
}

/// The half-width of the interval between launches.
fn half_width(row: &Summary) -> String {
    match row.half_width_percent {
        None => "-".into(),
        Some(half) if says_nothing(half, row.repeats) => "too few repeats".into(),
        Some(half) => format!("+-{half:.2} %"),
    }
}

/// The peak of a job's tensors. For a program that does not report it, the peak of host memory of all its processes, which is
/// more than tensors.
fn memory(row: &Summary) -> String {
    match (row.peak_memory_bytes, row.host_rss_peak_bytes) {
        (None, Some(resident)) => format!("{} RSS", HumanBytes(resident)),
        (tensors, _) => or_dash(tensors.map(HumanBytes)),
    }
}

/// Whether an interval is wide because of few repeats, and not because the repeats differ.
fn says_nothing(half_width_percent: f64, repeats: u32) -> bool {
    half_width_percent > WIDEST_PERCENT && repeats < FEW_REPEATS
}

fn yes_or_no(standing: Standing) -> &'static str {
    match standing {
        Standing::Fastest => "yes",
        Standing::Maybe(_) => "maybe",
        Standing::Slower => "no",
    }
}

/// The columns of the slowdowns of a run.
pub const INTERFERENCE_COLUMNS: [&str; 13] = [
    "job",
    "beside",
    "slowdown",
    "95 % interval",
    "sharing",
    "throughput of all",
    "throughput 95 %",
    "mean step alone",
    "together",
    "p99",
    "device",
    "blocks",
    "notes",
];

/// The slowdowns of jobs in groups, one line per member of a group.
pub fn of_interference(rows: &[Interference]) -> Table {
    let mut table = new(&INTERFERENCE_COLUMNS);
    table.mark_text(&["beside", "sharing", "device", "notes"]);
    for group in rows.chunk_by(|a, b| (&a.group, &a.sharing) == (&b.group, &b.sharing)) {
        for row in group {
            let others = group.iter().filter(|other| other.seat != row.seat);
            let beside: Vec<String> = others
                .map(|other| match other.device == row.device {
                    true => other.job.clone(),
                    false => format!("{}@on={}", other.job, other.device),
                })
                .collect();
            let ratio = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.3}"));
            let interval = |ends: Option<(f64, f64)>| match ends {
                None => "-".into(),
                // The estimate is the geometric mean of the ends.
                Some((lo, hi)) if says_nothing(50.0 * (hi - lo) / (lo * hi).sqrt(), row.blocks) => {
                    "too few blocks".into()
                }
                Some((lo, hi)) => format!("{lo:.3} to {hi:.3}"),
            };
            table.add_row([
                named(&row.job, row.command.as_deref().filter(|_| row.plan.is_none())),
                beside.join(" + "),
                ratio(row.slowdown),
                interval(row.slowdown_ci_lo.zip(row.slowdown_ci_hi)),
                row.sharing.to_string(),
                ratio(row.group_norm_throughput),
                interval(row.group_norm_throughput_ci_lo.zip(row.group_norm_throughput_ci_hi)),
                or_dash(row.step_ns_alone.map(Nanos)),
                or_dash(row.step_ns_together.map(Nanos)),
                ratio(row.slowdown_p99),
                row.device.clone(),
                and_failed(row.blocks, row.blocks_failed),
                notes(row.status, row.err_detail.as_deref(), &row.warnings),
            ]);
        }
    }
    table
}

/// The name of a job. The name of a command that its user has not named says little, and the beginning of the command line follows.
fn named(job: &str, command: Option<&str>) -> String {
    let Some(command) = command.filter(|_| job.starts_with("cmd-")) else { return job.into() };
    let shown: String = command.chars().take(LONGEST_COMMAND_CHARS).collect();
    let rest = if shown.len() < command.len() { ".." } else { "" };
    format!("{job}: {shown}{rest}")
}

/// The pace, if it differs from the median step by more than this factor.
const PACE_DIFFERS: f64 = 1.05;

/// The median of step times, with the mean if it differs, or the run time of a program without steps.
fn step_or_wall(row: &Summary) -> String {
    match (row.step_ns_median, row.wall_ns) {
        (None, Some(wall)) => format!("runs {}", Nanos(wall)),
        (step, _) => or_dash(step.map(|step| step_and_pace(step, row.step_ns_mean))),
    }
}

/// The median step, and the mean if it differs.
pub(crate) fn step_and_pace(median_ns: u64, mean_ns: Option<u64>) -> String {
    let median = Nanos(median_ns);
    let differs = |mean_ns: &u64| {
        let ratio = *mean_ns as f64 / median_ns as f64;
        !(PACE_DIFFERS.recip()..=PACE_DIFFERS).contains(&ratio)
    };
    match mean_ns.filter(differs) {
        Some(mean_ns) => format!("{median}, pace {}", Nanos(mean_ns)),
        None => median.to_string(),
    }
}

/// The number of measurements, with the number of failures.
fn and_failed(ok: u32, failed: u32) -> String {
    match failed {
        0 => ok.to_string(),
        failed => format!("{ok} and {failed} failed"),
    }
}

fn notes(status: Status, detail: Option<&str>, warnings: &Warnings) -> String {
    match (status, detail) {
        (Status::Ok, _) => warnings.to_string().replace(';', "; "),
        (status, Some(detail)) => format!("{status}: {detail}"),
        (status, None) => status.to_string(),
    }
}

/// The cells of a run, one line each, with the number of launches.
pub fn of_cells(title: &str, cells: &[manifest::Cell], launches: u32) -> Table {
    let mut table = new(&[title, "memory", "launches"]);
    table.mark_text(&["launches"]);
    for cell in cells {
        let memory = or_dash(cell.memory_estimate_bytes.map(HumanBytes));
        table.add_row([cell.name.clone(), memory, or_reason(cell.unsupported.as_ref(), launches)]);
    }
    table
}

/// The groups of a run, with the number of visits of each.
pub fn of_groups(groups: &[Group], visits: u32) -> Table {
    let mut table = new(&["group", "sharing", "visits"]);
    table.mark_text(&["sharing", "visits"]);
    for group in groups {
        let visits = or_reason(group.unsupported.as_ref(), visits);
        table.add_row([group.name.clone(), group.sharing.to_string(), visits]);
    }
    table
}

/// The number of starts, or the reason that there are none.
fn or_reason(unsupported: Option<&String>, times: u32) -> String {
    unsupported.map_or_else(|| times.to_string(), |reason| format!("none: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        record::rows::from_json(
            r#"{"run": "r", "job": "a", "workload": "a", "device": "cpu:0", "threads": 1, "sharing": "alone", "repeats": 2,
            "repeats_failed": 0, "warnings": "", "status": "ok"}"#,
        )
        .expect("a row")
    }

    #[test]
    fn an_interval_that_says_nothing_is_no_number() {
        for (half_width_percent, repeats, expected) in [
            (None, 1, "-"),
            (Some(4.5), 2, "+-4.50 %"),
            (Some(7261.0), 2, "too few repeats"),
            (Some(7261.0), 5, "+-7261.00 %"),
        ] {
            let rows = [Summary { half_width_percent, repeats, ..summary() }];
            let table = of_summaries(&crate::fastest::ranked(&rows), &TableOptions::default());
            assert_eq!(table.cell(0, "95 % interval"), Some(expected));
        }
        for (ends, blocks, expected) in [
            ((0.01, 90.0), 2, "too few blocks"),
            ((0.01, 90.0), 5, "0.010 to 90.000"),
            ((0.5, 2.0), 2, "0.500 to 2.000"),
        ] {
            let row = Interference {
                slowdown_ci_lo: Some(ends.0),
                slowdown_ci_hi: Some(ends.1),
                blocks,
                ..Interference::default()
            };
            assert_eq!(of_interference(&[row]).cell(0, "95 % interval"), Some(expected));
        }
    }

    #[test]
    fn memory_of_tensors_and_resident_memory_are_told_apart() {
        for (peak_memory_bytes, host_rss_peak_bytes, expected) in [
            (Some(3 << 20), Some(9 << 20), "3.00 MiB"),
            (None, Some(9 << 20), "9.00 MiB RSS"),
            (None, None, "-"),
        ] {
            let rows = [Summary { peak_memory_bytes, host_rss_peak_bytes, ..summary() }];
            let table = of_summaries(&crate::fastest::ranked(&rows), &TableOptions::default());
            assert_eq!(table.cell(0, "peak memory"), Some(expected));
        }
    }

    #[test]
    fn a_command_is_shown_and_a_long_one_is_cut() {
        assert_eq!(named("lstm@b8@dp1", None), "lstm@b8@dp1");
        assert_eq!(named("cmd-sh-1", Some("sh -c 'a b'")), "cmd-sh-1: sh -c 'a b'");
        assert_eq!(named("mine", Some("sh -c 'a b'")), "mine", "its user has named it");
        assert_eq!(named("cmd-x-1", Some(&"x".repeat(41))), format!("cmd-x-1: {}..", "x".repeat(40)));
    }
}
