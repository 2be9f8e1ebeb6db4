//! `sched run --fast-forward` with synthetic workers.

use front_door::{Background, Door, wait_until};
use rustix::process::Signal;
use schema::{
    decision::{self, Happened, JobId},
    events::EventReader,
    rows::{self, MachineSpeed, Outcome, Skip, Status},
    run_dir::RunDir,
    wire::Event,
};

use crate::{
    believe::model,
    run::{door, outcomes, run},
};

const FORWARD: &str = "--device cpu:0,cpu:1 --catalog catalog.toml --progress-every 2s --out r --fast-forward \
    --fast-forward-window 300ms --fast-forward-error 10";

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

#[test]
fn jobs_end_when_they_would_in_a_fraction_of_the_time() {
    let door = door(TRACE);
    let began = std::time::Instant::now();
    let said = door.exits(0, &format!("run trace.csv --policy fifo --switch-cost 30ms {FORWARD}"));
    let took_s = began.elapsed().as_secs_f64();
    let (rows, run) = (outcomes(&door), run(&door));
    for (row, (asked, jct_s)) in rows.iter().zip([(4000, 20.0), (6000, 30.0), (2000, 35.0)]) {
        assert_eq!((row.status, row.steps, row.steps_lost), (Status::Ok, asked, 0), "{row:?}");
        // A sleep takes longer than it is asked for, much longer on a busy machine.
        let jct = row.jct_ns.expect("it is done") as f64 / 1e9;
        assert!(jct > 0.97 * jct_s && jct < 2.0 * jct_s, "{row:?}");
        assert!(row.steps_skipped > asked / 2 && row.skipped_ns < row.running_ns.expect("it ran"), "{row:?}");
    }
    let makespan_s = rows.iter().filter_map(|row| row.end_ns).max().expect("all have ended") as f64 / 1e9;
    assert!(took_s < makespan_s / 2.0, "{took_s} s instead of {makespan_s} s");
    assert_eq!(executed(&run) + skipped(&rows), 12_000, "each step was either executed or skipped");
    let skips = skips(&run);
    let ns = rows::skipped_ns(&skips) as f64 / 1e9;
    assert!(ns > 20.0, "{ns}");
    for row in &rows {
        let of_job = skips.iter().filter(|skip| skip.job == Some(row.job));
        let expected_ns: f64 = of_job.filter_map(|skip| Some(skip.steps? as f64 * skip.step_ns?)).sum();
        // Parts of a step are left for each window.
        assert!((expected_ns - row.skipped_ns as f64).abs() < 1e8, "{expected_ns} {row:?}");
    }
    let told = format!("fast-forwarded: {} of 12000 steps and ", skipped(&rows));
    assert!(said.err.contains(&told) && said.err.contains("measured steps"), "{}", said.err);
    assert!(said.out.contains(&format!("{} steps skipped", rows[0].steps_skipped)), "{}", said.out);
    assert_eq!(skips.iter().filter_map(|row| row.name.as_deref()).min(), Some("a"));

    let manifest = run.manifest().expect("it reads");
    let setting = manifest.scheduling.expect("it is a run of sched").fast_forward.expect("it is recorded");
    assert_eq!((setting.window_s, setting.window_steps, setting.error_percent), (0.3, 30, 10.0));
    let speed: Vec<MachineSpeed> = rows::read(&run.speed_path()).expect("speed.csv reads back");
    assert!(speed[0].jobs >= 2 && (0.95..2.0).contains(&speed[0].step_ratio), "{speed:?}");

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
    let door = door("name,submit_s,job,steps\na,0,short,8000\nb,0,short,9000\n");
    let mut sched = Background::start(door.command(&format!("run trace.csv --policy fifo {FORWARD}")));
    wait_until("steps were skipped", || {
        decision::read(&door.path("r/decisions.jsonl")).is_ok_and(|turns| {
            let mut events = turns.iter().flat_map(|turn| &turn.events);
            events.any(|happened| matches!(happened, Happened::Progress { steps: 1000.., .. }))
        })
    });
    sched.send(Signal::INT);
    let (ended_with, said) = sched.wait();
    assert_eq!(ended_with, Some(130), "{said}");
    door.wait_until_nothing_is_left();
    let before = skips(&run(&door));
    let at_ns = before.last().expect("some were skipped").until_ns;

    let json = door.exits(0, "run --resume r --json").out;
    let told: Vec<Outcome> = rows::from_json(&json).expect("it prints rows");
    let (rows, run) = (outcomes(&door), run(&door));
    assert_eq!(told, rows);
    assert_eq!(executed(&run) + skipped(&rows), 17_000);
    for (row, asked) in rows.iter().zip([8000, 9000]) {
        assert_eq!((row.status, row.steps, row.steps_lost, row.starts), (Status::Ok, asked, 0, 2), "{row:?}");
        let jct_s = row.jct_ns.expect("it is done") as f64 / 1e9;
        let expected_s = asked as f64 * 0.005;
        assert!(jct_s > 0.97 * expected_s && jct_s < 2.0 * expected_s, "{row:?}");
    }
    let skips = skips(&run);
    assert_eq!(skips[..before.len()], before[..]);
    assert!(skips[before.len()].from_ns >= at_ns, "the time of the run goes on");
    assert!(skips.iter().zip(&skips[1..]).all(|(a, b)| a.jump <= b.jump), "jumps are counted on");
}

