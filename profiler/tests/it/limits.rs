//! Limits of the system: of the size of files and of processes.

use std::{fs, process::Command};

use front_door::{Door, Said};
use record::rows::{ErrorKind, Status};

/// Runs `profile` from a shell that first does `before`.
fn after(door: &Door, before: &str, arguments: &str) -> (Option<i32>, Said) {
    let profile = door.command(arguments);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{before} && exec \"$@\""), "sh"]).arg(profile.get_program());
    command.args(profile.get_args()).current_dir(door.path(""));
    command.env("TANDEM_TEST_FOLDER", door.path(""));
    let output = command.output().expect("sh starts");
    (output.status.code(), Said::of(&output))
}

#[test]
fn a_file_that_becomes_too_large_is_an_error_with_a_remedy_and_tables_are_there() {
    let door = crate::door();
    let (code, said) =
        after(&door, "ulimit -f 1", "single synthetic-sleep --device cpu:0 --repeats 1 --out tiny");
    assert_eq!(code, Some(5), "{}", said.err);
    let message = "tiny/manifest.toml cannot be written: File too large (os error 27); the size of files is limited; raise `ulimit -f`";
    assert!(said.err.contains(message), "{}", said.err);

    // A line has two bytes and the event of its step a hundred: the file of events is too large long before the log.
    door.write("many", "while echo s; do sleep 0.01; done\n");
    let many = "single --device cpu:0 --repeats 1 --steps-regex ^s --out r -- sh many";
    let (code, said) = after(&door, "ulimit -f 16", many);
    assert!(matches!(code, Some(1 | 5)), "{code:?}: {}", said.err);
    let [row] = &door.measurements("r")[..] else { panic!("a launch, a row") };
    assert_eq!((row.status, row.err), (Status::Failed, Some(ErrorKind::Internal)), "{row:?}");
    let detail = row.err_detail.as_deref().unwrap_or_default();
    assert!(detail.contains("its steps cannot be written down: File too large (os error 27)"), "{detail}");
    assert_eq!(door.summaries("r").len(), 1);

    let large = "single --device cpu:0 --repeats 1 --steps-regex ^s --out own -- head -c 100000 /dev/zero";
    let (code, said) = after(&door, "ulimit -f 16", large);
    assert_eq!(code, Some(1), "{}", said.err);
    let [row] = &door.measurements("own")[..] else { panic!("a launch, a row") };
    assert_eq!((row.status, row.err), (Status::Failed, Some(ErrorKind::Crashed)), "{row:?}");
    let detail = row.err_detail.as_deref().unwrap_or_default();
    assert!(
        detail.contains("crashed by SIGXFSZ, as it wrote a larger file than `ulimit -f` allows"),
        "{detail}"
    );
    door.wait_until_nothing_is_left();
}

/// Numbers of processes from too few for `profile` itself to enough.
#[test]
fn where_no_process_can_be_started_the_limit_is_named() {
    let door = crate::door();
    let group = format!("/sys/fs/cgroup/pids/tandem-test-{}", std::process::id());
    if fs::create_dir(&group).is_err() {
        schema::skips::skipped("cgroups", "it makes a group of the controller `pids`");
        return;
    }
    let mut named = 0;
    for most in 3..14 {
        fs::write(format!("{group}/pids.max"), most.to_string()).expect("the group is ours");
        let join = format!("echo $$ > {group}/cgroup.procs");
        let (code, said) =
            after(&door, &join, &format!("single --device cpu:0 --repeats 1 --out {most} -- true"));
        assert!(matches!(code, Some(0 | 1 | 2 | 5)), "{most}: {code:?}: {}", said.err);
        let is_named = said.err.contains("raise `ulimit -u`, or pids.max of the cgroup");
        assert!(is_named || code == Some(0), "{most}: {}", said.err);
        named += u32::from(is_named);
        door.wait_until_nothing_is_left();
    }
    fs::remove_dir(group).expect("no process is in it");
    assert!((1..11).contains(&named), "it fails with few processes, and not with many: {named}");
}
