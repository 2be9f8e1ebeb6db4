//! What a job does between its last step and the end of its processes: a program may save its work, and the job keeps its devices.

use std::{fs, path::Path, process::Command};

use front_door::{Door, Said};
use record::rows::{Status, Summary};

use crate::{
    run::outcomes,
    startups::{HEADER, SECOND, simulated, with_row},
};

const MILLISECOND: u64 = SECOND / 1000;

/// Takes a number of steps with the fake PyTorch, one line for each in a file, and saves its work.
const TRAIN: &str = "import sys, time, torch
optimizer = torch.optim.SGD([torch.Parameter(8)])
name, steps = sys.argv[1], int(sys.argv[2])
with open('steps-' + name, 'w') as file:
    for step in range(steps):
        time.sleep(0.005)
        optimizer.step()
        print(step, file=file, flush=True)
time.sleep(0.4)
open('saved-' + name, 'w').close()
";

/// Runs two programs of 40 steps. The first has no more steps, and the second has many.
fn run(door: &Door, options: &str) -> Said {
    door.write("train.py", TRAIN);
    door.write(
        "t.csv",
        "name,submit_s,command,steps\nends,0,python3 train.py ends 40,40\ngoes-on,0,python3 train.py goes-on 4000,40\n",
    );
    let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/python/tests/fake");
    let mut command = door.command(&format!("run t.csv --device cpu:0 --out r {options}"));
    let output = command.env("PYTHONPATH", fake).output().expect("sched starts");
    let said = Said::of(&output);
    assert!(output.status.success(), "{}", said.err);
    said
}

#[test]
fn a_program_of_as_many_steps_saves_and_one_of_more_takes_one_step_more() {
    if !Command::new("python3").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return schema::skips::skipped("python3", "there is no python3");
    }
    for options in ["--policy fifo", "--policy gandiva:pack=off:quantum=200ms --suspend step-gate"] {
        let door = crate::door();
        run(&door, options);
        let rows = outcomes(&door);
        assert!(rows.iter().all(|row| (row.status, row.steps) == (Status::Ok, 40)), "{options}: {rows:?}");
        assert!(door.path("saved-ends").exists(), "{options}");
        assert!(!door.path("saved-goes-on").exists(), "{options}");
        let steps = fs::read_to_string(door.path("steps-goes-on")).expect("it took steps");
        // It is ended in the step after the granted one at the latest.
        assert!((40..=41).contains(&steps.lines().count()), "{options}: {}", steps.lines().count());
        let took = rows[0].end_ns.zip(rows[0].start_ns).map(|(end, start)| end - start);
        assert!(took >= Some(2 * SECOND / 5), "it ends when it has saved: {rows:?}");
        door.exits(0, "replay r");
    }
}

#[test]
fn jobs_of_a_simulation_keep_their_devices_until_they_have_exited() {
    let door = crate::door();
    let of_program = |row: Summary| Summary {
        step_ns_median: Some(SECOND / 10),
        startup_ns: Some(3 * SECOND),
        exit_ns: Some(2 * SECOND),
        ..row
    };
    with_row(&door, of_program);
    // The workload has neither a start nor an exit in the table, and the third job is not in it.
    door.write(
        "t.csv",
        &format!(
            "{HEADER}program,0,,sh train.sh,30,\nworkload,0,lstm@b8@dp1,,20,\nother,0,,sh other.sh,7,{SECOND}\n"
        ),
    );
    let rows = simulated(&door, "t.csv --policy fifo --switch-cost 2s");
    let ends: Vec<_> =
        rows.iter().map(|row| row.end_ns.map(|ns| (ns + 500) / 1000 * 1000 / MILLISECOND)).collect();
    // Two of the 30 steps of the program are part of its start, and two of the 7 steps of the other program.
    assert_eq!(ends, [7_800, 9_800, 9_800 + 7_000].map(Some));
    assert_eq!(
        rows[0].running_ns.map(|ns| (ns + 500) / 1000 * 1000 / MILLISECOND),
        Some(4_800),
        "{:?}",
        rows[0]
    );
    assert_eq!(rows[0].first_100_ns, None);
}
