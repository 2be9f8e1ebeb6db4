//! Groups with programs of the user's: turns, ranks, ends and failures.

use record::rows::{ErrorKind, Interference, Measurement, Status, Warning};
use schema::{units::Nanos, wire::Timing};

use super::{catalogs, visit_otherwise};
use crate::foreign::{MEET, profile, with_program};

#[test]
fn a_program_without_steps_is_started_again_and_takes_no_turns() {
    let door = crate::door();
    let options = catalogs(&door);
    let mut command = door.command(&format!(
        "colocate light {options} --sharing time-slice,step-gate --seconds 1.5 --repeats 1 --out r"
    ));
    let status = command.args(["--cmd", "sleep 0.3"]).status().expect("profile starts");
    assert_eq!(status.code(), Some(1), "one of the groups is refused");
    let rows = door.interference("r");
    let program = |mode: &str| {
        let is_it =
            |row: &&Interference| row.job.starts_with("cmd-sleep-") && row.sharing.to_string() == mode;
        rows.iter().find(is_it).unwrap_or_else(|| panic!("{mode}: {rows:?}"))
    };
    let beside = program("time-slice");
    assert_eq!((beside.status, beside.timing), (Status::Ok, Some(Timing::Outside)));
    assert!(
        beside.step_ns_together >= Some(300_000_000) && beside.step_ns_alone >= Some(300_000_000),
        "{beside:?}"
    );
    assert!(beside.warnings.iter().any(|warning| warning == Warning::Looped), "{beside:?}");
    let refused = program("step-gate");
    assert_eq!((refused.status, refused.err), (Status::Unsupported, Some(ErrorKind::Unsupported)));
    assert!(
        refused.err_detail.as_deref().is_some_and(|detail| detail.contains("obeys no grant")),
        "{refused:?}"
    );
}

