//! Errors of predicted slowdowns in groups that a model was not fitted to.

use std::collections::{BTreeMap, BTreeSet};

use formats::interference_fit::{ContentionClass, LeftOutPart, SlowdownErrors, SlowdownEstimator};

use super::{
    Together,
    mode::{Base, LogSlowdown, Mode, Row},
    reach::{Ratios, Reaches, T_REACH},
};

/// The fewest rows that a model is fitted to.
pub(super) const FEWEST: usize = 8;
/// Fewer families than this say too little of how wrong predictions of others are: the reach is at least [`T_REACH`].
const FEW_FAMILIES: usize = 10;
/// The most parts into which the families of a fit are divided to find the reach of its intervals.
const MOST_PARTS: usize = 8;
/// The most parts into which groups are divided to leave out one after another.
const MOST_GROUPS: usize = 100;
/// The same of many rows.
const MOST_GROUPS_OF_MANY: usize = 20;
const MANY_ROWS: usize = 1000;

/// The prediction of a slowdown that was left out, and what simpler estimators say.
#[derive(Clone, Copy)]
pub(super) struct LeftOut {
    size: usize,
    measured: f64,
    predicted: LogSlowdown,
    /// Half of its interval, on the scale of logarithms.
    half: f64,
    constant: f64,
    /// `None` if the utilisation of a member is not known.
    utilisations: Option<f64>,
}

/// What an estimator says of a slowdown; `None` if it does not know.
type SlowdownOf = fn(&LeftOut) -> Option<f64>;

