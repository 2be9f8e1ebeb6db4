//! What `report` does with a folder that is there already.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path};

use formats::rows::DurationShape;
use front_door::{Background, Door, wait_until};
use record::rows::{self};
use rustix::process::Signal;

/// A table of durations with a figure for each of its features, and an older report of it.
fn door() -> Door {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let shape = |number: u32| DurationShape {
        feature: format!("feature-{number}"),
        level: "a".into(),
        other_feature: None,
        other_level: None,
        jobs: 12,
        factor: 0.5,
    };
    rows::write(&door.path("shapes.csv"), &(0..9).map(shape).collect::<Vec<_>>()).expect("it is writable");
    door.exits(0, "shapes.csv");
    door
}

fn unfinished(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).expect("it reads").flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(".tandem-report-")).count()
}

#[test]
fn a_killed_report_leaves_the_older_one_and_the_next_one_removes_what_it_left() {
    let door = door();
    let page = door.path("report/index.html");
    let text = fs::read_to_string(&page).expect("a page");
    let number = || fs::metadata(door.path("report")).expect("the older report").ino();
    let older = number();
    let mut report = Background::start(door.command("shapes.csv"));
    wait_until("it writes or has written", || unfinished(&door.path("")) > 0 || number() != older);
    report.send(Signal::KILL);
    report.wait();
    assert_eq!(fs::read_to_string(&page).expect("the older page"), text);
    // The killed report may have been at its end.
    fs::create_dir_all(door.path(".tandem-report-killed/report/figures")).expect("it is new");
    door.write(".tandem-report-killed/report/figures/a.csv", "a\n");
    door.exits(0, "shapes.csv");
    assert_eq!(unfinished(&door.path("")), 0);
    assert_eq!(fs::read_to_string(&page).expect("a page"), text);
}

#[test]
fn a_folder_with_a_file_of_the_user_is_refused_and_a_link_stays() {
    let door = door();
    for (file, folder) in [("report/notes.txt", "report"), ("report/figures/best.pt", "report")] {
        door.write(file, "mine");
        let said = door.exits(2, "shapes.csv");
        let name = file.strip_prefix("report/").expect("it is in the folder");
        assert!(
            said.err.contains(&format!("{folder} holds {name}, which is not of a report")),
            "{}",
            said.err
        );
        assert_eq!(fs::read_to_string(door.path(file)).expect("it stays"), "mine");
        fs::remove_file(door.path(file)).expect("it is there");
    }
    std::os::unix::fs::symlink("report", door.path("page")).expect("the name is free");
    door.write("report/figures/older.csv", "a\n");
    door.exits(0, "shapes.csv --out page");
    assert!(door.path("page").is_symlink() && door.path("report/index.html").is_file());
    assert!(!door.path("report/figures/older.csv").exists(), "the report at the end of the link is replaced");
}
