//! Users' programs: with the step hook, by their output, and from outside, with any behaviour.

mod beside;
mod bursts;
mod catalog;
mod checkpoints;
mod definitions;
mod endings;
mod first_step;
mod identity;
mod own_folder;
mod phases;
mod place_of_its_own;
mod protocol;
mod pytorch;
mod shown;
mod unseen;
mod vary;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use front_door::{Door, Said};
use record::rows::{self, ErrorKind, ExportStep, Measurement, Status};
use rustix::process::Signal;
use schema::{
    events,
    wire::{Event, Timing},
};

/// What git prints in a folder, with settings of its own. `None` if git fails or is not there.
fn git(folder: &Path, arguments: &str) -> Option<Output> {
    let mut command = Command::new("git");
    // A repository around the tests must not lend its variables and settings to this repository.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    command.args(["-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false"]);
    command.args(["-c", "core.hooksPath=/dev/null"]).args(arguments.split(' ')).current_dir(folder);
    command.output().ok().filter(|output| output.status.success())
}

/// Trains for this number of steps of 2 ms, by default without end, and then runs the code of a test.
const TRAIN: &str = r#"
import itertools, os, sys, time, torch
optimizer = torch.optim.SGD([torch.Parameter(1000), torch.Parameter(24)])
def train(steps=None):
    for _ in range(steps) if steps else itertools.count():
        time.sleep(0.002)
        optimizer.step()
"#;

/// `meet(n)` waits until n processes of a launch have called it. Each process does a step before, because the harness knows a process
/// from its first step on. So the launch ends only after the harness knows all of them.
pub(crate) const MEET: &str = r#"
def meet(processes):
    place = os.environ["TANDEM_CONTROL"].replace("/", "-") + "-"
    open(place + str(os.getpid()), "w").close()
    while sum(name.startswith(place) for name in os.listdir()) < processes:
        time.sleep(0.001)
"#;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A folder with `train.py`, which is [`TRAIN`] and then `rest`, or a recorded skip without Python.
pub(crate) fn with_program(rest: &str) -> Option<Door> {
    let found = Command::new("python3").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        schema::skips::skipped("python3", "there is no python3");
        return None;
    }
    let door = crate::door();
    fs::write(door.path("train.py"), format!("{TRAIN}{rest}\n")).expect("the folder is writable");
    Some(door)
}

/// `profile` with these arguments, with the fake PyTorch for its programs.
pub(crate) fn profile(door: &Door, arguments: &str, program: &[&str]) -> Command {
    let mut command = door.command(arguments);
    with_fake_pytorch(command.args(program));
    command
}

pub(crate) fn with_fake_pytorch(command: &mut Command) -> &mut Command {
    for name in ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "RANK", "WORLD_SIZE"] {
        command.env_remove(name);
    }
    command.env("PYTHONPATH", root().join("workloads/python/tests/fake"))
}

/// Runs to the end and checks the exit code.
fn exits(code: i32, door: &Door, arguments: &str, program: &[&str]) -> Said {
    let output = profile(door, arguments, program).output().expect("profile starts");
    let said = Said::of(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments} {program:?}\n{}\n{}", said.out, said.err);
    said
}

/// Redirects stderr of a command to a file, which the test reads while the command runs.
fn into_file(command: &Command, file: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec \"$@\" 2> {file}"), "sh"]).arg(command.get_program());
    shell.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.current_dir(command.get_current_dir().expect("the folder of the test"));
    shell
}

/// The only row of the run `r`.
fn row(door: &Door) -> Measurement {
    let [row] = &door.measurements("r")[..] else { panic!("one launch has one row") };
    row.clone()
}

fn events_of(door: &Door, launch: &str, rank: u32) -> Vec<Event> {
    let lines = events::read(&door.run("r").events_path(launch, rank), rank).expect("they are whole");
    lines.into_iter().map(|line| line.event).collect()
}

/// Files of this name in the folder or its subfolders.
fn files_named(folder: &Path, name: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("it can be listed").flatten() {
        if entry.file_name().to_string_lossy().ends_with(name) {
            files.push(entry.path());
        }
        if entry.path().is_dir() {
            files.extend(files_named(&entry.path(), name));
        }
    }
    files
}

