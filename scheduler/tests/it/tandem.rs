//! `tandem` on schedules that are known: each of its parts, on and off.

use engine::{Engine, cluster::ClusterError, job::JobRequest, topology::Topology, view::PolicyContext};
use formats::{
    decision::Turn,
    rows::Outcome,
    trace::Class::{self, BestEffort, Guaranteed},
};
use launches::simulated::{self, Settings};
use model::{PredictRequest, Prediction, Throughput, switch_costs::Named};
use record::placement::Placement;
use schema::{plan::Plan, units::Nanos};

use crate::{
    packing::Packs,
    planted::{Elastic, elastic},
    policies::jobs,
    support::{Own, SECOND, built},
};

/// The times in seconds at which jobs end that share devices at a true slowdown. Switches take no time but a restart. Jobs are spread
/// over one node.
fn ends(
    policy: &str,
    (devices, jobs): (u32, &[JobRequest]),
    model: &dyn Throughput,
    (restart_s, slowdown): (u64, f64),
) -> Vec<u64> {
    let topology = Topology::uniform(devices, devices, "GPU");
    let costs = Named::constant(Nanos(restart_s * SECOND));
    let truth = Box::new(Own { slowdown });
    let mut sim =
        simulated::cluster(&topology, jobs, truth, &costs, Settings::default()).expect("all is known");
    let known = PolicyContext { costs: Some(&costs), ..PolicyContext::default() };
    let settings = engine::Settings { placement: Placement::Spread, ..engine::Settings::default() };
    let mut engine = Engine::new(&topology, jobs, model, settings).knowing(known);
    let mut turns: Vec<Turn> = Vec::new();
    let outcomes: Result<Vec<Outcome>, ClusterError> =
        engine::run(&mut engine, &mut sim, &mut *built(policy), &mut turns);
    assert!(turns.iter().all(|turn| turn.refused.is_empty()), "{policy}: {turns:?}");
    let end = |row: &Outcome| row.end_ns.map(|end_ns| end_ns.div_ceil(SECOND));
    outcomes.expect("every job ends").iter().filter_map(end).collect()
}

/// Two nodes of two devices, on which a job has whole nodes or shares of one.
#[test]
fn the_node_is_freed_whose_jobs_lose_the_least() {
    let topology = Topology::uniform(4, 2, "GPU");
    // One job has a node, and two have the other. At 1 s, a job wants two devices for 3 s.
    let asked = jobs(&[(0, 2, 20), (0, 1, 10), (0, 1, 30), (1, 2, 3)]);
    let costs = Named::constant(Nanos(SECOND));
    let truth = Box::new(Own { slowdown: 1.0 });
    let mut sim =
        simulated::cluster(&topology, &asked, truth, &costs, Settings::default()).expect("all is known");
    let known = PolicyContext { costs: Some(&costs), ..PolicyContext::default() };
    let model = Own { slowdown: 1.0 };
    let mut engine = Engine::new(&topology, &asked, &model, engine::Settings::default()).knowing(known);
    let mut turns: Vec<Turn> = Vec::new();
    let outcomes =
        engine::run(&mut engine, &mut sim, &mut *built("tandem"), &mut turns).expect("every job ends");
    let ends: Vec<Option<u64>> =
        outcomes.iter().map(|row| row.end_ns.map(|end_ns| end_ns.div_ceil(SECOND))).collect();
    // A stop of the two others would cost twice as much. The first goes on from 5 s, for 19 s.
    assert_eq!(ends, [24, 10, 30, 4].map(Some));
    assert_eq!(outcomes.iter().map(|row| row.stops).collect::<Vec<_>>(), [1, 0, 0, 0].map(Some));
}

