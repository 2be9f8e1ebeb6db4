//! Tables for people. Programs read the files of a run, or `--json`.

use comfy_table::{Cell, CellAlignment, Table, presets};
use rig::output;

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
///
/// # Errors
/// As of [`output::print`].
pub fn print(table: &Table) -> anyhow::Result<()> {
    output::print(table.trim_fmt())
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
