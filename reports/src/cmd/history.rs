//! `report history`: how the times of jobs changed over runs, such as those of the commits of a program.

use std::path::PathBuf;

use cli::table::{self, Table, TableOptions};
use record::rows::{CellHistory, History, HistoryLevel, HistoryPoint, HistoryRun, HistoryVerdict, to_json};
use rig::{Exit, output};
use schema::units::Nanos;
use statistics::levels::MIN_RUNS;

use crate::{history::history, phrases::first_of, report::Report};

/// The letters of a time up to its minute.
const TO_THE_MINUTE: usize = 16;

/// The number of digits of a revision that are shown.
const DIGITS: usize = 12;

/// The most cells that one sentence names.
const MOST_NAMED: usize = 5;

/// Show how the times of jobs changed over runs, and where: did a commit make them slower?
///
/// The runs are put in the order of their starts. For each job alone, on each device, the table has its step time (its duration if it
/// has no steps) in each run, with the 95 % interval within that run, and the revision of the source tree of the
/// user's programs if the run has recorded one, and otherwise of Tandem. A `+` means that files differed from the revision.
///
/// A change is from one level of at least two runs to another. PELT proposes changes, and a t test over runs has to confirm each; its
/// p-value is corrected for the number of runs at which a change could be, and of jobs. Of a hundred histories without a change, two
/// to five have one. Four runs are the fewest that can show any. A change in the last run alone cannot be told from a bad moment of
/// the machine: measure its revision again.
///
/// Machines drift. Runs of a machine whose speed wanders change their level without any change of the program, and no statistics of the
/// runs can tell one from the other. `report compare RUN --jobs OLD,NEW` compares two versions in turns. Runs on different
/// kinds of machines or devices form separate histories. A run names no host, so that two machines of one kind are one machine here.
///
/// If no change is shown, the sentence below the table has the change from the first to the second half of the runs that is shown with a
/// probability of 80 %. Runs with warnings count like others; `notes` has their warnings, and the sentence of a change has their number.
///
/// The exit code is 0 for whatever is found, and 4 if no run measured a job alone. `report table history RUN...` has the numbers of the
/// picture that `report RUN...` draws.
///
/// Example: `report history runs/nightly`
///
/// Example: `report history runs/before runs/after-1 runs/after-2 runs/after-3 --json`
///
/// Example: `report runs/nightly --out nightly-page`
#[derive(clap::Args)]
pub(super) struct Args {
    /// Directories of runs, or of folders that have runs below them.
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Print the history as a JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableOptions,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let report = Report::of(&args.runs, |_| false)?;
    let history = history(&report.runs);
    if history.cells.is_empty() {
        return Err(Exit::NothingMatched.because("no run measured a job alone"));
    }
    if args.json {
        output::print(to_json(&history))?;
        return Ok(Exit::Ok);
    }
    args.table.print(&table_of(&history))?;
    for cell in &history.cells {
        for line in sentences(&history, cell) {
            output::print(line)?;
        }
    }
    for line in untold(&history).into_iter().chain([doubt(&history)]) {
        output::print(line)?;
    }
    for run in &report.runs {
        for problem in &run.problems {
            output::note(format_args!("warning: {}: {problem}", run.name));
        }
    }
    Ok(Exit::Ok)
}

/// One line for each run of each cell.
fn table_of(history: &History) -> Table {
    let header = ["job", "where", "run", "started", "time", "change", "95 % interval", "revision", "notes"];
    let mut lines = table::new(&header);
    lines.mark_text(&["where", "run", "started", "revision", "notes"]);
    for cell in &history.cells {
        for point in &cell.points {
            let run = &history.runs[point.run as usize];
            let change = cell.changes.iter().find(|change| change.run == point.run);
            lines.add_row([
                cell.job.clone(),
                cell.device.clone(),
                run.name.clone(),
                run.started_utc.chars().take(TO_THE_MINUTE).collect(),
                table::or_dash(point.ns.map(Nanos)),
                change.map_or_else(String::new, |change| format!("{:.3}", change.ratio)),
                table::or_dash(interval(point)),
                table::or_dash(revision(run)),
                point.warnings.to_string(),
            ]);
        }
    }
    lines
}

