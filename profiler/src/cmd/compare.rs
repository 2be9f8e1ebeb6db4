//! `profile compare`: whether runs of the same jobs agree.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context as _, bail};
use cli::table::{self, TableOptions};
use record::{
    rows::{
        self, Compared, Comparison, Interference, Measurement, Quantity, Repeatability, RunRatio, Summary,
    },
    run_dir::RunDir,
};
use rig::{Exit, output};
use schema::{sharing::Sharing, units::Nanos};
use statistics::{
    launches::log_deviation,
    runs::{Measured, between_runs},
};

use crate::derive;

/// Compare runs of the same jobs: how repeatable are they?
///
/// For each job alone (its step time) and each seat of a group (its slowdown) that every RUN measured, the table has the value
/// of each run and its ratio to the first run. Below it, for all rows of a kind, is the geometric mean of these ratios with a
/// 95 % interval. The unit of this interval is the run and not the row, because a difference between two runs affects all of
/// their rows together. Two runs leave one degree of freedom: their interval is 12.7 standard errors to each side. Three or
/// more runs give a much narrower one.
///
/// The last line has the scatter of single rows between the runs, beside the scatter that the rows' own intervals promise. If
/// it is larger, these intervals are valid within one run only.
///
/// The values are those of measurements.csv, so that published records can be compared too; `profile derive` makes this file
/// again. Members of a group under `sequential` have no slowdown, and are left out.
///
/// Example: `profile compare runs/pairs runs/pairs-again`
///
/// Example: `profile compare reports/record/20261122-epyc/colocate/all-pairs-1 reports/record/20261122-epyc/colocate/all-pairs-2 --json`
#[derive(clap::Args)]
pub(super) struct Args {
    /// Directories of two or more runs.
    #[arg(required = true, num_args = 2.., value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Print the comparison as a JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableOptions,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let runs = args.runs.iter().map(|path| RunDir::open(path)).collect::<Result<Vec<_>, _>>()?;
    let found = runs.iter().map(estimates).collect::<anyhow::Result<Vec<_>>>()?;
    let comparison = compare(runs.iter().map(RunDir::name).collect(), &found);
    if comparison.rows.is_empty() {
        let nothing = "nothing to compare: no job alone and no seat of a group has numbers in all runs";
        return Err(Exit::NothingMatched.because(nothing));
    }
    match args.json {
        true => output::print(rows::to_json(&comparison))?,
        false => show(&comparison, &args.table)?,
    }
    Ok(Exit::Ok)
}

/// A job alone, or a seat of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Subject {
    quantity: Quantity,
    group: Option<String>,
    sharing: String,
    seat: Option<u32>,
    job: String,
    device: String,
}

/// A value, and its standard deviation on the log scale if it has an interval.
type Estimate = (f64, Option<f64>);

/// The values of a run.
///
/// # Errors
/// The run is one of the scheduler, or its tables are missing or cannot be read.
fn estimates(run: &RunDir) -> anyhow::Result<BTreeMap<Subject, Estimate>> {
    let path = run.path().display();
    let manifest = run.manifest()?;
    if manifest.scheduling.is_some() {
        bail!("{path} is a run of the scheduler; `sched fidelity` compares those");
    }
    let measurements: Vec<Measurement> = rows::read(&run.measurements_path())
        .with_context(|| format!("{path} has no rows to compare; `profile derive` makes them"))?;
    let (summaries, interference) = derive::compared(&manifest, &measurements);
    let alone = summaries.iter().filter(|row| row.group.is_none()).filter_map(alone);
    Ok(alone.chain(interference.iter().filter_map(slowdown)).collect())
}

fn alone(row: &Summary) -> Option<(Subject, Estimate)> {
    let step = row.step_ns_median.map(|ns| (ns, row.step_ns_median_ci_lo.zip(row.step_ns_median_ci_hi)));
    let (ns, ends) = step.or_else(|| Some((row.wall_ns?, row.wall_ns_ci_lo.zip(row.wall_ns_ci_hi))))?;
    let deviation = ends.and_then(|(lo, hi)| of_mean(lo as f64, hi as f64, row.repeats));
    let subject = Subject {
        quantity: Quantity::Alone,
        group: None,
        sharing: row.sharing.to_string(),
        seat: None,
        job: row.job.clone(),
        device: row.device.clone(),
    };
    Some((subject, (ns as f64, deviation)))
}

fn slowdown(row: &Interference) -> Option<(Subject, Estimate)> {
    let ends = row.slowdown_ci_lo.zip(row.slowdown_ci_hi);
    let subject = Subject {
        quantity: Quantity::Slowdown,
        group: Some(row.group.clone()),
        sharing: row.sharing.to_string(),
        seat: Some(row.seat),
        job: row.job.clone(),
        device: row.device.clone(),
    };
    Some((subject, (row.slowdown?, ends.and_then(|(lo, hi)| of_mean(lo, hi, row.blocks)))))
}

/// The standard deviation of a mean over `count` launches or blocks, from its interval.
fn of_mean(lo: f64, hi: f64, count: u32) -> Option<f64> {
    Some(log_deviation(lo, hi, count as usize)? / f64::from(count).sqrt())
}

