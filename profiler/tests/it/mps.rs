//! Sharing by MPS, by a stand-in for NVIDIA's control program and for the driver: who is a client, with which limits, and what is
//! left of the daemon.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

use front_door::{Background, Door, executable, wait_until};
use record::rows::{self, DoctorRow, ErrorKind, ExportRow, Health, Interference, Status};
use rustix::process::Signal;

use crate::foreign::{with_fake_pytorch, with_program};

const CONTROL: &str = include_str!("mps/nvidia-cuda-mps-control");

/// `profile` with the stand-ins, of which the one for MPS behaves in this way. Its folders are below `tmp`.
fn command(door: &Door, arguments: &str, behaves: &str) -> Command {
    for folder in ["path", "tmp"] {
        fs::create_dir_all(door.path(folder)).expect("the folder is writable");
    }
    executable(&door.path("path").join("nvidia-cuda-mps-control"), CONTROL);
    let mut command = without_control(door, arguments);
    let others = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(door.path("path")).chain(std::env::split_paths(&others));
    command
        .env("PATH", std::env::join_paths(all).expect("no colon is in a path"))
        .env("TMPDIR", door.path("tmp"))
        .env("MPS_CALLS", door.path("calls"))
        .env("MPS_BEHAVES", behaves);
    command
}

fn without_control(door: &Door, arguments: &str) -> Command {
    let script =
        fake_driver::H200.replace("memory_used_bytes = { start = 20000000000 }", "memory_used_bytes = {}");
    let library = fake_driver::install(&door.path(""), &script).expect("the folder is writable");
    let mut command = door.command(arguments);
    command.env("TANDEM_NVML", library);
    command
}

const PAIR: &str =
    "colocate synthetic-sleep synthetic-sleep --device cuda:0 --seconds 0.3 --repeats 1 --out r";

