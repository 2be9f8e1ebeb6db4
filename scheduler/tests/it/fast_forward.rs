//! Fast-forwarded runs, beside runs in which every step is executed.

use std::cell::RefCell;

use engine::{
    Engine,
    cluster::{Action, DeviceId, JobId, Settled, Share},
    job::{JobRequest, Phase, State},
    policy::{Decision, Policy},
    topology::Topology,
    view::View,
};
use fastrand::Rng;
use formats::{
    decision::{ClusterEvent, Turn},
    rows::{Outcome, Skip, skipped_ns},
};
use launches::{
    LaunchCluster, ResumePoint,
    fast_forward::{FastForward, Hindrance, Waited, skipped_of_jobs},
    launcher::Launcher as _,
};
use model::switch_costs::SwitchCosts;
use record::{manifest::FastForward as Rule, rows::Status};
use schema::units::Nanos;

use crate::{
    scripted::Scripted,
    scripts::{FromView, MS, events, start},
    support::{Own, SECOND, asked, built},
    switches::Constants,
};

const RULE: Rule = Rule { window_s: 2.0, window_steps: 30, error_percent: 2.0 };

/// Steps become known at looks, and a window is judged when it has grown by a tenth.
const LOOKS_NS: u64 = 300 * MS;

/// A machine, and its jobs.
struct Bed {
    topology: Topology,
    jobs: Vec<JobRequest>,
    truth: Own,
    costs: Constants,
    progress_every: Option<Nanos>,
    rule: Rule,
}

/// A run and its jumps.
struct Forwarded {
    turns: Vec<Turn>,
    outcomes: Vec<Outcome>,
    skips: Vec<Skip>,
    waited: Waited,
    /// The time for which launches executed steps and switches, and the number of steps.
    executed: Nanos,
    executed_steps: u64,
}

impl Bed {
    /// A machine on which a job takes 10 s to start.
    fn new(devices: u32, jobs: Vec<JobRequest>) -> Bed {
        Bed {
            topology: Topology::uniform(devices, devices, "GPU"),
            jobs,
            truth: Own { slowdown: 1.0 },
            costs: Constants(Nanos::ZERO),
            progress_every: None,
            rule: RULE,
        }
    }

    fn scripted(&self) -> Scripted<'_> {
        Scripted::new(&self.topology, &self.jobs, &self.truth, &self.costs as &dyn SwitchCosts)
    }

    fn engine(&self) -> Engine<'_> {
        Engine::new(&self.topology, &self.jobs, &self.truth, engine::Settings::default())
    }

    fn in_full(&self, scripted: Scripted<'_>, policy: &mut dyn Policy) -> (Vec<Turn>, Vec<Outcome>) {
        let mut testbed =
            LaunchCluster::new(scripted, &self.jobs, self.progress_every, ResumePoint::default());
        let mut turns = Vec::new();
        let outcomes = engine::run(&mut self.engine(), &mut testbed, policy, &mut turns);
        (turns, outcomes.expect("every job ends"))
    }

    fn forward(&self, scripted: Scripted<'_>, policy: &mut dyn Policy) -> Forwarded {
        let skips = RefCell::new(Vec::new());
        let log = Box::new(|rows: &[Skip]| {
            skips.borrow_mut().extend_from_slice(rows);
            Ok(())
        });
        let launcher = FastForward::new(scripted, self.rule, Nanos::ZERO, 0, log);
        let mut testbed =
            LaunchCluster::new(launcher, &self.jobs, self.progress_every, ResumePoint::default());
        let mut turns = Vec::new();
        let outcomes = engine::run(&mut self.engine(), &mut testbed, policy, &mut turns);
        let launcher = testbed.into_launcher();
        let now = launcher.now();
        let (scripted, waited) = launcher.into_parts();
        let (executed, skips) = (scripted.now(), skips.take());
        assert_eq!(executed.0 + skipped_ns(&skips), now.0, "each jump is recorded");
        let (outcomes, executed_steps) = (outcomes.expect("every job ends"), scripted.executed);
        Forwarded { turns, outcomes, skips, waited, executed, executed_steps }
    }
}

