//! `report table`: prints the numbers of a figure.

use std::path::PathBuf;

use cli::table;
use record::rows::{FigureNumbers, Value, to_json};
use rig::{Exit, output};

use crate::{
    figures::KINDS,
    files::csv_of,
    report::{Placed, Report},
    table::{Cell, Table},
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
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print a JSON list with an object for each figure: its name, title, caption and rows, each an object by column.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let Some(name) = args.figure.as_deref().filter(|_| !args.runs.is_empty()) else {
        return list(args.figure.as_deref());
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
        print(placed, args.csv)?;
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

fn print(placed: &Placed, as_csv: bool) -> anyhow::Result<()> {
    let numbers = placed.figure.chart.table();
    if as_csv {
        let text = csv_of(&numbers);
        return output::print_with(|stdout| stdout.write_all(&text));
    }
    table::print(&for_terminal(&numbers))?;
    for (words, lines) in [("doubtful", &placed.figure.doubts), ("not drawn", &placed.figure.missing)] {
        lines.iter().for_each(|line| output::note(format_args!("{words}: {line}")));
    }
    Ok(())
}

fn for_terminal(numbers: &Table) -> table::Table {
    let header: Vec<&str> = numbers.columns.iter().map(|column| column.title.as_str()).collect();
    let mut lines = table::new(&header);
    for row in &numbers.rows {
        lines.add_row(row.iter().map(Cell::shown));
    }
    lines
}

fn list(asked: Option<&str>) -> anyhow::Result<Exit> {
    if let Some(name) = asked {
        return Err(Exit::Usage.because(format!("name the runs, as in `report table {name} runs/RUN`")));
    }
    let mut lines = table::new(&["figure", "what it shows"]);
    table::align_left(&mut lines, &[1]);
    for kind in KINDS {
        lines.add_row([kind.name, kind.about]);
    }
    table::print(&lines)?;
    Ok(Exit::Ok)
}
