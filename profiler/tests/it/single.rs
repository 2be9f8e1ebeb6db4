//! `profile single` on synthetic workers: the files of a run, and errors of the user.

use front_door::{Background, Said, has_cores, wait_for, wait_until};
use rustix::process::Signal;
use schema::{
    events::{self, EventReader, EventWriter},
    grant::Grant,
    rows::{self, DeviceSample, ErrorKind, HostSample, Status, Summary, Warning},
    run_dir::{RunDir, read_spec},
    spec::Program,
    trace_events::{self, Entry},
    units::Nanos,
    wire::{Event, EventLine},
};

use crate::outside::UNTIL_HEARD;

#[test]
fn a_run_leaves_tables_whose_numbers_are_those_of_the_worker() {
    let door = crate::door();
    door.catalog("mine.toml", "ten-ms", "step_us = 10000, busy_percent = 50, memory_bytes = 30000000");
    let said =
        door.exits(0, "single ten-ms --catalog mine.toml --device cpu:0 --seconds 0.6 --repeats 3 --out r");
    assert!(said.out.contains("ten-ms@b8@dp1") && said.err.contains("run: r"), "{}\n{}", said.out, said.err);

    let rows = door.measurements("r");
    assert_eq!(rows.len(), 3);
    for (i, row) in rows.iter().enumerate() {
        assert_eq!((row.launch.as_str(), row.repeat), (format!("{:04}-ten-ms", i + 1).as_str(), i as u32));
        assert_eq!((row.status, row.err), (Status::Ok, None));
        assert_eq!((row.global_batch, row.micro_batch), (Some(8), Some(8)));
        // A step sleeps and spins for at least 10 ms; the rest depends on the machine.
        assert!(row.step_ns_median >= Some(10_000_000), "{row:?}");
        assert!(row.step_ns_p90 >= row.step_ns_median, "{row:?}");
        assert_eq!(
            row.step_ns_p99.is_some(),
            row.steps_used >= 200,
            "a p99 takes two hundred steps: {row:?}"
        );
        let window_ns = row.window_ns.expect("it stepped");
        assert_eq!(row.step_ns_mean, Some((window_ns as f64 / row.steps_used as f64).round() as u64));
        // On an unsteady machine the launch ends after 1.8 s, and its few steps have no interval.
        let has_interval = row.steps_used >= 30;
        assert_eq!(row.step_ns_median_ci_lo.is_some(), has_interval, "{row:?}");
        assert!(row.step_ns_median_ci_lo <= row.step_ns_median, "{row:?}");
        assert!(!has_interval || row.step_ns_median <= row.step_ns_median_ci_hi, "{row:?}");
        assert!(row.steps_total >= row.steps_used);
        assert!(row.peak_memory_bytes >= Some(30_000_000) && row.host_rss_peak_bytes > row.peak_memory_bytes);
        // Values that this device cannot give are empty, never zero.
        assert_eq!(
            (row.pcie_rx_bytes, row.energy_mj, row.sm_util_percent, row.sent_bytes),
            (None, None, None, None)
        );
    }
    let [summary] = &door.summaries("r")[..] else { panic!("one cell, one row") };
    assert_eq!((summary.repeats, summary.repeats_failed, summary.status), (3, 0, Status::Ok));
    assert!(summary.half_width_percent.is_some());

    let end = door.run("r").end().expect("end.toml reads").expect("the run ended");
    assert_eq!((end.exit_code, end.missing.len()), (0, 0));
    assert!(end.observer.cpu_ns > 0 && end.observer.sampler_ticks > 0);
    let trace = std::fs::read_to_string(door.run("r").trace_path()).expect("there is a trace");
    assert!(trace.contains("\"step 0\"") && trace.trim_end().ends_with("]}"));
}

