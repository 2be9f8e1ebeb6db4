//! The model of one sharing mode: its fit, and what it predicts.
//!
//! ```text
//! ln(slowdown) = ln(f) + c (sum over terms + effects of the victim + mean effects of the aggressors)
//!                + burden of the victim + mean disturbance by the aggressors + (c + 0.2) residual
//! ```
//!
//! The fair share `f` is [`fair_share::slowdown`], and `c = 1 - 1 / f` is the share of its time that a job loses by it. The burden of the
//! victim is what it loses where the device is free whenever it needs it, and the disturbance what others do to it there, so that a small
//! slowdown of a job that is rarely busy is no sign of a large effect. Terms are what the job and its co-runners do alone ([`terms`]).
//! Effects belong to families of workloads, and if a family has several jobs, to each of these as well ([`effects`]).
//!
//! If a mode has a fair share and it is not known of all jobs, because their utilisation was not measured, predictions begin at 1:
//!
//! ```text
//! ln(slowdown) = sum over terms + effects of the victim + mean effects of the aggressors + residual
//! ```

use formats::interference_fit::{ContentionClass, InterferenceTerm, ModeFit};
use nalgebra::{DMatrix, DVector};
use schema::sharing::Sharing;

use super::{
    Member,
    effects::Effects,
    fair_share,
    reach::Reaches,
    ridge::{self, Group, Ridge},
    terms,
};

/// A row of a fit: the members of a group, the victim first, and the logarithm of its slowdown.
#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    pub(super) members: Vec<&'a Member>,
    pub(super) log: f64,
}

/// What predictions under a mode begin at.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Base {
    pub(super) sharing: Sharing,
    pub(super) is_fair_share: bool,
}

/// A fitted model of slowdowns under a mode.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mode {
    pub(super) base: Base,
    pub(super) largest_group: usize,
    terms: Vec<InterferenceTerm>,
    effects: Effects,
    coefficients: DVector<f64>,
    covariance: DMatrix<f64>,
    residual_sd: f64,
    pub(super) reaches: Reaches,
}

/// The logarithm of a predicted slowdown, and its standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LogSlowdown {
    pub(super) mean: f64,
    pub(super) sd: f64,
    pub(super) class: ContentionClass,
}

/// What the residuals of predictions that begin at a fair share have in addition to the contention.
const AT_REST: f64 = 0.2;

/// Where a prediction begins, on the scale of logarithms, and how much terms, effects and residuals count there.
#[derive(Clone, Copy, Debug)]
struct Begin {
    log: f64,
    contention: f64,
    residual: f64,
}

