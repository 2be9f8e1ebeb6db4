//! The ways in which jobs are suspended (`--suspend`), under a program that slices the time of one device.

use std::process::Command;

use formats::{
    decision::{self, Action, ClusterEvent, Settled},
    rows::{Outcome, Prediction, Totals},
};
use front_door::{Background, Door, Said, has_cores, wait_until};
use record::{
    calibration::Switch,
    rows::{self, ErrorKind, Status},
    suspension::Suspension,
};
use rustix::process::Signal;
use schema::{events::EventReader, wire::Event};

use crate::run::{door, outcomes, run};

/// Gives the device to each job in turn for this time, the job that had it longest ago first. It suspends jobs in the way of the run, and
/// writes down its first view. While the file `hold` exists, it stops answering once a job is suspended.
const SLICES: &str = r#"import json, os, sys, time
QUANTUM = 400_000_000
jobs, way, had = {}, None, {}
for turn in map(json.loads, sys.stdin):
    if "begin" in turn:
        way = turn["begin"]["suspension"]
        open("begin.json", "w").write(json.dumps(turn["begin"]))
    jobs.update((job["job"], job) for job in turn["jobs"])
    now, actions, wake = turn["now_ns"], [], None
    if any(job["state"] == "paused" for job in jobs.values()) and os.path.exists("hold"):
        open("held", "w").close()
        while os.path.exists("hold"):
            time.sleep(0.02)
    here = [job for job in jobs.values() if job["state"] in ("starting", "running", "resuming")]
    others = [job for job in jobs.values() if job["state"] in ("waiting", "paused")]
    others.sort(key=lambda job: (had.get(job["job"], -1), job["job"]))
    is_over = here and here[0]["state"] == "running" and now - here[0]["since_ns"] >= QUANTUM
    if here and others and is_over:
        job = here[0]["job"]
        had[job] = now
        actions.append({"stop": {"job": job, "checkpoint": True}} if way == "checkpoint" else {"pause": {"job": job}})
    if others and (not here or is_over):
        job = others[0]
        is_paused = job["state"] == "paused"
        actions.append({"resume": {"job": job["job"]}} if is_paused else {"start": {"job": job["job"], "devices": [0], "plan": job["plan"]}})
    elif here and others and here[0]["state"] == "running":
        wake = here[0]["since_ns"] + QUANTUM
    print(json.dumps({"turn": turn["turn"], "actions": actions, "wake_at_ns": wake, "reason": "slices"}), flush=True)
"#;

const QUANTUM_NS: u64 = 400_000_000;

/// Two jobs of 300 steps of 5 ms.
const TWO: &str = "name,submit_s,job,steps,step_ns\na,0,short,300,5000000\nb,0,short,300,5000000\n";

const CATALOG: &str = "--catalog catalog.toml --out r";

fn sliced(mut command: Command) -> Command {
    command.args(["--policy", "exec:python3 slices.py"]);
    command
}

fn exits(code: i32, command: Command) -> Said {
    let output = sliced(command).output().expect("it starts");
    let said = Said::of(&output);
    assert_eq!(output.status.code(), Some(code), "{}\n{}", said.out, said.err);
    said
}

fn two() -> Door {
    let door = door(TWO);
    door.write("slices.py", SLICES);
    door
}

/// A calibration of `short` with these parts, in ms, without spread.
fn machine(door: &Door, parts: &[(Switch, u64)]) {
    let head = "format = 1\nmeasured_utc = \"2026-11-25T00:00:00Z\"\ncommand = []\nversion = \"0\"\nseed = 1\npool = [\"cuda:0\"]\n[machine]\n";
    let row = |(part, ms): &(Switch, u64)| {
        let ns = ms * 1_000_000;
        format!(
            "[[restart]]\njob = \"short@b8@dp1\"\ndevices = [\"cuda:0\"]\npart = \"{part}\"\nns = [{ns}, {ns}, {ns}]\nrepeats = 5\n"
        )
    };
    door.write("machine.toml", &(head.to_owned() + &parts.iter().map(row).collect::<String>()));
}

