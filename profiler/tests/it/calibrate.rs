//! `profile calibrate` on synthetic workers: the content of the file, and the time of writing.

use std::{fs, process::Command};

use front_door::{Background, Door, Said, has_cores, wait_until};
use record::{
    calibration::{Calibration, Measured, RestartRow, SuspendRow, Switch},
    rows::{self, Direction, Status},
    run_dir::RunDir,
    suspension::Suspension,
};
use rustix::process::Signal;
use schema::{
    device::Device,
    events,
    spec::{Collectives, Program},
    units::Nanos,
    wire::{Event, EventLine},
};

use crate::foreign::{with_fake_pytorch, with_program};

fn calibration(door: &Door, name: &str) -> Calibration {
    Calibration::read(&door.path(name)).expect("it reads back")
}

fn exits(code: i32, mut command: Command) -> Said {
    let output = command.output().expect("profile starts");
    let said = Said::of(&output);
    assert_eq!(output.status.code(), Some(code), "{}\n{}", said.out, said.err);
    said
}

/// The name and the value of each number of the file.
fn numbers(found: &Calibration) -> Vec<(String, Measured<f64>)> {
    let whole = |Measured { value, interval }: Measured<u64>| Measured {
        value: value as f64,
        interval: interval.map(|ends| ends.map(|end| end as f64)),
    };
    let mut numbers = Vec::new();
    numbers.extend(found.spin.iter().map(|row| ("spin".into(), row.ratio)));
    numbers.extend(found.memory.iter().map(|row| ("memory".into(), whole(row.bytes_per_s))));
    numbers.extend(found.copy.iter().map(|row| ("copy".into(), whole(row.bytes_per_s))));
    for row in &found.all_reduce {
        numbers.push(("time".into(), whole(row.time_ns)));
        numbers.push(("algorithm".into(), whole(row.algorithm_bytes_per_s)));
        numbers.push(("bus".into(), whole(row.bus_bytes_per_s)));
    }
    numbers.extend(found.restart.iter().map(|row| (row.part.to_string(), whole(row.ns))));
    numbers
}

fn each_lies_in_its_interval(found: &Calibration) {
    for (what, measured) in numbers(found) {
        let Measured { value, interval } = measured;
        assert!(value > 0.0, "{what}: {measured:?}");
        if let Some([lo, hi]) = interval {
            assert!(lo <= value && value <= hi && hi <= 1_000.0 * (lo + 1.0), "{what}: {measured:?}");
        }
    }
}

#[test]
fn cores_are_calibrated_and_a_pool_of_one_device_has_no_all_reduce() {
    let door = crate::door();
    let said = door.exits(0, "calibrate --device cpu:0 --repeats 2 --json");
    let found = calibration(&door, "machine.toml");
    assert_eq!(rows::from_json::<Calibration>(&said.out).expect("rows of the schema"), found);
    let [memory] = &found.memory[..] else { panic!("one device: {found:?}") };
    assert_eq!((&memory.devices, memory.repeats), (&vec![Device::Cpu(vec![0])], 2));
    assert!(memory.array_bytes >= 64 << 20, "no cache holds it: {memory:?}");
    each_lies_in_its_interval(&found);
    assert!(found.spin.is_empty() && found.copy.is_empty() && found.all_reduce.is_empty(), "{found:?}");
    let [missing] = &found.not_measured[..] else { panic!("one part cannot be: {found:?}") };
    assert_eq!((missing.what.as_str(), missing.status), ("all-reduce", Status::Unsupported));
    assert!(said.err.contains("not measured: all-reduce: unsupported: it needs two devices"), "{}", said.err);
    // Nothing was launched, so that there is no run.
    assert!(found.run.is_none() && !door.path("runs").exists());
    let text = fs::read_to_string(door.path("machine.toml")).expect("it was written");
    assert!(!text.contains(door.path("").to_str().expect("a plain path")), "{text}");
}