#[test]
fn half_a_core_is_measured_as_half_a_core() {
    let door = crate::door();
    door.catalog("mine.toml", "half", "step_us = 20000, busy_percent = 50");
    door.exits(0, "single half --catalog mine.toml --device cpu:0 --seconds 1 --repeats 1 --out r");
    let run = door.run("r");
    let ends: Vec<Nanos> = steps_of(&run, "0001-half").iter().map(|(_, end)| *end).collect();
    // The worker burns a fixed CPU time, on any core: half of each nominal step.
    let burnt_ms = |steps: usize| 10.0 * steps as f64;
    let readings: Vec<HostSample> = rows::read(&run.host_path()).expect("it reads back");
    assert!(readings.len() >= 2, "one at the beginning and one at the end");
    let mut before_ms = 0.0;
    for reading in &readings {
        let cpu_ms = reading.cpu_ns.expect("it was there") as f64 / 1e6;
        let done = ends.partition_point(|end| *end <= reading.mono_ns);
        let begun = 1 + ends.partition_point(|end| *end <= reading.end_mono_ns);
        // The kernel may count CPU time in ticks of 10 ms. The worker also uses CPU time to start and to write events.
        let bounds = burnt_ms(done) - 20.0..=1.1 * burnt_ms(begun) + 200.0;
        // A reading after the end of the process has the time of the reading before.
        match reading.processes {
            Some(0) => assert!((cpu_ms - before_ms).abs() < 1e-6, "{cpu_ms} ms, and {before_ms} ms before"),
            _ => assert!(bounds.contains(&cpu_ms), "{cpu_ms} ms of CPU time after {done} steps: {bounds:?}"),
        }
        before_ms = cpu_ms;
    }

    // In these readings, one every millisecond from before the first step to after the last, the job uses half of a core.
    let first = &readings[0];
    let begin_ns = first.mono_ns.0.min(ends[0].0 - 1_000_000_000);
    let end_ns = ends[ends.len() - 1].0 + 1_000_000;
    let regular = (begin_ns..=end_ns).step_by(1_000_000).map(|at| HostSample {
        mono_ns: Nanos(at),
        end_mono_ns: Nanos(at),
        cpu_ns: Some((at - begin_ns) / 2),
        ..first.clone()
    });
    rows::write(&run.host_path(), &regular.collect::<Vec<_>>()).expect("it is ours");
    door.exits(0, "derive r");
    let row = &door.measurements("r")[0];
    let (cpu_ns, window_ns) = row.cpu_ns.zip(row.window_ns).expect("a CPU device tells");
    assert!((2 * cpu_ns).abs_diff(window_ns) <= window_ns / 1000, "{row:?}");
}

/// The start and the end of each step of a launch with one rank.
fn steps_of(run: &RunDir, launch: &str) -> Vec<(Nanos, Nanos)> {
    let lines = events::read(&run.events_path(launch, 0), 0).expect("events read");
    let step = |line: &EventLine| match &line.event {
        Event::Step(step) => Some((line.mono_ns - step.dur_ns, line.mono_ns)),
        _ => None,
    };
    lines.iter().filter_map(step).collect()
}

#[test]
fn json_is_the_summary_row_by_row() {
    let door = crate::door();
    let said = door.exits(0, "single synthetic-sleep --device cpu:0 --steps 30 --repeats 2 --json --out r");
    let printed: Vec<Summary> = rows::from_json(&said.out).expect("stdout is JSON and nothing else");
    assert_eq!(printed, door.summaries("r"));
}

#[test]
fn a_grid_keeps_what_cannot_run_as_a_row() {
    let door = crate::door();
    door.exits(
        1,
        "single synthetic-sleep --plan dp1,ga2,dp2-zero1 --device cpu:0 --steps 5 --repeats 1 --out r",
    );
    let rows = door.measurements("r");
    let refused: Vec<_> = rows.iter().filter(|row| row.status == Status::Unsupported).collect();
    let [refused] = &refused[..] else { panic!("dp2-zero1 alone is refused: {rows:?}") };
    assert_eq!(refused.plan.map(|plan| plan.to_string()).as_deref(), Some("dp2-zero1"));
    let detail = refused.err_detail.as_deref();
    assert_eq!(detail, Some("synthetic-sleep runs no plans with zero; it runs dp, ga"));
    assert_eq!(rows.iter().filter(|row| row.status == Status::Ok).count(), 2);
}