fn interval(point: &HistoryPoint) -> Option<String> {
    let (lo, hi) = point.ns_ci_lo.zip(point.ns_ci_hi)?;
    Some(format!("{} to {}", Nanos(lo), Nanos(hi)))
}

fn revision(run: &HistoryRun) -> Option<String> {
    let digits: String = run.revision.as_ref()?.chars().take(DIGITS).collect();
    Some(if run.dirty == Some(true) { format!("{digits}+") } else { digits })
}

/// What the runs show of a cell.
fn sentences(history: &History, cell: &CellHistory) -> Vec<String> {
    let name = format!("{} on {} ({})", cell.job, cell.device, cell.machine);
    match (cell.verdict, cell.between_runs_percent.zip(cell.detectable_ratio)) {
        (HistoryVerdict::NoneShown, Some((percent, detectable))) => vec![format!(
            "{name}: no change is shown over {} runs, which vary by {percent:.2} %; a change by {:.2} % from the first to the second \
             half would be shown with a probability of 80 %{}",
            cell.levels.iter().map(|level| level.count).sum::<u32>(),
            100.0 * (detectable - 1.0),
            runs_with_warnings(&cell.levels)
        )],
        (HistoryVerdict::Changed, _) => cell
            .changes
            .iter()
            .zip(cell.levels.windows(2))
            .map(|(change, levels)| {
                let run = &history.runs[change.run as usize];
                let revision = revision(run).map(|digits| format!(" at {digits}")).unwrap_or_default();
                let differences = match change.differences.is_empty() {
                    true => "the manifests of both runs agree".into(),
                    false => format!("differs: {}", change.differences.join("; ")),
                };
                format!(
                    "{name}: {:.3} ({:.3} to {:.3}) times the time before, from {}{revision} on; {differences}{}",
                    change.ratio,
                    change.ratio_ci_lo,
                    change.ratio_ci_hi,
                    run.name,
                    runs_with_warnings(levels)
                )
            })
            .collect(),
        // One sentence names them all.
        (HistoryVerdict::CannotTell | HistoryVerdict::NoneShown, _) => Vec::new(),
    }
}

/// The end of a sentence about these levels.
fn runs_with_warnings(levels: &[HistoryLevel]) -> String {
    let sum = |count: fn(&HistoryLevel) -> u32| levels.iter().map(count).sum::<u32>();
    match sum(|level| level.count_with_warnings) {
        0 => String::new(),
        some => {
            format!("; doubtful, because {some} of these {} runs have warnings", sum(|level| level.count))
        }
    }
}

/// One sentence about all cells that have too few runs.
fn untold(history: &History) -> Option<String> {
    let cells = history.cells.iter().filter(|cell| cell.verdict == HistoryVerdict::CannotTell);
    let names: Vec<String> = cells.map(|cell| format!("{} on {}", cell.job, cell.device)).collect();
    let shown = first_of(&names, MOST_NAMED, "; ");
    let reason = format!("fewer than {MIN_RUNS} runs have a time on one machine");
    (!names.is_empty()).then(|| format!("cannot tell, because {reason}: {shown}"))
}

fn doubt(history: &History) -> String {
    let mut machines: Vec<&str> = history.runs.iter().map(|run| &*run.machine).collect();
    machines.sort_unstable();
    machines.dedup();
    let drift = "Machines drift: a change may be one of the machine, above all if all jobs change together.";
    match machines.len() {
        0 | 1 => drift.into(),
        several => format!(
            "{drift} The runs are of {several} kinds of machines or devices: runs on different kinds form separate histories."
        ),
    }
}
