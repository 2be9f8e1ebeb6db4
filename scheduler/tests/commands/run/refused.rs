//! Runs that are refused before anything starts.

use super::{ON_TWO, door_to_two};
use crate::sim::measured;

#[test]
fn what_is_wrong_is_said_before_anything_starts() {
    let header = "name,submit_s,job,command,steps,devices";
    for (row, options, message) in [
        (
            "a,0,shrot,,5,",
            "--policy fifo",
            "line 2: column 'job': there is no workload 'shrot'; did you mean 'short'",
        ),
        ("a,-1,short,,5,", "--policy fifo", "line 2: column 'submit_s'"),
        ("a,0,short@dp4,,5,", "--policy fifo", "line 2: column 'job': asks for 4 devices"),
        ("a,0,short,,5,\na,1,short,,5,", "--policy fifo", "line 3: column 'name'"),
        ("a,0,short,,5,\nb,1,sho", "--policy fifo", "line 3"),
        (
            "a,0,,echo {launch}/x,,",
            "--policy fifo",
            "job 'a': only `profile` fills in {launch}, {repeat} and {run}",
        ),
        ("a,0,short,,5,", "--policy lifo", "there is no policy 'lifo'"),
        (
            "a,0,short,,5,",
            "--policy fifo --sharing sequential",
            "jobs of a trace come and go; write alone, under which a device has one job at a time, or step-gate",
        ),
        (
            "a,0,short,,5,",
            "--policy fifo --sharing cpu-shares:2/1",
            "'cpu-shares' has weights for the positions in a fixed group, and the jobs of a trace come and go; write time-slice",
        ),
        (
            "a,0,short,,5,",
            "--policy fifo --sharing step-gate:250ms:2/1",
            "the weights of 'step-gate' are for the positions in a fixed group, and the jobs of a trace come and go; leave the weights",
        ),
        (
            "a,0,short,,5,",
            "--policy fifo --sharing mps",
            "'mps' is measured by `profile colocate`, and sched cannot start its daemon for jobs that come and go; write time-slice",
        ),
        (
            "a,0,short,,5,",
            "--policy fifo --sharing slices",
            "'slices' is no sharing mode of sched; write alone, time-slice[:SLICE] or step-gate[:QUANTUM]",
        ),
        (
            "a,0,short,,5,",
            "--policy fifo --sharing alone --jobs-per-device 2",
            "under --sharing alone, a device has one job; leave out --jobs-per-device",
        ),
        (
            "a,0,short,,5,\nb,1,short,,5,\nc,1,short@b4,,5,",
            "--policy fifo --switch-cost 1s",
            "the time of a step of short@b8@dp1 is not known; run `profile single short@b8@dp1 short@b4@dp1 \
             --device cpu:0,cpu:1 --catalog catalog.toml --out runs/alone` first, and add --table runs/alone",
        ),
    ] {
        let Some(door) = door_to_two(&format!("{header}\n{row}\n")) else { return };
        if row.ends_with("sho") {
            door.write("trace.csv", &format!("{header}\n{row}"));
        }
        let said = door.exits(2, &format!("run trace.csv {options} {ON_TWO}"));
        assert!(said.err.contains(message), "{row}: {}", said.err);
        assert!(!door.path("r").exists(), "{row}: nothing was begun");
    }
}

#[test]
fn what_nothing_can_hold_takes_no_turns() {
    let trace = "name,submit_s,job,command,steps,steps_regex\na,0,short,,5,\nb,0,,sh -c true,,^step\n";
    let Some(door) = door_to_two(trace) else { return };
    let said = door.exits(2, &format!("run trace.csv --policy fifo --sharing step-gate:8 {ON_TWO}"));
    let why = "b shows its steps in its output, and nothing can hold it between two of them, as step-gate:8 does; leave out column \
        'steps_regex' if it trains with PyTorch, or share by time-slice";
    assert!(said.err.contains(why), "{}", said.err);
    assert!(!door.path("r").exists(), "nothing was begun");
}

#[test]
fn a_table_that_lacks_a_job_is_told_with_the_command_that_measures_it() {
    let Some(door) = door_to_two("name,submit_s,job,steps\na,0,short,5\n") else { return };
    measured(&door, "alone");
    let said = door.exits(2, &format!("run trace.csv --policy fifo --switch-cost 1s --table alone {ON_TWO}"));
    let measure = "the time of a step of short under dp1 on 1 device alone is not known; run `profile single short@b8@dp1 --device cpu:0,cpu:1 \
        --catalog catalog.toml --out runs/more` first, and give --table runs/more as well";
    assert!(said.err.contains(measure), "{}", said.err);
    assert!(!door.path("r").exists(), "nothing was begun");
}
