//! The plans that can be simulated.

use engine::topology::Topology;
use model::{JobKey, PredictRequest, Throughput};
use schema::{plan::Plan, sharing::Sharing};

/// Whether the truth of a simulation has a time for a job, as workload, batch and plan, alone on the fewest nodes of a type.
pub(super) fn has_time(
    truth: &dyn Throughput,
    topology: &Topology,
    (workload, batch, plan): (&str, u32, Plan),
    device_type: &str,
) -> bool {
    let of_type = topology.nodes().iter().filter(|node| node.device_type == device_type);
    let Some(largest) = of_type.max_by_key(|node| node.devices.len()) else { return false };
    let job = JobKey::new(workload, Some(batch), Some(plan));
    let question = PredictRequest {
        job,
        placement: &largest.few_like_it(plan.ranks()),
        device_type,
        cpus: None,
        co_runners: &[],
        sharing: &Sharing::Alone,
        neighbours: &[],
    };
    truth.predict(&question).is_some()
}
