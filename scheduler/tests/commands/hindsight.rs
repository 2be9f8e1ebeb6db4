//! Runs simulated again with what was measured in them.

use std::{collections::BTreeSet, fs, path::Path, process::Command, thread};

use formats::{
    decision::{self, Action, ClusterEvent},
    rows::{Fidelity, Outcome, Prediction},
};
use front_door::{Door, Said, executable};
use record::{
    rows::{self},
    run_dir::RunDir,
};

use crate::run::{ON_TWO, door_to_two};

/// A run of jobs that are stopped and started again, whose launches are up to half as fast again or as slow as the prediction says.
fn noisy(door: &Door, policy: &str, more: &str) {
    let make = "trace make any --jobs 40 --length exponential:60s --step-time 250ms --every 30s --out t.csv";
    door.exits(0, make);
    let sim = format!("sim t.csv --policy {policy} --cluster 1x2 --switch-cost 5s --progress-every 7s");
    door.exits(0, &format!("{sim} --out calm"));
    door.exits(0, &format!("{sim} --noise 40 --seed 3 --out noisy {more}"));
    let outcomes: Vec<Outcome> =
        rows::read(&RunDir::open(&door.path("calm")).unwrap().outcomes_path()).unwrap();
    let predictions: Vec<Prediction> = outcomes.iter().map(Prediction::from).collect();
    rows::write(&door.path("noisy/predictions.csv"), &predictions).unwrap();
}

#[test]
fn hindsight_takes_the_drift_away_and_leaves_the_error_of_the_simulation() {
    for policy in ["fifo", "srtf", "tiresias:60s"] {
        let door = crate::door();
        noisy(&door, policy, "");
        let said = door.exits(0, "fidelity noisy --hindsight --json");
        let found: Fidelity = rows::from_json(&said.out).unwrap();
        let hindsight = found.hindsight.as_ref().expect("it was asked for");
        let error = found.job_jct.median_percent;
        assert!(error > 5.0, "{policy}: the prediction of the median job is {error} % off");
        let left = &hindsight.job_jct;
        assert!(
            left.p90_percent < 0.5 && hindsight.average_jct.error_percent.abs() < 0.1,
            "{policy}: {hindsight:?}"
        );
        assert_eq!(hindsight.average_jct.measured_ns, found.average_jct.measured_ns, "{policy}");
        let whole = found.average_jct.predicted_ns as i64 - found.average_jct.measured_ns as i64;
        assert_eq!(hindsight.drift_ns + hindsight.simulation_ns, whole, "{policy}: they add up");
        let said = door.exits(0, "fidelity noisy --hindsight");
        assert!(
            said.out.contains("drift of times") && said.out.contains("simulated with the measured times"),
            "{}",
            said.out
        );
    }
}

/// Steps of two seconds, of which two or three are left when a job is stopped: with the step that it was granted before, it finishes.
#[test]
fn a_job_that_finished_when_it_was_stopped_finishes_by_hindsight() {
    let door = crate::door();
    let machine = crate::fit::record("20261125-epyc-turns/machine.toml");
    fs::copy(machine, door.path("machine.toml")).unwrap();
    let job = |number: u64| {
        let steps = 6 + number % 7;
        format!("j{number},{}.{number:02},lstm@b20,{steps},2000000000\n", 4 * number)
    };
    door.write(
        "t.csv",
        &("name,submit_s,job,steps,step_ns\n".to_owned() + &(0..30).map(job).collect::<String>()),
    );
    let sim = "sim t.csv --policy tiresias:10s --cluster 1x2 --machine machine.toml";
    for (noise, out) in [("", "calm"), ("--noise 30 --seed 7", "noisy")] {
        door.exits(0, &format!("{sim} {noise} --out {out}"));
    }
    let run = RunDir::open(&door.path("noisy")).unwrap();
    let turns = decision::read(&run.decisions_path()).unwrap();
    let (mut leaves, mut finished) = (BTreeSet::new(), 0);
    for turn in &turns {
        for happened in &turn.events {
            match happened {
                ClusterEvent::Finished { job, .. } => finished += u32::from(leaves.remove(job)),
                ClusterEvent::Settled { job, .. } => drop(leaves.remove(job)),
                _ => {}
            }
        }
        let stops = turn.actions.iter().filter(|action| matches!(action, Action::Stop { .. }));
        leaves.extend(stops.map(Action::job));
    }
    assert!(finished >= 3, "{finished} jobs finished instead of stopping");
    let outcomes: Vec<Outcome> =
        rows::read(&RunDir::open(&door.path("calm")).unwrap().outcomes_path()).unwrap();
    let predictions: Vec<Prediction> = outcomes.iter().map(Prediction::from).collect();
    rows::write(&run.predictions_path(), &predictions).unwrap();
    let said = door.exits(0, "fidelity noisy --hindsight --json");
    let found: Fidelity = rows::from_json(&said.out).unwrap();
    assert!(found.job_jct.median_percent > 1.0, "{found:?}");
    let left = found.hindsight.expect("it was asked for").job_jct;
    assert!(left.max_percent < 0.1, "{left:?}");
}

