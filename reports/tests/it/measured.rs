//! Runs that `profile` measures for the test, drawn and compared.

use std::{collections::BTreeMap, fs, path::Path, thread};

use front_door::{Door, KilledAtTheEnd, wait_for};
use record::{
    rows::{self, Change, ChangeQuantity, Changes, DeviceSample, FigureNumbers, Summary, Value, Verdict},
    run_dir::RunDir,
    trace_events::{self, Entry},
};
use schema::{events, skips::skipped, wire::Event};

/// `profile`, which cargo builds beside `report` when it builds the workspace.
fn profile() -> Option<&'static str> {
    let path = Path::new(env!("CARGO_BIN_EXE_report")).with_file_name("profile");
    if !path.is_file() {
        skipped("profile", "the program `profile` was not built; build the workspace");
        return None;
    }
    Some(Box::leak(path.display().to_string().into_boxed_str()))
}

/// `report`, in the folder of another program.
fn report(door: &Door, arguments: &str) -> std::process::Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_report"));
    command.args(arguments.split_whitespace()).current_dir(door.path("."));
    command.output().expect("it starts")
}

fn numbers(door: &Door, arguments: &str) -> Vec<FigureNumbers> {
    let output = report(door, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    rows::from_json(&String::from_utf8_lossy(&output.stdout)).expect("stdout is JSON and nothing else")
}

fn number(row: &BTreeMap<String, Value>, column: &str) -> f64 {
    match row.get(column) {
        Some(Value::Number(value)) => *value,
        other => panic!("{column}: {other:?}"),
    }
}

fn text(row: &BTreeMap<String, Value>, column: &str) -> String {
    match row.get(column) {
        Some(Value::Text(value)) => value.clone(),
        other => panic!("{column}: {other:?}"),
    }
}

/// The spans of steps in `trace.json` by launch, in microseconds: begin and length.
fn spans(run: &RunDir) -> BTreeMap<String, Vec<(f64, f64)>> {
    let entries = trace_events::read(&run.trace_path()).expect("the trace is as its format has it");
    let mut names = BTreeMap::new();
    let mut spans: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for entry in entries {
        match entry {
            Entry::Process { pid, name } => {
                names.insert(pid, name);
            }
            // Phases lie within steps.
            Entry::Span { pid, start_us, dur_us, name, .. } if name.starts_with("step ") => {
                spans.entry(names[&pid].clone()).or_default().push((start_us, dur_us));
            }
            Entry::Span { .. } | Entry::Counter { .. } | Entry::Thread { .. } | Entry::Instant { .. } => {}
        }
    }
    spans
}

#[test]
fn the_page_of_a_run_beside_another_program_does_not_say_that_it_ended_well() {
    let Some(program) = profile() else { return };
    let other =
        std::process::Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn();
    let other = KilledAtTheEnd(other.expect("taskset starts"));
    // On a busy machine, the harness may read too rarely.
    let (door, said) = wait_for("the use of the core is read", || {
        let door = Door::new(program);
        let said = door.exits(0, "single synthetic-sleep --device cpu:0 --repeats 2 --seconds 1 --out r");
        if said.out.contains("is not known for") { Err(said.out) } else { Ok((door, said)) }
    });
    drop(other);
    assert!(report(&door, "r --out page").status.success());
    let page = fs::read_to_string(door.path("page/index.html")).expect("the page was written");
    let verdict = said.out.lines().next().and_then(|line| line.strip_prefix("verdict: "));
    let verdict = verdict.expect("the verdict comes first");
    assert!(verdict.starts_with("do not quote: other programs had "), "{verdict}");
    assert!(page.contains(verdict) && page.contains("ended; do not quote") && !page.contains("ended well"));
}

#[test]
fn the_trace_has_a_span_for_each_step_and_a_counter_for_each_reading() {
    let Some(program) = profile() else { return };
    if thread::available_parallelism().is_ok_and(|cores| cores.get() < 2) {
        return skipped("cores", "this process may use one core, and the test measures on two");
    }
    let door = Door::new(program);
    door.exits(
        0,
        "single synthetic-sleep synthetic-sleep@dp2 --device cpu:0,cpu:1 --steps 40 --repeats 2 --out r",
    );
    let run = door.run("r");
    let samples: Vec<DeviceSample> = rows::read_appended(&run.devices_path()).expect("readings");
    let origin = samples.first().expect("there are readings").mono_ns;
    let spans = spans(&run);
    let launches = run.launches().expect("there are launches");
    assert_eq!(launches.len(), 4);
    for launch in &launches {
        let spec = run.spec(launch).expect("it was started");
        let mut expected = Vec::new();
        for rank in 0..run.ranks(&spec) {
            for line in events::read(&run.events_path(launch, rank), rank).expect("the events are whole") {
                if let Event::Step(step) = line.event {
                    let begin = line.mono_ns.saturating_sub(step.dur_ns).saturating_sub(origin);
                    expected.push((begin.0 as f64 / 1e3, step.dur_ns.0 as f64 / 1e3));
                }
            }
        }
        assert_eq!(spans[launch], expected, "{launch}");
    }
    let entries = trace_events::read(&run.trace_path()).expect("it was read");
    let counted = |wanted: &str| -> Vec<(f64, f64)> {
        let of = |entry: &Entry| match entry {
            Entry::Counter { name, at_us, value, .. } if name == wanted => Some((*at_us, *value)),
            _ => None,
        };
        entries.iter().filter_map(of).collect()
    };
    // Each device has a track of its own.
    let read = ["cpu:0", "cpu:1"].into_iter().flat_map(|device| {
        let of_device = samples.iter().filter(move |row| row.device == device);
        of_device
            .filter_map(|row| Some((row.mono_ns.saturating_sub(origin).0 as f64 / 1e3, row.util_percent?)))
    });
    assert_eq!(counted("util_percent"), read.collect::<Vec<_>>());
}

#[test]
fn the_report_and_the_trace_agree_on_times() {
    let Some(program) = profile() else { return };
    let door = Door::new(program);
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 40 --repeats 2 --out r");
    let run = door.run("r");
    let spans = spans(&run);
    let [figure] = &numbers(&door, "table step-times r --json")[..] else { panic!("one figure") };
    let measured = door.measurements("r");
    for row in &measured {
        let of_launch = &spans[&row.launch];
        let name = format!("launch {}", row.repeat + 1);
        let of_row = figure.rows.iter().filter(|point| text(point, "series").starts_with(&name));
        let mut drawn: Vec<(f64, f64)> =
            of_row.map(|point| (number(point, "elapsed_ns"), number(point, "step_ns"))).collect();
        drawn.sort_by(|a, b| a.0.total_cmp(&b.0));
        drawn.dedup();
        assert_eq!(drawn.len(), of_launch.len(), "{name}");
        // Times count back from the last end. The trace begins with the first reading of the device, and a step may begin before it.
        let (last_drawn, (last_begin, last_length)) =
            (drawn[drawn.len() - 1].0, of_launch[of_launch.len() - 1]);
        for (drawn, (begin, length)) in drawn.iter().zip(of_launch).filter(|(_, (begin, _))| *begin > 0.0) {
            let before_last = (last_begin + last_length - begin - length) * 1e3;
            // The trace has microseconds in floating point.
            assert!(
                (last_drawn - drawn.0 - before_last).abs() < 10.0 && (drawn.1 - length * 1e3).abs() < 1.0,
                "{drawn:?} {begin} {length}"
            );
        }
    }
}

/// A copy of the run `from` with a rewritten summary, in which a step takes about this time.
fn with_step_time(door: &Door, from: &str, name: &str, step_ns: u64) {
    fs::create_dir(door.path(name)).expect("the folder is writable");
    fs::copy(door.run(from).manifest_path(), door.path(name).join("manifest.toml")).expect("it was written");
    let mut rows: Vec<Summary> = door.summaries(from);
    for row in &mut rows {
        row.step_ns_median = Some(step_ns);
        (row.step_ns_median_ci_lo, row.step_ns_median_ci_hi) =
            (Some(step_ns - step_ns / 100), Some(step_ns + step_ns / 100));
    }
    rows::write(&door.run(name).summary_path(), &rows).expect("the folder is writable");
    let mut launches = door.measurements(from);
    for launch in &mut launches {
        launch.peak_memory_bytes = Some(40_000_000);
    }
    rows::write(&door.run(name).measurements_path(), &launches).expect("the folder is writable");
}

fn compared(door: &Door, arguments: &str) -> (Option<i32>, Changes) {
    let output = report(door, &format!("compare {arguments} --json"));
    let changes = rows::from_json(&String::from_utf8_lossy(&output.stdout));
    (
        output.status.code(),
        changes.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr))),
    )
}

