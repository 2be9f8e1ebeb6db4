//! `profile` with stressors, by their names on the command line.

use std::{fs, path::Path};

use front_door::Said;
use record::rows::{self, ErrorKind, Status, VerifyRow};
use schema::units::Nanos;

/// The error of `stress-io` if it would write to memory.
const NO_DISK: &str = "name a place on a disk with --out";

#[test]
fn the_catalog_lists_them() {
    let said = crate::door().exits(0, "list set:stress").out;
    for name in ["stress-compute", "stress-cache", "stress-memory", "stress-io"] {
        assert!(said.contains(name), "{said}");
    }
    assert_eq!(said.matches("the batch is the dial in percent").count(), 4, "{said}");
}

#[test]
fn one_is_measured_as_any_job_and_its_samples_are_the_dial() {
    let door = crate::door();
    door.exits(0, "single stress-cache@b50 --device cpu:0 --steps 30 --repeats 1 --out r");
    let [row] = &door.measurements("r")[..] else { panic!("one launch, one row") };
    assert_eq!((row.status, row.global_batch), (Status::Ok, Some(50)), "{row:?}");
    let step_s = Nanos(row.step_ns_mean.expect("it stepped")).as_secs_f64();
    assert!((row.samples_per_s.expect("it stepped") * step_s - 50.0).abs() < 0.5, "{row:?}");
    // Half of each period is slept on any machine.
    assert!(row.step_ns_median >= Some(5_000_000), "{row:?}");
    let end = door.run("r").launch_end(&row.launch).expect("it reads back").expect("it has ended");
    assert!(end.ranks[0].cpu_ns > Some(0), "{end:?}");
    let estimate = door.run("r").manifest().expect("it reads back").cells[0].memory_estimate_bytes;
    assert!(row.peak_memory_bytes >= estimate && estimate > Some(0), "{estimate:?}: {row:?}");
}

#[test]
fn each_is_verified() {
    let door = crate::door();
    let output =
        door.command("verify set:stress --device cpu:0 --json --out v").output().expect("profile starts");
    let rows: Vec<VerifyRow> =
        rows::from_json(&Said::of(&output).out).expect("stdout is JSON and nothing else");
    assert_eq!(rows.len(), 4);
    for row in rows {
        // The folder of this test may be in memory.
        let no_disk =
            row.workload == "stress-io" && row.reason.as_ref().is_some_and(|why| why.contains(NO_DISK));
        assert!(row.verified || no_disk, "{row:?}");
        assert!(row.steps == 5 || no_disk, "{row:?}");
    }
}

#[test]
fn the_one_that_writes_leaves_no_file_or_says_that_there_is_no_disk() {
    let door = crate::door();
    let output = door
        .command("single stress-io@b40 --device cpu:0 --steps 5 --repeats 1 --out r")
        .output()
        .expect("profile starts");
    let [row] = &door.measurements("r")[..] else { panic!("one launch, one row") };
    if output.status.success() {
        assert_eq!((row.status, row.global_batch), (Status::Ok, Some(40)));
    } else {
        // The folder of this test is in memory.
        assert_eq!((row.status, row.err), (Status::Failed, Some(ErrorKind::Unsupported)), "{row:?}");
        let detail = row.err_detail.as_deref().expect("it says why");
        assert!(detail.contains(NO_DISK), "{detail}");
    }
    let in_jobs = files(&door.path("r").join("jobs"));
    assert_eq!(in_jobs, ["0001-stress-io.end.json", "0001-stress-io.json"]);
}

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("it is there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("it reads").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