/// The step hook is ready after the second step. A simulation that trained both steps again would be 100 ms late for each job.
#[test]
fn steps_within_the_start_of_a_program_are_not_trained_again() {
    if !Command::new("python3").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return schema::skips::skipped("python3", "there is no python3");
    }
    let door = crate::door();
    door.write(
        "train.py",
        "import time, torch\noptimizer = torch.optim.SGD([torch.Parameter(8)])\n\
         for step in range(16):\n    time.sleep(0.05)\n    optimizer.step()\n",
    );
    door.write(
        "t.csv",
        "name,submit_s,job,command,steps,step_ns\na,0,,python3 train.py,16,50000000\nb,0,,python3 train.py,16,50000000\n",
    );
    let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/python/tests/fake");
    let mut command =
        door.command("run t.csv --policy fifo --device cpu:0 --switch-cost 1s --start-cost 1s --out r");
    let output = command.env("PYTHONPATH", fake).output().expect("sched starts");
    assert!(output.status.success(), "{}", Said::of(&output).err);
    let said = door.exits(0, "fidelity r --hindsight --json");
    let found: Fidelity = rows::from_json(&said.out).unwrap();
    let left = found.hindsight.expect("it was asked for").job_jct;
    assert!(left.max_percent < 0.5, "{left:?}");
    // The prediction begins with a start of one second, within which both steps are done.
    let predicted: Vec<Prediction> = rows::read(&door.path("r/predictions.csv")).unwrap();
    let ends: Vec<u64> = predicted.iter().map(|row| row.end_ns.expect("it ends") / 1_000_000).collect();
    assert_eq!(ends, [1_700, 3_400]);
}

/// Policies that preempt jobs: by stops, or by pauses.
const PREEMPTING: [&str; 5] = [
    "srtf",
    "srsf:every=700ms",
    "tiresias:600ms",
    "las:every=800ms",
    "gandiva:quantum=600ms:pack=off:migrate=off",
];

/// Seven jobs of 1.5 s to 2.5 s, which arrive within three seconds.
fn drawn_trace(seed: u64) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut arrivals: Vec<u64> = (0..7).map(|_| random.u64(0..3_000)).collect();
    arrivals.sort_unstable();
    let job = |(number, at): (usize, u64)| {
        format!("j{number},{}.{:03},short,{},5000000\n", at / 1_000, at % 1_000, random.u64(300..500))
    };
    let jobs: String = arrivals.into_iter().enumerate().map(job).collect();
    format!("name,submit_s,job,steps,step_ns\n{jobs}")
}

/// Two events of a run may be closer to each other than their times are known. The policy may then see them in the other order in the
/// simulation, and decide otherwise or later, which is said.
#[test]
fn hindsight_of_real_runs_takes_their_times_or_names_the_decision_that_differs() {
    let said = thread::scope(|scope| {
        let run = |seed: u64| {
            let policy = PREEMPTING[seed as usize % PREEMPTING.len()];
            let door = door_to_two(&drawn_trace(seed))?;
            door.exits(0, &format!("run trace.csv --policy {policy} --switch-cost 50ms {ON_TWO}"));
            let text = door.exits(0, "fidelity r --hindsight").out;
            let found: Fidelity =
                rows::from_json(&door.exits(0, "fidelity r --hindsight --json").out).unwrap();
            Some((policy, found.hindsight.expect("it was asked for"), text))
        };
        let runs: Vec<_> = (0..10).map(|seed| scope.spawn(move || run(seed))).collect();
        runs.into_iter().map(|run| run.join().expect("the run ends well")).collect::<Option<Vec<_>>>()
    });
    let Some(said) = said else { return };
    for (policy, hindsight, text) in said {
        let (average, jobs) = (hindsight.average_jct.error_percent, hindsight.job_jct);
        match hindsight.first_difference {
            None => {
                assert!(average.abs() < 1.0 && jobs.max_percent < 1.0, "{policy}: {average} {jobs:?}");
                assert!(text.contains("all decisions about each job were those of the run"), "{text}");
            }
            Some(difference) => {
                let line = format!("the first decision that differs is about {}: ", difference.job);
                assert!(text.contains(&line), "{policy}: {text}");
                assert_ne!(difference.run, difference.simulation, "{policy}");
            }
        }
    }
}

