//! `sched run --fast-forward` with synthetic workers.

use std::time::Instant;

use formats::{
    decision::{self, ClusterEvent, JobId},
    rows::{MachineSpeed, Outcome, Skip, skipped_ns},
    saved::Saved,
};
use front_door::Door;
use record::{
    rows::{self, Status},
    run_dir::RunDir,
};
use rustix::process::Signal;
use schema::{events::EventReader, wire::Event};

use crate::{
    believe::model,
    held::{Held, starts},
    run::{door, door_to_two, outcomes, run},
};

/// A window may have any error, because the error depends on the load of the machine.
const FORWARD: &str = "--device cpu:0,cpu:1 --catalog catalog.toml --progress-every 2s --out r --fast-forward \
    --fast-forward-window 300ms --fast-forward-error 1000";

/// Two jobs of 20 s and 30 s, and one of 10 s on both devices, which starts when both have ended.
const TRACE: &str = "\
name,submit_s,job,steps,step_ns
a,0,short,4000,5000000
b,0,short,6000,5000000
c,5,short@dp2,2000,5000000
";

fn skips(run: &RunDir) -> Vec<Skip> {
    rows::read_appended(&run.skips_path()).expect("skips.csv reads back")
}

/// The steps that the processes of a run have executed.
fn executed(run: &RunDir) -> u64 {
    let of_launch = |launch: &String| {
        let mut lines = Vec::new();
        EventReader::open(&run.events_path(launch, 0), 0).unwrap().poll(&mut lines).unwrap();
        lines.iter().filter(|line| matches!(line.event, Event::Step(_))).count() as u64
    };
    run.launches().unwrap().iter().map(of_launch).sum()
}

fn skipped(rows: &[Outcome]) -> u64 {
    rows.iter().map(|row| row.steps_skipped).sum()
}

/// A job takes at least 5 ms for each step. Its run takes at most the lifetime of its schedulers and the time that was skipped.
fn takes_its_time(row: &Outcome, from_s: f64, steps: u64, began: Instant, skips: &[Skip]) {
    let jct_s = row.jct_ns.expect("it is done") as f64 / 1e9;
    let least_s = from_s + 0.005 * steps as f64;
    // Jumps are of whole steps.
    assert!(jct_s > 0.97 * least_s, "{least_s} s: {row:?}");
    let end_s = row.end_ns.expect("it is done") as f64 / 1e9;
    let most_s = began.elapsed().as_secs_f64() + skipped_ns(skips) as f64 / 1e9;
    assert!(end_s < most_s, "{most_s} s: {row:?}");
}

#[test]
fn each_step_is_executed_or_skipped_and_counts_its_time() {
    let Some(door) = door_to_two(TRACE) else { return };
    let began = Instant::now();
    // The speed of the machine follows from the steps and the time between two reports. The scheduler may see each of them some tens of
    // milliseconds late, which is much of a window of 300 ms and little of this one.
    let forward = FORWARD.replace("300ms", "2s");
    let said = door.exits(0, &format!("run trace.csv --policy fifo --switch-cost 30ms {forward}"));
    let (rows, run) = (outcomes(&door), run(&door));
    let skips = skips(&run);
    // The third job waits for the second, which ends after 30 s, and arrives after 5 s.
    for (row, (asked, from_s)) in rows.iter().zip([(4000, 0.0), (6000, 0.0), (2000, 25.0)]) {
        assert_eq!((row.status, row.steps, row.steps_lost), (Status::Ok, asked, 0), "{row:?}");
        takes_its_time(row, from_s, asked, began, &skips);
        assert!(row.steps_skipped > 0 && row.skipped_ns < row.running_ns.expect("it ran"), "{row:?}");
    }
    assert_eq!(executed(&run) + skipped(&rows), 12_000, "each step was either executed or skipped");
    for row in &rows {
        let of_job = || skips.iter().filter(|skip| skip.job == Some(row.job));
        let expected_ns: f64 = of_job().filter_map(|skip| Some(skip.steps? as f64 * skip.step_ns?)).sum();
        // Less than a step is left at each jump.
        let left_ns: f64 = of_job().filter_map(|skip| skip.step_ns).sum();
        assert!((expected_ns - row.skipped_ns as f64).abs() < left_ns, "{expected_ns} {left_ns} {row:?}");
    }
    let told = format!("fast-forwarded: {} of 12000 steps and ", skipped(&rows));
    assert!(said.err.contains(&told) && said.err.contains("measured steps"), "{}", said.err);
    assert!(said.out.contains(&format!("{} steps skipped", rows[0].steps_skipped)), "{}", said.out);
    assert_eq!(skips.iter().filter_map(|row| row.name.as_deref()).min(), Some("a"));

    let manifest = run.manifest().expect("it reads");
    let setting = manifest.scheduling.expect("it is a run of sched").fast_forward.expect("it is recorded");
    assert_eq!((setting.window_s, setting.window_steps, setting.error_percent), (2.0, 30, 1000.0));
    let speed: Vec<MachineSpeed> = rows::read(&run.speed_path()).expect("speed.csv reads back");
    assert!(!speed.is_empty() && speed.iter().all(|row| row.step_ratio > 0.95), "{speed:?}");

    let replayed = door.exits(0, "replay r");
    assert!(replayed.out.contains("every decision as it was recorded"), "{}", replayed.out);
    door.exits(0, "fidelity r --hindsight");
    door.exits(0, "fidelity r r");
    let said = door.exits(2, "trace curves r");
    assert!(said.err.contains("r: its jobs skipped steps, which train no model"), "{}", said.err);
    let before = std::fs::read_to_string(run.outcomes_path()).expect("it reads");
    door.exits(0, "run --resume r");
    assert_eq!(
        std::fs::read_to_string(run.outcomes_path()).expect("it reads"),
        before,
        "nothing was left to do"
    );
}

