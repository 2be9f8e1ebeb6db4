//! Jobs that `sched run` reconfigures while they train: under another plan and on another number of devices.

use std::{collections::BTreeMap, path::Path};

use front_door::{Door, definition, torch_bin};
use schema::{
    decision::{self, Action},
    events,
    rows::{self, Outcome, Status},
    run_dir::RunDir,
    wire::Event,
};

use crate::believe::model;

/// A best-effort job that has both devices until a guaranteed job needs one of them, and again when that has ended.
fn trace(workload: &str, steps: [u64; 2]) -> String {
    format!(
        "name,submit_s,job,steps,elastic,class\nfirst,0,{workload}@b8@dp1,{},true,best-effort\nother,1.5,{workload}@b8@dp1,{},true,guaranteed\n",
        steps[0], steps[1]
    )
}

const ON_TWO: &str = "--device cpu:0,cpu:1 --any-device --switch-cost 100ms --progress-every 200ms";

fn outcomes(run: &RunDir) -> Vec<Outcome> {
    let outcomes: Vec<Outcome> = rows::read(&run.outcomes_path()).expect("outcomes.csv reads back");
    for row in &outcomes {
        assert_eq!((row.status, row.steps_lost), (Status::Ok, 0), "{row:?}");
    }
    outcomes
}

/// The plans under which a job was started, in order.
fn plans(run: &RunDir, job: u32) -> Vec<String> {
    let turns = decision::read(&run.decisions_path()).expect("decisions.jsonl reads back");
    assert!(turns.iter().all(|turn| turn.refused.is_empty()), "{turns:?}");
    let start = |action: &Action| match action {
        Action::Start { job: of, plan, .. } if of.0 == job => Some(plan.expect("it has a plan").to_string()),
        _ => None,
    };
    turns.iter().flat_map(|turn| turn.actions.iter().filter_map(start)).collect()
}

/// The losses of all steps of a launch, each the mean over its ranks.
fn losses(run: &RunDir, launch: &str, ranks: u32) -> Vec<f64> {
    let mut of_steps: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for rank in 0..ranks {
        for line in events::read(&run.events_path(launch, rank), rank).expect("events read") {
            if let Event::Step(step) = line.event {
                of_steps.entry(step.index).or_default().extend(step.loss);
            }
        }
    }
    of_steps.into_values().map(|of| of.iter().sum::<f64>() / of.len() as f64).collect()
}

#[test]
fn a_job_does_all_its_steps_once_under_three_plans() {
    let door = crate::door();
    door.write("catalog.toml", &definition("short", "step_us = 5000, busy_percent = 0"));
    door.write("trace.csv", &trace("short", [900, 200]));
    // The model is of GPUs, and its steps take 5 ms on one device and less on two.
    model(&door, "model.json", "GPU", &[("short", 0.05)]);
    let said = door.exits(
        0,
        &format!("run trace.csv --policy rubick:restarts=1000% --model model.json --catalog catalog.toml {ON_TWO} --out r"),
    );
    let run = RunDir::open(&door.path("r")).expect("the run was begun");
    assert_eq!(outcomes(&run).iter().map(|row| row.steps).collect::<Vec<_>>(), [900, 200], "{}", said.err);
    assert_eq!(plans(&run, 0), ["dp2", "dp1", "dp2"], "{}", said.err);
    assert_eq!(plans(&run, 1), ["dp1"]);
    // What it says of the job is what it decided on.
    let said = door.exits(0, "explain r first --turn 2");
    assert!(said.out.contains("asks for dp1 on 1 devices (best-effort)"), "{}", said.out);
    door.exits(0, "replay r");
}

fn run_torch(door: &Door, bin: &Path, arguments: &str) -> String {
    let output = door.command(arguments).env("TANDEM_BIN", bin).output().expect("sched starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    said
}

/// The losses are those of the same job that is left alone, but for the order of sums.
#[test]
fn the_loss_goes_on_as_if_nothing_had_happened() {
    let Some(bin) = torch_bin() else { return };
    let door = crate::door();
    door.write("trace.csv", &trace("llama-mini", [60, 12]));
    door.write(
        "alone.csv",
        &trace("llama-mini", [60, 12]).lines().take(2).map(|line| format!("{line}\n")).collect::<String>(),
    );
    model(&door, "model.json", "GPU", &[("llama-mini", 1.5)]);
    let said = run_torch(
        &door,
        &bin,
        &format!("run trace.csv --policy rubick:restarts=1000% --model model.json {ON_TWO} --out r"),
    );
    run_torch(&door, &bin, &format!("run alone.csv --policy fifo --model model.json {ON_TWO} --out alone"));
    let (run, alone) = (door.run("r"), door.run("alone"));
    assert_eq!(outcomes(&run)[0].steps, 60);
    assert_eq!(plans(&run, 0), ["dp2", "dp1", "dp2"], "{said}");
    let found: Vec<f64> = [("0001-llama-mini", 2), ("0003-llama-mini", 1), ("0004-llama-mini", 2)]
        .iter()
        .flat_map(|(launch, ranks)| losses(&run, launch, *ranks))
        .collect();
    let undisturbed = losses(&alone, "0001-llama-mini", 1);
    assert_eq!((found.len(), undisturbed.len()), (60, 60));
    for (step, (found, expected)) in found.iter().zip(&undisturbed).enumerate() {
        assert!((found / expected - 1.0).abs() < 0.01, "step {step}: {found} is not {expected}");
    }
    assert!(undisturbed[59] < 0.9 * undisturbed[0], "it learns: {} {}", undisturbed[0], undisturbed[59]);
}
