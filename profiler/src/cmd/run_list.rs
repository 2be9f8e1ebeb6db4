//! `profile runs`: the runs in a folder, with their verdicts.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use cli::{
    options::tag,
    table::{self, TableOptions},
};
use record::{
    manifest::Manifest,
    rows::{self, Interference, RunRow, Summary, Usability},
    run_dir::RunDir,
};
use rig::{Exit, output};

/// List the runs in a folder, the newest first, with how they ended and whether their numbers may be quoted.
///
/// Example: `profile runs`
///
/// Example: `profile runs --tag baseline`
///
/// Example: `profile runs /data/runs --json`
#[derive(clap::Args)]
pub(super) struct Args {
    /// The folder with the directories of the runs, or a run.
    #[arg(default_value = "runs")]
    folder: PathBuf,
    /// List only runs with this word of --tag. With several words, runs need all of them.
    #[arg(long = "tag", value_name = "WORD", value_parser = tag)]
    tags: Vec<String>,
    /// Print the list as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableOptions,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut listed = runs_in(&args.folder)?;
    let folder = args.folder.display();
    if listed.is_empty() {
        let why = format!("{folder} has no run; `profile single --out {folder}/NAME` makes one there");
        return Err(Exit::NothingMatched.because(why));
    }
    listed.retain(|row| args.tags.iter().all(|word| row.tags.contains(word)));
    if listed.is_empty() {
        let words = args.tags.join(" and ");
        return Err(Exit::NothingMatched.because(format!("{folder} has no run with the tag {words}")));
    }
    listed.sort_by(|one, other| (&other.started_utc, &other.run).cmp(&(&one.started_utc, &one.run)));
    if args.json {
        output::print(rows::to_json(&listed))?;
    } else {
        let mut lines = table::new(&["run", "started", "command", "tags", "rows", "end", "verdict"]);
        lines.mark_text(&["command", "tags", "end", "verdict"]);
        for row in &listed {
            lines.add_row([
                row.run.clone(),
                row.started_utc.clone(),
                row.command.clone(),
                table::or_dash((!row.tags.is_empty()).then(|| row.tags.join(" "))),
                row.rows.to_string(),
                end(row),
                table::or_dash(row.verdict.as_ref()),
            ]);
        }
        args.table.print(&lines)?;
    }
    Ok(Exit::Ok)
}

/// The runs whose directories lie in a folder, or the folder itself if it is a run. Other folders are left out, and a run that cannot
/// be read is noted.
fn runs_in(folder: &Path) -> anyhow::Result<Vec<RunRow>> {
    if let Ok(run) = RunDir::open(folder) {
        return Ok(vec![row(&run)?]);
    }
    let entries = folder.read_dir().with_context(|| folder.display().to_string())?;
    let mut listed = Vec::new();
    for entry in entries {
        let Ok(run) = RunDir::open(&entry.with_context(|| folder.display().to_string())?.path()) else {
            continue;
        };
        match row(&run) {
            Ok(row) => listed.push(row),
            Err(error) => output::note(format_args!("left out: {}: {error:#}", run.name())),
        }
    }
    Ok(listed)
}

fn row(run: &RunDir) -> anyhow::Result<RunRow> {
    let manifest = run.manifest()?;
    let summaries: Vec<Summary> = table_of(&run.summary_path())?;
    let interference: Vec<Interference> = table_of(&run.interference_path())?;
    let end = run.end()?;
    let missing = end.as_ref().map_or(0, |end| end.missing.len());
    let verdict =
        Usability::of_run(&summaries, &interference, missing).map(|usability| usability.to_string());
    Ok(RunRow {
        run: run.name(),
        command: command(&manifest),
        tags: manifest.tags,
        rows: summaries.len() as u64,
        exit_code: end.map(|end| end.exit_code),
        verdict,
        started_utc: manifest.started_utc,
    })
}

/// The rows of a table, or none if the run has no such table.
fn table_of<T: rows::Row>(path: &Path) -> anyhow::Result<Vec<T>> {
    Ok(if path.is_file() { rows::read(path)? } else { Vec::new() })
}

/// The program and its command, as `profile single`.
fn command(manifest: &Manifest) -> String {
    let words = manifest.command.first().map(String::as_str).into_iter().chain(manifest.subcommand());
    let name = |word: &str| Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned());
    words.filter_map(name).collect::<Vec<_>>().join(" ")
}

fn end(row: &RunRow) -> String {
    match row.exit_code {
        Some(0) => "well".into(),
        Some(code) => format!("exit code {code}"),
        None => "none: goes on, or was killed".into(),
    }
}