#[test]
fn a_table_of_jobs_is_measured_and_nothing_else() {
    if !has_cores(2) {
        return;
    }
    let door = crate::door();
    let write = |name: &str, text: &str| std::fs::write(door.path(name), text).expect("it is writable");
    write(
        "next.csv",
        "job,devices,step_ns,device_s\nsynthetic-sleep@b8@ga2,1,9,1.5\nsynthetic-sleep@b16@dp2,2,9,0.5\n",
    );
    let options = "--device cpu:0,cpu:1 --steps 5 --repeats 2";
    door.exits(0, &format!("single --grid next.csv {options} --out r"));
    let jobs = |run: &str| {
        let of = |row: &Summary| (row.job.clone(), row.device.clone(), row.repeats);
        door.summaries(run).iter().map(of).collect::<Vec<_>>()
    };
    let of = |job: &str, device: &str, repeats| (job.to_owned(), device.to_owned(), repeats);
    let expected = [("synthetic-sleep@b8@ga2", "cpu:0"), ("synthetic-sleep@b16@dp2", "cpu:0,cpu:1")];
    assert_eq!(jobs("r"), expected.map(|(job, device)| of(job, device, 2)));

    // An export has a line for each launch, and each job is measured once.
    door.exits(0, "export r --out all.csv");
    assert_eq!(std::fs::read_to_string(door.path("all.csv")).expect("it is there").lines().count(), 5);
    door.exits(0, "single --grid all.csv --device cpu:0,cpu:1 --steps 5 --repeats 1 --out again");
    let mut again = jobs("again");
    again.sort();
    let mut sorted = expected.map(|(job, device)| of(job, device, 1));
    sorted.sort();
    assert_eq!(again, sorted);
}

#[test]
fn a_bad_table_of_jobs_is_refused_with_file_line_and_column() {
    let door = crate::door();
    for (text, arguments, message) in [
        ("job\nlstm\n", "single lstm --grid g.csv", "'[JOBS]...' cannot be used with '--grid <FILE>'"),
        ("job\nlstm\n", "single --grid g.csv --cmd true", "cannot be used with"),
        ("job\nlstm\n", "single --grid g.csv --plan dp1", "cannot be used with"),
        ("job\nlstm\n", "single --grid g.csv -- true", "cannot be used with"),
        ("job\nlstm\n", "single --resume r --grid g.csv", "cannot be used with"),
        ("job\nlstm\n", "single --grid none.csv", "none.csv: No such file"),
        ("", "single --grid g.csv", "g.csv: line 1: the file is empty"),
        ("name\nlstm\n", "single --grid g.csv", "g.csv: line 1: there is no column 'job'"),
        ("job\nlstm@zero1\n", "single --grid g.csv", "g.csv: line 2: column 'job': job 'lstm@zero1': plan"),
        (
            "job\nlstm\nresnet81\n",
            "single --grid g.csv",
            "g.csv: line 3: column 'job': there is no workload 'resnet81'; did you mean 'resnet18'?",
        ),
        (
            "devices,job\n1,lstm\n2,lstm@bf16\n",
            "single --grid g.csv",
            "g.csv: line 3: column 'devices': is 2, and the plan of lstm@bf16 takes 1; correct one of them",
        ),
        ("job,devices\nlstm,-1\n", "single --grid g.csv", "column 'devices': '-1' is no number of devices"),
    ] {
        std::fs::write(door.path("g.csv"), text).expect("it is writable");
        let said = door.exits(2, arguments);
        assert!(said.err.contains(message), "profile {arguments}: {}", said.err);
    }
    std::fs::write(door.path("g.csv"), "job\n").expect("it is writable");
    assert!(door.exits(4, "single --grid g.csv").err.contains("g.csv names no jobs"));
    assert!(!door.path("runs").exists(), "nothing was begun");
}

/// If steps take the same time for each batch, the largest batch has the highest throughput.
#[test]
fn the_fastest_of_a_grid_is_said_and_rows_on_file_stay_in_order() {
    let door = crate::door();
    let said =
        door.exits(0, "single synthetic-sleep --batch 1,4096 --device cpu:0 --steps 40 --repeats 2 --out r");
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(lines[0].contains(" fastest "), "{}", said.out);
    assert!(lines[1].contains("synthetic-sleep@b4096@dp1") && lines[1].contains(" yes "), "{}", said.out);
    assert!(lines[2].contains("synthetic-sleep@b1@dp1"), "{}", said.out);
    assert_eq!(lines[3], "fastest of 2: synthetic-sleep@b4096@dp1@on=cpu:0");
    let batches: Vec<_> = door.summaries("r").into_iter().map(|row| row.global_batch).collect();
    assert_eq!(batches, [Some(1), Some(4096)]);
}