#[test]
fn a_program_that_takes_the_hook_is_measured_like_a_job_and_ended_at_a_boundary() {
    let Some(door) = with_program("train()") else { return };
    exits(0, &door, "single --device cpu:0 --repeats 2 --steps 40 --out r --", &["python3", "train.py"]);
    let rows = door.measurements("r");
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!((row.status, row.timing, row.parameters), (Status::Ok, Some(Timing::Hook), Some(1024)));
        assert!(row.step_ns_median >= Some(2_000_000), "{row:?}");
        assert!(
            row.steps_total >= 40 && 2 * row.steps_used >= 40,
            "at least half of its steps count: {row:?}"
        );
        assert!(row.startup_ns > Some(2_000_000), "{row:?}");
        assert!(row.samples_per_s.is_none(), "the number of samples is unknown");
        let end = door.run("r").launch_end(&row.launch).expect("it can be read").expect("it has ended");
        assert_eq!((end.err, end.ranks[0].signal), (None, Some(Signal::TERM.as_raw())));
        let events = events_of(&door, &row.launch, 0);
        assert!(matches!(&events[..2], [Event::Hello(_), Event::Ready(_)]), "{events:?}");
        assert!(matches!(events.last(), Some(Event::Held { .. })), "it rests when it is ended: {events:?}");
    }
    let summary = &door.summaries("r")[0];
    assert!(summary.step_ns_median.is_some() && summary.wall_ns.is_none(), "{summary:?}");
    door.exits(0, "export r --steps --out steps.csv");
    let steps: Vec<ExportStep> = rows::read(&door.path("steps.csv")).expect("it reads back");
    assert!(!steps.is_empty() && steps.iter().all(|step| step.samples.is_none()), "not known is not zero");
    for name in ["__pycache__", ".hook", ".control"] {
        assert_eq!(files_named(&door.path("r"), name), Vec::<PathBuf>::new());
    }
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

#[test]
fn steps_on_a_device_that_works_by_itself_are_as_long_as_it_takes_and_not_its_host() {
    let rest = "optimizer = torch.optim.SGD([torch.Parameter(1000, 'cuda:0')])
while True:
    torch.cuda.work(0.006)
    time.sleep(0.001)
    optimizer.step()";
    let Some(door) = with_program(rest) else { return };
    exits(0, &door, "single --device cpu:0 --repeats 1 --steps 40 --out r --", &["python3", "train.py"]);
    let row = row(&door);
    assert_eq!((row.status, row.timing), (Status::Ok, Some(Timing::HookDeviceEvent)));
    assert!(row.steps_total >= 40, "{row:?}");
    // PyTorch gives the device's time as a float, in seconds since the machine started.
    assert!(row.step_ns_median >= Some(5_999_000), "{row:?}");
    assert_eq!(row.peak_memory_bytes, Some(30), "what its allocator says");
    let events = events_of(&door, &row.launch, 0);
    assert!(
        matches!(events.last(), Some(Event::Held { .. })),
        "the device is done with its steps: {events:?}"
    );
}

#[test]
fn a_program_that_ends_by_itself_has_the_steps_it_took() {
    let Some(door) = with_program("train(40)") else { return };
    exits(0, &door, "single --device cpu:0 --repeats 1 --out r --", &["python3", "train.py"]);
    let row = row(&door);
    assert_eq!((row.status, row.timing, row.steps_total), (Status::Ok, Some(Timing::Hook), 40));
    let events = events_of(&door, &row.launch, 0);
    assert!(matches!(events.last(), Some(Event::Finished { steps: 40, .. })), "{events:?}");
    let timed = events.iter().filter(|event| matches!(event, Event::Step(_))).count();
    assert_eq!(timed, 39, "it is not known when the first began");
}

#[test]
fn programs_stand_beside_jobs() {
    let Some(door) =
        with_program("print(sys.argv[1:], os.environ.get('OMP_NUM_THREADS'), flush=True)\ntrain()")
    else {
        return;
    };
    let run = "single synthetic-sleep --device cpu:0 --repeats 1 --steps 30";
    let programs = ["--cmd", "python3 train.py 'a  b' *.py $HOME", "--cmd", "sh -c 'echo seen from outside'"];
    exits(0, &door, &format!("{run} --out r"), &programs);
    let rows = door.measurements("r");
    let timings: Vec<_> = rows.iter().map(|row| row.timing).collect();
    let commands: Vec<_> = rows.iter().map(|row| row.command.as_deref()).collect();
    assert!(commands.contains(&Some("python3 train.py 'a  b' '*.py' '$HOME'")), "{commands:?}");
    let of_summaries = |summary: &rows::Summary| rows.iter().any(|row| row.command == summary.command);
    assert!(door.summaries("r").iter().all(of_summaries));
    for timing in [Timing::Host, Timing::Hook, Timing::Outside] {
        assert!(timings.contains(&Some(timing)), "{timings:?}");
    }
    let printed = |run: &str| {
        let row = door.measurements(run).into_iter().find(|row| row.timing == Some(Timing::Hook));
        let launch = row.expect("it took the hook").launch;
        fs::read_to_string(door.run(run).stdout_path(&launch, 0)).expect("its output is kept")
    };
    assert_eq!(
        printed("r"),
        "['a  b', '*.py', '$HOME'] None\n",
        "no shell reads it, and it has threads of its own"
    );
    let outside = rows.iter().find(|row| row.timing == Some(Timing::Outside)).expect("just seen");
    assert!(!door.run("r").events_path(&outside.launch, 0).exists(), "who says nothing has no events");
    exits(0, &door, &format!("{run} --threads 3 --out s"), &programs);
    assert!(printed("s").ends_with(" 3\n"), "{}", printed("s"));
}

