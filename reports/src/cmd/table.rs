//! `report table`: prints the numbers of a figure.

use std::path::PathBuf;

use cli::table::{self, TableOptions};
use record::rows::{FigureNumbers, Value, to_json};
use rig::{Exit, output};

use crate::{
    figures::KINDS,
    files::csv_of,
    report::{Placed, Report},
    table::{Cell, Heading, Table},
};

/// Print the numbers of a figure.
///
/// FIGURE is the name of a kind of figure, such as `summary`, `slowdown-heat` or `jct-cdf`; without RUN, all names are listed. If a
/// kind has several figures, each is printed below its title. The numbers are those that the figure draws.
///
/// Example: `report table summary runs/pairs`
///
/// Example: `report table policies runs/fifo runs/tiresias --csv > policies.csv`
#[derive(clap::Args)]
pub(super) struct Args {
    /// The name of the figure.
    #[arg(value_name = "FIGURE")]
    figure: Option<String>,
    /// Directories of runs, or of folders that have runs below them, or the table of `sched fit --duration`.
    #[arg(value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Print CSV, with plain numbers and the unit in the name of each column.
    #[arg(long, conflicts_with_all = ["json", "columns", "TableLayout"])]
    csv: bool,
    /// Print a JSON list with an object for each figure: its name, title, caption and rows, each an object by column.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableOptions,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let Some(name) = args.figure.as_deref().filter(|_| !args.runs.is_empty()) else {
        return list(args);
    };
    if !KINDS.iter().any(|kind| kind.name == name) {
        return Err(Exit::Usage.because(format!("there is no figure '{name}'; `report table` lists them")));
    }
    let report = Report::of(&args.runs, |kind| kind.name == name)?;
    if report.figures.is_empty() {
        return Err(Exit::NothingMatched.because(format!("the runs have no data for the figure '{name}'")));
    }
    if args.json {
        output::print(to_json(&report.figures.iter().map(numbers_of).collect::<Vec<_>>()))?;
        return Ok(Exit::Ok);
    }
    for placed in &report.figures {
        if report.figures.len() > 1 && !args.csv {
            output::print(format_args!("{}: {}", placed.id, placed.figure.title))?;
        }
        print(placed, args)?;
    }
    Ok(Exit::Ok)
}

fn numbers_of(placed: &Placed) -> FigureNumbers {
    let Table { columns, rows } = placed.figure.chart.table();
    let value = |cell: Cell| match cell {
        Cell::Missing => Value::Missing,
        Cell::Text(text) => Value::Text(text),
        Cell::Number { value, .. } => Value::Number(value),
    };
    let row = |row: Vec<Cell>| {
        columns.iter().map(|column| column.name.clone()).zip(row.into_iter().map(value)).collect()
    };
    FigureNumbers {
        figure: placed.id.clone(),
        title: placed.figure.title.clone(),
        caption: placed.figure.caption.clone(),
        doubts: placed.figure.doubts.clone(),
        missing: placed.figure.missing.clone(),
        rows: rows.into_iter().map(row).collect(),
    }
}

fn print(placed: &Placed, args: &Args) -> anyhow::Result<()> {
    let numbers = placed.figure.chart.table();
    if args.csv {
        let text = csv_of(&numbers);
        return output::print_with(|stdout| stdout.write_all(&text));
    }
    args.table.print(&for_terminal(&numbers))?;
    for (words, lines) in [("doubtful", &placed.figure.doubts), ("not drawn", &placed.figure.missing)] {
        lines.iter().for_each(|line| output::note(format_args!("{words}: {line}")));
    }
    Ok(())
}

/// The titles of columns as names for `--columns`: without commas, and `from` and `to` with the quantity before them.
fn names(columns: &[Heading]) -> Vec<String> {
    let mut quantity = String::new();
    let name = |column: &Heading| {
        let title = column.title.replace(", ", " ");
        if ["from", "to"].contains(&title.as_str()) {
            return format!("{quantity} {title}");
        }
        title.strip_suffix(" from").unwrap_or(&title).clone_into(&mut quantity);
        title
    };
    columns.iter().map(name).collect()
}

fn for_terminal(numbers: &Table) -> table::Table {
    let names = names(&numbers.columns);
    let header: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut lines = table::new(&header);
    let is_text = |index: &usize| numbers.rows.iter().any(|row| matches!(row[*index], Cell::Text(_)));
    lines.mark_text(&(0..header.len()).filter(is_text).map(|index| header[index]).collect::<Vec<_>>());
    for row in &numbers.rows {
        lines.add_row(row.iter().map(Cell::shown));
    }
    lines
}

fn list(args: &Args) -> anyhow::Result<Exit> {
    if let Some(name) = &args.figure {
        return Err(Exit::Usage.because(format!("name the runs, as in `report table {name} runs/RUN`")));
    }
    let mut lines = table::new(&["figure", "what it shows"]);
    lines.mark_text(&["what it shows"]);
    for kind in KINDS {
        lines.add_row([kind.name, kind.about]);
    }
    args.table.print(&lines)?;
    Ok(Exit::Ok)
}