/// Recorded runs whose simulation decides otherwise, because two of their jobs have the same share within a millisecond.
const UNDECIDED: [&str; 1] = ["20261125-epyc-turns/shares-2"];

/// Recorded runs that were published without the models that they believed.
const WITHOUT_MODELS: &str = "20261125-epyc-rubick/";

#[test]
fn the_recorded_runs_are_simulated_to_half_a_percent() {
    let records = crate::fit::record("");
    let mut folders = vec![records.clone()];
    let mut simulated = 0;
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).expect("a folder of the checkout");
        folders.extend(entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()));
        let name = folder.strip_prefix(&records).unwrap().to_str().expect("plain names").to_owned();
        if !folder.join("decisions.jsonl").exists() || name.starts_with(WITHOUT_MODELS) {
            continue;
        }
        let said = crate::door().exits(0, &format!("fidelity {} --hindsight --json", folder.display()));
        let fidelity: Fidelity = rows::from_json(&said.out).unwrap();
        let hindsight = fidelity.hindsight.expect("it was asked for");
        simulated += 1;
        if UNDECIDED.contains(&&*name) {
            assert!(hindsight.first_difference.is_some(), "{name}");
            continue;
        }
        let (average, jobs) = (hindsight.average_jct.error_percent, hindsight.job_jct);
        assert!(average.abs() < 0.5 && jobs.max_percent < 0.5, "{name}: {average} {jobs:?}");
    }
    assert!(simulated >= 44, "{simulated} runs");
}

#[test]
fn a_journal_of_other_jobs_is_refused() {
    let door = crate::door();
    noisy(&door, "fifo", "");
    let trace = fs::read_to_string(door.path("noisy/inputs/trace.csv")).unwrap();
    let last = trace.trim_end().rfind('\n').expect("it has lines");
    fs::write(door.path("noisy/inputs/trace.csv"), &trace[..=last]).unwrap();
    let said = door.exits(2, "fidelity noisy --hindsight");
    let message = ": there is no job 39, as the trace of the run has 39 jobs";
    assert!(said.err.contains("noisy/decisions.jsonl: line ") && said.err.contains(message), "{}", said.err);
    // Without its second job, the trace has other times for those after it.
    let lines: Vec<&str> = trace
        .split_inclusive('\n')
        .enumerate()
        .filter(|(line, _)| *line != 2)
        .map(|(_, line)| line)
        .collect();
    fs::write(door.path("noisy/inputs/trace.csv"), lines.concat()).unwrap();
    let job = lines[1].split(',').next().expect("a name");
    for command in ["replay noisy".to_owned(), format!("explain noisy {job}")] {
        let said = door.exits(2, &command);
        let message = "noisy: the decisions in decisions.jsonl cannot be made again from inputs/trace.csv: the cluster reported at";
        assert!(said.err.contains(message), "{command}: {}", said.err);
    }
    // A run without jobs.
    fs::write(door.path("noisy/inputs/trace.csv"), &trace[..=trace.find('\n').expect("it has lines")])
        .unwrap();
    let said = door.exits(2, "fidelity noisy --hindsight");
    assert!(said.err.contains(": there is no job 0, as the trace of the run has 0 jobs"), "{}", said.err);
}