/// Eight jobs of 100 s to 400 s that arrive within 6 minutes.
fn mix() -> Vec<JobRequest> {
    let job = |id: u32| {
        let (step_ms, seconds) = (20 + 10 * u64::from(id % 5), 100 + 300 * u64::from(id * 5 % 8) / 7);
        let devices = if id == 5 { 2 } else { 1 };
        asked(id, u64::from(id) * 47 * SECOND, devices, seconds * 1_000 / step_ms, step_ms * MS)
    };
    (0..8).map(job).collect()
}

/// Steps take 20 to 60 ms. Each job may end a step early or late, and so may each stop. A queue adds these up.
#[test]
fn with_constant_steps_a_run_ends_as_if_no_step_was_skipped() {
    let mut bed = Bed::new(2, mix());
    bed.truth.slowdown = 1.2;
    bed.progress_every = Some(Nanos(10 * SECOND));
    for (policy, most_steps) in
        [("fifo", 4), ("sjf-backfill", 4), ("srtf", 4), ("tiresias:200s", 12), ("packing-fifo", 12)]
    {
        let (_, full) = bed.in_full(bed.scripted(), &mut *built(policy));
        let forwarded = bed.forward(bed.scripted(), &mut *built(policy));
        for (full, forwarded) in full.iter().zip(&forwarded.outcomes) {
            let ends = [full, forwarded].map(|row| (row.status, row.steps, row.starts, row.pauses));
            assert_eq!(ends[0], ends[1], "{policy}");
            assert_eq!(full.status, Status::Ok, "{policy} {full:?}");
            let (asked, ended) = (full.jct_ns.expect("it is done"), forwarded.jct_ns.expect("it is done"));
            assert!(asked.abs_diff(ended) <= most_steps * 60 * MS, "{policy} {}: {asked} {ended}", full.name);
        }
        let makespan = full.iter().filter_map(|row| row.end_ns).max().expect("all have ended");
        let switching: u64 = full.iter().filter_map(|row| row.switching_ns).sum();
        let share = (forwarded.executed.0.saturating_sub(switching)) as f64 / makespan as f64;
        assert!(share < 0.1, "{policy}: {share} of the run was executed");
        assert_stands(&forwarded, RULE.window_s, policy);
    }
}

/// No jump begins before the end of a window in which nothing has changed, or goes beyond the next event.
fn assert_stands(run: &Forwarded, window_s: f64, what: &str) {
    let changes = |turn: &Turn| {
        let is_change = |happened: &ClusterEvent| {
            let is_of_device = matches!(happened, ClusterEvent::DeviceLost { .. });
            is_of_device
                || matches!(
                    happened,
                    ClusterEvent::Settled { .. }
                        | ClusterEvent::Finished { .. }
                        | ClusterEvent::Failed { .. }
                )
        };
        !turn.actions.is_empty() || turn.events.iter().any(is_change)
    };
    for row in run.skips.iter().filter(|row| row.job.is_some()) {
        let (from, until) =
            (row.window_from_ns.expect("it has one"), row.window_until_ns.expect("it has one"));
        assert!((until - from) as f64 >= window_s * 1e9 - 1.0 && until <= row.from_ns, "{what}: {row:?}");
        assert!(row.window_steps >= Some(30), "{what}: {row:?}");
        let within = |turn: &&Turn| (from..row.until_ns).contains(&turn.at_ns.0) && turn.at_ns.0 > from;
        let changed = run.turns.iter().filter(within).find(|turn| changes(turn));
        assert_eq!(changed, None, "{what}: {row:?}");
        // Only a report, an arrival or a time to wake ends a jump.
        let events = run.turns.iter().filter(|turn| (row.from_ns + 1..row.until_ns).contains(&turn.at_ns.0));
        assert_eq!(events.count(), 0, "{what}: {row:?}");
    }
}