/// A checkpoint is written every 3 s of the time of the run, which take less than a second.
#[test]
fn a_killed_scheduler_goes_on_from_a_checkpoint_with_skipped_steps() {
    let door = door("name,submit_s,job,steps\na,0,short,6000\n");
    let options = format!("{FORWARD} --checkpoint-every 3s");
    let mut sched = Background::start(door.command(&format!("run trace.csv --policy fifo {options}")));
    wait_until("it was saved twice", || {
        door.path("r/checkpoints/job-0000.json").exists()
            && RunDir::open(&door.path("r")).is_ok_and(|run| skips(&run).len() > 3)
    });
    sched.send(Signal::KILL);
    sched.wait();
    door.wait_until_nothing_is_left();
    let saved = run(&door).saved(JobId(0)).expect("it reads").expect("it was saved");
    assert!(saved.steps > saved.launch_steps + 300, "it holds skipped steps: {saved:?}");
    let executed_before = executed(&run(&door));
    door.exits(0, "run --resume r");
    let [row] = &outcomes(&door)[..] else { panic!("one row") };
    assert_eq!((row.status, row.steps, row.starts), (Status::Ok, 6000, 2));
    let executed_again = executed(&run(&door)) - executed_before;
    // Executed steps before the checkpoint and after it, and skipped ones that were not lost.
    assert_eq!(saved.launch_steps + executed_again + row.steps_skipped, 6000, "{row:?}");
    let jct_s = row.jct_ns.expect("it is done") as f64 / 1e9;
    let expected_s = (6000 + row.steps_lost) as f64 * 0.005;
    assert!(jct_s > 0.97 * expected_s && jct_s < 2.0 * expected_s, "{row:?}");
}

/// A run whose scheduler was killed after it had skipped steps and before it saved any.
fn killed() -> Door {
    let door = door("name,submit_s,job,steps\na,0,short,6000\n");
    let mut sched = Background::start(door.command(&format!("run trace.csv --policy fifo {FORWARD}")));
    wait_until("steps were skipped", || {
        RunDir::open(&door.path("r")).is_ok_and(|run| !skips(&run).is_empty())
    });
    sched.send(Signal::KILL);
    sched.wait();
    door.wait_until_nothing_is_left();
    door
}

/// Resumes the run, in which all steps are done again. Its time has gone on from the end of the last jump.
fn all_is_done_again(door: &Door) -> Outcome {
    let jumped_until = skips(&run(door)).last().expect("steps were skipped").until_ns;
    let executed_before = executed(&run(door));
    door.exits(0, "run --resume r");
    let (mut rows, run) = (outcomes(door), run(door));
    let row = rows.remove(0);
    assert_eq!((row.status, row.steps), (Status::Ok, 6000));
    assert_eq!(row.steps_skipped + executed(&run) - executed_before, 6000);
    let turns = decision::read(&run.decisions_path()).expect("it reads");
    let failed = turns
        .iter()
        .find(|turn| turn.events.iter().any(|event| matches!(event, Happened::Failed { job: JobId(0), .. })));
    assert!(failed.expect("it failed").at_ns.0 >= jumped_until);
    row
}

/// A scheduler that is killed leaves no checkpoint: all steps of the job are lost, skipped ones as well.
#[test]
fn a_killed_scheduler_loses_skipped_steps_that_were_not_saved() {
    let door = killed();
    let skipped_before: u64 = skips(&run(&door)).iter().filter_map(|row| row.steps).sum();
    let executed_before = executed(&run(&door));
    let row = all_is_done_again(&door);
    assert_eq!(row.steps_lost, skipped_before + executed_before, "{row:?}");
}

/// A job with long steps says nothing between a jump and the death of its scheduler.
#[test]
fn a_resumed_run_goes_on_from_a_jump_after_which_nothing_was_said() {
    let door = killed();
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
    let door = door(&format!("name,submit_s,job,command,steps,steps_regex\nmine,0,,{shows},1500,^step\n"));
    door.exits(0, &format!("run trace.csv --policy fifo {FORWARD}"));
    let [row] = &outcomes(&door)[..] else { panic!("one row") };
    assert_eq!(row.status, Status::Ok, "{row:?}");
    assert!(row.steps >= 1500 && row.steps < 1600 && row.steps_skipped > 500, "{row:?}");
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
    let door = door("name,submit_s,job,steps,search\na,0,short,5,rates\n");
    let said = door.exits(2, &format!("run trace.csv --policy fifo {FORWARD}"));
    assert!(said.err.contains("a is a member of a search, which compares losses"), "{}", said.err);
}
