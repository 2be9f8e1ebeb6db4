//! The options with which a user says how tables are printed.

use rig::{Exit, output};

use super::{MayLeaveOut, Table, headless, width};
use crate::heading;

/// How all tables of a command are printed.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
#[group(conflicts_with = "json")]
pub struct TableLayout {
    /// Print all columns of tables, and texts on one line, however wide the terminal is.
    ///
    /// Otherwise a table is as wide as the terminal at most, or without one as the number in the variable COLUMNS, or 80: long texts are
    /// broken into lines, and columns on the right are left out and named below it.
    #[arg(long, help_heading = heading::PRINTED, conflicts_with = "vertical")]
    wide: bool,
    /// Print each row of tables as a block, with a line for each column.
    #[arg(long, help_heading = heading::PRINTED)]
    vertical: bool,
}

impl TableLayout {
    /// # Errors
    /// The errors of [`output::print`].
    pub fn print(self, table: &Table) -> anyhow::Result<()> {
        self.print_with(table, MayLeaveOut::FromTheRight)
    }

    fn print_with(self, table: &Table, may_leave_out: MayLeaveOut) -> anyhow::Result<()> {
        let width = width::of_stdout();
        output::print(match self {
            TableLayout { vertical: true, .. } => {
                headless(&table.blocks().within(width, MayLeaveOut::Nothing))
            }
            TableLayout { wide: true, .. } => table.unbroken().trim_fmt(),
            TableLayout { .. } => table.within(width, may_leave_out),
        })
    }
}

/// How the tables of a command with one main table are printed.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct TableOptions {
    /// The columns of the first table to print, in this order, by their names in the header.
    #[arg(long, help_heading = heading::PRINTED, value_name = "NAME,..", value_delimiter = ',', conflicts_with = "json")]
    columns: Vec<String>,
    #[command(flatten)]
    layout: TableLayout,
}

impl From<TableLayout> for TableOptions {
    fn from(layout: TableLayout) -> TableOptions {
        TableOptions { columns: Vec::new(), layout }
    }
}

impl TableOptions {
    /// The options for the tables below the main one.
    pub fn layout(&self) -> TableLayout {
        self.layout
    }

    /// Whether this column was named.
    pub fn names(&self, column: &str) -> bool {
        self.columns.iter().any(|name| name == column)
    }

    /// Checks the named columns before a command begins its work. These are all columns that its main table can have.
    ///
    /// # Errors
    /// A usage error: there is no such column.
    pub fn check(&self, known: &[&str]) -> anyhow::Result<()> {
        let is_unknown = |name: &&String| !known.contains(&name.as_str());
        self.columns.iter().find(is_unknown).map_or(Ok(()), |name| Err(no_column(name, known)))
    }

    /// Prints the main table of a command.
    ///
    /// # Errors
    /// A usage error if the table has no column of this name, and the errors of [`output::print`].
    pub fn print(&self, table: &Table) -> anyhow::Result<()> {
        self.check(&table.names())?;
        if self.columns.is_empty() {
            return self.layout.print(table);
        }
        let indices: Vec<usize> = self.columns.iter().filter_map(|name| table.index(name)).collect();
        // Columns that were named are printed, even if the terminal breaks their lines.
        self.layout.print_with(&table.with_columns(&indices), MayLeaveOut::Nothing)
    }
}

fn no_column(typed: &str, known: &[&str]) -> anyhow::Error {
    let lower = typed.to_ascii_lowercase();
    let is_part = |name: &str| !lower.is_empty() && name.contains(&lower);
    let nearest = known
        .iter()
        .map(|name| (strsim::levenshtein(name, &lower), name))
        .filter(|(letters, name)| *letters <= 1 + lower.len() / 5 || is_part(name))
        .min();
    let near = nearest.map_or(String::new(), |(_, name)| format!("did you mean '{name}'? "));
    let there = if near.is_empty() { "there are" } else { "There are" };
    Exit::Usage
        .because(format!("--columns: there is no column '{typed}'; {near}{there} {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_column_is_refused_with_the_nearest_name() {
        let known = ["job", "median step", "p99"];
        for (typed, message) in [
            ("p9", "--columns: there is no column 'p9'; did you mean 'p99'? There are job, median step, p99"),
            (
                "step",
                "--columns: there is no column 'step'; did you mean 'median step'? There are job, median step, p99",
            ),
            ("memory", "--columns: there is no column 'memory'; there are job, median step, p99"),
        ] {
            let options =
                TableOptions { columns: vec!["job".into(), typed.into()], ..TableOptions::default() };
            let error = options.check(&known).unwrap_err();
            assert_eq!((error.to_string().as_str(), Exit::of(&error)), (message, Exit::Usage));
        }
    }
}
