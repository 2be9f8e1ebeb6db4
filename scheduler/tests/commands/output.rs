//! Readers that end before all is printed, and outputs that cannot be written to.

use std::{fs::File, process::Stdio};

use front_door::Said;
use schema::rows::Status;

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

#[test]
fn a_full_disk_is_told() {
    let door = crate::door();
    let full = File::options().write(true).open("/dev/full").expect("Linux has it");
    let output = door.command(MAKE).stdout(full).output().expect("sched starts");
    let said = Said::of(&output);
    assert_eq!(output.status.code(), Some(5), "{}", said.err);
    assert_eq!(said.err, "error: standard output: No space left on device (os error 28)\n");
}