fn output(command: &mut Command, code: i32) -> Output {
    let output = command.output().expect("profile starts");
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn calls(door: &Door) -> Vec<String> {
    fs::read_to_string(door.path("calls")).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// The folders of daemons that are there.
fn folders(door: &Door) -> Vec<PathBuf> {
    let entries = door.path("tmp").read_dir().expect("it is ours").flatten().map(|entry| entry.path());
    entries.filter(|path| path.to_string_lossy().contains("tandem-mps-")).collect()
}

#[test]
fn members_are_clients_of_a_daemon_that_is_gone_afterwards() {
    let door = crate::door();
    let mut command = command(&door, &format!("{PAIR} --sharing mps,time-slice"), "");
    // A relative folder, and a limit for other clients.
    command.env("TMPDIR", "tmp").env("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "10");
    output(&mut command, 0);
    let rows = door.interference("r");
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row.status == Status::Ok && row.slowdown.is_some()), "{rows:?}");
    // Both members are checked at their first steps, before they run together and after it. There is a daemon for this mode alone.
    let mut expected = vec!["-f GPU-00000000-0000-0000-0000-000000000000 all", "get_server_list"];
    expected.extend(["get_server_list", "get_client_list 4711"].repeat(6));
    expected.push("quit");
    assert_eq!(calls(&door), expected);
    assert_eq!(folders(&door), Vec::<PathBuf>::new());
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

#[test]
fn each_member_has_its_limits_and_they_reach_the_exported_table() {
    const SAYS: &str = "import os\nopen(f'limits-{os.getpid()}', 'w').write(' '.join(os.environ.get(name, '-') for name in \
        ('CUDA_MPS_ACTIVE_THREAD_PERCENTAGE', 'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT')))\n";
    let Some(door) = with_program(&format!("{SAYS}train()")) else { return };
    let arguments =
        "colocate --device cuda:0 --seconds 0.3 --repeats 1 --out r --sharing mps:70/30:20GiB/512MiB";
    let program = ["--cmd", "python3 train.py", "--cmd", "python3 train.py"];
    output(with_fake_pytorch(&mut command(&door, arguments, "")).args(program), 0);
    let limits = || door.path("").read_dir().expect("it is ours").flatten().map(|entry| entry.path());
    let limits = limits().filter(|path| path.to_string_lossy().contains("limits-"));
    let mut limits: Vec<String> = limits.map(|path| fs::read_to_string(path).expect("it reads")).collect();
    limits.sort_unstable();
    limits.dedup();
    assert_eq!(limits, ["- -", "30 0=512M", "70 0=20480M"], "alone, and as each member");
    output(&mut door.command("export r --out table.csv"), 0);
    let table: Vec<ExportRow> = rows::read(&door.path("table.csv")).expect("the table reads back");
    let limits = table.iter().filter(|row| row.sharing_mode == "mps");
    let limits: Vec<_> = limits.map(|row| (row.thread_limit_percent, row.memory_limit_bytes)).collect();
    assert_eq!(limits, [(Some(70), Some(20 << 30)), (Some(30), Some(512 << 20))]);
}

#[test]
fn a_member_that_is_started_again_is_checked_at_its_first_step() {
    let Some(door) = with_program("train(150)") else { return };
    let arguments = "colocate synthetic-sleep --device cuda:0 --seconds 1 --repeats 1 --out r --sharing mps";
    output(with_fake_pytorch(&mut command(&door, arguments, "")).args(["--cmd", "python3 train.py"]), 0);
    let rows = door.interference("r");
    assert!(rows.iter().all(|row| row.status == Status::Ok), "{rows:?}");
    let run = door.run("r");
    let together = |launch: &String| run.spec(launch).expect("it was told").seat.is_some();
    let launches = run.launches().expect("jobs/ is there").iter().filter(|launch| together(launch)).count();
    assert!(launches > 2, "the program has ended and was started again");
    let checks = calls(&door).iter().filter(|call| *call == "get_client_list 4711").count();
    // The last launch may have had no step yet.
    assert!((launches - 1 + 2..=launches + 4).contains(&checks), "{checks} checks of {launches} launches");
}

/// The reason why the members did not share; each of them has a row with it.
fn reason_of_all(rows: &[Interference]) -> &str {
    let reason = rows[0].err_detail.as_deref().unwrap_or_default();
    assert!(rows.iter().all(|row| row.status != Status::Ok && row.err_detail.as_deref() == Some(reason)));
    reason
}

#[test]
fn a_member_that_is_no_client_is_no_number_of_mps() {
    let Some(door) = with_program("train()") else { return };
    let arguments = "colocate --device cuda:0 --seconds 0.3 --repeats 1 --out r --sharing mps";
    let programs = ["--cmd", "python3 train.py", "--cmd", "env -u CUDA_MPS_PIPE_DIRECTORY python3 train.py"];
    output(with_fake_pytorch(&mut command(&door, arguments, "")).args(programs), 1);
    let rows = door.interference("r");
    let reason = reason_of_all(&rows);
    assert!(
        reason.contains("does not share as requested: process")
            && reason.ends_with("is no client of the MPS daemon, so it ran beside the others without MPS"),
        "{reason}"
    );
    assert_eq!(calls(&door).last().map(String::as_str), Some("quit"));
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

#[test]
fn a_member_without_steps_is_refused() {
    let door = crate::door();
    let arguments =
        "colocate synthetic-sleep --device cuda:0 --seconds 0.3 --repeats 1 --out r --sharing mps";
    output(command(&door, arguments, "").args(["--cmd", "sleep 0.2"]), 1);
    let rows = door.interference("r");
    assert!(
        rows.iter().all(|row| row.status == Status::Unsupported && row.err == Some(ErrorKind::Unsupported))
    );
    let reason = reason_of_all(&rows);
    assert!(
        reason.contains("obeys no grant, and only a granted step shows that it is a client of MPS"),
        "{reason}"
    );
    assert_eq!(calls(&door), Vec::<String>::new());
}

#[test]
fn a_daemon_that_does_not_start_or_dies_is_the_reason_of_the_row() {
    let door = crate::door();
    let arguments = format!("{PAIR} --sharing mps");
    output(&mut command(&door, &arguments, "refuses"), 1);
    let rows = door.interference("r");
    let reason = reason_of_all(&rows);
    assert!(
        reason.contains("mps could not be set up: the MPS daemon has ended by itself (exit status: 1)")
            && reason.ends_with("An instance of this daemon is already running"),
        "{reason}"
    );
    fs::remove_dir_all(door.path("r")).expect("it is ours");

    // Killed while the members share: they are found to be no clients of it afterwards.
    output(&mut command(&door, &arguments, "dies"), 1);
    let rows = door.interference("r");
    let reason = reason_of_all(&rows);
    assert!(reason.contains("the MPS daemon has ended by itself (signal: 9 (SIGKILL))"), "{reason}");
    assert_eq!(folders(&door), Vec::<PathBuf>::new());
    door.wait_until_nothing_is_left();
}

#[test]
fn a_daemon_that_does_not_quit_is_killed_and_said() {
    let door = crate::door();
    let output = output(&mut command(&door, &format!("{PAIR} --sharing mps"), "stays"), 0);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("warning: the MPS daemon did not quit within 10s, and was killed"), "{said}");
    assert_eq!(folders(&door), Vec::<PathBuf>::new());
    door.wait_until_nothing_is_left();
}

#[test]
fn no_daemon_outlives_a_harness_that_is_killed() {
    let door = crate::door();
    let mut run = Background::start(command(&door, &format!("{PAIR} --sharing mps"), "hangs"));
    wait_until("the daemon is asked for its clients", || {
        calls(&door).iter().any(|call| call == "get_client_list 4711")
    });
    run.send(Signal::KILL);
    run.wait();
    door.wait_until_nothing_is_left();
    let left = folders(&door);
    assert_eq!(left.len(), 1, "a killed harness removes no folder");
    fs::create_dir(door.path("tmp/tandem-mps-of-others")).expect("it is ours");

    let again = format!("{PAIR} --sharing mps").replace("--out r", "--out again");
    output(&mut command(&door, &again, ""), 0);
    assert_eq!(
        folders(&door),
        [door.path("tmp/tandem-mps-of-others")],
        "a folder without a lock is no daemon's"
    );
}

#[test]
fn the_doctor_says_whether_a_gpu_can_be_shared() {
    let door = crate::door();
    let row = |command: &mut Command| {
        let output = command.output().expect("profile starts");
        let rows: Vec<DoctorRow> = rows::from_json(&String::from_utf8_lossy(&output.stdout)).expect("rows");
        let row = rows.into_iter().find(|row| row.about == "mps").expect("there is a GPU");
        (row.health, row.found)
    };
    let row_with_control = row(&mut command(&door, "doctor --json", ""));
    assert_eq!(row_with_control, (Health::Ok, "can share cuda:0 by a daemon of its own".into()));
    let (health, why) = row(without_control(&door, "doctor --json").env("PATH", door.path("nowhere")));
    assert!(
        health == Health::Lacks && why.starts_with("there is no nvidia-cuda-mps-control in PATH or"),
        "{why}"
    );
    assert_eq!(calls(&door), Vec::<String>::new(), "no daemon was started");
}

#[test]
fn what_mps_cannot_share_is_refused_before_anything_starts() {
    let door = crate::door();
    let refused = |command: &mut Command| {
        let output = output(command, 2);
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let pair = |more: &str| format!("{PAIR} --sharing mps").replace("--out r", more);
    let said = refused(&mut command(&door, &pair("--out a").replace("cuda:0", "cpu:0"), ""));
    assert!(said.contains("mps shares a GPU, and cpu:0 is not a GPU; write time-slice"), "{said}");
    let mut no_control = without_control(&door, &pair("--out b"));
    let said = refused(no_control.env("PATH", door.path("nowhere")));
    assert!(said.contains("there is no nvidia-cuda-mps-control in PATH or /usr/bin, "), "{said}");
    let said = refused(&mut command(&door, &pair("--out c").replace("mps", "mps:60/30/10"), ""));
    assert!(said.contains("mps:60/30/10 is for 3 members, and the group has 2"), "{said}");
    assert_eq!(calls(&door), Vec::<String>::new());
}
