//! Which configurations to measure next.
//!
//! A measurement of a configuration whose logarithm has the derivatives g changes the covariance C of the parameters to
//!
//! ```text
//! C' = C - C g g' C / (s^2 + g' C g)          s: scale of the residuals (Sherman and Morrison, 1950)
//! ```
//!
//! and lowers the variances of all predictions, of which the mean over n candidates falls by
//!
//! ```text
//! gain(g) = 1/n sum over t of (t' C g)^2 / (s^2 + g' C g) = v' M v / (s^2 + g' v),   v = C g,  M = 1/n sum over t of t t'
//! ```
//!
//! This is the criterion of an I-optimal design (Atkinson, Donev and Tobias, 2007, chapter 10). Configurations are chosen one after
//! another, each with the largest gain for a second of device time. C does not depend on the times that will be measured as long as
//! the parameters stay where they are, so that several can be chosen before any is measured.

use crate::{
    Fit, Setting,
    fit::Covariance,
    formula::{self, Parameters},
    hull::Hull,
};

/// A configuration that could be measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    pub setting: Setting,
    /// What its measurement costs, in seconds times devices; above 0.
    pub device_s: f64,
}

/// A choice among the candidates of several designs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The number of its design.
    pub design: usize,
    /// Its number among the candidates of that design.
    pub candidate: usize,
}

/// The candidates of a workload, and the covariance that is left after those that are chosen were measured.
#[derive(Clone, Debug)]
pub struct Design<'a> {
    fit: &'a Fit,
    candidates: Vec<Candidate>,
    /// Logarithm of the predicted time, and its derivatives; `None` where the formula has no answer.
    predicted: Vec<Option<(f64, Parameters)>>,
    is_open: Vec<bool>,
    covariance: Covariance,
    /// Where the rows lie, with those of the candidates that are chosen.
    hull: Hull,
    /// Sum of the products of the derivatives of all candidates.
    spread: Covariance,
}

impl<'a> Design<'a> {
    /// Candidates that the formula does not describe, or whose cost is not above 0, are never chosen.
    pub fn new(fit: &'a Fit, candidates: Vec<Candidate>) -> Design<'a> {
        let of = |candidate: &Candidate| {
            formula::applies(fit.formula, &candidate.setting).ok()?;
            let (log, derivatives) =
                formula::log_step(fit.formula, &fit.logarithms, &candidate.setting).total;
            (log.is_finite() && derivatives.iter().all(|slope| slope.is_finite()))
                .then_some((log, derivatives))
        };
        let predicted: Vec<_> = candidates.iter().map(of).collect();
        let is_open = candidates.iter().zip(&predicted);
        let is_open = is_open.map(|(it, predicted)| predicted.is_some() && it.device_s > 0.0).collect();
        let mut spread = Covariance::zeros();
        for (_, derivatives) in predicted.iter().flatten() {
            spread += derivatives * derivatives.transpose();
        }
        let (covariance, hull) = (fit.covariance, fit.hull.clone());
        Design { fit, candidates, predicted, is_open, covariance, hull, spread }
    }

    /// The number of candidates that the formula describes.
    pub fn described(&self) -> usize {
        self.predicted.iter().flatten().count()
    }

    /// By how much the sum of the variances of the logarithms of all candidates falls if this one is measured.
    fn gain(&self, derivatives: &Parameters) -> f64 {
        let shared = self.covariance * derivatives;
        let scale = self.fit.scale;
        shared.dot(&(self.spread * shared)) / (scale * scale + derivatives.dot(&shared).max(0.0))
    }

    /// The open candidate with the largest gain for a second, and that gain.
    fn best(&self) -> Option<(usize, f64)> {
        let rate = |(index, predicted): (usize, &Option<(f64, Parameters)>)| {
            let (_, derivatives) = predicted.as_ref().filter(|_| self.is_open[index])?;
            Some((index, self.gain(derivatives) / self.candidates[index].device_s))
        };
        let rates = self.predicted.iter().enumerate().filter_map(rate);
        // Of equal ones, the first.
        rates.fold(None, |best: Option<(usize, f64)>, (index, rate)| match best {
            Some((_, largest)) if largest >= rate => best,
            _ => Some((index, rate)),
        })
    }

    /// Takes a candidate as measured, and every other one of the same configuration with it.
    fn measure(&mut self, candidate: usize) {
        let Some((_, derivatives)) = &self.predicted[candidate] else { return };
        let shared = self.covariance * derivatives;
        let scale = self.fit.scale;
        self.covariance -= shared * shared.transpose() / (scale * scale + derivatives.dot(&shared).max(0.0));
        self.hull.add(&self.candidates[candidate].setting);
        for (other, is_open) in self.candidates.iter().zip(&mut self.is_open) {
            *is_open &= other.setting != self.candidates[candidate].setting;
        }
    }

    /// The predicted time of a step of a candidate, in seconds.
    pub fn step_s(&self, candidate: usize) -> Option<f64> {
        self.predicted[candidate].map(|(log, _)| log.exp())
    }

    /// Half of the 95 % interval of the time of a candidate over that time, in percent, before anything that was chosen is measured
    /// and after all of it is.
    pub fn half_widths_percent(&self, candidate: usize) -> Option<(f64, f64)> {
        let (_, derivatives) = self.predicted[candidate].as_ref()?;
        let Fit { scale, reach, .. } = self.fit;
        let percent = |covariance: &Covariance, hull: &Hull| {
            let of_parameters = derivatives.dot(&(covariance * derivatives)).max(0.0);
            let variance = of_parameters + scale * scale + hull.variance(&self.candidates[candidate].setting);
            100.0 * (reach * variance.sqrt()).sinh()
        };
        Some((percent(&self.fit.covariance, &self.fit.hull), percent(&self.covariance, &self.hull)))
    }

    /// The sums of these half widths over all candidates that the formula describes.
    pub fn sums_of_half_widths_percent(&self) -> (f64, f64) {
        let of = |index| self.half_widths_percent(index);
        (0..self.candidates.len()).filter_map(of).fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y))
    }
}

/// Chooses up to `count` candidates of all designs, each with the largest gain for a second of device time, in the order of choice.
/// The parameters of different designs have nothing in common. No configuration is chosen twice.
pub fn suggest(designs: &mut [Design<'_>], count: usize) -> Vec<Choice> {
    let mut best: Vec<Option<(usize, f64)>> = designs.iter().map(Design::best).collect();
    let mut chosen = Vec::new();
    while chosen.len() < count {
        let of_designs = best.iter().enumerate();
        let of_designs =
            of_designs.filter_map(|(design, best)| best.map(|(index, rate)| (design, index, rate)));
        let Some((design, candidate, _)) =
            of_designs.reduce(|best, next| if next.2 > best.2 { next } else { best })
        else {
            break;
        };
        chosen.push(Choice { design, candidate });
        designs[design].measure(candidate);
        best[design] = designs[design].best();
    }
    chosen
}

/// The numbers of the `count` settings that say most of the others if each costs the same: a design from what `fit` knows, which is
/// that of the priors alone with [`Fit::of_priors`].
pub fn design(fit: &Fit, settings: &[Setting], count: usize) -> Vec<usize> {
    let candidates = settings.iter().map(|setting| Candidate { setting: *setting, device_s: 1.0 }).collect();
    let chosen = suggest(&mut [Design::new(fit, candidates)], count);
    chosen.into_iter().map(|choice| choice.candidate).collect()
}

#[cfg(test)]
#[path = "suggest/tests.rs"]
mod tests;
