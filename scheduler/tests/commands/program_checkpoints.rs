//! Programs that the catalog defines and that save their work: a run stops them, moves them and changes their plan, and each goes on from
//! what it has saved.

use std::{fs, path::Path, process::Command};

use front_door::{Door, Said};
use record::rows::{ErrorKind, Status};

use crate::run::{door_to_two, outcomes, run};

/// Trains with the fake PyTorch in ranks, and saves on a signal, on SIGTERM, or when a file is touched. Each start writes a line into
/// `starts`, and each step of the first rank a line into `steps`.
const SAVER: &str = "import os, signal, subprocess, sys, time, torch
ranks, way, folder, resume = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
optimizer = torch.optim.SGD([torch.Parameter(8)])
if 'RANK' not in os.environ:
    names = [dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks)) for rank in range(ranks)]
    children = [subprocess.Popen([sys.executable] + sys.argv, env=env) for env in names]
    signal.signal(signal.SIGTERM, lambda *_: [child.terminate() for child in children])
    sys.exit(max([child.wait() for child in children]))
told = []
if way in ('SIGUSR1', 'SIGTERM'):
    signal.signal(getattr(signal, way), lambda *_: told.append(way))
is_first, place = os.environ['RANK'] == '0', os.path.join(folder, 'last')
step = int(open(place).read()) if resume and os.path.exists(place) else 0
def note(name, *words):
    with open(name, 'a') as file:
        print(*words, file=file)
if is_first:
    note('starts', ranks, *resume, 'from', step)
while True:
    time.sleep(0.01)
    optimizer.step()
    step += 1
    if is_first:
        note('steps', step)
    if os.path.exists(os.path.join(folder, 'save')):
        told.append('touched')
        os.remove(os.path.join(folder, 'save'))
    if told:
        if is_first:
            open(place + '.new', 'w').write(str(step))
            os.rename(place + '.new', place)
            print('saved checkpoint at step', step, flush=True)
        if told[0] == 'SIGTERM':
            sys.exit(0)
        told.clear()
";

/// The definition of a program that saves in this way.
fn definition(way: &str, checkpoint: &str) -> String {
    format!(
        "[[program]]\nname = \"mine\"\ncommand = \"python3 train.py {{ranks}} {way} {{checkpoint}}\"\nbatches = [8]\n\
         axes = [\"dp\"]\n\n[program.checkpoint]\nresume = \"--resume\"\n{checkpoint}\n"
    )
}

const LINE: &str = "saved = \"saved checkpoint at step {step}\"";

/// A policy that stops a job with a checkpoint after 20 steps, and starts it again on both devices.
const GROWS: &str = "import json, sys
for turn in map(json.loads, sys.stdin):
    actions = []
    for job in turn['jobs']:
        if job['state'] == 'waiting':
            on = [0] if job['starts'] == 0 else [0, 1] if job['elastic'] else [1]
            actions.append({'start': {'job': job['job'], 'devices': on, 'plan': 'dp%d' % len(on)}})
        if job['state'] == 'running' and job['starts'] == 1 and job['steps_done'] >= 20:
            actions.append({'stop': {'job': job['job'], 'checkpoint': True}})
    print(json.dumps({'turn': turn['turn'], 'actions': actions, 'reason': 'grows'}), flush=True)
";

const RUN: &str = "run trace.csv --device cpu:0,cpu:1 --catalog mine.toml --out r --progress-every 100ms";

/// A door with the program, its definition, a policy and a trace of one job.
fn door_to(definition: &str, job: &str) -> Option<Door> {
    if !Command::new("python3").arg("-V").output().is_ok_and(|output| output.status.success()) {
        schema::skips::skipped("python3", "there is no python3");
        return None;
    }
    let door = door_to_two(&format!("name,submit_s,job,steps,elastic\n{job}\n"))?;
    door.write("train.py", SAVER);
    door.write("mine.toml", definition);
    door.write("grows.py", GROWS);
    Some(door)
}

fn said(door: &Door, arguments: &str, policy: &str, code: i32) -> Said {
    let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/python/tests/fake");
    let mut command = door.command(arguments);
    let output = command.args(["--policy", policy]).env("PYTHONPATH", fake).output().expect("sched starts");
    let said = Said::of(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments}: {}{}", said.out, said.err);
    said
}

