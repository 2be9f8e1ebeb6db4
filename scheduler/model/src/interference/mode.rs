//! The model of one sharing mode: its fit, and what it predicts.
//!
//! ```text
//! ln(slowdown) = ln(f) + c (sum over terms + effect of the victim + mean effect of the aggressors) + burden + (c + 0.05) residual
//! ```
//!
//! The fair share `f` is [`fair_share::slowdown`], and `c = 1 - 1 / f` is the share of its time that a job loses by it. The burden of the victim
//! is what it loses where the device is free whenever it needs it, so that a small slowdown of a job that is rarely busy is no sign of a
//! large effect. Terms are what the job and its co-runners do alone ([`terms`]). Effects belong to
//! workloads: what a workload bears as a victim, and what it does as an aggressor, more than terms say. They are normal with variances of
//! their own, so that a workload of few rows has a small effect, and one without rows has none and makes the interval wider.

use std::collections::BTreeMap;

use nalgebra::{DMatrix, DVector};
use schema::{
    interference_fit::{InterferenceTerm, ModeFit, WorkloadEffect},
    sharing::Sharing,
};

use super::{
    Member, fair_share,
    ridge::{Group, Ridge},
    terms,
};

/// A row of a fit: the members of a group, the victim first, and the logarithm of its slowdown.
#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    pub(super) members: Vec<&'a Member>,
    pub(super) log: f64,
}

/// A fitted model of slowdowns under a mode.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mode {
    pub(super) sharing: Sharing,
    pub(super) largest_group: usize,
    terms: Vec<InterferenceTerm>,
    /// Places of the effects of workloads among the coefficients.
    victims: BTreeMap<String, usize>,
    aggressors: BTreeMap<String, usize>,
    /// The same of their burdens.
    burdens: BTreeMap<String, usize>,
    coefficients: DVector<f64>,
    covariance: DMatrix<f64>,
    victim_sd: f64,
    aggressor_sd: f64,
    burden_sd: f64,
    residual_sd: f64,
    /// Half of a 95 % interval over the standard deviation, if a member has no effect, and if all have one.
    pub(super) reach: f64,
    pub(super) reach_of_known: f64,
}

/// The logarithm of a predicted slowdown, and its standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LogSlowdown {
    pub(super) mean: f64,
    pub(super) sd: f64,
}

