//! Models of workloads that are fitted to rows, and what they answer.

use std::collections::HashMap;

use formats::fitted::{
    BasisWord, FittedParameter, FittedRow, FittedWorkload, FormulaFit, FormulaName, LeftOutStep, ModelFile,
    Origin,
};
use nalgebra::SMatrix;
use record::facts::Facts;

use crate::{
    Fit, FitError, Observation, Options, Placement, PredictRequest, Prediction, Prior, Setting, Throughput,
    choice::{self, described},
    covered::Covered,
    doubts,
    formula::{self, Parameters},
    held_out::{self, LeftOut},
    hull::Hull,
    interference::{Interference, PredictedSlowdown},
    observed::{Logarithms, Observed},
};

/// Step times of jobs alone on devices of one type, by formulas that are fitted to measured rows.
///
/// A configuration that was measured has the time of its rows; any other has that of the first formula that describes it. A
/// question about co-runners has no answer but that of [`FittedModel::slowdown`], and neighbours are taken to cost nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct FittedModel {
    device_type: String,
    answers_for_all: bool,
    workloads: HashMap<String, Workload>,
    interference: Option<Interference>,
    /// Number of refits.
    version: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct Workload {
    facts: Facts,
    rows: Vec<Observation>,
    /// Rows that the others contradict, which nothing is fitted to.
    doubtful: Vec<Observation>,
    /// What was observed since, one for each configuration.
    observed: Vec<Observed>,
    fits: Vec<Fit>,
    /// What formulas answer for; `None` for all that they describe.
    covered: Option<Covered>,
}

/// A predicted time of a step, in seconds, and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    pub step_s: f64,
    /// The 95 % interval.
    pub interval_s: (f64, f64),
    pub basis: Basis,
}

/// A file was written by a version whose formula has other parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the parameters of formula '{formula}' are those of another version; fit again with `sched fit`")]
pub struct OtherParameters {
    pub formula: FormulaName,
}

/// What an answer stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The configuration was measured.
    Measured,
    /// The configuration was measured, and all other rows contradict it: the time is that of a formula.
    Doubtful(FormulaName),
    Formula {
        formula: FormulaName,
        /// Whether it depends on a parameter of which the rows say little.
        is_extrapolated: bool,
    },
    /// A formula with published parameters, without a row.
    Published(FormulaName),
}

impl Basis {
    /// The word for it in rows, and the formula.
    pub fn in_rows(self) -> (BasisWord, Option<FormulaName>) {
        match self {
            Basis::Measured => (BasisWord::Measured, None),
            Basis::Doubtful(formula) => (BasisWord::Doubtful, Some(formula)),
            Basis::Formula { formula, is_extrapolated: false } => (BasisWord::Formula, Some(formula)),
            Basis::Formula { formula, is_extrapolated: true } => (BasisWord::Extrapolated, Some(formula)),
            Basis::Published(formula) => (BasisWord::Published, Some(formula)),
        }
    }
}

impl FittedModel {
    /// The models of a file.
    ///
    /// # Errors
    /// Fails if a formula has other parameters in the file than here.
    pub fn new(file: &ModelFile) -> Result<FittedModel, OtherParameters> {
        let workload = |fitted: &FittedWorkload| {
            let rows: Vec<Observation> =
                fitted.rows.iter().map(|row| observation(fitted.facts, row)).collect();
            let (doubtful, rows): (Vec<_>, Vec<_>) =
                rows.into_iter().zip(&fitted.rows).partition(|(_, row)| row.doubtful);
            let [doubtful, rows] = [doubtful, rows]
                .map(|rows| rows.into_iter().map(|(row, _)| row).collect::<Vec<Observation>>());
            let fits = fitted.fits.iter().map(|fit| from_file(fit, &rows));
            let mut fits = fits.collect::<Result<Vec<Fit>, _>>()?;
            fits.truncate(choice::asked(&fits));
            let covered = file.within_rows.then(|| Covered::by(&rows));
            let workload =
                Workload { facts: fitted.facts, rows, doubtful, observed: Vec::new(), fits, covered };
            Ok((fitted.workload.clone(), workload))
        };
        Ok(FittedModel {
            device_type: file.device_type.clone(),
            answers_for_all: false,
            workloads: file.workloads.iter().map(workload).collect::<Result<_, _>>()?,
            interference: file.interference.as_ref().map(Interference::new),
            version: 0,
        })
    }

    /// The same model, which answers for devices of all types as for its own.
    #[must_use]
    pub fn for_all_devices(self) -> FittedModel {
        FittedModel { answers_for_all: true, ..self }
    }

    /// The type of the devices that it answers for.
    pub fn device_type(&self) -> &str {
        &self.device_type
    }

