//! Indolent packing: which jobs are packed, which are not, and which are separated.

use engine::{Engine, cluster::Settled, job::JobRequest, topology::Topology, view::PolicyContext};
use formats::decision::Turn;
use model::{PredictRequest, Prediction, Throughput};
use record::rows::ErrorKind;
use schema::units::Nanos;

use super::{ByBatch, JUMBO, MEDIUM, TINY, UNKNOWN, World, estimated, job, of_class, starts, stops};
use crate::{
    actions::{self, arrived, failed, settled},
    packing::Packs,
    policies::becomes_command,
    support::{SECOND, built},
};

/// Jobs of these classes that arrive after each other, of 100 s on one device.
fn of_classes(classes: &[u32]) -> Vec<JobRequest> {
    (0..).zip(classes).map(|(id, class)| of_class(*class, job(id, (u64::from(id), 1, 100)))).collect()
}

/// The jobs that the last of these jobs shares devices with when it starts. It waits if it shares with none.
fn joined(world: &World<'_>, policy: &str, jobs: &[JobRequest]) -> Option<u32> {
    let found = world.starts(policy, jobs);
    let last = jobs.len() as u32 - 1;
    let (at, _, devices) = found.iter().find(|(_, job, _)| *job == last).expect("all jobs start");
    let arrival = jobs[last as usize].arrival.0 / SECOND;
    let host = found.iter().find(|(_, job, of_host)| *job != last && of_host == devices);
    host.filter(|_| *at == arrival).map(|(_, job, _)| *job)
}

#[test]
fn classes_are_packed_up_to_a_sum_of_scores() {
    let world = World::node(1);
    for (first, second, at_most) in [
        (TINY, TINY, 0),
        (TINY, MEDIUM, 1),
        (MEDIUM, MEDIUM, 2),
        (JUMBO, TINY, 2),
        (MEDIUM, JUMBO, 3),
        (JUMBO, JUMBO, 4),
    ] {
        for score in 0..5 {
            let policy = format!("lucid:sharing=on:score={score}");
            let found = joined(&world, &policy, &of_classes(&[first, second]));
            assert_eq!(found, (at_most <= score).then_some(0), "{first} and {second} with {score}");
        }
        let found = joined(&world, "lucid:sharing=on", &of_classes(&[first, second]));
        assert_eq!(found, (at_most <= 2).then_some(0), "{first} and {second}");
    }
    // A job of which nothing is known is packed with none.
    for classes in [[UNKNOWN, TINY], [TINY, UNKNOWN]] {
        assert_eq!(joined(&world, "lucid:sharing=on:score=4", &of_classes(&classes)), None);
    }
}

/// The sum of throughputs is two over the slowdown. Where the model does not know it, classes decide alone.
#[test]
fn a_pair_that_is_predicted_to_lose_is_not_packed() {
    let jobs = of_classes(&[TINY, TINY]);
    for (slowdown, policy, packed) in [
        (Some(1.2), "lucid:sharing=on", true),
        (Some(1.99), "lucid:sharing=on", true),
        (Some(2.0), "lucid:sharing=on", false),
        (Some(2.5), "lucid:sharing=on", false),
        (Some(1.2), "lucid:sharing=on:least-gain=1.7", false),
        (Some(1.1), "lucid:sharing=on:least-gain=1.7", true),
        (None, "lucid:sharing=on:least-gain=1.7", true),
    ] {
        let world = World { belief: &Packs { slowdown, interval: 0.5 }, ..World::node(1) };
        assert_eq!(joined(&world, policy, &jobs), packed.then_some(0), "{slowdown:?} {policy}");
    }
}

/// Each is believed or taken to gain, and does a step in 250 ms instead of 100 ms. Both report at 2 s and at 3 s, which is one window.
#[test]
fn a_pack_that_loses_is_separated_after_one_window_and_never_made_again() {
    let jobs = of_classes(&[TINY, TINY, TINY]);
    for slowdown in [Some(1.2), None] {
        let world = World {
            belief: &Packs { slowdown, interval: 0.01 },
            truth: 2.5,
            reports: true,
            ..World::node(1)
        };
        let (turns, _) = world.run("lucid:sharing=on", &jobs);
        assert_eq!(stops(&turns), [(3, 1, true)], "{slowdown:?}");
        let reason = turns.iter().find(|turn| turn.reason.contains("no longer")).map(|turn| &*turn.reason);
        assert_eq!(reason, Some("job-1 no longer beside job-0: measured 1.000 at most"), "{slowdown:?}");
        let order: Vec<u32> = starts(&turns).iter().map(|(_, job, _)| *job).collect();
        assert_eq!(order, [0, 1, 1, 2], "{slowdown:?}");
    }
    let world = World {
        belief: &Packs { slowdown: None, interval: 0.01 },
        truth: 1.9,
        reports: true,
        ..World::node(1)
    };
    assert_eq!(stops(&world.run("lucid:sharing=on", &jobs).0), [], "it still gains");
}

#[test]
fn only_jobs_of_equal_size_on_one_node_are_packed() {
    let tiny = |id, devices| of_class(TINY, job(id, (u64::from(id), devices, 100)));
    assert_eq!(joined(&World::node(2), "lucid:sharing=on", &[tiny(0, 2), tiny(1, 1)]), None);
    assert_eq!(joined(&World::node(2), "lucid:sharing=on", &[tiny(0, 2), tiny(1, 2)]), Some(0));
    let two_nodes = World::new(Topology::uniform(2, 1, "GPU"));
    assert_eq!(joined(&two_nodes, "lucid:sharing=on", &[tiny(0, 2), tiny(1, 2)]), None);
    // No device has three jobs.
    let world = World::node(1);
    assert_eq!(joined(&world, "lucid:sharing=on", &[tiny(0, 1), tiny(1, 1), tiny(2, 1)]), None);
}

