//! The cost of jobs on other devices of a node in simulation.

use engine::{Engine, journal::Unrecorded, topology::Topology};
use launches::simulated::{self, Settings};
use model::{PredictRequest, Prediction, Throughput, switch_costs::Named};
use schema::units::Nanos;

use crate::{
    packing::Packs,
    policies::jobs,
    support::{SECOND, built},
};

/// Slower by a quarter for each neighbour at full time, and by a fifth beside a co-runner.
struct Crowded;

impl Throughput for Crowded {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let shares: f64 = question.neighbours.iter().map(|neighbour| neighbour.share).sum();
        let beside = if question.co_runners.is_empty() { 1.0 } else { 1.2 };
        let step_ns = question.job.trace_time?.step_ns as f64 * (1.0 + shares / 4.0) * beside;
        Some(Prediction { step_ns, step_ns_ci: None })
    }

    fn minds_neighbours(&self) -> bool {
        true
    }
}

/// The times in seconds at which jobs end on nodes of two devices, without switching cost.
fn ends(policy: &str, devices: u32, asked: &[(u64, u32, u64)]) -> Vec<u64> {
    let (topology, jobs, costs) =
        (Topology::uniform(devices, 2, "GPU"), jobs(asked), Named::constant(Nanos::ZERO));
    let mut sim =
        simulated::cluster(&topology, &jobs, Box::new(Crowded), &costs, Settings::default()).unwrap();
    let model = Packs { slowdown: Some(1.2), interval: 0.01 };
    let mut engine = Engine::new(&topology, &jobs, &model, engine::Settings::default());
    let outcomes = engine::run(&mut engine, &mut sim, &mut *built(policy), &mut Unrecorded).unwrap();
    outcomes.iter().filter_map(|row| row.end_ns).map(|end_ns| end_ns.div_ceil(SECOND)).collect()
}

#[test]
fn a_neighbour_slows_down_while_both_train_and_no_other_node() {
    // Four of the first job's ten seconds alone, four in five beside the second job, and the last two
    // alone.
    assert_eq!(ends("fifo", 4, &[(0, 1, 10), (4, 1, 4), (5, 2, 3)]), [11, 9, 8]);
}

#[test]
fn a_job_is_no_neighbour_of_itself_or_of_its_co_runners() {
    assert_eq!(ends("fifo", 2, &[(0, 2, 10)]), [10]);
    assert_eq!(ends("packing-fifo", 2, &[(0, 2, 10), (0, 2, 10)]), [12, 12]);
}

#[test]
fn neighbours_that_share_a_device_are_one_neighbour_at_a_time() {
    // The second job is slower by a quarter to its end; the others then have 10 of their 60 s left.
    assert_eq!(ends("packing-fifo", 2, &[(0, 1, 60), (0, 1, 60), (0, 1, 60)]), [87, 75, 87]);
}
