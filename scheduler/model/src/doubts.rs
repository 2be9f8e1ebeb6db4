//! Rows that contradict the others.
//!
//! An explanation of the rows of a formula says which configurations are wrong. Its evidence is the density of all rows: the others have
//! residuals of Student's t about the fit to them, and a wrong one has an error of any size. The parameters are integrated out by
//! Laplace's approximation (MacKay, Neural Computation 1992):
//!
//! ```text
//! log p = sum over the others of log t(e / s) / s + sum over the wrong of log(W N(e; 0, B^2)) - prior(x) + 1/2 log |C|
//! ```
//!
//! Two wrong rows of few hide each other: without either, the other still contradicts the rest, and one that is right may seem wrong. So
//! one, two, or no further configurations are taken as wrong at a time.

use formats::fitted::FormulaName;

use crate::{
    Fit, Observation, Options, Setting,
    fit::{Covariance, fit_quickly, log_density},
    formula::{self, Parameters},
    held_out::singly,
};

/// How probable it is that a configuration is wrong, before anything is known of it.
const WRONG: f64 = 0.05;

/// Standard deviation of the logarithm of a wrong time over the right one.
const BREADTH: f64 = 0.7;

/// An error below this factor is never doubted: formulas are off by as much.
const LEAST_FACTOR: f64 = 1.25;

/// The least scale of residuals of rows that are right. Formulas are off from published rows by that much, and the residuals of few rows do not
/// show it.
const MISFIT: f64 = 0.06;

/// The least number of configurations that are right.
const LEFT: usize = 5;

/// Of more configurations than this, only those are suspected whose errors are far larger than expected.
const ALL_SUSPECTED: usize = 12;

/// An error of this many standard deviations is far larger than expected.
const FAR: f64 = 4.0;

/// The number of configurations that are suspected at a time, the ones with the largest errors.
const SUSPECTED: usize = 8;

/// Explanations that are less probable are left out.
const LEAST_PROBABLE: f64 = 0.01;

/// The rows of a configuration.
type Group = Vec<Observation>;

/// Which configurations may be wrong, all at once.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Explanation {
    pub(crate) wrong: Vec<Setting>,
    pub(crate) probability: f64,
}

/// The explanations of rows that the formula describes, the most probable one first. At most a quarter of the configurations is wrong.
pub(crate) fn explanations(
    formula: FormulaName,
    rows: &[Observation],
    options: &Options,
) -> Vec<Explanation> {
    let mut groups: Vec<Group> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|group| group[0].setting == row.setting) {
            Some(group) => group.push(*row),
            None => groups.push(vec![*row]),
        }
    }
    let most = groups.len().div_ceil(4).min(groups.len().saturating_sub(LEFT));
    let mut tried: Vec<(Vec<usize>, f64)> = Vec::new();
    if most == 0 {
        return probable(&groups, &tried);
    }
    let scale = fit_quickly(formula, rows, options).scale.max(MISFIT);
    let mut wrong: Vec<usize> = Vec::new();
    loop {
        let suspects = suspects(formula, &groups, &wrong, options);
        for explanation in with_two_more(&wrong, &suspects, most) {
            if tried.iter().all(|(other, _)| *other != explanation) {
                let log_evidence = log_evidence(formula, &groups, &explanation, scale, options);
                tried.push((explanation, log_evidence));
            }
        }
        let best = tried.iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        let Some((best, _)) = best.filter(|(best, _)| *best != wrong) else { break };
        wrong.clone_from(best);
        if wrong.len() == most || groups.len() <= ALL_SUSPECTED {
            break;
        }
    }
    probable(&groups, &tried)
}

/// The wrong configurations alone, and with each one and each two of the suspects.
fn with_two_more(wrong: &[usize], suspects: &[usize], most: usize) -> Vec<Vec<usize>> {
    let mut sets = vec![wrong.to_vec()];
    for (number, one) in suspects.iter().enumerate() {
        sets.push([wrong, &[*one]].concat());
        sets.extend(suspects[number + 1..].iter().map(|two| [wrong, &[*one, *two]].concat()));
    }
    sets.retain(|set| set.len() <= most);
    sets.iter_mut().for_each(|set| set.sort_unstable());
    sets
}