/// Jobs that arrive, pack, are preempted, are saved and lose a device at random times.
#[test]
fn every_step_is_executed_skipped_or_lost() {
    let mut skipped = 0;
    for seed in 0..60 {
        let mut random = Rng::with_seed(seed);
        let job = |random: &mut Rng, id: u32, arrival: u64| {
            let devices = if random.u8(..4) == 0 { 2 } else { 1 };
            asked(id, arrival, devices, random.u64(1..4_000), random.u64(5..60) * MS + random.u64(..MS))
        };
        let mut arrivals: Vec<u64> = (0..random.usize(1..9)).map(|_| random.u64(..300 * SECOND)).collect();
        arrivals.sort_unstable();
        let jobs = (0..).zip(arrivals).map(|(id, arrival)| job(&mut random, id, arrival)).collect();
        let mut bed = Bed::new(3, jobs);
        bed.truth.slowdown = 1.0 + 0.6 * random.f64();
        bed.progress_every = random.bool().then(|| Nanos(random.u64(SECOND..40 * SECOND)));
        bed.rule.window_s = 0.5 + 2.0 * random.f64();
        let mut scripted = bed.scripted();
        scripted.checkpoint_every = random.bool().then(|| Nanos(random.u64(10 * SECOND..60 * SECOND)));
        if random.bool() {
            scripted.losses.push_back((Nanos(random.u64(..60 * SECOND)), DeviceId(1)));
        }
        let policy = ["fifo", "srtf", "tiresias:50s", "packing-fifo", "antman"][random.usize(..5)];
        let run = bed.forward(scripted, &mut *built(policy));
        let what = format!("seed {seed}, {policy}");
        assert_stands(&run, bed.rule.window_s, &what);
        let rows = &run.outcomes;
        assert!(
            rows.iter().all(|row| row.status == Status::Ok && Some(row.steps) == row.steps_asked),
            "{what}"
        );
        let of_jumps: u64 = run.skips.iter().filter_map(|row| row.steps).sum();
        let done: u64 = rows.iter().map(|row| row.steps + row.steps_lost).sum();
        assert_eq!(run.executed_steps + of_jumps, done, "{what}");
        let kept: u64 = skipped_of_jobs(&run.skips, &run.turns).values().map(|job| job.steps).sum();
        let lost: u64 = rows.iter().map(|row| row.steps_lost).sum();
        assert!(kept <= of_jumps && of_jumps - kept <= lost, "{what}");
        skipped += kept;
    }
    assert!(skipped > 100_000, "{skipped}");
}

/// One job of 50 ms steps that trains for 100 s from 10 s on.
fn alone() -> Bed {
    Bed::new(1, vec![asked(0, 0, 1, 2_000, 50 * MS)])
}

#[test]
fn a_job_executes_a_window_and_its_last_steps_and_no_others() {
    let bed = alone();
    let run = bed.forward(bed.scripted(), &mut *built("fifo"));
    assert_eq!(run.outcomes[0].jct_ns, Some(110 * SECOND));
    let [row] = &run.skips[..] else { panic!("{:?}", run.skips) };
    assert_eq!((row.job, row.step_ns), (Some(JobId(0)), Some(50.0 * MS as f64)));
    assert!(row.from_ns.abs_diff(12 * SECOND) <= LOOKS_NS, "{row:?}");
    assert!(row.until_ns.abs_diff(108 * SECOND) <= 50 * MS, "{row:?}");
    assert_eq!(row.steps, Some(row.length_ns() / (50 * MS)));
    assert_eq!(skipped_of_jobs(&run.skips, &run.turns)[&JobId(0)].steps, row.steps.expect("some"));
    let waited = |why| run.waited.of(why).0;
    assert_eq!(waited(Hindrance::Switch), 10 * SECOND);
    assert!(waited(Hindrance::Measuring).abs_diff(2 * SECOND) <= LOOKS_NS, "{:?}", run.waited);
    assert!(waited(Hindrance::LastSteps).abs_diff(2 * SECOND) <= LOOKS_NS, "{:?}", run.waited);
}

#[test]
fn a_window_has_as_many_steps_as_are_asked_for() {
    let mut bed = alone();
    bed.rule.window_steps = 200;
    let run = bed.forward(bed.scripted(), &mut *built("fifo"));
    assert!(run.skips[0].window_steps >= Some(200), "{:?}", run.skips);
    assert!(run.skips[0].from_ns >= 20 * SECOND, "200 steps of 50 ms: {:?}", run.skips);
}

/// A window of 2 s stands for 100 s.
#[test]
fn a_long_job_is_measured_again() {
    let bed = Bed::new(1, vec![asked(0, 0, 1, 20_000, 50 * MS)]);
    let run = bed.forward(bed.scripted(), &mut *built("fifo"));
    let windows: Vec<_> = run.skips.iter().map(|row| row.window_from_ns).collect();
    assert!(windows.len() >= 9 && windows.is_sorted_by(|a, b| a < b), "one window each: {windows:?}");
    assert!(run.skips.iter().all(|row| row.length_ns() <= 50 * (2 * SECOND + LOOKS_NS)), "{:?}", run.skips);
    assert!(run.outcomes[0].jct_ns.expect("it is done").abs_diff(1_010 * SECOND) <= 50 * MS);
}

