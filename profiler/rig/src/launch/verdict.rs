//! Determines how a rank ended, and a hint for the user.
//!
//! A launch of several ranks has one row, and its kind of error is that of the first fault. When a rank dies, the collectives
//! of all others fail because its connections close, and the order of the two reports is random. Therefore `collective` gives
//! way to any other fault: a launch with a killed rank is `killed`, with the number of that rank. It stays `collective` if no
//! rank is different from the others: a connection was lost, or a rank did not arrive in time. NCCL ends the process of a rank
//! whose peer has gone before it can report anything, which counts as a crash.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use record::{launch_end::RankEnd, rows::ErrorKind, run_dir::RunDir};
use rustix::process::Signal;
use schema::spec::LaunchSpec;

use super::{beside::Beside, listener::Fault, surroundings::FilledSurroundings};
use crate::disk;

/// The length at which a line of a log is cut. A longer one would hide the rest of the message.
const LONGEST_QUOTE_CHARS: usize = 300;
/// The part of a log that is searched, which is large enough for a traceback of many frames.
const TAIL_BYTES: u64 = 1 << 16;

/// The facts about a rank that has ended.
pub(super) struct Evidence<'a> {
    pub(super) end: &'a RankEnd,
    /// Whether its program must use the protocol. For other programs the exit status counts more than events.
    pub(super) speaks: bool,
    pub(super) said_last_word: bool,
    pub(super) greeted: bool,
    /// Whether the kernel has killed a process for lack of memory since the launch began.
    pub(super) memory_ran_out: bool,
}

/// The reason that the rank failed; `None` if it did what was requested, or reported its error itself.
pub(super) fn fault_of(evidence: &Evidence) -> Option<Fault> {
    if evidence.speaks && evidence.said_last_word {
        // Whatever happened to it after its last event, all of its steps are on file.
        return None;
    }
    let RankEnd { exit_code, signal, .. } = evidence.end;
    let early = evidence.speaks && !evidence.greeted;
    let when = if early { " before it said hello" } else { "" };
    let kind = |else_kind| if early { ErrorKind::NoHello } else { else_kind };
    match (exit_code, signal) {
        (_, Some(signal)) if evidence.memory_ran_out && *signal == Signal::KILL.as_raw() => Some((
            ErrorKind::OutOfMemory,
            format!("was killed{when} by the kernel, which had run out of memory"),
        )),
        (_, Some(signal)) if is_of_a_crash(*signal) => {
            Some((kind(ErrorKind::Crashed), format!("crashed by {}{when}", name(*signal))))
        }
        (_, Some(signal)) => Some((ErrorKind::Killed, format!("was killed by {}{when}", name(*signal)))),
        (Some(0), None) if !evidence.speaks => None,
        (Some(0), None) if early => Some((ErrorKind::NoHello, "exited in peace before it said hello".into())),
        (Some(0), None) => Some((ErrorKind::NoFinish, "exited in peace, but did not say finished".into())),
        (Some(code), None) => Some((kind(ErrorKind::Crashed), format!("exited with code {code}{when}"))),
        (None, None) => Some((ErrorKind::Killed, format!("lost its leash{when}: somebody killed it"))),
    }
}

/// The fault, corrected for a full disk: then any report of a program, or a missing one, is a consequence of it.
///
/// A worker writes to the run, so its error counts, as does that of a start. A program of the user's, which `speaks` excludes, may
/// write to other file systems, and its words say nothing about the disk of the run.
pub(super) fn of_disk(run: &RunDir, speaks: bool, (kind, what): Fault) -> Fault {
    use ErrorKind::{Crashed, Data, Garbled, Internal, NoFinish, NoHello, Prepare, Start};
    let may_be = matches!(kind, Crashed | Data | Garbled | Internal | NoFinish | NoHello | Prepare | Start);
    let is_reported = (speaks || kind == Start) && disk::is_full(&what);
    if may_be && (is_reported || disk::has_no_space(run)) {
        (ErrorKind::DiskFull, format!("{what}, as the disk was full"))
    } else {
        (kind, what)
    }
}

/// Whether `fault` explains the failure of a launch better than the fault that is known so far. Collectives fail because
/// another rank has left, and the reason of that rank is the better explanation. A process that does not end affects every
/// later launch, so it comes first in any case.
pub(super) fn explains(fault: &Fault, known: &Fault) -> bool {
    fault.0 == ErrorKind::Stuck || known.0 == ErrorKind::Collective && fault.0 != ErrorKind::Collective
}

