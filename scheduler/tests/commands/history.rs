//! A policy that learns from an earlier run.

use std::fs;

use formats::rows::Outcome;
use front_door::{Door, Said};
use record::rows::{self};

/// Starts waiting jobs in the order of the mean duration of their recurring jobs in the history, one at a time.
const LEARNS: &str = r#"
import json, sys
jobs, means = {}, {}
for turn in map(json.loads, sys.stdin):
    for past in turn.get("begin", {}).get("history", []):
        means.setdefault(past["recurring_job"], []).append(past["duration_ns"])
    jobs.update((job["job"], job) for job in turn["jobs"])
    waiting = [job for job in jobs.values() if job["state"] == "waiting"]
    is_free = not any(job["on"] for job in jobs.values())
    mean = lambda job: sum(means[job["recurring_job"]]) / len(means[job["recurring_job"]])
    first = sorted(waiting, key=mean)[:1] if is_free else []
    print(json.dumps({"turn": turn["turn"], "actions": [{"start": {"job": job["job"], "devices": [0]}} for job in first]}),
          flush=True)
"#;

const HEADER: &str = "name,submit_s,job,steps,step_ns,recurring_job,submit_utc\n";

fn ends(door: &Door, run: &str) -> Vec<u64> {
    let outcomes: Vec<Outcome> = rows::read(&door.path(run).join("outcomes.csv")).expect("it reads back");
    outcomes.iter().filter_map(|row| Some(row.end_ns? / 1_000_000_000)).collect()
}

fn learns(door: &Door, history: &str, out: &str) -> (bool, Said) {
    let options = "--cluster 1x1 --switch-cost 0s";
    let mut command =
        door.command(&format!("sim new.csv {options} --history {history} --out {out} --policy"));
    let output = command.arg("exec:python3 learns.py").output().expect("it starts");
    (output.status.success(), Said::of(&output))
}

/// The jobs of 9 s and 2 s wait for the first one. The history says that those of the second recurring job are short.
#[test]
fn a_program_learns_durations_from_a_trace_or_from_the_outcomes_of_a_run() {
    let door = crate::door();
    door.write("learns.py", LEARNS);
    let day = |day: u32| format!("2020-08-0{day}T08:00:00Z");
    let old = format!("a,0,any,20,1000000000,long,{}\nb,9,any,4,1000000000,short,{}\n", day(1), day(2));
    door.write("old.csv", &format!("{HEADER}{old}"));
    let new = "x,0,any,5,1000000000,long,\ny,1,any,9,1000000000,long,\nz,2,any,2,1000000000,short,\n";
    door.write("new.csv", &format!("{HEADER}{new}"));
    door.exits(0, "sim old.csv --policy fifo --cluster 1x1 --switch-cost 0s --out old");
    let outcomes: Vec<Outcome> = rows::read(&door.path("old/outcomes.csv")).expect("it reads back");
    let labels: Vec<_> =
        outcomes.iter().map(|row| (row.recurring_job.clone(), row.submit_utc.clone())).collect();
    assert_eq!(labels, [(Some("long".into()), Some(day(1))), (Some("short".into()), Some(day(2)))]);

    for (history, out) in [("old.csv", "of-trace"), ("old/outcomes.csv", "of-outcomes")] {
        let (is_ok, said) = learns(&door, history, out);
        if said.err.contains("cannot be started") {
            schema::skips::skipped("python3", "there is no python3");
            return;
        }
        assert!(is_ok, "{}", said.err);
        assert_eq!(ends(&door, out), [5, 16, 7], "{history}");
        // The run has a copy of its own.
        let (from, kept) = (door.path(history), door.path(out).join("inputs/history.csv"));
        assert_eq!(fs::read(&from).unwrap(), fs::read(&kept).unwrap());
        fs::remove_file(from).unwrap();
        door.exits(0, &format!("replay {out} --yes"));
    }
    fs::remove_file(door.path("of-trace/inputs/history.csv")).unwrap();
    let said = door.exits(2, "replay of-trace --yes");
    assert!(said.err.contains("inputs/history.csv"), "{}", said.err);
    let (is_ok, said) = learns(&door, "learns.py", "none");
    assert!(!is_ok && said.err.contains("learns.py: line 1: this is neither a trace"), "{}", said.err);
}

/// Jobs of the recurring job `long` run for 10 s on one device, and those of `wide` for 8 s on two.
#[test]
fn quasi_shortest_service_first_learns_from_a_history_and_from_its_own_jobs() {
    let door = crate::door();
    let header = "name,submit_s,job,steps,step_ns,devices,recurring_job,user\n";
    let job = |name: &str, submit_s: u32, steps: u32, devices: u32, recurring: &str| {
        format!("{name},{submit_s},any,{steps},1000000000,{devices},{recurring},ann\n")
    };
    let write = |file: &str, jobs: &[String]| door.write(file, &format!("{header}{}", jobs.concat()));
    write("old.csv", &[job("a", 0, 10, 1, "long"), job("b", 1, 8, 2, "wide")]);
    let first = job("x", 0, 5, 2, "other");
    write(
        "new.csv",
        &[first.clone(), job("y", 1, 9, 1, "long"), job("z", 2, 2, 2, "wide"), job("w", 3, 7, 1, "long")],
    );
    let ends = |policy: &str, trace: &str, history: &str| {
        let out = trace.trim_end_matches(".csv");
        door.exits(
            0,
            &format!("sim {trace} --policy {policy} --cluster 1x2 --switch-cost 0s {history} --out {out}"),
        );
        ends(&door, out)
    };
    let known = "--history old.csv";
    // The service of `wide` is 16 device seconds, and that of `long` 10.
    assert_eq!(ends("qssf", "new.csv", known), [5, 14, 16, 12]);
    // Of the user of `w` nothing is known: 9 s, the mean of all. `z` is like no other job of its user: 9 s, the mean of these.
    let unknown = job("w", 3, 7, 2, "").replace("ann", "eve");
    write("unknown.csv", &[first, job("y", 1, 9, 1, "long"), unknown, job("z", 4, 2, 1, "")]);
    assert_eq!(ends("qssf", "unknown.csv", known), [5, 14, 21, 7]);
    // Without a history, the jobs that have ended are known.
    let own = [
        ("x", 0, 8, "slow"),
        ("y", 1, 2, "fast"),
        ("b", 10, 5, "slow"),
        ("u", 11, 1, "slow"),
        ("v", 12, 1, "fast"),
    ];
    write("own.csv", &own.map(|(name, submit_s, steps, recurring)| job(name, submit_s, steps, 2, recurring)));
    assert_eq!(ends("qssf", "own.csv", ""), [8, 10, 15, 17, 16]);
    let said = door.exits(0, "explain new w --turn 4");
    assert!(said.out.contains("it is estimated to run for 10 s"), "{}", said.out);
}
