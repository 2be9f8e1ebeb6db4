//! Jobs that may run for a share of the time only.

use std::time::Duration;

use engine::{
    Engine,
    cluster::{Action, Cluster as _, JobId, Settled, Share},
    job::Pausing,
    journal::Unrecorded,
    topology::Topology,
    view::View,
};
use formats::decision::ClusterEvent;
use launches::{LaunchCluster, ResumePoint, simulated};
use schema::{units::Nanos, wire::Event};

use crate::{
    actions::{Scripted, arrived, settled},
    bench::{Bench, Wanted},
    policies::becomes_command,
    scripted,
    scripts::{self, FromView, MS, Script, end, start},
    support::{Own, SECOND, World, asked},
    switches::Constants,
};

fn share(share: f64) -> Share {
    Share::new(share).expect("it is a share")
}

fn throttle(job: u32, to: f64) -> Action {
    Action::Throttle { job: JobId(job), share: share(to) }
}

fn stop(job: u32) -> Action {
    Action::Stop { job: JobId(job), checkpoint: true }
}

/// Reports come a second apart.
#[test]
fn a_throttle_holds_for_the_launch_and_nothing_is_measured_across_it() {
    let progress = |steps| ClusterEvent::Progress { job: JobId(0), steps, loss: None };
    let stopped = |now, steps| ClusterEvent::Settled { job: JobId(0), now, steps };
    let script = [
        (arrived(0), vec![start(0, &[0]), throttle(0, 0.5)], None, 1.0),
        (settled(0, Settled::Running), vec![], None, 0.5),
        (progress(4), vec![throttle(0, 0.25)], Some(0.25), 0.5),
        // A part of this second was at the former rate.
        (progress(6), vec![], Some(0.5), 0.25),
        (arrived(1), vec![throttle(0, 1.0)], Some(0.5), 0.25),
        (progress(9), vec![], None, 1.0),
        (progress(13), vec![throttle(0, 0.25), Action::Pause { job: JobId(0) }], Some(0.25), 1.0),
        (stopped(Settled::Paused, 14), vec![Action::Resume { job: JobId(0) }], None, 0.25),
        (stopped(Settled::Running, 14), vec![stop(0)], None, 0.25),
        (stopped(Settled::Stopped, 14), vec![start(0, &[0])], None, 1.0),
        (stopped(Settled::Running, 14), vec![], None, 1.0),
    ];
    let topology = Topology::uniform(1, 1, "GPU");
    let jobs = [asked(0, 0, 1, 99, 1), asked(1, 0, 1, 99, 1)];
    let mut heard = Vec::new();
    let mut actions = script.iter().map(|(_, actions, ..)| actions.clone());
    let mut policy = FromView(|view: &View<'_>| {
        let job = view.job(JobId(0));
        let measured = job.measured.map(|measured| measured.step_ns / 1e9);
        heard.push((measured, job.placed().map_or(1.0, |placed| placed.share.get())));
        actions.next().unwrap_or_default()
    });
    let events = script.iter().map(|(event, ..)| event.clone()).collect();
    let mut cluster = Scripted { now: Nanos::ZERO, events };
    let model = Own { slowdown: 1.0 };
    let mut engine = Engine::new(&topology, &jobs, &model, engine::Settings::default());
    engine::run(&mut engine, &mut cluster, &mut policy, &mut Unrecorded).expect_err("the script ends first");
    assert_eq!(heard, script.map(|(.., measured, share)| (measured, share)));
}

#[test]
fn only_what_can_be_held_and_stays_is_throttled() {
    let topology = Topology::uniform(3, 3, "GPU");
    let mut jobs: Vec<_> = (0..4).map(|id| asked(id, 0, 1, 9, 1)).collect();
    becomes_command(&mut jobs[0]);
    becomes_command(&mut jobs[1]);
    jobs[1].pausing = Pausing::Freezes("its steps are found in its output");
    let model = Own { slowdown: 1.0 };
    let events =
        [arrived(0), arrived(1), arrived(2), settled(0, Settled::Running), settled(1, Settled::Running)];
    let all = |jobs: u32| (0..jobs).map(|job| throttle(job, 0.5)).collect::<Vec<_>>();
    let script = vec![
        vec![],
        vec![],
        [vec![start(0, &[0]), start(1, &[1]), throttle(2, 0.5), start(2, &[2])], all(4)].concat(),
        vec![],
        [vec![stop(2)], all(3)].concat(),
    ];
    let mut cluster = Scripted { now: Nanos::ZERO, events: events.into() };
    let (mut engine, mut turns) =
        (Engine::new(&topology, &jobs, &model, engine::Settings::default()), Vec::new());
    engine::run(&mut engine, &mut cluster, &mut Script(script), &mut turns)
        .expect_err("the script ends first");
    let refused = |turn: usize| turns[turn].refused.iter().map(|it| it.why.as_str()).collect::<Vec<_>>();
    let output = "it cannot be throttled: its steps are found in its output";
    let starting = "it is starting, and a program is throttled only while it runs";
    assert_eq!(refused(2), ["it has no devices", starting, output, "it has not arrived"]);
    assert_eq!(refused(4), [output, "it is stopping, and only what stays is throttled"]);
    assert_eq!(turns[4].actions, [stop(2), throttle(0, 0.5)]);
}

