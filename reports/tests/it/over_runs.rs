//! `report history` on runs whose times, dates, revisions and machines are made for the test.

use front_door::Door;
use record::rows::{self, CellHistory, History, HistoryVerdict, Warning};

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
    // The row of the record that the runs are made from is not steady, and that of the other job has no warning.
    assert_eq!(printed.out.matches("doubtful, because 8 of these 8 runs have warnings").count(), 1);
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
        printed
            .out
            .contains("2 kinds of machines or devices: runs on different kinds form separate histories"),
        "{}",
        printed.out
    );
}

#[test]
fn a_run_that_several_paths_lead_to_is_one_run() {
    let door = door();
    write_runs(&door, &step_of_a_fifth());
    let once = history(&door);
    std::os::unix::fs::symlink("runs", door.path("link")).expect("the folder is writable");
    let several = door.exits(0, "history runs runs/r99 ./runs/../runs/r98 link link/r97 --json").out;
    assert_eq!(rows::from_json::<History>(&several).expect("stdout is JSON"), once);
}

/// The warnings of two runs before the change and of one after it.
#[test]
fn runs_with_warnings_are_named_beside_a_change() {
    let door = door();
    write_runs(&door, &step_of_a_fifth());
    for number in 92..=99 {
        let run = format!("runs/r{number}");
        let mut summaries = door.summaries(&run);
        let lstm = summaries.iter_mut().find(|row| row.job == LSTM).expect("it was measured");
        lstm.warnings = [98, 97, 93].contains(&number).then_some(Warning::FewSteps).into_iter().collect();
        rows::write(&door.run(&run).summary_path(), &summaries).expect("the run is writable");
    }
    let lstm = cell(&history(&door), LSTM).clone();
    let counts: Vec<_> = lstm.levels.iter().map(|level| (level.count, level.count_with_warnings)).collect();
    assert_eq!(counts, [(4, 2), (4, 1)]);
    let printed = door.exits(0, "history runs");
    let sentence = "doubtful, because 3 of these 8 runs have warnings";
    assert_eq!(printed.out.matches(sentence).count(), 1, "{}", printed.out);
    let noted = printed.out.lines().filter(|line| line.contains(LSTM) && line.contains("few-steps"));
    assert_eq!(noted.count(), 3, "{}", printed.out);
}

/// With six degrees of freedom, the test of eight runs at 0.05 / 10 (five runs could begin a level, in each of two jobs) finds a difference
/// of DISTANCE standard errors with a probability of 80 %, by a numerical integration with another program.
#[test]
fn a_history_without_a_change_says_what_would_be_shown() {
    const DISTANCE: f64 = 5.4585;
    let door = door();
    write_runs(&door, &[NOISE, NOISE].concat());
    let lstm = cell(&history(&door), LSTM).clone();
    let logs = NOISE.map(f64::ln);
    let mean = logs.iter().sum::<f64>() / 4.0;
    let deviation = (2.0 * logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / 7.0).sqrt();
    let detectable = lstm.detectable_ratio.expect("eight runs");
    assert!((detectable.ln() / (deviation * 0.5_f64.sqrt()) - DISTANCE).abs() < 0.02, "{detectable}");
    let [level] = &lstm.levels[..] else { panic!("one level: {lstm:?}") };
    assert!((level.ns / (10e6 * mean.exp()) - 1.0).abs() < 1e-6, "{level:?}");
    let printed = door.exits(0, "history runs");
    let sentence = format!(
        "a change by {:.2} % from the first to the second half would be shown with a probability of 80 %",
        100.0 * (detectable - 1.0)
    );
    assert!(printed.out.contains(&sentence), "{sentence} in {}", printed.out);
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