#[test]
fn all_reduces_go_through_launches_of_a_run() {
    if !has_cores(2) {
        return;
    }
    let door = crate::door();
    let arguments = "calibrate --parts all-reduce,spin,spin --kib 4096,1,4096 --device cpu:0,cpu:1 --repeats 2 \
                     --seconds 0.1 --run r --out two.toml";
    let said = exits(0, door.command_with_stand_in(arguments));
    let found = calibration(&door, "two.toml");
    assert_eq!((found.run.as_deref(), found.not_measured.len()), (Some("r"), 0), "{}", said.err);
    assert_eq!(found.machine.libtorch.as_deref(), Some("2.11.0"));
    let [spin] = &found.spin[..] else { panic!("one pair: {found:?}") };
    assert_eq!((spin.cores, spin.repeats), ([0, 1], 2));
    let sizes: Vec<u64> = found.all_reduce.iter().map(|row| row.bytes).collect();
    assert_eq!(sizes, [1 << 10, 4 << 20]);
    for row in &found.all_reduce {
        assert_eq!((&row.devices, row.collectives, row.repeats), (&found.pool, Collectives::Gloo, 2));
        // The stand-in link has 10 GB/s and a latency of 50 us. It sleeps for at least this time.
        assert!(row.time_ns.value >= 1_000 * (50 + row.bytes / 10_000), "{row:?}");
        let algorithm = (row.bytes as f64 / (row.time_ns.value as f64 / 1e9)).round() as u64;
        assert_eq!(
            (row.algorithm_bytes_per_s.value, row.bus_bytes_per_s.value),
            (algorithm, algorithm),
            "two ranks: {row:?}"
        );
        assert!(row.algorithm_bytes_per_s.value <= 10_000_000_000, "{row:?}");
    }
    each_lies_in_its_interval(&found);
    assert!(said.out.contains("all-reduce, gloo") && said.out.contains("on the bus"), "{}", said.out);

    let launches = door.run("r").launches().expect("there are launches");
    assert_eq!(launches.len(), 4, "two sizes, two repeats");
    for launch in launches {
        let spec = door.run("r").spec(&launch).expect("it was written");
        let Program::AllReduce(told) = spec.program else { panic!("{spec:?}") };
        assert_eq!(
            told.rendezvous,
            Some(door.run("r").rendezvous_path(&launch)).map(|path| {
                path.strip_prefix(door.path("")).expect("below the folder of the test").to_path_buf()
            })
        );
        let row = door.measurements("r").into_iter().find(|row| row.launch == launch).expect("a row");
        assert_eq!((row.status, row.samples_per_s), (Status::Ok, None), "{row:?}");
        assert_eq!(row.sent_bytes, Some(2 * told.bytes * row.steps_used), "each of two ranks sends it once");
        assert!(!row.warnings.to_string().contains("loss"), "{row:?}");
    }
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

/// All parts but those of `cuda-checkpoint`.
fn parts_on_cores() -> Vec<Switch> {
    let is_of_cuda = |part: &Switch| part.to_string().starts_with("cuda-");
    Switch::ALL.iter().copied().filter(|part| !is_of_cuda(part)).collect()
}

/// Bounds from the events of a launch that is released after 4 steps and held after 8: the maximum time of the release, and the minimum
/// and maximum time of the hold, ns. `None` if the launch did fewer steps. A program is not paused, and its hold has no maximum.
fn release_and_hold(run: &RunDir, launch: &str) -> Option<[u64; 3]> {
    let spec = run.spec(launch).expect("it was written");
    let read = |rank| events::read(&run.events_path(launch, rank), rank).expect("they are whole");
    let lines: Vec<EventLine> = (0..run.ranks(&spec)).flat_map(read).collect();
    let step = |number: u64| {
        lines.iter().filter_map(move |line| match &line.event {
            Event::Step(step) if step.index == number => Some((line.mono_ns - step.dur_ns, line.mono_ns)),
            _ => None,
        })
    };
    let held = |after: u64| {
        let is_it = |line: &&EventLine| matches!(line.event, Event::Held { index } if index == after);
        lines.iter().filter(is_it).map(|line| line.mono_ns).max()
    };
    let paused = lines.iter().filter_map(|line| match line.event {
        Event::Paused { dur_ns, .. } => Some(line.mono_ns - dur_ns),
        _ => None,
    });
    let (began, ended) = (step(4).map(|(start, _)| start).max()?, step(7).map(|(_, end)| end).max()?);
    // The harness commands the release after it sees the first rest, and the pause after it sees the second.
    let longest = paused.min().map_or(Nanos(u64::MAX), |paused| paused - ended);
    Some([began - held(4)?, held(8)? - ended, longest].map(|time| time.0))
}

#[test]
fn a_restart_is_done_for_real_and_has_all_its_parts() {
    if !has_cores(2) {
        return;
    }
    let door = crate::door();
    let jobs = "synthetic-sleep synthetic-sleep@dp2 synthetic-sleep@b32@gc";
    let arguments =
        format!("calibrate {jobs} --parts restart --device cpu:0,cpu:1 --repeats 3 --run r --out m.toml");
    let said = door.exits(1, &arguments);
    let found = calibration(&door, "m.toml");
    each_lies_in_its_interval(&found);
    let run = door.run("r");
    let launches = run.launches().expect("there are launches");
    for (job, ranks) in [("synthetic-sleep@b32@dp1", 1), ("synthetic-sleep@b32@dp2", 2)] {
        let rows: Vec<&RestartRow> = found.restart.iter().filter(|row| row.job == job).collect();
        assert_eq!(rows.iter().map(|row| row.part).collect::<Vec<_>>(), parts_on_cores(), "{job}");
        assert!(rows.iter().all(|row| row.repeats == 3 && row.devices.len() == ranks), "{rows:?}");
        let of = |part| *rows.iter().find(|row| row.part == part).expect("all parts are there");
        let ns = |part| of(part).ns.value;
        // A step sleeps for 10 ms, and a checkpoint is a line that one rank writes.
        assert!(ns(Switch::Step) >= 10_000_000 && ns(Switch::FirstStep) >= 10_000_000, "{rows:?}");
        assert!(ns(Switch::Total) >= ns(Switch::Start) + ns(Switch::FirstStep), "{rows:?}");
        assert_eq!(of(Switch::Checkpoint).bytes, Some("step = 8\n".len() as u64));
        assert_eq!((of(Switch::Pause).bytes, of(Switch::Total).bytes), (Some(0), None));
        let of_job = launches.iter().filter(|launch| run.spec(launch).expect("it was written").job == job);
        let seen: Vec<[u64; 3]> = of_job.filter_map(|launch| release_and_hold(&run, launch)).collect();
        assert_eq!(seen.len(), 3, "{job}: each restart has a launch that was held");
        let mean = |place: usize| {
            let logs: f64 = seen.iter().map(|times| (times[place].max(1) as f64).ln()).sum();
            (logs / seen.len() as f64).exp()
        };
        let [release, hold] = [Switch::Release, Switch::Hold].map(|part| ns(part) as f64);
        assert!(release <= mean(0) + 1.0, "{release} {seen:?}");
        assert!(mean(1) - 1.0 <= hold && hold <= mean(2) + 1.0, "{hold} {seen:?}");
    }
    let ways =
        |job: &str| -> Vec<&SuspendRow> { found.suspend.iter().filter(|row| row.job == job).collect() };
    for (job, why) in [
        ("synthetic-sleep@b32@dp1", "cuda-checkpoint moves the memory of GPUs, and cpu:"),
        ("synthetic-sleep@b32@dp2", "cuda-checkpoint moves one process, and the job has 2"),
    ] {
        let rows = ways(job);
        assert_eq!(rows.iter().map(|row| row.suspension).collect::<Vec<_>>(), Suspension::ALL, "{job}");
        let [held, paused, stopped, moved] = rows[..] else { panic!("{rows:?}") };
        let cost = |row: &SuspendRow| row.cost.clone().unwrap_or_else(|| panic!("{row:?}"));
        let of = |part| {
            found.restart.iter().find(|row| row.job == job && row.part == part).expect("a row").ns.value
        };
        assert_eq!(
            (cost(held).suspend_ns.value, cost(held).resume_ns.value),
            (of(Switch::Hold), of(Switch::Release)),
            "what a simulation takes"
        );
        // The geometric mean of sums is at least the sum of the geometric means (superadditivity). Each mean is rounded.
        let holds = |sum: u64, parts: &[u64]| sum + 2 >= parts.iter().sum::<u64>();
        let both = [held, paused, stopped].map(|row| cost(row).both_ns.value);
        let answers = [of(Switch::PauseAnswer), of(Switch::ResumeAnswer)];
        assert!(holds(both[1], &[both[0], answers[0], answers[1]]), "a hold and two answers: {rows:?}");
        assert!(holds(both[2], &[of(Switch::Stop), of(Switch::Start)]), "a process and another: {rows:?}");
        for row in [held, paused, stopped].map(cost) {
            assert_eq!(row.repeats, 3);
            assert!(holds(row.both_ns.value, &[row.suspend_ns.value, row.resume_ns.value]), "{row:?}");
        }
        assert_eq!(cost(held).bytes, None);
        assert!(
            moved.cost.is_none() && moved.why_not.as_deref().unwrap_or_default().starts_with(why),
            "{moved:?}"
        );
    }
    for said_of in ["suspended by", "step-gate", "cuda-checkpoint moves one process, and the job has 2"] {
        assert!(said.out.contains(said_of), "{}", said.out);
    }
    // A quantity that cannot be measured has a reason, and does not affect the others.
    let [refused] = &found.not_measured[..] else { panic!("{found:?}") };
    assert!(refused.what.contains("@gc@") && refused.reason.contains("runs no plans with gc"), "{refused:?}");
    assert_eq!(refused.status, Status::Unsupported);
    assert!(said.err.contains(": unsupported: synthetic-sleep runs no plans with gc"), "{}", said.err);

    assert_eq!(launches.len(), 12, "two jobs, three times, stopped and started again");
    let restored = |launch: &String| match run.spec(launch).expect("it was written").program {
        Program::Training(training) => training.restore.is_some(),
        _ => panic!("a workload is trained"),
    };
    assert_eq!(launches.iter().filter(|launch| restored(launch)).count(), 6);
    assert_eq!(fs::read_dir(door.path("r/checkpoints")).expect("the folder stays").count(), 0);
    assert_eq!(run.end().expect("end.toml reads").expect("it ended").exit_code, 1);
}

/// The time of each part of the only program, after a check that it has all parts.
fn times_of_program(calibrated: &Calibration) -> impl Fn(Switch) -> u64 {
    let parts: Vec<Switch> = calibrated.restart.iter().map(|row| row.part).collect();
    let expected = [Switch::Release, Switch::Hold, Switch::Stop, Switch::Start, Switch::Step, Switch::Total];
    assert_eq!(parts, expected);
    move |part| calibrated.restart.iter().find(|row| row.part == part).expect("it is there").ns.value
}

#[test]
fn a_program_is_held_ended_and_started_again_from_its_beginning() {
    let Some(door) = with_program("train()") else { return };
    let options = "calibrate --parts restart --device cpu:0 --repeats 2 --run r --out m.toml";
    let mut command = door.command(options);
    command.args(["--cmd", "python3 train.py", "--cmd", "true"]);
    with_fake_pytorch(&mut command);
    let said = exits(1, command);
    let calibrated = calibration(&door, "m.toml");
    each_lies_in_its_interval(&calibrated);
    let ns = times_of_program(&calibrated);
    let run = door.run("r");
    let launches = run.launches().expect("there are launches");
    let seen: Vec<[u64; 3]> = launches.iter().filter_map(|launch| release_and_hold(&run, launch)).collect();
    let [first, second] = &seen[..] else { panic!("a launch of each repeat is held: {seen:?}") };
    let mean = |place: usize| ((first[place].max(1) as f64) * (second[place].max(1) as f64)).sqrt();
    assert!(
        ns(Switch::Release) as f64 <= mean(0) + 1.0 && ns(Switch::Hold) as f64 >= mean(1) - 1.0,
        "{seen:?}"
    );
    // A step waits for 2 ms. The start includes two steps.
    assert!(ns(Switch::Step) >= 2_000_000 && ns(Switch::Start) >= 2 * 2_000_000, "{:?}", calibrated.restart);
    assert!(ns(Switch::Total) >= ns(Switch::Start), "{:?}", calibrated.restart);
    let [held] = &calibrated.suspend[..] else { panic!("{:?}", calibrated.suspend) };
    let cost = held.cost.as_ref().expect("it was measured");
    assert_eq!(held.suspension, Suspension::StepGate);
    assert_eq!((cost.suspend_ns.value, cost.resume_ns.value), (ns(Switch::Hold), ns(Switch::Release)));
    let [missing] = &calibrated.not_measured[..] else { panic!("{:?}", calibrated.not_measured) };
    assert!(missing.what.contains("cmd-true") && missing.reason == "ended by itself", "{missing:?}");
    assert!(said.out.contains("start"), "{}", said.out);
    assert_eq!(door.leftovers(), Vec::<String>::new());
}

/// Each line is a step of 20 ms. A reader of the folder sees the states of both processes.
#[test]
fn a_program_whose_lines_are_steps_is_frozen_ended_and_started_again() {
    let door = crate::door();
    door.write(
        "train.sh",
        "sleep 1000 &\nstep=0\nwhile :; do step=$((step + 1)); echo step $step; sleep 0.02; done\n",
    );
    let options = "calibrate --parts restart --device cpu:0 --repeats 2 --run r --out m.toml --steps-regex";
    let mut command = door.command(options);
    command.args([r"^step (\d+)", "--cmd", "sh train.sh", "--cmd", "sh -c 'sleep 0.01'"]);
    let said = exits(1, command);
    let calibrated = calibration(&door, "m.toml");
    each_lies_in_its_interval(&calibrated);
    let ns = times_of_program(&calibrated);
    // A step sleeps for 20 ms, and its line is read by and by.
    assert!(ns(Switch::Step) >= 10_000_000 && ns(Switch::Total) >= ns(Switch::Start), "{calibrated:?}");
    let [held] = &calibrated.suspend[..] else { panic!("{:?}", calibrated.suspend) };
    let cost = held.cost.as_ref().expect("it was measured");
    assert_eq!((held.suspension, cost.repeats), (Suspension::StepGate, 2));
    assert_eq!((cost.suspend_ns.value, cost.resume_ns.value), (ns(Switch::Hold), ns(Switch::Release)));
    let [missing] = &calibrated.not_measured[..] else { panic!("{:?}", calibrated.not_measured) };
    assert_eq!(missing.reason, "ended by itself", "{}", said.err);
    let run = door.run("r");
    let starts = |launch: &String| run.spec(launch).is_ok_and(|spec| spec.steps_regex.is_some());
    assert_eq!(run.launches().expect("there are launches").iter().filter(|launch| starts(launch)).count(), 5);
    assert_eq!(door.leftovers(), Vec::<String>::new());
    let said = door.exits(2, "calibrate lstm --parts restart --device cpu:0 --steps-regex ^step");
    assert!(said.err.contains("--steps-regex applies to programs only"), "{}", said.err);
}

#[test]
fn a_job_that_fails_has_a_row_that_says_why() {
    let door = crate::door();
    door.catalog(
        "mine.toml",
        "breaks",
        "step_us = 1000, busy_percent = 0, fault = { out-of-memory = { after_steps = 2 } }",
    );
    let arguments =
        "calibrate breaks synthetic-sleep --catalog mine.toml --parts restart --device cpu:0 --repeats 2";
    let said = door.exits(1, arguments);
    let found = calibration(&door, "machine.toml");
    assert_eq!(found.restart.len(), parts_on_cores().len(), "the other job is measured");
    let [failed] = &found.not_measured[..] else { panic!("{found:?}") };
    assert_eq!(
        (failed.what.as_str(), failed.status),
        ("restart of breaks@b8@dp1@on=cpu:0, after 0 of 2 repeats", Status::Failed)
    );
    assert!(failed.reason.contains("out of memory, as asked for"), "{failed:?}");
    assert!(said.err.contains("out of memory, as asked for"), "{}", said.err);
}

#[test]
fn a_budget_that_is_spent_leaves_the_rest_out_and_says_so() {
    let door = crate::door();
    let arguments = "calibrate synthetic-sleep --parts memory,restart --device cpu:0 --repeats 2 --budget 0s";
    door.exits(1, arguments);
    let found = calibration(&door, "machine.toml");
    assert!(found.memory.is_empty() && found.restart.is_empty(), "{found:?}");
    assert_eq!(found.not_measured.len(), 2);
    assert!(found.not_measured.iter().all(|row| row.reason.contains("--budget")), "{found:?}");
}

/// Returns whether the run `r` has more than one launch.
fn has_launches(door: &Door) -> bool {
    door.path("r/events").read_dir().is_ok_and(|events| events.count() > 2)
}

#[test]
fn kill_9_leaves_no_process_and_the_file_as_it_was() {
    let door = crate::door();
    fs::write(door.path("machine.toml"), "of before").expect("the folder is writable");
    let arguments = "calibrate synthetic-sleep --parts restart --device cpu:0 --repeats 1000 --run r";
    for signal in [Signal::KILL, Signal::INT] {
        let mut profile = Background::start(door.command(arguments));
        wait_until("a launch trains", || has_launches(&door));
        profile.send(signal);
        let (code, _) = profile.wait();
        assert_eq!(code, (signal == Signal::INT).then_some(130));
        door.wait_until_nothing_is_left();
        let text = fs::read_to_string(door.path("machine.toml")).expect("it is there");
        assert_eq!(text, "of before", "it is replaced when all is measured");
        assert!(!door.path("machine.toml.new").exists());
        fs::remove_dir_all(door.path("r")).expect("the run was begun");
    }
}

#[test]
fn a_run_whose_tables_cannot_be_written_says_how_it_ended() {
    let door = crate::door();
    let arguments = "calibrate synthetic-sleep --parts restart --device cpu:0 --repeats 1000 --run r";
    let mut profile = Background::start(door.command(arguments));
    wait_until("the run has begun", || door.path("r/manifest.toml").exists());
    fs::create_dir(door.path("r/summary.csv")).expect("its place is free");
    wait_until("a launch trains", || has_launches(&door));
    profile.send(Signal::INT);
    let (code, said) = profile.wait();
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("summary.csv cannot be written"), "{said}");
    let end = door.run("r").end().expect("end.toml reads").expect("it was written");
    assert_eq!((end.exit_code, end.missing.len()), (5, 1));
    assert!(!door.path("machine.toml").exists(), "no calibration was written");
}

