//! Programs that write events of the worker protocol themselves, and what they can do wrong.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use record::rows::{ErrorKind, Status};
use schema::wire::{Event, Timing};

use super::{events_of, exits, files_named, row, with_program};

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
