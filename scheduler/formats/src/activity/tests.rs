use std::path::PathBuf;

use proptest::prelude::*;
use record::rows::{self, Status};
use schema::units::Nanos;

use super::{fold::Fold, *};
use crate::{
    decision::{Action, ClusterEvent, Settled, Turn},
    rows::Outcome,
};

/// A file of a run that was published.
fn recorded(file: &str) -> PathBuf {
    let run = concat!(env!("CARGO_MANIFEST_DIR"), "/../../reports/record/20261124-epyc/testbed/tiresias");
    PathBuf::from(run).join(file)
}

fn folded(turns: &[Turn]) -> Activity {
    let mut fold = Fold::default();
    turns.iter().for_each(|turn| fold.add(turn.clone()));
    fold.done()
}

/// Turns with these times, events and actions.
fn turns(of: Vec<(u64, Vec<ClusterEvent>, Vec<Action>)>) -> Vec<Turn> {
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

/// A prefix has the same stays, except for those that are open at its end.
#[test]
fn every_prefix_of_a_journal_is_accepted() {
    let turns = decision::read(&recorded("decisions.jsonl")).expect("it is a journal");
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
    let activity = folded(&turns(vec![
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
    let seen: Vec<_> = activity.stays.iter().map(|stay| (stay.phase, stay.from_ns, stay.until_ns)).collect();
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
    assert_eq!(activity.stays[4].end, StayEnd::Failed(ErrorKind::DeviceLost, "gone".into()));
    assert_eq!(activity.stays[7].end, StayEnd::EndedByPolicy);
    assert_eq!((activity.stays[6].plan_before, activity.stays[4].plan_before), (plan("dp1"), None));
    assert_eq!(activity.losses, [Loss { device: DeviceId(0), from_ns: 20, until_ns: 25 }]);
    let waits: Vec<_> = activity.waits.iter().map(|wait| (wait.from_ns, wait.until_ns)).collect();
    assert_eq!(waits, [(5, Some(5)), (20, Some(25))]);
    assert_eq!(activity.busy()[&DeviceId(0)], [(13, 20), (29, 40)]);
}

/// The journal has neither that a job failed for good nor that it was not admitted. The outcomes have both.
#[test]
fn jobs_that_have_ended_or_were_not_admitted_do_not_wait() {
    let [failed, refused, other] = [0, 1, 2].map(JobId);
    let start = |job| Action::Start { job, devices: vec![DeviceId(0)], cpus: None, plan: None };
    let arrived = |job| ClusterEvent::Arrived { job };
    let failure =
        ClusterEvent::Failed { job: failed, steps: 0, kind: ErrorKind::Killed, detail: String::new() };
    let activity = folded(&turns(vec![
        (5, vec![arrived(failed), arrived(refused)], vec![start(failed)]),
        (20, vec![failure, arrived(other)], vec![start(other)]),
        (90, vec![ClusterEvent::Finished { job: other, steps: 1 }], vec![]),
    ]));
    let intervals = [(failed, (5, 5)), (refused, (5, 90)), (failed, (20, 90)), (other, (20, 20))];
    assert_eq!(activity.waiting(&[]), intervals);
    let rows: Vec<Outcome> = rows::read(&recorded("outcomes.csv")).expect("its rows");
    let row = |job, status, submit_ns, end_ns, starts| Outcome {
        job,
        status,
        submit_ns,
        end_ns,
        starts,
        ..rows[0].clone()
    };
    let outcomes = [
        row(failed, Status::Failed, 4, Some(20), 1),
        row(refused, Status::Unsupported, 4, None, 0),
        row(other, Status::Ok, 18, Some(90), 1),
    ];
    assert_eq!(activity.waiting(&outcomes), [(failed, (4, 5)), (failed, (20, 20)), (other, (18, 20))]);
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
        let activity = folded(&turns);
        prop_assert!(activity.stays.iter().all(|stay| stay.from_ns <= stay.until_ns && stay.until_ns <= activity.until_ns));
        prop_assert!(activity.stays.windows(2).all(|pair| pair[0].until_ns <= pair[1].until_ns));
        // A device is busy for no longer than the run.
        for intervals in activity.busy().values() {
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
    let failed = ClusterEvent::Failed { job: a, steps: 0, kind: ErrorKind::Crashed, detail: String::new() };
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