    /// How much the job of a question is slowed down by its co-runners; `None` if it is not known.
    pub fn slowdown(&self, question: &PredictRequest<'_>) -> Option<PredictedSlowdown> {
        let is_of_type = self.answers_for_all || question.device_type == self.device_type;
        self.interference.as_ref().filter(|_| is_of_type)?.slowdown(question)
    }

    /// What it knows of jobs that share devices.
    pub fn interference(&self) -> Option<&Interference> {
        self.interference.as_ref()
    }

    /// Facts of a workload that it has a model of.
    pub fn facts(&self, workload: &str) -> Option<Facts> {
        self.workloads.get(workload).map(|workload| workload.facts)
    }

    /// The fits of a workload, in the order in which they are asked. Those after the one that describes the most rows are not asked: they
    /// are worse where both have an answer.
    pub fn fits(&self, workload: &str) -> &[Fit] {
        self.workloads.get(workload).map_or(&[], |workload| &workload.fits)
    }

    /// The time of a step of a workload alone; `None` if no formula describes the setting, or if rows do not cover it and the model stays
    /// within its rows.
    pub fn answer(&self, workload: &str, setting: &Setting) -> Option<Answer> {
        let of = self.workloads.get(workload)?;
        let by_formulas = || of.fits.iter().find_map(|fit| by_formula(fit, setting));
        let otherwise = || of.doubted(setting, by_formulas()?);
        let measured = of.measured(setting).or_else(otherwise);
        measured.or_else(|| self.covers(workload, setting).then(by_formulas).flatten())
    }

    /// Whether formulas may answer for a setting: false if the model stays within its rows, and these do not cover the setting.
    pub fn covers(&self, workload: &str, setting: &Setting) -> bool {
        let covered = self.workloads.get(workload).and_then(|workload| workload.covered.as_ref());
        covered.is_none_or(|covered| covered.has(setting))
    }

    /// Adds an observation of a workload. If that changes the mean time of its configuration by enough, the formulas are fitted
    /// again from where they are; returns whether they were. Does nothing for a workload that it has no model of.
    pub fn observe(&mut self, workload: &str, observation: Observation) -> bool {
        let is_time = observation.step_s > 0.0 && observation.step_s.is_finite();
        let Some(workload) = self.workloads.get_mut(workload).filter(|_| is_time) else { return false };
        let has_changed = workload.observe(&observation);
        self.version += u64::from(has_changed);
        has_changed
    }

    /// Whether it has a model of the job of a question, on such devices.
    pub(crate) fn knows(&self, question: &PredictRequest<'_>) -> bool {
        self.setting(question).is_some()
    }

    /// What a formula is asked; `None` if the question is about co-runners, other devices, or a workload without a model.
    fn setting(&self, question: &PredictRequest<'_>) -> Option<Setting> {
        let is_of_type = self.answers_for_all || question.device_type == self.device_type;
        if !is_of_type || !question.co_runners.is_empty() {
            return None;
        }
        let workload = self.workloads.get(question.job.workload)?;
        let setting = Setting {
            facts: workload.facts,
            global_batch: question.job.global_batch?,
            plan: question.job.plan?,
            placement: Placement::of(question.placement),
            cpus: question.cpus,
            ranks_per_device: 1,
        };
        Some(Setting { cpus: question.cpus.or_else(|| workload.cpus(&setting)), ..setting })
    }
}

impl Workload {
    fn observe(&mut self, observation: &Observation) -> bool {
        let setting = observation.setting;
        let rows = self.rows_of(&setting);
        let known = self.observed.iter().position(|observed| observed.setting == setting);
        let index = known.unwrap_or_else(|| {
            self.observed.push(Observed::new(setting));
            self.observed.len() - 1
        });
        if !self.observed[index].add(observation.step_s, rows) {
            return false;
        }
        let of_run = self.observed.iter().filter_map(Observed::as_one);
        let all: Vec<Observation> = self.rows.iter().copied().chain(of_run).collect();
        for fit in &mut self.fits {
            if formula::applies(fit.formula, &setting).is_ok() {
                *fit = fit.again(&described(fit.formula, &all));
            }
        }
        true
    }

    fn rows_of(&self, setting: &Setting) -> Logarithms {
        let own = self.rows.iter().filter(|row| is_row_of(row, setting));
        Logarithms::of(own.map(|row| row.step_s))
    }

    /// The answer for a configuration whose rows are doubtful: that of a formula, with an interval that contains the rows, too.
    fn doubted(&self, setting: &Setting, by_formula: Answer) -> Option<Answer> {
        let Basis::Formula { formula, .. } = by_formula.basis else { return None };
        let own = self.doubtful.iter().filter(|row| is_row_of(row, setting));
        let times: Vec<f64> = own.map(|row| row.step_s).collect();
        let (lo, hi) = by_formula.interval_s;
        let interval_s = (times.iter().copied().fold(lo, f64::min), times.iter().copied().fold(hi, f64::max));
        (!times.is_empty()).then_some(Answer { interval_s, basis: Basis::Doubtful(formula), ..by_formula })
    }