#[test]
fn a_run_that_was_interrupted_goes_on_with_what_it_has_skipped() {
    let trace = "name,submit_s,job,steps\na,0,short,8000\nb,0,short,9000\n";
    let Some(door) = door_to_two(trace) else { return };
    let began = Instant::now();
    let (ended_with, said) = held(&door, "", HAS_SKIPPED).interrupt(Signal::INT);
    assert_eq!(ended_with, Some(130), "{said}");
    door.wait_until_nothing_is_left();
    let before = skips(&run(&door));
    let at_ns = before.last().expect("some were skipped").until_ns;

    let json = door.exits(0, "run --resume r --yes --json").out;
    let told: Vec<Outcome> = rows::from_json(&json).expect("it prints rows");
    let (rows, run) = (outcomes(&door), run(&door));
    assert_eq!(told, rows);
    assert_eq!(executed(&run) + skipped(&rows), 17_000);
    for (row, asked) in rows.iter().zip([8000, 9000]) {
        assert_eq!((row.status, row.steps, row.steps_lost, row.starts), (Status::Ok, asked, 0, 2), "{row:?}");
        takes_its_time(row, 0.0, asked, began, &skips(&run));
    }
    let skips = skips(&run);
    assert_eq!(skips[..before.len()], before[..]);
    assert!(skips[before.len()].from_ns >= at_ns, "the time of the run goes on");
    assert!(skips.iter().zip(&skips[1..]).all(|(a, b)| a.jump <= b.jump), "jumps are counted on");
}

/// A checkpoint is written every 3 s of the time of the run, which take less than a second.
#[test]
fn a_killed_scheduler_goes_on_from_a_checkpoint_with_skipped_steps() {
    let Some(door) = door_to_two(ONE) else { return };
    let began = Instant::now();
    // A report comes every 2 s, so that a checkpoint is written after three jumps at the latest.
    held(&door, "--checkpoint-every 3s", "test $(wc -l < r/skips.csv) -gt 5").kill();
    let saved = Saved::read(&run(&door), JobId(0)).expect("it reads").expect("it was saved");
    let skipped_before = skips(&run(&door)).into_iter().filter(|row| row.steps_before < Some(saved.steps));
    let skipped_before: u64 = skipped_before.filter_map(|row| row.steps).sum();
    assert!(skipped_before > 0, "{saved:?}");
    assert_eq!(saved.steps, saved.launch_steps + skipped_before, "it holds skipped steps");
    let executed_before = executed(&run(&door));
    door.exits(0, "run --resume r --yes");
    let [row] = &outcomes(&door)[..] else { panic!("one row") };
    assert_eq!((row.status, row.steps, row.starts), (Status::Ok, 6000, 2));
    let executed_again = executed(&run(&door)) - executed_before;
    // Executed steps before the checkpoint and after it, and skipped ones that were not lost.
    assert_eq!(saved.launch_steps + executed_again + row.steps_skipped, 6000, "{row:?}");
    takes_its_time(row, 0.0, 6000 + row.steps_lost, began, &skips(&run(&door)));
}

/// Starts a run that halts after it has reported steps and the shell command `condition` succeeds. Each job has its own core.
fn held<'a>(door: &'a Door, options: &str, condition: &str) -> Held<'a> {
    let each = starts(&[(0, "dp1", &[0]), (1, "dp1", &[1])]);
    let command = door.command(&format!("run trace.csv {FORWARD} {options}"));
    Held::start(door, command, (&each, &each), condition)
}

const HAS_SKIPPED: &str = "test $(wc -l < r/skips.csv) -gt 1";

const ONE: &str = "name,submit_s,job,steps\na,0,short,6000\n";

