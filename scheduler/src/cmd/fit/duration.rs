//! `sched fit --duration`: how long jobs run, from the jobs of a history.

use std::{path::Path, time::Instant};

use anyhow::bail;
use cli::table::{self, TableOptions};
use formats::rows::{DurationErrors, DurationEstimator, DurationShape};
use model::{
    Load,
    duration::{Additive, Durations, Last, Mean, PAIRS, PastArrival, Rolling, WalkErrors, walk},
    walk_load,
};
use record::rows::{self};
use rig::{Exit, output};
use schema::catalog::Catalog;

use super::{Format, busy};
use crate::history;

/// Writes the shapes of a fit to all jobs, and prints the errors of estimators on the last part of the history.
pub(super) fn run(
    path: &Path,
    (out, held_out, format): (&Path, f64, &Format),
    catalog: &Catalog,
) -> anyhow::Result<Exit> {
    let jobs = history::read(path, catalog)?;
    let mut past: Vec<PastArrival<'_>> = jobs.iter().map(engine::history::arrival).collect();
    past.sort_by_key(|past| past.submit_s);
    let from = ((1.0 - held_out) * past.len() as f64) as usize;
    let mut errors = Vec::new();
    for estimator in [
        DurationEstimator::Mean,
        DurationEstimator::Qssf,
        DurationEstimator::Last,
        DurationEstimator::Additive,
    ] {
        let spinner = busy(format!("fit: {estimator}: {} jobs", past.len()));
        let mut own: Box<dyn Durations> = match estimator {
            DurationEstimator::Mean => Box::<Mean>::default(),
            DurationEstimator::Qssf => Box::<Rolling>::default(),
            DurationEstimator::Last => Box::<Last>::default(),
            DurationEstimator::Additive => Box::new(Additive::new(PAIRS)),
        };
        let found = walk(&past, from, &mut *own);
        spinner.finish_and_clear();
        errors.extend(found.map(|found| row(estimator, found)));
    }
    if errors.is_empty() {
        bail!(
            "{}: no job arrives after another has ended, so that no estimate can be tested",
            path.display()
        );
    }
    let load = load_errors(&past, from);
    let began = Instant::now();
    let mut all = Additive::new(PAIRS);
    past.sort_by_key(|past| past.submit_s.map(|submit_s| submit_s + past.duration_s.ceil() as u64));
    past.iter().for_each(|past| all.add(&past.job, past.duration_s));
    all.fit();
    let took = began.elapsed();
    let shape = |value: model::duration::ShapeValue| {
        let (feature, other) = value.features;
        DurationShape {
            feature: feature.name().into(),
            level: value.levels.0,
            other_feature: other.map(|other| other.name().into()),
            other_level: other.map(|_| value.levels.1),
            jobs: value.jobs,
            factor: value.effect.exp(),
        }
    };
    let shapes: Vec<DurationShape> = all.shape_values().into_iter().map(shape).collect();
    rows::write(out, &shapes)?;
    match format.json {
        true => output::print(rows::to_json(&errors))?,
        false => {
            show(&errors, &format.table)?;
            load.map_or(Ok(()), output::print)?;
        }
    }
    output::news(format_args!(
        "fit: {}: {} values of shapes, fitted to {} jobs in {:.2} s",
        out.display(),
        shapes.len(),
        past.len(),
        took.as_secs_f64()
    ));
    Ok(Exit::Ok)
}

/// The bins of arrivals that are predicted, as Lucid does.
const BIN_S: u64 = 600;
const AHEAD: usize = 5;

/// How well the numbers of arrivals of the last part of a history are predicted from those before. `None` if jobs have no dates, or if the
/// history is too short.
fn load_errors(past: &[PastArrival<'_>], from: usize) -> Option<String> {
    let arrivals_s = past.iter().map(|past| past.submit_s).collect::<Option<Vec<u64>>>()?;
    let from_s = *arrivals_s.get(from)?;
    let (model, last_hour) = walk_load(&arrivals_s, from_s, Load::new(BIN_S, AHEAD, true))?;
    Some(format!(
        "arrivals in each of the next {AHEAD} bins of {} minutes, {} predictions: mean absolute error {:.2} jobs (R2 {:.2}), by the mean of the \
         last hour {:.2} (R2 {:.2})",
        BIN_S / 60,
        model.bins,
        model.mean_absolute,
        model.r2,
        last_hour.mean_absolute,
        last_hour.r2
    ))
}

fn row(estimator: DurationEstimator, errors: WalkErrors) -> DurationErrors {
    let [p25_absolute_s, median_absolute_s, p75_absolute_s, p90_absolute_s] = errors.absolute_s;
    let [p25_factor, median_factor, p75_factor, p90_factor] = errors.factors;
    DurationErrors {
        estimator,
        jobs: errors.jobs,
        p25_absolute_s,
        median_absolute_s,
        p75_absolute_s,
        p90_absolute_s,
        mean_absolute_s: errors.mean_absolute_s,
        p25_factor,
        median_factor,
        p75_factor,
        p90_factor,
        rank_correlation: errors.rank_correlation,
    }
}

/// Prints the errors in seconds, and then as factors. Each quantile is a column: 25 % of the estimates are off by no more than the first.
fn show(errors: &[DurationErrors], options: &TableOptions) -> anyhow::Result<()> {
    let quantiles = ["25 % off by", "50 %", "75 %", "90 %"];
    let mut seconds = table::new(&[&["estimator", "jobs"][..], &quantiles, &["mean"]].concat());
    let mut factors = table::new(&[&["estimator"][..], &quantiles, &["rank correlation"]].concat());
    for row in errors {
        let in_seconds = |seconds: f64| format!("{seconds:.0} s");
        let times = |factor: f64| format!("{factor:.2}x");
        seconds.add_row([
            row.estimator.to_string(),
            row.jobs.to_string(),
            in_seconds(row.p25_absolute_s),
            in_seconds(row.median_absolute_s),
            in_seconds(row.p75_absolute_s),
            in_seconds(row.p90_absolute_s),
            in_seconds(row.mean_absolute_s),
        ]);
        factors.add_row([
            row.estimator.to_string(),
            times(row.p25_factor),
            times(row.median_factor),
            times(row.p75_factor),
            times(row.p90_factor),
            format!("{:.3}", row.rank_correlation),
        ]);
    }
    options.print(&seconds)?;
    output::print("")?;
    options.layout().print(&factors)
}
