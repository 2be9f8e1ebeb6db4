//! A table of measured step times, and fitted models for configurations without a row.

use record::rows::Warnings;

use crate::{
    FittedModel, JobKey, PredictRequest, Prediction, Table, Throughput,
    packing::{Classified, PackingClasses, UseAlone},
};

/// The time of a job alone is that of the rows of a table. Without a row it is that of the first fitted model that has an answer,
/// and then that of the trace. Slowdowns by jobs on its devices come from the same table and models, and those by neighbours from the
/// table alone.
#[derive(Clone, Debug, Default)]
pub struct KnownOrFitted {
    pub table: Table,
    pub fitted: Vec<FittedModel>,
}

impl Throughput for KnownOrFitted {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let alone = PredictRequest { co_runners: &[], neighbours: &[], ..*question };
        let fitted = || self.fitted.iter().find_map(|model| model.predict(&alone));
        let slowdown = || self.fitted.iter().find_map(|model| model.slowdown(question));
        let by_co_runners = || slowdown().map(|found| (found.factor, found.interval));
        self.table.predict_or(question, || fitted().or_else(|| question.trace_time()), by_co_runners)
    }

    fn warnings(&self, question: &PredictRequest<'_>) -> Warnings {
        self.table.warnings(question)
    }

    fn peak_memory_bytes(&self, question: &PredictRequest<'_>) -> Option<u64> {
        let fitted = || self.use_alone(&question.job).and_then(|used| used.peak_memory_bytes);
        self.table.peak_memory_bytes(question).or_else(fitted)
    }

    fn minds_neighbours(&self) -> bool {
        self.table.minds_neighbours()
    }

    fn observe(&mut self, question: &PredictRequest<'_>, step_ns: f64) -> bool {
        let knows = |model: &&mut FittedModel| model.knows(question);
        let model = self.fitted.iter_mut().find(knows);
        model.is_some_and(|model| Throughput::observe(model, question, step_ns))
    }

    fn version(&self) -> Option<u64> {
        let versions = || self.fitted.iter().filter_map(Throughput::version);
        versions().next().map(|_| versions().sum())
    }
}

impl PackingClasses for KnownOrFitted {
    /// That of the first model that knows the job.
    fn class(&self, job: &JobKey<'_>) -> Option<Classified> {
        self.fitted.iter().find_map(|model| model.interference()?.class(job))
    }

    fn use_alone(&self, job: &JobKey<'_>) -> Option<UseAlone> {
        self.fitted.iter().find_map(|model| model.interference()?.use_alone(job))
    }
}