/// A run whose scheduler was killed after it skipped steps and before it wrote a checkpoint. `None` on one core.
fn killed() -> Option<Door> {
    let door = door_to_two(ONE)?;
    held(&door, "", HAS_SKIPPED).kill();
    Some(door)
}

/// Resumes the run, in which all steps are done again. Its time has gone on from the end of the last jump.
fn all_is_done_again(door: &Door) -> Outcome {
    let jumped_until = skips(&run(door)).last().expect("steps were skipped").until_ns;
    let executed_before = executed(&run(door));
    door.exits(0, "run --resume r --yes");
    let (mut rows, run) = (outcomes(door), run(door));
    let row = rows.remove(0);
    assert_eq!((row.status, row.steps), (Status::Ok, 6000));
    assert_eq!(row.steps_skipped + executed(&run) - executed_before, 6000);
    let turns = decision::read(&run.decisions_path()).expect("it reads");
    let failed = turns.iter().find(|turn| {
        turn.events.iter().any(|event| matches!(event, ClusterEvent::Failed { job: JobId(0), .. }))
    });
    assert!(failed.expect("it failed").at_ns.0 >= jumped_until);
    row
}

/// A scheduler that is killed leaves no checkpoint: all steps of the job are lost, skipped ones as well.
#[test]
fn a_killed_scheduler_loses_skipped_steps_that_were_not_saved() {
    let Some(door) = killed() else { return };
    let skipped_before: u64 = skips(&run(&door)).iter().filter_map(|row| row.steps).sum();
    let executed_before = executed(&run(&door));
    let row = all_is_done_again(&door);
    assert_eq!(row.steps_lost, skipped_before + executed_before, "{row:?}");
}

/// A job with long steps says nothing between a jump and the death of its scheduler.
#[test]
fn a_resumed_run_goes_on_from_a_jump_after_which_nothing_was_said() {
    let Some(door) = killed() else { return };
    let run = run(&door);
    let jumped = skips(&run).pop().expect("steps were skipped").mono_ns;
    let path = run.events_path(&run.launches().unwrap()[0], 0);
    let mut lines = Vec::new();
    EventReader::open(&path, 0).unwrap().poll(&mut lines).unwrap();
    let before = lines.iter().filter(|line| line.mono_ns.0 < jumped).count();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.split_inclusive('\n').take(before).collect::<String>()).unwrap();
    all_is_done_again(&door);
}

#[test]
fn a_program_of_the_users_is_ended_after_its_last_step() {
    let shows = "sh -c 'i=0; while true; do i=$((i+1)); echo step $i; sleep 0.01; done'";
    let trace = format!("name,submit_s,job,command,steps,steps_regex\nmine,0,,{shows},1500,^step\n");
    let Some(door) = door_to_two(&trace) else { return };
    door.exits(0, &format!("run trace.csv --policy fifo {FORWARD}"));
    let [row] = &outcomes(&door)[..] else { panic!("one row") };
    assert_eq!(row.status, Status::Ok, "{row:?}");
    assert!(row.steps >= 1500 && row.steps_skipped > 0, "{row:?}");
    // Steps before the first observed step have no event.
    let run = run(&door);
    let launch = &run.launches().unwrap()[0];
    let mut lines = Vec::new();
    EventReader::open(&run.events_path(launch, 0), 0).unwrap().poll(&mut lines).unwrap();
    let shown = lines.iter().rev().find_map(|line| match &line.event {
        Event::Step(step) => Some(step.index + 1),
        _ => None,
    });
    assert_eq!(shown.expect("it has shown some") + row.steps_skipped, row.steps, "{row:?}");
}

#[test]
fn what_cannot_be_skipped_is_refused_before_anything_starts() {
    for (options, message) in [
        (
            "--fast-forward --sharing step-gate:8",
            "jobs that take turns under step-gate:8 rest between their steps",
        ),
        ("--fast-forward-window 3s", "--fast-forward"),
        (
            "--fast-forward --model right.json --refit",
            "skipped steps are no measurements; leave out --refit or --fast-forward",
        ),
        ("--fast-forward --fast-forward-window 3s,5", "write a number of steps from 30 on"),
    ] {
        let door = door("name,submit_s,job,steps\na,0,short,5\n");
        model(&door, "right.json", "GPU", &[("lstm", 1.0)]);
        let command =
            format!("run trace.csv --policy fifo --device cpu:0 --catalog catalog.toml --out r {options}");
        let said = door.exits(2, &command);
        assert!(said.err.contains(message), "{options}: {}", said.err);
        assert!(!door.path("r").exists(), "{options}: nothing was begun");
    }
    let Some(door) = door_to_two("name,submit_s,job,steps,search\na,0,short,5,rates\n") else { return };
    let said = door.exits(2, &format!("run trace.csv --policy fifo {FORWARD}"));
    assert!(said.err.contains("a is a member of a search, which compares losses"), "{}", said.err);
}
