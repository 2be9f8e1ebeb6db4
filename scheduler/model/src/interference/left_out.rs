//! Errors of predicted slowdowns in groups that a model was not fitted to.

use std::collections::{BTreeMap, BTreeSet};

use schema::{
    interference_fit::{LeftOutPart, SlowdownErrors, SlowdownEstimator},
    sharing::Sharing,
};

use super::{
    Together,
    mode::{Mode, Row, T_REACH},
};
use crate::held_out::conformal;

/// The fewest rows that a model is fitted to.
pub(super) const FEWEST: usize = 8;
/// Fewer workloads than this say too little of how wrong predictions of others are: the reach is at least [`T_REACH`].
const FEW_WORKLOADS: usize = 10;
/// The most parts into which the workloads of a fit are divided to find the reach of its intervals.
const MOST_PARTS: usize = 8;
/// The most parts into which groups are divided to leave out one after another.
const MOST_GROUPS: usize = 100;

/// The prediction of a slowdown that was left out, and what simpler estimators say.
struct LeftOut {
    size: usize,
    measured: f64,
    predicted: f64,
    interval: (f64, f64),
    constant: f64,
    utilisations: f64,
}

/// The reach of the intervals of a fit to these rows: that which would have covered 95 % of predictions of workloads that were left out.
pub(super) fn reach(sharing: &Sharing, rows: &[Row<'_>]) -> f64 {
    let workloads: Vec<&str> = workloads(rows).into_iter().collect();
    let parts = workloads.len().min(MOST_PARTS);
    let mut ratios = Vec::new();
    for part in 0..parts {
        let own: BTreeSet<&str> = workloads.iter().copied().skip(part).step_by(parts).collect();
        let (tested, kept) = without(rows, &own);
        if kept.len() < FEWEST {
            continue;
        }
        add_ratios(&mut ratios, &Mode::fit(sharing, &kept), &tested);
    }
    let reach = conformal(&mut ratios).unwrap_or(T_REACH);
    if workloads.len() < FEW_WORKLOADS { reach.max(T_REACH) } else { reach }
}

/// The reach of the intervals of groups whose members were all measured beside others: that which would have covered 95 % of predictions of
/// groups that were left out.
pub(super) fn reach_of_known(sharing: &Sharing, rows: &[Row<'_>], together: &[Together]) -> f64 {
    let mut ratios = Vec::new();
    for (tested, kept) in groups(rows, together) {
        if kept.len() >= FEWEST {
            add_ratios(&mut ratios, &Mode::fit(sharing, &kept), &tested);
        }
    }
    conformal(&mut ratios).unwrap_or(T_REACH)
}

/// Adds the sizes of errors over their standard deviations.
fn add_ratios(ratios: &mut Vec<f64>, mode: &Mode, tested: &[Row<'_>]) {
    for row in tested {
        if let Some(found) = mode.predict(&row.members) {
            ratios.push((row.log - found.mean).abs() / found.sd);
        }
    }
}

/// The rows of each group and those of all others. Of more than a hundred groups, a hundredth is one.
fn groups<'a>(rows: &[Row<'a>], together: &[Together]) -> Vec<(Vec<Row<'a>>, Vec<Row<'a>>)> {
    let members = |of: &Together| {
        let mut members: Vec<usize> = std::iter::once(of.job).chain(of.co_runners.iter().copied()).collect();
        members.sort_unstable();
        members
    };
    let all: BTreeSet<Vec<usize>> = together.iter().map(members).collect();
    let parts = all.len().min(MOST_GROUPS);
    let number: BTreeMap<Vec<usize>, usize> =
        all.into_iter().enumerate().map(|(number, members)| (members, number % parts)).collect();
    let of = |part| {
        let is_own = |(_, together): &(&Row<'a>, &Together)| number[&members(together)] == part;
        let (own, others): (Vec<_>, Vec<_>) = rows.iter().zip(together).partition(is_own);
        let rows = |of: Vec<(&Row<'a>, &Together)>| of.into_iter().map(|(row, _)| row.clone()).collect();
        (rows(own), rows(others))
    };
    (0..parts).map(of).collect()
}

/// The errors of predictions of workloads, of groups and of blocks that were left out. `stressors` are the names of workloads that press on
/// one resource each.
pub(super) fn errors(
    sharing: &Sharing,
    rows: &[Row<'_>],
    together: &[Together],
    stressors: &BTreeSet<&str>,
) -> Vec<SlowdownErrors> {
    let mut errors = Vec::new();
    let mut of_workloads = Vec::new();
    for workload in workloads(rows) {
        let (tested, kept) = without(rows, &BTreeSet::from([workload]));
        predict(sharing, &tested, &kept, &mut of_workloads, None);
    }
    add(&mut errors, LeftOutPart::Workload, &of_workloads);

    let mut beside_others = Vec::new();
    for workload in workloads(rows).difference(stressors) {
        let (own, mut kept) = without(rows, &BTreeSet::from([*workload]));
        let (with_stressor, tested) = without(&own, stressors);
        if !with_stressor.is_empty() {
            kept.extend(with_stressor);
            predict(sharing, &tested, &kept, &mut beside_others, None);
        }
    }
    add(&mut errors, LeftOutPart::BesideOthers, &beside_others);

    let mut of_groups = Vec::new();
    let known = reach_of_known(sharing, rows, together);
    for (tested, kept) in groups(rows, together) {
        predict(sharing, &tested, &kept, &mut of_groups, Some(known));
    }
    add(&mut errors, LeftOutPart::Group, &of_groups);

    let percents: Vec<f64> = together.iter().flat_map(|of| differences(&of.blocks)).collect();
    if !percents.is_empty() {
        errors.push(summary(LeftOutPart::Block, None, SlowdownEstimator::OtherBlocks, percents, None));
    }
    errors
}

/// Predicts rows by a fit to others. Its reach is made from these others, if it is not given.
fn predict(
    sharing: &Sharing,
    tested: &[Row<'_>],
    kept: &[Row<'_>],
    to: &mut Vec<LeftOut>,
    given: Option<f64>,
) {
    if kept.len() < FEWEST {
        return;
    }
    let mode = Mode::fit(sharing, kept);
    let reach = given.unwrap_or_else(|| reach(sharing, kept));
    for row in tested {
        let Some(found) = mode.predict(&row.members) else { continue };
        let half = reach * found.sd;
        let alike: Vec<f64> = kept
            .iter()
            .filter(|other| other.members.len() == row.members.len())
            .map(|other| other.log)
            .collect();
        let constant = alike.iter().sum::<f64>() / alike.len().max(1) as f64;
        let busy: f64 = row.members.iter().map(|member| member.alone.busy).sum();
        to.push(LeftOut {
            size: row.members.len(),
            measured: row.log.exp(),
            predicted: found.mean.exp(),
            interval: ((found.mean - half).exp(), (found.mean + half).exp()),
            constant: constant.exp(),
            utilisations: busy.max(1.0),
        });
    }
}

/// The errors of all rows, and of each size of groups if there are several.
fn add(errors: &mut Vec<SlowdownErrors>, left_out: LeftOutPart, rows: &[LeftOut]) {
    let sizes: BTreeSet<usize> = rows.iter().map(|row| row.size).collect();
    let each = sizes.iter().copied().map(Some).filter(|_| sizes.len() > 1);
    for size in std::iter::once(None).chain(each) {
        let of_size = || rows.iter().filter(move |row| size.is_none_or(|size| row.size == size));
        let count = of_size().count();
        if count == 0 {
            continue;
        }
        let is_covered = |row: &&LeftOut| (row.interval.0..=row.interval.1).contains(&row.measured);
        // The reach of intervals of groups is set by these rows, so that the share would be 95 % whatever they are.
        let covered = (left_out != LeftOutPart::Group).then(|| of_size().filter(is_covered).count());
        let percents =
            |of: fn(&LeftOut) -> f64| of_size().map(|row| percent(of(row), row.measured)).collect::<Vec<_>>();
        for (estimator, percents, covered) in [
            (SlowdownEstimator::Model, percents(|row| row.predicted), covered),
            (SlowdownEstimator::Constant, percents(|row| row.constant), None),
            (SlowdownEstimator::Utilisations, percents(|row| row.utilisations), None),
        ] {
            errors.push(summary(left_out, size, estimator, percents, covered));
        }
    }
}

fn summary(
    left_out: LeftOutPart,
    size: Option<usize>,
    estimator: SlowdownEstimator,
    mut percents: Vec<f64>,
    covered: Option<usize>,
) -> SlowdownErrors {
    percents.sort_by(f64::total_cmp);
    let count = percents.len() as f64;
    SlowdownErrors {
        left_out,
        group_size: size.map(|size| size as u32),
        estimator,
        rows: percents.len() as u32,
        mean_percent: percents.iter().sum::<f64>() / count,
        // That of the nearest rank.
        p95_percent: percents[((0.95 * count).ceil() as usize).max(1) - 1],
        covered_percent: covered.map(|covered| 100.0 * covered as f64 / count),
    }
}

/// The differences of each block to the geometric mean of the others, in percent. Empty for a single block.
fn differences(blocks: &[f64]) -> Vec<f64> {
    if blocks.len() < 2 {
        return Vec::new();
    }
    let all: f64 = blocks.iter().map(|slowdown| slowdown.ln()).sum();
    let others = |slowdown: &f64| ((all - slowdown.ln()) / (blocks.len() - 1) as f64).exp();
    blocks.iter().map(|slowdown| percent(others(slowdown), *slowdown)).collect()
}

fn percent(predicted: f64, measured: f64) -> f64 {
    100.0 * (predicted / measured - 1.0).abs()
}

fn workloads<'a>(rows: &[Row<'a>]) -> BTreeSet<&'a str> {
    rows.iter().flat_map(|row| row.members.iter().map(|member| member.workload.as_str())).collect()
}

/// The rows of groups with one of these workloads, and the others.
fn without<'a>(rows: &[Row<'a>], own: &BTreeSet<&str>) -> (Vec<Row<'a>>, Vec<Row<'a>>) {
    let has_own = |row: &Row<'a>| row.members.iter().any(|member| own.contains(member.workload.as_str()));
    rows.iter().cloned().partition(has_own)
}
