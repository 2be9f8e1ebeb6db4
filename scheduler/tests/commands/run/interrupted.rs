//! Runs that a signal ends, and that go on.

use formats::{
    decision::{self, Action, ClusterEvent, JobId, Settled},
    rows::Part,
};
use front_door::Door;
use record::rows::{self, ErrorKind, Status};
use rustix::process::Signal;

use super::{TRACE, door_to_two, held, outcomes, run};

/// Sends a signal to a run once a job has done steps, and checks how the run ends. `None` on one core.
fn interrupted(signal: Signal, code: u8) -> Option<Door> {
    let door = door_to_two(TRACE)?;
    let (ended_with, said) = held(&door).interrupt(signal);
    assert_eq!(ended_with, Some(code.into()), "{said}");
    assert!(said.contains("go on with: sched run --resume r"), "{said}");
    door.wait_until_nothing_is_left();
    let end = run(&door).end().expect("end.toml reads").expect("it was written");
    assert_eq!((end.exit_code, end.missing.len()), (code, 6));
    Some(door)
}

#[test]
fn a_closed_terminal_saves_all_jobs_too() {
    let Some(door) = interrupted(Signal::HUP, 129) else { return };
    door.exits(0, "run --resume r --yes");
    let rows = outcomes(&door);
    assert!(rows.iter().all(|row| row.status == Status::Ok && row.steps_lost == 0), "{rows:?}");
}

/// The scheduler may die after it has started a launch and before the turn is in the journal.
#[test]
fn a_launch_that_the_journal_lacks_is_named_and_the_job_goes_on_from_what_it_saved() {
    let Some(door) = interrupted(Signal::INT, 130) else { return };
    let journal = door.path("r/decisions.jsonl");
    let turns = decision::read(&journal).expect("decisions.jsonl reads back");
    let starts = |action: &Action| matches!(action, Action::Start { job: JobId(0), .. });
    let first = turns.iter().position(|turn| turn.actions.iter().any(starts)).expect("it was started");
    let text = std::fs::read_to_string(&journal).expect("the run has a journal");
    let before: String = text.split_inclusive('\n').take(first).collect();
    std::fs::write(&journal, before).expect("it is ours");
    let said = door.exits(0, "run --resume r --yes");
    assert!(said.err.contains("-short was started, and the scheduler ended before"), "{}", said.err);
    let rows = outcomes(&door);
    assert!(rows.iter().all(|row| row.status == Status::Ok), "{rows:?}");
    assert_eq!(rows.iter().map(|row| row.steps).sum::<u64>(), 1730);
}

#[test]
fn ctrl_c_saves_all_jobs_and_the_run_goes_on_without_a_step_lost() {
    let Some(door) = interrupted(Signal::INT, 130) else { return };
    let rows = outcomes(&door);
    assert!(rows.iter().all(|row| row.err == Some(ErrorKind::Interrupted)), "{rows:?}");

    let manifest = run(&door).manifest_path();
    let text = std::fs::read_to_string(&manifest).expect("the run has a manifest");
    let ours = concat!("version = \"", env!("CARGO_PKG_VERSION"), "\"");
    std::fs::write(&manifest, text.replacen(ours, "version = \"0.0.9\"", 1)).expect("it is ours");
    let said = door.exits(2, "run --resume r --yes");
    assert!(said.err.contains("it was begun with Tandem 0.0.9, and here is"), "{}", said.err);
    std::fs::write(&manifest, text).expect("it is ours");

    door.exits(0, "run --resume r --yes");
    let rows = outcomes(&door);
    assert!(rows.iter().all(|row| row.status == Status::Ok && row.steps_lost == 0), "{rows:?}");
    assert_eq!(rows.iter().map(|row| row.steps).sum::<u64>(), 1730);
    let parts: Vec<Part> = rows::read_appended(&run(&door).parts_path()).expect("parts.csv reads back");
    let turns = decision::read(&run(&door).decisions_path()).expect("decisions.jsonl reads back");
    let [first, second] = &parts[..] else { panic!("two schedulers: {parts:?}") };
    assert_eq!((first.turns, first.at_ns), (0, 0));
    assert!(turns[second.turns as usize].at_ns.0 >= second.at_ns && second.at_ns > 0);
    let went_on = |job| {
        let mut after = turns[second.turns as usize..].iter().flat_map(|turn| &turn.events);
        after.find_map(|happened| match *happened {
            ClusterEvent::Settled { job: of, now: Settled::Running, steps } if of == JobId(job) => {
                Some(steps)
            }
            _ => None,
        })
    };
    // One of the two jobs that had begun has reported steps.
    assert!([0, 1].map(went_on).into_iter().max() > Some(Some(0)), "it went on from where it was saved");
}