#[test]
fn jobs_that_take_turns_are_not_throttled() {
    let topology = Topology::uniform(1, 1, "GPU");
    let jobs = vec![asked(0, 0, 1, 9, 1)];
    let model = Own { slowdown: 1.0 };
    let settings =
        engine::Settings { sharing: "step-gate:500ms".parse().expect("it is a mode"), ..Default::default() };
    let mut cluster = Scripted { now: Nanos::ZERO, events: [arrived(0)].into() };
    let (mut engine, mut turns) = (Engine::new(&topology, &jobs, &model, settings), Vec::new());
    let mut script = Script(vec![vec![start(0, &[0]), throttle(0, 0.5)]]);
    engine::run(&mut engine, &mut cluster, &mut script, &mut turns).expect_err("the script ends first");
    let why: Vec<&str> = turns[0].refused.iter().map(|it| it.why.as_str()).collect();
    assert_eq!(why, ["jobs take turns by step-gate:500ms, which throttles none of them"]);
}

/// Steps of 1 s, and 10 s to start. The job beside takes 1.25 s for a step while the throttled one works, and 1 s while it rests.
#[test]
fn a_simulated_job_takes_longer_for_a_step_by_its_share() {
    let topology = Topology::uniform(1, 1, "GPU");
    let at = [0, 0, 12_500 * MS, 20_500 * MS];
    let jobs: Vec<_> = (0..).zip(at).map(|(id, at)| asked(id, at, 1, 10, SECOND)).collect();
    let world = World {
        topology: &topology,
        asked: &jobs,
        truth: Own { slowdown: 1.25 },
        costs: &Constants(Nanos::ZERO),
        settings: simulated::Settings::default(),
    };
    // 2.5 s at the full rate, 8 s at a quarter of it, and the rest at the full rate. Alone these are 2.5 and 2 steps. Beside the
    // other, they are 2 and 1.6 steps, and another 0.4 steps until it ends. The other does 2 steps, then 8 times 0.25 / 1.25 + 0.75
    // steps, and the last 0.4 steps in half a second.
    for (beside, ends) in [(false, 10.0 + 2.5 + 8.0 + 5.5), (true, 21.0 + 6.0)] {
        let first = if beside { vec![start(0, &[0]), start(1, &[0])] } else { vec![start(0, &[0]), end(1)] };
        let mut policy = FromView(|view: &View<'_>| match view.asked.len() {
            2 if view.now == Nanos::ZERO => first.clone(),
            3 if view.now == jobs[2].arrival => vec![throttle(0, 0.25), end(2)],
            4 if view.now == jobs[3].arrival => vec![throttle(0, 1.0), end(3)],
            _ => vec![],
        });
        let (turns, _, error) = scripts::turns(&world, &mut policy);
        assert!(error.is_none(), "{error:?}");
        let finished = |job: u32| {
            let is_it =
                |it: &ClusterEvent| matches!(it, ClusterEvent::Finished { job: of, .. } if of.0 == job);
            scripts::events(&turns).find(|(_, it)| is_it(it)).map(|(at, _)| at.as_secs_f64())
        };
        assert_eq!(finished(0), Some(ends));
        assert_eq!(finished(1), beside.then_some(21.0));
    }
}

