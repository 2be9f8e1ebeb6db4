//! Real training by the program, if set-up has placed torch-worker in `bin/`.

use front_door::{Background, has_cores, torch_bin, wait_until};
use record::{
    calibration::{Calibration, Switch},
    rows::{ErrorKind, Status},
    run_dir::RunDir,
};
use rustix::process::{Pid, Signal, kill_process};
use schema::{
    events::{self, EventReader},
    spec::Program,
    units::Nanos,
    wire::{Event, EventLine, Phases, Step},
};
use statistics::median;

/// The steps of a launch with one rank.
fn steps_of(run: &RunDir, launch: &str) -> Vec<Step> {
    let lines = events::read(&run.events_path(launch, 0), 0).expect("events read");
    let step = |line: EventLine| if let Event::Step(step) = line.event { Some(step) } else { None };
    lines.into_iter().filter_map(step).collect()
}

#[test]
fn a_real_job_is_measured_with_its_phases_and_its_memory() {
    let Some(bin) = torch_bin() else { return };
    let door = crate::door();
    let mut command = door.command("single lstm@b4 --device cpu:0 --steps 30 --repeats 1 --out r");
    let output = command.env("TANDEM_BIN", bin).output().expect("profile starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let row = &door.measurements("r")[0];
    assert_eq!(row.status, Status::Ok);
    assert!(row.parameters.is_some() && row.flops_per_step.is_some(), "{row:?}");
    // Tensor memory holds at least parameters and gradients, four bytes each.
    assert!(row.peak_memory_bytes > row.parameters.map(|count| 8 * count), "{row:?}");
    assert!(row.sync_total_ns_median.is_none() && row.offload_ns_median.is_none());

    let steps = steps_of(&door.run("r"), "0001-lstm");
    let phase = |of: fn(&Phases) -> Option<Nanos>| -> Vec<u64> {
        let all = steps.iter().map(|step| of(step.phases.as_ref().expect("a worker of ours says phases")));
        all.map(|ns| ns.expect("every phase is reported on a CPU").0).collect()
    };
    let phases = [
        (phase(|phases| phases.data_ns), row.data_ns_median),
        (phase(|phases| phases.forward_ns), row.forward_ns_median),
        (phase(|phases| phases.backward_ns), row.backward_ns_median),
        (phase(|phases| phases.optimizer_ns), row.optimizer_ns_median),
    ];
    // Outside of its phases a step reports the step before. A busy machine makes some of these reports slow.
    let rests = steps.iter().enumerate().map(|(index, step)| {
        let sum: u64 = phases.iter().map(|(all, _)| all[index]).sum();
        let rest = step.dur_ns.0.checked_sub(sum).expect("phases are parts of a step, and no two overlap");
        rest as f64 / step.dur_ns.0 as f64
    });
    assert!(rests.fold(1.0, f64::min) < 0.2, "phases add up to a step: {steps:?}");
    let first = row.warmup_steps.expect("it stepped") as usize;
    for (all, found) in phases {
        let used = &all[first..first + row.steps_used as usize];
        assert_eq!(found, median(used).map(|ns| ns.round() as u64), "{row:?}");
    }
}

#[test]
fn offload_is_run_where_it_is_named_and_has_a_phase_of_its_own() {
    let Some(bin) = torch_bin() else { return };
    let door = crate::door();
    let arguments =
        "single lstm@b4@offload --offload-threads 1 --device cpu:0 --steps 10 --repeats 1 --out r";
    let output = door.command(arguments).env("TANDEM_BIN", bin).output().expect("profile starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let row = &door.measurements("r")[0];
    assert_eq!(row.status, Status::Ok);
    assert!(row.offload_ns_median.is_some_and(|ns| ns > 0), "{row:?}");
    // Parameters, gradients, and a copy of each in host memory, which here is the device's.
    assert!(row.peak_memory_bytes > row.parameters.map(|count| 16 * count), "{row:?}");
}

#[test]
fn one_seed_gives_one_training() {
    let Some(bin) = torch_bin() else { return };
    let losses = |run: &str| {
        let door = crate::door();
        let arguments = format!("single lstm@b4 --device cpu:0 --steps 20 --repeats 1 --out {run}");
        let output = door.command(&arguments).env("TANDEM_BIN", &bin).output().expect("profile starts");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let steps = steps_of(&door.run(run), "0001-lstm");
        steps.iter().filter_map(|step| step.loss).take(20).collect::<Vec<f64>>()
    };
    let first = losses("a");
    assert_eq!(first.len(), 20);
    assert_eq!(first, losses("b"), "bit for bit");
}

#[test]
fn a_rank_that_is_killed_in_a_step_is_a_row_at_once_and_nothing_is_left() {
    if !has_cores(2) {
        return;
    }
    let Some(bin) = torch_bin() else { return };
    let door = crate::door();
    // No time-out ends the other rank.
    let options = "--seconds 600 --repeats 1 --heartbeat 1h";
    let arguments = format!("single gpt2-mini@b4@dp2 --device cpu:0,cpu:1 {options} --out r");
    let mut command = door.command(&arguments);
    command.env("TANDEM_BIN", bin);
    let mut profile = Background::start(command);
    let said = door.path("r/events/0001-gpt2-mini.1.jsonl");
    wait_until("rank 1 trains", || {
        std::fs::read_to_string(&said).is_ok_and(|text| text.contains("\"step\""))
    });
    let mut lines = Vec::new();
    EventReader::open(&said, 1).and_then(|mut reader| reader.poll(&mut lines)).expect("events read");
    let Event::Hello(hello) = &lines[0].event else { panic!("hello comes first: {lines:?}") };

    kill_process(Pid::from_raw(hello.pid as i32).expect("a process"), Signal::KILL).expect("it runs");
    wait_until("the launch has ended", || profile.has_ended());
    let (code, said) = profile.wait();
    assert_eq!(code, Some(1), "{said}");
    let row = &door.measurements("r")[0];
    assert_eq!((row.status, row.err), (Status::Failed, Some(ErrorKind::Killed)), "{row:?}");
    let detail = row.err_detail.as_deref().expect("in words");
    assert!(detail.contains("rank 1 was killed by SIGKILL"), "{detail}");
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

/// The start-up times of the launches that a job began from a checkpoint, ns: the age of the process at `ready`, and the time it took to
/// read the checkpoint. Each is the maximum over the ranks of a launch.
fn restored_starts(run: &RunDir, job: &str) -> Vec<[f64; 2]> {
    let mut starts = Vec::new();
    for launch in run.launches().expect("there are launches") {
        let spec = run.spec(&launch).expect("it reads back");
        let is_restored = matches!(&spec.program, Program::Training(training) if training.restore.is_some());
        if spec.job != job || !is_restored {
            continue;
        }
        let read_start = |rank| {
            let lines = events::read(&run.events_path(&launch, rank), rank).expect("events read");
            let ready = |line: &EventLine| match &line.event {
                Event::Ready(ready) => Some([ready.startup_ns, ready.restore_ns?].map(|ns| ns.0 as f64)),
                _ => None,
            };
            lines.iter().find_map(ready).expect("it says how long it read")
        };
        let per_rank: Vec<[f64; 2]> = (0..run.ranks(&spec)).map(read_start).collect();
        starts.push([0, 1].map(|index| per_rank.iter().map(|times| times[index]).fold(0.0, f64::max)));
    }
    starts
}

/// The mean over repeats, as in `machine.toml`.
fn geometric_mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    (values.map(f64::ln).sum::<f64>() / count).exp()
}

#[test]
fn all_reduces_and_restarts_of_real_jobs_are_calibrated() {
    if !has_cores(2) {
        return;
    }
    let Some(bin) = torch_bin() else { return };
    let door = crate::door();
    let arguments = "calibrate lstm@b4 lstm@b4@dp2 --parts all-reduce,restart --kib 4,4096 \
                     --device cpu:0,cpu:1 --repeats 2 --seconds 0.2 --run r";
    let output = door.command(arguments).env("TANDEM_BIN", bin).output().expect("profile starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let found = Calibration::read(&door.path("machine.toml")).expect("it reads back");
    let sizes: Vec<u64> = found.all_reduce.iter().map(|row| row.bytes).collect();
    assert_eq!((sizes, found.not_measured.len()), (vec![4 << 10, 4 << 20], 0));
    for job in ["lstm@b4@dp1", "lstm@b4@dp2"] {
        let of =
            |part| found.restart.iter().find(|row| row.job == job && row.part == part).expect("it has all");
        // Under every plan, the checkpoint holds at least the parameters, four bytes each.
        let parameters =
            door.measurements("r").iter().find(|row| row.job == job).and_then(|row| row.parameters);
        assert!(of(Switch::Checkpoint).bytes > parameters.map(|count| 4 * count), "{job}");
        let starts = restored_starts(&door.run("r"), job);
        assert_eq!(starts.len(), 2, "{job}: one in each repeat");
        let restore = geometric_mean(starts.iter().map(|[_, restore]| *restore));
        assert!((of(Switch::Restore).ns.value as f64 - restore).abs() <= 1.0, "{job}: {restore}");
        // The kernel counts the age of a process in ticks of 10 ms.
        let start = geometric_mean(starts.iter().map(|[age, restore]| (age - restore - 2e7).max(1.0)));
        assert!(of(Switch::Start).ns.value as f64 >= start, "{job}: {start}");
    }
}
