//! The answers that a program receives in the simulation before a run, in the run and in its replay, also from a model that learns.

use std::{collections::BTreeSet, fs};

use formats::exec::StepAnswer;

use super::{ASKS, answers, start, under};
use crate::{
    believe::model,
    run::{ON_TWO, door_to_two},
};

#[test]
fn the_simulation_before_a_run_and_the_run_and_its_replay_answer_alike() {
    let trace = "name,submit_s,job,steps,step_ns\na,0,short@b8@dp1,40,5000000\n";
    let Some(door) = door_to_two(trace) else { return };
    door.write("asks.sh", ASKS);
    door.write("first", &format!(r#""actions": [{}]"#, start(0, 1)));
    let question = r#"{"turn": 0, "ask": [{"job": 0, "devices": [1], "share": 0.5}]}"#;
    door.write("ask-0", &format!("{question}\n"));
    let (code, said) = under(&door, &format!("run trace.csv --switch-cost 50ms {ON_TWO}"), "sh asks.sh");
    assert_eq!(code, Some(0), "{}", said.err);
    door.exits(0, "replay r --yes");
    let expected = vec![StepAnswer { step_ns: Some(10e6), ..StepAnswer::default() }];
    assert_eq!(answers(&door), vec![expected; 3]);
}

/// Writes the time of a step of each job that it is shown, and that of the same plan among its plans.
const LOGS: &str = r#"
import json, sys
log = open("log", "w")
for turn in map(json.loads, sys.stdin):
    for job in turn["jobs"]:
        print(job["step_ns"], *[plan["step_ns"] for plan in job["plans"] if plan["plan"] == job["plan"]], file=log)
    waiting = [job for job in turn["jobs"] if job["state"] == "waiting"]
    actions = [{"start": {"job": job["job"], "devices": [0], "plan": job["plan"]}} for job in waiting]
    print(json.dumps({"turn": turn["turn"], "actions": actions}), flush=True)
"#;

/// Each report of progress refits the model, which is wrong by a factor of 2 at first.
#[test]
fn the_plans_of_a_job_are_shown_with_what_the_model_has_learned() {
    let door = crate::door();
    model(&door, "right.json", "GPU", &[("lstm", 1.0)]);
    model(&door, "twice.json", "GPU", &[("lstm", 2.0)]);
    door.write("t.csv", "name,submit_s,job,steps,elastic\na,0,lstm@b8@dp1,3000,true\n");
    door.write("logs.py", LOGS);
    let sim = "sim t.csv --cluster 1x1 --switch-cost 0s --truth right.json --model twice.json --progress-every 10s --refit";
    let (code, said) = under(&door, sim, "python3 logs.py");
    assert_eq!(code, Some(0), "{}", said.err);
    let log = fs::read_to_string(door.path("log")).unwrap();
    let steps: Vec<&str> = log
        .lines()
        .map(|line| {
            let (alone, of_plan) = line.split_once(' ').expect("the plan is among them");
            assert_eq!(alone, of_plan);
            alone
        })
        .collect();
    let times: BTreeSet<&str> = steps.iter().copied().collect();
    assert!(steps[0] == "200000000.0" && times.len() > 10, "{steps:?}");
}
