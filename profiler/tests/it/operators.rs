//! `--operators`: recordings of PyTorch's profiler, with the stand-in for PyTorch and with the worker.

use std::{collections::BTreeMap, fs};

use front_door::{Door, Said, has_cores, torch_bin};
use record::rows::{self, OperatorTime};

use crate::foreign::{profile, with_program};

fn rows_of(door: &Door) -> Vec<OperatorTime> {
    rows::read(&door.run("r").operators_path()).expect("it is there")
}

#[test]
fn the_operators_of_a_program_are_in_a_launch_of_their_own() {
    let Some(door) = with_program("train(1000)") else { return };
    let options = "single --device cpu:0 --repeats 2 --steps 20 --operators 3 --out r";
    let output = profile(&door, options, &["--", "python3", "train.py"]).output().expect("profile starts");
    let said = Said::of(&output);
    assert_eq!(output.status.code(), Some(0), "{}", said.err);
    let run = door.run("r");
    let launches = run.launches().expect("they are listed");
    let [_, _, recorded] = &launches[..] else { panic!("two that are measured, and one: {launches:?}") };
    let measured: Vec<String> = door.measurements("r").into_iter().map(|row| row.launch).collect();
    assert_eq!(measured, launches[..2]);

    // The stand-in records a step of the optimizer, of 2 ms in 5 ms, and an operator within it, of 1.5 ms.
    let rows = rows_of(&door);
    let values: Vec<(&str, u64, u64, Option<f64>)> =
        rows.iter().map(|row| (&*row.operator, row.calls, row.host_ns, row.share_percent)).collect();
    assert_eq!(values, [("fake::add", 3, 4_500_000, Some(75.0)), ("fake::SGD", 3, 1_500_000, Some(25.0))]);
    for row in &rows {
        assert_eq!((&row.launch, row.rank, row.steps, row.device_ns), (recorded, 0, 3, None));
        assert_eq!((row.window_ns, row.idle_percent), (15_000_000, 60.0));
    }
    assert!(said.out.contains("no operator was in progress in 60.0 % of 3 recorded steps"), "{}", said.out);
    let trace = fs::read_to_string(run.operators_trace_path(recorded, 0)).expect("it is kept");
    assert!(!trace.contains(&*door.path("").to_string_lossy()), "{trace}");
    assert!(!run.recording_path(recorded, 0).exists());

    let table = fs::read(run.operators_path()).expect("it is there");
    fs::remove_file(run.operators_path()).expect("it is ours");
    door.exits(0, "derive r");
    assert_eq!(fs::read(run.operators_path()).expect("it is made again"), table);
}

#[test]
fn a_recording_that_is_missing_is_named_with_its_reason_and_made_by_a_resumed_run() {
    // The program takes as many steps as the file says, which is no part of its source.
    let Some(door) = with_program("train(int(open(\"steps\").read()))") else { return };
    fs::write(door.path("steps"), "12").expect("the folder is writable");
    let programs = ["--cmd", "python3 train.py", "--cmd", "true"];
    let options = "single --device cpu:0 --repeats 1 --operators 3 --out r";
    let output = profile(&door, options, &programs).output().expect("profile starts");
    let said = Said::of(&output);
    assert_eq!(output.status.code(), Some(1), "{}", said.err);
    assert!(
        said.err.contains("operators: it ended after 12 steps, and a recording of 3 needs 13"),
        "{}",
        said.err
    );
    assert!(said.err.contains("operators: the step hook saw no step in it"), "{}", said.err);
    assert!(!door.run("r").operators_path().exists());

    fs::write(door.path("steps"), "13").expect("the folder is writable");
    let output = profile(&door, "single --resume r --yes", &[]).output().expect("profile starts");
    let said = Said::of(&output);
    assert_eq!(output.status.code(), Some(1), "{}", said.err);
    assert!(!said.err.contains("it ended after"), "{}", said.err);
    assert_eq!(rows_of(&door).iter().map(|row| row.calls).collect::<Vec<_>>(), [3, 3]);
    assert_eq!(door.measurements("r").len(), 2);
}

#[test]
fn jobs_and_options_without_operators_are_refused() {
    let door = crate::door();
    for (arguments, words) in [
        (
            "single synthetic-sleep --operators 3",
            "synthetic-sleep@b32@dp1 computes without PyTorch and has no operators",
        ),
        ("single --steps-regex ^x --operators 3 -- true", "--steps-regex leaves it out; remove one of them"),
        ("single --operators 0 -- true", "0 is not in 1..=1000"),
    ] {
        let output = door.command(arguments).output().expect("profile starts");
        let said = Said::of(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {}", said.err);
        assert!(said.err.contains(words), "{}", said.err);
    }
}

#[test]
fn each_rank_of_a_workload_records_the_operators_of_its_steps() {
    if !has_cores(2) {
        return;
    }
    let Some(bin) = torch_bin() else { return };
    let door = crate::door();
    let options = "--device cpu:0,cpu:1 --steps 5 --repeats 1 --operators 4 --out r";
    let mut command = door.command(&format!("single vae@b8@dp2 {options}"));
    let output = command.env("TANDEM_BIN", bin).output().expect("profile starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let mut calls: BTreeMap<u32, u64> = BTreeMap::new();
    for row in rows_of(&door) {
        assert!((0.0..100.0).contains(&row.idle_percent) && row.window_ns > 0, "{row:?}");
        if row.operator == "aten::addmm" {
            calls.insert(row.rank, row.calls);
            assert!(row.host_ns > 0 && row.host_ns < row.window_ns, "{row:?}");
        }
    }
    // Five linear layers in a forward pass.
    assert_eq!(calls, BTreeMap::from([(0, 4 * 5), (1, 4 * 5)]));
}