#[test]
fn progress_names_batch_and_plan_of_each_launch() {
    let door = crate::door();
    let said = door.exits(
        0,
        "single synthetic-sleep --batch 4,8 --plan dp1,ga2 --device cpu:0 --steps 5 --repeats 1 --out r",
    );
    for row in door.measurements("r") {
        let begins = format!("] {}@on=cpu:0: ", row.job);
        let ends = format!("{} steps used ({})", row.steps_used, row.launch);
        let is_of_row = |line: &&str| line.contains(&begins) && line.ends_with(&ends);
        assert_eq!(said.err.lines().filter(is_of_row).count(), 1, "{begins}{ends}: {}", said.err);
    }
}

#[test]
fn many_warnings_are_counted_by_kind() {
    let door = crate::door();
    // With this number of steps, each launch has a warning.
    let mut command = door.command("single --device cpu:0 --repeats 11 --out r --steps-regex step --");
    let script = format!("echo step; {UNTIL_HEARD}; echo step; echo step");
    let said = Said::of(&command.args(["sh", "-c", &script]).output().expect("profile starts"));
    assert_eq!(said.err.matches("few-steps").count(), 1, "{}", said.err);
    let first = &door.measurements("r")[0].launch;
    let words = format!("warning: few-steps: 11 times, first in {first}: ");
    assert!(said.err.contains(&words), "{}", said.err);
    let tables = "warnings: column warnings of r/measurements.csv, r/summary.csv\n";
    assert!(said.err.contains(tables), "{}", said.err);
}

#[test]
fn two_ranks_step_together() {
    if !has_cores(2) {
        return;
    }
    let door = crate::door();
    door.exits(0, "single synthetic-sleep@b8@dp2 --device cpu:0,cpu:1 --steps 30 --repeats 1 --out r");
    let row = &door.measurements("r")[0];
    assert_eq!((row.device.as_str(), row.micro_batch), ("cpu:0,cpu:1", Some(4)));
    let rate = row.samples_per_s.expect("it stepped");
    let step_s = Nanos(row.step_ns_mean.expect("it stepped")).as_secs_f64();
    assert!((rate * step_s - 8.0).abs() < 0.1, "all ranks together work on the global batch");
}

/// The harness grants a job with slow steps its next step before the current one ends.
#[test]
fn a_slow_job_is_granted_its_next_step_before_it_has_done_the_present_one() {
    let door = crate::door();
    door.catalog("mine.toml", "slow", "step_us = 1100000, busy_percent = 1");
    let mut profile = Background::start(
        door.command("single slow --catalog mine.toml --device cpu:0 --seconds 600 --repeats 1 --out r"),
    );
    wait_until("the launch has begun", || door.path("r/jobs/0001-slow.json").exists());
    let run = door.run("r");
    let (control, said) = (run.control_path("0001-slow"), run.events_path("0001-slow", 0));
    wait_for("the step after the present one is granted", || {
        // The grant is read first: a step that ends between the two reads can only make the difference smaller.
        let granted = Grant::open(&control).map_or(0, |grant| grant.get());
        let mut lines = Vec::new();
        let read = EventReader::open(&said, 0).and_then(|mut reader| reader.poll(&mut lines));
        let done = lines.iter().filter(|line| matches!(line.event, Event::Step(_))).count() as u64;
        if done > 0 && granted >= done + 2 { Ok(()) } else { Err((granted, done, read)) }
    });
    profile.send(Signal::INT);
    let (code, err) = profile.wait();
    assert_eq!(code, Some(130), "{err}");
}