#[test]
fn rigid_jobs_have_known_schedules() {
    // A long job, and a shorter one 2 s later, when the long one has 8 s left.
    let two = &[(0, 1, 10), (2, 1, 3)][..];
    // At 1 s, two small jobs have 9 s and 11 s left, and a wide one has 2 s.
    let wide = &[(0, 1, 10), (0, 1, 12), (1, 2, 2)];
    // Short jobs keep arriving behind a long one.
    let stream = &[(0, 1, 9), (0, 1, 2), (2, 1, 2), (4, 1, 2), (6, 1, 2)];
    for (policy, devices, restart_s, asked, expected) in [
        // Both wait from 4 s on; the first has 8 s left and the third 9 s.
        ("tandem", 1, 0, &[(0, 1, 10), (2, 1, 3), (4, 1, 9)][..], vec![13, 5, 22]),
        // 8 s are more than 3 s and a restart of 4 s: stopped at 2 s, restarted from 5 s to 9 s.
        ("tandem", 1, 4, two, vec![17, 5]),
        // 8 s are less than 3 s and a restart of 6 s.
        ("tandem", 1, 6, two, vec![10, 13]),
        ("tandem:preempt=off", 1, 0, two, vec![10, 13]),
        // Both small jobs give up their devices for 2 s, if each has more left than the wide one and its restart.
        ("tandem", 2, 0, wide, vec![12, 14, 3]),
        ("tandem", 2, 7, wide, vec![10, 12, 14]),
        // The second job waits for two devices, and the third passes it.
        ("tandem:preempt=off", 2, 0, &[(0, 1, 10), (1, 2, 5), (2, 1, 4)], vec![10, 15, 6]),
        // All shorter jobs come before the long one.
        ("tandem", 1, 0, stream, vec![17, 2, 4, 6, 8]),
        // At 4 s it is overdue, and runs to its end.
        ("tandem:bound=4s", 1, 0, stream, vec![13, 2, 4, 15, 17]),
        // At 4 s, the wide job takes the devices of both others, though they have 2 s left.
        ("tandem:bound=3s", 2, 0, &[(0, 1, 6), (0, 1, 6), (1, 2, 20)], vec![26, 26, 24]),
    ] {
        let model = Own { slowdown: 1.0 };
        let actual = ends(policy, (devices, &jobs(asked)), &model, (restart_s, 1.0));
        assert_eq!(actual, expected, "{policy} {asked:?} {restart_s}");
    }
}

/// Knows no time.
struct Unknown;

impl Throughput for Unknown {
    fn predict(&self, _: &PredictRequest<'_>) -> Option<Prediction> {
        None
    }
}

/// The first job has run for 4 s when the second arrives, and is taken to run for as many. The second has run for 8 s when it gives
/// way, the next time that the policy looks after its 4 s: at 12 s, and the first then ends after its other 6 s.
#[test]
fn a_job_of_unknown_length_is_taken_to_run_as_long_again() {
    let asked = jobs(&[(0, 1, 10), (4, 1, 9)]);
    assert_eq!(ends("tandem", (1, &asked), &Unknown, (0, 1.0)), [18, 19]);
}

#[test]
fn jobs_share_devices_where_that_costs_less() {
    // At 2 s, the first job has 8 s left. Beside the second, each has 5/6 of its speed: the second ends after 7.2 s, at 9.2 s, and the first
    // has 2 s left then. Together both lose 2.4 s. To wait would cost the second 8 s.
    let two = jobs(&[(0, 1, 10), (2, 1, 6)]);
    let sure = |slowdown| Packs { slowdown: Some(slowdown), interval: 0.01 };
    for (policy, model, restart_s, expected) in [
        ("tandem", sure(1.2), 2, [12, 10]),
        ("tandem:pack=off", sure(1.2), 2, [10, 16]),
        // The sum of 1.667 may be 1.
        ("tandem", Packs { slowdown: Some(1.2), interval: 0.5 }, 2, [10, 16]),
        // At 1.9 times, the second job would end after 11.4 s, and both lose 10.8 s.
        ("tandem", sure(1.9), 2, [10, 16]),
        // Without a cost of restarts, the first job would give way, and lose 6 s. To share costs less.
        ("tandem", sure(1.2), 0, [12, 10]),
    ] {
        let actual = ends(policy, (1, &two), &model, (restart_s, 1.2));
        assert_eq!(actual, expected, "{policy} {restart_s}");
    }
}

