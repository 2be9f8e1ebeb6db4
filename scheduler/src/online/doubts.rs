//! The measurements that predictions stand on: how wide their intervals are, and their warnings.

use std::collections::{BTreeSet, HashMap};

use engine::job::{JobRequest, Kind};
use formats::rows::Prediction;
use model::PredictRequest;
use record::rows::Warnings;
use schema::{sharing::Sharing, units::Nanos};

use super::run_inputs::RunInputs;

/// The number of jobs that a note names. Further ones are counted.
const NAMED: usize = 4;

/// What the prediction of a job stands on: the step time of the job alone on what it asks for, and the warnings of its rows.
#[derive(Clone, Debug, Default)]
struct Basis {
    step: Option<model::Prediction>,
    warnings: Warnings,
}

impl RunInputs {
    /// A sentence that names the jobs whose step times come from rows with warnings. `None` if there are no such jobs.
    pub fn doubts(&self) -> Option<String> {
        let mut known = HashMap::new();
        let jobs = self.asked.iter().map(|asked| (&*asked.name, self.basis(asked, &mut known).warnings));
        doubts(jobs)
    }

    /// Adds the step time of each job alone to its prediction, with its interval and the warnings of its rows.
    pub(super) fn add_basis(&self, predictions: &mut [Prediction]) {
        let mut known = HashMap::new();
        let whole = |ns: f64| (ns.round() as u64).min(Nanos::LONGEST.0);
        for (prediction, asked) in predictions.iter_mut().zip(&self.asked) {
            let Basis { step, warnings } = self.basis(asked, &mut known);
            prediction.step_ns = step.map(|step| whole(step.step_ns));
            let interval = step.and_then(|step| step.step_ns_ci);
            prediction.step_ns_ci_lo = interval.map(|(lo, _)| whole(lo));
            prediction.step_ns_ci_hi = interval.map(|(_, hi)| whole(hi));
            prediction.warnings = warnings;
        }
    }

    /// The answer to a question about a job alone on what it asks for: of the first node that has one. Such a question is the same
    /// for all jobs of a kind.
    pub(super) fn ask_alone<T>(
        &self,
        asked: &JobRequest,
        answer: impl Fn(&PredictRequest<'_>) -> Option<T>,
    ) -> Option<T> {
        let workload = asked.what.workload();
        self.topology.nodes().iter().find_map(|node| {
            answer(&PredictRequest {
                job: asked.subject(&workload, asked.plan, &self.topology, &node.device_type),
                placement: &[asked.devices],
                device_type: &node.device_type,
                cpus: asked.cpus,
                co_runners: &[],
                sharing: &Sharing::Alone,
                neighbours: &[],
            })
        })
    }

    fn basis<'a>(&self, asked: &'a JobRequest, known: &mut HashMap<Kind<'a>, Basis>) -> Basis {
        let truth = &self.models.truth;
        let of_rows = |question: &PredictRequest<'_>| {
            let step = truth.predict(question)?;
            Some(Basis { step: Some(step), warnings: truth.warnings(question) })
        };
        known
            .entry(asked.kind())
            .or_insert_with(|| self.ask_alone(asked, of_rows).unwrap_or_default())
            .clone()
    }
}

/// The same for jobs whose warnings are known.
pub fn doubts<'a>(jobs: impl Iterator<Item = (&'a str, Warnings)>) -> Option<String> {
    let mut names = Vec::new();
    let mut all = Warnings::default();
    let mut seen = BTreeSet::new();
    for (name, warnings) in jobs.filter(|(_, warnings)| !warnings.is_empty()) {
        warnings.iter().for_each(|warning| all.add(warning));
        if seen.insert(name) {
            names.push(name);
        }
    }
    let (first, more) = names.split_at(names.len().min(NAMED));
    let and_more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    let what = all.to_string().replace(';', ", ");
    (!names.is_empty()).then(|| {
        format!("warning: step times of {}{and_more} come from rows with warnings: {what}", first.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use record::rows::Warning;

    use super::*;

    #[test]
    fn jobs_in_doubt_are_named_or_counted() {
        let said = |jobs: &[(&str, &[Warning])]| {
            doubts(jobs.iter().map(|(name, warnings)| (*name, warnings.iter().copied().collect())))
        };
        assert_eq!(said(&[("a", &[]), ("b", &[])]), None);
        let one = "warning: step times of b come from rows with warnings: steal, foreign";
        assert_eq!(said(&[("a", &[]), ("b", &[Warning::Foreign, Warning::Steal])]).as_deref(), Some(one));
        let six = ["a", "b", "c", "d", "e", "f"].map(|name| (name, &[Warning::Foreign][..]));
        let many = "warning: step times of a, b, c, d and 2 more come from rows with warnings: foreign";
        assert_eq!(said(&six).as_deref(), Some(many));
    }
}
