//! Two jobs of one run. They are measured in turns, block by block, so that a machine that becomes slower slows both of them down.

use std::collections::BTreeMap;

use anyhow::bail;
use record::rows::{Changes, Measurement, Status, Verdict};
use statistics::welch::Launches;

use super::{
    failed, judge, memory,
    pair::Pair,
    side::{Cell, ComparedRun, Number, Subject},
};

/// The changes from one job of a run to another, over the blocks in which both have a time.
///
/// # Errors
/// The run has not measured a job of this name alone, or on several devices.
pub(crate) fn changes(
    run: &ComparedRun,
    [old, new]: &[String; 2],
    fail_above: Option<f64>,
) -> anyhow::Result<Changes> {
    let ((before, of_old), (after, of_new)) = (alone(run, old)?, alone(run, new)?);
    let subject = Subject { job: format!("{new} over {old}"), ..after.clone() };
    let Some(number) = of_old.number.as_ref() else {
        bail!("{old} has no time in {}; nothing can be compared with it", run.name);
    };
    let mut pairs = match &of_new.number {
        Some(_) => {
            let Some((a, b)) = in_blocks(&times(run, &before), &times(run, &after)) else {
                bail!("{}: no block has a time of both jobs", run.name);
            };
            let mut pair = Pair::measured(&subject, subject.quantity(), &a, &b);
            pair.change.warnings = of_old.warnings.iter().chain(of_new.warnings.iter()).collect();
            std::iter::once(pair).chain(memory(&subject, &of_old, &of_new)).collect()
        }
        None if of_new.has_failed => vec![failed(&subject, number, of_new)],
        None => vec![Pair::without_b(&subject, subject.quantity(), number, Verdict::Missing)],
    };
    judge(&mut pairs, fail_above);
    Ok(Changes {
        a: old.clone(),
        b: new.clone(),
        differences: Vec::new(),
        fail_above,
        rows: pairs.into_iter().map(|pair| pair.change).collect(),
        only_in_a: Vec::new(),
        only_in_b: Vec::new(),
        without_number: 0,
        shifts: Vec::new(),
    })
}

/// The only cell of a job alone.
fn alone(run: &ComparedRun, job: &str) -> anyhow::Result<(Subject, Cell)> {
    let cells = || run.cells().filter(|(subject, _)| subject.seat.is_none());
    let mut named: Vec<_> = cells().filter(|(subject, _)| subject.job == job).collect();
    match (named.pop(), named.is_empty()) {
        (Some(cell), true) => Ok(cell),
        (Some(_), false) => bail!("{} has measured {job} on several devices; measure it on one", run.name),
        (None, _) => {
            let mut jobs: Vec<String> = cells().map(|(subject, _)| subject.job).collect();
            jobs.dedup();
            bail!("{} has no job '{job}' alone; it has {}", run.name, jobs.join(", "))
        }
    }
}

/// The geometric mean of the times of a job in each block.
fn times(run: &ComparedRun, subject: &Subject) -> BTreeMap<u32, f64> {
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    let is_launch = |row: &&Measurement| {
        row.group.is_none()
            && row.status == Status::Ok
            && (&row.job, &row.device) == (&subject.job, &subject.device)
    };
    for row in run.measurements.iter().filter(is_launch) {
        if let Some(ns) = row.step_ns_median.or(row.wall_ns).filter(|ns| *ns > 0) {
            blocks.entry(row.repeat).or_default().push(ns as f64);
        }
    }
    blocks.into_iter().map(|(block, times)| (block, geometric_mean(&times))).collect()
}

/// The numbers of both jobs over the blocks that they have in common. The ratios of single blocks are the launches of B beside launches of
/// A that do not vary: Welch's test is then the paired t test. `None` without a common block.
fn in_blocks(old: &BTreeMap<u32, f64>, new: &BTreeMap<u32, f64>) -> Option<(Number, Number)> {
    let common = |(block, old): (&u32, &f64)| Some((*old, *new.get(block)?));
    let (old, new): (Vec<f64>, Vec<f64>) = old.iter().filter_map(common).unzip();
    if old.is_empty() {
        return None;
    }
    let ratios: Vec<f64> = old.iter().zip(&new).map(|(old, new)| new / old).collect();
    let launches = Launches::measured(&ratios);
    let steady = launches.map(|launches| Launches { log_mean: 0.0, log_deviation: 0.0, ..launches });
    Some((
        Number { value: geometric_mean(&old), launches: steady },
        Number { value: geometric_mean(&new), launches },
    ))
}

fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}
