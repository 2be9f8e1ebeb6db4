//! The user's commands before and after each launch of a program.

use std::{fs, process::Stdio};

use front_door::{Background, Said, wait_until};
use record::rows::{ErrorKind, Status, Warning};
use rustix::process::Signal;

use super::{exits, row, with_program};

const RUN: &str = "single --device cpu:0 --out r --repeats";

#[test]
fn each_launch_is_prepared_and_cleaned_up_in_the_place_of_its_program() {
    let door = crate::door();
    fs::create_dir(door.path("sub")).expect("the folder is new");
    let commands = [
        ["--prepare", "mkdir work && echo prepare {repeat} $A $(basename {launch}) >> log && echo said"],
        ["--cleanup", "rmdir work && echo cleanup {repeat} $A >> log"],
        ["--cwd", "sub"],
        ["--env", "A=x"],
    ];
    let program = ["--", "sh", "-c", "test -d work && echo run >> log"];
    exits(0, &door, &format!("{RUN} 2"), &[commands.as_flattened(), &program].concat());
    let launches = door.run("r").launches().expect("they are listed");
    let [first, second] = &launches[..] else { panic!("two launches: {launches:?}") };
    let expected = format!("prepare 0 x {first}\nrun\ncleanup 0 x\nprepare 1 x {second}\nrun\ncleanup 1 x\n");
    assert_eq!(fs::read_to_string(door.path("sub/log")).expect("it was written"), expected);
    let said = fs::read_to_string(door.path("r/log").join(format!("{first}.prepare.out")));
    assert_eq!(said.expect("its output is kept"), "said\n");
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

#[test]
fn the_time_of_the_commands_is_in_no_number_of_the_program() {
    let door = crate::door();
    let now = "cat /proc/uptime";
    let (prepare, cleanup) = (format!("{now}; sleep 0.5"), format!("{now}; sleep 0.5"));
    let options = ["--prepare", &prepare, "--cleanup", &cleanup, "--", "sleep", "0.3"];
    exits(0, &door, &format!("{RUN} 1"), &options);
    let row = row(&door);
    let began_ns = |command: &str| {
        let text = fs::read_to_string(door.run("r").beside_path(&row.launch, command, "out"));
        let text = text.expect("its output is kept");
        let seconds: f64 = text.split(' ').next().and_then(|word| word.parse().ok()).expect("a time");
        (seconds * 1e9) as u64
    };
    // The clock of the kernel's file ticks in 10 ms.
    let longest = began_ns("cleanup") - began_ns("prepare") - 500_000_000 + 20_000_000;
    assert!(row.wall_ns.is_some_and(|wall| (300_000_000..longest).contains(&wall)), "{longest}: {row:?}");
    assert!(row.window_ns.is_none_or(|window| window < longest), "{longest}: {row:?}");
}

#[test]
fn a_command_before_that_fails_fails_the_row_and_starts_no_program() {
    let door = crate::door();
    let prepare = "echo no data in {launch} >&2; exit 7";
    let options = ["--prepare", prepare, "--cleanup", "touch cleaned", "--", "touch", "started"];
    exits(1, &door, &format!("{RUN} 1"), &options);
    let row = row(&door);
    assert_eq!((row.status, row.err), (Status::Failed, Some(ErrorKind::Prepare)));
    let detail = row.err_detail.unwrap_or_default();
    assert!(detail.contains("was not started, as --prepare exited with code 7"), "{detail}");
    assert!(detail.contains(".prepare.err says \"no data in {launch}\""), "{detail}");
    assert!(!detail.contains(&*door.path("").to_string_lossy()), "{detail}");
    assert!(!door.path("started").exists() && door.path("cleaned").exists());
}

#[test]
fn a_command_after_that_fails_is_a_warning() {
    let door = crate::door();
    let said = exits(0, &door, &format!("{RUN} 1"), &["--cleanup", "echo held >&2; exit 9", "--", "true"]);
    let row = row(&door);
    assert!(row.warnings.iter().any(|warning| warning == Warning::Cleanup), "{row:?}");
    assert!(said.err.contains("the command of --cleanup exited with code 9; log/"), "{}", said.err);
    assert!(said.err.contains(".cleanup.err says \"held\""), "{}", said.err);
}

#[test]
fn the_commands_end_at_their_time_limit_with_all_of_their_processes() {
    let door = crate::door();
    let hangs = "setsid sleep 1000 & sleep 1000";
    let limit = format!("{RUN} 1 --first-step-timeout 300ms");
    exits(1, &door, &limit, &["--prepare", hangs, "--", "true"]);
    let failed = row(&door);
    assert_eq!(failed.err, Some(ErrorKind::Prepare), "{failed:?}");
    let detail = failed.err_detail.unwrap_or_default();
    assert!(detail.contains("--prepare did not end within 300 ms"), "{detail}");
    assert_eq!(door.leftovers(), Vec::<String>::new());
    fs::remove_dir_all(door.path("r")).expect("it is ours");

    let said = exits(0, &door, &limit, &["--cleanup", hangs, "--", "true"]);
    assert!(said.err.contains("the command of --cleanup did not end within 300 ms"), "{}", said.err);
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

#[test]
fn an_interrupt_ends_the_command_before_and_still_runs_the_command_after() {
    for signal in [Signal::INT, Signal::KILL] {
        let door = crate::door();
        let prepare = "touch prepares; sleep 1000";
        let mut command = door.command(&format!("{RUN} 1"));
        command.args(["--prepare", prepare, "--cleanup", "touch cleaned", "--", "touch", "started"]);
        let mut profile = Background::start(command);
        wait_until("the command runs", || door.path("prepares").exists());
        profile.send(signal);
        let (code, err) = profile.wait();
        door.wait_until_nothing_is_left();
        assert!(!door.path("started").exists(), "{err}");
        assert_eq!(door.path("cleaned").exists(), signal == Signal::INT, "{err}");
        assert_eq!(code == Some(130), signal == Signal::INT, "{err}");
    }
}

#[test]
fn a_resumed_run_names_its_commands_and_runs_them() {
    let door = crate::door();
    let options = ["--prepare", "touch prepared", "--cleanup", "touch cleaned", "--", "true"];
    exits(1, &door, &format!("{RUN} 1 --budget 1ns"), &options);
    let mut command = door.command("single --resume r --budget 1h");
    let said = Said::of(&command.stdin(Stdio::null()).output().expect("profile starts"));
    let words = "  true, prepared by touch prepared, cleaned up by touch cleaned";
    assert!(said.err.contains(words), "{}", said.err);
    assert!(!door.path("prepared").exists());
    door.exits(0, "single --resume r --budget 1h --yes");
    assert!(door.path("prepared").exists() && door.path("cleaned").exists());
}

#[test]
fn a_path_that_a_shell_would_split_is_not_put_into_a_command() {
    let door = crate::door();
    let options = ["--out", "a b", "--prepare", "touch {run}/x; touch prepared", "--", "true"];
    let said = exits(2, &door, "single --device cpu:0 --repeats 1", &options);
    assert!(
        said.err.contains("--prepare: the path of the run has characters that a shell reads"),
        "{}",
        said.err
    );
    assert!(!door.path("prepared").exists() && !door.path("a b").exists());
    // Only these two words are paths.
    let options = ["--out", "a b", "--prepare", "touch repeat-{repeat}", "--", "true"];
    exits(0, &door, "single --device cpu:0 --repeats 1", &options);
    assert!(door.path("repeat-0").exists());
}

#[test]
fn commands_without_a_program_are_refused() {
    let door = crate::door();
    for (arguments, words) in [
        (&["synthetic-sleep", "--prepare", "true"][..], "--prepare applies to programs only"),
        (&["synthetic-sleep", "--cleanup", "true"], "--cleanup applies to programs only"),
        (&["--prepare", " ", "--", "true"], "--prepare: expected a command"),
    ] {
        let said = exits(2, &door, &format!("{RUN} 1"), arguments);
        assert!(said.err.contains(words), "{arguments:?}: {}", said.err);
        assert!(!door.path("r").exists(), "{arguments:?}");
    }
}

#[test]
fn programs_of_a_group_are_prepared_and_cleaned_up_and_have_their_batch() {
    let Some(door) = with_program("train()") else { return };
    let options = ["--prepare", "echo before >> log", "--cleanup", "echo after >> log"];
    let programs = ["--cmd", "python3 train.py", "--cmd", "python3 train.py --other"];
    let run = "colocate --device cpu:0 --repeats 1 --seconds 0.3 --batch 16 --out r";
    exits(0, &door, run, &[&options[..], &programs].concat());
    let rows = door.measurements("r");
    for word in ["before", "after"] {
        let log = fs::read_to_string(door.path("log")).expect("it was written");
        assert_eq!(log.lines().filter(|line| *line == word).count(), rows.len(), "{log}");
    }
    for row in &rows {
        assert_eq!((row.status, row.global_batch), (Status::Ok, Some(16)), "{row:?}");
        let samples = 16e9 / row.step_ns_mean.expect("it took steps") as f64;
        let rate = row.samples_per_s.expect("its batch is known");
        assert!((rate / samples - 1.0).abs() < 0.01, "{row:?}");
    }
    let said = exits(2, &door, "colocate --batch 16 lstm vae --device cpu:0 --out q", &[]);
    assert!(said.err.contains("--batch is the number of samples in a step of programs"), "{}", said.err);
}
