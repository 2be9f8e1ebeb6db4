//! Policies that are programs: the documented one, its input, and a run whose policy fails.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::SystemTime,
};

use engine::{Engine, cluster::ClusterError, job::JobRequest, topology::Topology, view::PolicyContext};
use formats::{
    decision::{Action, Turn},
    exec::{JobState, Shown, ShownJob, ShownPlan},
    rows::Outcome,
};
use jobs::plans::Judgement;
use launches::simulated::{self, Settings};
use model::{PredictRequest, Prediction, Throughput, switch_costs::Named};
use record::rows::Status;
use scheduler::legal_plans;
use schema::{
    catalog::{Catalog, CatalogEntry},
    units::Nanos,
};
use tempfile::TempDir;

use crate::{
    policies::{NoCommands, becomes_command, jobs, run},
    support::{Own, built},
    virtual_clusters::divided,
};

const README: &str = include_str!("../../README.md");

/// Writes the documented program to a folder, and returns its policy name; `None`, with a recorded skip,
/// without Python.
fn shortest_job_first() -> Option<(TempDir, PathBuf)> {
    let python = Command::new("python3").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !python.is_ok_and(|status| status.success()) {
        schema::skips::skipped("python3", "there is no python3");
        return None;
    }
    let (_, program) = README.split_once("```python\n").expect("it has an example");
    let (program, _) = program.split_once("```").expect("the example ends");
    assert!(program.lines().count() <= 30, "it is meant to be short");
    let folder = tempfile::tempdir().expect("there is a place for files");
    let path = folder.path().join("sjf.py");
    std::fs::write(&path, program).expect("it can be written");
    Some((folder, path))
}

/// Jobs of all sizes, some with unknown durations.
fn trace(seed: u64) -> Vec<(u64, u32, u64)> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut trace: Vec<_> =
        (0..40).map(|_| (random.u64(..60), random.u32(1..9), random.u64(1..30))).collect();
    trace.sort_by_key(|job| job.0);
    trace
}

fn turns(policy: &str, topology: &Topology, seed: u64) -> Vec<Turn> {
    let mut jobs = jobs(&trace(seed));
    for job in jobs.iter_mut().filter(|job| job.id.0 % 7 == 0) {
        becomes_command(job);
    }
    for job in &mut jobs {
        (job.elastic, job.min_devices, job.max_devices) = (true, Some(1), Some(8));
        (job.device_type, job.cpus, job.priority) = (Some("GPU".into()), Some(2), -(job.id.0 as i32));
        job.recurring_job = Some(format!("recurring-{}", job.id.0 % 3));
        job.submitted_at = Some(SystemTime::UNIX_EPOCH + job.arrival.as_duration());
    }
    let mut turns = Vec::new();
    let slow = (Settings::default(), Nanos::SECOND);
    run(&mut *built(policy), &NoCommands, topology, &jobs, slow, &mut turns);
    turns
}

#[test]
fn the_shortest_job_first_of_the_documentation_decides_as_ours_does() {
    let Some((_folder, program)) = shortest_job_first() else { return };
    let topology = Topology::uniform(14, 4, "GPU");
    for seed in 0..5 {
        let ours = turns("sjf", &topology, seed);
        let theirs = turns(&format!("exec:python3 {}", program.display()), &topology, seed);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let but_for_the_reason = Turn { reason: ours.reason.clone(), ..theirs.clone() };
            assert_eq!(*ours, but_for_the_reason, "seed {seed}");
        }
        assert_eq!(ours.len(), theirs.len());
    }
}

