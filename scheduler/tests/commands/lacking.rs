//! Runs that lack something when they are resumed, or later.

use std::{fs, process::Command};

use formats::decision::{self, ClusterEvent, Turn};
use front_door::Said;
use record::rows::Status;

use crate::run::{ON_TWO, door_to_two, outcomes};

const TRACE: &str = "name,submit_s,job,steps,step_ns\na,0,short,20,5000000\nb,0,short,20,5000000\n";

/// All later inputs of a run are read before a job starts, and completed work is not repeated.
#[test]
fn what_a_run_lacks_is_said_before_anything_is_trained() {
    let Some(door) = door_to_two(TRACE) else { return };
    door.exits(0, &format!("run trace.csv --policy fifo --switch-cost 1s {ON_TWO}"));
    let done = outcomes(&door);
    assert!(done.iter().all(|row| row.status == Status::Ok));
    for (file, text, message) in [
        ("decisions.jsonl", None, "decisions.jsonl: it is missing, and jobs of this run were started"),
        ("predictions.csv", Some("job,name\n"), "predictions.csv: line "),
        ("predictions.csv", Some(""), "predictions.csv: line 1: the file is empty"),
        (
            "parts.csv",
            Some("turns,at_ns,mono_ns,began_utc,boot_id\n99,0,1,x,\n"),
            "but parts.csv says that there were 99",
        ),
        (
            "inputs/trace.csv",
            Some("name,submit_s,job,steps\n"),
            "trace.csv: it has 0 jobs, and the run was begun with 2",
        ),
        ("inputs/machine.toml", Some("format = 1\n"), "machine.toml: "),
    ] {
        let path = door.path("r").join(file);
        let before = fs::read(&path).ok();
        match text {
            Some("job,name\n") => fs::write(&path, "job,name\n0,a\n").expect("it is ours"),
            Some(text) => fs::write(&path, text).expect("it is ours"),
            None => fs::remove_file(&path).expect("it is there"),
        }
        let launches = fs::read_dir(door.path("r/jobs")).expect("it is there").count();
        let said = door.exits(2, "run --resume r");
        assert!(said.err.contains(message), "{file}: {}", said.err);
        assert_eq!(fs::read_dir(door.path("r/jobs")).expect("it is there").count(), launches, "{file}");
        match before {
            Some(before) => fs::write(&path, before).expect("it is ours"),
            None => fs::remove_file(&path).expect("it is ours"),
        }
    }
    door.exits(0, "run --resume r");
    assert_eq!(outcomes(&door), done, "what is done stays as it was");
}

#[test]
fn a_run_of_another_boot_goes_on_after_a_question() {
    let Some(door) = door_to_two(TRACE) else { return };
    door.exits(0, &format!("run trace.csv --policy fifo {ON_TWO}"));
    let path = door.path("r/parts.csv");
    let parts = fs::read_to_string(&path).expect("it reads");
    let (before, boot) = parts.trim_end().rsplit_once(',').expect("the boot is in the last column");
    fs::write(&path, format!("{before},{}\n", boot.replace(|digit: char| digit.is_ascii_digit(), "a")))
        .expect("it is ours");
    let of_another_boot = fs::read_to_string(&path).expect("it reads");
    let doubt = "r was begun before this machine was restarted, or on another machine";
    let said = door.exits(2, "run --resume r");
    assert!(said.err.contains(&format!("{doubt}; check that it can go on here, and repeat")), "{}", said.err);
    assert!(said.err.contains("--yes"), "{}", said.err);
    assert_eq!(fs::read_to_string(&path).expect("it reads"), of_another_boot, "nothing was written");
    let said = door.exits(0, "run --resume r --yes");
    assert!(said.err.contains(&format!("warning: {doubt}")), "{}", said.err);
    // The last part is of this boot.
    door.exits(0, "run --resume r");
}

#[test]
fn data_that_is_gone_is_missed_at_once() {
    let Some(door) = door_to_two(TRACE) else { return };
    fs::create_dir(door.path("data")).expect("the folder is writable");
    // Synthetic workers read no data, so that the jobs fail and the run exists.
    let _ = door.command(&format!("run trace.csv --policy fifo --data data {ON_TWO}")).output();
    fs::remove_dir(door.path("data")).expect("it is ours");
    let said = door.exits(2, "run --resume r");
    assert!(said.err.contains("--data data: there is no such folder to read"), "{}", said.err);
}

/// A disk without space for another file is no failure of the jobs.
#[test]
fn a_full_disk_ends_the_run_and_costs_no_job_a_retry() {
    let may_mount = Command::new("unshare").args(["-rm", "true"]).output();
    if !may_mount.is_ok_and(|output| output.status.success()) {
        return schema::skips::skipped("disk", "no file system can be mounted here");
    }
    let mut were_begun = 0;
    // Limits of files on the disk: before a run, within its first launches, and for all of it.
    for files in (18..42).step_by(3) {
        let Some(door) = door_to_two(TRACE) else { return };
        fs::create_dir(door.path("small")).expect("the folder is writable");
        let sched = door.command("");
        let run = ON_TWO.replace("--out r", "--out small/r");
        let script = format!(
            "mount -t tmpfs -o nr_inodes={files} none small && {} run trace.csv --policy fifo {run}; code=$?; cp -r small/r r; exit $code",
            sched.get_program().display()
        );
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", &script]).current_dir(door.path(""));
        let output = command.output().expect("there is unshare");
        let said = Said::of(&output);
        let turns = decision::read(&door.path("r/decisions.jsonl")).unwrap_or_default();
        let fails = |happened: &ClusterEvent| matches!(happened, ClusterEvent::Failed { .. });
        let failed = |turn: &Turn| turn.events.iter().any(fails);
        assert!(!turns.iter().any(failed), "{files}: {turns:?}\n{}", said.err);
        if output.status.success() {
            assert!(outcomes(&door).iter().all(|row| row.status == Status::Ok), "{files}");
        } else {
            assert_eq!(output.status.code(), Some(5), "{files}: {}", said.err);
            assert!(said.err.contains("No space left on device"), "{files}: {}", said.err);
            were_begun += u32::from(!turns.is_empty());
        }
    }
    assert!(were_begun > 0, "no disk was full while jobs were started");
}

/// Names may contain control characters of a terminal; files contain them unchanged.
#[test]
fn names_do_not_move_the_cursor() {
    let door = crate::door();
    let name = "\u{1b}[2Jgone\u{7}";
    door.write("t.csv", &format!("name,submit_s,job,steps,step_ns\n{name},0,any,5,7\n{name},1,any,5,7\n"));
    let said = door.exits(2, "sim t.csv --policy fifo --cluster 1x1 --switch-cost 0s");
    assert!(said.err.contains("'\\u001b[2Jgone\\u0007' stands in line 2 already"), "{}", said.err);
    door.write("t.csv", &format!("name,submit_s,job,steps,step_ns\n{name},0,any,5,7\n"));
    door.exits(0, "sim t.csv --policy fifo --cluster 1x1 --switch-cost 0s --out r");
    assert_eq!(outcomes(&door)[0].name, name);
    let said = door.exits(0, "sim t.csv --policy fifo --cluster 1x1 --switch-cost 0s --json");
    assert!(!said.out.contains(['\u{1b}', '\u{7}']), "{}", said.out);
}
