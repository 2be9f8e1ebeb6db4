//! Readers that end before all is printed, and outputs that cannot be written to.

use std::{
    fs::File,
    process::{Command, Stdio},
};

use formats::rows::{Explained, JobChange, Replayed, WrittenTrace};
use front_door::Said;
use record::rows::{self, Status};
use schema::units::Nanos;

use crate::run::{ON_TWO, door_to_two, outcomes};

const MAKE: &str = "trace make any --jobs 3000 --length exponential:60s --step-time 250ms --every 40s";

#[test]
fn a_reader_that_is_gone_ends_nothing() {
    let sim = crate::door();
    sim.exits(0, &format!("{MAKE} --out t.csv"));
    let simulate = "sim t.csv --policy fifo,srtf --cluster 1x4 --switch-cost 5s";
    for arguments in [MAKE, simulate, &format!("{simulate} --json"), &format!("{MAKE} --out again.csv")] {
        let mut command = sim.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("sched starts");
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().expect("it is ours").code(), Some(0), "{arguments}");
    }
    let trace = "name,submit_s,job,steps\na,0,short,30\nb,0,short,30\nc,0,short,30\n";
    let Some(run) = door_to_two(trace) else { return };
    let mut command = run.command(&format!("run trace.csv --policy fifo {ON_TWO}"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("sched starts");
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().expect("it is ours").code(), Some(0));
    assert!(outcomes(&run).iter().all(|row| row.status == Status::Ok));
}

/// Two jobs of 30 and 10 s on one device, of which the second waits for the first.
#[test]
fn programs_are_told_what_people_are() {
    let door = crate::door();
    let trace = "name,submit_s,job,steps,step_ns\nlong,0,any,300,100000000\nshort,0,any,100,100000000\n";
    door.write("t.csv", trace);
    door.exits(0, "sim t.csv --policy fifo --cluster 1x1 --switch-cost 0s --out r --quiet");
    let replayed: Replayed = rows::from_json(&door.exits(0, "replay r --json").out).unwrap();
    assert_eq!((&*replayed.policy, replayed.first_difference), ("fifo", None));
    assert_eq!(replayed.turns.to_string(), door.exits(0, "replay r").out.split(' ').nth(1).unwrap());

    let explained: Explained = rows::from_json(&door.exits(0, "explain r short --json").out).unwrap();
    assert_eq!((explained.at_ns, &*explained.state), (Nanos(40_000_000_000), "ended at 40.0 s"));
    let JobChange { at_ns, what, .. } = explained.changes.last().expect("it has ended");
    assert_eq!((*at_ns, &**what), (Nanos(40_000_000_000), "finished after 100 steps"));
    let starts: Vec<_> =
        explained.changes.iter().filter(|change| change.what.starts_with("start on ")).collect();
    assert!(starts.len() == 1 && starts[0].at_ns == Nanos(30_000_000_000), "{starts:?}");

    let made = door.exits(0, &format!("{MAKE} --out t.csv --json"));
    let made: WrittenTrace = rows::from_json(&made.out).unwrap();
    assert_eq!(made, WrittenTrace { trace: "t.csv".into(), jobs: 3000, left_out: Vec::new() });
    assert!(door.exits(2, &format!("{MAKE} --json")).err.contains("--out <FILE>"));
}

#[test]
fn a_full_disk_is_told() {
    let door = crate::door();
    let full = File::options().write(true).open("/dev/full").expect("Linux has it");
    let output = door.command(MAKE).stdout(full).output().expect("sched starts");
    let said = Said::of(&output);
    assert_eq!(output.status.code(), Some(5), "{}", said.err);
    assert_eq!(said.err, "error: standard output: No space left on device (os error 28)\n");
}

#[test]
fn a_file_that_becomes_too_large_is_told_with_a_remedy() {
    let door = crate::door();
    for (arguments, file) in
        [(format!("{MAKE} --out t.csv"), "t.csv cannot be written"), (MAKE.into(), "standard output")]
    {
        let sched = door.command(&arguments);
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -f 1 && exec \"$@\" > out", "sh"]).arg(sched.get_program());
        let output = command.args(sched.get_args()).current_dir(door.path("")).output().expect("sh starts");
        let said = Said::of(&output);
        assert_eq!(output.status.code(), Some(5), "{}", said.err);
        let remedy = "File too large (os error 27); the size of files is limited; raise `ulimit -f`";
        assert_eq!(said.err, format!("error: {file}: {remedy}\n"));
    }
    assert!(!door.path("t.csv").exists() && !door.path("t.csv.new").exists());
}
