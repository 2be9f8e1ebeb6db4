//! `report compare`: what became slower, or takes more memory, from one run to another.

mod junit;
mod lines;
mod markdown;
mod rows;
mod summary_file;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use anyhow::bail;
use cli::table::TableOptions;
use record::rows::{BoundVerdict, Changes, Verdict, to_json};
use rig::{Exit, output};

use self::{lines::percentage, markdown::Sides};
use crate::compare::{ComparedRun, changes, paired};

/// Compare two runs of the same cells: what became slower, or takes more memory?
///
/// For each job alone (its step time, or its duration if it has no steps, and its peak of memory) and each seat of a group (its
/// slowdown), the table has both values, the ratio B over A with a 95 % interval, and a verdict. `slower`, `faster`, `more` and
/// `less` (memory) are shown by Welch's t test on the log scale. `cannot tell` means that the test
/// shows no difference; the runs may still differ, by any ratio in the interval. `detects` is the smallest ratio that this comparison
/// finds with a probability of 80 %. Below the table, and in --json, is the number of launches that each run needs.
///
/// The means and deviations of the test come from the published intervals of summary.csv and interference.csv, which are over
/// launches or over blocks, and from the launches of measurements.csv for memory. Memory that is the same in all launches of a run
/// needs no test: one byte more is `more`. The p-values are corrected for the number of rows by Holm's method, so that about five
/// in a hundred comparisons of equal runs have any finding. In simulations of thirty rows with four launches a side these are three
/// in a hundred, and eight if one run varies three times as much as the other. A row without an interval in one of the runs
/// cannot be told.
///
/// An interval between launches is about the minutes of its run. On a machine whose speed wanders, two runs of the same code
/// differ by more than their intervals promise, and the test takes the difference for one of the code. Measure A and B in turns
/// (A, B, B, A), and let `profile compare` say how much runs of the same code differ. A shift of all times together is more
/// likely the machine than the code. Slowdowns are ratios within blocks and withstand it better.
///
/// Members of a group under `sequential` have no slowdown and are not compared. `sched fidelity A B` compares runs of `sched`.
///
/// With --fail-above, each row has one of three verdicts on the bound. `within`: the whole 95 % interval of the ratio is below
/// it, or memory that does not vary is. `worse`: the ratio is above it by a one-sided test at 0.025, corrected by Holm's method, or
/// memory that does not vary is above it; or the row failed in B; or its time is `missing`: B was to measure it and has no number.
/// `cannot tell`: neither is shown, or the memory of a job is missing, or the row is `not requested`: B was not to measure it.
/// The exit code is 0 if all rows are within, 1 if one is worse, and otherwise 7.
///
/// If no row is truly above the bound, the exit code is 1 in at most 2.5 of 100 comparisons of runs that vary alike. In simulations
/// of thirty rows on the bound with four launches a side it is 1 in 1.5 of 100, and in 3.3 if one run varies three times as much
/// as the other. `within` has no correction and needs none, because the exit code is 0 only if all rows are within: a comparison with
/// one row truly above the bound has it in at most 2.5 of 100 cases. Rows that are new in B are listed and count for nothing.
///
/// Without --fail-above, the exit code is 0 for whatever is found. It is 4 if the runs have nothing in common.
///
/// Example: `report compare runs/before runs/after --fail-above 5%`
///
/// Example: `report compare runs/before runs/after --fail-above 5% --junit compare.xml --markdown compare.md`
///
/// Example: `report compare runs/both --jobs old,new --fail-above 5%`
///
/// Example: `report compare reports/record/20261122-epyc/colocate/all-pairs-1 reports/record/20261122-epyc/colocate/all-pairs-2`
#[derive(clap::Args)]
pub(super) struct Args {
    /// Directory of the run to compare with, or with --jobs the only run.
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Directory of the later run.
    #[arg(value_name = "B", required_unless_present = "jobs")]
    b: Option<PathBuf>,
    /// Compare two jobs of run A, by their names: the second over the first.
    ///
    /// Both were measured in turns, so that the machine was the same for them. The ratio of their times is over the blocks of the
    /// run, by a paired t test on the log scale. The run has to have them alone, and on one device each.
    #[arg(long, value_name = "OLD,NEW", conflicts_with = "b", value_parser = two_jobs)]
    jobs: Option<TwoJobs>,
    /// Decide whether everything is within this bound, such as 5%: exit with code 1 if something is worse, and with 7 if that
    /// cannot be told.
    #[arg(long, value_name = "PCT", value_parser = percent)]
    fail_above: Option<f64>,
    /// Write the rows as tests in JUnit XML, for continuous integration: a row that is worse is a failed test, and a row that cannot be
    /// told is a skipped one. A file of this option from an earlier comparison is removed before the runs are read; any other file is
    /// left alone, and is an error.
    #[arg(long, value_name = "FILE", requires = "fail_above")]
    junit: Option<PathBuf>,
    /// Write a summary in Markdown for a pull request: the verdict, the rows, and what the numbers cannot tell. `-` is the standard
    /// output, in place of the table. Earlier files are removed as by --junit.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Print the comparison as a JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableOptions,
}

