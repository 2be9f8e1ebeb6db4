use std::fs;

use schema::{
    events::EventWriter,
    spec::{LaunchSpec, Program},
    units::Nanos,
    wire::{Event, Step, Timing},
};
use statistics::median;

use super::*;
use crate::{
    alone::tests::{measurement, run_of, summary},
    run::Run,
};

/// A launch of job `a@b1@dp1` to be written. All ranks begin at 1 s and are never held.
#[derive(Clone, Default)]
pub(crate) struct Written {
    pub repeat: u32,
    /// The lengths of the steps of each rank.
    pub lengths: Vec<Vec<u64>>,
    pub used: Range<usize>,
}

/// A run with raw events, and its folder.
pub(crate) struct WrittenRun {
    pub run: Run,
    _folder: tempfile::TempDir,
}

/// Writes the event files of launches, and their rows.
pub(crate) fn run_with_steps(launches: &[Written]) -> WrittenRun {
    let folder = tempfile::tempdir().unwrap();
    let mut run = run_of(vec![summary(r#""workload": "a""#)]);
    let manifest = run.manifest.clone();
    run.dir = RunDir::create(folder.path()).unwrap();
    run.dir.write_manifest(&manifest).unwrap();
    for launch in launches {
        let name = format!("{:04}-a", launch.repeat + 1);
        let devices = launch.lengths.iter().map(|_| "cpu:0".parse().unwrap()).collect();
        let program = Program::Command(vec!["true".into()]);
        run.dir.write_spec(&LaunchSpec::new(&*name, "a@b1@dp1", program, devices)).unwrap();
        for (rank, lengths) in (0..).zip(&launch.lengths) {
            write_events(&run.dir.events_path(&name, rank), rank, lengths);
        }
        let used: Vec<u64> = launch.lengths[0].get(launch.used.clone()).unwrap_or_default().to_vec();
        run.measurements.push(measurement(&format!(
            r#""launch": "{name}", "repeat": {}, "warmup_steps": {}, "steps_used": {}, "step_ns_median": {}"#,
            launch.repeat,
            launch.used.start,
            launch.used.len(),
            median(&used).map_or(0.0, f64::round),
        )));
    }
    WrittenRun { run, _folder: folder }
}

fn write_events(path: &Path, rank: u32, lengths: &[u64]) {
    let mut writer = EventWriter::create(path, rank).unwrap();
    let mut end = 1_000_000_000;
    for (index, length) in (0..).zip(lengths) {
        end += length;
        let step = Step {
            index,
            dur_ns: Nanos(*length),
            samples: None,
            loss: None,
            phases: None,
            sent_bytes: None,
            timing: Timing::Host,
        };
        writer.say_at(Nanos(end), Event::Step(step)).unwrap();
    }
}

#[test]
fn the_used_steps_are_those_of_the_row() {
    let written = run_with_steps(&[
        Written { repeat: 0, lengths: vec![vec![50, 9, 8, 7, 9, 30]], used: 1..5 },
        Written { repeat: 1, lengths: vec![vec![50, 10, 9], vec![40, 20, 9, 7]], used: 1..3 },
    ]);
    let steps = written.run.steps();
    assert!(steps.problems.is_empty(), "{:?}", steps.problems);
    for (launch, row) in steps.launches.iter().zip(&written.run.measurements).take(1) {
        let used: Vec<u64> = launch.used_ns().collect();
        assert_eq!(median(&used).map(|ns| ns.round() as u64), row.step_ns_median);
    }
    // Each step of two ranks lasts until the later of them ends it.
    let together: Vec<u64> = steps.launches[1].steps.iter().map(|step| step.dur_ns).collect();
    assert_eq!(together, [50, 10, 9]);
    assert_eq!(steps.by_job().iter().map(Vec::len).collect::<Vec<_>>(), [2]);
}

#[test]
fn what_cannot_be_read_is_a_problem_with_its_file() {
    let launch = |repeat| Written { repeat, lengths: vec![vec![5, 5, 5]], used: 0..3 };
    let mut written = run_with_steps(&[launch(0), launch(1), launch(2), launch(3), launch(4), launch(5)]);
    let dir = written.run.dir.clone();
    let add = |path: &Path, text: &str| fs::write(path, fs::read_to_string(path).unwrap() + text).unwrap();
    add(&dir.events_path("0001-a", 0), "{\"seq\":3");
    add(&dir.events_path("0002-a", 0), "no event\n");
    fs::remove_file(dir.events_path("0003-a", 0)).unwrap();
    fs::write(dir.spec_path("0004-a"), "{}").unwrap();
    written.run.measurements[4].steps_used = u64::MAX;
    let steps = written.run.steps();
    assert_eq!(steps.launches.iter().map(|launch| launch.repeat).collect::<Vec<_>>(), [5]);
    let begins = [
        "events/0001-a.0.jsonl: line 4: torn",
        "events/0002-a.0.jsonl: line 4: not an event",
        "jobs/0004-a.json: ",
        "0005-a: its events have 3 steps",
    ];
    assert_eq!(
        steps.problems.len(),
        begins.len(),
        "a launch without events is no problem: {:?}",
        steps.problems
    );
    for (problem, begin) in steps.problems.iter().zip(begins) {
        assert!(problem.starts_with(begin), "{problem}");
    }
}
