//! CPUs of nodes: jobs are started with them, and give them back with their devices.

use std::collections::BTreeMap;

use engine::{
    Engine, Settings,
    cluster::{Action, DeviceId, JobId, Settled},
    job::JobRequest,
    journal::Journal,
    policy::Policy,
    topology::{NodeId, Topology},
    view::View,
};
use formats::{
    decision::{ClusterEvent, Turn},
    exec::{Shown, ShownCpus},
    rows::Outcome,
    trace::Class,
};
use launches::simulated;
use model::switch_costs::Named;
use proptest::prelude::*;
use record::{
    manifest::{AlikeNodes, NodeFacts},
    placement::Placement,
    rows::Status,
};
use schema::{device::Device, spec::LaunchSpec, units::Nanos};
use testbed::process::HostCores;

use crate::{
    actions::{Scripted, arrived, settled},
    bench::{Bench, Wanted},
    exec::keeps,
    packing::Packs,
    scripts::{FromView, MS},
    support::{Own, SECOND, asked, built},
};

/// Nodes of so many devices and CPUs, if they are known.
fn topology(groups: &[(u32, u32, Option<u32>)]) -> Topology {
    let group = |&(nodes, devices, cpus): &(u32, u32, Option<u32>)| AlikeNodes {
        nodes,
        devices,
        device_type: "GPU".into(),
        facts: NodeFacts { cpus, ..NodeFacts::default() },
        ..AlikeNodes::default()
    };
    Topology::simulated(&groups.iter().map(group).collect::<Vec<_>>())
}

fn start(job: u32, devices: &[u32], cpus: Option<u16>) -> Action {
    let devices = devices.iter().map(|device| DeviceId(*device)).collect();
    Action::Start { job: JobId(job), devices, cpus, plan: None }
}

fn with(cpus: u16, job: JobRequest) -> JobRequest {
    job.with(|request| request.cpus = Some(cpus))
}

/// One node of four devices and eight CPUs, and one of which nothing is known.
#[test]
fn a_start_needs_free_cpus_and_jobs_that_leave_give_theirs_back() {
    let topology = topology(&[(1, 4, Some(8)), (1, 4, None)]);
    let jobs: Vec<_> =
        [2, 1, 1, 2].into_iter().zip(0..).map(|(devices, id)| asked(id, 0, devices, 9, 1)).collect();
    let script = [
        (arrived(0), vec![start(0, &[0, 1], Some(5)), start(0, &[0, 1], Some(3))], 8),
        (arrived(1), vec![start(1, &[2], Some(3)), start(1, &[2], Some(2))], 2),
        // Jobs that name no CPUs take none.
        (arrived(2), vec![start(2, &[3], Some(1)), start(2, &[3], None)], 0),
        (arrived(3), vec![start(3, &[4, 5], Some(99))], 0),
        (settled(0, Settled::Running), vec![Action::Pause { job: JobId(0) }], 0),
        (settled(1, Settled::Running), vec![Action::Stop { job: JobId(1), checkpoint: false }], 6),
        (settled(0, Settled::Paused), vec![], 8),
        (settled(1, Settled::Stopped), vec![start(1, &[2], Some(3)), Action::Resume { job: JobId(0) }], 8),
        (
            settled(1, Settled::Running),
            vec![Action::End { job: JobId(1) }, Action::Resume { job: JobId(0) }],
            5,
        ),
        (settled(0, Settled::Running), vec![], 2),
    ];
    let mut heard = Vec::new();
    let mut actions = script.iter().map(|(_, actions, _)| actions.clone());
    let mut policy = FromView(|view: &View<'_>| {
        heard.push(view.occupancy.free_cpus(NodeId(0)).expect("it is known"));
        assert_eq!(view.occupancy.free_cpus(NodeId(1)), None);
        actions.next().unwrap_or_default()
    });
    let events = script.iter().map(|(event, ..)| event.clone()).collect();
    let mut cluster = Scripted { now: Nanos::ZERO, events };
    let model = Own { slowdown: 1.0 };
    let mut turns: Vec<Turn> = Vec::new();
    let mut engine = Engine::new(&topology, &jobs, &model, Settings::default());
    engine::run(&mut engine, &mut cluster, &mut policy, &mut turns).expect_err("the script ends first");
    assert_eq!(heard, script.map(|(.., free)| free));
    let refused = |turn: usize| turns[turn].refused.iter().map(|it| it.why.as_str()).collect::<Vec<_>>();
    assert_eq!(refused(0), ["n0 has 8 free CPUs, and it would get 10"]);
    assert_eq!(refused(1), ["n0 has 2 free CPUs, and it would get 3"]);
    assert_eq!(refused(2), ["n0 has 0 free CPUs, and it would get 1"]);
    assert_eq!(refused(7), ["n0 has 5 free CPUs, and it would get 6"]);
    assert!([3, 4, 5, 8].into_iter().all(|turn: usize| refused(turn).is_empty()));
}