impl Mode {
    /// Fits to rows, of which there is at least one. Rows whose fair share is not known are not used.
    pub(super) fn fit(sharing: &Sharing, rows: &[Row<'_>]) -> Mode {
        let alone = rows.iter().flat_map(|row| &row.members).map(|member| &member.alone);
        let mut mode = Mode {
            sharing: sharing.clone(),
            largest_group: rows.iter().map(|row| row.members.len()).max().unwrap_or(0),
            terms: terms::terms(&terms::known_of_all(alone)),
            victims: BTreeMap::new(),
            aggressors: BTreeMap::new(),
            burdens: BTreeMap::new(),
            coefficients: DVector::zeros(0),
            covariance: DMatrix::zeros(0, 0),
            victim_sd: 0.0,
            aggressor_sd: 0.0,
            burden_sd: 0.0,
            residual_sd: 0.0,
            reach: T_REACH,
            reach_of_known: T_REACH,
        };
        // The constant stays as it is.
        for term in mode.terms.iter_mut().skip(1) {
            let values = rows.iter().map(|row| terms::value(term, &alone_of(&row.members)));
            let values: Vec<f64> = values.collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
            (term.centre, term.scale) = (mean, if square > 0.0 { square.sqrt() } else { 1.0 });
        }
        let names = |of: &dyn Fn(&Row<'_>) -> Vec<String>, first: usize| {
            let mut names: Vec<String> = rows.iter().flat_map(of).collect();
            names.sort_unstable();
            names.dedup();
            let places: BTreeMap<String, usize> =
                names.into_iter().enumerate().map(|(place, name)| (name, first + place)).collect();
            places
        };
        let name = |member: &&Member| member.workload.clone();
        mode.victims = names(&|row| row.members.iter().take(1).map(name).collect(), mode.terms.len());
        let first = mode.terms.len() + mode.victims.len();
        mode.aggressors = names(&|row| row.members.iter().skip(1).map(name).collect(), first);
        let last = first + mode.aggressors.len();
        mode.burdens = names(&|row| row.members.iter().take(1).map(name).collect(), last);

        let mut groups = vec![Group::Free];
        groups.resize(mode.terms.len(), Group::Terms);
        groups.resize(first, Group::Victims);
        groups.resize(last, Group::Aggressors);
        groups.resize(last + mode.burdens.len(), Group::Burdens);
        let used = rows.iter().filter_map(|row| Some((mode.fair(&row.members)?, row)));
        let (mut values, mut logs) = (Vec::new(), Vec::new());
        for (fair, row) in used {
            let scale = contention(fair) + AT_REST;
            values
                .extend(mode.coordinates(&row.members, contention(fair)).0.iter().map(|value| value / scale));
            logs.push((row.log - fair) / scale);
        }
        let x = DMatrix::from_row_slice(logs.len(), groups.len(), &values);
        let ridge = Ridge::fit(&x, &DVector::from_vec(logs), &groups);
        mode.victim_sd = ridge.variance_of(Group::Victims).sqrt();
        mode.aggressor_sd = ridge.variance_of(Group::Aggressors).sqrt();
        mode.burden_sd = ridge.variance_of(Group::Burdens).sqrt();
        mode.residual_sd = ridge.residual_variance.sqrt();
        (mode.coefficients, mode.covariance) = (ridge.coefficients, ridge.covariance);
        mode
    }

    /// The slowdown of the first member. `None` if no fair share of the members is known.
    pub(super) fn predict(&self, members: &[&Member]) -> Option<LogSlowdown> {
        let fair = self.fair(members)?;
        let contention = contention(fair);
        let (values, unknown) = self.coordinates(members, contention);
        let of_effects = values.dot(&(&self.covariance * &values)) + unknown;
        let of_residual = (self.residual_sd * (contention + AT_REST)).powi(2);
        let mean = fair + values.dot(&self.coefficients);
        Some(LogSlowdown { mean, sd: (of_effects + of_residual).sqrt() })
    }

    /// Half of the 95 % interval of a prediction over its standard deviation.
    pub(super) fn reach(&self, members: &[&Member]) -> f64 {
        let mut names = members.iter().map(|member| &member.workload);
        let is_known = names.next().is_none_or(|victim| self.victims.contains_key(victim))
            && names.all(|aggressor| self.aggressors.contains_key(aggressor));
        if is_known { self.reach_of_known } else { self.reach }
    }

    fn fair(&self, members: &[&Member]) -> Option<f64> {
        fair_share::slowdown(&self.sharing, &alone_of(members)).map(f64::ln)
    }

    /// What the coefficients are multiplied with, and the variance of the effects of unknown workloads.
    fn coordinates(&self, members: &[&Member], contention: f64) -> (DVector<f64>, f64) {
        let of_contention = self.terms.len() + self.victims.len() + self.aggressors.len();
        let count = of_contention + self.burdens.len();
        let mut values = DVector::zeros(count);
        let alone = alone_of(members);
        for (place, term) in self.terms.iter().enumerate() {
            values[place] = terms::scaled(term, &alone);
        }
        let [victim, co_runners @ ..] = members else { return (values, 0.0) };
        let mut unknown = 0.0;
        match self.victims.get(&victim.workload) {
            Some(place) => values[*place] = 1.0,
            None => unknown += self.victim_sd.powi(2),
        }
        let share = 1.0 / co_runners.len().max(1) as f64;
        let mut strangers: BTreeMap<&str, f64> = BTreeMap::new();
        for member in co_runners {
            match self.aggressors.get(&member.workload) {
                Some(place) => values[*place] += share,
                None => *strangers.entry(&member.workload).or_default() += share,
            }
        }
        unknown += strangers.values().map(|share| (share * self.aggressor_sd).powi(2)).sum::<f64>();
        values.rows_mut(0, of_contention).scale_mut(contention);
        unknown *= contention.powi(2);
        match self.burdens.get(&victim.workload) {
            Some(place) => values[*place] = 1.0,
            None => unknown += self.burden_sd.powi(2),
        }
        (values, unknown)
    }

    /// The part of the file about this mode, without rows and errors.
    pub(super) fn to_file(&self) -> ModeFit {
        let effects = |places: &BTreeMap<String, usize>| {
            let effect = |(workload, place): (&String, &usize)| WorkloadEffect {
                workload: workload.clone(),
                effect: self.coefficients[*place],
            };
            places.iter().map(effect).collect()
        };
        let weighed = self.terms.iter().zip(self.coefficients.iter());
        ModeFit {
            sharing: self.sharing.clone(),
            largest_group: self.largest_group as u32,
            measured: Vec::new(),
            terms: weighed
                .map(|(term, weight)| InterferenceTerm { weight: *weight, ..term.clone() })
                .collect(),
            victims: effects(&self.victims),
            aggressors: effects(&self.aggressors),
            burdens: effects(&self.burdens),
            covariance: self.covariance.row_iter().map(|row| row.iter().copied().collect()).collect(),
            victim_sd: self.victim_sd,
            aggressor_sd: self.aggressor_sd,
            burden_sd: self.burden_sd,
            residual_sd: self.residual_sd,
            reach: self.reach,
            reach_of_known: self.reach_of_known,
            errors: Vec::new(),
        }
    }

    /// The model of a file, whose parts are consistent.
    pub(super) fn of_file(file: &ModeFit) -> Mode {
        let places = |effects: &[WorkloadEffect], first: usize| {
            let place = |(place, of): (usize, &WorkloadEffect)| (of.workload.clone(), first + place);
            effects.iter().enumerate().map(place).collect()
        };
        let effects = file.victims.iter().chain(&file.aggressors).chain(&file.burdens).map(|of| of.effect);
        let last = file.terms.len() + file.victims.len() + file.aggressors.len();
        let coefficients: Vec<f64> = file.terms.iter().map(|term| term.weight).chain(effects).collect();
        let count = coefficients.len();
        let covariance: Vec<f64> = file.covariance.iter().flatten().copied().collect();
        Mode {
            sharing: file.sharing.clone(),
            largest_group: file.largest_group as usize,
            terms: file.terms.clone(),
            victims: places(&file.victims, file.terms.len()),
            aggressors: places(&file.aggressors, file.terms.len() + file.victims.len()),
            burdens: places(&file.burdens, last),
            coefficients: DVector::from_vec(coefficients),
            covariance: DMatrix::from_row_slice(count, count, &covariance),
            victim_sd: file.victim_sd,
            aggressor_sd: file.aggressor_sd,
            burden_sd: file.burden_sd,
            residual_sd: file.residual_sd,
            reach: file.reach,
            reach_of_known: file.reach_of_known,
        }
    }
}

/// What the scale of residuals has in addition to the contention.
const AT_REST: f64 = 0.05;

/// The share of its time that a job loses by a fair share, of whose slowdown this is the logarithm.
fn contention(fair: f64) -> f64 {
    1.0 - (-fair).exp()
}

/// Half of a 95 % interval of the t distribution of effects and residuals over its scale.
pub(super) const T_REACH: f64 = 3.182;

fn alone_of<'a>(members: &[&'a Member]) -> Vec<&'a super::Alone> {
    members.iter().map(|member| &member.alone).collect()
}
