//! Tables for people. Programs read the files of a run, or `--json`.

mod arrangement;
mod options;
mod width;

use comfy_table::{Cell, CellAlignment, ColumnConstraint, Width, presets};
use rig::output;

use self::arrangement::{Arrangement, Extent, MayLeaveOut};
pub use self::options::{TableLayout, TableOptions};

/// A table with a header. Its first column is text, and the others are numbers unless they are marked as text.
///
/// The columns are in the order of their importance: in a narrow terminal, the last columns of numbers are left out first.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Clone, Debug)]
struct Column {
    name: String,
    /// Text is left-aligned, and is broken into lines where a table would be too wide.
    is_text: bool,
}

/// A table without rows.
pub fn new(header: &[&str]) -> Table {
    let column = |(index, name): (usize, &&str)| Column { name: (*name).to_owned(), is_text: index == 0 };
    Table { columns: header.iter().enumerate().map(column).collect(), rows: Vec::new() }
}

impl Table {
    /// Marks columns as text. A last column of text, such as notes or a verdict, is never left out.
    pub fn mark_text(&mut self, names: &[&str]) {
        for column in &mut self.columns {
            column.is_text |= names.contains(&column.name.as_str());
        }
    }

    pub fn add_row<Cells>(&mut self, cells: Cells)
    where
        Cells: IntoIterator,
        Cells::Item: Into<String>,
    {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// A cell by the number of its row and the name of its column.
    pub fn cell(&self, row: usize, column: &str) -> Option<&str> {
        Some(&self.rows.get(row)?[self.index(column)?])
    }

    /// The name of each column, and whether it is text.
    pub fn header(&self) -> impl Iterator<Item = (&str, bool)> {
        self.columns.iter().map(|column| (column.name.as_str(), column.is_text))
    }

    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    fn names(&self) -> Vec<&str> {
        self.columns.iter().map(|column| column.name.as_str()).collect()
    }

    /// The table of these columns, in this order.
    fn with_columns(&self, indices: &[usize]) -> Table {
        Table {
            columns: indices.iter().map(|&index| self.columns[index].clone()).collect(),
            rows: self
                .rows
                .iter()
                .map(|row| indices.iter().map(|&index| row[index].clone()).collect())
                .collect(),
        }
    }

    fn extents(&self) -> Vec<Extent> {
        let widths = self.unbroken().column_max_content_widths();
        let extent =
            |(column, width): (&Column, u16)| Extent { width: width.into(), is_text: column.is_text };
        self.columns.iter().zip(widths).map(extent).collect()
    }

    /// The table with each text on one line.
    fn unbroken(&self) -> comfy_table::Table {
        let mut drawn = comfy_table::Table::new();
        drawn.load_style(presets::NOTHING);
        drawn.set_header(self.columns.iter().map(|column| Cell::new(&column.name)));
        for row in &self.rows {
            drawn.add_row(row);
        }
        for (column, drawn) in self.columns.iter().zip(drawn.column_iter_mut()) {
            drawn.set_cell_alignment(if column.is_text { CellAlignment::Left } else { CellAlignment::Right });
        }
        drawn
    }

    /// The table in lines that are at most this wide, if its numbers leave room for that.
    fn within(&self, width: usize, may_leave_out: MayLeaveOut) -> String {
        let Arrangement { columns, widths } = arrangement::arrange(&self.extents(), width, may_leave_out);
        let mut drawn = self.with_columns(&columns).unbroken();
        for (column, width) in drawn.column_iter_mut().zip(widths) {
            let padded = Width::Fixed(width as u16 + column.padding_width());
            column.set_constraint(ColumnConstraint::Absolute(padded));
        }
        let mut text = drawn.trim_fmt();
        let left_out: Vec<&str> = (0..self.columns.len())
            .filter(|index| !columns.contains(index))
            .map(|index| self.columns[index].name.as_str())
            .collect();
        if !left_out.is_empty() {
            let count = left_out.len();
            let noun = if count == 1 { "column is" } else { "columns are" };
            let note = format!("{count} {noun} left out: {}; --wide prints all", left_out.join(", "));
            text.push('\n');
            text.push_str(&paragraph(&note, width));
        }
        text
    }

    /// A block of lines for each row, with the name of a column and its value on each line.
    fn blocks(&self) -> Table {
        let mut lines = new(&["", ""]);
        lines.columns[1].is_text = true;
        for (index, row) in self.rows.iter().enumerate() {
            if index > 0 {
                lines.add_row(["", ""]);
            }
            for (column, cell) in self.columns.iter().zip(row) {
                lines.add_row([&column.name, cell]);
            }
        }
        lines
    }
}

/// A text in lines of at most this width.
fn paragraph(text: &str, width: usize) -> String {
    let mut lines = new(&[""]);
    lines.add_row([text]);
    headless(&lines.within(width, MayLeaveOut::Nothing))
}

/// A drawn table without the line of its header.
fn headless(drawn: &str) -> String {
    drawn.split_once('\n').map_or("", |(_, rows)| rows).to_owned()
}

/// A table of which every column is text.
pub fn of_sentences(header: &[&str]) -> Table {
    let mut table = new(header);
    table.mark_text(header);
    table
}

/// The longest line of a sentence that is read with ease.
const READABLE_WIDTH: usize = 80;

/// Prints a table of sentences.
///
/// # Errors
/// The errors of [`output::print`].
pub fn print_sentences(table: &Table) -> anyhow::Result<()> {
    output::print(table.within(width::of_stdout().min(READABLE_WIDTH), MayLeaveOut::Nothing))
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

    fn jobs() -> Table {
        let mut table = new(&["job", "median step", "p99", "util", "notes"]);
        table.mark_text(&["notes"]);
        table.add_row([
            "lstm@b20@dp1",
            "9.15 ms",
            "11.0 ms",
            "95 %",
            "a few steps, and other users of the machine",
        ]);
        table.add_row(["vae@b8@dp1", "123 ms", "-", "7 %", ""]);
        table
    }

    #[test]
    fn a_table_that_fits_has_all_columns_and_unbroken_texts() {
        assert_eq!(
            jobs().within(86, MayLeaveOut::FromTheRight),
            " job           median step      p99  util  notes
 lstm@b20@dp1      9.15 ms  11.0 ms  95 %  a few steps, and other users of the machine
 vae@b8@dp1         123 ms        -   7 %"
        );
    }

    #[test]
    fn texts_are_broken_before_numbers_are_left_out() {
        assert_eq!(
            jobs().within(65, MayLeaveOut::FromTheRight),
            " job           median step      p99  util  notes
 lstm@b20@dp1      9.15 ms  11.0 ms  95 %  a few steps, and other
                                           users of the machine
 vae@b8@dp1         123 ms        -   7 %"
        );
    }

    #[test]
    fn the_numbers_on_the_right_are_left_out_and_named() {
        assert_eq!(
            jobs().within(45, MayLeaveOut::FromTheRight),
            " job           median step  notes
 lstm@b20@dp1      9.15 ms  a few steps, and
                            other users of
                            the machine
 vae@b8@dp1         123 ms
 2 columns are left out: p99, util; --wide
 prints all"
        );
    }

    #[test]
    fn texts_become_narrow_before_an_interval_is_left_out() {
        let mut table = new(&["job", "beside", "slowdown", "95 % interval", "p99", "notes"]);
        table.mark_text(&["beside", "notes"]);
        table.add_row([
            "lstm@b20@dp1",
            "vae@b8@dp1 + lstm@b20@dp1",
            "1.903",
            "1.801 to 2.011",
            "2.1",
            "other users of it",
        ]);
        assert_eq!(
            table.within(72, MayLeaveOut::FromTheRight),
            " job           beside           slowdown   95 % interval  notes
 lstm@b20@dp1  vae@b8@dp1 +        1.903  1.801 to 2.011  other users of
               lstm@b20@dp1                               it
 1 column is left out: p99; --wide prints all"
        );
    }

    #[test]
    fn every_line_fits_whatever_the_width() {
        for width in 40..120 {
            let drawn = jobs().within(width, MayLeaveOut::FromTheRight);
            assert!(drawn.lines().all(|line| line.chars().count() <= width), "{width}:\n{drawn}");
        }
    }

    #[test]
    fn a_block_has_a_line_for_each_column() {
        assert_eq!(
            headless(&jobs().with_columns(&[0, 4, 1]).blocks().within(40, MayLeaveOut::Nothing)),
            " job          lstm@b20@dp1
 notes        a few steps, and other
              users of the machine
 median step  9.15 ms

 job          vae@b8@dp1
 notes
 median step  123 ms"
        );
    }
}
