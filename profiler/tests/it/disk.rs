//! A full disk during a run: no line is torn, and the run reports it.

use std::{fs, path::Path, process::Command};

use front_door::{Door, Said};
use schema::{
    events::{EventError, EventReader},
    rows::{self, DeviceSample, ErrorKind, HostSample},
    run_dir::RunDir,
};

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
}