/// The behaviour of a program after some training, and its row.
#[test]
fn whatever_a_program_does_is_a_row_and_nothing_is_left_of_it() {
    let failures = [
        ("sys.exit(3)", Some(ErrorKind::Crashed), "exited with code 3"),
        (
            "raise torch.OutOfMemoryError('CUDA out of memory')",
            Some(ErrorKind::OutOfMemory),
            "CUDA out of memory",
        ),
        (
            "raise torch.distributed.DistBackendError('lost')",
            Some(ErrorKind::Collective),
            "DistBackendError: lost",
        ),
        // Words of a program about a disk or memory that need not be those of the run.
        (
            "raise OSError(28, 'No space left on device', '/dev/shm/x')",
            Some(ErrorKind::Internal),
            "No space left on device",
        ),
        (
            "raise RuntimeError('the cache ran out of memory slots')",
            Some(ErrorKind::Internal),
            "out of memory slots",
        ),
        ("os.kill(os.getpid(), 11)", Some(ErrorKind::Crashed), "crashed by SIGSEGV"),
        ("os._exit(0)", None, ""),
        // Its own events, in three ways.
        (
            "open(os.environ['TANDEM_EVENTS'], 'a').write('Epoch 1\\n')",
            Some(ErrorKind::Garbled),
            "events/0001-",
        ),
        (
            "os.write(os.open(os.environ['TANDEM_EVENTS'], 1), b'\\0' * 9)",
            Some(ErrorKind::Garbled),
            "not an event",
        ),
        ("os.unlink(os.environ['TANDEM_EVENTS'])", None, ""),
        // Children that train, exit, and stay.
        ("train(5) if os.fork() == 0 else os.wait()", None, ""),
        (
            "os._exit(0) if os.fork() else (os.setsid(), os.fork() and os._exit(0), time.sleep(1000))",
            None,
            "",
        ),
        ("os.execv(sys.executable, [sys.executable, '-c', 'pass'])", None, ""),
        ("os.execv('/bin/sh', ['sh', '-c', 'exit 7'])", Some(ErrorKind::Crashed), "exited with code 7"),
        // Output in no encoding.
        ("os.write(1, os.urandom(1 << 20)); os.write(2, b'\\xff\\0\\n' * 9)", None, ""),
    ];
    for (rest, kind, words) in failures {
        let Some(door) = with_program(&format!("train(30)\n{rest}")) else { return };
        let code = if kind.is_some() { 1 } else { 0 };
        exits(code, &door, "single --device cpu:0 --repeats 1 --out r --", &["python3", "train.py"]);
        let row = row(&door);
        let detail = row.err_detail.as_deref().unwrap_or_default();
        assert_eq!(row.err, kind, "{rest}: {detail}");
        assert!(
            detail.contains(words) && !detail.contains(&*door.path("").to_string_lossy()),
            "{rest}: {detail}"
        );
        let timing = if rest.contains("unlink") { Timing::Outside } else { Timing::Hook };
        assert!(kind.is_some() || row.timing == Some(timing), "{rest}: {row:?}");
        assert_eq!(door.leftovers(), Vec::<String>::new(), "{rest}");
    }
}

#[test]
fn ranks_are_known_when_they_speak() {
    let rank = "torch.distributed.rank = int(os.environ['RANK'])";
    let Some(door) = with_program(&format!("{MEET}{rank}\ntrain(1)\nmeet(3)\ntrain()")) else { return };
    let script = "RANK=0 python3 train.py & RANK=1 python3 train.py & RANK=2 python3 train.py; wait";
    exits(0, &door, "single --device cpu:0 --repeats 1 --steps 30 --out r --", &["sh", "-c", script]);
    let row = row(&door);
    assert_eq!((row.status, row.timing), (Status::Ok, Some(Timing::Hook)));
    let steps: Vec<usize> = (0..3)
        .map(|rank| {
            events_of(&door, &row.launch, rank).iter().filter(|e| matches!(e, Event::Step(_))).count()
        })
        .collect();
    assert!(
        steps.iter().all(|&timed| timed as u64 + 1 == row.steps_total),
        "one grant holds all: {steps:?}, {row:?}"
    );
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

#[test]
fn what_cannot_be_is_said_before_anything_starts() {
    let door = crate::door();
    for (arguments, words) in [
        ("--steps-regex ( -- true", "unclosed group"),
        ("lstm --steps-regex x", "name one with --cmd, or after --"),
        ("--plan all -- true", "--plan applies to jobs only"),
        ("--memory 1GiB --cmd true", "--memory applies to jobs only"),
        ("--cmd 'true", "a quote is not closed"),
        ("--cmd true --cmd true", "named twice"),
        ("--cmd true -- true", "cannot be used with"),
    ] {
        let said = exits(2, &door, &format!("single --device cpu:0 --out r {arguments}"), &[]);
        assert!(said.err.contains(words), "{arguments}: {}", said.err);
        assert!(!door.path("r").exists(), "{arguments}");
    }
}
