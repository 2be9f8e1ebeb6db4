//! The start of jobs: its cost comes from tables or the user, and it ends with the first event of a program.

use std::path::Path;

use formats::{
    decision::{self, ClusterEvent, Settled},
    rows::{Fidelity, Outcome, Prediction},
};
use front_door::{Door, Said, has_cores};
use record::{
    manifest::Cell,
    rows::{self, Status, Summary},
    run_dir::RunDir,
};

use crate::{run, sim};

pub(crate) const SECOND: u64 = 1_000_000_000;

/// The columns of a trace with programs, workloads and times of steps.
pub(crate) const HEADER: &str = "name,submit_s,job,command,steps,step_ns\n";

/// Imports for 700 ms, and then shows a step each 20 ms.
const TRAIN: &str = "sleep 0.7; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo step $i; sleep 0.02; done";

/// A table in which `sh train.sh` takes 13 s to start, and 100 ms for a step.
pub(crate) fn with_table(door: &Door) {
    with_row(door, |row| Summary { step_ns_median: Some(SECOND / 10), startup_ns: Some(13 * SECOND), ..row });
}

/// A table with a row of `sh train.sh` alone. The user has named the program, and given it a batch.
pub(crate) fn with_row(door: &Door, measured: impl Fn(Summary) -> Summary) {
    sim::measured(door, "t");
    let run = RunDir::open(&door.path("t")).expect("it is a run");
    let mut manifest = run.manifest().expect("it reads");
    let command = Some(["sh", "train.sh"].map(str::to_owned).into());
    let of_lstm = manifest.cells[0].clone();
    manifest.cells.push(Cell {
        name: "mine".into(),
        job: "mine".into(),
        workload: "mine".into(),
        command,
        global_batch: Some(16),
        plan: None,
        ..of_lstm
    });
    std::fs::remove_file(run.manifest_path()).expect("it is there");
    run.write_manifest(&manifest).expect("it is written");
    let mut rows: Vec<Summary> = rows::read(&run.summary_path()).expect("it reads");
    let program = Summary {
        job: "mine".into(),
        workload: "mine".into(),
        plan: None,
        global_batch: Some(16),
        samples_per_s: None,
        ..rows[0].clone()
    };
    rows.push(measured(program));
    rows::write(&run.summary_path(), &rows).expect("it is written");
}

pub(crate) fn simulated(door: &Door, arguments: &str) -> Vec<Outcome> {
    let _ = std::fs::remove_dir_all(door.path("s"));
    door.exits(0, &format!("sim {arguments} --cluster 1x1 --table t --out s"));
    rows::read(&RunDir::open(&door.path("s")).expect("it is a run").outcomes_path()).expect("it reads")
}

#[test]
fn the_starts_of_jobs_come_from_tables_and_from_the_user() {
    let door = crate::door();
    with_table(&door);
    // The table has the start of the program, a row without a start of the workload, and no row of the third job.
    let rows =
        format!("program,0,,sh train.sh,30,\nworkload,0,lstm@b8@dp1,,20,\nunmeasured,0,nobody,,7,{SECOND}\n");
    door.write("t.csv", &format!("{HEADER}{rows}"));
    for (options, starts) in [
        ("--switch-cost 2s", [13, 0, 0]),
        ("--switch-cost 2s --start-cost 5s", [13, 5, 5]),
        ("--switch-cost 2s --start-cost 1m --resume-cost 0s", [13, 60, 60]),
    ] {
        let outcomes = simulated(&door, &format!("t.csv --policy fifo {options}"));
        let mut end_ns = 0;
        // Two of the 30 steps of the program are part of its start.
        for ((row, start), length_ns) in
            outcomes.iter().zip(starts).zip([28, 20, 70].map(|tenths| tenths * SECOND / 10))
        {
            end_ns += start * SECOND + length_ns;
            assert_eq!(row.end_ns.map(|ns| (ns + 500) / 1000 * 1000), Some(end_ns), "{options}: {row:?}");
            assert_eq!(
                (row.starting_ns, row.switching_ns),
                (Some(start * SECOND), row.starting_ns),
                "{row:?}"
            );
        }
    }
    // A program is stopped neither while it trains nor while it starts: it may train before its first event arrives.
    for arrival in [1, 14] {
        let rows = format!("program,0,,sh train.sh,3000,\nshort,{arrival},nobody,,1,{SECOND}\n");
        door.write("t.csv", &format!("{HEADER}{rows}"));
        let [program, short] = &simulated(&door, "t.csv --policy srtf --switch-cost 2s")[..] else {
            panic!("two rows")
        };
        assert!(program.stops == Some(0) && short.start_ns >= program.end_ns, "{program:?} {short:?}");
    }
    let said = door.exits(2, "sim t.csv --policy fifo --cluster 1x1 --table t --start-cost 5s");
    assert!(said.err.contains("--switch-cost"), "{}", said.err);
}

