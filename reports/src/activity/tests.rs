use std::{collections::HashMap, path::PathBuf};

use formats::{
    decision::{DeviceId, JobId},
    rows::Outcome,
};

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
