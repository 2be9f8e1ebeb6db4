//! The exit code of a command tells what to change before the next try: the command line, the machine, or
//! the disk.

use std::fs::{self, File};

use front_door::Said;
use record::{
    launch_end::LaunchEnd,
    rows::{ErrorKind, Status},
};

const SHORT: &str = "--device cpu:0 --steps 20 --repeats 1";

#[test]
fn a_set_that_the_catalog_does_not_have_matches_nothing() {
    let door = crate::door();
    for command in [
        "single set:slow",
        "colocate set:slow --all-pairs",
        "verify set:slow",
        "verify set:slow --plans",
        "list set:slow",
    ] {
        let said = door.exits(4, command);
        assert!(
            said.err.contains("there is no set 'slow'; the catalog has quick"),
            "{command}: {}",
            said.err
        );
    }
    door.exits(2, "single slow");
    assert!(!door.path("runs").exists(), "nothing was begun");
}

#[test]
fn a_file_that_is_not_there_is_a_slip_and_one_that_cannot_be_read_is_not() {
    let door = crate::door();
    for slip in ["derive nowhere", "single --resume nowhere", "export nowhere --out t.csv"] {
        door.exits(2, slip);
    }
    // Reading memory that is not mapped fails for every user.
    let said = door.exits(5, "single --grid /proc/self/mem --device cpu:0 --out r");
    assert!(said.err.contains("/proc/self/mem: Input/output error"), "{}", said.err);
}

#[test]
fn what_cannot_be_written_is_told_by_a_code_of_its_own() {
    let door = crate::door();
    let no_run = door.exits(5, &format!("single synthetic-sleep {SHORT} --out /dev/full/r"));
    assert!(no_run.err.contains("/dev/full/r cannot be written: Not a directory"), "{}", no_run.err);

    door.exits(0, &format!("single synthetic-sleep {SHORT} --out r"));
    fs::create_dir(door.path("t.csv.new")).expect("its place is free");
    door.exits(5, "export r --out t.csv");
    fs::remove_file(door.path("r/summary.csv")).expect("it was written");
    fs::create_dir(door.path("r/summary.csv")).expect("its place is free");
    let said = door.exits(5, "derive r");
    assert!(said.err.contains("summary.csv cannot be written: Is a directory"), "{}", said.err);

    let full = File::options().write(true).open("/dev/full").expect("Linux has it");
    let output = door.command("list").stdout(full).output().expect("profile starts");
    let said = Said::of(&output);
    assert_eq!(output.status.code(), Some(5), "{}", said.err);
    assert_eq!(said.err, "error: standard output: No space left on device (os error 28)\n");
}

#[test]
fn a_driver_that_does_not_come_back_is_told_by_a_code_of_its_own() {
    let door = crate::door();
    // The first reading is made when the device is opened, and the sampler makes the later ones.
    let hangs = "util_percent = { error = \"hangs\", error_after_calls = 3, start = 97 }";
    let script = fake_driver::H200.replace("util_percent = { start = 97 }", hangs);
    let library = fake_driver::install(&door.path(""), &script).expect("the folder is writable");
    // The job trains for three seconds, during which the sampler reads the device.
    let mut command = door.command("single synthetic-sleep --device cuda:0 --steps 300 --repeats 1 --out r");
    let output = command.env("TANDEM_NVML", &library).output().expect("profile starts");
    let said = Said::of(&output);
    assert_eq!(output.status.code(), Some(6), "{}", said.err);
    assert!(said.err.contains("a device's driver may hang"), "{}", said.err);
}

/// No process can be made to outlive SIGKILL here, so the test writes its end.
#[test]
fn a_run_with_a_launch_that_did_not_end_after_sigkill_has_that_code_too() {
    let door = crate::door();
    door.exits(0, &format!("single synthetic-sleep {SHORT} --out r"));
    let run = door.run("r");
    let launch = run.launches().expect("it reads")[0].clone();
    let end = run.launch_end(&launch).expect("it reads").expect("it has ended");
    fs::remove_file(run.launch_end_path(&launch)).expect("it is ours");
    run.write_launch_end(&launch, &LaunchEnd { err: Some(ErrorKind::Stuck), ..end }).expect("it is ours");
    door.exits(6, "single --resume r");
    let row = &door.measurements("r")[0];
    assert_eq!((row.status, row.err), (Status::Failed, Some(ErrorKind::Stuck)));
    let end = run.end().expect("end.toml reads").expect("it was written");
    assert_eq!(end.exit_code, 6);
}