#[test]
fn a_job_that_no_node_has_the_cpus_for_is_not_admitted() {
    let topology = topology(&[(2, 2, Some(8))]);
    let jobs = [
        with(5, asked(0, 0, 2, 9, 1)),
        with(4, asked(1, 0, 4, 9, 1)),
        with(5, asked(2, 0, 4, 9, 1)),
        with(9, asked(3, 0, 1, 9, 1)),
    ];
    let model = Own { slowdown: 1.0 };
    let refused = |placement, counts_cpus| {
        let settings = Settings { placement, counts_cpus, ..Settings::default() };
        let mut engine = Engine::new(&topology, &jobs, &model, settings);
        engine.refuse_for_lack_of_cpus(placement);
        engine.outcomes().map(|row| row.status == Status::Unsupported).collect::<Vec<_>>()
    };
    assert_eq!(refused(Placement::Spread, true), [false, false, true, true]);
    assert_eq!(refused(Placement::Consolidated, true), [true, false, true, true], "two devices of one node");
    assert_eq!(refused(Placement::Spread, false), [false; 4], "as in runs that did not count them");
}

fn run(
    topology: &Topology,
    jobs: &[JobRequest],
    placement: Placement,
    policy: &mut dyn Policy,
    journal: &mut dyn Journal,
) -> Vec<Outcome> {
    let costs = Named::constant(Nanos(500 * MS));
    let settings =
        simulated::Settings { progress_every: Some(Nanos(3 * SECOND)), ..simulated::Settings::default() };
    let truth = Box::new(Own { slowdown: 1.2 });
    let mut sim = simulated::cluster(topology, jobs, truth, &costs, settings).expect("all is known");
    let model = Packs { slowdown: Some(1.2), interval: 0.01 };
    let settings = Settings { placement, ..Settings::default() };
    let mut engine = Engine::new(topology, jobs, &model, settings);
    engine.refuse_for_lack_of_cpus(placement);
    engine::run(&mut engine, &mut sim, policy, journal).expect("every job ends")
}

/// Two nodes of two devices and eight CPUs. Jobs of 10 s, by their cores.
#[test]
fn jobs_wait_for_cpus_as_they_do_for_devices() {
    let topology = topology(&[(2, 2, Some(8))]);
    let jobs: Vec<_> =
        [6, 6, 6, 2].into_iter().zip(0..).map(|(cpus, id)| with(cpus, asked(id, 0, 1, 10, SECOND))).collect();
    for (policy, starts) in [
        // Both nodes have 2 CPUs and a free device left, for which the third job does not fit and the last does.
        ("fifo", [0, 0, 10, 10]),
        ("fifo-backfill", [0, 0, 10, 0]),
        ("srtf", [0, 0, 10, 0]),
    ] {
        for placement in [Placement::Consolidated, Placement::Spread] {
            let mut turns: Vec<Turn> = Vec::new();
            let outcomes = run(&topology, &jobs, placement, &mut *built(policy), &mut turns);
            let found = outcomes.iter().map(|row| row.start_ns.map(|at| at / SECOND)).collect::<Vec<_>>();
            assert_eq!(found, starts.map(Some), "{policy}, {placement}");
        }
    }
}

/// A shorter job displaces the jobs whose CPUs it needs, though devices are free.
#[test]
fn a_preemptive_policy_frees_cpus() {
    let topology = topology(&[(1, 4, Some(8))]);
    let jobs = [
        with(4, asked(0, 0, 1, 100, SECOND)),
        with(4, asked(1, 0, 1, 200, SECOND)),
        with(3, asked(2, 10 * SECOND, 1, 5, SECOND)),
    ];
    for placement in [Placement::Consolidated, Placement::Spread] {
        let mut turns: Vec<Turn> = Vec::new();
        run(&topology, &jobs, placement, &mut *built("srtf"), &mut turns);
        let at = turns.iter().find(|turn| turn.at_ns == jobs[2].arrival).expect("it arrives");
        let expected = [Action::Stop { job: JobId(1), checkpoint: true }, start(2, &[1], Some(3))];
        assert_eq!(at.actions, expected, "{placement}");
    }
}

