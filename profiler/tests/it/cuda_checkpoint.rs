//! `cuda-checkpoint`, by a stand-in for the program and for the driver: whether it is usable, and what a calibration measures of it.

use std::process::Command;

use front_door::{Door, Said};
use record::{
    calibration::{Calibration, Switch},
    rows::{self, DoctorRow, Health, Status},
    suspension::Suspension,
};

/// The stand-in takes 30 ms for a checkpoint.
const MOVES: &str = "test $2 = checkpoint && sleep 0.03; exit 0";

fn with_driver(mut command: Command, door: &Door, driver: &str) -> Command {
    // Each reading of the used memory is smaller than the one before, as if a checkpoint had freed some.
    let script =
        fake_driver::H200.replace("driver = \"580.159.03\"", &format!("driver = \"{driver}\"")).replace(
            "memory_used_bytes = { start = 20000000000 }",
            "memory_used_bytes = { start = 20000000000, per_call = -4096 }",
        );
    let library = fake_driver::install(&door.path(""), &script).expect("the folder is writable");
    command.env("TANDEM_NVML", &library).env("LD_LIBRARY_PATH", door.path(""));
    command
}

fn calibration(door: &Door) -> Calibration {
    Calibration::read(&door.path("machine.toml")).expect("it reads back")
}

#[test]
fn the_doctor_says_whether_it_is_usable_and_why_not() {
    let row = |mut command: Command| {
        let output = command.output().expect("profile starts");
        let rows: Vec<DoctorRow> = rows::from_json(&String::from_utf8_lossy(&output.stdout)).expect("rows");
        let row = rows.into_iter().find(|row| row.about == "cuda-checkpoint").expect("it is always said");
        (row.health, row.found)
    };
    let door = crate::door();
    let there =
        |driver: &str| with_driver(door.command_with_cuda_checkpoint("doctor --json", MOVES), &door, driver);
    assert_eq!(row(there("580.159.03")), (Health::Ok, "can move a job off its GPU and back".into()));
    let (health, found) = row(there("565.57.01"));
    assert!(
        health == Health::Lacks && found.contains("need driver 570 or newer, and it is 565.57.01"),
        "{found}"
    );
    let (_, found) = row(with_driver(door.command("doctor --json"), &door, "580.159.03"));
    assert!(found.starts_with("there is no cuda-checkpoint in PATH"), "{found}");
    let mut without = door.command_with_cuda_checkpoint("doctor --json", MOVES);
    without.env("TANDEM_NVML", "/nowhere/libnvidia-ml.so.1");
    let (_, found) = row(without);
    assert_eq!(found, "cuda-checkpoint moves the memory of GPUs, and none can be opened here");
    assert!(door.calls_of_cuda_checkpoint().is_empty(), "nothing was moved");
}

#[test]
fn a_calibration_has_its_actions_and_what_they_cost_together() {
    let door = crate::door();
    let arguments = "calibrate synthetic-sleep --parts restart --device cuda:0 --repeats 2 --run r";
    let mut command = with_driver(door.command_with_cuda_checkpoint(arguments, MOVES), &door, "580.159.03");
    let output = command.output().expect("profile starts");
    let said = Said::of(&output);
    assert_eq!(output.status.code(), Some(0), "{}", said.err);
    let found = calibration(&door);
    let ns = |part| {
        found.restart.iter().find(|row| row.part == part).unwrap_or_else(|| panic!("{found:?}")).ns.value
    };
    assert!(ns(Switch::CudaCheckpoint) >= 30_000_000, "{}", ns(Switch::CudaCheckpoint));
    let moved = found.suspend.iter().find(|row| row.suspension == Suspension::CudaCheckpoint).expect("a row");
    let cost = moved.cost.clone().unwrap_or_else(|| panic!("{moved:?}"));
    assert!(cost.suspend_ns.value > ns(Switch::CudaCheckpoint) && cost.repeats == 2, "{cost:?}");
    assert!(cost.resume_ns.value > ns(Switch::CudaRestore).max(ns(Switch::CudaUnlock)), "{cost:?}");
    assert_eq!(
        cost.bytes.map(|bytes| bytes % 4096),
        Some(0),
        "what was used before, less what is used after"
    );
    assert!(cost.bytes > Some(0), "{cost:?}");
    let calls = door.calls_of_cuda_checkpoint();
    let actions: Vec<&str> = calls.iter().map(|(action, _)| action.as_str()).collect();
    assert_eq!(actions, ["lock", "checkpoint", "restore", "unlock"].repeat(2));
    assert!(calls.chunks(4).all(|of_job| of_job.iter().all(|(_, pid)| *pid == of_job[0].1)), "{calls:?}");
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

/// The rest of the job is measured, and `cuda-checkpoint` is not tried again.
#[test]
fn an_action_that_fails_is_a_missing_row_with_its_reason() {
    let door = crate::door();
    let arguments = "calibrate synthetic-sleep --parts restart --device cuda:0 --repeats 2 --run r";
    let then = "test $2 = lock && { echo 'OS call failed' >&2; exit 1; }; exit 0";
    let mut command = with_driver(door.command_with_cuda_checkpoint(arguments, then), &door, "580.159.03");
    let output = command.output().expect("profile starts");
    let said = Said::of(&output);
    assert_eq!(output.status.code(), Some(1), "{}", said.err);
    let found = calibration(&door);
    let why = "cuda-checkpoint --action lock failed (exit status: 1): OS call failed";
    let [missing] = &found.not_measured[..] else { panic!("{found:?}") };
    assert_eq!(
        (missing.what.as_str(), missing.status, missing.reason.as_str()),
        ("cuda-checkpoint of synthetic-sleep@b32@dp1@on=cuda:0", Status::Failed, why)
    );
    let costs = found.suspend.iter().map(|row| (row.suspension, row.cost.is_some()));
    assert!(
        costs.eq(Suspension::ALL.iter().map(|way| (*way, *way != Suspension::CudaCheckpoint))),
        "{found:?}"
    );
    assert_eq!(door.calls_of_cuda_checkpoint().len(), 1);
    assert!(said.out.contains(why), "{}", said.out);
}
