//! Jobs that the policy ends: how each command treats them.

use formats::{
    decision::{self, Action, JobId},
    rows::{Fidelity, Outcome, Prediction, Totals},
    saved::Saved,
};
use front_door::{Door, Said};
use record::rows::{self, Status};
use schema::FORMAT;

use crate::run::{ON_TWO, door_to_two, outcomes, run};

/// Starts jobs in order, one at a time, and ends `loser` when it has reported steps, and `never` as it arrives.
const DROPS: &str = r#"import json, sys
jobs = {}
for turn in map(json.loads, sys.stdin):
    jobs.update((job["name"], job) for job in turn["jobs"])
    actions = []
    for job in jobs.values():
        if job["name"] == "never" and job["state"] == "waiting" or job["name"] == "loser" and job["state"] == "running" and job["steps_done"] > 0:
            actions.append({"end": {"job": job["job"]}})
    is_free = all(job["state"] in ("waiting", "ended", "ending") for job in jobs.values())
    waiting = [job for job in jobs.values() if job["state"] == "waiting" and job["name"] != "never"]
    if waiting and is_free:
        actions.append({"start": {"job": waiting[0]["job"], "devices": [0], "plan": waiting[0]["plan"]}})
    print(json.dumps({"turn": turn["turn"], "actions": actions, "reason": "drops"}), flush=True)
"#;

fn obey(door: &Door, arguments: &str) -> Said {
    door.write("drops.py", DROPS);
    let output =
        door.command(arguments).args(["--policy", "exec:python3 drops.py"]).output().expect("it starts");
    let said = Said::of(&output);
    assert!(output.status.success(), "{}", said.err);
    said
}

#[test]
fn a_simulation_counts_what_the_policy_ended_apart() {
    let door = crate::door();
    // `loser` reports its tenth step at 10 s and has left then. `winner` runs for 30 s after it.
    door.write("t.csv", "name,submit_s,job,steps,step_ns\nloser,0,any,300,1000000000\nnever,0,any,5,1000000000\nwinner,0,any,30,1000000000\n");
    let sim = "sim t.csv --cluster 1x1 --switch-cost 0s --progress-every 10s";
    let said = obey(&door, &format!("{sim} --out r"));
    assert!(
        said.out.contains("2 ended by the policy") && !said.out.contains("did not end well"),
        "{}",
        said.out
    );
    let totals: Vec<Totals> = rows::from_json(&obey(&door, &format!("{sim} --json")).out).unwrap();
    let row = &totals[0];
    assert_eq!((row.jobs, row.ok, row.failed, row.ended_by_policy), (3, 1, 0, 2));
    assert_eq!((row.jct_ns_mean, row.makespan_ns), (Some(40_000_000_000), Some(40_000_000_000)));
    assert_eq!((row.util_percent, row.steps_lost), (Some(100.0), 0));

    let said = door.exits(0, "explain r loser");
    let first = "loser was ended by the policy, at 10.0 s; 10 of 300 steps were reported";
    assert!(said.out.contains(first), "{}", said.out);
    assert!(said.out.contains("end (drops)") && said.out.contains("left its devices"), "{}", said.out);
    assert!(door.exits(0, "replay r --yes").out.contains("every decision as it was recorded"));

    // Both sides agree on the jobs that were ended, which therefore miss no limit.
    let outcomes: Vec<Outcome> = rows::read(&door.path("r/outcomes.csv")).unwrap();
    let predictions: Vec<Prediction> = outcomes.iter().map(Prediction::from).collect();
    rows::write(&door.path("r/predictions.csv"), &predictions).unwrap();
    let said = door.exits(0, "fidelity r --again r");
    assert!(said.err.contains("2 jobs that the policy ended on both sides"), "{}", said.err);
    let found: Fidelity = rows::from_json(&door.exits(0, "fidelity r --json").out).unwrap();
    assert_eq!((found.jobs, found.ended_by_policy, found.left_out.len()), (1, 2, 0));
    assert!((found.utilisation.measured_percent.unwrap() - 100.0).abs() < 1e-9);
}

#[test]
fn a_real_run_in_which_the_policy_ended_jobs_is_whole() {
    let jobs = "loser,0,short,5000,5000000\nnever,0,short,50,5000000\nwinner,0,short,60,5000000\n";
    let Some(door) = door_to_two(&format!("name,submit_s,job,steps,step_ns\n{jobs}")) else { return };
    let said = obey(&door, &format!("run trace.csv --switch-cost 50ms {ON_TWO}"));
    assert!(said.out.contains("1 of 3 jobs done, 2 ended by the policy"), "{}", said.out);
    assert!(
        said.err.contains("end never") && said.err.contains("loser was ended by the policy after"),
        "{}",
        said.err
    );
    let [loser, never, winner] = &outcomes(&door)[..] else { panic!("three rows") };
    assert_eq!((winner.status, winner.steps), (Status::Ok, 60));
    assert_eq!((loser.status, loser.err, loser.steps_lost), (Status::EndedByPolicy, None, 0));
    assert!((1..5_000).contains(&loser.steps) && loser.device_time_ns > Some(0), "{loser:?}");
    assert_eq!((never.status, never.starts), (Status::EndedByPolicy, 0));
    door.exits(0, "run --resume r --yes");
    door.exits(0, "replay r --yes");
}

/// The journal ends where `loser` is to leave: the scheduler died before it had left.
#[test]
fn a_job_that_was_to_end_when_the_scheduler_died_has_ended() {
    let trace = "name,submit_s,job,steps\nloser,0,short,5000\nwinner,0,short,60\n";
    let Some(door) = door_to_two(trace) else { return };
    obey(&door, &format!("run trace.csv --checkpoint-every 50ms {ON_TWO}"));
    let path = run(&door).decisions_path();
    let turns = decision::read(&path).unwrap();
    let ends = |action: &Action| matches!(action, Action::End { .. });
    let last = turns.iter().position(|turn| turn.actions.iter().any(ends)).expect("it was ended");
    let text = std::fs::read_to_string(&path).unwrap();
    let kept: String = text.split_inclusive('\n').take(last + 1).collect();
    std::fs::write(&path, kept).unwrap();
    std::fs::remove_file(door.path("r/parts.csv")).unwrap();
    let (run, name) = (run(&door), "0001-loser-1".to_owned());
    std::fs::write(run.checkpoint_path(&name), "").unwrap();
    let saved = Saved { format: FORMAT, name, launch: "0001-loser".into(), launch_steps: 1, steps: 1 };
    saved.write(&run, JobId(0)).unwrap();
    door.exits(0, "run --resume r --yes");
    let [loser, winner] = &outcomes(&door)[..] else { panic!("two rows") };
    assert_eq!((loser.status, loser.starts, loser.retries), (Status::EndedByPolicy, 1, 0), "{loser:?}");
    assert_eq!((winner.status, winner.steps), (Status::Ok, 60));
    assert_eq!(std::fs::read_dir(run.checkpoints_path()).unwrap().count(), 0);
}