#[test]
fn reports_come_when_they_would_and_count_skipped_steps() {
    let mut bed = alone();
    bed.progress_every = Some(Nanos(7 * SECOND));
    let reports = |turns: &[Turn]| -> Vec<(Nanos, u64)> {
        let progress = |(at, happened): (Nanos, &ClusterEvent)| match *happened {
            ClusterEvent::Progress { steps, .. } => Some((at, steps)),
            _ => None,
        };
        events(turns).filter_map(progress).collect()
    };
    let (full, _) = bed.in_full(bed.scripted(), &mut *built("fifo"));
    let run = bed.forward(bed.scripted(), &mut *built("fifo"));
    let (full, forwarded) = (reports(&full), reports(&run.turns));
    assert_eq!(full.len(), 14);
    assert_eq!(full.len(), forwarded.len());
    for ((at, steps), (forwarded_at, forwarded)) in full.into_iter().zip(forwarded) {
        assert_eq!(at, forwarded_at);
        assert!(steps.abs_diff(forwarded) <= 1, "{steps} {forwarded}");
    }
}

#[test]
fn an_idle_machine_jumps_to_the_next_arrival() {
    let second = asked(1, 1_000 * SECOND, 1, 200, 50 * MS);
    let bed = Bed::new(1, vec![asked(0, 0, 1, 20, 50 * MS), second]);
    let run = bed.forward(bed.scripted(), &mut *built("fifo"));
    let idle: Vec<_> = run.skips.iter().filter(|row| row.job.is_none()).collect();
    let [row] = &idle[..] else { panic!("{:?}", run.skips) };
    assert_eq!((row.from_ns, row.until_ns, row.steps), (11 * SECOND, 1_000 * SECOND, None));
    assert_eq!(run.outcomes[1].end_ns, Some(1_020 * SECOND));
}

#[test]
fn nothing_is_skipped_beside_a_job_whose_end_is_not_known() {
    let bed = alone();
    let mut scripted = bed.scripted();
    scripted.endless = Some(JobId(0));
    let run = bed.forward(scripted, &mut *built("fifo"));
    assert_eq!((run.skips.len(), run.outcomes[0].jct_ns), (0, Some(110 * SECOND)));
    assert_eq!(run.waited.of(Hindrance::NoEnd), Nanos(100 * SECOND));
}

/// The device runs below its clock a second after the job has begun to train.
#[test]
fn a_window_begins_anew_when_a_device_ran_below_its_clock() {
    let bed = alone();
    let mut scripted = bed.scripted();
    scripted.throttled.push(Nanos(11 * SECOND));
    let run = bed.forward(scripted, &mut *built("fifo"));
    let from = run.skips[0].window_from_ns.expect("it has a window");
    assert!((11 * SECOND..=11 * SECOND + LOOKS_NS).contains(&from), "{:?}", run.skips);
}

/// The job runs at half of its speed from the second report to the fifth, from 30 s to 60 s.
#[test]
fn nothing_is_skipped_while_a_job_is_throttled() {
    let mut bed = alone();
    bed.progress_every = Some(Nanos(10 * SECOND));
    let throttle =
        |share| Action::Throttle { job: JobId(0), share: Share::new(share).expect("it is a share") };
    let policy = || {
        FromView(move |view: &View<'_>| match (view.now.0 / SECOND, &view.jobs[0].state) {
            (_, State::Waiting { .. }) => vec![start(0, &[0])],
            (30, _) => vec![throttle(0.5)],
            (60, _) => vec![throttle(1.0)],
            _ => vec![],
        })
    };
    let run = bed.forward(bed.scripted(), &mut policy());
    let (_, full) = bed.in_full(bed.scripted(), &mut policy());
    assert_eq!(full[0].jct_ns, Some(125 * SECOND));
    assert!(run.outcomes[0].jct_ns.expect("it is done").abs_diff(125 * SECOND) <= 50 * MS);
    let is_throttled = |row: &&Skip| row.until_ns > 30 * SECOND && row.from_ns < 60 * SECOND;
    assert_eq!(run.skips.iter().find(is_throttled), None);
    assert_eq!(run.waited.of(Hindrance::Throttled), Nanos(30 * SECOND));
    assert_eq!(run.skips[0].until_ns, 20 * SECOND);
    assert!(run.skips.last().expect("some").from_ns >= 62 * SECOND);
}

