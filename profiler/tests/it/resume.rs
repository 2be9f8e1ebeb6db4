//! Killed or interrupted runs, and their resumption.

use front_door::{Background, Door, Said, has_cores, wait_until};
use record::rows::{self, ErrorKind, Measurement};
use rustix::process::{Pid, Signal, kill_process};

const GRID: &str = "single synthetic-sleep --plan dp1,ga2 --device cpu:0 --steps 25 --repeats 2";

/// The second launch of this program writes its process to the file `pid`, creates the file `holds` and waits for the file `go`.
const HOLD: &str =
    "[ -e ran ] && echo $$ > pid && touch holds && until [ -e go ]; do sleep 0.01; done\ntouch ran\n";

/// Starts a run of [`GRID`] and a program. Returns in the second block, where the program waits for the file `go`.
fn held(door: &Door) -> Background {
    held_in(door, GRID)
}

/// As [`held`], for the command of another run.
fn held_in(door: &Door, grid: &str) -> Background {
    door.write("hold", HOLD);
    let mut command = door.command(&format!("{grid} --out r"));
    command.args(["--cmd", "sh hold"]);
    let profile = Background::start(command);
    wait_until("the program waits", || door.path("holds").exists());
    profile
}

fn lines(door: &Door, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(door.run(name).measurements_path()).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn kill_9_leaves_no_process_and_resume_does_only_what_is_missing() {
    let door = crate::door();
    let mut profile = held(&door);
    profile.send(Signal::KILL);
    profile.wait();
    door.wait_until_nothing_is_left();
    // A link that leads nowhere would fail a copy of the run that follows links.
    let entries = std::fs::read_dir(door.path("r/jobs")).expect("it is there").flatten();
    let links: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_symlink()).collect();
    assert!(links.is_empty(), "{links:?}");

    let finished = lines(&door, "r");
    assert!(finished.len() >= 4, "a block is measured: {finished:?}");
    door.write("go", "");
    door.exits(0, "single --resume r --yes");
    let all = lines(&door, "r");
    assert_eq!(all[..finished.len()], finished[..], "finished rows are byte-equal");
    let rows: Vec<Measurement> = rows::read(&door.run("r").measurements_path()).expect("it reads");
    let mut done: Vec<_> = rows.iter().map(|row| (row.job.clone(), row.repeat)).collect();
    done.sort();
    done.dedup();
    assert_eq!((done.len(), rows.len()), (6, 6), "each cell once a block, none twice");
    // The files of the killed launch stay as evidence, without the copy of the hook that its program had.
    assert_eq!(door.run("r").launches().expect("jobs/ is there").len(), 7);
    let entries = std::fs::read_dir(door.path("r/jobs")).expect("it is there").flatten();
    let others: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_none_or(|it| it != "json"))
        .collect();
    assert!(others.is_empty(), "{others:?}");

    let before = all;
    door.exits(0, "single --resume r --yes");
    assert_eq!(lines(&door, "r"), before, "there was nothing left to do");
}

/// Ends the waiting program of [`held`] with SIGKILL, or its leash.
fn kill(door: &Door, its_leash: bool) {
    let number = |text: &str| text.trim().parse::<i32>().expect("a number of a process");
    let program = number(&std::fs::read_to_string(door.path("pid")).expect("the program wrote it"));
    let status = std::fs::read_to_string(format!("/proc/{program}/status")).expect("it waits");
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).expect("it has a parent");
    let process = if its_leash { number(parent) } else { program };
    kill_process(Pid::from_raw(process).expect("above zero"), Signal::KILL).expect("it is ours");
    door.write("go", "");
}

