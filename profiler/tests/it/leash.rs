//! A leash, with the test in the role of the harness.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Child, ChildStdin, Command, Stdio},
    time::Duration,
};

use front_door::{let_pass, wait_for, wait_until};
use procfs::process::{Process, all_processes};
use record::launch_end::RankEnd;
use rig::processes::descendants;
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

/// A shell, its background sleep, a daemon that forked twice into a session of its own, cleared its
/// environment and ignores SIGTERM, and a child that ignores SIGTERM.
const FAMILY: &str = "
    sleep 1000 &
    setsid --fork env -i /bin/sh -c 'trap \"\" TERM; sleep 1000; true'
    sh -c 'trap \"\" TERM; sleep 1000; true' &
    wait";
const NAMES: [&str; 6] = ["sh", "sh", "sh", "sleep", "sleep", "sleep"];

struct Leash {
    process: Child,
    socket: UnixStream,
    reports: BufReader<UnixStream>,
    stdin: Option<ChildStdin>,
    dir: TempDir,
}

impl Leash {
    fn start(device: &str, command: &[&str]) -> Leash {
        let dir = tempfile::tempdir().unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_profile"))
            .arg("leash")
            .arg(dir.path().join("out"))
            .arg(device)
            .args(command)
            .stdin(Stdio::piped())
            .stdout(OwnedFd::from(theirs))
            .stderr(fs::File::create(dir.path().join("err")).unwrap())
            .spawn()
            .unwrap();
        let stdin = process.stdin.take();
        Leash { reports: BufReader::new(ours.try_clone().unwrap()), socket: ours, process, stdin, dir }
    }

    fn shell(script: &str) -> Leash {
        Leash::start("cpu", &["/bin/sh", "-c", script])
    }

    fn report(&mut self) -> String {
        let mut line = String::new();
        self.reports.read_line(&mut line).unwrap();
        line.trim_end().to_string()
    }

    /// Reads the first report, which is the process id of the program.
    fn program(&mut self) -> i32 {
        let report = self.report();
        report.strip_prefix("started ").unwrap_or_else(|| panic!("{report}")).parse().unwrap()
    }

    fn end(&mut self) -> RankEnd {
        let mut report = self.report();
        while ["terminated", "exited"].contains(&report.as_str()) {
            report = self.report();
        }
        let end = RankEnd::from_line(&report).unwrap();
        assert!(self.process.wait().unwrap().success());
        end
    }

    fn pid(&self) -> i32 {
        self.process.id() as i32
    }

    /// Waits until exactly these programs run below the leash.
    fn family(&self, names: &[&str]) -> Vec<Process> {
        family(self.pid(), names)
    }

    fn output(&self) -> String {
        fs::read_to_string(self.dir.path().join("out")).unwrap()
    }

    fn wait_for_output(&self) {
        wait_until("the program prints something", || !self.output().is_empty());
    }
}

/// Waits until exactly these programs, in alphabetical order, run below `root`, so that no shell is still starting one. Returns handles,
/// which stay valid when the kernel reuses a process id.
pub(crate) fn family(root: i32, names: &[&str]) -> Vec<Process> {
    wait_for("the family is complete", || {
        let below = descendants(root).into_iter().filter_map(|id| Process::new(id.pid).ok());
        let named = below.filter_map(|process| Some((process.stat().ok()?.comm, process)));
        let (mut found, family): (Vec<String>, Vec<Process>) = named.unzip();
        found.sort();
        if found == names { Ok(family) } else { Err(found) }
    })
}

/// Returns whether `/proc` lists the process. A zombie is listed and counts as left behind.
pub(crate) fn is_listed(process: &Process) -> bool {
    process.stat().is_ok()
}

/// Returns whether the process still runs. A zombie has ended.
pub(crate) fn is_alive(process: &Process) -> bool {
    process.stat().is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

fn wait_until_gone(family: &[Process]) {
    wait_until("all of them are gone", || !family.iter().any(is_listed));
}

fn context_switches(pid: i32) -> Vec<String> {
    let mut lines = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        lines.extend(status.lines().filter(|line| line.contains("ctxt_switches")).map(String::from));
    }
    lines
}

#[test]
fn nothing_is_left_when_the_harness_goes() {
    let mut leash = Leash::shell(FAMILY);
    leash.program();
    let family = leash.family(&NAMES);
    let Leash { mut process, socket, reports, .. } = leash;
    drop((socket, reports));
    wait_until_gone(&family);
    assert!(process.wait().unwrap().success());
}

#[test]
fn what_a_program_leaves_behind_goes_with_it() {
    let mut leash = Leash::shell("setsid --fork env -i sleep 1000; sleep 1000 & read line; exit 7");
    leash.program();
    let family = leash.family(&["sh", "sleep", "sleep"]);
    leash.stdin.as_ref().unwrap().write_all(b"go\n").unwrap();
    assert_eq!(leash.report(), "exited", "something is left to be killed");
    let end = leash.end();
    assert_eq!((end.exit_code, end.signal), (Some(7), None));
    assert!(!family.iter().any(is_listed));
}