/// The priority of a job is at most twice that of the one that it joins, which is one that has run for longer than it was estimated to.
#[test]
fn a_long_job_does_not_slow_down_a_short_one() {
    let pair = |host: u64, guest: u64| {
        let tiny = |seconds, of| estimated(seconds, of_class(TINY, of));
        [tiny(host, job(0, (0, 1, 300))), tiny(guest, job(1, (1, 1, 100)))]
    };
    let world = World::node(1).remembers(&[10, 49, 50, 100]);
    let policy = "lucid:sharing=on:estimates=rolling";
    assert_eq!(joined(&world, policy, &pair(50, 100)), Some(0));
    assert_eq!(joined(&world, policy, &pair(49, 100)), None);
    assert_eq!(joined(&world, policy, &pair(100, 10)), Some(0));
    // From 49 s on, the first is taken to run for twice as long as it has run. The second looks again after 100 s, when it is woken
    // by a report.
    let world = World { reports: true, ..World::node(1).remembers(&[49, 100]) };
    assert_eq!(world.starts(policy, &pair(49, 100)), [(0, 0, vec![0]), (100, 1, vec![0])]);
}

/// Beside another job, a job takes as many times as long as its batch says.
struct BySpeed;

impl Throughput for BySpeed {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let factor = match question.co_runners {
            [] => 1.0,
            [other] if other.global_batch? == TINY && question.job.global_batch? == TINY => 1.1,
            [_] => 1.4,
            _ => return None,
        };
        let step_ns = question.job.trace_time?.step_ns as f64 * factor;
        Some(Prediction { step_ns, step_ns_ci: None })
    }
}

#[test]
fn of_several_the_best_is_joined_or_the_first() {
    let jobs = of_classes(&[MEDIUM, TINY, TINY]);
    let world = World { belief: &BySpeed, ..World::node(2) };
    assert_eq!(joined(&world, "lucid:sharing=on", &jobs), Some(1));
    assert_eq!(joined(&world, "lucid:sharing=on:pick=best", &jobs), Some(1));
    assert_eq!(joined(&world, "lucid:sharing=on:pick=first", &jobs), Some(0));
    // If no gain is known, the lighter class is better.
    assert_eq!(joined(&World::node(2), "lucid:sharing=on", &jobs), Some(1));
}

#[test]
fn free_devices_come_first_unless_sharing_does() {
    let jobs = of_classes(&[TINY, TINY]);
    let world = World::node(2);
    assert_eq!(world.starts("lucid:sharing=on", &jobs), [(0, 0, vec![0]), (1, 1, vec![1])]);
    assert_eq!(world.starts("lucid:sharing=on:share-first=on", &jobs), [(0, 0, vec![0]), (1, 1, vec![0])]);
}

/// The first ends at 100 s or so. The second, which goes on, is then joined by the third.
#[test]
fn who_is_left_alone_is_joined_again() {
    let jobs = [
        of_class(TINY, job(0, (0, 1, 100))),
        of_class(TINY, job(1, (1, 1, 400))),
        of_class(TINY, job(2, (2, 1, 100))),
    ];
    let world = World::node(1);
    // The first does 1 s alone, and the other 99 s of its work take 118.8 s.
    assert_eq!(world.starts("lucid:sharing=on", &jobs)[2], (119, 2, vec![0]));
    // So is the first, if the second ends before it.
    let jobs = [jobs[0].clone(), of_class(TINY, job(1, (1, 1, 10))), jobs[2].clone()];
    assert_eq!(world.starts("lucid:sharing=on", &jobs)[2], (13, 2, vec![0]));
}

/// Undoing a pack would lose the work of one of them.
#[test]
fn of_two_that_are_packed_one_takes_checkpoints() {
    let world = World::node(1);
    let mut jobs = of_classes(&[TINY, TINY]);
    becomes_command(&mut jobs[1]);
    // A command has no batch, and thus no class here.
    assert_eq!(joined(&world, "lucid:sharing=on", &jobs), None);
    let mut jobs = of_classes(&[TINY, TINY]);
    jobs[0].takes_no_checkpoint = Some("it is said to take none");
    assert_eq!(joined(&world, "lucid:sharing=on", &jobs), Some(0));
    jobs[1].takes_no_checkpoint = Some("it is said to take none");
    assert_eq!(joined(&world, "lucid:sharing=on", &jobs), None);
}

#[test]
fn jobs_that_did_not_fit_together_stay_apart() {
    let topology = Topology::uniform(1, 1, "GPU");
    let jobs = of_classes(&[TINY, TINY]);
    let events = [
        arrived(0),
        settled(0, Settled::Running),
        arrived(1),
        failed(1, ErrorKind::OutOfMemory),
        formats::decision::ClusterEvent::Progress { job: engine::cluster::JobId(0), steps: 9, loss: None },
    ];
    let mut cluster = actions::Scripted { now: Nanos::ZERO, events: events.into() };
    let model = Packs { slowdown: Some(1.2), interval: 0.01 };
    let known = PolicyContext { classes: Some(&ByBatch), ..PolicyContext::default() };
    let mut engine = Engine::new(&topology, &jobs, &model, engine::Settings::default()).knowing(known);
    let mut turns: Vec<Turn> = Vec::new();
    engine::run(&mut engine, &mut cluster, &mut *built("lucid:sharing=on"), &mut turns)
        .expect_err("the script ends before the jobs");
    let order: Vec<u32> = starts(&turns).iter().map(|(_, job, _)| *job).collect();
    assert_eq!(order, [0, 1]);
    assert!(turns.iter().all(|turn| turn.refused.is_empty()), "it is not even asked for");
}
