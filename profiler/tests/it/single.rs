//! `profile single` on synthetic workers: the files of a run, and errors of the user.

mod grants;
mod jobs;

use front_door::{Background, Said, wait_until};
use record::{
    rows::{self, HostSample, Status, Summary, Warning},
    run_dir::RunDir,
    trace_events::{self, Entry},
};
use rustix::process::Signal;
use schema::{
    events,
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
        // On a busy machine a launch may have fewer steps than a percentile takes.
        assert_eq!(row.step_ns_p90.is_some(), row.steps_used >= 20, "{row:?}");
        assert!(row.step_ns_p90.is_none_or(|p90| Some(p90) >= row.step_ns_median), "{row:?}");
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
    for (index, reading) in readings.iter().enumerate() {
        let cpu_ms = reading.cpu_ns.expect("it was there") as f64 / 1e6;
        let done = ends.partition_point(|end| *end <= reading.mono_ns);
        let begun = 1 + ends.partition_point(|end| *end <= reading.end_mono_ns);
        // The kernel may count CPU time in ticks of 10 ms. The worker also uses CPU time to start and to write events.
        let bounds = burnt_ms(done) - 20.0..=1.1 * burnt_ms(begun) + 200.0;
        // Until the harness waits for an ended process, its CPU time can still be read. After that, readings repeat the last value.
        // The final reading has the kernel's total.
        let is_held =
            reading.processes == Some(0) && index + 1 < readings.len() && (cpu_ms - before_ms).abs() < 1e-6;
        assert!(
            is_held || bounds.contains(&cpu_ms),
            "{cpu_ms} ms of CPU time after {done} steps: {bounds:?}, and {before_ms} ms in the reading before"
        );
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
    let tables = "warnings: column warnings of r/measurements.csv, r/summary.csv; --verbose prints them\n";
    assert!(said.err.contains(tables), "{}", said.err);
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
fn a_run_is_never_written_over() {
    let door = crate::door();
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 3 --repeats 1 --out r");
    let said = door.exits(2, "single synthetic-sleep --device cpu:0 --steps 3 --repeats 1 --out r");
    let remedy = "r already holds a run; name another directory, or continue this run with --resume\n";
    assert_eq!(said.err, format!("error: {remedy}"));
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
            Entry::Span { start_us, dur_us, name, .. } if name.starts_with("step ") => {
                Some((*start_us, *dur_us))
            }
            _ => None,
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
