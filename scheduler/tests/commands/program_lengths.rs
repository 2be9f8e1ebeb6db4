//! Programs without steps, whose duration in a table is their length.

use std::collections::BTreeMap;

use formats::decision::{self, ClusterEvent, Settled};
use front_door::Door;
use record::{manifest::Manifest, rows::Summary, run_dir::RunDir};

use crate::{
    run,
    startups::{HEADER, SECOND, simulated, with_row, with_table},
};

/// A table in which `sh train.sh` alone takes this time, and has no steps.
fn with_duration(door: &Door, seconds: u64) {
    let wall_ns = Some(seconds * SECOND);
    with_row(door, |row| Summary {
        step_ns_median: None,
        step_ns_mean: None,
        startup_ns: None,
        wall_ns,
        ..row
    });
}

/// The ends of the jobs, in whole seconds. A simulation may round a time to the next nanosecond.
fn ends(door: &Door, arguments: &str) -> Vec<u64> {
    simulated(door, arguments).iter().map(|row| row.end_ns.expect("it has ended") / SECOND).collect()
}

#[test]
fn the_duration_of_a_program_is_its_length_in_simulations() {
    let door = crate::door();
    with_duration(&door, 90);
    door.write("t.csv", &format!("{HEADER}program,0,,sh train.sh,,\nworkload,0,lstm@b8@dp1,,20,\n"));
    // The duration contains the start of the program. The other job takes 5 s to start, and 2 s.
    for (policy, expected) in [("fifo", [90, 97]), ("sjf", [97, 7]), ("srtf", [97, 7])] {
        let arguments = format!("t.csv --policy {policy} --switch-cost 1s --start-cost 5s");
        assert_eq!(ends(&door, &arguments), expected, "{policy}");
    }
    // Turns end each 10 s: the program runs to 20, the first job to 30, and so on; the second arrives with 10 s of the program left,
    // which end before the next turn.
    door.write(
        "t.csv",
        &format!(
            "{HEADER}program,0,,sh train.sh,,\nfirst,10,lstm@b8@dp1,,200,\nsecond,100,lstm@b8@dp1,,200,\n"
        ),
    );
    let arguments = "t.csv --policy gandiva:pack=off:quantum=10s --suspend step-gate --switch-cost 0s";
    assert_eq!(ends(&door, arguments), [110, 50, 130]);
}

#[test]
fn a_program_keeps_its_progress_while_it_is_frozen_and_its_first_steps_are_not_known() {
    let door = crate::door();
    with_duration(&door, 60);
    door.write("t.csv", &format!("{HEADER}a,0,,sh train.sh,,\nb,0,,sh train.sh,,\n"));
    let arguments = "t.csv --policy gandiva:pack=off:quantum=10s --suspend step-gate --switch-cost 0s";
    // They take turns of 10 s.
    assert_eq!(ends(&door, arguments), [110, 120]);
    let outcomes = simulated(&door, arguments);
    assert!(outcomes.iter().all(|row| row.first_100_ns.is_none() && row.steps == 60), "{outcomes:?}");
}

#[test]
fn a_program_that_was_measured_with_steps_needs_their_number() {
    let door = crate::door();
    with_table(&door);
    door.write("t.csv", &format!("{HEADER}program,0,,sh train.sh,,\n"));
    let said = door.exits(2, "sim t.csv --policy fifo --switch-cost 1s --cluster 1x1 --table t --out q");
    assert!(said.err.contains("job 'program': its length is not known; add columns"), "{}", said.err);
}

#[test]
fn the_progress_of_a_program_on_the_testbed_is_that_of_its_time() {
    let door = crate::door();
    with_duration(&door, 2);
    // The table is of another machine. It becomes one of the device of this run.
    door.write("one.csv", "name,submit_s,command\none,0,true\n");
    door.exits(0, "run one.csv --policy fifo --device cpu:0 --out one");
    let table = RunDir::open(&door.path("t")).expect("it is a run");
    let devices = door.run("one").manifest().expect("it reads").devices;
    let manifest = Manifest { devices, ..table.manifest().expect("it reads") };
    std::fs::remove_file(table.manifest_path()).expect("it is there");
    table.write_manifest(&manifest).expect("it is written");
    // A sleep goes on while the program is frozen, so that each turn saves at most one of them.
    door.write("train.sh", "for i in $(seq 40); do sleep 0.05; done");
    door.write("t.csv", "name,submit_s,command\na,0,sh train.sh\nb,0,sh train.sh\n");
    let options = "--device cpu:0 --table t --switch-cost 0s --suspend step-gate";
    door.exits(0, &format!("run t.csv --policy gandiva:pack=off:quantum=300ms {options} --out r"));
    let outcomes = run::outcomes(&door);
    assert!(outcomes.iter().all(|row| row.steps == 2 && row.steps_lost == 0), "{outcomes:?}");
    let mut progress: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    let mut pauses = 0;
    for turn in decision::read(&run::run(&door).decisions_path()).expect("it reads") {
        for event in &turn.events {
            let (job, steps) = match event {
                ClusterEvent::Settled { job, now, steps } => {
                    pauses += u32::from(*now == Settled::Paused);
                    (job, steps)
                }
                ClusterEvent::Progress { job, steps, .. } | ClusterEvent::Finished { job, steps } => {
                    (job, steps)
                }
                _ => continue,
            };
            progress.entry(job.0).or_default().push(*steps);
        }
    }
    assert!(pauses > 2, "they take turns");
    for steps in progress.values() {
        assert!(steps.is_sorted(), "{steps:?}");
        assert_eq!((steps.contains(&1), steps.last()), (true, Some(&2)), "{steps:?}");
    }
    door.exits(0, "replay r");
}
