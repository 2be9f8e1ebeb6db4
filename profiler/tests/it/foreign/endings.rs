//! Programs that act on SIGTERM before they end.

use front_door::Background;
use record::rows::{ErrorKind, Measurement, Status, Warning};
use rustix::process::Signal;
use schema::{
    events,
    wire::{Event, Timing},
};

use super::{events_of, exits, profile, row, with_program};

/// Trains until some steps after SIGTERM, as jobs of Slurm do that save at a step. Saving takes a while, in which the program may be killed.
const SAVES: &str = "import signal
steps, last = 0, float('inf')
def handler(*_):
    global last
    last = steps + 3
signal.signal(signal.SIGTERM, handler)
while steps < last:
    train(1)
    steps += 1
time.sleep(0.3)
open('saved', 'w').write(str(steps))";

fn was_killed(row: &Measurement) -> bool {
    row.warnings.iter().any(|warning| warning == Warning::Killed)
}

#[test]
fn a_program_that_saves_after_the_step_in_which_it_is_ended_has_saved() {
    for shell in [None, Some("python3 train.py; exit 3")] {
        let Some(door) = with_program(SAVES) else { return };
        let program = shell.map_or(vec!["python3", "train.py"], |script| vec!["sh", "-c", script]);
        let run = "single --device cpu:0 --repeats 1 --steps 40 --out r --";
        exits(0, &door, run, &program);
        let row = row(&door);
        assert_eq!((row.status, row.timing, was_killed(&row)), (Status::Ok, Some(Timing::Hook), false));
        let saved = std::fs::read_to_string(door.path("saved")).expect("it has saved");
        assert_eq!(saved, row.steps_total.to_string(), "{shell:?}");
        let end = door.run("r").launch_end(&row.launch).expect("it can be read").expect("it has ended");
        assert_eq!(end.killed_after, None);
        let lines = events::read(&door.run("r").events_path(&row.launch, 0), 0).expect("they are whole");
        let enough = end.enough_mono_ns.expect("it was ended");
        let counted = |event: &Event| matches!(event, Event::Step(_));
        let before = lines.iter().filter(|line| counted(&line.event) && line.mono_ns <= enough).count();
        assert!(row.steps_used as usize <= before && before < row.steps_total as usize, "{row:?}");
        assert_eq!(door.leftovers(), Vec::<String>::new());
    }
}

/// What a program does after its last step, or after SIGTERM, is the time of its exit.
#[test]
fn the_time_of_an_exit_begins_with_the_last_step_or_the_order_to_stop() {
    for (program, option) in [("train(60)\ntime.sleep(0.4)", ""), (SAVES, "--steps 40")] {
        let Some(door) = with_program(program) else { return };
        let run = format!("single --device cpu:0 --repeats 1 {option} --out r --");
        exits(0, &door, &run, &["python3", "train.py"]);
        let row = row(&door);
        let exit = row.exit_ns.expect("its steps were seen");
        let end = door.run("r").launch_end(&row.launch).expect("it can be read").expect("it has ended");
        let lines = events::read(&door.run("r").events_path(&row.launch, 0), 0).expect("they are whole");
        let last =
            lines.iter().rev().find(|line| matches!(line.event, Event::Step(_))).expect("it took steps");
        let began = last.mono_ns.max(end.enough_mono_ns.unwrap_or_default());
        assert_eq!(exit, (end.mono_ns - began).0, "{program}");
        assert!(exit >= 300_000_000, "{program}: {row:?}");
        assert_eq!(door.summaries("r")[0].exit_ns, Some(exit));
    }
}

#[test]
fn an_interrupted_program_saves() {
    let Some(door) = with_program(&format!("train(40)\nopen('trains', 'w').close()\n{SAVES}")) else {
        return;
    };
    let run = "single --device cpu:0 --repeats 1 --seconds 3600 --out r --";
    let profile = profile(&door, run, &["python3", "train.py"]);
    let mut profile = Background::start(profile);
    front_door::wait_until("it trains", || door.path("trains").exists());
    profile.send(Signal::INT);
    profile.wait();
    let run = door.run("r");
    let [launch] = &run.launches().expect("they can be listed")[..] else { panic!("one launch") };
    let end = run.launch_end(launch).expect("it can be read").expect("it has ended");
    assert_eq!((end.err, end.killed_after), (Some(ErrorKind::Interrupted), None));
    assert!(door.path("saved").exists());
}