/// Whether the kernel sends this signal to a program for a fault of its own, or because it exceeded a limit of its own.
fn is_of_a_crash(signal: i32) -> bool {
    let crashes = [
        Signal::SEGV,
        Signal::ABORT,
        Signal::BUS,
        Signal::FPE,
        Signal::ILL,
        Signal::SYS,
        Signal::XCPU,
        Signal::XFSZ,
    ];
    crashes.iter().any(|crash| crash.as_raw() == signal)
}

fn name(signal: i32) -> String {
    let word = match Signal::from_named_raw(signal) {
        Some(Signal::ABORT) => "SIGABRT",
        Some(Signal::BUS) => "SIGBUS",
        Some(Signal::FPE) => "SIGFPE",
        Some(Signal::HUP) => "SIGHUP",
        Some(Signal::ILL) => "SIGILL",
        Some(Signal::INT) => "SIGINT",
        Some(Signal::KILL) => "SIGKILL",
        Some(Signal::PIPE) => "SIGPIPE",
        Some(Signal::QUIT) => "SIGQUIT",
        Some(Signal::SEGV) => "SIGSEGV",
        Some(Signal::TERM) => "SIGTERM",
        Some(Signal::XCPU) => "SIGXCPU, as it used more CPU time than `ulimit -t` allows",
        Some(Signal::XFSZ) => "SIGXFSZ, as it wrote a larger file than `ulimit -f` allows",
        _ => return format!("signal {signal}"),
    };
    word.into()
}

/// The complete message: job, rank, fault, the last line of its stderr, and a hint. `files` are the paths of the run that a
/// fault may contain.
pub(super) fn detail(
    run: &RunDir,
    spec: &LaunchSpec,
    rank: u32,
    fault: &Fault,
    files: impl Iterator<Item = PathBuf>,
) -> String {
    let (kind, what) = fault;
    let (log, before) =
        (run.stderr_path(&spec.launch, rank), run.beside_path(&spec.launch, Beside::Prepare.word(), "err"));
    // A program has no log if its --prepare command failed.
    let log = if !log.exists() && before.exists() { before } else { log };
    let last_words = words_of(&log);
    let advice = advice(*kind, spec.program.speaks());
    let message = format!("job '{}': rank {rank} {what}; {last_words}; {advice}", spec.job);
    without_paths(run, spec, message, files.chain([log]))
}

/// What a log says, for a message.
pub(super) fn words_of(log: &Path) -> String {
    match last_words(log) {
        Ok(Some(line)) => format!("{} says {line:?}", log.display()),
        Ok(None) => format!("{} is empty", log.display()),
        Err(error) => format!("{}: {error}", log.display()),
    }
}

/// A message in which the paths of these files of the run are relative, and words stand for the folders of the launch.
pub(super) fn without_paths(
    run: &RunDir,
    spec: &LaunchSpec,
    message: String,
    files: impl IntoIterator<Item = PathBuf>,
) -> String {
    let message = files.into_iter().fold(message, |message, file| run.relative(&message, &file));
    match FilledSurroundings::for_launch(run, spec) {
        Ok(surroundings) => surroundings.hide_paths(message),
        Err(_) => message,
    }
}

fn advice(kind: ErrorKind, speaks: bool) -> &'static str {
    match kind {
        ErrorKind::OutOfMemory => "try a smaller batch, or a plan that needs less memory",
        ErrorKind::Unsupported => "see `profile list --plans` for what can run here",
        ErrorKind::Data => "check the folder given by --data",
        ErrorKind::Collective => "see the logs of the other ranks: one of them left first",
        ErrorKind::Start if !speaks => "check the command",
        ErrorKind::Prepare => {
            "correct the command of --prepare, or raise --first-step-timeout if it needs longer"
        }
        ErrorKind::Start => "run scripts/setup, which puts the programs side by side",
        ErrorKind::NoHello => "see `profile doctor` for what this machine lacks",
        ErrorKind::Protocol if !speaks => "see the worker protocol in workloads/README.md",
        ErrorKind::Protocol => "build all programs from the same sources with scripts/setup",
        ErrorKind::Clock => {
            "start it in the time namespace of the harness, and without programs such as faketime"
        }
        ErrorKind::Hung => "if a step may take that long, raise --heartbeat",
        ErrorKind::Garbled | ErrorKind::Lost => {
            "check that the disk is not full and that nothing else writes to the file"
        }
        ErrorKind::Killed => "find out who sent the signal, and run it again",
        ErrorKind::Crashed | ErrorKind::Internal | ErrorKind::NoFinish => "read the whole log",
        ErrorKind::DeviceLost | ErrorKind::Stuck => {
            "look at the kernel's log; its device needs a reset by its owner, or the machine a restart"
        }
        ErrorKind::Contaminated => "see why that one failed",
        ErrorKind::Sharing => {
            "see `profile doctor` for what this machine lacks, or name another mode with --sharing"
        }
        ErrorKind::DiskFull => "make space, and continue the run with --resume",
        ErrorKind::TooShort => "give it more time",
        ErrorKind::Suspension => "name another way with --suspend",
        ErrorKind::Interrupted => "continue the run with --resume",
    }
}