/// The calls of a launcher: the shares with which launches begin, and the later ones.
#[test]
fn a_testbed_tells_each_launch_its_share() {
    let topology = Topology::uniform(1, 1, "GPU");
    let jobs = [asked(0, 0, 1, 100, SECOND), asked(1, 0, 1, 10, SECOND)];
    let (truth, costs) = (Own { slowdown: 1.0 }, Constants(Nanos::ZERO));
    let launcher = scripted::Scripted::new(&topology, &jobs, &truth, &costs);
    let resume = ResumePoint { arrived: 2, ..ResumePoint::default() };
    let mut testbed = LaunchCluster::new(launcher, &jobs, None, resume);
    let next =
        |testbed: &mut LaunchCluster<scripted::Scripted<'_>>| testbed.next(None).expect("something comes");
    let obey = |testbed: &mut LaunchCluster<scripted::Scripted<'_>>, actions: &[Action]| {
        actions.iter().for_each(|action| testbed.apply(action).expect("it can be done"));
    };
    obey(&mut testbed, &[start(0, &[0]), throttle(0, 0.5)]);
    assert_eq!(next(&mut testbed), [settled(0, Settled::Running)]);
    obey(&mut testbed, &[throttle(0, 1.0), stop(0)]);
    // Job 1 waits until job 0 has left.
    obey(&mut testbed, &[start(1, &[0]), throttle(1, 0.5), throttle(1, 0.25)]);
    assert_eq!(next(&mut testbed), [settled(0, Settled::Stopped)]);
    assert_eq!(next(&mut testbed), [settled(1, Settled::Running)]);
    obey(&mut testbed, &[start(0, &[0])]);
    assert_eq!(
        next(&mut testbed),
        [ClusterEvent::Settled { job: JobId(0), now: Settled::Running, steps: 0 }]
    );
    let calls = testbed.into_launcher().shares;
    let calls: Vec<(f64, u32, f64)> =
        calls.iter().map(|(at, launch, share)| (at.as_secs_f64(), launch.0, share.get())).collect();
    // A start takes 10 s, and a stop 5 s.
    let expected = [(0.0, 0, 1.0), (0.0, 0, 0.5), (10.0, 0, 1.0), (15.0, 1, 0.25), (25.0, 2, 1.0)];
    assert_eq!(calls, expected);
}

#[test]
fn a_program_that_obeys_no_grant_is_not_throttled() {
    let mut bench = Bench::new(&[Wanted::Command(&["sleep", "1000"])], None);
    bench.start(0, &[0], "");
    bench.until_settled(0, Settled::Running);
    let why = bench.apply(throttle(0, 0.5)).unwrap_err();
    assert_eq!(why, "it is a program that obeys no grant, so nothing can hold it between two steps");
}

/// The launch of the job below.
const LAUNCH: &str = "0001-short";

/// The most steps in a row between two rests, of those after the first `before` steps.
fn most_in_a_row(bench: &Bench, before: u64) -> u64 {
    let (mut row, mut most) = (0, 0);
    for line in bench.said(LAUNCH, 0) {
        match line.event {
            Event::Step(step) if step.index >= before => row += 1,
            Event::Held { .. } => row = 0,
            _ => {}
        }
        most = most.max(row);
    }
    most
}

/// A step takes at least the 2 ms that it sleeps, so that no machine lets a job do more than its share of the steps that fit into a time.
#[test]
fn a_real_job_does_a_quarter_of_its_steps_at_a_share_of_a_quarter() {
    let mut bench = Bench::new(&[Wanted::Training("short", 100_000)], None);
    bench.start(0, &[0], "dp1");
    bench.until_settled(0, Settled::Running);
    bench.until_said(LAUNCH, 100);
    let (began, before) = (Nanos::monotonic_now(), bench.steps_said(LAUNCH, 0));
    bench.apply(throttle(0, 0.25)).unwrap();
    bench.wait(Duration::from_secs(3));
    let did = bench.steps_said(LAUNCH, 0) - before;
    let in_full = (Nanos::monotonic_now() - began).as_secs_f64() / 0.002;
    // The last burst is granted in advance: a quarter of half a second.
    let most = 0.25 * in_full + 63.0;
    assert!((did as f64) < most, "{did} steps, and {most} are its share");
    // The steps that it was granted before are a part of that share, and it goes on after them.
    bench.until_said(LAUNCH, before + 400);

    bench.apply(throttle(0, 1.0)).unwrap();
    let before = bench.steps_said(LAUNCH, 0);
    // Two bursts have 125 steps, and half a second 250.
    bench.wait_until("it works without rests", |bench| most_in_a_row(bench, before) > 200);
    bench.apply(throttle(0, 0.01)).unwrap();
    bench.stop(0, true);
    bench.until_settled(0, Settled::Stopped);
}