#[test]
fn a_launch_that_was_killed_from_outside_is_missing_and_is_measured_again() {
    for (its_leash, words) in [(false, "was killed by SIGKILL"), (true, "lost its leash: somebody killed it")]
    {
        let door = crate::door();
        let mut profile = held_in(&door, "single --device cpu:0 --repeats 2");
        kill(&door, its_leash);
        let (code, err) = profile.wait();
        assert_eq!(code, Some(1), "{err}");
        assert!(err.contains("not measured") && err.contains("profile single --resume r"), "{err}");
        let missing = door.run("r").end().expect("end.toml reads").expect("it was written").missing;
        assert!(missing.len() == 1 && missing[0].ends_with(", block 1"), "{missing:?}");
        let summary = &door.summaries("r")[0];
        assert_eq!((summary.repeats, summary.repeats_failed), (1, 1));

        door.exits(0, "single --resume r --yes");
        let rows = door.measurements("r");
        let ends: Vec<_> = rows.iter().map(|row| (row.repeat, row.part, row.err)).collect();
        assert_eq!(ends, [(0, 0, None), (1, 0, Some(ErrorKind::Killed)), (1, 1, None)]);
        assert!(rows[1].err_detail.as_ref().is_some_and(|why| why.contains(words)), "{:?}", rows[1]);
        let summary = &door.summaries("r")[0];
        assert_eq!((summary.repeats, summary.repeats_failed), (2, 0), "the later launch replaces it");
        let end = door.run("r").end().expect("end.toml reads").expect("it was written");
        assert_eq!((end.exit_code, end.missing.len()), (0, 0));
        door.exits(0, "derive r");
    }
}

#[test]
fn a_visit_with_a_member_that_was_killed_from_outside_is_measured_again() {
    let door = crate::door();
    let grid = "colocate synthetic-sleep --device cpu:0 --steps 25 --repeats 1";
    let mut profile = held_in(&door, grid);
    kill(&door, false);
    let (code, err) = profile.wait();
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("profile colocate --resume r"), "{err}");
    // The program is too short for numbers of the group, which is a failure of its own.
    let again = door.command("colocate --resume r --yes").output().expect("profile starts");
    let end = door.run("r").end().expect("end.toml reads").expect("it was written");
    assert!(end.missing.is_empty(), "{:?}\n{}", end.missing, Said::of(&again).err);
    let rows = door.measurements("r");
    let of_group = |part| rows.iter().filter(move |row| row.group.is_some() && row.part == part);
    let killed = |row: &Measurement| row.err == Some(ErrorKind::Killed);
    assert_eq!(of_group(0).filter(|row| killed(row)).count(), 1, "{rows:?}");
    assert_eq!((of_group(1).count(), of_group(1).filter(|row| killed(row)).count()), (2, 0), "{rows:?}");
}

#[test]
fn a_resumed_run_reads_the_input_that_it_began_with() {
    let door = crate::door();
    door.write("hold", HOLD);
    door.write("input", "a line\n");
    let mut command = door.command("single --device cpu:0 --repeats 2 --input input --out r --");
    command.args(["sh", "-c", "cat; . ./hold"]);
    let mut profile = Background::start(command);
    wait_until("the program waits", || door.path("holds").exists());
    profile.send(Signal::KILL);
    profile.wait();
    door.wait_until_nothing_is_left();
    door.write("go", "");

    std::fs::remove_file(door.path("input")).expect("the folder is writable");
    let said = door.exits(2, "single --resume r --yes");
    assert!(said.err.contains("--input input cannot be read; "), "{}", said.err);
    door.write("input", "a line\n");
    door.exits(0, "single --resume r --yes");
    let outputs: Vec<String> = door
        .measurements("r")
        .iter()
        .map(|row| std::fs::read_to_string(door.run("r").stdout_path(&row.launch, 0)).expect("it is kept"))
        .collect();
    assert_eq!(outputs, ["a line\n"; 2]);
}

#[test]
fn all_plans_of_a_job_are_one_run_that_a_kill_only_interrupts() {
    if !has_cores(2) {
        return;
    }
    let door = crate::door();
    let all = "single synthetic-sleep@b8 --plan all --device cpu:0,cpu:1 --steps 25 --repeats 1 --out r";
    let mut profile = Background::start(door.command(all));
    wait_until("three plans are measured", || {
        door.path("r/measurements.csv").exists() && lines(&door, "r").len() >= 4
    });
    profile.send(Signal::KILL);
    profile.wait();
    door.wait_until_nothing_is_left();
    let finished = lines(&door, "r");
    door.exits(0, "single --resume r");
    assert_eq!(lines(&door, "r")[..finished.len()], finished[..], "finished rows are byte-equal");
    let mut plans: Vec<String> = door
        .measurements("r")
        .iter()
        .map(|row| row.plan.expect("a workload has a plan").to_string())
        .collect();
    plans.sort();
    let valid = ["dp1", "dp2", "dp2-ga2", "dp2-ga4", "ga2", "ga4", "ga8"];
    assert_eq!(plans, valid, "each valid plan once");
}

