//! Growing and shrinking.

use engine::{Engine, topology::Topology, view::PolicyContext};
use formats::decision::Turn;
use jobs::plans::Judgement;
use launches::simulated::{self, Settings};
use model::{PredictRequest, Prediction, Throughput, switch_costs::Named};
use record::suspension::Suspension;
use scheduler::legal_plans;
use schema::{
    catalog::{Catalog, CatalogEntry},
    units::Nanos,
};

use super::{HEAVY, LIGHT, POOR, World, elastic, ends, job, reasons, starts};
use crate::support::built;

#[test]
fn an_elastic_job_grows_when_devices_are_free_and_shrinks_at_once() {
    let jobs = [elastic(0, LIGHT, (0, 400)), job(1, HEAVY, (0, 1, 10)), job(2, HEAVY, (60, 2, 10))];
    let (turns, _) = World::node(4).run("gandiva:quantum=5s:reports=3", &jobs);
    let sizes: Vec<(f64, usize)> = starts(&turns)
        .into_iter()
        .filter(|(_, job, _)| *job == 0)
        .map(|(at, _, devices)| (at, devices.len()))
        .collect();
    assert_eq!(
        sizes.iter().map(|(_, size)| *size).collect::<Vec<_>>(),
        [1, 2, 4, 2, 4][..sizes.len()],
        "{sizes:?}"
    );
    assert!(sizes.len() >= 4 && sizes[1].0 >= 5.0 && sizes[2].0 < 40.0, "{sizes:?}");
    assert!(sizes[3].0 < 61.5, "it shrinks when the job comes: {sizes:?}");
    let others: Vec<(f64, u32, Vec<u32>)> =
        starts(&turns).into_iter().filter(|(_, job, _)| *job == 2).collect();
    assert!(others[0].0 < 61.5, "{others:?}");
    let (turns, _) = World::node(4).run("gandiva:quantum=5s:reports=3:grow=off", &jobs);
    assert_eq!(starts(&turns).len(), 3);
}

#[test]
fn growth_that_makes_a_job_slower_is_undone_and_not_tried_again() {
    let jobs = [elastic(0, POOR, (0, 100))];
    let (turns, outcomes) = World::node(2).run("gandiva:quantum=5s:reports=3", &jobs);
    let sizes: Vec<usize> = starts(&turns).into_iter().map(|(_, _, devices)| devices.len()).collect();
    assert_eq!(sizes, [1, 2, 1]);
    let undone = reasons(&turns, "goes back");
    assert!(undone[0].contains("0.400 ± "), "{undone:?}");
    assert!(ends(&outcomes)[0] < 110.0);
}

/// The simulated cluster has no time of the wider plan, so that its start is refused.
#[test]
fn growth_that_is_refused_is_taken_back() {
    struct OneDevice;
    impl Throughput for OneDevice {
        fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
            (question.placement == [1]).then_some(Prediction { step_ns: 1e8, step_ns_ci: None })
        }
    }
    let (topology, jobs) = (Topology::uniform(2, 2, "GPU"), [elastic(0, LIGHT, (0, 60))]);
    let costs = Named::constant(Nanos::ZERO);
    let settings = Settings { progress_every: Some(Nanos::SECOND), ..Settings::default() };
    let mut sim =
        simulated::cluster(&topology, &jobs, Box::new(OneDevice), &costs, settings).expect("all is known");
    let fits = |_: CatalogEntry<'_>, _, _: &_, _: (&_, &[_])| Judgement::default();
    let plans = legal_plans::enumerate(&jobs, &Catalog::embedded(), &topology, fits);
    let known = PolicyContext { costs: Some(&costs), plans: Some(&plans), ..PolicyContext::default() };
    let mut engine = Engine::new(&topology, &jobs, &OneDevice, engine::Settings::default()).knowing(known);
    let mut turns: Vec<Turn> = Vec::new();
    let outcomes =
        engine::run(&mut engine, &mut sim, &mut *built("gandiva:quantum=5s:reports=3"), &mut turns);
    let outcomes = outcomes.unwrap_or_else(|error| panic!("{error}: {turns:?}"));
    let refused: Vec<_> = turns.iter().flat_map(|turn| &turn.refused).collect();
    assert_eq!(refused.len(), 1, "it is tried once: {refused:?}");
    assert!((60.0..66.0).contains(&ends(&outcomes)[0]), "it starts again at the next turn: {outcomes:?}");
}

/// `cuda-checkpoint` suspends jobs of one process alone.
#[test]
fn a_job_that_could_not_be_suspended_any_more_does_not_grow() {
    let world = World { suspension: Suspension::CudaCheckpoint, ..World::node(2) };
    let (turns, _) = world.run("gandiva:quantum=5s:reports=3", &[elastic(0, LIGHT, (0, 100))]);
    assert_eq!(starts(&turns), [(0.0, 0, vec![0])]);
}
