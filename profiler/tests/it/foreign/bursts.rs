//! Programs whose median step is not their pace.

use record::rows::{Measurement, Status, Warning};

use super::{exits, row, with_program};

fn is_bursty(row: &Measurement) -> bool {
    row.warnings.iter().any(|warning| warning == Warning::Bursty)
}

#[test]
fn a_program_that_tests_its_model_between_steps_is_bursty_and_has_its_pace_in_the_table() {
    let program = "for epoch in range(6):
    train(20)
    time.sleep(0.4)
train(1)";
    let Some(door) = with_program(program) else { return };
    let said = exits(0, &door, "single --device cpu:0 --repeats 1 --out r --", &["python3", "train.py"]);
    let row = row(&door);
    assert_eq!(row.status, Status::Ok, "{row:?}");
    let (median, mean) = (row.step_ns_median.expect("it stepped"), row.step_ns_mean.expect("it stepped"));
    // Steps of 2 ms or more, and 0.4 s for 20 of them.
    assert!(median >= 2_000_000 && mean >= 20_000_000, "{row:?}");
    assert!(is_bursty(&row), "{row:?}");
    let window_ns = row.window_ns.expect("it stepped");
    assert!((window_ns / row.steps_used).abs_diff(mean) <= 1, "{row:?}");
    assert!(said.out.contains(" ms, pace "), "{}", said.out);
    assert!(said.err.contains("bursty: its pace is ") && said.err.contains("% of the time"), "{}", said.err);
    assert!(said.err.contains(", one in every 20, take "), "{}", said.err);
}

#[test]
fn the_pace_is_printed_and_warned_of_beyond_its_bounds_alone() {
    let Some(door) = with_program("train(60)") else { return };
    let said = exits(0, &door, "single --device cpu:0 --repeats 1 --out r --", &["python3", "train.py"]);
    let row = row(&door);
    let ratio = row.step_ns_mean.expect("it stepped") as f64 / row.step_ns_median.expect("it stepped") as f64;
    // On a busy machine steps may differ. What is printed follows the numbers in any case.
    assert_eq!(is_bursty(&row), ratio > 1.1, "{row:?}");
    assert_eq!(said.out.contains(", pace "), ratio > 1.05, "{row:?}\n{}", said.out);
}

/// A program that computes for about a second for each of its lines, which have the numbers of every tenth step.
#[test]
fn rare_lines_beside_a_busy_device_ask_whether_each_ends_a_step() {
    let program = "import sys
for step in range(0, 60, 10):
    began = time.process_time()
    while time.process_time() < began + 1.05:
        pass
    print('iter', step, flush=True)";
    for (pattern, is_asked) in [("^iter", true), (r"^iter (\d+)", false)] {
        let Some(door) = with_program(program) else { return };
        let options = ["--steps-regex", pattern, "--", "python3", "train.py"];
        let said = exits(0, &door, "single --device cpu:0 --repeats 1 --out r", &options);
        let row = row(&door);
        assert_eq!(row.warnings.iter().any(|warning| warning == Warning::SparseLines), is_asked, "{row:?}");
        let question = "does each line end one step?; if a line stands for several steps";
        assert_eq!(said.err.contains(question), is_asked, "{}", said.err);
    }
}
