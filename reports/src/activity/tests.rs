use std::{collections::HashMap, path::PathBuf};

use formats::{
    decision::{Action, ClusterEvent, DeviceId, JobId, Settled, Turn},
    rows::Outcome,
};
use proptest::prelude::*;
use record::rows::ErrorKind;
use schema::units::Nanos;

use super::*;
use crate::run::Run;

/// All committed runs of the testbed that have a journal.
pub(crate) fn recorded() -> Vec<Run> {
    let record = concat!(env!("CARGO_MANIFEST_DIR"), "/record");
    let series = ["20261122-epyc/testbed", "20261122-epyc/testbed-20", "20261124-epyc/testbed"];
    let policies = ["fifo", "packing-fifo", "tiresias"];
    let names = policies.iter().flat_map(|policy| ["", "-1", "-2"].map(|number| format!("{policy}{number}")));
    let names: Vec<String> = names.collect();
    let paths = series.iter().flat_map(|series| names.iter().map(move |name| format!("{series}/{name}")));
    let paths = paths.map(|path| PathBuf::from(record).join(path)).filter(|path| path.exists());
    let runs: Vec<Run> = paths.map(|path| Run::open(&path).expect("it is a run")).collect();
    assert_eq!(runs.len(), 15);
    runs
}

/// The account of a job by its stays.
#[derive(Debug, Default, PartialEq)]
struct Account {
    queued: u64,
    switching: u64,
    running: u64,
    paused: u64,
    packed: u64,
    device_time: u64,
    busy_share: u64,
}

/// The accounts of all jobs. The packed time and the parts of busy time are computed from one boundary to the next.
fn accounts(activity: &Activity, outcomes: &[Outcome]) -> HashMap<JobId, Account> {
    let mut accounts: HashMap<JobId, Account> = HashMap::new();
    for (job, (from, until)) in activity.waiting(outcomes) {
        accounts.entry(job).or_default().queued += until - from;
    }
    for stay in &activity.stays {
        let account = accounts.entry(stay.job).or_default();
        let passed = stay.until_ns - stay.from_ns;
        match SpanKind::from(stay.phase) {
            SpanKind::Running => {
                account.running += passed;
                account.device_time += passed * stay.devices.len() as u64;
                account.packed += packed(activity, stay);
            }
            SpanKind::Paused => account.paused += passed,
            _ => account.switching += passed,
        }
    }
    for device in activity.busy().keys() {
        divide(activity, *device, &mut accounts);
    }
    accounts
}

/// The part of a stay in which another job held one of its devices.
fn packed(activity: &Activity, stay: &Stay) -> u64 {
    let holds = |phase| matches!(phase, Phase::Starting | Phase::Running | Phase::Resuming);
    let is_beside = |other: &&Stay| {
        other.job != stay.job
            && holds(other.phase)
            && other.devices.iter().any(|device| stay.devices.contains(device))
    };
    let clipped = |other: &Stay| (other.from_ns.max(stay.from_ns), other.until_ns.min(stay.until_ns));
    let beside = steps_of(activity.stays.iter().filter(is_beside).map(clipped));
    beside.windows(2).filter(|pair| pair[0].1 > 0).map(|pair| pair[1].0 - pair[0].0).sum()
}

/// Divides the busy time of a device as the engine does: at each change, equally, and the rest to the jobs that came first.
fn divide(activity: &Activity, device: DeviceId, accounts: &mut HashMap<JobId, Account>) {
    let runs = |stay: &&Stay| stay.phase == Phase::Running && stay.devices.contains(&device);
    let mut changes: Vec<u64> =
        activity.stays.iter().filter(runs).flat_map(|stay| [stay.from_ns, stay.until_ns]).collect();
    changes.sort_unstable();
    changes.dedup();
    for between in changes.windows(2) {
        let is_there = |stay: &&Stay| stay.from_ns <= between[0] && stay.until_ns >= between[1];
        let mut there: Vec<&Stay> = activity.stays.iter().filter(runs).filter(is_there).collect();
        there.sort_by_key(|stay| stay.from_ns);
        let (passed, jobs) = (between[1] - between[0], there.len() as u64);
        for (n, stay) in (0..).zip(&there) {
            accounts.entry(stay.job).or_default().busy_share += passed / jobs + u64::from(n < passed % jobs);
        }
    }
}

/// To the nanosecond, in all committed runs. Rows of older runs have no part of the busy time.
#[test]
fn stays_add_up_to_the_account_of_the_engine() {
    for run in recorded() {
        let activity = run.activity().expect("it has a journal");
        assert_eq!(activity.problem, None);
        let mut accounts = accounts(activity, &run.outcomes);
        for row in &run.outcomes {
            let found = accounts.remove(&row.job).unwrap_or_default();
            let expected = Account {
                queued: row.queued_ns.unwrap_or(0),
                switching: row.switching_ns.unwrap_or(0),
                running: row.running_ns.unwrap_or(0),
                paused: row.paused_ns.unwrap_or(0),
                packed: row.packed_ns.unwrap_or(0),
                device_time: row.device_time_ns.unwrap_or(0),
                busy_share: row.busy_share_ns.unwrap_or(found.busy_share),
            };
            assert_eq!(found, expected, "{} of {}", row.name, run.dir.path().display());
            let last = activity.stays.iter().rfind(|stay| stay.job == row.job).expect("it ran");
            assert_eq!((Some(last.until_ns), &last.end), (row.end_ns, &StayEnd::Finished));
        }
        assert!(accounts.is_empty());
    }
}