impl Base {
    /// The base for rows: a fair share if it is known of all of them.
    pub(super) fn of_rows(sharing: &Sharing, rows: &[Row<'_>]) -> Base {
        let is_known = |row: &Row<'_>| fair_share::slowdown(sharing, &alone_of(&row.members)).is_some();
        let is_fair_share = !fair_share::is_defined(sharing) || rows.iter().all(is_known);
        Base { sharing: sharing.clone(), is_fair_share }
    }

    fn begin(&self, members: &[&Member]) -> Option<Begin> {
        if !self.is_fair_share {
            return Some(Begin { log: 0.0, contention: 1.0, residual: 1.0 });
        }
        let log = fair_share::slowdown(&self.sharing, &alone_of(members))?.ln();
        let contention = lost_share(log);
        Some(Begin { log, contention, residual: contention + AT_REST })
    }
}

impl Mode {
    /// Fits to rows, of which there is at least one. Rows whose base is not known are not used.
    pub(super) fn fit(base: &Base, rows: &[Row<'_>]) -> Mode {
        let alone = rows.iter().flat_map(|row| &row.members).map(|member| &member.alone);
        let mut terms = match base.is_fair_share {
            true => terms::terms(&terms::known_of_all(alone)),
            false => terms::terms(&[]),
        };
        // The constant stays as it is.
        for term in terms.iter_mut().skip(1) {
            let values = rows.iter().map(|row| terms::value(term, &alone_of(&row.members)));
            let values: Vec<f64> = values.collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
            (term.centre, term.scale) = (mean, if square > 0.0 { square.sqrt() } else { 1.0 });
        }
        let effects = Effects::of_rows(rows, terms.len(), base.is_fair_share);
        let mut groups = vec![Group::Free];
        groups.resize(terms.len(), Group::Terms);
        effects.add_groups(&mut groups);
        let mut mode = Mode {
            base: base.clone(),
            largest_group: rows.iter().map(|row| row.members.len()).max().unwrap_or(0),
            terms,
            effects,
            coefficients: DVector::zeros(0),
            covariance: DMatrix::zeros(0, 0),
            residual_sd: 0.0,
            reaches: Reaches::default(),
        };
        let (mut values, mut logs) = (Vec::new(), Vec::new());
        for row in rows {
            let Some(begin) = base.begin(&row.members) else { continue };
            let (mut row_values, _) = mode.coordinates(&row.members, begin.contention);
            row_values.iter_mut().for_each(|(_, value)| *value /= begin.residual);
            values.push(row_values);
            logs.push((row.log - begin.log) / begin.residual);
        }
        let ridge = Ridge::fit(&values, &logs, &groups);
        mode.effects.set_scales(|group| ridge.variance_of(group).sqrt());
        mode.residual_sd = ridge.residual_variance.sqrt();
        (mode.coefficients, mode.covariance) = (ridge.coefficients, ridge.covariance);
        mode
    }

    /// The slowdown of the first member. `None` if no base of the members is known.
    pub(super) fn predict(&self, members: &[&Member]) -> Option<LogSlowdown> {
        let begin = self.base.begin(members)?;
        let (values, unknown) = self.coordinates(members, begin.contention);
        let of_effects = ridge::quadratic(&self.covariance, &values) + unknown;
        let of_residual = (self.residual_sd * begin.residual).powi(2);
        let mean =
            begin.log + values.iter().map(|(column, value)| value * self.coefficients[*column]).sum::<f64>();
        let lost = if self.base.is_fair_share { begin.contention } else { lost_share(mean) };
        let class = ContentionClass::of_lost_share(lost);
        Some(LogSlowdown { mean, sd: (of_effects + of_residual).sqrt(), class })
    }

    /// Half of the 95 % interval of a prediction for these members over its standard deviation.
    pub(super) fn reach(&self, members: &[&Member], class: ContentionClass) -> f64 {
        let of_class = self.reaches.of_class(class);
        if self.effects.know(members) { of_class.of_known } else { of_class.of_unknown }
    }

    /// What the coefficients are multiplied with, and the variance of the effects of unknown names.
    fn coordinates(&self, members: &[&Member], contention: f64) -> (ridge::SparseRow, f64) {
        let alone = alone_of(members);
        let terms = self.terms.iter().map(|term| contention * terms::scaled(term, &alone)).enumerate();
        let mut values: ridge::SparseRow = terms.collect();
        let unknown = self.effects.add_coordinates(members, contention, &mut values);
        (values, unknown)
    }

    /// The part of the file about this mode, without rows and errors.
    pub(super) fn to_file(&self) -> ModeFit {
        let effects = |group| self.effects.to_file(group, &self.coefficients);
        let scale = |group| self.effects.scale(group);
        let weighed = self.terms.iter().zip(self.coefficients.iter());
        let common = self.reaches.common;
        ModeFit {
            sharing: self.base.sharing.clone(),
            largest_group: self.largest_group as u32,
            begins_at_fair_share: self.base.is_fair_share,
            measured: Vec::new(),
            terms: weighed
                .map(|(term, weight)| InterferenceTerm { weight: *weight, ..term.clone() })
                .collect(),
            victims: effects(Group::Victims),
            aggressors: effects(Group::Aggressors),
            burdens: effects(Group::Burdens),
            disturbances: effects(Group::Disturbances),
            victim_jobs: effects(Group::VictimJobs),
            aggressor_jobs: effects(Group::AggressorJobs),
            covariance: self.covariance.row_iter().map(|row| row.iter().copied().collect()).collect(),
            victim_sd: scale(Group::Victims),
            aggressor_sd: scale(Group::Aggressors),
            burden_sd: scale(Group::Burdens),
            disturbance_sd: scale(Group::Disturbances),
            victim_job_sd: scale(Group::VictimJobs),
            aggressor_job_sd: scale(Group::AggressorJobs),
            residual_sd: self.residual_sd,
            reach: common.of_unknown,
            reach_of_known: common.of_known,
            reaches: self.reaches.to_file(),
            errors: Vec::new(),
            errors_by_contention: Vec::new(),
        }
    }

    /// The model of a file, whose parts are consistent.
    pub(super) fn from_file(file: &ModeFit) -> Mode {
        let effects = file.effects().into_iter().flatten().map(|effect| effect.effect);
        let coefficients: Vec<f64> = file.terms.iter().map(|term| term.weight).chain(effects).collect();
        let count = coefficients.len();
        let covariance: Vec<f64> = file.covariance.iter().flatten().copied().collect();
        Mode {
            base: Base { sharing: file.sharing.clone(), is_fair_share: file.begins_at_fair_share },
            largest_group: file.largest_group as usize,
            terms: file.terms.clone(),
            effects: Effects::from_file(file),
            coefficients: DVector::from_vec(coefficients),
            covariance: DMatrix::from_row_slice(count, count, &covariance),
            residual_sd: file.residual_sd,
            reaches: Reaches::from_file(file),
        }
    }
}

/// The share of its time that a job loses, of whose slowdown this is the logarithm.
fn lost_share(log: f64) -> f64 {
    1.0 - (-log).exp()
}

fn alone_of<'a>(members: &[&'a Member]) -> Vec<&'a super::Alone> {
    members.iter().map(|member| &member.alone).collect()
}