#[test]
fn a_slower_program_is_found_and_a_run_is_equal_to_itself() {
    let Some(program) = profile() else { return };
    let door = Door::new(program);
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 40 --repeats 5 --out measured");
    with_step_time(&door, "measured", "before", 10_000_000);
    with_step_time(&door, "measured", "after", 13_000_000);
    let time = |changes: &Changes| {
        let is_time = |row: &&Change| row.quantity == ChangeQuantity::Alone;
        changes.rows.iter().find(is_time).expect("the job has a time").clone()
    };
    let (code, same) = compared(&door, "measured measured --fail-above 0%");
    assert_eq!((code, time(&same).verdict), (Some(7), Verdict::CannotTell), "nothing is within 0 %");
    assert_eq!(time(&same).ratio, Some(1.0));
    let (code, slower) = compared(&door, "before after --fail-above 5%");
    assert_eq!((code, time(&slower).verdict), (Some(1), Verdict::Slower));
    let ratio = time(&slower).ratio.expect("both have numbers");
    assert!((ratio - 1.3).abs() < 1e-9, "{ratio}");
    let (code, _) = compared(&door, "before after --fail-above 60%");
    assert_eq!(code, Some(0), "slower, but by less than it takes");
    let (code, faster) = compared(&door, "after before --fail-above 5%");
    assert_eq!((code, time(&faster).verdict), (Some(0), Verdict::Faster));
}