#[test]
fn a_gpu_s_link_is_calibrated() {
    let door = crate::door();
    let script = "
        [[device]]
        name = 'NVIDIA A'
        uuid = 'GPU-0000000a-0001-0002-0003-00000000000a'
        memory_bytes = 800000000
        cuda = { multiprocessors = 11, host_to_device_bytes_per_s = 8000000000, \
            device_to_host_bytes_per_s = 4000000000, page_locked_bytes = 800000000 }";
    let library = fake_driver::install(&door.path(""), script).expect("the folder is writable");
    let mut command = door.command("calibrate --parts copy --device cuda:0 --repeats 2");
    command.env("TANDEM_NVML", &library).env("LD_LIBRARY_PATH", door.path(""));
    exits(0, command);
    let found = calibration(&door, "machine.toml");
    each_lies_in_its_interval(&found);
    let expected = [(Direction::HostToDevice, 8e9), (Direction::DeviceToHost, 4e9)];
    assert_eq!(found.copy.len(), expected.len(), "{found:?}");
    for (row, (direction, speed)) in found.copy.iter().zip(expected) {
        assert_eq!((&row.device, row.direction, row.repeats), (&Device::Cuda(0), direction, 2));
        assert!((row.bytes_per_s.value as f64 / speed - 1.0).abs() < 1e-3, "{row:?}");
    }
}

