use std::path::Path;

use record::rows::{self, Measurement, Summary};

use super::*;

/// A published run.
pub(crate) fn record(name: &str) -> Run {
    Run::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("record").join(name))
        .expect("the record is complete")
}

/// A run on one device with these jobs.
pub(crate) fn run_of(summaries: Vec<Summary>) -> Run {
    let mut run = record("20261121-epyc");
    run.measurements.clear();
    run.summaries = summaries;
    run
}

/// A row with these columns, as in JSON, and otherwise a job of which nothing is known.
pub(crate) fn summary(columns: &str) -> Summary {
    let others = [("repeats", "1"), ("repeats_failed", "0")];
    rows::from_json(&with_others(columns, &others)).expect("the columns are those of a summary")
}

/// The same for a launch.
pub(crate) fn measurement(columns: &str) -> Measurement {
    let others = [("launch", "\"0001-a\""), ("repeat", "0"), ("steps_total", "0"), ("steps_used", "0")];
    rows::from_json(&with_others(columns, &others)).expect("the columns are those of a measurement")
}

fn with_others(columns: &str, others: &[(&str, &str)]) -> String {
    let common = [
        ("run", "\"r\""),
        ("job", "\"a@b1@dp1\""),
        ("workload", "\"a\""),
        ("device", "\"cpu:0\""),
        ("threads", "1"),
        ("sharing", "\"alone\""),
        ("warnings", "\"\""),
        ("status", "\"ok\""),
    ];
    let absent = common.iter().chain(others).filter(|(name, _)| !columns.contains(&format!("\"{name}\":")));
    let absent = absent.map(|(name, value)| format!("\"{name}\": {value}"));
    let all: Vec<String> =
        Some(columns.to_owned()).filter(|text| !text.is_empty()).into_iter().chain(absent).collect();
    format!("{{{}}}", all.join(", "))
}

#[test]
fn jobs_are_named_with_their_device_where_they_have_several() {
    let run = run_of(vec![
        summary(r#""job": "a@b1@dp1", "device": "cpu:0""#),
        summary(r#""job": "a@b1@dp1", "device": "cpu:1""#),
        summary(r#""job": "b@b1@dp1", "workload": "b""#),
    ]);
    let names = Names::of(&run);
    assert_eq!(names.name("a@b1@dp1", "cpu:1"), "a@b1@dp1 on cpu:1");
    assert_eq!(names.name("b@b1@dp1", "cpu:0"), "b@b1@dp1");
}

#[test]
fn rows_of_groups_are_not_alone() {
    let run = record("20261122-epyc/colocate/all-pairs-1");
    let rows: usize = parts(&run).iter().map(|part| part.rows.len()).sum();
    assert_eq!(rows, 6);
    assert_eq!(run.summaries.iter().filter_map(|row| row.group.clone()).count(), run.summaries.len() - 6);
}

#[test]
fn a_reason_is_told_once() {
    let unsupported =
        summary(r#""status": "unsupported", "err": "unsupported", "err_detail": "needs 2 devices""#);
    assert_eq!(why_absent(&unsupported, "x"), "unsupported: needs 2 devices");
    assert_eq!(why_absent(&summary(r#""status": "failed""#), "x"), "failed: no reason is known");
    assert_eq!(why_absent(&summary(r#""status": "ok""#), "x"), "x");
}

#[test]
fn only_values_far_apart_are_on_a_logarithmic_axis() {
    let of = |values: &[f64]| {
        scaled(Axis::new("", "", crate::table::Unit::Ns), values.iter().copied()).scale
            == crate::chart::Scale::Log
    };
    assert_eq!([of(&[1.0, 31.0]), of(&[2.0, 31.0]), of(&[0.0, 31.0]), of(&[])], [true, false, false, false]);
}