/// The reach of the intervals of a fit to these rows, whose groups that were left out are `of_groups`.
pub(super) fn reaches(base: &Base, rows: &[Row<'_>], of_groups: &[LeftOut]) -> Reaches {
    let families: Vec<&str> = families(rows).into_iter().collect();
    let parts = families.len().min(MOST_PARTS);
    let mut ratios = Ratios::new();
    for part in 0..parts {
        let own: BTreeSet<&str> = families.iter().copied().skip(part).step_by(parts).collect();
        let (tested, kept) = without(rows, &own);
        if kept.len() < FEWEST {
            continue;
        }
        let mode = Mode::fit(base, &kept);
        for row in tested {
            if let Some(predicted) = mode.predict(&row.members) {
                ratios.push((predicted.class, (row.log - predicted.mean).abs() / predicted.sd));
            }
        }
    }
    let ratio = |row: &LeftOut| {
        (row.predicted.class, (row.measured.ln() - row.predicted.mean).abs() / row.predicted.sd)
    };
    let least = if families.len() < FEW_FAMILIES { T_REACH } else { 0.0 };
    Reaches::new(&ratios, &of_groups.iter().map(ratio).collect(), least)
}

/// Predictions of each group by a fit to the others.
pub(super) fn groups_left_out(base: &Base, rows: &[Row<'_>], together: &[Together]) -> Vec<LeftOut> {
    let mut left_out = Vec::new();
    for (tested, kept) in groups(rows, together) {
        if kept.len() >= FEWEST {
            predict(&Mode::fit(base, &kept), &tested, &kept, &mut left_out);
        }
    }
    left_out
}

/// The rows of each group and those of all others. Of more than a hundred groups, a hundredth is one, and of many rows a twentieth.
fn groups<'a>(rows: &[Row<'a>], together: &[Together]) -> Vec<(Vec<Row<'a>>, Vec<Row<'a>>)> {
    let members = |of: &Together| {
        let mut members: Vec<usize> = std::iter::once(of.job).chain(of.co_runners.iter().copied()).collect();
        members.sort_unstable();
        members
    };
    let all: BTreeSet<Vec<usize>> = together.iter().map(members).collect();
    let parts = all.len().min(if rows.len() > MANY_ROWS { MOST_GROUPS_OF_MANY } else { MOST_GROUPS });
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

/// The errors of predictions of families of workloads, of groups and of blocks that were left out, and those of the model on families for
/// each class of contention. `stressors` are the names of workloads that press on one resource each.
pub(super) fn errors(
    base: &Base,
    rows: &[Row<'_>],
    together: &[Together],
    of_groups: &[LeftOut],
    stressors: &BTreeSet<&str>,
) -> (Vec<SlowdownErrors>, Vec<SlowdownErrors>) {
    let mut errors = Vec::new();
    let mut of_families = Vec::new();
    for family in families(rows) {
        let (tested, kept) = without(rows, &BTreeSet::from([family]));
        fit_and_predict(base, &tested, &kept, &mut of_families);
    }
    add(&mut errors, LeftOutPart::Workload, &of_families);

    let mut beside_others = Vec::new();
    for family in families(rows).difference(stressors) {
        let (own, mut kept) = without(rows, &BTreeSet::from([*family]));
        let (with_stressor, tested) = without(&own, stressors);
        if !with_stressor.is_empty() {
            kept.extend(with_stressor);
            fit_and_predict(base, &tested, &kept, &mut beside_others);
        }
    }
    add(&mut errors, LeftOutPart::BesideOthers, &beside_others);
    add(&mut errors, LeftOutPart::Group, of_groups);

    let percents: Vec<f64> = together.iter().flat_map(|of| differences(&of.blocks)).collect();
    if !percents.is_empty() {
        errors.push(summary(LeftOutPart::Block, None, SlowdownEstimator::OtherBlocks, percents));
    }
    (errors, by_contention(&of_families))
}

/// Predicts rows by a fit to others, from which its reach is made, too.
fn fit_and_predict(base: &Base, tested: &[Row<'_>], kept: &[Row<'_>], to: &mut Vec<LeftOut>) {
    if kept.len() < FEWEST {
        return;
    }
    let mut mode = Mode::fit(base, kept);
    mode.reaches = reaches(base, kept, &[]);
    predict(&mode, tested, kept, to);
}

/// Predicts rows by a fit to others.
fn predict(mode: &Mode, tested: &[Row<'_>], kept: &[Row<'_>], to: &mut Vec<LeftOut>) {
    for row in tested {
        let Some(predicted) = mode.predict(&row.members) else { continue };
        let alike: Vec<f64> = kept
            .iter()
            .filter(|other| other.members.len() == row.members.len())
            .map(|other| other.log)
            .collect();
        let constant = alike.iter().sum::<f64>() / alike.len().max(1) as f64;
        let busy: Option<f64> = row.members.iter().map(|member| member.alone.busy).sum();
        to.push(LeftOut {
            size: row.members.len(),
            measured: row.log.exp(),
            predicted,
            half: mode.reaches.of_class(predicted.class).of_unknown * predicted.sd,
            constant: constant.exp(),
            utilisations: busy.map(|busy| busy.max(1.0)),
        });
    }
}

impl LeftOut {
    fn is_covered(&self) -> bool {
        (self.measured.ln() - self.predicted.mean).abs() <= self.half
    }
}

/// The share of rows whose measured slowdown lies in its interval.
fn covered_percent(rows: &[&LeftOut]) -> f64 {
    100.0 * rows.iter().filter(|row| row.is_covered()).count() as f64 / rows.len() as f64
}

/// The errors of an estimator that gives a slowdown for all of some rows; `None` if it does not.
fn of_estimator(
    left_out: LeftOutPart,
    rows: &[&LeftOut],
    estimator: SlowdownEstimator,
    slowdown: impl Fn(&LeftOut) -> Option<f64>,
) -> Option<SlowdownErrors> {
    let slowdowns: Vec<(f64, f64)> =
        rows.iter().map(|row| Some((slowdown(row)?, row.measured))).collect::<Option<_>>()?;
    let percents = slowdowns.iter().map(|(predicted, measured)| percent(*predicted, *measured)).collect();
    let speeds = slowdowns.iter().map(|(predicted, measured)| (1.0 / predicted - 1.0 / measured).abs());
    let mean_speed_error = Some(speeds.sum::<f64>() / rows.len() as f64);
    Some(SlowdownErrors { mean_speed_error, ..summary(left_out, None, estimator, percents) })
}

/// The errors of the model for each class of contention that has rows.
fn by_contention(rows: &[LeftOut]) -> Vec<SlowdownErrors> {
    let of_class = |class: &ContentionClass| {
        let own: Vec<&LeftOut> = rows.iter().filter(|row| row.predicted.class == *class).collect();
        let model = |row: &LeftOut| Some(row.predicted.mean.exp());
        let errors = (!own.is_empty())
            .then(|| of_estimator(LeftOutPart::Workload, &own, SlowdownEstimator::Model, model))??;
        Some(SlowdownErrors {
            contention: Some(*class),
            covered_percent: Some(covered_percent(&own)),
            ..errors
        })
    };
    ContentionClass::ALL.iter().filter_map(of_class).collect()
}

/// The errors of all rows, and of each size of groups if there are several.
fn add(errors: &mut Vec<SlowdownErrors>, left_out: LeftOutPart, rows: &[LeftOut]) {
    let sizes: BTreeSet<usize> = rows.iter().map(|row| row.size).collect();
    let each = sizes.iter().copied().map(Some).filter(|_| sizes.len() > 1);
    for size in std::iter::once(None).chain(each) {
        let own: Vec<&LeftOut> = rows.iter().filter(|row| size.is_none_or(|size| row.size == size)).collect();
        if own.is_empty() {
            continue;
        }
        // The reach of intervals of groups is set by these rows, so that the share would be 95 % whatever they are.
        let covered = (left_out != LeftOutPart::Group).then(|| covered_percent(&own));
        let estimators: [(_, SlowdownOf, _); 3] = [
            (SlowdownEstimator::Model, |row| Some(row.predicted.mean.exp()), covered),
            (SlowdownEstimator::Constant, |row| Some(row.constant), None),
            (SlowdownEstimator::Utilisations, |row| row.utilisations, None),
        ];
        for (estimator, slowdown, covered_percent) in estimators {
            let of_all = of_estimator(left_out, &own, estimator, slowdown);
            let group_size = size.map(|size| size as u32);
            errors.extend(of_all.map(|of_all| SlowdownErrors { group_size, covered_percent, ..of_all }));
        }
    }
}

fn summary(
    left_out: LeftOutPart,
    group_size: Option<u32>,
    estimator: SlowdownEstimator,
    mut percents: Vec<f64>,
) -> SlowdownErrors {
    percents.sort_by(f64::total_cmp);
    let count = percents.len() as f64;
    SlowdownErrors {
        left_out,
        group_size,
        contention: None,
        estimator,
        rows: percents.len() as u32,
        mean_percent: percents.iter().sum::<f64>() / count,
        // That of the nearest rank.
        p95_percent: percents[((0.95 * count).ceil() as usize).max(1) - 1],
        mean_speed_error: None,
        covered_percent: None,
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

fn families<'a>(rows: &[Row<'a>]) -> BTreeSet<&'a str> {
    rows.iter().flat_map(|row| row.members.iter().map(|member| member.family.as_str())).collect()
}

/// The rows of groups with one of these families, and the others.
fn without<'a>(rows: &[Row<'a>], own: &BTreeSet<&str>) -> (Vec<Row<'a>>, Vec<Row<'a>>) {
    let has_own = |row: &Row<'a>| row.members.iter().any(|member| own.contains(member.family.as_str()));
    rows.iter().cloned().partition(has_own)
}