/// A shell filter that copies the policy's input to a file. It writes a line to the file before it passes the line on, so that the file
/// has every answered line. `tee` passes lines on first.
pub(crate) fn keeps(copy: &Path) -> String {
    let keep = format!(r#"printf "%s\n" "$line" >> {}"#, copy.display());
    format!(r#"while IFS= read -r line; do {keep}; printf "%s\n" "$line"; done"#)
}

/// The input of a program in a run, as recorded by the program.
fn shown(folder: &Path, program: &Path, topology: &Topology) -> (Vec<Shown>, Vec<Turn>) {
    let copy = folder.join("shown.jsonl");
    let command = format!("exec:sh -c '{} | python3 {}'", keeps(&copy), program.display());
    let turns = turns(&command, topology, 3);
    (read_shown(&copy), turns)
}

/// A reader that keeps the last state of each job and device knows all of them.
#[test]
fn what_is_shown_is_what_changed_and_adds_up_to_all_there_is() {
    let Some((folder, program)) = shortest_job_first() else { return };
    let topology = Topology::uniform(14, 4, "GPU");
    let (lines, turns) = shown(folder.path(), &program, &topology);
    assert_eq!(lines.len(), turns.len());
    let begin = lines[0].begin.as_ref().expect("it stands in the first line");
    assert_eq!(begin.nodes.iter().map(|node| node.devices.len()).collect::<Vec<_>>(), [4, 4, 4, 2]);
    assert_eq!(lines[0].devices.len(), 14);

    let (mut jobs, mut devices) = (BTreeMap::new(), BTreeMap::new());
    for (number, line) in (0..).zip(&lines) {
        assert_eq!((line.turn, line.begin.is_some()), (number, number == 0));
        assert_eq!(line.now_ns, turns[number as usize].at_ns);
        // The jobs of the events, and those that the last answer named.
        let events = turns[number as usize].events.len();
        let named = if number == 0 { 0 } else { turns[number as usize - 1].actions.len() };
        let most = named + events;
        assert!(line.jobs.len() <= most, "turn {number}: {} jobs, {most} at most", line.jobs.len());
        jobs.extend(line.jobs.iter().map(|job| (job.job, job)));
        devices.extend(line.devices.iter().map(|device| (device.device, device)));
        for (id, job) in &jobs {
            for device in &job.on {
                assert!(devices[device].kept_by.contains(id), "turn {number}");
            }
        }
        let kept: usize = devices.values().map(|device| device.kept_by.len()).sum();
        assert_eq!(kept, jobs.values().map(|job| job.on.len()).sum::<usize>(), "turn {number}");
    }
    assert!(jobs.values().all(|job| job.state == JobState::Ended) && jobs.len() == 40);
    for (id, job) in &jobs {
        assert_eq!((job.min_devices, job.max_devices, job.cpus), (Some(1), Some(8), Some(2)));
        assert_eq!((job.device_type.as_deref(), job.priority), (Some("GPU"), -(id.0 as i32)));
        assert_eq!(job.recurring_job, Some(format!("recurring-{}", id.0 % 3)));
        // All jobs arrive within the first minute.
        let submitted = format!("1970-01-01T00:00:{:02}Z", job.arrival_ns.0 / 1_000_000_000);
        assert_eq!(job.submit_utc, Some(submitted));
    }
    let mut cores = turns.iter().flat_map(|turn| &turn.actions).map(|action| match action {
        Action::Start { cpus, .. } => *cpus,
        other => panic!("{other:?}"),
    });
    assert!(cores.all(|cpus| cpus == Some(2)));
    assert!(jobs.values().all(|job| job.step_ns.is_none() == (job.job.0 % 7 == 0)));
}

/// Step times are those of the trace.
const OWN: Own = Own { slowdown: 1.0 };

/// Simulates jobs under a policy, and lets it end. Returns the turns and the outcomes.
fn run_on(
    policy: &str,
    mut engine: Engine<'_>,
    topology: &Topology,
    jobs: &[JobRequest],
) -> (Vec<Turn>, Result<Vec<Outcome>, ClusterError>) {
    let costs = Named::constant(Nanos::ZERO);
    let mut sim =
        simulated::cluster(topology, jobs, Box::new(OWN), &costs, Settings::default()).expect("all is known");
    let mut turns = Vec::new();
    let outcomes = engine::run(&mut engine, &mut sim, &mut *built(policy), &mut turns);
    (turns, outcomes)
}

/// Simulates jobs under a program that asks for the same actions in each turn. Returns the turns, the outcomes, and what the
/// program was shown.
fn run_program(
    actions: &[&str],
    engine: Engine<'_>,
    topology: &Topology,
    jobs: &[JobRequest],
) -> (Vec<Turn>, Result<Vec<Outcome>, ClusterError>, Vec<Shown>) {
    let folder = tempfile::tempdir().expect("there is a place for files");
    let copy = folder.path().join("shown.jsonl");
    let answer = format!(r#"{{"turn": $n, "actions": [{}]}}"#, actions.join(", ")).replace('"', "\\\"");
    let program = format!("while read line; do echo \"{answer}\"; n=$((n + 1)); done");
    let command = format!("exec:sh -c 'n=0; {} | {program}'", keeps(&copy));
    let (turns, outcomes) = run_on(&command, engine, topology, jobs);
    (turns, outcomes, read_shown(&copy))
}

fn read_shown(copy: &Path) -> Vec<Shown> {
    let lines = std::fs::read_to_string(copy).expect("it was kept");
    lines.lines().map(|line| Shown::from_line(line).expect("a line a turn")).collect()
}

#[test]
fn a_program_that_fails_ends_the_run_with_what_it_said_last() {
    let (topology, jobs) = (Topology::uniform(2, 2, "GPU"), jobs(&[(0, 1, 5), (1, 1, 5)]));
    for (script, message) in [
        (
            "read line; echo no idea >&2; exit 3",
            "policy 'sh': turn 0: it ended (exit status: 3); its last output: no idea",
        ),
        ("read line; echo hello", "policy 'sh': turn 0: answered 'hello': expected value at line 1 column 1"),
        (
            r#"read line; echo "{\"turn\":0,\"actions\":[]}"; read line; echo "{\"turn\":1,\"action\":[]}""#,
            r#"policy 'sh': turn 1: answered '{"turn":1,"action":[]}': unknown field `action`, expected one of"#,
        ),
        (
            r#"read line; echo "{\"turn\":0,\"actions\":[]}"; read line; echo "{\"turn\":0,\"actions\":[]}""#,
            "policy 'sh': turn 1: answered turn 0; answer each line once, with its own turn",
        ),
        (
            r#"read line; echo "{\"turn\":0,\"actions\":[],\"wake_at_ns\":1}"; n=1; while read line; do
            echo "{\"turn\":$n,\"actions\":[],\"wake_at_ns\":$((n + 1))}"; n=$((n + 1)); done"#,
            "the policy was woken 1000 times within 999 ns of the run and did nothing; it has to ask for a later",
        ),
    ] {
        let engine = Engine::new(&topology, &jobs, &OWN, engine::Settings::default());
        let (_, outcomes) = run_on(&format!("exec:sh -c '{script}'"), engine, &topology, &jobs);
        let error = outcomes.expect_err(script);
        let error = format!("{:#}", anyhow::Error::from(error));
        assert!(error.starts_with(message), "{error}");
    }
}

/// Actions on unknown jobs or devices are refused one by one, and the state of the named ones is sent
/// again.
#[test]
fn what_a_program_may_not_ask_for_is_refused() {
    let wrong = [
        r#"{"start": {"job": 0, "devices": [7]}}"#,
        r#"{"start": {"job": 0, "devices": [0, 1]}}"#,
        r#"{"stop": {"job": 1, "checkpoint": true}}"#,
        r#"{"pause": {"job": 99}}"#,
    ];
    let (topology, jobs) = (Topology::uniform(2, 2, "GPU"), jobs(&[(0, 1, 5), (1, 1, 5)]));
    let engine = Engine::new(&topology, &jobs, &OWN, engine::Settings::default());
    let (turns, outcomes, shown) = run_program(&wrong, engine, &topology, &jobs);
    let error = outcomes.expect_err("no job is started");
    assert_eq!(error.to_string(), "no event is left, jobs wait (2), and the policy starts none of them");
    let refused = |turn: &Turn| turn.refused.iter().map(|refused| refused.action.job().0).collect::<Vec<_>>();
    assert_eq!(turns.iter().map(refused).collect::<Vec<_>>(), [[0, 0, 1, 99], [0, 0, 1, 99]]);
    assert!(matches!(turns[0].refused[3].action, Action::Pause { .. }));
    let second = &shown[1];
    assert_eq!(
        second.jobs.iter().map(|job| job.job.0).collect::<Vec<_>>(),
        [0, 1],
        "one is wrong, one arrived"
    );
    assert_eq!(second.devices.iter().map(|device| device.device.0).collect::<Vec<_>>(), [0, 1]);
}

/// A step takes 2 ns on the devices of type `fast`, and 5 ns on others.
struct ByType;

impl Throughput for ByType {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let step_ns = if question.device_type == "fast" { 2.0 } else { 5.0 };
        Some(Prediction { step_ns, step_ns_ci: None })
    }
}

#[test]
fn plans_are_shown_for_each_type_of_device_that_a_job_may_have() {
    let topology = divided(&[("a", 1, 1, "fast"), ("a", 1, 2, "slow"), ("b", 1, 1, "slow")]);
    let mut jobs = jobs(&[(0, 1, 5), (0, 1, 5)]);
    for (job, virtual_cluster) in jobs.iter_mut().zip(["a", "b"]) {
        (job.elastic, job.virtual_cluster) = (true, virtual_cluster.into());
    }
    let legal = |_: CatalogEntry<'_>, _, _: &_, _: (&_, &[_])| Judgement::default();
    let plans = legal_plans::enumerate(&jobs, &Catalog::embedded(), &topology, legal);
    let known = PolicyContext { plans: Some(&plans), ..PolicyContext::default() };
    let engine = Engine::new(&topology, &jobs, &ByType, engine::Settings::default()).knowing(known);
    let (_, _, shown) = run_program(&[], engine, &topology, &jobs);
    let of = |job: &ShownJob| {
        let spelled =
            |plan: &ShownPlan| (plan.device_type.clone(), plan.devices, plan.step_ns.map(|ns| ns as u64));
        job.plans.read().iter().map(spelled).collect::<BTreeSet<_>>()
    };
    let expected = |plans: &[(&str, u32, u64)]| {
        plans
            .iter()
            .map(|(kind, devices, ns)| ((*kind).to_owned(), *devices, Some(*ns)))
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(of(&shown[0].jobs[0]), expected(&[("fast", 1, 2), ("slow", 1, 5), ("slow", 2, 5)]));
    assert_eq!(of(&shown[0].jobs[1]), expected(&[("slow", 1, 5)]));
}

/// The same actions in each turn: job 0 is started once, and throttled until it has finished.
#[test]
fn a_program_throttles_a_job_and_ends_another_and_is_shown_the_share() {
    let actions = [
        r#"{"start": {"job": 0, "devices": [0]}}"#,
        r#"{"throttle": {"job": 0, "share": 0.25}}"#,
        r#"{"end": {"job": 1}}"#,
    ];
    let (topology, jobs) = (Topology::uniform(1, 1, "GPU"), jobs(&[(0, 1, 5), (1, 1, 5)]));
    let engine = Engine::new(&topology, &jobs, &OWN, engine::Settings::default());
    let (_, outcomes, shown) = run_program(&actions, engine, &topology, &jobs);
    let outcomes = outcomes.expect("both end");
    // 5 s of work at a quarter.
    assert_eq!(outcomes[0].jct_ns, Some(20_000_000_000));
    assert_eq!((outcomes[1].status, outcomes[1].end_ns), (Status::EndedByPolicy, Some(1_000_000_000)));
    let of_first = |shown: &Shown| shown.jobs.iter().find(|job| job.job.0 == 0).map(|job| job.share.get());
    assert_eq!(shown[..2].iter().map(of_first).collect::<Vec<_>>(), [Some(1.0), Some(0.25)]);
}
