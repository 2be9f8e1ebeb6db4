//! `report compare`: what became slower from one run to another.

use std::path::PathBuf;

use cli::table;
use record::rows::{self, Change, Changes, Quantity, Verdict};
use rig::{Exit, output};
use schema::units::Nanos;

use crate::compare::{ComparedRun, changes, regressions};

/// Compare two runs of the same cells: what became slower?
///
/// For each job alone (its step time, or its duration if it has no steps) and each seat of a group (its slowdown), the table
/// has both values, the ratio B over A with a 95 % interval, the p-value of Welch's t test on the log scale, and a verdict. The
/// means and deviations of the test come from the published intervals of summary.csv and interference.csv, which are over
/// launches or over blocks. The p-values are corrected for the number of rows by Holm's method, so that about five in
/// a hundred comparisons of equal runs have any finding. In simulations of thirty rows with four launches a side these are three
/// in a hundred, and eight if one run varies three times as much as the other. A row without an interval in one of the runs
/// cannot be told.
///
/// An interval between launches is about the minutes of its run. On a machine whose speed wanders, two runs of the same code
/// differ by more than their intervals promise, and the test takes the difference for one of the code. Measure A and B in turns
/// (A, B, B, A), and let `profile compare` say how much runs of the same code differ. A shift of all rows together is more
/// likely the machine than the code. Slowdowns are ratios within blocks and withstand it better.
///
/// Members of a group under `sequential` have no slowdown and are not compared. `sched fidelity A B` compares runs of `sched`.
///
/// With --fail-above, the exit code is 1 if a row is slower after the correction and its ratio is above the bound, or if a row
/// with a number in A failed in B. Without it, the exit code is 0 for whatever is found. It is 4 if the runs have nothing in
/// common.
///
/// Example: `report compare runs/before runs/after --fail-above 5%`
///
/// Example: `report compare reports/record/20261122-epyc/colocate/all-pairs-1 reports/record/20261122-epyc/colocate/all-pairs-2`
#[derive(clap::Args)]
pub(super) struct Args {
    /// Directory of the run to compare with.
    #[arg(value_name = "A")]
    a: PathBuf,
    /// Directory of the later run.
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Exit with code 1 if something became slower by more than this, or failed, such as 5%.
    #[arg(long, value_name = "PCT", value_parser = percent)]
    fail_above: Option<f64>,
    /// Print the comparison as a JSON object.
    #[arg(long)]
    json: bool,
}

/// A percentage as a part: `5%` and `5` are 0.05.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    let is_possible = |percent: &f64| percent.is_finite() && *percent >= 0.0;
    let refusal = || format!("'{text}' is no percentage of at least 0; write it as 5%");
    number.filter(is_possible).map(|percent| percent / 100.0).ok_or_else(refusal)
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let changes = changes(&ComparedRun::open(&args.a)?, &ComparedRun::open(&args.b)?);
    if changes.rows.is_empty() {
        let nothing = "nothing to compare: no job alone and no seat of a group has a number in both runs";
        return Err(Exit::NothingMatched.because(nothing));
    }
    match args.json {
        true => output::print(rows::to_json(&changes))?,
        false => show(&changes)?,
    }
    let Some(above) = args.fail_above else { return Ok(Exit::Ok) };
    let regressed = regressions(&changes, above).count();
    if regressed > 0 {
        output::note(format_args!("failed in B, or slower by more than {} %: {regressed}", 100.0 * above));
        return Ok(Exit::SomeFailed);
    }
    Ok(Exit::Ok)
}

fn show(changes: &Changes) -> anyhow::Result<()> {
    let header = [
        "job",
        "device",
        "group",
        "sharing",
        "A",
        "B",
        "B over A",
        "95 % interval",
        "p",
        "verdict",
        "doubts",
    ];
    let mut lines = table::new(&header);
    for row in &changes.rows {
        lines.add_row(line(row));
    }
    table::print(&lines)?;
    output::print(format_args!("A: {}\nB: {}", changes.a, changes.b))?;
    output::print(summary(&changes.rows))?;
    for shift in &changes.shifts {
        let what = of_quantity(shift.quantity);
        output::print(format_args!(
            "{what}, geometric mean of B over A: {:.3} ({} rows)",
            shift.ratio, shift.rows
        ))?;
    }
    output::print(
        "A shift of all rows together is more likely the machine than the code; `profile compare` with more runs measures how \
         much runs differ.",
    )?;
    for difference in &changes.differences {
        output::note(format_args!("the runs differ in {difference}"));
    }
    for (run, names) in [("A", &changes.only_in_a), ("B", &changes.only_in_b)] {
        if !names.is_empty() {
            output::note(format_args!("only in {run}, {} in all: {}", names.len(), names.join("; ")));
        }
    }
    if changes.without_number > 0 {
        output::note(format_args!("without a number in both runs: {}", changes.without_number));
    }
    Ok(())
}

fn line(row: &Change) -> Vec<String> {
    let value = |value: f64| match row.quantity {
        Quantity::Alone => Nanos(value.round() as u64).to_string(),
        Quantity::Slowdown => format!("{value:.3}"),
    };
    let seat = row.group.as_ref().zip(row.seat).map(|(group, seat)| format!("{group}, seat {seat}"));
    let interval = row.ratio_ci_lo.zip(row.ratio_ci_hi).map(|(lo, hi)| format!("{lo:.3} to {hi:.3}"));
    let verdict = match (row.verdict, &row.err) {
        (Verdict::NoDifference, _) => "no difference".into(),
        (Verdict::CannotTell, _) => "cannot tell".into(),
        (Verdict::Failed, Some(err)) => format!("failed: {err}"),
        (verdict, _) => verdict.to_string(),
    };
    vec![
        row.job.clone(),
        row.device.clone(),
        table::or_dash(seat),
        row.sharing.to_string(),
        value(row.a),
        table::or_dash(row.b.map(value)),
        table::or_dash(row.ratio.map(|ratio| format!("{ratio:.3}"))),
        table::or_dash(interval),
        table::or_dash(row.p_holm.map(p_value)),
        verdict,
        row.warnings.to_string(),
    ]
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "<0.001".into() } else { format!("{p:.3}") }
}

fn of_quantity(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Alone => "times alone",
        Quantity::Slowdown => "slowdowns",
    }
}

/// The number of rows with each verdict.
fn summary(rows: &[Change]) -> String {
    let count = |verdict: Verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    format!(
        "slower: {}; faster: {}; no difference: {}; cannot tell: {}; failed in B: {} (p-values corrected for {} tests)",
        count(Verdict::Slower),
        count(Verdict::Faster),
        count(Verdict::NoDifference),
        count(Verdict::CannotTell),
        count(Verdict::Failed),
        rows.iter().filter(|row| row.p.is_some()).count()
    )
}

#[cfg(test)]
mod tests;
