//! A full disk during a run: no line is torn, and the run reports it. A power cut: what is in its place is on disk.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use front_door::{Door, Said};
use record::{
    rows::{self, DeviceSample, ErrorKind, HostSample},
    run_dir::RunDir,
};
use schema::events::{EventError, EventReader};

/// Runs `profile single` on a file system of 1 MiB and fills the file system once steps and readings are written. With `again` as the
/// first argument, the script frees the space once `profile` reports a full disk. It copies the run to the folder of the test.
const SCRIPT: &str = r#"
mount -t tmpfs -o size=1m tmpfs small || exit 77
"$0" single synthetic-sleep --device cpu:0 --seconds 3.5 --repeats 2 --out small/r 2> err > out &
profile=$!
until grep -qs '"step"' small/r/events/*.jsonl && [ $(wc -l < small/r/devices.csv) -gt 1 ]; do
    kill -0 $profile || exit 78
    sleep 0.05
done
dd if=/dev/zero of=small/fill bs=512 2> filled
if [ "$1" = again ]; then
    until grep -q 'No space left\|disk was full' err || ! kill -0 $profile; do sleep 0.05; done
    rm small/fill
fi
wait $profile
code=$?
cp -r small/r r
exit $code
"#;

/// The exit code and the run, or `None` if no file system can be mounted here.
fn fill_up(door: &Door, again: &str) -> Option<(i32, String)> {
    fs::create_dir(door.path("small")).expect("the folder is writable");
    let profile = door.command("");
    let mut command = Command::new("unshare");
    command
        .args(["-Urm", "sh", "-c", SCRIPT])
        .arg(profile.get_program())
        .arg(again)
        .current_dir(door.path(""));
    let code = command.status().ok().and_then(|status| status.code());
    if code.is_none_or(|code| code == 77) || !door.path("err").exists() {
        schema::skips::skipped("disk", "no file system can be mounted in a namespace of one's own here");
        return None;
    }
    Some((code?, fs::read_to_string(door.path("err")).expect("it is there")))
}

/// Whether all lines of raw files are complete, except for the last event of a killed writer.
fn check_lines(run: &RunDir, folder: &Path) {
    rows::read_appended::<DeviceSample>(&run.devices_path()).expect("no row is torn in its middle");
    rows::read_appended::<HostSample>(&run.host_path()).expect("no row is torn in its middle");
    for file in fs::read_dir(folder.join("events")).expect("it is there").flatten() {
        let mut lines = Vec::new();
        let read = EventReader::open(&file.path(), 0).and_then(|mut reader| reader.poll(&mut lines));
        assert!(!matches!(read, Err(EventError::Garbled { .. })), "{read:?}");
        assert!(read.is_ok() && !lines.is_empty(), "{read:?}");
    }
}

/// The files of a run that were not finished.
fn unfinished(run: &Path) -> Vec<PathBuf> {
    let folders = ["", "jobs", "groups"].map(|folder| run.join(folder));
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|it| it == "new")).collect()
}

#[test]
fn a_disk_that_is_full_for_a_while_tears_no_line_and_its_launch_is_measured_again() {
    let door = crate::door();
    let Some((code, err)) = fill_up(&door, "again") else { return };
    assert_eq!(code, 5, "{err}");
    check_lines(&door.run("r"), &door.path("r"));
    // Whether the launch has a row depends on when there was space again; it is repeated in either case.
    let output = door.command("single --resume r").output().expect("profile starts");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", Said::of(&output).err);
    let rows = door.measurements("r");
    let failed: Vec<_> = rows.iter().filter_map(|row| row.err).collect();
    assert!(failed.iter().all(|err| *err == ErrorKind::DiskFull), "{failed:?}");
    let ok: Vec<u32> = rows.iter().filter(|row| row.err.is_none()).map(|row| row.repeat).collect();
    assert_eq!(ok, [0, 1]);
}

#[test]
fn a_disk_that_stays_full_ends_the_run_with_its_own_exit_code() {
    let door = crate::door();
    let Some((code, err)) = fill_up(&door, "never") else { return };
    assert_eq!(code, 5, "{err}");
    assert!(err.contains("No space left on device") || err.contains("the disk was full"), "{err}");
    check_lines(&door.run("r"), &door.path("r"));
    assert_eq!(unfinished(&door.path("r")), Vec::<PathBuf>::new());
}

#[test]
fn what_killed_programs_have_not_finished_is_removed_and_files_of_the_user_stay() {
    let door = crate::door();
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 25 --repeats 1 --out r");
    let ours = ["summary.csv.new", "end.toml.new", "jobs/0007-lstm.json.new", "jobs/0007-lstm.end.json.new"];
    let users = ["notes.new", "best.pt.new", "jobs/notes.json.new", "jobs/+7-lstm.json.new"];
    ours.iter().chain(&users).for_each(|name| door.write(&format!("r/{name}"), "cut off"));
    for command in ["derive r", "single --resume r"] {
        door.exits(0, command);
        let mut left = unfinished(&door.path("r"));
        left.sort();
        let mut expected = users.map(|name| door.path("r").join(name));
        expected.sort();
        assert_eq!(left, expected, "{command}");
        assert_eq!(fs::read_to_string(door.path("r/notes.new")).expect("it stays"), "cut off");
    }
}

/// All files and links below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_path_buf()];
    let mut files = Vec::new();
    while let Some(next) = folders.pop() {
        for path in fs::read_dir(next).expect("it is a folder").flatten().map(|entry| entry.path()) {
            let is_folder = path.is_dir() && !path.is_symlink();
            if is_folder { &mut folders } else { &mut files }.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn what_processes_of_killed_launches_needed_is_removed_and_all_other_entries_stay() {
    let door = crate::door();
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 25 --repeats 1 --out r");
    let ended = "0001-synthetic-sleep";
    let run = door.run("r");
    let spec = fs::read_to_string(run.spec_path(ended)).expect("it has begun");
    for killed in ["0006-a", "0007-a"] {
        fs::write(run.spec_path(killed), spec.replace(ended, killed)).expect("the run is writable");
        fs::write(run.events_path(killed, 0), "").expect("the run is writable");
    }
    fs::create_dir(run.rendezvous_path("0007-a")).expect("the run is writable");
    fs::write(run.rendezvous_path("0007-a").join("mine"), "").expect("the run is writable");
    fs::write(run.control_path("0007-a"), "").expect("the run is writable");
    door.write("outside", "mine");
    let mut before = files_below(&door.path("r/jobs"));
    before.extend(files_below(&door.path("r/events")));
    // A launch of which the run has no spec was not started by the harness.
    for launch in ["0006-a", ended, "0009-a"] {
        let hook = run.hook_path(launch);
        fs::create_dir_all(hook.join("tandem_hook/__pycache__")).expect("the run is writable");
        let mut made =
            vec![run.rendezvous_path(launch), run.notes_path(launch), hook.join("sitecustomize.py")];
        made.extend(
            ["job.py", "__pycache__/job.cpython-311.pyc"].map(|name| hook.join("tandem_hook").join(name)),
        );
        made.iter().for_each(|file| fs::write(file, "").expect("the run is writable"));
        symlink(door.path("outside"), run.control_path(launch)).expect("the run is writable");
        made.push(run.control_path(launch));
        before.extend(if launch == "0006-a" { Vec::new() } else { made });
    }
    before.sort();
    for command in ["derive r", "single --resume r"] {
        door.exits(0, command);
        let mut after = files_below(&door.path("r/jobs"));
        after.extend(files_below(&door.path("r/events")));
        after.sort();
        assert_eq!(after, before, "{command}");
        assert!(!run.hook_path("0006-a").exists(), "{command}");
        assert_eq!(fs::read_to_string(door.path("outside")).expect("it stays"), "mine");
    }
}

/// The system calls that sync or rename files, of each thread of a command, or `None` if none can be traced here.
fn calls(door: &Door, arguments: &str) -> Option<Vec<Vec<String>>> {
    fs::create_dir(door.path("calls")).expect("the folder is writable");
    let profile = door.command(arguments);
    let mut strace = Command::new("strace");
    strace.args(["-ff", "-y", "-s", "4096", "-o", "calls/of"]);
    strace.args(["-e", "trace=fsync,fdatasync,rename,renameat,renameat2"]);
    strace.arg(profile.get_program()).args(profile.get_args()).current_dir(door.path(""));
    let is_traced = strace.output().is_ok_and(|output| output.status.success());
    let done = |file: fs::DirEntry| {
        let text = fs::read_to_string(file.path()).expect("strace has written it");
        text.lines().filter(|call| call.ends_with(" = 0")).map(str::to_owned).collect::<Vec<_>>()
    };
    let calls = fs::read_dir(door.path("calls")).expect("it is there").flatten().map(done);
    let calls: Vec<Vec<String>> = calls.filter(|calls| !calls.is_empty()).collect();
    if !is_traced || calls.is_empty() {
        schema::skips::skipped("strace", "strace is missing, or may not trace a process here");
        return None;
    }
    Some(calls)
}

#[test]
fn a_file_is_on_disk_before_it_moves_to_its_place_and_its_name_right_afterwards() {
    let door = crate::door();
    let arguments = "single synthetic-sleep --device cpu:0 --steps 25 --repeats 1 --out r";
    let Some(threads) = calls(&door, arguments) else { return };
    let launch = &door.measurements("r")[0].launch;
    let (events, end) = (format!("r/events/{launch}.0.jsonl"), format!("r/jobs/{launch}.end.json"));
    let syncs = |call: &str, file: &str| call.contains("sync(") && call.contains(&format!("/{file}>)"));
    let mut moved = Vec::new();
    for calls in &threads {
        for (at, call) in calls.iter().enumerate().filter(|(_, call)| call.contains("rename")) {
            let names: Vec<&str> = call.split('"').skip(1).step_by(2).collect();
            let [from, to] = names[..] else { panic!("two names: {call}") };
            assert_eq!(from, format!("{to}.new"), "{call}");
            assert!(syncs(&calls[at - 1], from), "{from} moved before it was on disk: {calls:#?}");
            let folder = Path::new(to).parent().and_then(Path::to_str).expect("a folder of the run");
            assert!(syncs(&calls[at + 1], folder), "the name of {to} was not on disk: {calls:#?}");
            if to == end {
                let before = calls[..at].iter().any(|call| syncs(call, &events));
                assert!(before, "a launch has an end before its events are on disk: {calls:#?}");
            }
            moved.push(to);
        }
    }
    for file in ["r/manifest.toml", "r/measurements.csv", "r/end.toml", &end] {
        assert!(moved.contains(&file), "{file}: {moved:?}");
    }
}
