//! `report RUN...`: writes the folder of a report.

use std::path::PathBuf;

use record::rows::{self, WrittenReport};
use rig::{Exit, output};

use crate::{files, report::Report, run::Run};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Directories of runs, or of folders that have runs below them, or the table of `sched fit --duration`.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The folder to write, which may hold an older report [default: report/ in the first RUN, or beside it if it is a table].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the path of the page and the names of its figures as JSON.
    #[arg(long)]
    json: bool,
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
    let of_run = |run: &Run| run.problems.iter().map(|problem| format!("{}: {problem}", run.name)).collect();
    let problems: Vec<String> = report.runs.iter().flat_map(|run| -> Vec<String> { of_run(run) }).collect();
    problems.iter().for_each(output::note);
    let page = folder.join("index.html").display().to_string();
    if args.json {
        let figures = report.figures.iter().map(|placed| placed.id.clone()).collect();
        output::print(rows::to_json(&WrittenReport { page, figures, problems }))?;
    } else {
        output::print(page)?;
    }
    Ok(Exit::Ok)
}