/// A prefix has the same stays, except for those that are open at its end.
#[test]
fn every_prefix_of_a_journal_is_accepted() {
    let run = &recorded()[14];
    let turns = formats::decision::read(&run.dir.decisions_path()).expect("it is a journal");
    let whole = folded(&turns);
    for count in 0..turns.len() {
        let part = folded(&turns[..count]);
        let closed = part.stays.iter().filter(|stay| stay.end != StayEnd::Open);
        assert!(
            closed.eq(whole
                .stays
                .iter()
                .take_while(|stay| { stay.until_ns < part.until_ns || part.stays.contains(stay) }))
        );
        assert!(part.waiting(&[]).iter().all(|(_, (from, until))| from <= until));
    }
}

pub(crate) fn folded(turns: &[Turn]) -> Activity {
    let mut fold = Fold::default();
    turns.iter().for_each(|turn| fold.add(turn.clone()));
    fold.done()
}

/// Turns with these times, events and actions.
pub(crate) fn turns(of: Vec<(u64, Vec<ClusterEvent>, Vec<Action>)>) -> Vec<Turn> {
    let turn = |(number, (at, events, actions))| Turn {
        turn: number,
        at_ns: Nanos(at),
        model_version: None,
        events,
        actions,
        refused: vec![],
        wake_at_ns: None,
        reason: String::new(),
        explain: Default::default(),
        view_hash: String::new(),
    };
    (0..).zip(of).map(turn).collect()
}

#[test]
fn a_job_is_followed_through_all_phases() {
    let [job, other] = [JobId(0), JobId(9)];
    let plan = |text: &str| Some(text.parse().expect("it is a plan"));
    let start = |job, devices: &[u32], text| Action::Start {
        job,
        devices: devices.iter().map(|n| DeviceId(*n)).collect(),
        cpus: None,
        plan: plan(text),
    };
    let settled = |job, now| ClusterEvent::Settled { job, now, steps: 0 };
    let failed = ClusterEvent::Failed { job, steps: 0, kind: ErrorKind::DeviceLost, detail: "gone".into() };
    let found = folded(&turns(vec![
        (5, vec![ClusterEvent::Arrived { job }], vec![start(job, &[0], "dp1")]),
        (7, vec![settled(job, Settled::Running)], vec![Action::Pause { job }]),
        (8, vec![settled(job, Settled::Paused)], vec![]),
        (10, vec![], vec![Action::Resume { job }]),
        (13, vec![settled(job, Settled::Running)], vec![]),
        (20, vec![failed.clone(), ClusterEvent::DeviceLost { device: DeviceId(0) }], vec![]),
        (25, vec![ClusterEvent::DeviceBack { device: DeviceId(0) }], vec![start(job, &[0, 1], "dp2")]),
        (29, vec![settled(job, Settled::Running), settled(other, Settled::Running)], vec![]),
        (40, vec![], vec![Action::End { job }]),
        (41, vec![settled(job, Settled::Stopped)], vec![Action::End { job: other }]),
    ]));
    let seen: Vec<_> = found.stays.iter().map(|stay| (stay.phase, stay.from_ns, stay.until_ns)).collect();
    let expected = [
        (Phase::Starting, 5, 7),
        (Phase::Pausing, 7, 8),
        (Phase::Paused, 8, 10),
        (Phase::Resuming, 10, 13),
        (Phase::Running, 13, 20),
        (Phase::Starting, 25, 29),
        (Phase::Running, 29, 40),
        (Phase::Ending, 40, 41),
    ];
    assert_eq!(seen, expected);
    assert_eq!(found.stays[4].end, StayEnd::Failed(ErrorKind::DeviceLost, "gone".into()));
    assert_eq!(found.stays[7].end, StayEnd::EndedByPolicy);
    assert_eq!((found.stays[6].plan_before, found.stays[4].plan_before), (plan("dp1"), None));
    assert_eq!(found.losses, [Loss { device: DeviceId(0), from_ns: 20, until_ns: 25 }]);
    let waits: Vec<_> = found.waits.iter().map(|wait| (wait.from_ns, wait.until_ns)).collect();
    assert_eq!(waits, [(5, Some(5)), (20, Some(25))]);
    assert_eq!(found.busy()[&DeviceId(0)], [(13, 20), (29, 40)]);
}