#[test]
fn a_program_with_the_step_hook_takes_turns_as_a_job_does() {
    let Some(door) = with_program("train()") else { return };
    let options = catalogs(&door);
    let modes = "--sharing time-slice,step-gate:100ms";
    let arguments = format!("colocate light {options} {modes} --seconds 0.5 --repeats 1 --out r --cmd");
    let output = profile(&door, &arguments, &["python3 train.py"]).output().expect("profile starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = door.interference("r");
    assert_eq!(rows.len(), 4);
    for row in rows.iter().filter(|row| row.job.starts_with("cmd-python3-")) {
        assert_eq!((row.timing, row.status), (Some(Timing::Hook), Status::Ok), "{row:?}");
        assert!(row.slowdown.is_some(), "{row:?}");
    }
    let visits = || door.path("r/groups").read_dir().expect("groups were visited").flatten();
    let texts = visits().map(|visit| std::fs::read_to_string(visit.path()).expect("it reads"));
    assert_eq!(texts.filter(|text| text.contains("turns")).count(), 1, "one of the modes has turns");
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

#[test]
fn a_program_of_several_ranks_takes_no_turns() {
    let Some(door) = with_program(&format!("{MEET}train(1)\nmeet(int(sys.argv[1]))\ntrain()")) else {
        return;
    };
    let options = catalogs(&door);
    // Started as by torchrun, and alone with the hook.
    for (script, ranks, modes, groups) in [
        (
            "export WORLD_SIZE=2; RANK=0 python3 train.py 2 & RANK=1 python3 train.py 2; wait",
            2,
            "time-slice,step-gate:100ms,sequential",
            [1, 2],
        ),
        ("RANK=0 WORLD_SIZE=4 exec python3 train.py 1", 4, "step-gate", [0, 1]),
    ] {
        let arguments =
            format!("colocate light {options} --sharing {modes} --seconds 0.5 --repeats 1 --out r --cmd");
        let output =
            profile(&door, &arguments, &[&format!("sh -c '{script}'")]).output().expect("profile starts");
        assert_eq!(output.status.code(), Some(1), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        let rows = door.interference("r");
        let (turns, at_once): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.sharing.takes_turns());
        assert_eq!([at_once.len(), turns.len()], groups.map(|groups| 2 * groups), "{script}");
        assert!(at_once.iter().all(|row| row.status == Status::Ok), "{script}: {at_once:?}");
        let reason = format!("has {ranks} ranks, and a program takes turns only if it has one");
        for row in turns {
            assert_eq!(
                (row.status, row.err),
                (Status::Unsupported, Some(ErrorKind::Unsupported)),
                "{script}"
            );
            assert!(row.err_detail.as_deref().is_some_and(|detail| detail.contains(&reason)), "{row:?}");
        }
        let run = door.run("r");
        let launches = run.launches().expect("jobs/ is there");
        let took_turns = |launch: &&String| run.spec(launch).expect("it was told").sharing.takes_turns();
        assert_eq!(launches.iter().filter(took_turns).count(), 0, "{script}: nothing was started for it");
        assert_eq!(door.leftovers(), Vec::<String>::new(), "{script}");
        std::fs::remove_dir_all(door.path("r")).expect("it is ours");
    }
}

#[test]
fn a_program_that_fails_alone_fails_in_turns_and_the_rest_is_measured() {
    let door = crate::door();
    let options = catalogs(&door);
    let mut command = door.command(&format!(
        "colocate light {options} --sharing time-slice,step-gate:100ms,sequential --seconds 0.3 --repeats 2 --out r"
    ));
    let output = command.args(["--cmd", "sh -c 'exit 7'"]).output().expect("profile starts");
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = door.interference("r");
    assert_eq!(rows.len(), 6, "{rows:?}");
    for row in &rows {
        let reason = row.err_detail.as_deref().unwrap_or_default();
        let why = if row.seat == 0 { "of the same group, had failed" } else { "rank 0 exited with code 7" };
        assert!(row.status == Status::Failed && reason.contains(why), "{row:?}");
    }
    let alone = door.summaries("r").into_iter().find(|row| row.workload == "light");
    assert_eq!(alone.map(|row| row.status), Some(Status::Ok));
}

#[test]
fn a_program_that_did_not_come_to_its_end_beside_the_others_has_no_time() {
    let door = crate::door();
    let options = catalogs(&door);
    // The visit's time-out is three times `--seconds`: 6 s.
    let mut command =
        door.command(&format!("colocate light {options} --seconds 2 --repeats 1 --out r --cmd"));
    assert_eq!(command.arg("sleep 1.5").status().expect("profile starts").code(), Some(0));
    let run = door.run("r");
    let ended = |rows: &[Measurement]| {
        let row = rows.iter().find(|row| row.seat == Some(1)).expect("it is the second member");
        (row.wall_ns.is_some(), row.err, row.err_detail.clone())
    };
    let rows = door.measurements("r");
    assert_eq!(ended(&rows), (true, None, None));
    let launch = &rows.iter().find(|row| row.seat == Some(1)).expect("it is the second member").launch;
    let end = run.launch_end(launch).expect("it reads").expect("it has ended").mono_ns;
    visit_otherwise(&run, |visit| visit.end_mono_ns = Some(Nanos(end.0 - 1)));
    door.exits(1, "derive r");
    let why = "it did not run to its end beside the others; give the group more with --seconds";
    assert_eq!(ended(&door.measurements("r")), (false, Some(ErrorKind::TooShort), Some(why.into())));
}

#[test]
fn a_program_that_takes_no_step_in_a_group_is_ended_at_its_time_limit() {
    // Its second launch is that in the group. Launches alone come to their first step whenever they do.
    let program = r#"
import pathlib, threading
launches = pathlib.Path("launches")
launches.mkdir(exist_ok=True)
(launches / str(os.getpid())).touch()
if len(list(launches.iterdir())) == 2:
    threading.Event().wait()
train()
"#;
    let Some(door) = with_program(program) else { return };
    let options = catalogs(&door);
    let arguments =
        format!("colocate light {options} --seconds 0.3 --first-step-timeout 2s --repeats 1 --out r --cmd");
    let output = profile(&door, &arguments, &["python3 train.py"]).output().expect("profile starts");
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = door.interference("r");
    let row = rows.iter().find(|row| row.job.starts_with("cmd-")).expect("it is a member");
    let detail = row.err_detail.as_deref().unwrap_or_default();
    assert!(row.status == Status::Failed && detail.contains("raise --first-step-timeout"), "{row:?}");
    let alone = door.summaries("r").into_iter().find(|row| row.job.starts_with("cmd-"));
    assert_eq!(alone.map(|row| (row.status, row.repeats)), Some((Status::Ok, 2)));
    assert_eq!(door.leftovers(), Vec::<String>::new());
}