#[test]
fn kill_9_takes_shells_and_daemons_of_a_command_along() {
    let door = crate::door();
    let mut command = door.command("single --device cpu:0 --repeats 1 --out r --");
    command.args(["sh", "-c", "(setsid sleep 1000 &); sh -c 'sleep 1000; true' & sleep 1000; true"]);
    let mut profile = Background::start(command);
    // profile, its leash, three sleeps and two shells
    wait_until("all of them run", || door.leftovers().len() >= 7);
    profile.send(Signal::KILL);
    profile.wait();
    door.wait_until_nothing_is_left();
}

#[test]
fn programs_of_a_run_that_goes_on_are_named_and_agreed_to() {
    let door = crate::door();
    door.exits(0, "single --device cpu:0 --repeats 1 --out r -- touch started");
    std::fs::remove_file(door.path("started")).expect("it ran");
    let launch = door.measurements("r")[0].launch.clone();
    std::fs::remove_file(door.run("r").launch_end_path(&launch)).expect("it has ended");
    let mut command = door.command("single --resume r");
    let output = command.stdin(std::process::Stdio::null()).output().expect("profile starts");
    let said = Said::of(&output);
    assert_eq!(output.status.code(), Some(2), "{}", said.err);
    assert!(said.err.contains("  touch started") && said.err.contains("--yes"), "{}", said.err);
    assert!(!door.path("started").exists());
    door.exits(0, "single --resume r --yes");
    assert!(door.path("started").exists(), "what was torn off is done again");
}

#[test]
fn a_run_goes_on_only_in_its_folder_and_with_its_program() {
    let door = crate::door();
    let script = "touch started\n";
    for folder in ["a", "b"] {
        std::fs::create_dir(door.path(folder)).expect("the folder is new");
        door.write(&format!("{folder}/t.sh"), script);
    }
    let run_in = |folder: &str, arguments: &str| {
        let mut command = door.command(arguments);
        let output = command.current_dir(door.path(folder)).output().expect("profile starts");
        (output.status.code(), Said::of(&output).err)
    };
    let (code, err) = run_in("a", "single --device cpu:0 --repeats 1 --out ../r -- sh t.sh");
    assert_eq!(code, Some(0), "{err}");
    let launch = door.measurements("r")[0].launch.clone();
    std::fs::remove_file(door.run("r").launch_end_path(&launch)).expect("it has ended");

    let (code, err) = run_in("b", "single --resume ../r --yes");
    let words = "../r was begun in another folder, from which it takes its programs; go to that folder";
    assert!(code == Some(2) && err.contains(words), "{err}");
    assert!(!door.path("b/started").exists());

    std::fs::remove_file(door.path("a/started")).expect("the program ran");
    door.write("a/t.sh", "touch started other\n");
    let (code, err) = run_in("a", "single --resume ../r --yes");
    let words = "the program \"t.sh\" has changed since the run was begun; put back what it was, or begin";
    assert!(code == Some(2) && err.contains(words), "{err}");
    assert!(!door.path("a/started").exists());

    door.write("a/t.sh", script);
    let (code, err) = run_in("a", "single --resume ../r --yes");
    assert_eq!(code, Some(0), "{err}");
    assert!(door.path("a/started").exists(), "the missing launch is measured");
    let manifest = std::fs::read_to_string(door.run("r").manifest_path()).expect("it reads");
    assert!(!manifest.contains(&*door.path("a").to_string_lossy()), "no path that was not typed: {manifest}");
}

#[test]
fn a_run_that_takes_no_files_goes_on_in_any_folder() {
    let door = crate::door();
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 25 --repeats 1 --out r");
    std::fs::create_dir(door.path("b")).expect("the folder is new");
    let mut command = door.command("single --resume ../r");
    let output = command.current_dir(door.path("b")).output().expect("profile starts");
    assert_eq!(output.status.code(), Some(0), "{}", Said::of(&output).err);
}

#[test]
fn ctrl_c_and_a_closed_terminal_finish_the_files_and_exit_with_their_codes() {
    for (signal, code) in [(Signal::INT, 130), (Signal::HUP, 129)] {
        let door = crate::door();
        let mut profile = held(&door);
        profile.send(signal);
        let (ended_with, err) = profile.wait();
        assert_eq!(ended_with, Some(code), "{err}");
        assert!(err.contains("not measured") && err.contains("profile single --resume r"), "{err}");
        let end = door.run("r").end().expect("end.toml reads").expect("it was written");
        assert_eq!(i32::from(end.exit_code), code);
        assert!(!end.missing.is_empty());
        assert_eq!(door.leftovers(), Vec::<String>::new());
        door.write("go", "");
        door.exits(0, "single --resume r --yes");
        let end = door.run("r").end().expect("end.toml reads").expect("it was written");
        assert_eq!((end.exit_code, end.missing.len()), (0, 0));
    }
}

