//! A leash, with the test in the role of the harness.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rig::processes::{ProcessId, descendants};
use rustix::process::{Pid, Signal};
use schema::spec::RankEnd;
use tempfile::TempDir;

/// The time within which all processes must be gone. A longer time means a hang, even on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// A shell, its background sleep, a daemon that forked twice into a session of its own, cleared its
/// environment and ignores SIGTERM, and a child that ignores SIGTERM.
const FAMILY: &str = "
    sleep 1000 &
    setsid --fork env -i /bin/sh -c 'trap \"\" TERM; sleep 1000; true'
    sh -c 'trap \"\" TERM; sleep 1000; true' &
    wait";
const FAMILY_SIZE: usize = 6;

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
        if report == "exited" {
            report = self.report();
        }
        let end = RankEnd::from_line(&report).unwrap();
        assert!(self.process.wait().unwrap().success());
        end
    }

    fn pid(&self) -> i32 {
        self.process.id() as i32
    }

    /// Waits until this number of processes are below the leash.
    fn family(&self, size: usize) -> Vec<ProcessId> {
        let begin = Instant::now();
        loop {
            let family = descendants(self.pid());
            if family.len() == size {
                return family;
            }
            assert!(begin.elapsed() < SOON, "{family:?}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn output(&self) -> String {
        fs::read_to_string(self.dir.path().join("out")).unwrap()
    }
}

/// The state of a listed process. A zombie is listed too, and counts as left behind.
fn entry(pid: i32) -> PathBuf {
    format!("/proc/{pid}").into()
}

fn assert_gone_soon(family: &[ProcessId]) {
    let begin = Instant::now();
    while family.iter().any(|process| entry(process.pid).exists()) {
        assert!(begin.elapsed() < SOON, "{family:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn context_switches(pid: i32) -> Vec<String> {
    let mut lines = Vec::new();
    for task in fs::read_dir(entry(pid).join("task")).unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        lines.extend(status.lines().filter(|line| line.contains("ctxt_switches")).map(String::from));
    }
    lines
}

#[test]
fn nothing_is_left_when_the_harness_goes() {
    let mut leash = Leash::shell(FAMILY);
    leash.program();
    let family = leash.family(FAMILY_SIZE);
    let Leash { mut process, socket, reports, .. } = leash;
    drop((socket, reports));
    assert_gone_soon(&family);
    assert!(process.wait().unwrap().success());
}

#[test]
fn what_a_program_leaves_behind_goes_with_it() {
    let mut leash = Leash::shell("setsid --fork env -i sleep 1000; sleep 1000 & read line; exit 7");
    leash.program();
    let family = leash.family(3);
    leash.stdin.as_ref().unwrap().write_all(b"go\n").unwrap();
    assert_eq!(leash.report(), "exited", "something is left to be killed");
    let end = leash.end();
    assert_eq!((end.exit_code, end.signal), (Some(7), None));
    assert!(family.iter().all(|process| !entry(process.pid).exists()));
}

#[test]
fn orphans_that_end_are_reaped_while_the_program_runs() {
    let mut leash = Leash::shell("setsid --fork true; setsid --fork true; sleep 1000");
    leash.program();
    let begin = Instant::now();
    let zombies = |leash: &Leash| {
        let mut stats = procfs::process::all_processes().unwrap().filter_map(|p| p.ok()?.stat().ok());
        stats.any(|stat| stat.ppid == leash.pid() && stat.state == 'Z')
    };
    leash.family(2);
    while zombies(&leash) {
        assert!(begin.elapsed() < SOON);
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_program_may_answer_sigterm_in_its_own_way() {
    let mut leash = Leash::shell("trap 'exit 5' TERM; echo up; while :; do sleep 0.05; done");
    leash.program();
    while leash.output().is_empty() {
        thread::sleep(Duration::from_millis(5));
    }
    leash.socket.write_all(b"t").unwrap();
    assert_eq!(leash.end().exit_code, Some(5));
}

#[test]
fn a_program_that_ignores_sigterm_is_killed_when_asked_for() {
    let mut leash = Leash::shell(FAMILY);
    leash.program();
    let family = leash.family(FAMILY_SIZE);
    leash.socket.write_all(b"k").unwrap();
    assert_gone_soon(&family);
    let end = leash.end();
    assert_eq!((end.exit_code, end.signal), (None, Some(Signal::KILL.as_raw())));
}

#[test]
fn the_program_does_not_outlive_a_leash_that_is_killed() {
    let mut leash = Leash::start("cpu", &["sleep", "1000"]);
    leash.program();
    let family = leash.family(1);
    leash.process.kill().unwrap();
    leash.process.wait().unwrap();
    // Its adoptive parent may leave a zombie, which does not run any more.
    let begin = Instant::now();
    let runs = |process: &ProcessId| {
        let stat = procfs::process::Process::new(process.pid).and_then(|process| process.stat());
        stat.is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
    };
    while family.iter().any(runs) {
        assert!(begin.elapsed() < SOON);
        thread::sleep(Duration::from_millis(5));
    }
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
    while leash.output().is_empty() {
        thread::sleep(Duration::from_millis(5));
    }
    let error = leash.stdin.take().unwrap().write_all(b"x").unwrap_err();
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
    let begin = Instant::now();
    let mut before = context_switches(leash.pid());
    loop {
        thread::sleep(Duration::from_millis(300));
        let now = context_switches(leash.pid());
        if now.len() == 4 && now == before {
            break;
        }
        assert!(begin.elapsed() < SOON, "{before:?}, then {now:?}");
        before = now;
    }
}

#[test]
fn a_leash_is_not_hit_by_what_is_meant_for_the_harness() {
    let mut leash = Leash::start("cpu", &["sleep", "1000"]);
    leash.program();
    let comm = fs::read_to_string(entry(leash.pid()).join("comm")).unwrap();
    assert_eq!(comm, "leash\n", "`pkill profile` goes by this name");
    let leader = Pid::from_raw(leash.pid());
    assert_eq!(rustix::process::getsid(leader).ok(), leader, "Ctrl-C goes to the session of a terminal");
}