#[test]
fn members_of_a_group_save_though_they_are_held() {
    let saves = SAVES.replace("'saved'", "'saved-' + str(os.getpid())");
    let Some(door) = with_program(&saves) else { return };
    let run = "colocate --device cpu:0 --sharing step-gate --repeats 1 --seconds 1 --out g";
    let program = ["--cmd", "python3 train.py", "--cmd", "python3 -u train.py"];
    exits(0, &door, run, &program);
    let rows = door.measurements("g");
    assert!(rows.iter().all(|row| row.status == Status::Ok && !was_killed(row)), "{rows:?}");
    let saved = std::fs::read_dir(door.path("")).expect("it can be listed").flatten();
    let saved = saved.filter(|entry| entry.file_name().to_string_lossy().starts_with("saved-")).count();
    let launches = door.run("g").launches().expect("they can be listed").len();
    assert_eq!(saved, launches, "each launch, alone and in the group");
}

#[test]
fn a_program_that_ignores_sigterm_is_killed_and_its_row_says_so() {
    let Some(door) = with_program("import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntrain()")
    else {
        return;
    };
    let run = "single --device cpu:0 --repeats 1 --steps 40 --out r --";
    let said = exits(0, &door, run, &["python3", "train.py"]);
    let row = row(&door);
    assert_eq!((row.status, row.timing, was_killed(&row)), (Status::Ok, Some(Timing::Hook), true));
    assert!(said.err.contains("killed: it did not end within 10.0 s of SIGTERM"), "{}", said.err);
    let steps =
        events_of(&door, &row.launch, 0).iter().filter(|event| matches!(event, Event::Step(_))).count();
    assert!(steps > 2 * row.steps_used as usize, "it has trained in the grace period: {steps}, {row:?}");
}

/// Has a worker as a loader of batches has them: a child of Python's multiprocessing, which the program needs until it has saved. With
/// `die` it does not handle SIGTERM.
const WITH_WORKER: &str = "import multiprocessing, signal, sys
def work(batches):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        batches.put(1)
told = False
def handler(*_):
    global told
    told = True
if __name__ == '__main__':
    if sys.argv[2] == 'save':
        signal.signal(signal.SIGTERM, handler)
    context = multiprocessing.get_context(sys.argv[1])
    batches = context.Queue(4)
    worker = context.Process(target=work, args=(batches,), daemon=True)
    worker.start()
    while not told:
        batches.get()
        train(1)
    worker.join(0.5)
    open('saved', 'w').write(str(worker.is_alive()))";

#[test]
fn workers_of_a_program_are_there_until_it_has_saved() {
    for (way, on_signal) in [("fork", "save"), ("spawn", "save"), ("fork", "die"), ("spawn", "die")] {
        let Some(door) = with_program(WITH_WORKER) else { return };
        let run = "single --device cpu:0 --repeats 1 --steps 40 --out r --";
        exits(0, &door, run, &["python3", "train.py", way, on_signal]);
        let row = row(&door);
        assert_eq!((row.status, was_killed(&row)), (Status::Ok, false), "{way} {on_signal}: {row:?}");
        let saved = std::fs::read_to_string(door.path("saved")).ok();
        let expected = (on_signal == "save").then(|| "True".to_owned());
        assert_eq!(saved, expected, "{way} {on_signal}");
    }
}

#[test]
fn a_forked_rank_is_told_to_end_with_its_parent() {
    let ranks = "import signal
rank = 0 if os.fork() else 1
os.environ['RANK'] = str(rank)
told = False
def handler(*_):
    global told
    told = True
signal.signal(signal.SIGTERM, handler)
while not told:
    train(1)
open(f'saved-{rank}', 'w').close()
if rank == 0:
    os.wait()";
    let Some(door) = with_program(ranks) else { return };
    exits(0, &door, "single --device cpu:0 --repeats 1 --steps 40 --out r --", &["python3", "train.py"]);
    assert!(!was_killed(&row(&door)));
    assert!(["saved-0", "saved-1"].iter().all(|name| door.path(name).exists()));
}
