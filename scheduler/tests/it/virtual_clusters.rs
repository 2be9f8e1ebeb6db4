//! A cluster that is divided into virtual clusters: each is scheduled as if it were alone.

use engine::{Engine, cluster::JobId, job::JobRequest, policy::Policy, topology::Topology};
use formats::{decision::Turn, rows::Outcome};
use launches::simulated::{self, Settings};
use model::switch_costs::Named;
use proptest::prelude::*;
use record::{manifest::AlikeNodes, placement::Placement, rows::Status};
use schema::units::Nanos;

use crate::{
    packing::Packs,
    scripts::{MS, Script, start},
    support::{Own, SECOND, asked, built},
};

/// Nodes as `(virtual cluster, nodes, devices of each, type)`.
pub(crate) fn divided(groups: &[(&str, u32, u32, &str)]) -> Topology {
    let group = |&(name, nodes, devices, device_type): &(&str, u32, u32, &str)| AlikeNodes {
        nodes,
        devices,
        device_type: device_type.into(),
        virtual_cluster: (!name.is_empty()).then(|| name.into()),
        ..AlikeNodes::default()
    };
    Topology::simulated(&groups.iter().map(group).collect::<Vec<_>>())
}

fn of(virtual_cluster: &str, job: JobRequest) -> JobRequest {
    job.with(|request| request.virtual_cluster = virtual_cluster.into())
}

fn run(
    topology: &Topology,
    jobs: &[JobRequest],
    placement: Placement,
    policy: &mut dyn Policy,
) -> (Vec<Turn>, Vec<Outcome>) {
    let costs = Named::constant(Nanos(1_500 * MS));
    let settings = Settings { progress_every: Some(Nanos(3 * SECOND)), ..Settings::default() };
    let mut sim = simulated::cluster(topology, jobs, Box::new(Own { slowdown: 1.2 }), &costs, settings)
        .expect("all is known");
    let model = Packs { slowdown: Some(1.2), interval: 0.01 };
    let settings = engine::Settings { placement, ..engine::Settings::default() };
    let mut turns = Vec::new();
    let outcomes =
        engine::run(&mut Engine::new(topology, jobs, &model, settings), &mut sim, policy, &mut turns);
    (turns, outcomes.expect("every job ends"))
}

#[test]
fn the_head_of_one_virtual_cluster_does_not_hold_up_another() {
    let topology = divided(&[("a", 1, 2, "GPU"), ("b", 2, 1, "GPU")]);
    let job = |name, id, devices, seconds: u64| of(name, asked(id, 0, devices, seconds * 1_000, MS));
    // The second job waits for the first, although both devices of the other virtual cluster are free until the third comes. The
    // last one waits for the third, and not for the second.
    let jobs = [job("a", 0, 2, 10), job("a", 1, 1, 5), job("b", 2, 2, 4), job("b", 3, 1, 3)];
    for placement in [Placement::Consolidated, Placement::Spread] {
        let (turns, outcomes) = run(&topology, &jobs, placement, &mut *built("fifo"));
        let ends: Vec<u64> = outcomes.iter().filter_map(|row| Some(row.end_ns? / SECOND)).collect();
        assert_eq!(ends, [10, 15, 4, 7], "{placement}");
        assert!(turns.iter().any(|turn| turn.reason == "b: first in the queue: job-3"), "{turns:?}");
    }
}