    /// The number of cores with which a configuration was measured, or else most of them: that of the first row.
    fn cpus(&self, setting: &Setting) -> Option<u16> {
        let is_alike = |row: &&Observation| Setting { cpus: setting.cpus, ..row.setting } == *setting;
        self.rows.iter().find(is_alike).or(self.rows.first())?.setting.cpus
    }

    /// The geometric mean of the rows and observations of this configuration. A single row has the interval of the residuals of the best formula.
    fn measured(&self, setting: &Setting) -> Option<Answer> {
        let observed = self.observed.iter().find(|observed| observed.setting == *setting);
        let all = self.rows_of(setting).and(observed.map_or(Logarithms::default(), Observed::used));
        let log = all.mean()?;
        let (scale, reach) = self.fits.first().map_or((0.0, 0.0), |fit| (fit.scale, fit.reach));
        let half = reach * scale / f64::from(all.count).sqrt();
        let interval_s = ((log - half).exp(), (log + half).exp());
        Some(Answer { step_s: log.exp(), interval_s, basis: Basis::Measured })
    }
}

/// Whether a row is of a configuration. A row without a number of cores is of any number, for plans to which cores do not matter.
fn is_row_of(row: &Observation, setting: &Setting) -> bool {
    row.setting == *setting || (!setting.plan.offload && row.setting == Setting { cpus: None, ..*setting })
}

/// The factor between the ends of an interval from which on a formula gives no answer: a step of a microsecond and one of a second
/// would both be in it.
pub const WIDEST_INTERVAL: f64 = 1e6;

fn by_formula(fit: &Fit, setting: &Setting) -> Option<Answer> {
    let (step_s, interval_s, is_extrapolated) = fit.answer(setting)?;
    if interval_s.1 > WIDEST_INTERVAL * interval_s.0 || !step_s.is_normal() {
        return None;
    }
    let basis = match fit.rows {
        0 => Basis::Published(fit.formula),
        _ => Basis::Formula { formula: fit.formula, is_extrapolated },
    };
    Some(Answer { step_s, interval_s, basis })
}

impl Throughput for FittedModel {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let setting = self.setting(question)?;
        let Answer { step_s, interval_s: (lo, hi), .. } = self.answer(question.job.workload, &setting)?;
        Some(Prediction { step_ns: step_s * 1e9, step_ns_ci: Some((lo * 1e9, hi * 1e9)) })
    }

    fn observe(&mut self, question: &PredictRequest<'_>, step_ns: f64) -> bool {
        let Some(setting) = self.setting(question) else { return false };
        FittedModel::observe(self, question.job.workload, Observation::new(setting, step_ns / 1e9))
    }

    fn version(&self) -> Option<u64> {
        Some(self.version)
    }
}

/// A row of a file as an observation.
pub fn observation(facts: Facts, row: &FittedRow) -> Observation {
    let seconds = |ns: u64| ns as f64 / 1e9;
    Observation {
        setting: Setting {
            facts,
            global_batch: row.global_batch,
            plan: row.plan,
            placement: Placement::of(&row.placement),
            cpus: row.cpus,
            ranks_per_device: row.ranks_per_device,
        },
        step_s: seconds(row.step_ns),
        forward_s: row.forward_ns.map(seconds),
        synchronised_s: row.synchronised_ns.map(seconds),
        updated_s: row.updated_ns.map(seconds),
    }
}