proptest! {
    /// A changed file may have any order of events.
    #[test]
    fn no_order_of_events_is_too_strange(of in prop::collection::vec((0..50u64, 0..9u8, 0..3u32), 0..60)) {
        let turns = turns(of.into_iter().map(|(at, which, job)| {
            let (job, device) = (JobId(job), DeviceId(job));
            let start = Action::Start { job, devices: vec![device, DeviceId(0)], cpus: None, plan: None };
            let happened = |event| (at, vec![event], vec![]);
            match which {
                0 => happened(ClusterEvent::Arrived { job }),
                1 => (at, vec![], vec![start]),
                2 => happened(ClusterEvent::Settled { job, now: Settled::Running, steps: 1 }),
                3 => happened(ClusterEvent::Settled { job, now: Settled::Stopped, steps: 1 }),
                4 => happened(ClusterEvent::Finished { job, steps: 1 }),
                5 => happened(ClusterEvent::DeviceLost { device }),
                6 => happened(ClusterEvent::DeviceBack { device }),
                7 => (at, vec![], vec![Action::Pause { job }]),
                _ => (at, vec![], vec![Action::End { job }]),
            }
        }).collect());
        let found = folded(&turns);
        prop_assert!(found.stays.iter().all(|stay| stay.from_ns <= stay.until_ns && stay.until_ns <= found.until_ns));
        prop_assert!(found.stays.windows(2).all(|pair| pair[0].until_ns <= pair[1].until_ns));
        // A device is busy for no longer than the run.
        for intervals in found.busy().values() {
            prop_assert!(intervals.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}

#[test]
fn counts_change_where_intervals_begin_and_end() {
    assert_eq!(steps_of([(3, 9), (5, 7), (7, 8), (9, 9)]), [(0, 0), (3, 1), (5, 2), (7, 2), (8, 1), (9, 0)]);
    assert_eq!(steps_of([]), [(0, 0)]);
}

#[test]
fn the_last_turn_says_what_each_job_does() {
    let [a, b, c] = [JobId(0), JobId(1), JobId(2)];
    let start = |job: JobId| Action::Start { job, devices: vec![DeviceId(job.0)], cpus: None, plan: None };
    let runs = |job| ClusterEvent::Settled { job, now: Settled::Running, steps: 0 };
    let failed = ClusterEvent::Failed {
        job: a,
        steps: 0,
        kind: record::rows::ErrorKind::Crashed,
        detail: String::new(),
    };
    let stopped = ClusterEvent::Settled { job: b, now: Settled::Stopped, steps: 1 };
    let paused = ClusterEvent::Settled { job: b, now: Settled::Paused, steps: 1 };
    let turns = turns(vec![
        (1, vec![ClusterEvent::Arrived { job: a }], vec![start(a)]),
        (
            2,
            vec![ClusterEvent::Arrived { job: b }, ClusterEvent::Arrived { job: c }, runs(a)],
            vec![start(b)],
        ),
        (3, vec![failed, runs(b)], vec![Action::Pause { job: b }]),
        (4, vec![paused], vec![start(a)]),
        (5, vec![runs(a)], vec![Action::Stop { job: b, checkpoint: true }]),
        (6, vec![stopped], vec![Action::End { job: c }, Action::Stop { job: a, checkpoint: true }]),
        (7, vec![ClusterEvent::Settled { job: a, now: Settled::Stopped, steps: 1 }], vec![start(b)]),
        (8, vec![runs(b), ClusterEvent::Finished { job: b, steps: 2 }], vec![]),
    ]);
    use JobState::{EndedByPolicy, Failed, Finished, Paused, Running, Switching, Waiting};
    let expected: [&[JobState]; 8] = [
        &[Switching],
        &[Running, Switching, Waiting],
        &[Failed, Switching, Waiting],
        &[Switching, Paused, Waiting],
        &[Running, Switching, Waiting],
        &[Switching, Waiting, EndedByPolicy],
        &[Waiting, Switching, EndedByPolicy],
        &[Waiting, Finished, EndedByPolicy],
    ];
    for (number, expected) in expected.into_iter().enumerate() {
        let activity = folded(&turns[..=number]);
        let states = activity.states();
        let states: Vec<JobState> = (0..states.len() as u32).map(|job| states[&JobId(job)]).collect();
        assert_eq!(states, expected, "after turn {number}");
        assert_eq!(activity.turns, number as u64 + 1);
    }
}

#[test]
fn the_states_of_recorded_jobs_are_their_outcomes() {
    for run in recorded() {
        let states = run.activity().expect("it has a journal").states();
        assert_eq!(states.len(), run.outcomes.len(), "{}", run.name);
        for row in &run.outcomes {
            assert_eq!(row.status == record::rows::Status::Ok, states[&row.job] == JobState::Finished);
        }
    }
}

#[test]
fn a_torn_journal_is_read_up_to_its_last_line() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("decisions.jsonl");
    let run = &recorded()[0];
    let text = std::fs::read_to_string(run.dir.decisions_path()).expect("it is a file");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let half = lines[..20].concat();
    std::fs::write(&path, format!("{half}{}", &lines[20][..30])).expect("it is written");
    let torn = Activity::read(&path);
    assert_eq!((torn.problem, torn.stays.is_empty()), (None, false));
    std::fs::write(&path, format!("{half}rubbish\n")).expect("it is written");
    let broken = Activity::read(&path);
    assert_eq!(broken.stays, torn.stays);
    assert!(broken.problem.is_some_and(|problem| problem.contains("line 21: not a turn")));
}