const RESTART: [(Switch, u64); 8] = [
    (Switch::Pause, 40),
    (Switch::Resume, 30),
    (Switch::Checkpoint, 50),
    (Switch::Stop, 60),
    (Switch::Start, 100),
    (Switch::Restore, 20),
    (Switch::FirstStep, 25),
    (Switch::Step, 5),
];

const HELD: [(Switch, u64); 9] = [
    (Switch::Release, 2),
    (Switch::Hold, 3),
    (Switch::CudaLock, 11),
    (Switch::CudaCheckpoint, 200),
    (Switch::CudaRestore, 150),
    (Switch::CudaUnlock, 7),
    (Switch::PauseAnswer, 45),
    (Switch::ResumeAnswer, 33),
    (Switch::CheckpointAnswer, 55),
];

/// The device is never idle, so that the makespan is the work and the switches: two starts, two exits, and this for each suspension. A
/// start takes 100 ms, the first step 20 ms more than others, and an exit 60 ms, as a stop does.
fn each_suspension_costs(door: &Door, way: &str, per_suspension_ms: u64) {
    let arguments = format!(
        "sim trace.csv --cluster 1x1 --machine machine.toml --catalog catalog.toml --suspend {way} --json --out {way}"
    );
    let said = exits(0, door.command(&arguments));
    let totals: Vec<Totals> = rows::from_json(&said.out).expect("rows of totals");
    let row = &totals[0];
    // A job that does its last step before it has left is not suspended.
    let turns = decision::read(&door.run(way).decisions_path()).expect("it reads");
    let left = |happened: &&ClusterEvent| {
        matches!(happened, ClusterEvent::Settled { now: Settled::Paused | Settled::Stopped, .. })
    };
    let suspensions = turns.iter().flat_map(|turn| &turn.events).filter(left).count() as u64;
    assert!(suspensions >= 2 && (row.ok, row.steps_lost) == (2, 0), "{way}: {row:?}");
    let expected_ms = 2 * 300 * 5 + 2 * (120 + 60) + suspensions * per_suspension_ms;
    assert_eq!(row.makespan_ns, Some(expected_ms * 1_000_000), "{way}: {row:?}");
}

#[test]
fn a_simulated_suspension_costs_the_parts_of_its_way() {
    let door = two();
    machine(&door, &[&RESTART[..], &HELD].concat());
    for (way, per_suspension_ms) in [
        ("step-gate", 3 + 2),
        ("pause", 3 + 45 + 33 + 2),
        ("checkpoint", 55 + 60 + 120 + 20),
        ("cuda-checkpoint", 3 + 11 + 200 + 150 + 7 + 2),
    ] {
        each_suspension_costs(&door, way, per_suspension_ms);
        let begin = std::fs::read_to_string(door.path("begin.json")).expect("it was shown");
        assert!(begin.contains(&format!("\"suspension\": \"{way}\"")), "{begin}");
        let manifest = door.run(way).manifest().expect("it reads");
        assert_eq!(manifest.scheduling.expect("it is a run of sched").suspension.to_string(), way);
        let said = door.exits(0, &format!("replay {way} --yes"));
        assert!(said.out.contains("every decision as it was recorded"), "{}", said.out);
    }
    // A calibration from before these parts were measured.
    let door = two();
    machine(&door, &RESTART);
    each_suspension_costs(&door, "pause", 40 + 30);
    each_suspension_costs(&door, "checkpoint", 50 + 60 + 120 + 20);
    // A run from before the option paused its jobs.
    let manifest = door.path("pause/manifest.toml");
    let text = std::fs::read_to_string(&manifest).expect("it reads").replace("suspension = \"pause\"\n", "");
    std::fs::write(&manifest, text).expect("it is ours");
    let said = door.exits(0, "replay pause --yes");
    assert!(said.out.contains("every decision as it was recorded"), "{}", said.out);
}