#[test]
fn orphans_that_end_are_reaped_while_the_program_runs() {
    let mut leash = Leash::shell("setsid --fork true; setsid --fork true; echo up; exec sleep 1000");
    leash.program();
    leash.wait_for_output();
    // The leash has adopted both by now.
    let children = || {
        let stats = all_processes().unwrap().filter_map(|process| process.ok()?.stat().ok());
        stats.filter(|stat| stat.ppid == leash.pid()).count()
    };
    wait_until("the program is the only child, zombies included", || children() == 1);
}

#[test]
fn a_program_may_answer_sigterm_in_its_own_way() {
    let mut leash = Leash::shell("trap 'exit 5' TERM; echo up; while :; do sleep 0.05; done");
    leash.program();
    leash.wait_for_output();
    leash.socket.write_all(b"t").unwrap();
    assert_eq!(leash.end().exit_code, Some(5));
}

#[test]
fn a_program_that_ignores_sigterm_is_killed_when_asked_for() {
    let mut leash = Leash::shell(FAMILY);
    leash.program();
    let family = leash.family(&NAMES);
    leash.socket.write_all(b"k").unwrap();
    wait_until_gone(&family);
    let end = leash.end();
    assert_eq!((end.exit_code, end.signal), (None, Some(Signal::KILL.as_raw())));
}

#[test]
fn the_program_does_not_outlive_a_leash_that_is_killed() {
    let mut leash = Leash::start("cpu", &["sleep", "1000"]);
    leash.program();
    let family = leash.family(&["sleep"]);
    leash.process.kill().unwrap();
    leash.process.wait().unwrap();
    wait_until("it has ended", || !family.iter().any(is_alive));
    assert_eq!(leash.report(), "");
}

#[test]
fn what_the_program_used_is_accounted_for() {
    // The child of the shell uses memory and time.
    let mut leash = Leash::shell("dd if=/dev/zero of=/dev/null bs=64M count=8 2>&1; true");
    leash.program();
    let end = leash.end();
    assert!(end.rss_peak_bytes.unwrap() > 64 << 20, "{end:?}");
    assert!(end.cpu_ns.unwrap() > 1_000_000, "{end:?}");
}

#[test]
fn stdin_is_between_the_harness_and_the_program() {
    let mut leash = Leash::start("cpu", &["cat"]);
    leash.program();
    let mut stdin = leash.stdin.take().unwrap();
    stdin.write_all(b"hello\n").unwrap();
    drop(stdin);
    assert_eq!(leash.end().exit_code, Some(0));
    assert_eq!(leash.output(), "hello\n");
    // No other process reads it, so that a program that closes its stdin is detected.
    let mut leash = Leash::shell("exec <&-; echo closed; sleep 1000");
    leash.program();
    leash.wait_for_output();
    let mut stdin = leash.stdin.take().unwrap();
    // A process that another test forks holds a copy of the pipe until it executes its program.
    let error = wait_for("writing to the pipe fails", || stdin.write_all(b"x").map_or_else(Ok, Err));
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

#[test]
fn a_program_is_bound_to_its_cores() {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let core = (0..1024).find(|core| allowed.is_set(*core)).unwrap();
    let device = format!("cpu:{core}");
    let mut leash = Leash::start(&device, &["grep", "Cpus_allowed_list", "/proc/self/status"]);
    leash.program();
    assert_eq!(leash.end().exit_code, Some(0));
    assert_eq!(leash.output(), format!("Cpus_allowed_list:\t{core}\n"));
}

#[test]
fn what_cannot_be_started_is_refused_with_the_reason() {
    let mut leash = Leash::start("cpu", &["/no/such/program"]);
    let report = leash.report();
    assert!(report.starts_with("refused cannot start /no/such/program: No such file"), "{report}");
    let mut leash = Leash::start("cpu:1000", &["true"]);
    let report = leash.report();
    assert!(report.starts_with("refused cannot run on cpu:1000; `profile doctor` lists"), "{report}");
}

#[test]
fn an_idle_leash_sleeps() {
    let mut leash = Leash::start("cpu", &["sleep", "1000"]);
    leash.program();
    // Both of its threads come to rest, and are not woken afterwards.
    wait_for("it sleeps", || {
        let before = context_switches(leash.pid());
        let_pass(Duration::from_millis(300), "a leash that wakes up now and then does so in this time");
        let after = context_switches(leash.pid());
        if after.len() == 4 && after == before { Ok(()) } else { Err((before, after)) }
    });
}

#[test]
fn a_leash_is_not_hit_by_what_is_meant_for_the_harness() {
    let mut leash = Leash::start("cpu", &["sleep", "1000"]);
    leash.program();
    let comm = fs::read_to_string(format!("/proc/{}/comm", leash.pid())).unwrap();
    assert_eq!(comm, "leash\n", "`pkill profile` goes by this name");
    let leader = Pid::from_raw(leash.pid());
    assert_eq!(rustix::process::getsid(leader).ok(), leader, "Ctrl-C goes to the session of a terminal");
}
