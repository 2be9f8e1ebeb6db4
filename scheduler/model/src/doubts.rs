//! Rows that contradict the others.

use schema::fitted::FormulaName;

use crate::{
    Observation, Options, Setting,
    held_out::{Single, singly},
};

/// An error of this many standard deviations, as they are among the other rows, is not one of their kind.
const FAR: f64 = 4.0;

/// An error below this factor is never doubted: formulas are off by as much.
const LEAST_FACTOR: f64 = 1.25;

/// The number of configurations that are taken out in turn, the ones with the largest errors.
const TRIED: usize = 4;

/// The least number of configurations that are left.
const LEFT: usize = 5;

/// The rows of a configuration.
type Group = Vec<Observation>;

/// The settings of rows that the other rows of a formula contradict. The formula describes all of them.
///
/// One configuration after another is taken out: the one without which the others predict each other best. It is doubtful if its error
/// is [`FAR`] times as large as is expected and as the errors of the others are. At most a quarter of the configurations is.
pub(crate) fn doubtful(formula: FormulaName, rows: &[Observation], options: &Options) -> Vec<Setting> {
    let mut groups: Vec<Group> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|group| group[0].setting == row.setting) {
            Some(group) => group.push(*row),
            None => groups.push(vec![*row]),
        }
    }
    let most = groups.len().div_ceil(4).min(groups.len().saturating_sub(LEFT));
    let mut doubtful = Vec::new();
    while doubtful.len() < most {
        let Some(index) = most_doubtful(formula, &groups, options) else { break };
        doubtful.push(groups.remove(index)[0].setting);
    }
    doubtful
}

fn most_doubtful(formula: FormulaName, groups: &[Group], options: &Options) -> Option<usize> {
    let mut far: Vec<(f64, usize)> = Vec::new();
    for single in singly(formula, &groups.concat(), options) {
        let (size, index) = (single.ratio().abs(), single.configuration);
        let is_known = far.iter().any(|(_, known)| *known == index);
        if size > FAR && single.error().abs() > LEAST_FACTOR.ln() && !is_known {
            far.push((size, index));
        }
    }
    far.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    far.truncate(TRIED);
    let without = |(size, index): (f64, usize)| {
        let others = [&groups[..index], &groups[index + 1..]].concat().concat();
        let singles = singly(formula, &others, options);
        let mut sizes: Vec<f64> = singles.iter().map(|single| single.ratio().abs()).collect();
        sizes.sort_by(f64::total_cmp);
        // By the median, as a second wrong row may be among the others.
        let spread = 1.4826 * sizes.get(sizes.len() / 2).copied().unwrap_or(0.0);
        (singles.iter().map(loss).sum::<f64>(), size / spread.max(1.0), index)
    };
    let (_, size, index) = far.into_iter().map(without).min_by(|(a, ..), (b, ..)| a.total_cmp(b))?;
    (size > FAR).then_some(index)
}

/// The negative logarithm of the density of an error, whose distribution is Student's t with four degrees of freedom.
fn loss(single: &Single) -> f64 {
    2.5 * (single.ratio().powi(2) / 4.0).ln_1p() + single.deviation.ln()
}
