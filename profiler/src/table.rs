//! Tables for people. Programs read the files of a run, or `--json`.

use comfy_table::{Cell, CellAlignment, Table, presets};
use schema::{
    rows::{Status, Summary},
    units::{HumanBytes, Nanos},
};

/// A table of plain columns; the first is text, the others align to the right.
pub fn new(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.iter().map(Cell::new));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Prints a table without the blanks that would fill its last column.
pub fn print(table: &Table) {
    println!("{}", table.trim_fmt());
}

/// What a run measured, one line a job.
pub fn of_summaries(summaries: &[Summary]) -> Table {
    let mut table = new(&[
        "job",
        "device",
        "step",
        "95 % interval",
        "p99",
        "samples/s",
        "peak memory",
        "util",
        "repeats",
        "notes",
    ]);
    for row in summaries {
        let repeats = match row.repeats_failed {
            0 => row.repeats.to_string(),
            failed => format!("{} and {failed} failed", row.repeats),
        };
        table.add_row([
            row.job.clone(),
            row.device.clone(),
            step_or_wall(row),
            row.half_width_percent.map_or("-".into(), |half| format!("+-{half:.2} %")),
            or_dash(row.step_ns_p99.map(Nanos)),
            row.samples_per_s.map_or("-".into(), |rate| format!("{rate:.1}")),
            or_dash(row.peak_memory_bytes.map(HumanBytes)),
            row.device_util_percent_mean.map_or("-".into(), |percent| format!("{percent:.0} %")),
            repeats,
            notes(row),
        ]);
    }
    if let Some(column) = table.column_mut(9) {
        column.set_cell_alignment(CellAlignment::Left);
    }
    table
}

/// The step time, or how long a program without steps runs.
fn step_or_wall(row: &Summary) -> String {
    match (row.step_ns_median, row.wall_ns) {
        (None, Some(wall)) => format!("runs {}", Nanos(wall)),
        (step, _) => or_dash(step.map(Nanos)),
    }
}

fn notes(row: &Summary) -> String {
    match (row.status, &row.err_detail) {
        (Status::Ok, _) => row.warnings.to_string(),
        (status, Some(detail)) => format!("{status}: {detail}"),
        (status, None) => status.to_string(),
    }
}

/// What was not measured is a dash, never a zero.
pub fn or_dash<T: std::fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// Thousands apart: `11,689,512`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_from_the_right() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (11_689_512, "11,689,512")] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(or_dash(None::<u64>), "-");
    }
}