#[test]
fn programs_that_obey_no_grant_are_frozen_in_turn_and_lose_no_step() {
    if !has_cores(1) {
        return;
    }
    let command = "sh -c 'i=0; while test $i -lt 300; do i=$((i+1)); echo step $i; sleep 0.005; done'";
    let trace = format!(
        "name,submit_s,command,steps,steps_regex,step_ns\na,0,\"{command}\",300,^step (\\d+),6000000\n\
         b,0,\"{command}\",300,^step (\\d+),6000000\n"
    );
    for way in [Suspension::StepGate, Suspension::Pause] {
        let door = door(&trace);
        door.write("slices.py", SLICES);
        let arguments = format!("run trace.csv --device cpu:0 --switch-cost 10ms --suspend {way} {CATALOG}");
        exits(0, door.command(&arguments));
        for row in outcomes(&door) {
            assert_eq!((row.status, row.steps, row.starts), (Status::Ok, 300, 1), "{way}: {row:?}");
            let most = row.running_ns.expect("it ran") / QUANTUM_NS;
            assert!((1..=most).contains(&u64::from(row.pauses)), "{way}: {row:?}");
        }
        let turns = decision::read(&door.run("r").decisions_path()).expect("it reads");
        let refused: Vec<_> = turns.iter().flat_map(|turn| &turn.refused).collect();
        assert!(refused.is_empty(), "{way}: {refused:?}");
        let said = door.exits(0, "replay r --yes");
        assert!(said.out.contains("every decision as it was recorded"), "{}", said.out);
    }
}

#[test]
fn jobs_on_cores_are_sliced_in_each_way_and_lose_no_step() {
    if !has_cores(1) {
        return;
    }
    for way in [Suspension::StepGate, Suspension::Pause, Suspension::Checkpoint] {
        let door = two();
        machine(&door, &[&RESTART[..], &HELD].concat());
        let arguments =
            format!("run trace.csv --device cpu:0 --machine machine.toml --suspend {way} {CATALOG}");
        exits(0, door.command(&arguments));
        let run = run(&door);
        let predictions: Vec<Prediction> = rows::read(&run.predictions_path()).expect("it reads");
        let found = outcomes(&door);
        for (row, predicted) in found.iter().zip(&predictions) {
            assert_eq!((row.status, row.steps, row.steps_lost), (Status::Ok, 300, 0), "{way}: {row:?}");
            let suspensions =
                |starts: u32, pauses: u32| if way == Suspension::Checkpoint { starts - 1 } else { pauses };
            // Each suspension follows a whole quantum, however long a step took.
            let most = row.running_ns.expect("it ran") / QUANTUM_NS;
            let measured = suspensions(row.starts, row.pauses);
            assert!((1..=most).contains(&u64::from(measured)), "{way}: {row:?}");
            // The prediction is 1.5 s.
            let expected = suspensions(predicted.starts, predicted.pauses);
            assert!((1..=3).contains(&expected), "{way}: {predicted:?}");
            let others = if way == Suspension::Checkpoint { row.pauses } else { row.starts - 1 };
            assert_eq!(others, 0, "{way}: {row:?}");
        }
        let mut said = Vec::new();
        for launch in run.launches().expect("there are launches") {
            EventReader::open(&run.events_path(&launch, 0), 0)
                .expect("it is there")
                .poll(&mut said)
                .expect("it reads");
        }
        let count = |what: fn(&Event) -> bool| said.iter().filter(|line| what(&line.event)).count();
        let paused = count(|event| matches!(event, Event::Paused { .. }));
        assert_eq!(paused > 0, way == Suspension::Pause, "{way}: only a pause is a command");
        assert_eq!(count(|event| matches!(event, Event::Step(_))), 600, "{way}: no step is done twice");
        assert!(door.exits(0, "replay r --yes").out.contains("every decision as it was recorded"));
    }
}