/// The explanation in a log: the exception that ended Python, or otherwise the message of another runtime before its stack frames,
/// or otherwise the last line that contains a word.
fn last_words(log: &Path) -> io::Result<Option<String>> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let tail = String::from_utf8_lossy(&tail);
    let has_word = |line: &&str| line.contains(char::is_alphanumeric);
    let line =
        exception(&tail).or_else(|| message(&tail)).or_else(|| tail.lines().map(str::trim).rfind(has_word));
    Ok(line.map(|line| line.chars().take(LONGEST_QUOTE_CHARS).collect()))
}

/// The first line of the last exception with a traceback. Exceptions of launchers are skipped: they come after the exception of
/// the program that failed, and explain less.
fn exception(log: &str) -> Option<&str> {
    let (mut is_within, mut found) = (false, None);
    for line in log.lines().map(without_rank) {
        if line.starts_with("Traceback (most recent call last):") {
            is_within = true;
        } else if is_within && line.starts_with(|c: char| !c.is_whitespace()) {
            is_within = false;
            let is_launchers = LAUNCHERS.iter().any(|name| line.split(':').next() == Some(name));
            found = found.filter(|_| is_launchers).or(Some(line.trim_end()));
        }
    }
    found
}

/// The last message with which a runtime ends a program, which stack frames may follow: the text of a C++ exception, the type of one
/// without a text, a panic of Rust, or a fatal error of Python.
fn message(log: &str) -> Option<&str> {
    let lines = || log.lines().map(|line| without_rank(line).trim());
    let text = lines().filter_map(|line| line.strip_prefix("what():")).next_back().map(str::trim);
    let is_panic = |line: &str| line.starts_with("thread '") && line.contains(" panicked at ");
    let panic = || lines().skip_while(|line| !is_panic(line)).nth(1).filter(|line| !line.is_empty());
    let begins =
        |line: &&str| line.starts_with("terminate called") || line.starts_with("Fatal Python error:");
    text.filter(|text| !text.is_empty()).or_else(panic).or_else(|| lines().rfind(begins))
}

/// Exceptions of torchrun and of `accelerate launch`.
const LAUNCHERS: [&str; 2] =
    ["torch.distributed.elastic.multiprocessing.errors.ChildFailedError", "subprocess.CalledProcessError"];