/// Fits every formula that describes enough of the rows of a workload. `held_out` is the share of the configurations that the
/// published errors are on. Rows that the others contradict are marked, and are not fitted to. With the predictions of rows that were left
/// out, by the formula that is asked first.
///
/// # Errors
/// Fails if no formula describes enough different configurations.
pub fn fit_and_predict(
    workload: &str,
    facts: Facts,
    mut rows: Vec<FittedRow>,
    held_out: f64,
    options: &Options,
) -> Result<(FittedWorkload, RowsLeftOut), FitError> {
    let observations: Vec<Observation> = rows.iter().map(|row| observation(facts, row)).collect();
    let widest = choice::widest(&observations)?;
    let mut explanations = doubts::explanations(widest, &described(widest, &observations), options);
    let doubtful = explanations.remove(0).wrong;
    for (row, observation) in rows.iter_mut().zip(&observations) {
        row.doubtful = doubtful.contains(&observation.setting);
    }
    let believed: Vec<Observation> =
        observations.iter().filter(|row| !doubtful.contains(&row.setting)).copied().collect();
    let held_out = choice::held_out(&believed, held_out, options);
    let in_order = choice::in_order(&believed, options)?;
    let singly = in_order.first().map_or(Vec::new(), |(_, left_out)| left_out.clone());
    for (row, observation) in rows.iter_mut().zip(&observations) {
        let own = singly.iter().find(|left_out| left_out.setting == observation.setting);
        row.left_out = own.map(left_out_step);
    }
    let fits = in_order.into_iter().map(|(mut fit, left_out)| {
        let described = described(fit.formula, &observations);
        fit.covariance += doubts::spread(&fit, &described, &explanations, options);
        let by_formula = held_out.as_ref().map_or(&[][..], |held_out| &held_out.by_formula);
        let own = by_formula.iter().find(|(formula, _)| *formula == fit.formula);
        FormulaFit {
            leave_one_out: held_out::errors_singly(&left_out),
            held_out: own.map_or(Vec::new(), |(_, rows)| held_out::errors(rows)),
            ..to_file(&fit)
        }
    });
    let fits = fits.collect();
    let held_out = held_out.map_or(Vec::new(), |held_out| held_out.chosen);
    let fitted = FittedWorkload {
        workload: workload.into(),
        facts,
        rows,
        launches_differ: None,
        fits,
        held_out: held_out::errors(&held_out),
        memory: None,
    };
    Ok((fitted, RowsLeftOut { singly, held_out }))
}

fn left_out_step(left_out: &LeftOut) -> LeftOutStep {
    let ns = |seconds: f64| (seconds * 1e9).round() as u64;
    LeftOutStep {
        step_ns: ns(left_out.predicted_s),
        step_ns_ci_lo: ns(left_out.interval_s.0),
        step_ns_ci_hi: ns(left_out.interval_s.1),
    }
}

/// [`fit_and_predict`] without the predictions.
///
/// # Errors
/// Fails if no formula describes enough different configurations.
pub fn fit_workload(
    workload: &str,
    facts: Facts,
    rows: Vec<FittedRow>,
    held_out: f64,
    options: &Options,
) -> Result<FittedWorkload, FitError> {
    fit_and_predict(workload, facts, rows, held_out, options).map(|(fitted, _)| fitted)
}

/// Predictions of rows that were not fitted to.
#[derive(Clone, Debug, Default)]
pub struct RowsLeftOut {
    /// Each configuration by the others.
    pub singly: Vec<LeftOut>,
    /// A share of the configurations by the others, which also choose the formula.
    pub held_out: Vec<LeftOut>,
}

/// A fit as a file has it, without its errors.
pub(crate) fn to_file(fit: &Fit) -> FormulaFit {
    let count = fit.priors.len();
    let parameter = |(index, parameter): (usize, &formula::Parameter)| {
        let prior = fit.priors[index];
        let (log, half) = (fit.logarithms[index], 1.96 * fit.deviation(index));
        FittedParameter {
            name: parameter.name.into(),
            unit: parameter.unit.into(),
            value: log.exp(),
            ci_lo: (log - half).exp(),
            ci_hi: (log + half).exp(),
            origin: match (prior.is_given(), fit.is_identified(index)) {
                (true, _) => Origin::Given,
                (_, true) => Origin::Fitted,
                (_, false) => Origin::Assumed,
            },
            prior: prior.mean,
            prior_sd: prior.sd,
        }
    };
    FormulaFit {
        formula: fit.formula,
        rows: fit.rows as u32,
        scale: fit.scale,
        reach: fit.reach,
        parameters: formula::parameters(fit.formula).iter().enumerate().map(parameter).collect(),
        covariance: (0..count)
            .map(|row| (0..count).map(|column| fit.covariance[(row, column)]).collect())
            .collect(),
        leave_one_out: Vec::new(),
        held_out: Vec::new(),
    }
}

/// A fit of a file, with the rows that were fitted to.
fn from_file(file: &FormulaFit, rows: &[Observation]) -> Result<Fit, OtherParameters> {
    let names = file.parameters.iter().map(|parameter| parameter.name.as_str());
    if !names.eq(formula::parameters(file.formula).iter().map(|parameter| parameter.name)) {
        return Err(OtherParameters { formula: file.formula });
    }
    let mut logarithms = Parameters::zeros();
    let mut covariance = SMatrix::zeros();
    for (row, parameter) in file.parameters.iter().enumerate() {
        logarithms[row] = parameter.value.ln();
        for (column, value) in file.covariance[row].iter().enumerate() {
            covariance[(row, column)] = *value;
        }
    }
    let prior = |parameter: &FittedParameter| Prior { mean: parameter.prior, sd: parameter.prior_sd };
    Ok(Fit {
        formula: file.formula,
        priors: file.parameters.iter().map(prior).collect(),
        logarithms,
        covariance,
        scale: file.scale,
        reach: file.reach,
        rows: file.rows as usize,
        hull: Hull::of(&described(file.formula, rows)),
    })
}