#[test]
fn neither_time_held_nor_what_comes_after_enough_is_measured() {
    let door = crate::door();
    door.catalog("mine.toml", "ten-ms", "step_us = 10000, busy_percent = 1");
    door.exits(0, "single ten-ms --catalog mine.toml --device cpu:0 --seconds 0.6 --repeats 1 --out r");
    let (run, launch) = (door.run("r"), "0001-ten-ms");
    let row = &door.measurements("r")[0];
    let steps = steps_of(&run, launch);
    let mut end = run.launch_end(launch).expect("it reads").expect("it ended");
    let enough = end.enough_mono_ns.expect("it was told to leave");
    let in_time = steps.iter().filter(|(_, end)| *end <= enough).count() as u64;
    assert!(row.steps_used <= in_time && in_time <= row.steps_total, "{in_time} of {row:?}");
    let warmup_steps = row.warmup_steps.expect("it stepped") as usize;
    let used = &steps[warmup_steps..warmup_steps + row.steps_used as usize];
    let stepped = used.iter().map(|(begin, end)| (*end - *begin).0).sum();
    let span = (used[used.len() - 1].1 - used[0].0).0;
    assert!(row.window_ns >= Some(stepped) && row.window_ns <= Some(span), "{stepped} to {span}: {row:?}");

    // The same launch with rewritten events: held for half a second after its second step, and twenty slower steps after the command to
    // leave.
    let file = run.events_path(launch, 0);
    let lines = events::read(&file, 0).expect("events read");
    std::fs::remove_file(&file).expect("it was just read");
    let mut writer = EventWriter::create(&file, 0).expect("the folder is writable");
    let (mut now, mut index) = (Nanos::ZERO, 0);
    for line in lines.iter().filter(|line| matches!(line.event, Event::Hello(_) | Event::Ready(_))) {
        now = line.mono_ns;
        writer.say_at(now, line.event.clone()).expect("the file is writable");
    }
    let step = lines.iter().find_map(|line| match &line.event {
        Event::Step(step) => Some(step.clone()),
        _ => None,
    });
    let step = step.expect("it stepped");
    for (count, ms) in [(2, 10), (78, 10), (20, 50)] {
        for _ in 0..count {
            let dur_ns = Nanos(1_000_000 * ms);
            now += dur_ns;
            let step = Event::Step(schema::wire::Step { index, dur_ns, ..step.clone() });
            writer.say_at(now, step).expect("the file is writable");
            index += 1;
        }
        if index == 2 {
            writer.say_at(now, Event::Held { index }).expect("the file is writable");
            now += Nanos(500_000_000);
        }
        if index == 80 {
            end.enough_mono_ns = Some(now);
        }
    }
    let finished = Event::Finished { steps: index, samples: None, loss: None };
    writer.say_at(now, finished).expect("the file is writable");
    run.write_launch_end(launch, &end).expect("the folder is writable");
    door.exits(0, "derive r");
    let row = &door.measurements("r")[0];
    assert_eq!((row.steps_total, row.warmup_steps, row.steps_used), (100, Some(0), 80), "{row:?}");
    assert_eq!((row.window_ns, row.step_ns_mean), (Some(800_000_000), Some(10_000_000)), "{row:?}");
}

#[test]
fn a_device_of_the_job_is_resolved_like_one_of_the_pool() {
    let door = crate::door();
    door.exits(0, "single synthetic-spin@on=cpu --seconds 1 --repeats 1 --out r");
    let row = &door.measurements("r")[0];
    let readings: Vec<DeviceSample> = rows::read(&door.run("r").devices_path()).expect("it reads back");
    let is_read = readings.iter().any(|reading| reading.device == row.device && reading.busy_ns.is_some());
    assert!(row.device.starts_with("cpu:") && is_read, "{row:?}");
}

#[test]
fn an_interval_that_is_asked_for_is_reached_or_the_row_says_so() {
    let door = crate::door();
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 40 --repeats 1 --ci 80 --out wide");
    let wide = &door.summaries("wide")[0];
    assert!(wide.repeats >= 3 && wide.half_width_percent <= Some(80.0), "{wide:?}");

    let arguments = "single synthetic-sleep --device cpu:0 --steps 40 --ci 0.0001 --out narrow";
    let mut profile = Background::start(door.command(arguments));
    wait_until("a launch is measured", || door.path("narrow/measurements.csv").exists());
    profile.send(Signal::INT);
    assert_eq!(profile.wait().0, Some(130));
    door.exits(1, "single --resume narrow --budget 1ns");
    let narrow = &door.summaries("narrow")[0];
    assert!(narrow.warnings.iter().any(|w| w == Warning::Budget), "{narrow:?}");
    assert_eq!(door.run("narrow").end().expect("it reads back").expect("it ended").exit_code, 1);
}