/// A checkpoint is due every 30 s from 10 s on. The job is measured until 12 s, skips 100 s, and crashes a second after that, at
/// 113 s: 10,300 steps are done and 9,000 are saved. It takes 20 s to restart, and then 11,000 steps of 10 ms.
#[test]
fn a_checkpoint_holds_the_steps_skipped_before_it_and_a_failure_loses_those_after() {
    let bed = Bed::new(1, vec![asked(0, 0, 1, 20_000, 10 * MS)]);
    let mut scripted = bed.scripted();
    scripted.checkpoint_every = Some(Nanos(30 * SECOND));
    scripted.crashes.push_back((Nanos(13 * SECOND + LOOKS_NS), JobId(0)));
    let run = bed.forward(scripted, &mut *built("fifo"));
    let [row] = &run.outcomes[..] else { panic!("one job") };
    assert_eq!((row.status, row.steps, row.retries), (Status::Ok, 20_000, 1));
    // A part of its steps is for the checkpoints.
    let saving = 1.0 + 4.0 / 30.0;
    let failed_at = events(&run.turns).find(|(_, happened)| matches!(happened, ClusterEvent::Failed { .. }));
    let Some((at, &ClusterEvent::Failed { steps: saved, .. })) = failed_at else { panic!("it crashed") };
    let expected = |seconds: f64| (seconds / 0.01 / saving) as u64;
    assert!(saved.abs_diff(expected(90.0)) <= 2, "{saved} {}", expected(90.0));
    let lost = expected(at.as_secs_f64() - 100.0);
    assert!(row.steps_lost.abs_diff(lost) <= 2, "{} {lost}", row.steps_lost);
    let skipped = skipped_of_jobs(&run.skips, &run.turns)[&JobId(0)];
    let all: u64 = run.skips.iter().filter_map(|row| row.steps).sum();
    let lost_skipped: u64 = run
        .skips
        .iter()
        .filter(|row| row.until_ns <= at.0 && row.steps_before >= Some(saved))
        .filter_map(|row| row.steps)
        .sum();
    assert!(lost_skipped > 0);
    assert_eq!(skipped.steps, all - lost_skipped);
    // Checkpoints are written when they are due, which ends a jump.
    assert!(run.skips.iter().any(|row| row.until_ns == 40 * SECOND), "{:?}", run.skips);
}

/// A policy that pauses the job at 50 s and resumes it at once.
#[test]
fn a_job_that_is_resumed_is_measured_again() {
    struct Pauses(bool);
    impl Policy for Pauses {
        fn decide(&mut self, view: &View<'_>) -> Decision {
            let job = JobId(0);
            let phase = match &view.jobs[0].state {
                State::Placed(placed) => Some(placed.phase),
                _ => None,
            };
            let actions = match phase {
                None if !matches!(view.jobs[0].state, State::Ended { .. }) => {
                    vec![Action::Start { job, devices: vec![DeviceId(0)], cpus: None, plan: None }]
                }
                Some(Phase::Running) if view.now >= Nanos(50 * SECOND) && !self.0 => {
                    self.0 = true;
                    vec![Action::Pause { job }]
                }
                Some(Phase::Paused) => vec![Action::Resume { job }],
                _ => vec![],
            };
            let wake_at = (view.now < Nanos(50 * SECOND)).then_some(Nanos(50 * SECOND));
            Decision { actions, wake_at, ..Decision::default() }
        }
    }
    let bed = alone();
    let run = bed.forward(bed.scripted(), &mut Pauses(false));
    let resumed = events(&run.turns)
        .filter(|(_, happened)| matches!(happened, ClusterEvent::Settled { now: Settled::Running, .. }));
    let resumed = resumed.last().expect("it was resumed").0;
    assert_eq!(resumed, Nanos(53 * SECOND), "a second to pause and two to resume");
    let [before, after] = &run.skips[..] else { panic!("{:?}", run.skips) };
    assert_eq!(before.until_ns, 50 * SECOND);
    assert!(after.window_from_ns >= Some(resumed.0), "{after:?}");
    assert!(run.outcomes[0].jct_ns.expect("it is done").abs_diff(113 * SECOND) <= 50 * MS);
}