fn compare(runs: Vec<String>, found: &[BTreeMap<Subject, Estimate>]) -> Comparison {
    let mut all: Vec<&Subject> = found.iter().flat_map(BTreeMap::keys).collect();
    all.sort();
    all.dedup();
    let in_all = |subject: &&Subject| {
        let of_runs = found.iter().map(|run| run.get(subject).copied()).collect::<Option<Vec<Estimate>>>()?;
        Some(((*subject).clone(), of_runs))
    };
    let shared: Vec<(Subject, Vec<Estimate>)> = all.iter().filter_map(in_all).collect();
    Comparison {
        runs,
        left_out: (all.len() - shared.len()) as u32,
        rows: shared.iter().map(row).collect(),
        repeatability: Quantity::ALL
            .iter()
            .filter_map(|&quantity| repeatability(quantity, &shared))
            .collect(),
    }
}

fn row((subject, of_runs): &(Subject, Vec<Estimate>)) -> Compared {
    let estimates: Vec<f64> = of_runs.iter().map(|(estimate, _)| *estimate).collect();
    Compared {
        quantity: subject.quantity,
        job: subject.job.clone(),
        device: subject.device.clone(),
        sharing: subject.sharing.parse().unwrap_or(Sharing::Alone),
        group: subject.group.clone(),
        seat: subject.seat,
        ratios: estimates[1..].iter().map(|later| later / estimates[0]).collect(),
        estimates,
    }
}

fn repeatability(quantity: Quantity, shared: &[(Subject, Vec<Estimate>)]) -> Option<Repeatability> {
    let of_quantity = shared.iter().filter(|(subject, _)| subject.quantity == quantity);
    let measured: Vec<Measured> = of_quantity
        .map(|(_, of_runs)| Measured {
            estimates: of_runs.iter().map(|(estimate, _)| *estimate).collect(),
            deviations: of_runs.iter().map(|(_, deviation)| *deviation).collect(),
        })
        .collect();
    let found = between_runs(&measured)?;
    let ratio = |(ratio, higher): (&statistics::Interval, &usize)| RunRatio {
        ratio: ratio.estimate,
        ci_lo: ratio.lo,
        ci_hi: ratio.hi,
        higher: *higher as u32,
    };
    Some(Repeatability {
        quantity,
        rows: measured.len() as u32,
        ratios: found.ratios.iter().zip(&found.higher).map(ratio).collect(),
        degrees_of_freedom: found.ratios.len() as u32,
        scatter_percent: found.scatter_percent,
        promised_percent: found.promised_percent,
    })
}

fn show(comparison: &Comparison, options: &TableOptions) -> anyhow::Result<()> {
    let numbers = 1..=comparison.runs.len();
    let mut header = vec!["job".to_owned(), "group".into()];
    header.extend(numbers.clone().skip(1).map(|number| format!("{number} over 1")));
    header.extend(numbers.clone().map(|number| format!("run {number}")));
    header.extend(["device".into(), "sharing".into()]);
    let mut lines = table::new(&header.iter().map(String::as_str).collect::<Vec<_>>());
    lines.mark_text(&["group"]);
    for row in &comparison.rows {
        let estimate = |value: &f64| match row.quantity {
            Quantity::Alone => Nanos(derive::whole(*value)).to_string(),
            Quantity::Slowdown => format!("{value:.3}"),
        };
        let mut line = vec![
            row.job.clone(),
            table::or_dash(
                row.group.as_ref().zip(row.seat).map(|(group, seat)| format!("{group}, seat {seat}")),
            ),
        ];
        line.extend(row.ratios.iter().map(|ratio| format!("{ratio:.3}")));
        line.extend(row.estimates.iter().map(estimate));
        line.extend([row.device.clone(), row.sharing.to_string()]);
        lines.add_row(line);
    }
    options.print(&lines)?;
    for (name, number) in comparison.runs.iter().zip(numbers) {
        output::print(format_args!("run {number}: {name}"))?;
    }
    for of in &comparison.repeatability {
        let what = match of.quantity {
            Quantity::Alone => "steps alone",
            Quantity::Slowdown => "slowdowns",
        };
        let unit = format!("the unit is the run: degrees of freedom {}", of.degrees_of_freedom);
        for (ratio, number) in of.ratios.iter().zip(2..) {
            let RunRatio { ratio, ci_lo, ci_hi, higher } = ratio;
            output::print(format_args!(
                "{what}, run {number} over run 1: {ratio:.3}, 95 % interval {ci_lo:.3} to {ci_hi:.3} ({unit}); {higher} of {} are higher",
                of.rows
            ))?;
        }
        let promised = of.promised_percent.map_or("no intervals".into(), |percent| format!("{percent:.2} %"));
        output::print(format_args!(
            "{what}, scatter between runs: {:.2} % (standard deviation of one); promised within runs: {promised}",
            of.scatter_percent
        ))?;
    }
    if comparison.left_out > 0 {
        output::note(format_args!(
            "left out, because not every run has numbers for them: {}",
            comparison.left_out
        ));
    }
    Ok(())
}
