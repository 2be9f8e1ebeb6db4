//! Each fault of a worker is a row with the right `err`, and the harness continues.

use front_door::has_cores;
use record::rows::{ErrorKind, Status};

/// Runs a faulty job and a good one, and returns the kind and the detail of the fault's row.
fn row_of(fault: &str) -> (ErrorKind, String) {
    row_of_job(fault, "faulty", "--device cpu:0")
}

fn row_of_job(fault: &str, job: &str, options: &str) -> (ErrorKind, String) {
    let door = crate::door();
    door.catalog("faulty.toml", "faulty", &format!("step_us = 2000, busy_percent = 10, fault = {fault}"));
    let grid = format!("single {job} synthetic-sleep --catalog faulty.toml {options}");
    door.exits(1, &format!("{grid} --steps 30 --repeats 1 --out r"));
    let rows = door.measurements("r");
    let good = rows.iter().find(|row| row.workload == "synthetic-sleep").expect("it was measured too");
    assert_eq!(good.status, Status::Ok, "the harness goes on: {good:?}");
    let faulty = rows.iter().find(|row| row.workload == "faulty").expect("a failure is a row");
    assert_eq!((faulty.status, faulty.step_ns_median), (Status::Failed, None));
    door.wait_until_nothing_is_left();
    (faulty.err.expect("it says why"), faulty.err_detail.clone().expect("in words"))
}

#[test]
fn a_crash_before_hello() {
    let (kind, detail) = row_of("\"crash-before-hello\"");
    assert_eq!(kind, ErrorKind::NoHello, "{detail}");
}

#[test]
fn a_wrong_protocol() {
    let (kind, detail) = row_of("\"wrong-protocol\"");
    assert_eq!(kind, ErrorKind::Protocol, "{detail}");
}

#[test]
fn a_hang() {
    // The kernel may also stop the good job for a while.
    let options = "--device cpu:0 --heartbeat 10s";
    let (kind, detail) = row_of_job("{ hang = { after_steps = 3 } }", "faulty", options);
    assert_eq!(kind, ErrorKind::Hung, "{detail}");
}

#[test]
fn out_of_memory() {
    let (kind, detail) = row_of("{ out-of-memory = { after_steps = 3 } }");
    assert_eq!(kind, ErrorKind::OutOfMemory, "{detail}");
}

#[test]
fn a_garbage_line() {
    let (kind, detail) = row_of("{ garbage-line = { after_steps = 3 } }");
    assert_eq!(kind, ErrorKind::Garbled, "{detail}");
    assert!(detail.contains(".jsonl: line "), "{detail}");
}

#[test]
fn a_gap_in_seq() {
    let (kind, detail) = row_of("{ lost-line = { after_steps = 3 } }");
    assert_eq!(kind, ErrorKind::Lost, "{detail}");
}

#[test]
fn an_exit_without_finished() {
    let (kind, detail) = row_of("{ exit-without-finished = { after_steps = 3 } }");
    assert_eq!(kind, ErrorKind::NoFinish, "{detail}");
}

#[test]
fn a_rank_that_dies() {
    if !has_cores(2) {
        return;
    }
    let fault = "{ rank-dies = { rank = 1, after_steps = 3 } }";
    let (kind, detail) = row_of_job(fault, "faulty@b8@dp2", "--device cpu:0,cpu:1");
    assert_eq!(kind, ErrorKind::Killed, "{detail}");
    assert!(detail.contains("rank 1"), "{detail}");
}

#[test]
fn a_child_that_is_left_behind_is_ended_and_is_no_fault() {
    let door = crate::door();
    let fault = "fault = { leave-child = { after_steps = 1 } }";
    door.catalog("faulty.toml", "faulty", &format!("step_us = 2000, busy_percent = 10, {fault}"));
    door.exits(0, "single faulty --catalog faulty.toml --device cpu:0 --steps 30 --repeats 1 --out r");
    assert_eq!(door.measurements("r")[0].status, Status::Ok);
    assert_eq!(door.leftovers(), Vec::<String>::new());
}