/// A pause is refused where jobs are stopped, and the journal says why.
#[test]
fn a_pause_is_refused_where_jobs_are_suspended_by_a_stop() {
    let door = two();
    door.write("slices.py", &SLICES.replace("way == \"checkpoint\"", "False"));
    let arguments =
        "sim trace.csv --cluster 1x1 --switch-cost 0s --catalog catalog.toml --suspend checkpoint --out r";
    exits(0, door.command(arguments));
    let turns = decision::read(&run(&door).decisions_path()).expect("it reads");
    let refused =
        turns.iter().flat_map(|turn| &turn.refused).find(|it| matches!(it.action, Action::Pause { .. }));
    let why = "jobs of this run are suspended by a stop with a checkpoint, and not by a pause";
    assert_eq!(refused.map(|it| it.why.as_str()), Some(why));
}

#[test]
fn what_is_wrong_with_a_way_is_said_before_anything_starts() {
    let door = two();
    machine(&door, &RESTART);
    door.write("pair.csv", "name,submit_s,job,steps,step_ns\na,0,short@dp2,9,5000000\n");
    for (code, arguments, message) in [
        (
            2,
            "sim trace.csv --cluster 1x1 --switch-cost 1s --suspend criu",
            "'criu' is not one of: step-gate, pause, checkpoint",
        ),
        (
            2,
            "sim trace.csv --cluster 1x1 --machine machine.toml --suspend step-gate",
            "the calibration does not have what --suspend step-gate costs short@b8@dp1; run `profile calibrate short@b8@dp1 --catalog \
             catalog.toml --out machine.toml` first, or add --switch-cost",
        ),
        (
            2,
            "run trace.csv --device cpu:0 --machine machine.toml --suspend step-gate",
            "run `profile calibrate short@b8@dp1 --device cpu:0 --catalog catalog.toml --out machine.toml` first",
        ),
        (
            2,
            "run trace.csv --device cpu:0 --suspend cuda-checkpoint",
            "--suspend cuda-checkpoint moves the memory of GPUs, and cpu:0 is not a GPU; suspend jobs by step-gate, pause or checkpoint",
        ),
        (
            2,
            "sim trace.csv --device cpu:0 --switch-cost 1s --suspend cuda-checkpoint",
            "and cpu:0 is not a GPU",
        ),
        (
            2,
            "sim pair.csv --cluster 1x2 --switch-cost 1s --suspend cuda-checkpoint",
            "a has 2 processes, and --suspend cuda-checkpoint moves the memory of one",
        ),
    ] {
        let said = exits(code, door.command(&format!("{arguments} {CATALOG}")));
        assert!(said.err.contains(message), "{arguments}: {}", said.err);
        assert!(!door.path("r").exists(), "{arguments}: nothing was begun");
    }
    // A named cost stands for what was not measured.
    let named = "sim trace.csv --cluster 1x1 --machine machine.toml --switch-cost 1s --suspend step-gate";
    exits(0, door.command(&format!("{named} {CATALOG}")));
}

/// `sched` on a GPU of a scripted driver, with a stand-in for `cuda-checkpoint` that does this.
fn on_a_gpu(door: &Door, arguments: &str, driver: &str, then: &str) -> Command {
    let script = fake_driver::H200.replace("driver = \"580.159.03\"", &format!("driver = \"{driver}\""));
    let library = fake_driver::install(&door.path(""), &script).expect("the folder is writable");
    let mut command = door.command_with_cuda_checkpoint(arguments, then);
    command.env("TANDEM_NVML", &library).env("LD_LIBRARY_PATH", door.path(""));
    command
}

const MOVED: &str = "run trace.csv --device cuda:0 --suspend cuda-checkpoint --progress-every 100ms --catalog catalog.toml --out r";

