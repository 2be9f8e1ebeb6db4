//! Users' programs: with the step hook, by their output, and from outside, with any behaviour.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use front_door::{Background, Door, Said, wait_for};
use rustix::process::Signal;
use schema::{
    events,
    rows::{self, ErrorKind, ExportStep, Measurement, Status, Warning},
    wire::{Event, Timing},
};

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

/// `show` prints a line and waits until the harness has read it, which the number of lines in the event file tells.
const SHOW: &str = r#"
import glob
shown = 0
def show(line):
    global shown
    print(line, flush=True)
    shown += 1
    while sum(open(name).read().count("\n") for name in glob.glob("r/events/*.0.jsonl")) < shown:
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
    command.args(program).env("PYTHONPATH", root().join("workloads/python/tests/fake"));
    for name in ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "RANK", "WORLD_SIZE"] {
        command.env_remove(name);
    }
    command
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
fn the_first_step_of_a_program_that_has_loaded_pytorch_is_waited_for() {
    let load = "import mmap
file = open('libtorch.so', 'w+b')
file.write(b'x')
file.flush()
loaded = mmap.mmap(file.fileno(), 1)
while not os.path.exists('go'):
    time.sleep(0.001)";
    let Some(door) = with_program(&format!("{load}\ntrain()")) else { return };
    let run = "single --device cpu:0 --repeats 1 --seconds 3 --out r --";
    let mut profile = Background::start(into_file(&profile(&door, run, &["python3", "train.py"]), "err"));
    wait_for("the time that it was to measure has passed", || {
        let said = fs::read_to_string(door.path("err")).unwrap_or_default();
        if said.contains("its first is waited for") { Ok(()) } else { Err((said, profile.has_ended())) }
    });
    door.write("go", "");
    assert_eq!(profile.wait().0, Some(0), "{:?}", fs::read_to_string(door.path("err")));
    let row = row(&door);
    assert_eq!((row.status, row.timing), (Status::Ok, Some(Timing::Hook)));
    assert!(row.wall_ns > Some(3_000_000_000), "{row:?}");
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

#[test]
fn steps_are_found_in_the_output() {
    let program = format!("{SHOW}for i in range(60):\n    show(f'step {{i}}')\n    time.sleep(0.005)");
    let Some(door) = with_program(&program) else { return };
    let run = "single --device cpu:0 --repeats 1 --out r --steps-regex ^step";
    exits(0, &door, &format!("{run} --"), &["python3", "train.py"]);
    let row = row(&door);
    assert_eq!((row.status, row.timing, row.steps_total), (Status::Ok, Some(Timing::Scraped), 60));
    let lengths: Vec<u64> = events_of(&door, &row.launch, 0)
        .iter()
        .filter_map(|event| if let Event::Step(step) = event { Some(step.dur_ns.0) } else { None })
        .collect();
    let (count, sum) = (lengths.len(), lengths.iter().sum::<u64>());
    assert_eq!(count, 59, "it is not known when the first began");
    // The harness stamps a line that arrives during a read with the time at which the read began.
    assert!((58 * 5_000_000..=row.wall_ns.expect("it ended")).contains(&sum), "{sum} of {row:?}");
}

#[test]
fn a_program_that_shows_its_steps_is_ended_when_there_are_enough() {
    let door = crate::door();
    let script = "i=0; while :; do i=$((i+1)); echo step $i >&2; sleep 0.01; done";
    let run = "single --device cpu:0 --repeats 1 --steps 30 --out r --steps-regex";
    exits(0, &door, run, &["step [0-9]+", "--", "sh", "-c", script]);
    let row = row(&door);
    assert_eq!((row.status, row.timing), (Status::Ok, Some(Timing::Scraped)));
    assert!(row.steps_total >= 30 && 2 * row.steps_used >= 30, "at least half of its steps count: {row:?}");
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

#[test]
fn output_that_comes_in_blocks_is_said() {
    let door = crate::door();
    // The program prints a block only after the harness has read the one before. The first block has one event, each later one four.
    let script = "for events in 1 5 9; do
    printf 'step\\nstep\\nstep\\nstep\\n'
    until [ $(cat r/events/*.jsonl | wc -l) -ge $events ]; do sleep 0.01; done
done";
    exits(0, &door, "single --device cpu:0 --repeats 1 --out r --steps-regex step --", &["sh", "-c", script]);
    let row = row(&door);
    assert!(row.warnings.iter().any(|warning| warning == Warning::Buffered), "{row:?}");
    let lines = events::read(&door.run("r").events_path(&row.launch, 0), 0).expect("they are whole");
    let mut lengths = Vec::new();
    for pair in lines.windows(2) {
        let Event::Step(step) = &pair[1].event else { continue };
        assert_eq!(
            pair[1].mono_ns - pair[0].mono_ns,
            step.dur_ns,
            "a step begins where the one before it ended"
        );
        lengths.push(step.dur_ns.0);
    }
    let used: u64 = lengths.iter().rev().take(row.steps_used as usize).sum();
    assert_eq!((lengths.len(), row.window_ns), (8, Some(used)), "{row:?}");
}

#[test]
fn steps_that_are_shown_while_the_harness_is_stopped_are_buffered() {
    let door = crate::door();
    // The program stops the harness, which is the parent of its leash, for the time of 300 steps: longer than the second within which
    // the end of a step must be stamped. Then it waits until the harness has written down all of them.
    let script = "read -r _ _ _ harness _ < /proc/$PPID/stat; step() { echo step; sleep 0.005; }
step; until [ -s $(echo r/events/*.jsonl) ]; do sleep 0.01; done
kill -STOP $harness; i=0; while [ $i -lt 300 ]; do i=$((i+1)); step; done; kill -CONT $harness
until [ $(cat r/events/*.jsonl | wc -l) -ge 301 ]; do sleep 0.01; done
i=0; while [ $i -lt 20 ]; do i=$((i+1)); step; done";
    exits(0, &door, "single --device cpu:0 --repeats 1 --out r --steps-regex step --", &["sh", "-c", script]);
    let row = row(&door);
    assert_eq!((row.status, row.err, row.steps_total), (Status::Ok, None, 321), "{:?}", row.err_detail);
    assert!(row.warnings.iter().any(|warning| warning == Warning::Buffered), "{row:?}");
    let spent: u64 = events_of(&door, &row.launch, 0)
        .iter()
        .filter_map(|event| if let Event::Step(step) = event { Some(step.dur_ns.0) } else { None })
        .sum();
    assert!(spent >= 319 * 5_000_000, "no time of a step is lost: {spent}");
}

#[test]
fn output_without_a_step_is_a_row_that_names_the_regex() {
    let door = crate::door();
    exits(1, &door, "single --device cpu:0 --repeats 1 --out r --steps-regex ^step --", &["echo", "stop 1"]);
    let row = row(&door);
    assert_eq!(row.err, Some(ErrorKind::TooShort), "{row:?}");
    assert!(row.err_detail.as_deref().unwrap_or_default().contains("match '^step'"), "{row:?}");
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

/// `say` appends an event to the file of the program, with the time of its clock and `ahead_ns`. `train_on(event)` says an event from time
/// to time, without an end: a step if none is given.
const SAY: &str = r#"
import json
ahead_ns = seq = 0
def say(event):
    global seq
    line = {"seq": seq, "rank": 0, "mono_ns": time.monotonic_ns() + ahead_ns, "event": event}
    with open(os.environ["TANDEM_EVENTS"], "a") as file:
        file.write(json.dumps(line) + "\n")
    seq += 1
hello = {"hello": {"protocol": 1, "worker": "own", "version": "1", "pid": os.getpid()}}
ready = {"ready": {"startup_ns": 1}}
def train_on(event=None):
    for index in itertools.count():
        time.sleep(0.002 if event is None else 0.05)
        say(event or {"step": {"index": index, "dur_ns": 2000000, "timing": "hook"}})
"#;

/// A launch of a program with [`SAY`] fails with these words.
fn fails_by_its_events(options: &str, rest: &str, program: &[&str], kind: ErrorKind, words: &str) {
    let Some(door) = with_program(&format!("{SAY}{rest}")) else { return };
    exits(1, &door, &format!("single --device cpu:0 --repeats 1 --seconds 1 --out r {options} --"), program);
    let row = row(&door);
    let detail = row.err_detail.as_deref().unwrap_or_default();
    assert!(row.err == Some(kind) && detail.contains(words), "{rest}: {:?}: {detail}", row.err);
    assert_eq!(door.leftovers(), Vec::<String>::new(), "{rest}");
}

#[test]
fn a_program_that_is_ready_and_never_rests_fails() {
    let program = ["python3", "train.py"];
    let ignores = "and has taken 129 more, up to step ";
    fails_by_its_events("", "say(hello); say(ready); train_on()", &program, ErrorKind::Protocol, ignores);
    let silent = "say(hello); say(ready); train_on({'memory': {'allocated_bytes': 1, 'peak_bytes': 1}})";
    fails_by_its_events("--heartbeat 1s", silent, &program, ErrorKind::Hung, "reported no progress for ");
    let unasked =
        "say(hello); say(ready); say({'paused': {'dur_ns': 1, 'bytes_freed': 0}}); time.sleep(1000)";
    let answers = "answered 'paused' without a command";
    fails_by_its_events("", unasked, &program, ErrorKind::Protocol, answers);
}

#[test]
fn a_count_of_steps_beyond_any_launch_is_refused() {
    let program = ["python3", "train.py"];
    for (event, words) in [
        ("{'held': {'index': 2**64 - 1}}", "index is 18446744073709551615, and no launch takes more than"),
        (
            "{'step': {'index': 2**64 - 1, 'dur_ns': 1, 'timing': 'hook'}}",
            "index is 18446744073709551615, and no",
        ),
        (
            "{'finished': {'steps': 2**64 - 1}}",
            "steps is 18446744073709551615, and no launch takes more than",
        ),
    ] {
        let rest = format!("say(hello); say(ready); say({event}); time.sleep(1000)");
        fails_by_its_events("", &rest, &program, ErrorKind::Garbled, words);
    }
}

#[test]
fn a_program_with_another_clock_fails_and_is_told_how_far_it_is_off() {
    let program = ["python3", "train.py"];
    for (rest, words) in [
        ("ahead_ns = 86400 * 10**9; say(hello); train_on()", " s ahead of that of the harness"),
        ("ahead_ns = -time.monotonic_ns(); say(hello); train_on()", " behind that of the harness"),
        (
            "say(hello); ready['ready']['startup_ns'] = 10**18; say(ready); train_on()",
            "after its start, which was ",
        ),
    ] {
        fails_by_its_events("", rest, &program, ErrorKind::Clock, words);
    }
    let elsewhere =
        ["unshare", "-T", "--monotonic", "86400", "--boottime", "86400", "--fork", "python3", "train.py"];
    let probe = Command::new(elsewhere[0]).args(&elsewhere[1..7]).arg("true").stderr(Stdio::null()).status();
    if !probe.is_ok_and(|status| status.success()) {
        schema::skips::skipped("unshare", "time namespaces cannot be made here");
        return;
    }
    fails_by_its_events("", "train()", &elsewhere, ErrorKind::Clock, " s ahead of that of the harness");
}

/// Truncates the grant page in two ways, before the first step and later, and trains on.
const TRUNCATES: &str = r#"
refused = 0
def truncate():
    global refused
    page = os.environ["TANDEM_CONTROL"]
    for attempt in (lambda: os.truncate(page, 0), lambda: open(page, "wb")):
        try:
            attempt()
        except OSError:
            refused += 1
truncate()
train(20)
truncate()
print(refused, flush=True)
train()
"#;

#[test]
fn a_program_that_truncates_its_grant_page_harms_nobody() {
    let Some(door) = with_program(TRUNCATES) else { return };
    exits(0, &door, "single --device cpu:0 --repeats 1 --steps 60 --out r --", &["python3", "train.py"]);
    let row = row(&door);
    assert_eq!((row.status, row.timing), (Status::Ok, Some(Timing::Hook)));
    assert!(row.steps_total >= 60, "its steps were granted all along: {row:?}");
    let printed = fs::read_to_string(door.run("r").stdout_path(&row.launch, 0)).expect("its output is kept");
    assert_eq!(printed, "4\n");
    assert!(matches!(events_of(&door, &row.launch, 0).last(), Some(Event::Held { .. })));
    assert_eq!(files_named(&door.path("r"), ".control"), Vec::<PathBuf>::new());
    assert_eq!(door.leftovers(), Vec::<String>::new());
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

/// A Python with PyTorch, or a recorded skip.
fn python_with_torch() -> Option<PathBuf> {
    let python = root().join(".venv-parity/bin/python");
    let found = python.is_file();
    if !found {
        schema::skips::skipped(
            "pytorch",
            "there is no .venv-parity/bin/python with PyTorch; scripts/parity makes it",
        );
    }
    found.then_some(python)
}

const MODEL: &str = r#"
import os, torch, torch.distributed as dist
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
if "RANK" in os.environ:
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters())
while True:
    optimizer.zero_grad()
    model(torch.randn(32, 64)).square().mean().backward()
    optimizer.step()
"#;

#[test]
fn a_program_of_pytorch_and_its_ranks_under_torchrun() {
    let Some(python) = python_with_torch() else { return };
    let python = python.to_str().expect("it is text");
    let door = crate::door();
    fs::write(door.path("train.py"), MODEL).expect("the folder is writable");
    let torchrun =
        [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"];
    for (program, ranks) in [(&[python, "train.py"][..], 1), (&torchrun, 2)] {
        let run = "single --device cpu:0 --threads 1 --repeats 1 --steps 30 --out r --";
        let output = door.command(run).args(program).output().expect("profile starts");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let row = row(&door);
        assert_eq!((row.timing, row.parameters), (Some(Timing::Hook), Some(64 * 65 + 65)));
        assert!(row.steps_total >= 30, "{row:?}");
        for rank in 0..ranks {
            assert!(matches!(events_of(&door, &row.launch, rank).last(), Some(Event::Held { .. })));
        }
        assert_eq!(door.run("r").ranks(&door.run("r").spec(&row.launch).expect("it was told")), ranks);
        assert_eq!(door.leftovers(), Vec::<String>::new());
        fs::remove_dir_all(door.path("r")).expect("it is ours");
    }
}

#[test]
fn of_optimizers_that_take_turns_it_is_said_which_one_counts() {
    let gan = "generator = torch.optim.SGD([torch.Parameter(8)])
for batch in itertools.count():
    train(1)
    if batch % 5 == 0:
        generator.step()";
    let Some(door) = with_program(gan) else { return };
    let said =
        exits(0, &door, "single --device cpu:0 --repeats 1 --steps 30 --out r --", &["python3", "train.py"]);
    assert!(said.err.contains("each call of the one that was called first is a step"), "{}", said.err);
    let row = row(&door);
    assert_eq!((row.status, row.timing), (Status::Ok, Some(Timing::Hook)));
    assert!(row.warnings.iter().any(|warning| warning == Warning::Alternating), "{row:?}");
    assert!(row.step_ns_mean.expect("it took steps") >= 2_000_000, "{row:?}");
}

#[test]
fn a_second_process_that_trains_is_warned_of_and_takes_no_turns() {
    let Some(door) = with_program(&format!("{MEET}train(1)\nmeet(2)\ntrain()")) else { return };
    let script = "sh -c 'python3 train.py & python3 train.py & wait'";
    exits(0, &door, "single --device cpu:0 --repeats 1 --steps 30 --out r --cmd", &[script]);
    let alone = row(&door);
    assert_eq!((alone.status, alone.timing), (Status::Ok, Some(Timing::Hook)));
    assert!(alone.warnings.iter().any(|warning| warning == Warning::Unheard), "{alone:?}");
    let end = door.run("r").launch_end(&alone.launch).expect("it can be read").expect("it has ended");
    assert_eq!((end.notes.has_pytorch, end.notes.unheard), (true, 1));
    assert_eq!(files_named(&door.path("r"), ".notes"), Vec::<PathBuf>::new());
    let run =
        "colocate synthetic-sleep --device cpu:0 --sharing step-gate --repeats 1 --seconds 1 --out g --cmd";
    exits(1, &door, run, &[script]);
    let refused: Vec<_> =
        door.measurements("g").into_iter().filter(|row| row.status == Status::Unsupported).collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
    for row in refused {
        assert!(row.err_detail.unwrap_or_default().contains("has several processes that train"));
    }
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

#[test]
fn a_program_with_pytorch_and_no_optimizer_step_is_told_how_to_show_its_steps() {
    // Where lines mark steps, the program prints the others after the harness has read the first.
    let program = "for i in range(30):
    time.sleep(0.01)
    print('batch', i, flush=True)
    while sys.argv[1:] and not os.path.getsize(sys.argv[1]):
        time.sleep(0.001)";
    let Some(door) = with_program(program) else { return };
    let run = "single --device cpu:0 --repeats 1";
    let said = exits(0, &door, &format!("{run} --out r --"), &["python3", "train.py"]);
    let silent = row(&door);
    assert_eq!((silent.status, silent.timing), (Status::Ok, Some(Timing::Outside)));
    let has_no_steps = |row: &Measurement| row.warnings.iter().any(|warning| warning == Warning::NoSteps);
    assert!(has_no_steps(&silent), "{silent:?}");
    assert!(
        said.err.contains("no optimizer step was seen") && said.err.contains("--steps-regex"),
        "{}",
        said.err
    );
    let program = ["sh", "-c", "exec python3 train.py s/events/*.jsonl"];
    exits(0, &door, &format!("{run} --steps-regex ^batch --out s --"), &program);
    let [shown] = &door.measurements("s")[..] else { panic!("one launch has one row") };
    assert_eq!((shown.timing, shown.steps_total), (Some(Timing::Scraped), 30));
    assert!(!has_no_steps(shown), "{shown:?}");
}

/// A loop of inference beside a job that trains.
#[test]
fn a_program_that_shows_its_steps_stands_beside_a_job() {
    let Some(door) = with_program("while True:\n    time.sleep(0.01)\n    print('batch', flush=True)") else {
        return;
    };
    let run =
        "colocate synthetic-sleep --device cpu:0 --repeats 1 --seconds 1 --steps-regex ^batch --out r --cmd";
    exits(0, &door, run, &["python3 train.py"]);
    let found = door.interference("r");
    assert_eq!(found.len(), 2, "{found:?}");
    for row in &found {
        assert_eq!(row.status, Status::Ok, "{row:?}");
        let (alone, together) =
            (row.step_ns_alone.expect("it stepped"), row.step_ns_together.expect("it stepped"));
        let slowdown = row.slowdown.expect("both are known");
        assert!((slowdown * alone as f64 / together as f64 - 1.0).abs() < 1e-3, "{row:?}");
        // A step of the job sleeps for 10 ms. When the harness reads the program's line depends on the machine.
        assert!(row.timing == Some(Timing::Scraped) || alone.min(together) >= 10_000_000, "{row:?}");
    }
    assert!(found.iter().any(|row| row.timing == Some(Timing::Scraped)), "{found:?}");
}
