//! Programs whose output shows their steps.

use record::rows::{ErrorKind, Status, Warning};
use schema::{
    events,
    wire::{Event, Timing},
};

use super::{events_of, exits, row, with_program};

/// `show` prints a line and waits until the harness has read it, which the number of lines in the event file tells.
const SHOW: &str = r#"
import glob
shown = 0
def show(line):
    global shown
    print(line, flush=True)
    shown += 1
    while sum(open(name).read().count("\n") for name in glob.glob("r/events/*.0.jsonl")) < shown:
        time.sleep(0.001)
"#;

#[test]
fn steps_are_found_in_the_output() {
    let program = format!("{SHOW}for i in range(60):\n    show(f'step {{i}}')\n    time.sleep(0.005)");
    let Some(door) = with_program(&program) else { return };
    let run = "single --device cpu:0 --repeats 1 --out r --steps-regex ^step";
    exits(0, &door, &format!("{run} --"), &["python3", "train.py"]);
    let row = row(&door);
    assert_eq!((row.status, row.timing, row.steps_total), (Status::Ok, Some(Timing::Scraped), 60));
    let lengths: Vec<u64> = events_of(&door, &row.launch, 0)
        .iter()
        .filter_map(|event| if let Event::Step(step) = event { Some(step.dur_ns.0) } else { None })
        .collect();
    let (count, sum) = (lengths.len(), lengths.iter().sum::<u64>());
    assert_eq!(count, 59, "it is not known when the first began");
    // The harness stamps a line that arrives during a read with the time at which the read began.
    assert!((58 * 5_000_000..=row.wall_ns.expect("it ended")).contains(&sum), "{sum} of {row:?}");
}

#[test]
fn a_line_with_the_number_of_a_step_ends_all_steps_since_the_line_before() {
    // A line for each tenth step, and numbers that begin anew with each epoch.
    let program = format!(
        "{SHOW}for epoch in range(2):
    for i in range(0, 200, 10):
        show(f'epoch {{epoch}} iter {{i}} of 64 loss {{i / 8}}')
        shown += 9 if shown > 1 or i else 0
        time.sleep(0.05)"
    );
    let Some(door) = with_program(&program) else { return };
    let pattern = r"iter (\d+) of (?<samples>\d+) loss (?<loss>\S+)";
    let run = "single --device cpu:0 --repeats 1 --out r --steps-regex";
    exits(0, &door, run, &[pattern, "--", "python3", "train.py"]);
    let row = row(&door);
    assert_eq!((row.status, row.timing), (Status::Ok, Some(Timing::Scraped)), "{row:?}");
    assert_eq!(row.steps_total, 1 + 39 * 10);
    let steps: Vec<_> = events_of(&door, &row.launch, 0)
        .into_iter()
        .filter_map(|event| if let Event::Step(step) = event { Some(step) } else { None })
        .collect();
    for (lines, steps) in (1..).zip(steps.chunks(10)) {
        let loss = f64::from(lines % 20 * 10) / 8.0;
        let is_of_line = |step: &schema::wire::Step| (step.samples, step.loss) == (Some(64), Some(loss));
        assert!(steps.len() == 10 && steps.iter().all(is_of_line), "{lines}: {steps:?}");
    }
    let sum: u64 = steps.iter().map(|step| step.dur_ns.0).sum();
    let mean = row.step_ns_mean.expect("it stepped");
    assert!((38 * 50_000_000..=row.wall_ns.expect("it ended")).contains(&sum), "{sum} of {row:?}");
    let rate = row.samples_per_s.expect("the program says its samples");
    assert!((rate * mean as f64 / 64e9 - 1.0).abs() < 1e-3, "{row:?}");
    assert!(!row.warnings.iter().any(|warning| warning == Warning::Buffered), "{row:?}");
}