#[test]
fn a_job_is_moved_off_its_gpu_and_back() {
    let door = two();
    exits(0, on_a_gpu(&door, MOVED, "580.159.03", "exit 0"));
    let found = outcomes(&door);
    assert!(found.iter().all(|row| (row.status, row.steps, row.starts) == (Status::Ok, 300, 1)), "{found:?}");
    // A job that does its last step while it is being paused is not moved.
    let journal = std::fs::read_to_string(door.path("r/decisions.jsonl")).expect("there is a journal");
    let suspensions = journal.matches("\"now\":\"paused\"").count();
    assert!(suspensions >= 2, "{found:?}");
    let calls = door.calls_of_cuda_checkpoint();
    for job in calls.iter().map(|(_, pid)| pid) {
        let of_job: Vec<&str> =
            calls.iter().filter(|(_, pid)| pid == job).map(|(action, _)| action.as_str()).collect();
        let all = ["lock", "checkpoint", "restore", "unlock"];
        assert!(of_job.chunks(4).all(|actions| actions == all), "{calls:?}");
    }
    assert_eq!(calls.len(), 4 * suspensions, "{calls:?}");
    let lock = std::fs::read_to_string(door.path("calls")).expect("it was called");
    assert!(lock.lines().next().expect("it was called").ends_with("--timeout 10000"), "{lock}");
    door.wait_until_nothing_is_left();
}

#[test]
fn a_move_that_fails_costs_its_job_and_nothing_else() {
    let door = two();
    // The first checkpoint fails.
    let then = "test $2 = checkpoint && test ! -e failed && { touch failed; echo 'out of host memory' >&2; exit 1; }; exit 0";
    exits(1, on_a_gpu(&door, MOVED, "580.159.03", then));
    let (failed, good): (Vec<Outcome>, Vec<Outcome>) =
        outcomes(&door).into_iter().partition(|row| row.status == Status::Failed);
    let ([failed], [good]) = (&failed[..], &good[..]) else { panic!("{failed:?} {good:?}") };
    assert_eq!((failed.err, failed.retries, failed.starts), (Some(ErrorKind::Suspension), 0, 1));
    let why = "cuda-checkpoint --action checkpoint failed (exit status: 1): out of host memory";
    assert!(failed.err_detail.as_deref().unwrap_or_default().contains(why), "{failed:?}");
    assert_eq!((good.status, good.steps), (Status::Ok, 300));
    door.wait_until_nothing_is_left();
}

#[test]
fn a_job_that_is_off_its_gpu_comes_back_to_be_saved() {
    let door = two();
    door.write("hold", "");
    let mut sched = Background::start(sliced(on_a_gpu(&door, MOVED, "580.159.03", "exit 0")));
    let actions =
        || door.calls_of_cuda_checkpoint().iter().map(|(action, _)| action.clone()).collect::<Vec<_>>();
    wait_until("a job is off the device", || door.path("held").exists());
    assert_eq!(actions(), ["lock", "checkpoint"]);
    sched.send(Signal::INT);
    std::fs::remove_file(door.path("hold")).expect("it is ours");
    let (code, said) = sched.wait();
    assert_eq!(code, Some(130), "{said}");
    door.wait_until_nothing_is_left();
    assert!(actions().ends_with(&["restore".into(), "unlock".into()]), "{:?}", actions());
    let resume = on_a_gpu(&door, "run --resume r --yes", "580.159.03", "exit 0").output().expect("it starts");
    assert!(resume.status.success(), "{}", Said::of(&resume).err);
    let found = outcomes(&door);
    assert!(
        found.iter().all(|row| (row.status, row.steps, row.steps_lost) == (Status::Ok, 300, 0)),
        "{found:?}"
    );
}

#[test]
fn the_program_does_not_outlive_the_scheduler() {
    let door = two();
    let then = "test $2 = checkpoint && exec sleep 1000; exit 0";
    let mut sched = Background::start(sliced(on_a_gpu(&door, MOVED, "580.159.03", then)));
    wait_until("a job is being moved", || door.calls_of_cuda_checkpoint().len() == 2);
    sched.send(Signal::KILL);
    sched.wait();
    door.wait_until_nothing_is_left();
}