/// The names of two jobs.
#[derive(Clone, Debug)]
struct TwoJobs([String; 2]);

fn two_jobs(text: &str) -> Result<TwoJobs, String> {
    match text.split_once(',') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() && old != new => {
            Ok(TwoJobs([old, new].map(str::to_owned)))
        }
        _ => Err("expected the names of two jobs, as OLD,NEW".into()),
    }
}

/// A percentage as a part: `5%` and `5` are 0.05. Parts such as `0.05` are refused, because they may mean 5 %.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    if number.is_some_and(|part| part > 0.0 && part < 1.0) && !text.ends_with('%') {
        let percent = 100.0 * number.unwrap_or_default();
        return Err(format!(
            "'{text}' may mean {percent}% or {text}%; write the one that you mean, with its sign"
        ));
    }
    let is_possible = |percent: &f64| percent.is_finite() && *percent >= 0.0;
    let refusal = || format!("'{text}' is no percentage of at least 0; write it as 5%");
    number.filter(is_possible).map(|percent| percent / 100.0).ok_or_else(refusal)
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let prints_markdown = args.markdown.as_deref() == Some(Path::new("-"));
    if prints_markdown && args.json {
        bail!("--json and --markdown - both print on the standard output; give --markdown a file");
    }
    let (junit, markdown) = (args.junit.as_deref(), args.markdown.as_deref().filter(|_| !prints_markdown));
    if junit == Some(Path::new("-")) {
        bail!("--junit - is no file, and the standard output has the table; give --junit a file");
    }
    if let Some((file, _)) = junit.zip(markdown).filter(|(one, other)| summary_file::is_same(one, other)) {
        bail!("--junit and --markdown both name {}; give each a file of its own", file.display());
    }
    let files = [(junit, junit::MARK), (markdown, markdown::MARK)];
    let files = || files.iter().filter_map(|(file, mark)| Some(((*file)?, *mark)));
    files().try_for_each(|(file, mark)| summary_file::check(file, mark))?;
    files().try_for_each(|(file, _)| summary_file::remove(file))?;
    let a = ComparedRun::open(&args.a)?;
    let changes = match (&args.jobs, &args.b) {
        (Some(TwoJobs(jobs)), _) => paired::changes(&a, jobs, args.fail_above)?,
        (None, Some(b)) => changes(&a, &ComparedRun::open(b)?, args.fail_above),
        (None, None) => bail!("name a second run, or two jobs with --jobs"),
    };
    let sides = if args.jobs.is_some() { Sides::TwoJobs } else { Sides::TwoRuns };
    // Also if nothing can be compared.
    if let Some((file, above)) = junit.zip(args.fail_above) {
        summary_file::write(file, &junit::document(&changes, above)?)?;
    }
    if let Some(file) = markdown {
        summary_file::write(file, &markdown::document(&changes, sides))?;
    }
    let is_vanished = |verdict| matches!(verdict, Verdict::Missing | Verdict::NotRequested);
    if changes.rows.iter().all(|row| is_vanished(row.verdict)) {
        let nothing = "nothing to compare: no job alone and no seat of a group has a number in both runs";
        return Err(Exit::NothingMatched.because(nothing));
    }
    match (args.json, prints_markdown) {
        (true, _) => output::print(to_json(&changes))?,
        (false, true) => output::print(markdown::document(&changes, sides).trim_end())?,
        (false, false) => show(&changes, &args.table)?,
    }
    Ok(args.fail_above.map_or(Exit::Ok, |above| decide(&changes, above)))
}

fn show(changes: &Changes, options: &TableOptions) -> anyhow::Result<()> {
    options.print(&rows::table(changes))?;
    for line in lines::below(changes) {
        output::print(line)?;
    }
    for difference in &changes.differences {
        output::note(format_args!("the runs differ in {difference}"));
    }
    let new = &changes.only_in_b;
    if !new.is_empty() {
        output::note(format_args!("new in B, which counts for nothing: {}", new.join("; ")));
    }
    if changes.without_number > 0 {
        output::note(format_args!("without a number in both runs: {}", changes.without_number));
    }
    Ok(())
}

/// The exit code under a bound, which one row that is not within it decides.
fn decide(changes: &Changes, above: f64) -> Exit {
    let count = |verdict| changes.rows.iter().filter(|row| row.bound_verdict == Some(verdict)).count();
    let (worse, unknown) = (count(BoundVerdict::Worse), count(BoundVerdict::CannotTell));
    let bound = percentage(above);
    if worse > 0 {
        output::note(format_args!("failed or missing in B, or worse by more than {bound}: {worse}"));
        return Exit::SomeFailed;
    }
    if unknown > 0 {
        output::note(format_args!("cannot tell whether they are worse by more than {bound}: {unknown}"));
        return Exit::CannotTell;
    }
    Exit::Ok
}
