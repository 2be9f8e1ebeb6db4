//! Jobs that `sched run` reconfigures while they train: under another plan and on another number of devices.

use std::collections::BTreeMap;

use formats::decision::{ClusterEvent, JobId, Turn};
use front_door::{Door, Said, definition, has_cores, torch_bin};
use record::{
    rows::{ErrorKind, Status},
    run_dir::RunDir,
};
use schema::{events, wire::Event};

use crate::{
    believe::model,
    run::{does_each_step_once, goes_on_under, interrupted_when, outcomes, plans, run},
};

/// More steps than a job takes until its run is interrupted.
const ENDLESS: u64 = 1_000_000;

/// A best-effort job that has both devices until a guaranteed job needs one of them, and again when that has ended.
fn trace(workload: &str, steps: [u64; 2]) -> String {
    format!(
        "name,submit_s,job,steps,elastic,class\nfirst,0,{workload}@b8@dp1,{},true,best-effort\nother,1.5,{workload}@b8@dp1,{},true,guaranteed\n",
        steps[0], steps[1]
    )
}

const ON_TWO: &str = "--device cpu:0,cpu:1 --any-device --switch-cost 100ms --progress-every 200ms";

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

/// Checks that the first job was interrupted under its last plan and lost no step, and that the other job ended.
fn has_changed_twice(door: &Door, said: &str) {
    assert_eq!(plans(&run(door), 0), ["dp2", "dp1", "dp2"], "{said}");
    assert_eq!(plans(&run(door), 1), ["dp1"], "{said}");
    let [first, other] = &outcomes(door)[..] else { panic!("two rows") };
    assert_eq!((first.err, first.steps_lost), (Some(ErrorKind::Interrupted), 0), "{first:?}");
    assert_eq!((other.status, Some(other.steps), other.steps_lost), (Status::Ok, other.steps_asked, 0));
    does_each_step_once(&run(door), first);
}

#[test]
fn a_job_does_each_step_once_under_three_plans() {
    if !has_cores(2) {
        return;
    }
    let door = crate::door();
    door.write("catalog.toml", &definition("short", "step_us = 5000, busy_percent = 0"));
    door.write("trace.csv", &trace("short", [ENDLESS, 200]));
    // The model is of GPUs, and its steps take 5 ms on one device and less on two.
    model(&door, "model.json", "GPU", &[("short", 0.05)]);
    let begin =
        format!("run trace.csv --policy rubick --model model.json --catalog catalog.toml {ON_TWO} --out r");
    let said = interrupted_when(&door, door.command(&begin), "the job has been changed twice", |turns| {
        goes_on_under(turns, 0, 3)
    });
    has_changed_twice(&door, &said);
    // What it says of the job is what it decided on.
    let said = door.exits(0, "explain r first --turn 2");
    assert!(said.out.contains("asks for dp1 on 1 devices (best-effort)"), "{}", said.out);
    door.exits(0, "replay r");
}

/// The losses of all steps of the first job, over its launches.
fn losses_of_first(run: &RunDir) -> Vec<f64> {
    let launches = run.launches().expect("jobs/ is there");
    let specs = launches.iter().map(|launch| run.spec(launch).expect("it reads"));
    let of_first = specs.filter(|spec| spec.cell == "first");
    of_first.flat_map(|spec| losses(run, &spec.launch, spec.devices.len() as u32)).collect()
}

/// The losses are those of the same job that is left alone, but for the order of sums.
#[test]
fn the_loss_goes_on_as_if_nothing_had_happened() {
    let Some(bin) = torch_bin().filter(|_| has_cores(2)) else { return };
    let door = crate::door();
    door.write("trace.csv", &trace("llama-mini", [ENDLESS, 12]));
    model(&door, "model.json", "GPU", &[("llama-mini", 1.5)]);
    let with_torch = |arguments: &str| {
        let mut command = door.command(arguments);
        command.env("TANDEM_BIN", &bin);
        command
    };
    let begin = format!("run trace.csv --policy rubick --model model.json {ON_TWO} --out r");
    let has_learned = |turns: &[Turn]| {
        let mut events = turns.iter().flat_map(|turn| &turn.events);
        let is_late =
            |it: &ClusterEvent| matches!(it, ClusterEvent::Progress { job: JobId(0), steps: 60.., .. });
        goes_on_under(turns, 0, 3) && events.any(is_late)
    };
    let said = interrupted_when(&door, with_torch(&begin), "the job has been changed twice", has_learned);
    has_changed_twice(&door, &said);
    let reconfigured = losses_of_first(&run(&door));

    let whole = trace("llama-mini", [reconfigured.len() as u64, 12]);
    door.write("alone.csv", &whole.split_inclusive('\n').take(2).collect::<String>());
    let alone = format!("run alone.csv --policy fifo --model model.json {ON_TWO} --out alone");
    let output = with_torch(&alone).output().expect("sched starts");
    assert_eq!(output.status.code(), Some(0), "{}", Said::of(&output).err);
    let undisturbed = losses(&door.run("alone"), "0001-llama-mini", 1);
    assert_eq!(reconfigured.len(), undisturbed.len());
    for (step, (loss, expected)) in reconfigured.iter().zip(&undisturbed).enumerate() {
        assert!((loss / expected - 1.0).abs() < 0.01, "step {step}: {loss} is not {expected}");
    }
    let last = undisturbed.len() - 1;
    assert!(undisturbed[last] < 0.9 * undisturbed[0], "it learns: {} {}", undisturbed[0], undisturbed[last]);
}