/// At 2 s, the third job would wait 28 s for a device of the second, and both lose 16 s beside the first. The second job ends at 30 s. The
/// others have 72.5 s and 54.5 s left then, and would lose 10.9 s more.
#[test]
fn a_job_leaves_the_devices_that_it_shares_for_free_ones() {
    let asked = jobs(&[(0, 1, 100), (0, 2, 30), (2, 1, 80)]);
    let model = Packs { slowdown: Some(1.1), interval: 0.01 };
    // The third job is restarted until 35 s.
    assert_eq!(ends("tandem", (3, &asked), &model, (5, 1.1)), [103, 30, 90]);
    // A restart takes longer than they lose. When the third job ends at 90 s, the first has 18 s left.
    assert_eq!(ends("tandem", (3, &asked), &model, (60, 1.1)), [108, 30, 90]);
}

/// Two devices are twice as fast as one, and a ninth faster than that with tensor parallelism.
fn step_s(_: &str, plan: Plan, _: Option<u16>) -> Option<f64> {
    match &*plan.to_string() {
        "dp1" => Some(1.0),
        "dp2" => Some(0.5),
        "tp2" => Some(0.45),
        _ => None,
    }
}

/// An elastic job: its arrival in seconds; its workload, batch and plan; its steps; its class.
type ElasticJob = (u64, (&'static str, u32, &'static str), u64, Class);

/// The times in seconds at which elastic jobs end on two devices. A restart takes 2 s. The model lets jobs share devices at no loss, so that
/// policies are not to pack.
fn ends_of_elastic(policy: &str, asked: &[ElasticJob]) -> Vec<u64> {
    let topology = Topology::uniform(2, 2, "GPU");
    let asked: Vec<JobRequest> = (0..)
        .zip(asked)
        .map(|(id, &(arrival, job, steps, class))| elastic(id, arrival, job, steps, class))
        .collect();
    let costs = Named::constant(Nanos(2 * SECOND));
    let mut turns: Vec<Turn> = Vec::new();
    let outcomes = Elastic::new(&topology, &asked, step_s, &costs).run(&mut *built(policy), &mut turns);
    assert!(turns.iter().all(|turn| turn.refused.is_empty()), "{policy}: {turns:?}");
    outcomes.iter().filter_map(|row| row.end_ns.map(|end_ns| end_ns.div_ceil(SECOND))).collect()
}

#[test]
fn elastic_jobs_have_known_schedules() {
    let small = ("gpt2-mini", 8, "dp1");
    let large = ("gpt2-mini", 8, "dp2");
    let alone = &[(0, small, 100, BestEffort)][..];
    // At 10 s, the first job has 80 steps left on two devices.
    let of_class = |class| [(0, large, 100, class), (10, small, 10, Guaranteed)];
    for (policy, asked, expected) in [
        // No job waits, so that it starts on two devices.
        ("tandem:pack=off:plans=off", alone, vec![50]),
        ("tandem:pack=off:plans=off:grow=off", alone, vec![100]),
        ("tandem:pack=off:resize=off", alone, vec![100]),
        // It goes on with one device from 12 s, does 8 steps until the other ends at 20 s, and then has two again from 22 s, for 36 s.
        ("tandem:pack=off:plans=off", &of_class(BestEffort), vec![58, 20]),
        // On one device it would be slower than it was promised. It is stopped, the other has two devices, and it goes on from 17 s, for 40 s.
        ("tandem:pack=off:plans=off", &of_class(Guaranteed), vec![57, 15]),
        ("tandem:pack=off:plans=off:guarantee=off", &of_class(Guaranteed), vec![58, 20]),
        // Another plan is a ninth faster, and 30 % are needed.
        ("tandem:pack=off:resize=off", &[(0, large, 100, BestEffort)], vec![50]),
        ("tandem:pack=off:resize=off:margin=10%", &[(0, large, 100, BestEffort)], vec![45]),
    ] {
        assert_eq!(ends_of_elastic(policy, asked), expected, "{policy} {asked:?}");
    }
}
