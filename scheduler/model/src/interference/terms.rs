//! The terms of the model: what may raise or lower a slowdown against a fair division of the device.

use formats::interference_fit::{AloneFeature, InterferenceTerm, JobAlone, TermName};

use crate::packing::UseAlone;

/// What a job does alone, as the model needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Alone {
    /// Share of time in which its device is busy; `None` if it was not measured, like the values below.
    pub(super) busy: Option<f64>,
    pub(super) step_s: Option<f64>,
    /// In cores.
    pub(super) host: Option<f64>,
    pub(super) traffic: Option<f64>,
    pub(super) memory_mib: Option<f64>,
}

const MIB: f64 = 1048576.0;

impl Alone {
    pub(crate) fn of(job: &JobAlone) -> Alone {
        Alone {
            busy: job.busy,
            step_s: job.step_ns.map(|step_ns| step_ns as f64 / 1e9),
            host: job.host,
            traffic: job.traffic,
            memory_mib: job.peak_memory_bytes.map(|bytes| bytes as f64 / MIB),
        }
    }

    /// What the job uses of its device; `None` if it is not known for how much of the time.
    pub(super) fn of_device(&self) -> Option<UseAlone> {
        let peak_memory_bytes = self.memory_mib.map(|mib| (mib * MIB).round() as u64);
        Some(UseAlone { busy: self.busy?, peak_memory_bytes })
    }

    /// The value of a feature; `None` if it was not measured.
    pub(crate) fn value(&self, feature: AloneFeature) -> Option<f64> {
        match feature {
            AloneFeature::Busy => self.busy,
            AloneFeature::Host => self.host,
            AloneFeature::Traffic => self.traffic,
            AloneFeature::Step => self.step_s.filter(|step_s| *step_s > 0.0).map(f64::ln),
            AloneFeature::Memory => self.memory_mib.map(f64::ln_1p),
        }
    }
}

/// The features that were measured of all jobs.
pub(crate) fn known_of_all<'a>(jobs: impl Iterator<Item = &'a Alone> + Clone) -> Vec<AloneFeature> {
    let is_known = |feature: &AloneFeature| jobs.clone().all(|job| job.value(*feature).is_some());
    AloneFeature::ALL.iter().copied().filter(is_known).collect()
}

/// The terms that these features give, without weights.
pub(super) fn terms(features: &[AloneFeature]) -> Vec<InterferenceTerm> {
    let term = |term, feature| InterferenceTerm { term, feature, weight: 0.0, centre: 0.0, scale: 1.0 };
    let mut terms = vec![term(TermName::Constant, None), term(TermName::Size, None)];
    for name in [TermName::Victim, TermName::Aggressors] {
        terms.extend(features.iter().map(|feature| term(name, Some(*feature))));
    }
    // What one job uses costs another only if that one uses it, too.
    let both = features.iter().filter(|feature| **feature != AloneFeature::Step);
    terms.extend(both.map(|feature| term(TermName::Product, Some(*feature))));
    terms
}

/// The value of a term for the first of some jobs, before it is scaled. A feature that was not measured counts as 0.
pub(super) fn value(term: &InterferenceTerm, jobs: &[&Alone]) -> f64 {
    let [victim, co_runners @ ..] = jobs else { return 0.0 };
    let of = |job: &Alone| term.feature.and_then(|feature| job.value(feature)).unwrap_or(0.0);
    let mean = || co_runners.iter().map(|job| of(job)).sum::<f64>() / co_runners.len().max(1) as f64;
    match term.term {
        TermName::Constant => 1.0,
        TermName::Size => jobs.len() as f64 - 2.0,
        TermName::Victim => of(victim),
        TermName::Aggressors => mean(),
        TermName::Product => of(victim) * mean(),
    }
}

/// The value of a term in the units of its weight.
pub(super) fn scaled(term: &InterferenceTerm, jobs: &[&Alone]) -> f64 {
    (value(term, jobs) - term.centre) / term.scale
}