/// The configurations beside the wrong ones that may be wrong, too.
fn suspects(formula: FormulaName, groups: &[Group], wrong: &[usize], options: &Options) -> Vec<usize> {
    let others: Vec<usize> = (0..groups.len()).filter(|index| !wrong.contains(index)).collect();
    if groups.len() <= ALL_SUSPECTED {
        return others;
    }
    let rows: Vec<Observation> = others.iter().flat_map(|index| groups[*index].clone()).collect();
    let mut far: Vec<(f64, usize)> = Vec::new();
    for single in singly(formula, &rows, options) {
        let (size, index) = (single.ratio().abs(), others[single.configuration]);
        let is_known = far.iter().any(|(_, known)| *known == index);
        if size > FAR && single.error().abs() > LEAST_FACTOR.ln() && !is_known {
            far.push((size, index));
        }
    }
    far.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    far.truncate(SUSPECTED);
    far.into_iter().map(|(_, index)| index).collect()
}

/// The logarithm of the density of all rows if these configurations are wrong; minus infinity if one of them is close to the fit.
fn log_evidence(
    formula: FormulaName,
    groups: &[Group],
    wrong: &[usize],
    scale: f64,
    options: &Options,
) -> f64 {
    let (own, others): (Vec<_>, Vec<_>) =
        groups.iter().enumerate().partition(|(index, _)| wrong.contains(index));
    let rows = |groups: Vec<(usize, &Group)>| -> Vec<Observation> {
        groups.into_iter().flat_map(|(_, group)| group.clone()).collect()
    };
    let (own, others) = (rows(own), rows(others));
    let (log_density, logarithms) = log_density(formula, &others, scale, options);
    let mut log_evidence = log_density;
    for row in own {
        let error = formula::log_step(formula, &logarithms, &row.setting).total.0 - row.step_s.ln();
        if error.abs() < LEAST_FACTOR.ln() {
            return f64::NEG_INFINITY;
        }
        let normal = -0.5 * (error / BREADTH).powi(2) - (BREADTH * std::f64::consts::TAU.sqrt()).ln();
        log_evidence += (WRONG / (1.0 - WRONG)).ln() + normal;
    }
    log_evidence
}

fn probable(groups: &[Group], tried: &[(Vec<usize>, f64)]) -> Vec<Explanation> {
    let largest = tried.iter().map(|(_, log)| *log).fold(f64::NEG_INFINITY, f64::max);
    if !largest.is_finite() {
        return vec![Explanation { wrong: Vec::new(), probability: 1.0 }];
    }
    let sum: f64 = tried.iter().map(|(_, log)| (log - largest).exp()).sum();
    let explanation = |(wrong, log): &(Vec<usize>, f64)| Explanation {
        wrong: wrong.iter().map(|index| groups[*index][0].setting).collect(),
        probability: (log - largest).exp() / sum,
    };
    let mut all: Vec<Explanation> = tried.iter().map(explanation).collect();
    all.retain(|explanation| explanation.probability >= LEAST_PROBABLE);
    all.sort_by(|a, b| b.probability.total_cmp(&a.probability));
    all
}

/// What the covariance of the parameters of a fit gains because other rows may be wrong than those that it was made without: the mean over
/// these other explanations of the square of what they change. No parameter is known less than before the fit.
pub(crate) fn spread(
    fit: &Fit,
    rows: &[Observation],
    others: &[Explanation],
    options: &Options,
) -> Covariance {
    let mut spread = Covariance::zeros();
    for Explanation { wrong, probability } in others {
        let right: Vec<Observation> =
            rows.iter().filter(|row| !wrong.contains(&row.setting)).copied().collect();
        let change = fit_quickly(fit.formula, &right, options).logarithms - fit.logarithms;
        spread += *probability * (change * change.transpose());
    }
    let mut shares = Parameters::repeat(1.0);
    for (index, prior) in fit.priors.iter().enumerate() {
        let room = (prior.sd.powi(2) - fit.covariance[(index, index)]).max(0.0);
        if spread[(index, index)] > room {
            shares[index] = (room / spread[(index, index)]).sqrt();
        }
    }
    let shares = Covariance::from_diagonal(&shares);
    shares * spread * shares
}