#[test]
fn slips_are_usage_errors_that_say_what_to_do() {
    let door = crate::door();
    for (arguments, message) in [
        ("single", "name a job"),
        ("single resnet81", "did you mean 'resnet18'?"),
        ("single lstm@bf16-dp2", "is spelled 'dp2-bf16'"),
        (
            "single lstm --plan tp2",
            "lstm runs no plans with tp because only attention and its feed-forward networks have",
        ),
        (
            "single ppo-cartpole --plan dp2 --device cpu:0",
            "ppo-cartpole runs no plans with dp because it makes its data by acting",
        ),
        ("single lstm --device cpu:0,cpu:0", "names cpu:0 twice"),
        (
            "single lstm --device cpu:0,cpu:1 --collectives nccl",
            "between GPUs only, and cpu:0 is not one; use gloo",
        ),
        ("single synthetic-sleep --seconds 0", "expected a number above 0"),
        ("single synthetic-sleep --seconds=-1", "expected a number above 0"),
        ("single synthetic-sleep --seconds -1", "--seconds -1: the value must be positive"),
        ("single synthetic-sleep --repeats -3", "--repeats -3: the value must be positive"),
        ("single synthetic-sleep --ci 1 --budget -5m", "--budget -5m: the value must be positive"),
        ("single synthetic-sleep --catalog none.toml", "none.toml: line 1: cannot be read"),
        ("single --resume nowhere", "nowhere is no run"),
        ("single --resume nowhere --repeats 3", "cannot be used with"),
        ("single synthetic-sleep --heartbeat 0s", "expected a time of at least 1s"),
        ("single synthetic-sleep@on=cpu:0 --device cpu:1", "and so does --device"),
        ("single synthetic-sleep --data nowhere", "there is no such folder"),
        (
            "single stress-cache@b101 --device cpu:0",
            "dial in percent, and 101 is more than 100; write b1 to b100",
        ),
        (
            "single stress-io@b50 --plan dp2 --device cpu:0,cpu:1",
            "stress-io runs no plans with dp because it trains no network; it runs dp1 alone",
        ),
        ("single set:quick@b4", "write set:quick and use --batch"),
        ("single synthetic-sleep --loaders 2", "--data <DIR>"),
        ("single synthetic-sleep --data . --loaders 65", "65 is not in 0..=64"),
        ("single --resume nowhere --loaders 2", "cannot be used with"),
        ("single lstm --plan dp1,bf16 --offload-threads 2", "no plan of this run has offload"),
        ("single lstm@offload --offload-threads 0", "0 is not in 1.."),
        ("single --resume nowhere --offload-threads 2", "cannot be used with"),
        ("single --resume nowhere --collectives gloo", "cannot be used with"),
        ("single --collectives gloo -- true", "--collectives applies to jobs only"),
        ("list --plans lstm@on=cpu:0 --device cpu:1", "and so does --device"),
        ("list --collectives gloo", "--plans <JOB>"),
        (
            "single lstm --device cuda:0 --memory 1GiB",
            "--memory applies to CPU devices only, and none is used",
        ),
        ("list --plans lstm --device cuda:0 --memory 1GiB", "--memory applies to CPU devices only"),
        ("verify lstm --device cuda:0 --memory 1GiB", "--memory applies to CPU devices only"),
    ] {
        let said = door.exits(2, arguments);
        assert!(said.err.contains(message), "profile {arguments}: {}", said.err);
        assert!(!said.err.contains("tip:"), "no tip of clap's fits here: {}", said.err);
    }
    assert!(door.exits(4, "list nothing-like-it").err.contains("no workload has 'nothing-like-it'"));
    let lacking = door.exits(3, "single synthetic-sleep --device cpu:9999");
    assert!(lacking.err.contains("is not among the cores"), "{}", lacking.err);
    assert!(!door.path("runs").exists(), "nothing was begun");
}