#[test]
fn a_machine_without_the_program_or_with_an_old_driver_is_refused() {
    let door = two();
    let old = exits(3, on_a_gpu(&door, MOVED, "565.57.01", "exit 0"));
    let why = "--suspend cuda-checkpoint: single actions of cuda-checkpoint need driver 570 or newer, and it is 565.57.01";
    assert!(old.err.contains(why), "{}", old.err);
    let mut without = on_a_gpu(&door, MOVED, "580.159.03", "exit 0");
    without.env("PATH", "/usr/bin:/bin");
    let none = exits(3, without);
    assert!(none.err.contains("there is no cuda-checkpoint in PATH"), "{}", none.err);
    assert!(!door.path("r").exists(), "nothing was begun");
}

/// Suspends the first job once for the second. If that cannot start, the first goes on, and the second starts after it.
const ONCE: &str = r#"import json, sys
jobs, tried = {}, False
for turn in map(json.loads, sys.stdin):
    jobs.update((job["job"], job) for job in turn["jobs"])
    actions, states = [], {job: jobs[job]["state"] for job in jobs}
    start = lambda job: {"start": {"job": job, "devices": [0], "plan": jobs[job]["plan"]}}
    if states.get(0) == "waiting":
        actions.append(start(0))
    elif states.get(0) == "running" and states.get(1) == "waiting" and not tried:
        tried = True
        actions += [{"pause": {"job": 0}}, start(1)]
    elif states.get(0) == "paused" and states.get(1) in ("waiting", "ended"):
        actions.append({"resume": {"job": 0}})
    elif states.get(0) == "ended" and states.get(1) == "waiting":
        actions.append(start(1))
    print(json.dumps({"turn": turn["turn"], "actions": actions}), flush=True)
"#;

/// Jobs of 60 MB on a GPU that has room for one, and for a context of CUDA beside it or not.
#[test]
fn a_job_is_started_where_a_suspended_one_leaves_room() {
    let context = jobs::plans::CUDA_CONTEXT_BYTES;
    for (way, memory_bytes, fits) in [
        (Suspension::StepGate, 2 * context + 100_000_000, false),
        (Suspension::StepGate, 2 * context + 130_000_000, true),
        (Suspension::Pause, 2 * context + 100_000_000, true),
        (Suspension::Pause, context + 100_000_000, false),
        (Suspension::CudaCheckpoint, context + 100_000_000, true),
    ] {
        let door = two();
        let model = "step_us = 5000, busy_percent = 0, memory_bytes = 60_000_000";
        door.catalog("catalog.toml", "heavy", model);
        door.write("trace.csv", "name,submit_s,job,steps\na,0,heavy,200\nb,0,heavy,50\n");
        door.write("slices.py", ONCE);
        let script = format!(
            "driver = '580.159.03'\n[[device]]\nname = 'NVIDIA A'\nmemory_bytes = {memory_bytes}\n[device.metrics]\nmemory_used_bytes = {{}}\n"
        );
        let library = fake_driver::install(&door.path(""), &script).expect("the folder is writable");
        let arguments = format!("run trace.csv --device cuda:0 --suspend {way} {CATALOG}");
        let mut command = door.command_with_cuda_checkpoint(&arguments, "exit 0");
        command.env("TANDEM_NVML", &library).env("LD_LIBRARY_PATH", door.path(""));
        exits(0, command);
        let turns = decision::read(&run(&door).decisions_path()).expect("it reads");
        let refused: Vec<&str> =
            turns.iter().flat_map(|turn| &turn.refused).map(|refused| refused.why.as_str()).collect();
        match (&refused[..], fits) {
            ([], true) => {}
            ([why], false) if why.starts_with("it and the jobs on cuda:0 need ") => {}
            _ => panic!("{way}, {memory_bytes}: {refused:?}"),
        }
        assert!(outcomes(&door).iter().all(|row| row.status == Status::Ok));
    }
}