#[test]
fn a_program_that_is_to_outlive_its_terminal_does() {
    let door = crate::door();
    let single = door.command("single synthetic-sleep --device cpu:0 --steps 30 --repeats 2 --out r");
    let mut command = std::process::Command::new("nohup");
    command.arg(single.get_program()).args(single.get_args()).current_dir(door.path(""));
    command.envs(single.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut profile = Background::start(command);
    wait_until("a launch is measured", || door.path("r/measurements.csv").exists());
    profile.send(Signal::HUP);
    let (code, err) = profile.wait();
    assert_eq!(code, Some(0), "{err}");
}

/// The kernel may withdraw settings after the run began. Invalid weights simulate this.
#[test]
fn a_mode_that_cannot_be_set_up_is_a_row_and_the_run_comes_to_its_end() {
    let door = crate::door();
    door.exits(0, "colocate synthetic-sleep synthetic-sleep --device cpu:0 --steps 25 --repeats 1 --out r");
    let path = door.run("r").manifest_path();
    let manifest = std::fs::read_to_string(&path).expect("it is there");
    std::fs::write(&path, manifest.replace("time-slice", "cpu-shares:10001/1")).expect("it is ours");
    door.exits(1, "colocate --resume r");
    let rows = door.measurements("r");
    let refused: Vec<_> = rows.iter().filter(|row| row.err == Some(ErrorKind::Sharing)).collect();
    assert_eq!(refused.iter().map(|row| row.seat).collect::<Vec<_>>(), [Some(0), Some(1)]);
    for row in refused {
        let detail = row.err_detail.as_deref().unwrap_or_default();
        assert!(detail.starts_with("cpu-shares:10001/1 could not be set up: "), "{detail}");
    }
    let end = door.run("r").end().expect("end.toml reads").expect("it was written");
    assert_eq!((end.exit_code, end.missing.len()), (1, 0));
    let before = lines(&door, "r");
    door.exits(1, "derive r");
    assert_eq!(lines(&door, "r"), before, "it is derived from raw files");
    // Visit 6 had no launches 6 and 7. The job was measured alone again around it, in launches 5 and 8,
    // because a group is compared with those of the same part.
    assert_eq!(door.run("r").next_number().expect("it reads"), 9, "a visit without launches has a number");
}

#[test]
fn another_version_does_not_go_on_with_a_run() {
    let door = crate::door();
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 25 --repeats 1 --out r");
    let manifest = door.run("r").manifest_path();
    let text = std::fs::read_to_string(&manifest).expect("the run has a manifest");
    let ours = concat!("version = \"", env!("CARGO_PKG_VERSION"), "\"");
    std::fs::write(&manifest, text.replacen(ours, "version = \"0.0.9\"", 1)).expect("it is ours");
    let said = door.exits(2, "single --resume r");
    let words = concat!("it was begun with Tandem 0.0.9, and here is ", env!("CARGO_PKG_VERSION"));
    assert!(said.err.contains(words), "{}", said.err);
    door.exits(0, "derive r");
}

#[test]
fn a_run_whose_files_go_away_ends_with_a_last_file_that_says_what_is_missing() {
    let door = crate::door();
    let mut profile = held(&door);
    std::fs::rename(door.path("r/jobs"), door.path("r/gone")).expect("it is ours");
    door.write("go", "");
    let (code, err) = profile.wait();
    assert!(code.is_some_and(|code| code != 0) && err.contains("error: "), "{code:?}: {err}");
    let end = door.run("r").end().expect("end.toml reads").expect("it was written");
    assert_eq!(Some(i32::from(end.exit_code)), code);
    assert!((1..=3).contains(&end.missing.len()), "{:?}", end.missing);
    std::fs::rename(door.path("r/gone"), door.path("r/jobs")).expect("it is ours");
    door.exits(0, "single --resume r --yes");
    assert_eq!(door.measurements("r").len(), 6);
}