#[test]
fn a_launch_is_told_how_many_threads_step_in_host_memory() {
    let door = crate::door();
    door.catalog("c.toml", "one", "step_us = 1_000, busy_percent = 0");
    let file = door.path("c.toml");
    let text = std::fs::read_to_string(&file).expect("just written");
    std::fs::write(file, text.replace(r#"["dp", "ga"]"#, r#"["offload"]"#)).expect("it is writable");
    let told = |run: &str| {
        let spec = read_spec(&door.run(run).spec_path("0001-one")).expect("it was told something");
        let Program::Training(training) = spec.program else { panic!("a workload is trained: {spec:?}") };
        (training.plan.to_string(), training.offload_threads)
    };
    let single = "single one@offload --catalog c.toml --device cpu:0 --steps 2 --repeats 1";
    door.exits(0, &format!("{single} --out none"));
    assert_eq!(told("none"), ("offload".into(), None));
    door.exits(0, &format!("{single} --offload-threads 3 --out three"));
    assert_eq!(told("three"), ("offload".into(), Some(3)));
}

#[test]
fn a_dry_run_shows_the_cells_and_makes_nothing() {
    let door = crate::door();
    let said = door.exits(0, "single synthetic-sleep --plan dp1,ga2 --device cpu:0 --repeats 4 --dry-run");
    assert!(
        said.out.contains("synthetic-sleep@b32@ga2@on=cpu:0") && said.out.contains("in all"),
        "{}",
        said.out
    );
    assert!(!door.path("runs").exists());
}

#[test]
fn a_set_stands_for_its_workloads() {
    let door = crate::door();
    for name in ["one", "two", "three"] {
        door.catalog(&format!("{name}.toml"), name, "step_us = 1_000, busy_percent = 0");
        let file = door.path(&format!("{name}.toml"));
        let text = std::fs::read_to_string(&file).expect("just written");
        let sets = if name == "three" { "[]" } else { r#"["pair"]"# };
        std::fs::write(file, text.replace("axes", &format!("sets = {sets}\naxes"))).expect("it is writable");
    }
    let catalogs = "--catalog one.toml --catalog two.toml --catalog three.toml";
    let said = door.exits(0, &format!("list set:pair {catalogs}"));
    assert!(
        said.out.contains("one") && said.out.contains("two") && !said.out.contains("three"),
        "{}",
        said.out
    );
    assert_eq!(said.out.matches(" pair ").count(), 2, "{}", said.out);

    door.exits(
        0,
        &format!("single set:pair three {catalogs} --batch 4 --device cpu:0 --steps 3 --repeats 1 --out r"),
    );
    let mut jobs: Vec<_> = door.summaries("r").into_iter().map(|row| row.job).collect();
    jobs.sort();
    assert_eq!(jobs, ["one@b4@dp1", "three@b4@dp1", "two@b4@dp1"]);

    let said = door.exits(0, &format!("verify set:pair {catalogs} --device cpu:0 --out v"));
    assert_eq!(said.out.matches("verified").count(), 2, "{}", said.out);
}

#[test]
fn every_launch_is_told_where_its_data_is_and_who_reads_it() {
    let door = crate::door();
    // The synthetic worker refuses, but its spec is on file.
    let arguments =
        "single synthetic-sleep --device cpu:0 --steps 3 --repeats 2 --data . --loaders 3 --out r";
    door.exits(1, arguments);
    let launches = door.run("r").launches().expect("there are launches");
    assert_eq!(launches.len(), 2);
    for launch in launches {
        let spec = door.run("r").spec(&launch).expect("a launch has a spec");
        let Program::Training(training) = spec.program else { panic!("a workload is trained") };
        assert_eq!((training.data, training.loaders), (Some(".".into()), 3), "{launch}");
    }
    for row in door.measurements("r") {
        assert_eq!((row.status, row.err), (Status::Failed, Some(ErrorKind::Unsupported)));
        let detail = row.err_detail.expect("it says why");
        assert!(detail.contains("trains nothing and reads no data; leave out --data"), "{detail}");
    }
}

#[test]
fn a_run_is_never_written_over() {
    let door = crate::door();
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 3 --repeats 1 --out r");
    let said = door.exits(2, "single synthetic-sleep --device cpu:0 --steps 3 --repeats 1 --out r");
    assert!(said.err.contains("already holds a run"), "{}", said.err);
}

#[test]
fn no_command_begins_a_run_in_a_folder_of_the_user() {
    let door = crate::door();
    std::fs::create_dir(door.path("project")).expect("it is new");
    door.write("project/summary.csv", "of the user\n");
    for command in [
        "single synthetic-sleep --device cpu:0 --steps 3 --repeats 1 --out project",
        "colocate synthetic-sleep synthetic-spin --device cpu:0 --steps 3 --repeats 1 --out project",
        "verify synthetic-sleep --device cpu:0 --out project",
    ] {
        let said = door.exits(2, command);
        assert!(said.err.contains("project already holds summary.csv"), "{command}: {}", said.err);
    }
    let text = std::fs::read_to_string(door.path("project/summary.csv")).expect("it is still there");
    assert_eq!(text, "of the user\n");
    assert_eq!(std::fs::read_dir(door.path("project")).expect("a folder").count(), 1);
}

#[test]
fn what_is_derived_again_is_the_same_to_the_byte() {
    let door = crate::door();
    door.exits(0, "single synthetic-sleep synthetic-spin --device cpu:0 --steps 40 --repeats 2 --out r");
    let run = door.run("r");
    let derived = [run.measurements_path(), run.summary_path(), run.trace_path()];
    let before: Vec<_> = derived.iter().map(|path| std::fs::read(path).expect("derived")).collect();
    for path in &derived {
        std::fs::remove_file(path).expect("derived files can go");
    }
    door.exits(0, "derive r");
    let after: Vec<_> = derived.iter().map(|path| std::fs::read(path).expect("derived again")).collect();
    assert!(before == after);
}

#[test]
fn a_trace_begins_with_the_first_reading_and_leaves_out_the_steps_before_it() {
    let door = crate::door();
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 40 --repeats 1 --out r");
    let run = door.run("r");
    let steps = steps_of(&run, "0001-synthetic-sleep");
    let (start, end) = steps[steps.len() / 2];
    let first_reading = Nanos(start.0.midpoint(end.0));
    let readings = std::fs::read_to_string(run.devices_path()).expect("there are readings");
    let (header, rows) = readings.split_once('\n').expect("there is a header");
    let rest = rows.lines().next().and_then(|row| row.splitn(3, ',').nth(2)).expect("there is a reading");
    let late = format!("{header}\n{0},{0},{rest}\n", first_reading.0);
    std::fs::write(run.devices_path(), late).expect("the file is writable");
    door.exits(0, "derive r");
    let entries = trace_events::read(&run.trace_path()).expect("it is a trace");
    let spans: Vec<(f64, f64)> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Span { start_us, dur_us, .. } => Some((*start_us, *dur_us)),
            Entry::Process { .. } | Entry::Counter { .. } => None,
        })
        .collect();
    let expected: Vec<(f64, f64)> = steps
        .iter()
        .filter(|(_, end)| *end > first_reading)
        .map(|(start, end)| (*start.max(&first_reading), *end))
        .map(|(start, end)| ((start - first_reading).0 as f64 / 1e3, (end - start).0 as f64 / 1e3))
        .collect();
    assert!(spans.len() < steps.len() && spans[0].0 == 0.0);
    assert_eq!(spans, expected);
}

#[test]
fn the_manifest_names_no_host_and_no_place() {
    let door = crate::door();
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 3 --repeats 1 --out r");
    let text = std::fs::read_to_string(door.run("r").manifest_path()).expect("there is a manifest");
    let manifest = door.run("r").manifest().expect("it reads back");
    assert_eq!(manifest.command[0], "profile");
    assert!(!text.contains(env!("CARGO_MANIFEST_DIR")) && !text.contains("/home/"), "{text}");
}

#[test]
fn verify_holds_every_synthetic_workload_to_its_word() {
    let door = crate::door();
    let said = door.exits(0, "verify synthetic-sleep synthetic-spin --device cpu:0 --out v");
    assert_eq!(said.out.matches("verified").count(), 2, "{}", said.out);
}

#[test]
fn verify_does_not_start_what_no_memory_holds() {
    let door = crate::door();
    door.catalog("mine.toml", "huge", "step_us = 10, busy_percent = 0");
    let text = std::fs::read_to_string(door.path("mine.toml")).expect("just written");
    let huge = text.replace("global_batch = 8\n", "global_batch = 8\nparameters = 1_000_000_000_000_000\n");
    std::fs::write(door.path("mine.toml"), huge).expect("the folder is writable");
    // Only torch-worker counts shapes, which is missing here or refuses another program's workload.
    let said = door.exits(1, "verify huge --catalog mine.toml --device cpu:0 --out v");
    assert!(said.out.contains("besides activations and cpu:0 has"), "{}", said.out);
    assert!(!door.run("v").events_path("0001-huge", 0).exists());
}
