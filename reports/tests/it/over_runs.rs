//! `report history` on runs whose times, dates, revisions and machines are made for the test.

use front_door::Door;
use record::rows::{self, CellHistory, History, HistoryVerdict};

use crate::compared::{LSTM, VAE, door, job, write_run};

/// Rewrites lines of the manifest of a run by their keys.
fn rewrite(door: &Door, run: &str, values: &[(&str, &str)]) {
    let path = door.run(run).manifest_path();
    let text = std::fs::read_to_string(&path).expect("it has a manifest");
    let line = |line: &str| {
        let value = values.iter().find(|(key, _)| line.starts_with(&format!("{key} = ")));
        value.map_or(line.to_owned(), |(key, value)| format!("{key} = \"{value}\""))
    };
    let rewritten: Vec<String> = text.lines().map(line).collect();
    std::fs::write(path, rewritten.join("\n") + "\n").expect("the run is writable");
}

/// A run for each factor, on successive days, whose names are in the opposite order.
fn write_runs(door: &Door, factors: &[f64]) {
    for (number, factor) in factors.iter().enumerate() {
        let name = format!("runs/r{}", 99 - number);
        std::fs::create_dir_all(door.path("runs")).expect("the folder is writable");
        write_run(door, &name, &[job(LSTM, *factor, 0.002), job(VAE, 1.0, 0.002)], &[LSTM, VAE]);
        let started = format!("2026-11-{:02}T10:00:00Z", number + 1);
        let revision = format!("{number:012x}");
        rewrite(door, &name, &[("started_utc", &started), ("git_revision", &revision)]);
    }
}

fn history(door: &Door) -> History {
    rows::from_json(&door.exits(0, "history runs --json").out).expect("stdout is JSON and nothing else")
}

fn cell<'a>(history: &'a History, job: &str) -> &'a CellHistory {
    history.cells.iter().find(|cell| cell.job == job).unwrap_or_else(|| panic!("{job}: {history:?}"))
}

const NOISE: [f64; 4] = [0.999, 1.001, 1.0005, 0.9995];

fn step_of_a_fifth() -> Vec<f64> {
    [1.0, 1.2].iter().flat_map(|level| NOISE.map(|noise| level * noise)).collect()
}

#[test]
fn a_change_has_its_run_its_ratio_and_what_differs() {
    let door = door();
    write_runs(&door, &step_of_a_fifth());
    let history = history(&door);
    let names: Vec<&str> = history.runs.iter().map(|run| &*run.name).collect();
    assert_eq!(names, ["r99", "r98", "r97", "r96", "r95", "r94", "r93", "r92"], "in the order of starts");
    let lstm = cell(&history, LSTM);
    let [change] = &lstm.changes[..] else { panic!("one change: {lstm:?}") };
    assert_eq!((lstm.verdict, change.run, change.run_before), (HistoryVerdict::Changed, 4, 3));
    // The logarithms of the runs around their level, with six degrees of freedom.
    let logs = NOISE.map(f64::ln);
    let mean = logs.iter().sum::<f64>() / 4.0;
    let deviation = (2.0 * logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / 6.0).sqrt();
    let half = 2.446_911_851 * deviation * 0.5_f64.sqrt();
    let ends = [change.ratio, change.ratio_ci_lo, change.ratio_ci_hi];
    for (end, log) in ends.into_iter().zip([0.0, -half, half]) {
        assert!((end / (1.2 * f64::exp(log)) - 1.0).abs() < 1e-6, "{ends:?}");
    }
    assert_eq!(change.differences, ["revision: 000000000003 in r96, 000000000004 in r95"]);
    assert!(change.p_corrected < 0.001 && cell(&history, VAE).changes.is_empty(), "{history:?}");
    assert_eq!(cell(&history, VAE).verdict, HistoryVerdict::NoneShown);
    let printed = door.exits(0, "history runs");
    let sentence = format!(
        "{:.3} ({:.3} to {:.3}) times the time before, from r95 at 000000000004 on",
        ends[0], ends[1], ends[2]
    );
    assert!(printed.out.contains(&sentence), "{sentence} in {}", printed.out);
    assert!(printed.out.contains("no change is shown over 8 runs"), "{}", printed.out);
    assert!(printed.out.contains("Machines drift"), "{}", printed.out);
}

#[test]
fn three_runs_cannot_tell() {
    let door = door();
    write_runs(&door, &[1.0, 1.0, 2.0]);
    let lstm = history(&door).cells.swap_remove(0);
    assert_eq!(
        (lstm.verdict, lstm.points.len(), lstm.between_runs_percent),
        (HistoryVerdict::CannotTell, 3, None)
    );
    let printed = door.exits(0, "history runs");
    assert!(
        printed.out.contains("cannot tell, because fewer than 4 runs have a time on one machine: "),
        "{}",
        printed.out
    );
}

#[test]
fn another_machine_is_no_change_of_the_program() {
    let door = door();
    write_runs(&door, &step_of_a_fifth());
    for number in 92..96 {
        rewrite(&door, &format!("runs/r{number}"), &[("cpu", "another processor")]);
    }
    let history = history(&door);
    let of_lstm: Vec<&CellHistory> = history.cells.iter().filter(|cell| cell.job == LSTM).collect();
    assert_eq!(of_lstm.iter().map(|cell| cell.points.len()).collect::<Vec<_>>(), [4, 4]);
    assert!(of_lstm.iter().all(|cell| cell.verdict == HistoryVerdict::NoneShown), "{of_lstm:?}");
    let printed = door.exits(0, "history runs");
    assert!(
        printed.out.contains("2 kinds of machines or devices, which are not compared"),
        "{}",
        printed.out
    );
}

#[test]
fn the_picture_has_the_numbers_of_the_history() {
    let door = door();
    write_runs(&door, &step_of_a_fifth());
    let printed = door.exits(0, "table history runs --csv");
    let drawn = printed.out.lines().filter(|line| line.contains("runs")).count();
    assert_eq!(drawn, 2 * 8, "a point for each run of two jobs: {}", printed.out);
    door.exits(0, "runs --out page");
    let svg = std::fs::read_to_string(door.path("page/figures/history.svg")).expect("it was drawn");
    assert!(svg.contains("1.200"), "the change is named");
}

#[test]
fn runs_without_jobs_alone_have_no_history() {
    let door = door();
    let scheduled = concat!(env!("CARGO_MANIFEST_DIR"), "/record/20261122-epyc/testbed/fifo-1");
    assert!(door.exits(4, &format!("history {scheduled}")).err.contains("no run measured a job alone"));
}