fn lines(door: &Door, name: &str) -> Vec<String> {
    let text = fs::read_to_string(door.path(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Checks that a job of 200 steps did each of them, and went on where it had saved after at least 20. Returns the starts of its program.
fn check_steps(door: &Door) -> Vec<String> {
    let [row] = &outcomes(door)[..] else { panic!("one job has one row") };
    assert_eq!((row.status, row.steps), (Status::Ok, 200), "{row:?}");
    let starts = lines(door, "starts");
    let saved: u64 = starts[1].split_whitespace().last().and_then(|n| n.parse().ok()).expect("it says so");
    assert!((20..200).contains(&saved), "{starts:?}");
    let steps: Vec<u64> = lines(door, "steps").iter().map(|line| line.parse().expect("a number")).collect();
    // A program may be held where it can save only when it is granted another step.
    let before = if steps[saved as usize] == steps[saved as usize + 1] { saved + 1 } else { saved };
    let expected: Vec<u64> = (1..=before).chain(saved + 1..=200).collect();
    assert_eq!(steps[..expected.len()], expected, "{steps:?}");
    // It is granted one more step than it has, to see whether it ends by itself.
    assert!(matches!(steps.last(), Some(200 | 201)), "{steps:?}");
    // A program that saves when it is ended has saved once more.
    let last = fs::read_to_string(door.path("r/checkpoints/job-0000/last")).expect("it stays");
    assert!(last == saved.to_string() || matches!(&*last, "200" | "201"), "{last} after {saved}");
    // One program more starts for the policy.
    door.exits(0, "replay r --yes");
    starts
}

#[test]
fn a_program_that_saves_on_a_signal_goes_on_under_another_plan() {
    let saves = format!("save = \"SIGUSR1\"\nportable = true\n{LINE}");
    let Some(door) = door_to(&definition("SIGUSR1", &saves), "a,0,mine@b8@dp1,200,true") else { return };
    said(&door, RUN, "exec:python3 grows.py", 0);
    let starts = check_steps(&door);
    assert_eq!(starts.len(), 2, "{starts:?}");
    assert!(starts[0] == "1 from 0" && starts[1].starts_with("2 --resume from "), "{starts:?}");
}

#[test]
fn a_program_that_saves_when_it_is_ended_is_moved() {
    let saves = format!("save = \"SIGTERM\"\n{LINE}");
    let Some(door) = door_to(&definition("SIGTERM", &saves), "a,0,mine,200,false") else { return };
    said(&door, RUN, "exec:python3 grows.py", 0);
    let starts = check_steps(&door);
    assert!(starts.len() == 2 && starts[1].starts_with("1 --resume from "), "{starts:?}");
}

#[test]
fn a_program_saves_when_a_file_is_touched_and_shows_a_file() {
    let saves = "save = { touch = \"{checkpoint}/save\" }\nsaved = { file = \"{checkpoint}/last\" }";
    let Some(door) = door_to(&definition("touch", saves), "a,0,mine,200,false") else { return };
    said(&door, RUN, "exec:python3 grows.py", 0);
    check_steps(&door);
}

/// A program that has no handler for the signal is killed by it.
#[test]
fn a_program_that_does_not_save_fails_with_what_happened_to_it() {
    let saves = format!("save = \"SIGUSR1\"\n{LINE}");
    let Some(door) = door_to(&definition("none", &saves), "a,0,mine,200,false") else { return };
    said(&door, &format!("{RUN} --retries 0"), "exec:python3 grows.py", 1);
    let [row] = &outcomes(&door)[..] else { panic!("one job has one row") };
    assert_eq!((row.status, row.err), (Status::Failed, Some(ErrorKind::Crashed)), "{row:?}");
    assert!(run(&door).checkpoints_path().join("job-0000").is_dir(), "nothing of the program is removed");
}

#[test]
fn a_program_that_crashes_goes_on_from_its_last_periodic_checkpoint() {
    let saves = format!("save = \"SIGUSR1\"\n{LINE}");
    let Some(door) = door_to(&definition("SIGUSR1", &saves), "a,0,mine,200,false") else { return };
    // It dies once, when something has been saved and more has been done.
    let dies = "        told.clear()\n    if is_first and not resume and os.path.exists(place) and int(open(place).read()) + 5 < step:\n        os.kill(os.getpid(), 9)\n";
    door.write("train.py", &SAVER.replace("        told.clear()\n", dies));
    said(&door, &format!("{RUN} --checkpoint-every 200ms"), "fifo", 0);
    let [row] = &outcomes(&door)[..] else { panic!("one job has one row") };
    assert_eq!((row.status, row.steps), (Status::Ok, 200), "{row:?}");
    let starts = lines(&door, "starts");
    assert!(starts.len() == 2 && starts[1].starts_with("1 --resume from "), "{starts:?}");
    assert_ne!(starts[1], "1 --resume from 0", "{starts:?}");
}

#[test]
fn definitions_of_checkpoints_that_cannot_work_are_refused() {
    for (checkpoint, words) in [
        (
            "save = \"SIGKILL\"\nsaved = \"step {step}\"",
            "expected SIGUSR1, SIGUSR2, SIGHUP, SIGINT or SIGTERM",
        ),
        ("saved = \"saved\"", "checkpoint.saved: a line needs {step} once"),
        ("saved = \"{step} of {steps}\"", "checkpoint.saved: nothing fills {steps}"),
        ("saved = { file = \"{checkpiont}/last\" }", "checkpoint.saved.file: nothing fills {checkpiont}"),
        ("saved = { file = \"last\" }", "checkpoint.saved.file: 'last' would be a file of all jobs"),
        ("", "missing field `saved`"),
    ] {
        let Some(door) = door_to(&definition("SIGUSR1", checkpoint), "a,0,mine,200,false") else { return };
        let said = said(&door, RUN, "fifo", 2);
        assert!(
            said.err.contains("mine.toml: line ") && said.err.contains(words),
            "{checkpoint}: {}",
            said.err
        );
    }
    let good = definition("SIGUSR1", LINE);
    for (definition, words) in [
        (good.replace("\"--resume\"", "\"\""), "checkpoint.resume: expected the words"),
        (good.replace(" {checkpoint}\"", "\""), "neither the command nor checkpoint.resume has {checkpoint}"),
        (good.split("\n[program.checkpoint]").next().unwrap_or_default().into(), "add [program.checkpoint]"),
    ] {
        let Some(door) = door_to(&definition, "a,0,mine,200,false") else { return };
        let said = said(&door, RUN, "fifo", 2);
        assert!(
            said.err.contains("mine.toml: line ") && said.err.contains(words),
            "{definition}: {}",
            said.err
        );
    }
    let not_portable = format!("save = \"SIGUSR1\"\n{LINE}");
    let Some(door) = door_to(&definition("SIGUSR1", &not_portable), "a,0,mine,200,true") else { return };
    let said = said(&door, RUN, "fifo", 2);
    let words = "column 'elastic': mine keeps its plan: its checkpoints are not portable; write false";
    assert!(said.err.contains(words), "{}", said.err);
}
