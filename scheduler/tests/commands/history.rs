//! A policy that learns from an earlier run.

use std::fs;

use front_door::{Door, Said};
use schema::rows::{self, Outcome};

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
