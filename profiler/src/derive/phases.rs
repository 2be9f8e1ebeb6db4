//! The medians of the phases of a step.

use record::{
    rows::{ByStage, Measurement},
    steps::JobStep,
};
use schema::{units::Nanos, wire::Phases};
use statistics::median;

use super::whole;

/// Fills in the medians over the steps that count: in the columns by stage under pipeline parallelism, and otherwise in the others.
pub(super) fn fill(row: &mut Measurement, used: &[JobStep]) {
    let stages = used.first().map_or(0, |step| step.stages.len());
    let of = |phase: fn(&Phases) -> Option<Nanos>| -> (Option<u64>, Option<ByStage>) {
        let of_stage = |stage: usize| -> Option<u64> {
            let phase = |step: &JobStep| phase(step.stages.get(stage)?.phases.as_deref()?);
            let all: Vec<u64> = used.iter().filter_map(phase).map(|ns| ns.0).collect();
            // A phase that only some of the steps report would mix two different means.
            (all.len() == used.len()).then(|| median(&all)).flatten().map(whole)
        };
        let medians: Vec<Option<u64>> = (0..stages).map(of_stage).collect();
        match &medians[..] {
            [] => (None, None),
            [only] => (*only, None),
            several => (None, several.iter().any(Option::is_some).then_some(ByStage(medians))),
        }
    };
    (row.data_ns_median, row.data_ns_median_by_stage) = of(|p| p.data_ns);
    (row.forward_ns_median, row.forward_ns_median_by_stage) = of(|p| p.forward_ns);
    (row.backward_ns_median, row.backward_ns_median_by_stage) = of(|p| p.backward_ns);
    (row.sync_total_ns_median, row.sync_total_ns_median_by_stage) = of(|p| p.sync_total_ns);
    (row.sync_exposed_ns_median, row.sync_exposed_ns_median_by_stage) = of(|p| p.sync_exposed_ns);
    (row.optimizer_ns_median, row.optimizer_ns_median_by_stage) = of(|p| p.optimizer_ns);
    (row.offload_ns_median, row.offload_ns_median_by_stage) = of(|p| p.offload_ns);
    (row.tensor_ns_median, row.tensor_ns_median_by_stage) = of(|p| p.tensor_ns);
    (row.gather_ns_median, _) = of(|p| p.gather_ns);
    (_, row.pipeline_ns_median_by_stage) = of(|p| p.pipeline_ns);
}