/// PyTorch puts `[rank0]: ` before each line of a traceback if there are ranks.
fn without_rank(line: &str) -> &str {
    let rest = line.strip_prefix("[rank").map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    rest.and_then(|rest| rest.strip_prefix("]: ")).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(code: i32) -> RankEnd {
        RankEnd { exit_code: Some(code), ..RankEnd::default() }
    }

    fn killed(signal: i32) -> RankEnd {
        RankEnd { signal: Some(signal), ..RankEnd::default() }
    }

    #[test]
    fn every_end_has_its_kind() {
        let cases = [
            // end, greeted, said its last word, memory ran out, kind
            (exit(0), true, true, false, None),
            (killed(11), true, true, false, None),
            (exit(0), true, false, false, Some(ErrorKind::NoFinish)),
            (exit(0), false, false, false, Some(ErrorKind::NoHello)),
            (exit(3), true, false, false, Some(ErrorKind::Crashed)),
            (exit(3), false, false, false, Some(ErrorKind::NoHello)),
            (killed(11), true, false, false, Some(ErrorKind::Crashed)),
            (killed(Signal::XCPU.as_raw()), true, false, false, Some(ErrorKind::Crashed)),
            (killed(Signal::XFSZ.as_raw()), true, false, false, Some(ErrorKind::Crashed)),
            (killed(15), true, false, false, Some(ErrorKind::Killed)),
            (killed(11), false, false, false, Some(ErrorKind::NoHello)),
            (killed(9), true, false, false, Some(ErrorKind::Killed)),
            // A signal from outside says nothing about the program, whenever it comes.
            (killed(9), false, false, false, Some(ErrorKind::Killed)),
            (killed(9), true, false, true, Some(ErrorKind::OutOfMemory)),
            (killed(9), false, false, true, Some(ErrorKind::OutOfMemory)),
            // Another process was what the kernel killed.
            (killed(11), true, false, true, Some(ErrorKind::Crashed)),
            (RankEnd::default(), true, false, false, Some(ErrorKind::Killed)),
        ];
        for (end, greeted, said_last_word, memory_ran_out, kind) in cases {
            let evidence = Evidence { end: &end, speaks: true, greeted, said_last_word, memory_ran_out };
            assert_eq!(fault_of(&evidence).map(|(kind, _)| kind), kind, "{end:?}");
        }
    }

    #[test]
    fn what_a_full_disk_does_to_a_program_is_told_as_that() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::create(&dir.path().join("run")).unwrap();
        let full = "failed: events: No space left on device (os error 28)";
        for (speaks, kind, what, told) in [
            (true, ErrorKind::Internal, full, ErrorKind::DiskFull),
            (true, ErrorKind::Start, full, ErrorKind::DiskFull),
            (true, ErrorKind::Internal, "failed: it is broken", ErrorKind::Internal),
            (true, ErrorKind::Interrupted, full, ErrorKind::Interrupted),
            (false, ErrorKind::Internal, full, ErrorKind::Internal),
            (false, ErrorKind::Garbled, full, ErrorKind::Garbled),
            (false, ErrorKind::Start, full, ErrorKind::DiskFull),
        ] {
            assert_eq!(of_disk(&run, speaks, (kind, what.into())).0, told, "{speaks} {kind}: {what}");
        }
    }

    #[test]
    fn the_first_fault_stands_and_a_failed_collective_gives_way() {
        for (fault, known, explains_it) in [
            (ErrorKind::Killed, ErrorKind::Collective, true),
            (ErrorKind::OutOfMemory, ErrorKind::Collective, true),
            (ErrorKind::Collective, ErrorKind::Collective, false),
            (ErrorKind::Collective, ErrorKind::Killed, false),
            (ErrorKind::Killed, ErrorKind::Data, false),
        ] {
            let of = |kind| (kind, String::new());
            assert_eq!(explains(&of(fault), &of(known)), explains_it, "{fault:?} after {known:?}");
        }
    }

    #[test]
    fn a_program_without_the_protocol_is_judged_by_its_exit_alone() {
        for (end, kind) in
            [(exit(0), None), (exit(2), Some(ErrorKind::Crashed)), (killed(15), Some(ErrorKind::Killed))]
        {
            // Whether it took the hook, and what that said, changes nothing.
            for (greeted, said_last_word) in [(false, false), (true, false), (true, true)] {
                let evidence =
                    Evidence { end: &end, speaks: false, greeted, said_last_word, memory_ran_out: false };
                assert_eq!(fault_of(&evidence).map(|(kind, _)| kind), kind);
            }
        }
    }

    #[test]
    fn the_exception_is_quoted_or_else_the_last_line_with_a_word() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let raised = |prefix: &str, what: &str| {
            let lines = ["Traceback (most recent call last):", "  File \"a.py\", line 1, in <module>", what];
            lines.map(|line| format!("{prefix}{line}\n")).concat()
        };
        let own = raised("[rank12]: ", "RuntimeError: sizes differ\n[rank12]:  and more");
        let launchers = raised("", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ");
        let table = "=====\na.py FAILED\n-----\nRoot Cause\n=====\n";
        let chained = [raised("", "KeyError: 1"), raised("\n", "ValueError: no key")].join("\nDuring ..\n");
        for (text, line) in [
            ("", None),
            ("\n \n=====\n", None),
            ("one\ntwo\n\n-----\n", Some("two")),
            ("no newline", Some("no newline")),
            (&own, Some("RuntimeError: sizes differ")),
            (&format!("{own}{launchers}{table}"), Some("RuntimeError: sizes differ")),
            (
                &format!("{launchers}{table}"),
                Some("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"),
            ),
            (&format!("{chained}terminate called\n"), Some("ValueError: no key")),
            (
                "terminate called after throwing an instance of 'c10::Error'\n  what():  sizes differ\nframe #0: f()\n",
                Some("sizes differ"),
            ),
            (
                "terminate called after throwing an instance of 'int'\nframe #0: f()\n",
                Some("terminate called after throwing an instance of 'int'"),
            ),
            (
                "thread 'main' (7) panicked at a.rs:1:2:\nsizes differ\nnote: run with a variable\n",
                Some("sizes differ"),
            ),
            (
                "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1:\n  File \"a.py\"\n",
                Some("Fatal Python error: Segmentation fault"),
            ),
        ] {
            std::fs::write(&log, text).unwrap();
            assert_eq!(last_words(&log).unwrap().as_deref(), line, "{text}");
        }
        std::fs::write(&log, "x".repeat(100_000)).unwrap();
        assert_eq!(last_words(&log).unwrap().unwrap().len(), LONGEST_QUOTE_CHARS);
    }
}