/// Checks the start times in run `r`, whose jobs take at least 700 ms to start.
fn check_starts(door: &Door, names: &[&str]) {
    let outcomes = run::outcomes(door);
    assert_eq!(outcomes.iter().map(|row| &*row.name).collect::<Vec<_>>(), names);
    for row in &outcomes {
        assert_eq!((row.status, row.starts), (Status::Ok, 1), "{row:?}");
        let (starting, switching) = (row.starting_ns.expect("it is known"), row.switching_ns.expect("too"));
        assert!(700_000_000 <= starting && starting <= switching, "{row:?}");
    }
    let turns = decision::read(&run::run(door).decisions_path()).expect("decisions.jsonl reads back");
    for row in &outcomes {
        let trains = |event: &ClusterEvent| matches!(event, ClusterEvent::Settled { job, now: Settled::Running, .. } if *job == row.job);
        let turn = turns.iter().find(|turn| turn.events.iter().any(trains)).expect("it trained");
        let started = row.start_ns.expect("it started");
        assert_eq!(Some(turn.at_ns.0 - started), row.starting_ns, "{row:?}");
    }
}

fn fidelity(door: &Door) -> (Said, Fidelity) {
    let json = door.exits(0, "fidelity r --json").out;
    (door.exits(0, "fidelity r --jobs"), rows::from_json(&json).expect("it is the comparison"))
}

#[test]
fn a_program_that_shows_its_steps_starts_until_the_first_one() {
    if !has_cores(2) {
        return;
    }
    let door = crate::door();
    door.write("train.sh", TRAIN);
    let programs = "name,submit_s,job,command,steps,steps_regex,step_ns\n\
         a,0,,sh train.sh,12,^step,20000000\nb,0,,sh train.sh,12,^step,20000000\n";
    // The length of a program without steps includes its start.
    door.write("trace.csv", &format!("{programs}whole,0,,sleep 0.2,,,\n"));
    let said = door.exits(0, "run trace.csv --policy fifo --device cpu:0,cpu:1 --out whole");
    let outcomes: Vec<Outcome> =
        rows::read(&door.path("whole/outcomes.csv")).expect("outcomes.csv reads back");
    assert!(outcomes[2].running_ns > Some(0), "{:?}", outcomes[2]);
    assert!(!said.err.contains("none of its steps was seen"), "{}", said.err);
    door.write("trace.csv", programs);
    let costs = "--switch-cost 1s --start-cost 13s";
    door.exits(0, &format!("run trace.csv --policy tiresias --device cpu:0,cpu:1 {costs} --out r"));
    check_starts(&door, &["a", "b"]);
    // The user is wrong about the start by more than 10 s.
    let (said, found) = fidelity(&door);
    let predictions: Vec<Prediction> =
        rows::read(&run::run(&door).predictions_path()).expect("predictions.csv reads back");
    assert_eq!(predictions.iter().map(|row| row.starting_ns).collect::<Vec<_>>(), [Some(13 * SECOND); 2]);
    for (job, row) in found.per_job.iter().zip(run::outcomes(&door)) {
        let error = 13 * SECOND as i64 - row.starting_ns.expect("it is known") as i64;
        assert_eq!(job.arose.start_up_ns, Some(error), "{job:?}");
        let parts: i64 = job.arose.parts().iter().filter_map(|(_, ns)| *ns).sum();
        assert_eq!(parts, job.jct.predicted_ns as i64 - job.jct.measured_ns as i64, "{job:?}");
    }
    assert!(said.out.contains("start-up"), "{}", said.out);
}

#[test]
fn a_program_with_the_hook_starts_until_it_is_ready_and_an_unseen_one_is_told_of() {
    let python = std::process::Command::new("python3").arg("-V").output();
    if !python.is_ok_and(|said| said.status.success()) {
        schema::skips::skipped("python3", "there is no python3");
        return;
    }
    let door = crate::door();
    door.write(
        "train.py",
        "import time; time.sleep(0.7)\nimport torch\n\
         optimizer = torch.optim.SGD([torch.Parameter(1000)])\n\
         while True:\n    time.sleep(0.002)\n    optimizer.step()\n",
    );
    door.write("trace.csv", "name,submit_s,job,command,steps\nhooked,0,,python3 train.py,200\n");
    let mut command = door.command("run trace.csv --policy tiresias --device cpu:0 --out r");
    let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/python/tests/fake");
    let output = command.env("PYTHONPATH", fake).output().expect("sched starts");
    let said = Said::of(&output);
    assert!(output.status.success(), "{}", said.err);
    check_starts(&door, &["hooked"]);
    assert!(run::outcomes(&door)[0].steps >= 200);

    // Its steps are in the trace, and nothing shows them.
    door.write("trace.csv", "name,submit_s,job,command,steps\nunseen,0,,sleep 0.3,20\n");
    let said = door.exits(0, "run trace.csv --policy tiresias --device cpu:0 --out unseen");
    let warning = "ended, and none of its steps was seen: all of its time counts as its start";
    assert!(said.err.contains(warning), "{}", said.err);
    let outcomes: Vec<Outcome> = rows::read(&door.path("unseen/outcomes.csv")).expect("it reads");
    assert_eq!((outcomes[0].status, outcomes[0].running_ns), (Status::Ok, Some(0)));
}
