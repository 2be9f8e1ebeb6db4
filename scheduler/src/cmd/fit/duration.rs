//! `sched fit --duration`: how long jobs run, from the jobs of a history.

use std::{path::Path, time::Instant};

use anyhow::bail;
use cli::table;
use model::duration::{Additive, Durations, Mean, PAIRS, PastArrival, Rolling, walk};
use rig::{Exit, output};
use schema::{
    catalog::Catalog,
    rows::{self, DurationErrors, DurationEstimator, DurationShape},
};

use super::busy;
use crate::history;

/// Writes the shapes of a fit to all jobs, and prints the errors of estimators on the last part of the history.
pub(super) fn run(
    path: &Path,
    (out, held_out, json): (&Path, f64, bool),
    catalog: &Catalog,
) -> anyhow::Result<Exit> {
    let jobs = history::read(path, catalog)?;
    let mut past: Vec<PastArrival<'_>> = jobs.iter().map(history::arrival).collect();
    past.sort_by_key(|past| past.submit_s);
    let from = ((1.0 - held_out) * past.len() as f64) as usize;
    let mut errors = Vec::new();
    for estimator in [DurationEstimator::Mean, DurationEstimator::Qssf, DurationEstimator::Additive] {
        let spinner = busy(format!("fit: {estimator}: {} jobs", past.len()));
        let mut own: Box<dyn Durations> = match estimator {
            DurationEstimator::Mean => Box::<Mean>::default(),
            DurationEstimator::Qssf => Box::<Rolling>::default(),
            DurationEstimator::Additive => Box::new(Additive::new(PAIRS)),
        };
        let found = walk(&past, from, &mut *own);
        spinner.finish_and_clear();
        errors.extend(found.map(|found| DurationErrors {
            estimator,
            jobs: found.jobs,
            median_absolute_s: found.median_absolute_s,
            mean_absolute_s: found.mean_absolute_s,
            median_factor: found.median_factor,
            rank_correlation: found.rank_correlation,
        }));
    }
    if errors.is_empty() {
        bail!(
            "{}: no job arrives after another has ended, so that no estimate can be tested",
            path.display()
        );
    }
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
    match json {
        true => output::print(rows::to_json(&errors))?,
        false => show(&errors)?,
    }
    output::note(format_args!(
        "fit: {}: {} values of shapes, fitted to {} jobs in {:.2} s",
        out.display(),
        shapes.len(),
        past.len(),
        took.as_secs_f64()
    ));
    Ok(Exit::Ok)
}

fn show(errors: &[DurationErrors]) -> anyhow::Result<()> {
    let mut lines = table::new(&[
        "estimator",
        "jobs",
        "median absolute error",
        "mean",
        "half are off by",
        "rank correlation",
    ]);
    for row in errors {
        lines.add_row([
            row.estimator.to_string(),
            row.jobs.to_string(),
            format!("{:.0} s", row.median_absolute_s),
            format!("{:.0} s", row.mean_absolute_s),
            format!("{:.2} times", row.median_factor),
            format!("{:.3}", row.rank_correlation),
        ]);
    }
    table::print(&lines)
}