fn jobs() -> impl Strategy<Value = Vec<JobRequest>> {
    let job = (0..20_000 * MS, 1..6u32, 1..40u64, 1..2_000 * MS, prop::option::of(0..5u16));
    prop::collection::vec(job, 1..12).prop_map(|mut jobs| {
        jobs.sort_by_key(|(arrival, ..)| *arrival);
        let job = |(id, (arrival, devices, steps, step_ns, cpus))| {
            asked(id, arrival, devices, steps, step_ns).with(|request| {
                request.cpus = cpus;
                request.class = if step_ns % 2 == 0 { Class::BestEffort } else { Class::Guaranteed };
            })
        };
        (0..).zip(jobs).map(job).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// No start of a policy is refused, and every job ends.
    #[test]
    fn policies_place_only_where_cpus_suffice(jobs in jobs(), spread in any::<bool>()) {
        let topology = topology(&[(2, 4, Some(8)), (1, 3, Some(5)), (1, 2, None)]);
        let placement = if spread { Placement::Spread } else { Placement::Consolidated };
        for policy in [
            "fifo",
            "fifo-backfill",
            "sjf",
            "srtf",
            "tiresias:5s/30s:promote=2",
            "packing-fifo",
            "synergy:every=5s",
            "antman",
        ] {
            let mut turns: Vec<Turn> = Vec::new();
            let outcomes = run(&topology, &jobs, placement, &mut *built(policy), &mut turns);
            for turn in &turns {
                prop_assert!(turn.refused.is_empty(), "{}: {:?}", policy, turn);
            }
            prop_assert!(outcomes.iter().all(|row| row.status != Status::Failed), "{}", policy);
        }
    }
}

#[test]
fn a_program_is_shown_the_cpus_that_jobs_leave() {
    let folder = tempfile::tempdir().expect("there is a place for files");
    let copy = folder.path().join("shown.jsonl");
    let action = r#"{"start": {"job": 0, "devices": [1], "cpus": 3}}"#.replace('"', "\\\"");
    let command = format!(
        "exec:sh -c 'n=0; {} | while read line; do echo \"{{\\\"turn\\\": $n, \\\"actions\\\": [{action}]}}\"; n=$((n + 1)); done'",
        keeps(&copy)
    );
    let topology = topology(&[(1, 2, Some(8)), (1, 2, None)]);
    let jobs = [asked(0, 0, 1, 5, SECOND)];
    let mut turns: Vec<Turn> = Vec::new();
    let mut policy = built(&command);
    run(&topology, &jobs, Placement::Spread, &mut *policy, &mut turns);
    drop(policy);
    let lines = std::fs::read_to_string(copy).expect("it was kept");
    let shown = |line: &str| Shown::from_line(line).expect("a line a turn").nodes;
    let free = |free_cpus| vec![ShownCpus { node: "n0".into(), free_cpus }];
    assert_eq!(lines.lines().take(2).map(shown).collect::<Vec<_>>(), [free(8), free(5)]);
}

#[test]
fn the_cores_of_a_machine_are_those_of_its_gpus() {
    let node = |name: &str, devices: Vec<Device>| (name.to_owned(), name.to_owned(), devices);
    let gpus = |numbers: std::ops::Range<u32>| numbers.map(Device::Cuda).collect();
    let nodes = [node("large", gpus(0..3)), node("small", gpus(3..4)), node("cpu", vec![Device::AllCores])];
    let topology = Topology::new(nodes).with_cpus(16);
    let cpus: Vec<Option<u32>> = topology.nodes().iter().map(|node| node.facts.cpus).collect();
    assert_eq!(cpus, [Some(12), Some(4), None]);
}

/// The launches fail where there is no GPU, and their specs are written before.
#[test]
fn a_launch_on_gpus_is_bound_to_cores_of_its_own() {
    let devices: Vec<Device> = (0..3).map(Device::Cuda).collect();
    let all = HostCores::beside(&devices).expect("there are cores").count() as u16;
    if all < 2 {
        schema::skips::skipped("cores", "there is one core");
        return;
    }
    let short = || Wanted::Training("short", 50);
    let mut bench = Bench::watched(&[short(), short(), short()], None, devices, Vec::new());
    for (job, cpus) in [(0, Some(all - 1)), (1, Some(1)), (2, Some(1))] {
        let plan = Some("dp1".parse().expect("it is a plan"));
        let devices = vec![DeviceId(job)];
        bench.apply(Action::Start { job: JobId(job), devices, cpus, plan }).expect("it can be asked for");
    }
    let mut details = BTreeMap::new();
    while details.len() < 3 {
        if let ClusterEvent::Failed { job, detail, .. } = bench.next() {
            details.insert(job.0, detail);
        }
    }
    assert_eq!(details[&2], "too few cores of the host are left for it: 0, and it needs 1");
    let spec = |launch: &str| bench.run.spec(launch).expect("it was written");
    let [first, second] = ["0001-short", "0002-short"].map(spec);
    let processors = |spec: &LaunchSpec| match &spec.host_cores[..] {
        [Device::Cpu(processors)] => processors.clone(),
        other => panic!("{other:?}"),
    };
    assert!(processors(&first).iter().all(|cpu| !processors(&second).contains(cpu)), "{first:?} {second:?}");
    assert_eq!((first.threads, second.threads), (u32::from(all) - 1, 1));
}