#[test]
fn groups_that_capture_no_number_are_refused() {
    let door = crate::door();
    let run = "single --device cpu:0 --repeats 1 --steps-regex";
    for (pattern, code, refusal) in [
        (r"(\d+)/(\d+)", 2, "two groups capture the number of a step"),
        (r"(?<epoch>\d+)", 2, "the group 'epoch' has no meaning"),
        ("^(step|iter)", 1, "the group for the step captured 'step', which is no number"),
    ] {
        let said = exits(code, &door, run, &[pattern, "--", "sh", "-c", "echo step 1; sleep 1000"]);
        assert!(said.err.contains(refusal), "{pattern}: {}", said.err);
    }
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

#[test]
fn a_program_that_shows_its_steps_is_ended_when_there_are_enough() {
    let door = crate::door();
    let script = "i=0; while :; do i=$((i+1)); echo step $i >&2; sleep 0.01; done";
    let run = "single --device cpu:0 --repeats 1 --steps 30 --out r --steps-regex";
    exits(0, &door, run, &["step [0-9]+", "--", "sh", "-c", script]);
    let row = row(&door);
    assert_eq!((row.status, row.timing), (Status::Ok, Some(Timing::Scraped)));
    assert!(row.steps_total >= 30 && 2 * row.steps_used >= 30, "at least half of its steps count: {row:?}");
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

#[test]
fn output_that_comes_in_blocks_is_said() {
    let door = crate::door();
    // The program prints a block only after the harness has read the one before. The first block has one event, each later one four.
    let script = "for events in 1 5 9; do
    printf 'step\\nstep\\nstep\\nstep\\n'
    until [ $(cat r/events/*.jsonl | wc -l) -ge $events ]; do sleep 0.01; done
done";
    exits(0, &door, "single --device cpu:0 --repeats 1 --out r --steps-regex step --", &["sh", "-c", script]);
    let row = row(&door);
    assert!(row.warnings.iter().any(|warning| warning == Warning::Buffered), "{row:?}");
    let lines = events::read(&door.run("r").events_path(&row.launch, 0), 0).expect("they are whole");
    let mut lengths = Vec::new();
    for pair in lines.windows(2) {
        let Event::Step(step) = &pair[1].event else { continue };
        assert_eq!(
            pair[1].mono_ns - pair[0].mono_ns,
            step.dur_ns,
            "a step begins where the one before it ended"
        );
        lengths.push(step.dur_ns.0);
    }
    let used: u64 = lengths.iter().rev().take(row.steps_used as usize).sum();
    assert_eq!((lengths.len(), row.window_ns), (8, Some(used)), "{row:?}");
}

#[test]
fn steps_that_are_shown_while_the_harness_is_stopped_are_buffered() {
    let door = crate::door();
    // The program stops the harness, which is the parent of its leash, for the time of 300 steps: longer than the second within which
    // the end of a step must be stamped. Then it waits until the harness has written down all of them.
    let script = "read -r _ _ _ harness _ < /proc/$PPID/stat; step() { echo step; sleep 0.005; }
step; until [ -s $(echo r/events/*.jsonl) ]; do sleep 0.01; done
kill -STOP $harness; i=0; while [ $i -lt 300 ]; do i=$((i+1)); step; done; kill -CONT $harness
until [ $(cat r/events/*.jsonl | wc -l) -ge 301 ]; do sleep 0.01; done
i=0; while [ $i -lt 20 ]; do i=$((i+1)); step; done";
    exits(0, &door, "single --device cpu:0 --repeats 1 --out r --steps-regex step --", &["sh", "-c", script]);
    let row = row(&door);
    assert_eq!((row.status, row.err, row.steps_total), (Status::Ok, None, 321), "{:?}", row.err_detail);
    assert!(row.warnings.iter().any(|warning| warning == Warning::Buffered), "{row:?}");
    let spent: u64 = events_of(&door, &row.launch, 0)
        .iter()
        .filter_map(|event| if let Event::Step(step) = event { Some(step.dur_ns.0) } else { None })
        .sum();
    assert!(spent >= 319 * 5_000_000, "no time of a step is lost: {spent}");
}

#[test]
fn output_without_a_step_is_a_row_that_names_the_regex() {
    let door = crate::door();
    exits(1, &door, "single --device cpu:0 --repeats 1 --out r --steps-regex ^step --", &["echo", "stop 1"]);
    let row = row(&door);
    assert_eq!(row.err, Some(ErrorKind::TooShort), "{row:?}");
    assert!(row.err_detail.as_deref().unwrap_or_default().contains("match '^step'"), "{row:?}");
}

/// A loop of inference beside a job that trains.
#[test]
fn a_program_that_shows_its_steps_stands_beside_a_job() {
    let Some(door) = with_program("while True:\n    time.sleep(0.01)\n    print('batch', flush=True)") else {
        return;
    };
    let run =
        "colocate synthetic-sleep --device cpu:0 --repeats 1 --seconds 1 --steps-regex ^batch --out r --cmd";
    exits(0, &door, run, &["python3 train.py"]);
    let rows = door.interference("r");
    assert_eq!(rows.len(), 2, "{rows:?}");
    for row in &rows {
        assert_eq!(row.status, Status::Ok, "{row:?}");
        let (alone, together) =
            (row.step_ns_alone.expect("it stepped"), row.step_ns_together.expect("it stepped"));
        let slowdown = row.slowdown.expect("both are known");
        assert!((slowdown * alone as f64 / together as f64 - 1.0).abs() < 1e-3, "{row:?}");
        // A step of the job sleeps for 10 ms. When the harness reads the program's line depends on the machine.
        assert!(row.timing == Some(Timing::Scraped) || alone.min(together) >= 10_000_000, "{row:?}");
    }
    assert!(rows.iter().any(|row| row.timing == Some(Timing::Scraped)), "{rows:?}");
}
