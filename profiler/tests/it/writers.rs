//! Writers of the directory of a run, and writes to a received directory.

use std::{fs, os::unix::fs::symlink, path::Path};

use front_door::{Background, wait_until};
use rustix::process::Signal;

/// Every file below a folder with its content.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("it reads").path()) {
        if entry.is_dir() {
            found.extend(contents(&entry));
        } else {
            found.push((entry.display().to_string(), fs::read(&entry).expect("it reads")));
        }
    }
    found.sort();
    found
}

#[test]
fn a_run_that_is_being_measured_is_derived_by_nobody_else_and_does_not_notice() {
    let door = crate::door();
    let refused = || {
        wait_until("a launch runs", || door.path("r/events").read_dir().is_ok_and(|dir| dir.count() > 0));
        let said = door.exits(2, "derive r");
        assert!(said.err.contains("another program is writing r; wait until it has ended"), "{}", said.err);
        assert!(!door.path("r/trace.json").exists(), "it wrote nothing");
    };
    let mut command = door.command("single --device cpu:0 --repeats 1 --out r --");
    command.args(["sh", "-c", "until [ -e go ]; do sleep 0.01; done"]);
    let mut live = Background::start(command);
    refused();
    door.write("go", "");
    let (code, err) = live.wait();
    assert_eq!(code, Some(0), "{err}");
    door.exits(0, "derive r");
    fs::remove_dir_all(door.path("r")).expect("it is ours");

    // Uninterrupted, the calibration takes hours.
    let calibrate = "calibrate synthetic-sleep --parts restart --repeats 1000 --device cpu:0 --run r";
    let mut live = Background::start(door.command(calibrate));
    refused();
    live.send(Signal::INT);
    let (code, err) = live.wait();
    assert_eq!(code, Some(130), "{err}");
    door.exits(0, "derive r");
}

#[test]
fn what_goes_on_with_a_run_waits_for_no_other_writer() {
    let door = crate::door();
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 25 --repeats 1 --out alone");
    door.exits(
        0,
        "colocate synthetic-sleep synthetic-sleep --device cpu:0 --steps 25 --repeats 1 --out pair",
    );
    for (command, name) in [
        ("single --resume alone", "alone"),
        ("colocate --resume pair", "pair"),
        ("derive alone", "alone"),
        ("derive pair", "pair"),
    ] {
        let before = contents(&door.path(name));
        let held = jobs::run::lock(&door.run(name)).expect("nothing has it");
        let said = door.exits(2, command);
        assert!(said.err.contains("another program is writing"), "{command}: {}", said.err);
        assert_eq!(contents(&door.path(name)), before, "{command}");
        drop(held);
        door.exits(0, command);
    }
}

#[test]
fn derive_writes_through_no_link_and_reads_nothing_outside_the_run() {
    let door = crate::door();
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 25 --repeats 1 --out r");
    fs::write(door.path("victim"), "mine").expect("it is ours");
    for name in ["measurements.csv", "summary.csv", "trace.json", "trace.json.new"] {
        let (path, aside) = (door.path("r").join(name), door.path("aside"));
        let is_there = fs::rename(&path, &aside).is_ok();
        symlink(door.path("victim"), &path).expect("the name is free");
        let said = door.exits(2, "derive r");
        assert!(said.err.contains(&format!("r/{name} is a symbolic link")), "{}", said.err);
        assert_eq!(fs::read_to_string(door.path("victim")).expect("it is there"), "mine");
        fs::remove_file(&path).expect("it is ours");
        is_there.then(|| fs::rename(&aside, &path).expect("the name is free"));
    }
    door.exits(0, "derive r");

    let spec = door.run("r").spec_path("0001-synthetic-sleep");
    let text = fs::read_to_string(&spec).expect("it is there");
    let outside = r#""launch": "../../0001-synthetic-sleep""#;
    fs::write(&spec, text.replace(r#""launch": "0001-synthetic-sleep""#, outside)).expect("it is ours");
    let said = door.exits(2, "derive r");
    assert!(
        said.err.contains("0001-synthetic-sleep.json: \"../../0001-synthetic-sleep\" is no name of"),
        "{}",
        said.err
    );
}
