//! Commands that save their work after the step in which they receive SIGTERM.

use std::{fs, path::Path, process::Command};

use front_door::{Door, Said};
use record::rows::Status;

use crate::run::{ON_TWO, door_to_two, outcomes};

/// Trains with the fake PyTorch until some steps after SIGTERM.
const SAVES: &str = "import signal, sys, time, torch
optimizer = torch.optim.SGD([torch.Parameter(8)])
steps, last = 0, float('inf')
def handler(*_):
    global last
    last = steps + 3
signal.signal(signal.SIGTERM, handler)
while steps < last:
    time.sleep(0.01)
    optimizer.step()
    steps += 1
open(sys.argv[1], 'w').write(str(steps))
";

/// Starts jobs as they arrive, and ends `loser` when it has reported steps.
const DROPS: &str = r#"import json, sys
jobs = {}
for turn in map(json.loads, sys.stdin):
    jobs.update((job["name"], job) for job in turn["jobs"])
    actions = []
    for device, (name, job) in enumerate(sorted(jobs.items())):
        if job["state"] == "waiting":
            actions.append({"start": {"job": job["job"], "devices": [device], "plan": job["plan"]}})
        if name == "loser" and job["state"] == "running" and job["steps_done"] > 0:
            actions.append({"end": {"job": job["job"]}})
    print(json.dumps({"turn": turn["turn"], "actions": actions, "reason": "drops"}), flush=True)
"#;

fn run(door: &Door) -> Said {
    door.write("train.py", SAVES);
    door.write("drops.py", DROPS);
    let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/python/tests/fake");
    let mut command = door.command(&format!("run trace.csv {ON_TWO} --policy"));
    let output = command.arg("exec:python3 drops.py").env("PYTHONPATH", fake).output().expect("it starts");
    let said = Said::of(&output);
    assert!(output.status.success(), "{}", said.err);
    said
}

#[test]
fn a_command_that_is_ended_after_its_steps_or_by_the_policy_saves_and_counts_no_later_step() {
    if !Command::new("python3").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return schema::skips::skipped("python3", "there is no python3");
    }
    let trace = "name,submit_s,command,steps\nloser,0,python3 train.py loser,100000\nwinner,0,python3 train.py winner,40\n";
    let Some(door) = door_to_two(trace) else { return };
    run(&door);
    let rows = outcomes(&door);
    let saved = |name: &str| -> u64 {
        let text = fs::read_to_string(door.path(name)).expect("it has saved");
        text.parse().expect("it writes a number")
    };
    let [loser, winner] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((loser.status, winner.status), (Status::EndedByPolicy, Status::Ok), "{rows:?}");
    assert_eq!((winner.steps, saved("winner") > 40), (40, true));
    assert!(saved("loser") > loser.steps, "{loser:?}");
}

#[test]
fn a_command_that_ignores_sigterm_is_killed_and_named() {
    let script =
        "trap '' TERM; for i in $(seq 40); do echo step $i; sleep 0.01; done; while :; do sleep 1; done";
    let trace = "name,submit_s,command,steps,steps_regex\nstays,0,sh stays.sh,40,^step\n";
    let Some(door) = door_to_two(trace) else { return };
    door.write("stays.sh", script);
    let said = door.exits(0, &format!("run trace.csv --policy fifo {ON_TWO}"));
    assert!(said.err.contains("did not end within 10.0 s of SIGTERM, and was killed"), "{}", said.err);
    let [row] = &outcomes(&door)[..] else { panic!("one job has one row") };
    assert_eq!((row.status, row.steps), (Status::Ok, 40));
}
