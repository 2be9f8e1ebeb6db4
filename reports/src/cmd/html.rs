//! `report RUN...`: writes the folder of a report.

use std::path::PathBuf;

use rig::{Exit, output};

use crate::{files, report::Report};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Directories of runs, or of folders that have runs below them, or the table of `sched fit --duration`.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The folder to write, which may hold an older report [default: report/ in the first RUN, or beside it if it is a table].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let report = Report::of(&args.runs, |_| true)?;
    let beside = || {
        let first = &args.runs[0];
        if first.is_file() { first.with_file_name("report") } else { first.join("report") }
    };
    let folder = args.out.clone().unwrap_or_else(beside);
    let progress = super::progress::of_figures(report.figures.len());
    files::write(&report, &folder, || progress.inc(1))?;
    progress.finish_and_clear();
    for run in &report.runs {
        for problem in &run.problems {
            output::note(format_args!("{}: {problem}", run.name));
        }
    }
    output::print(folder.join("index.html").display())?;
    Ok(Exit::Ok)
}