#[test]
fn slips_are_usage_errors_that_say_what_to_do() {
    let door = crate::door();
    for (code, arguments, words) in [
        (2, "synthetic-slep --device cpu:0", "did you mean 'synthetic-sleep'?"),
        (
            2,
            "lstm@tp2 --device cpu:0",
            "lstm@b20@tp2@on=cpu:0 cannot run here: lstm runs no plans with tp because",
        ),
        (2, "--repeats 1", "2.."),
        (2, "--device cpu:0,cpu:0", "names cpu:0 twice"),
        (2, "--out no/such/machine.toml --device cpu:0", "there is no folder no/such"),
        (
            2,
            "--parts restart --device cpu:0",
            "name a job to restart, as in `profile calibrate lstm`, or a program with --cmd",
        ),
        (
            2,
            "--parts memory,all-reduce --device cpu:0",
            "it needs two devices of a kind, which the pool lacks",
        ),
        (2, "lstm --parts memory --device cpu:0", "does not contain restart; add it, or remove the name"),
        (2, "--parts memory --kib 1 --device cpu:0", "--parts does not contain all-reduce; add it"),
        (2, "--parts memory --seconds 1 --device cpu:0", "--parts does not contain all-reduce; add it"),
        (3, "--device cpu:9999", "core 9999 of cpu:9999 is not among the cores"),
    ] {
        let said = door.exits(code, &format!("calibrate {arguments}"));
        assert!(said.err.contains(words), "{arguments}: {}", said.err);
        assert!(!door.path("machine.toml").exists() && !door.path("runs").exists(), "{arguments}");
    }
}
