//! The wait for the first step of a program of which an amount of steps is measured.

use std::fs;

use front_door::{Background, wait_for};
use record::rows::{ErrorKind, Measurement, Status, Warning};
use schema::wire::{Event, Timing};

use super::{events_of, exits, into_file, profile, row, with_program};

fn is_cut(row: &Measurement) -> bool {
    row.warnings.iter().any(|warning| warning == Warning::Cut)
}

#[test]
fn the_first_step_is_waited_for_whatever_the_program_does_before() {
    let waits = "until [ -e go ]; do sleep 0.01; done";
    let shows = "while :; do echo step; sleep 0.01; done";
    for (options, trains, timing) in
        [("", "exec python3 train.py", Timing::Hook), ("--steps-regex ^step", shows, Timing::Scraped)]
    {
        let Some(door) = with_program("train()") else { return };
        let run = format!("single --device cpu:0 --repeats 1 --seconds 1 {options} --out r --");
        let script = format!("{waits}; {trains}");
        let mut profile = Background::start(into_file(&profile(&door, &run, &["sh", "-c", &script]), "err"));
        wait_for("the time that it was to measure has passed", || {
            let said = fs::read_to_string(door.path("err")).unwrap_or_default();
            let is_told = said.contains("no step in 1.00 s; its first is waited for, up to 1800 s in all");
            if is_told { Ok(()) } else { Err((said, profile.has_ended())) }
        });
        door.write("go", "");
        assert_eq!(profile.wait().0, Some(0), "{:?}", fs::read_to_string(door.path("err")));
        let row = row(&door);
        assert_eq!((row.status, row.timing), (Status::Ok, Some(timing)), "{row:?}");
        // Steps that end while the harness decides count in the row, and may move the beginning of its steady state.
        let steps = events_of(&door, &row.launch, 0).into_iter();
        let step_ns = steps.map(|event| if let Event::Step(step) = event { step.dur_ns.0 } else { 0 });
        assert!(step_ns.sum::<u64>() >= 1_000_000_000, "no wait is in the time of its steps: {row:?}");
        assert!(row.wall_ns >= Some(2_000_000_000), "the wait and the steady time: {row:?}");
    }
}

#[test]
fn a_program_without_a_first_step_in_its_time_has_failed_and_is_in_no_interval() {
    let says = "while :; do echo line; sleep 0.01; done";
    let imports = "import torch, time; time.sleep(1000)";
    for (options, program) in [
        ("--seconds 0.5", ["sh", "-c", "sleep 1000 & sleep 1000"]),
        ("--steps 5", ["sh", "-c", "sleep 1000"]),
        ("--seconds 0.5 --steps-regex ^step", ["sh", "-c", says]),
        ("--seconds 0.5", ["python3", "-c", imports]),
    ] {
        let Some(door) = with_program("") else { return };
        let run =
            format!("single --device cpu:0 --repeats 3 {options} --first-step-timeout 800ms --out r --");
        let said = exits(1, &door, &run, &program);
        let rows = door.measurements("r");
        // After two failures in a row there is no third launch.
        assert_eq!(rows.len(), 2, "{rows:?}");
        for row in &rows {
            assert_eq!((row.status, row.err), (Status::Failed, Some(ErrorKind::TooShort)), "{row:?}");
            assert!(is_cut(row) && row.wall_ns >= Some(800_000_000), "{row:?}");
        }
        let summary = &door.summaries("r")[0];
        assert_eq!((summary.wall_ns, summary.half_width_percent), (None, None), "{summary:?}");
        assert!(said.err.contains("without a step; if its steps come later, raise --first-step-timeout"));
        assert!(!said.out.contains("runs ") && !said.out.contains("cut at"), "{}", said.out);
        assert_eq!(door.leftovers(), Vec::<String>::new());
    }
}

#[test]
fn a_program_that_ends_without_a_step_has_a_duration_unless_steps_were_to_be_seen() {
    let imports = ["python3", "-c", "import torch"];
    for (options, program, lack) in [
        ("--seconds 3", ["sh", "-c", "echo done"], None),
        ("--steps 3", ["sh", "-c", "echo done"], None),
        ("", imports, None),
        ("--seconds 3", imports, Some("ended without an optimizer step, and --seconds measures steps")),
        ("--steps 3", imports, Some("ended without an optimizer step, and --steps measures steps")),
    ] {
        let Some(door) = with_program("") else { return };
        let run = format!("single --device cpu:0 --repeats 1 {options} --out r --");
        exits(i32::from(lack.is_some()), &door, &run, &program);
        let row = row(&door);
        assert!(!is_cut(&row), "{row:?}");
        match lack {
            None => assert_eq!((row.status, row.timing), (Status::Ok, Some(Timing::Outside)), "{row:?}"),
            Some(lack) => {
                assert_eq!((row.status, row.err), (Status::Failed, Some(ErrorKind::TooShort)));
                assert!(row.err_detail.as_ref().is_some_and(|detail| detail.contains(lack)), "{row:?}");
            }
        }
    }
}

/// The program ends in the moment in which the harness decides to end it.
#[test]
fn a_program_that_ends_by_itself_while_it_is_given_up_is_not_cut() {
    let door = crate::door();
    let run = "single --device cpu:0 --repeats 1 --seconds 3 --out r --";
    exits(0, &door, run, &["sh", "-c", "echo done"]);
    let (launch, wall_ns) = (row(&door).launch, row(&door).wall_ns);
    let mut end = door.run("r").launch_end(&launch).expect("it reads").expect("it has ended");
    for (by_itself, code) in [(true, 0), (false, 1)] {
        end.enough_mono_ns = Some(end.mono_ns);
        end.ranks[0].by_itself = by_itself;
        door.run("r").write_launch_end(&launch, &end).expect("the folder is writable");
        door.exits(code, "derive r");
        let row = row(&door);
        assert_eq!((row.status == Status::Ok, is_cut(&row)), (by_itself, !by_itself), "{row:?}");
        assert_eq!(row.wall_ns, wall_ns);
    }
}

#[test]
fn the_time_limit_is_refused_where_nothing_is_waited_for() {
    let door = crate::door();
    for (arguments, refusal) in [
        ("--out r --first-step-timeout 1m -- true", "runs to its end; add one of them"),
        ("--out r --first-step-timeout 1m lstm", "--first-step-timeout applies to programs only"),
        ("--out r --first-step-timeout 0s --seconds 1 -- true", "expected a time above 0"),
        ("--first-step-timeout 1m --resume r", "cannot be used with"),
    ] {
        let said = door.exits(2, &format!("single {arguments}"));
        assert!(said.err.contains(refusal), "{arguments}: {}", said.err);
    }
}
