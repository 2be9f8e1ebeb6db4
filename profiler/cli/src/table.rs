//! Tables for people. Programs read the files of a run, or `--json`.

pub use comfy_table::Table;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, presets};
use rig::output;

/// A table of plain columns. The first is text; the others are right-aligned.
pub fn new(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.iter().map(Cell::new));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Aligns these columns to the left, as text is.
pub fn align_left(table: &mut Table, columns: &[usize]) {
    for &column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Left);
        }
    }
}

/// The number of columns of the terminal for which tables of sentences are made.
const COLUMNS: u16 = 80;

/// A table of left-aligned sentences, which are broken so that a line has at most 80 columns.
pub fn of_sentences(header: &[&str]) -> Table {
    let mut table = new(header);
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(COLUMNS);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Left);
    }
    table
}

/// Breaks the texts in the first columns of a table, which has all its rows, so that a line has at most `width` characters. The other
/// columns stay whole.
pub fn limit_width(table: &mut Table, width: u16, texts: usize) {
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    for column in table.column_iter_mut().skip(texts) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
}

/// Prints a table without the spaces that would fill its last column.
///
/// # Errors
/// The errors of [`output::print`].
pub fn print(table: &Table) -> anyhow::Result<()> {
    output::print(table.trim_fmt())
}

/// A value, or a dash if it was not measured.
pub fn or_dash<T: std::fmt::Display>(value: Option<T>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// A number with separators between thousands: `11,689,512`.
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