#[test]
fn a_run_with_failures_and_a_run_without_a_journal_have_no_hindsight() {
    let door = crate::door();
    noisy(&door, "fifo", "--job-mtbf 200s --retries 99");
    let said = door.exits(2, "fidelity noisy --hindsight");
    assert!(said.err.contains("launches failed or devices were lost in it"), "{}", said.err);
    let journal = door.path("noisy/decisions.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = |line: &str| line.split_once(r#""at_ns":"#).unwrap().1.split_once(',').unwrap().0.to_owned();
    let (before, late) = (at(&lines[2]), at(&lines[3]));
    lines[3] = lines[3].replacen(&format!(r#""at_ns":{late}"#), r#""at_ns":7"#, 1);
    fs::write(&journal, lines.join("\n") + "\n").unwrap();
    let words = format!("decisions.jsonl: line 4: at_ns is 7, and the turn before it was at {before}");
    for command in ["fidelity noisy --hindsight", "replay noisy", "explain noisy j1"] {
        let said = door.exits(2, command);
        assert!(said.err.contains(&words), "{command}: {}", said.err);
    }
    let last = lines.len() - 1;
    lines[3] = lines[3].replacen(r#""at_ns":7"#, &format!(r#""at_ns":{late}"#), 1);
    lines[last] = lines[last].replacen(
        &format!(r#""at_ns":{}"#, at(&lines[last])),
        r#""at_ns":18446744073709551615"#,
        1,
    );
    fs::write(&journal, lines.join("\n") + "\n").unwrap();
    let said = door.exits(2, "replay noisy");
    let words =
        format!("decisions.jsonl: line {}: at_ns is 18446744073709551615: no run lasts that long", last + 1);
    assert!(said.err.contains(&words), "{}", said.err);
    fs::remove_file(&journal).unwrap();
    let said = door.exits(2, "fidelity noisy --hindsight");
    assert!(said.err.contains("decisions.jsonl"), "{}", said.err);
}

/// Starts each job on the first free device, and leaves a mark of its own start.
const STARTS_ALL: &str = r#"#!/usr/bin/env python3
import json, sys
open("started", "a").write("x")
jobs, taken = {}, {}
for turn in map(json.loads, sys.stdin):
    jobs.update((job["job"], job) for job in turn["jobs"])
    taken.update((device["device"], device["kept_by"]) for device in turn["devices"])
    actions = []
    for job in (job for job in jobs.values() if job["state"] == "waiting"):
        free = [device for device in taken if not taken[device]]
        if free:
            taken[free[0]] = [job["job"]]
            actions.append({"start": {"job": job["job"], "devices": free[:1], "plan": job["plan"]}})
    print(json.dumps({"turn": turn["turn"], "actions": actions}), flush=True)
"#;

#[test]
fn hindsight_starts_the_policy_of_a_run_only_if_the_user_agrees() {
    let door = crate::door();
    executable(&door.path("own.py"), STARTS_ALL);
    noisy(&door, "exec:./own.py", "");
    fs::remove_file(door.path("started")).unwrap();
    let mut command = door.command("fidelity noisy --hindsight");
    let output = command.stdin(std::process::Stdio::null()).output().expect("sched starts");
    let said = Said::of(&output);
    assert_eq!(output.status.code(), Some(2), "{}", said.err);
    assert!(
        said.err.contains("the run would start './own.py'") && said.err.contains("--yes"),
        "{}",
        said.err
    );
    assert!(!door.path("started").exists(), "the program was started");
    let said = door.exits(0, "fidelity noisy --hindsight --yes");
    assert!(said.out.contains("drift of times"), "{}", said.out);
    assert!(door.path("started").exists());
}

/// Each step took 300 ms, and the trace of the run then says 250 ms.
#[test]
fn the_speed_of_the_machine_is_what_steps_take_over_what_their_tables_say() {
    let door = crate::door();
    let make = "trace make any --jobs 12 --length fixed:300s --step-time 300ms --every 100s --out t.csv";
    door.exits(0, make);
    door.exits(
        0,
        "sim t.csv --policy tiresias:60s --cluster 1x2 --switch-cost 5s --progress-every 15s --draws 20 --out run",
    );
    let trace = door.path("run/inputs/trace.csv");
    let text = fs::read_to_string(&trace).unwrap();
    fs::write(&trace, text.replace(",300000000", ",250000000")).unwrap();
    let said = door.exits(0, "fidelity run --hindsight --json");
    let found: Fidelity = rows::from_json(&said.out).unwrap();
    let hindsight = found.hindsight.unwrap();
    assert!(hindsight.job_jct.max_percent < 0.5, "{hindsight:?}");
    let outcomes: Vec<Outcome> = rows::read(&door.path("run/outcomes.csv")).unwrap();
    let last = outcomes.iter().filter_map(|row| row.end_ns).max().unwrap();
    assert_eq!(
        hindsight.speed.last().map(|row| row.until_ns / 30_000_000_000),
        Some(last.div_ceil(30_000_000_000))
    );
    for row in &hindsight.speed {
        // A report has whole steps, of which there are 50 between two reports.
        assert!((row.step_ratio / 1.2 - 1.0).abs() < 0.02, "{row:?}");
        assert!(row.step_ratio_min <= row.step_ratio && row.step_ratio <= row.step_ratio_max, "{row:?}");
        assert!((1..=4).contains(&row.jobs), "{row:?}");
    }
    let said = door.exits(0, "fidelity run --hindsight");
    assert!(said.out.contains("step over tables") && said.out.contains("####"), "{}", said.out);
}