/// A virtual cluster, and the arrival, the devices and the length of a job.
fn any_jobs() -> impl Strategy<Value = Vec<JobRequest>> {
    let devices = prop::sample::select(&[1u32, 1, 2, 3, 4, 6][..]);
    let job = (prop::sample::select(&["a", "b", "c"][..]), 0u64..60_000, devices, 1u64..30_000);
    prop::collection::vec(job, 1..50).prop_map(|mut jobs| {
        jobs.sort_by_key(|job| job.1);
        let job = |(id, (name, at, devices, steps))| of(name, asked(id, at * MS, devices, steps, MS));
        (0..).zip(jobs).map(job).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn each_virtual_cluster_is_scheduled_as_if_it_were_alone(jobs in any_jobs()) {
        // The nodes of one virtual cluster need not be adjacent.
        let groups = [("a", 2, 4, "GPU"), ("b", 1, 4, "old"), ("c", 3, 2, "GPU"), ("b", 1, 6, "GPU")];
        let topology = divided(&groups);
        for policy in ["fifo", "fifo-backfill", "sjf", "qssf", "srtf", "srsf", "tiresias:20s:promote=3", "packing-fifo"] {
            for placement in [Placement::Consolidated, Placement::Spread] {
                let (turns, together) = run(&topology, &jobs, placement, &mut *built(policy));
                prop_assert!(turns.iter().all(|turn| turn.refused.is_empty()), "{}", policy);
                for name in ["a", "b", "c"] {
                    let own: Vec<_> =
                        groups.iter().filter(|group| group.0 == name).map(|group| ("", group.1, group.2, group.3)).collect();
                    let its = jobs.iter().filter(|job| job.virtual_cluster == name);
                    let its: Vec<JobRequest> =
                        (0..).zip(its).map(|(id, job)| JobRequest { id: JobId(id), ..job.clone() }).collect();
                    let (_, alone) = run(&divided(&own), &its, placement, &mut *built(policy));
                    for row in &alone {
                        let beside = together.iter().find(|other| other.name == row.name).expect("all have rows");
                        let what = |row: &Outcome| (row.start_ns, row.end_ns, row.starts, row.switching_ns);
                        prop_assert_eq!(what(beside), what(row), "{} {} {}", policy, placement, row.name);
                    }
                }
            }
        }
    }
}

#[test]
fn a_start_outside_the_virtual_cluster_of_the_job_is_refused() {
    let topology = divided(&[("a", 1, 2, "GPU"), ("b", 1, 2, "GPU")]);
    let jobs = [of("b", asked(0, 0, 2, 1, SECOND))];
    let mut script = Script(vec![vec![start(0, &[0, 1]), start(0, &[1, 2]), start(0, &[2, 3])]]);
    let (turns, outcomes) = run(&topology, &jobs, Placement::Consolidated, &mut script);
    let why: Vec<&str> = turns[0].refused.iter().map(|refused| &*refused.why).collect();
    assert_eq!(why, ["n0 is not of 'b', the virtual cluster of the job"; 2]);
    assert_eq!((turns[0].actions.len(), outcomes[0].status), (1, Status::Ok));
}

/// The reason why a job is not admitted.
fn not_admitted(row: &Outcome) -> Option<&str> {
    row.err_detail.as_deref().filter(|_| row.status == Status::Unsupported)
}

#[test]
fn a_job_whose_virtual_cluster_is_not_there_or_is_too_small_is_not_admitted() {
    let topology = divided(&[("a", 2, 2, "GPU"), ("b", 1, 2, "GPU"), ("a", 1, 8, "old")]);
    let job = |name, devices| [of(name, asked(0, 0, devices, 1, SECOND))];
    let model = Own { slowdown: 1.0 };
    for (name, devices, why) in [
        ("a", 8, None),
        ("b", 2, None),
        ("b", 3, Some("asks for 3 devices, and virtual cluster 'b' has 2 of one type")),
        ("c", 1, Some("is of virtual cluster 'c', and the cluster is divided into a, b")),
        ("", 1, Some("names no virtual cluster in column 'vc', and the cluster is divided into a, b")),
    ] {
        let jobs = job(name, devices);
        let engine = Engine::new(&topology, &jobs, &model, engine::Settings::default());
        let row = engine.outcomes().next().expect("there is a job");
        assert_eq!(not_admitted(&row), why, "{name} {devices}");
    }
    // Without a division, the name is a label.
    let topology = Topology::uniform(2, 2, "GPU");
    let jobs = job("c", 2);
    let engine = Engine::new(&topology, &jobs, &model, engine::Settings::default());
    let row = engine.outcomes().next().expect("there is a job");
    assert_eq!(not_admitted(&row), None);
}
