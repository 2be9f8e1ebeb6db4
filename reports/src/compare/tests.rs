//! Verdicts on rows with known numbers, and on records.

use std::path::Path;

use record::rows::{BoundVerdict, ErrorKind, Status};

use super::*;

fn record(name: &str) -> ComparedRun {
    ComparedRun::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("record").join(name)).expect("a record")
}

/// A run of the first job of a record, changed, without its memory.
fn side(change: impl FnOnce(&mut record::rows::Summary)) -> ComparedRun {
    let mut side = record("20261123-epyc/colocate/all-pairs-1");
    side.summaries.truncate(1);
    side.measurements.clear();
    side.interference.clear();
    change(&mut side.summaries[0]);
    side
}

/// A job of 10 ms with 1 % between four launches, multiplied.
fn times(factor: f64) -> ComparedRun {
    let of = statistics::launches::between_launches(&[9.9e6, 10e6, 10e6, 10.1e6].map(|ns| ns * factor));
    let of = of.expect("four launches");
    side(|row| {
        row.repeats = 4;
        row.step_ns_median = Some(of.estimate.round() as u64);
        row.step_ns_median_ci_lo = Some(of.lo.round() as u64);
        row.step_ns_median_ci_hi = Some(of.hi.round() as u64);
    })
}

fn only(changes: &Changes) -> &Change {
    let [row] = &changes.rows[..] else { panic!("{changes:?}") };
    row
}

/// The interval is from 1.4 % below the ratio to 1.4 % above it.
#[test]
fn each_verdict_follows_from_the_numbers() {
    let cases = [
        (1.2, Verdict::Slower, BoundVerdict::Worse),
        (1.055, Verdict::Slower, BoundVerdict::CannotTell),
        (1.03, Verdict::Slower, BoundVerdict::Within),
        (1.001, Verdict::CannotTell, BoundVerdict::Within),
        (0.8, Verdict::Faster, BoundVerdict::Within),
    ];
    for (factor, verdict, bound_verdict) in cases {
        let changes = changes(&times(1.0), &times(factor), Some(0.05));
        let row = only(&changes);
        assert_eq!((row.verdict, row.bound_verdict), (verdict, Some(bound_verdict)), "{row:?}");
        assert!((row.ratio.expect("two numbers") - factor).abs() < 1e-6);
        let (lo, hi) = row.ratio_ci_lo.zip(row.ratio_ci_hi).expect("two intervals");
        assert!(lo < factor && factor < hi);
    }
}

/// Four launches with the logarithms -d, 0, 0 and d on both sides: the variance of each mean is d * d / 6, and there
/// are six degrees of freedom, whose t quantile is 2.446912.
#[test]
fn the_interval_is_that_of_welch() {
    let ns = |log: f64| (10e9 * log.exp()).round() as u64;
    let d = 0.01_f64;
    let published = |shift: f64| {
        let half_width = 3.182_446_305 * d / 6_f64.sqrt();
        side(|row| {
            row.repeats = 4;
            row.step_ns_median = Some(ns(shift));
            row.step_ns_median_ci_lo = Some(ns(shift - half_width));
            row.step_ns_median_ci_hi = Some(ns(shift + half_width));
        })
    };
    let comparison = changes(&published(0.0), &published(0.03), None);
    let row = only(&comparison);
    let half_width = 2.446_911_851 * d / 3_f64.sqrt();
    let (lo, hi) = row.ratio_ci_lo.zip(row.ratio_ci_hi).expect("two intervals");
    assert!((lo.ln() - 0.03 + half_width).abs() < 1e-7 && (hi.ln() - 0.03 - half_width).abs() < 1e-7);
}

#[test]
fn a_side_without_an_interval_cannot_be_told() {
    let once = side(|row| {
        row.repeats = 1;
        row.step_ns_median = Some(20_000_000);
        (row.step_ns_median_ci_lo, row.step_ns_median_ci_hi) = (None, None);
    });
    let comparison = changes(&times(1.0), &once, Some(9.0));
    assert_eq!((only(&comparison).verdict, only(&comparison).p), (Verdict::CannotTell, None));
    assert_eq!(only(&comparison).bound_verdict, Some(BoundVerdict::CannotTell));
    assert_eq!((only(&comparison).detectable_ratio, only(&comparison).launches_needed), (None, None));
    assert!((only(&comparison).ratio.expect("two numbers") - 2.0).abs() < 1e-3);
}

#[test]
fn a_failure_in_b_is_worse_and_one_in_a_is_not() {
    let failed = || {
        side(|row| {
            row.status = Status::Failed;
            row.err = Some(ErrorKind::Crashed);
        })
    };
    let comparison = changes(&times(1.0), &failed(), Some(0.5));
    assert_eq!((only(&comparison).verdict, only(&comparison).b), (Verdict::Failed, None));
    assert_eq!(only(&comparison).bound_verdict, Some(BoundVerdict::Worse));
    let repaired = changes(&failed(), &times(1.0), Some(0.5));
    assert!(repaired.rows.is_empty() && repaired.only_in_b.len() == 1, "{repaired:?}");
    let twice = changes(&failed(), &failed(), Some(0.5));
    assert!(twice.rows.is_empty() && twice.only_in_b.is_empty() && twice.without_number == 1, "{twice:?}");
}

#[test]
fn a_program_without_steps_is_compared_by_its_duration() {
    let program = |ns| {
        side(|row| {
            row.step_ns_median = None;
            (row.wall_ns, row.wall_ns_ci_lo, row.wall_ns_ci_hi) =
                (Some(ns), Some(ns - ns / 100), Some(ns + ns / 99));
        })
    };
    let comparison = changes(&program(1_000_000), &program(1_500_000), None);
    assert_eq!((only(&comparison).a, only(&comparison).b), (1e6, Some(1.5e6)));
}

#[test]
fn a_run_compared_with_itself_finds_nothing() {
    for name in ["20261122-epyc/colocate/all-pairs-1", "20261123-epyc/colocate/all-pairs-2", "20261121-epyc"]
    {
        let comparison = changes(&record(name), &record(name), None);
        assert!(!comparison.rows.is_empty() && comparison.differences.is_empty());
        for row in &comparison.rows {
            let is_undecided = row.verdict == Verdict::CannotTell && row.p.is_none_or(|p| p == 1.0);
            let is_equal = row.verdict == Verdict::Equal && row.quantity.is_memory();
            assert!(is_undecided || is_equal, "{name}: {row:?}");
        }
        assert!(comparison.shifts.iter().all(|shift| shift.ratio == 1.0));
        assert!(comparison.only_in_a.is_empty() && comparison.only_in_b.is_empty());
    }
}

/// The record says that 39 of 42 slowdowns are higher in the second run, that their ratio is 1.040, and that the
/// steps alone are at 0.998.
#[test]
fn two_runs_of_all_pairs_have_the_ratios_of_the_record() {
    let (first, second) =
        (record("20261122-epyc/colocate/all-pairs-1"), record("20261122-epyc/colocate/all-pairs-2"));
    let comparison = changes(&first, &second, None);
    let rows = |quantity| comparison.rows.iter().filter(move |row| row.quantity == quantity);
    let (alone, slowdown) = (ChangeQuantity::Alone, ChangeQuantity::Slowdown);
    assert_eq!((rows(slowdown).count(), rows(alone).count()), (42, 6));
    assert_eq!(rows(slowdown).filter(|row| row.ratio > Some(1.0)).count(), 39);
    let shift =
        |quantity| comparison.shifts.iter().find(|shift| shift.quantity == quantity).map(|shift| shift.ratio);
    let shifts = [alone, slowdown].map(|quantity| format!("{:.3}", shift(quantity).expect("it has rows")));
    assert_eq!(shifts, ["0.998", "1.040"]);
    assert_eq!(shift(ChangeQuantity::PeakMemory), Some(1.0), "the same tensors");
    assert!(comparison.rows.iter().all(|row| row.p_holm >= row.p));
}

#[test]
fn a_program_that_was_started_otherwise_is_a_difference() {
    let name = "20261122-epyc/colocate/all-pairs-1";
    let (a, mut b) = (record(name), record(name));
    b.manifest.cells[0].command = Some(vec!["python3".into(), "train.py".into(), "150".into()]);
    let job = b.manifest.cells[0].job.clone();
    let expected = format!("commands: none in A, {job}: python3 train.py 150 in B");
    assert_eq!(changes(&a, &b, None).differences, [expected]);
}

#[test]
fn what_one_run_has_alone_is_named_and_differences_are_told() {
    let comparison = changes(
        &record("20261122-epyc/colocate/two-cores"),
        &record("20261122-epyc/colocate/sharing-resnet18-lstm"),
        None,
    );
    assert!(comparison.only_in_a.contains(&"lstm@b20@dp1 on cpu:1".to_owned()), "{:?}", comparison.only_in_a);
    assert_eq!(comparison.without_number, 2, "two seats under sequential");
    assert!(
        comparison.differences.iter().any(|of| of.starts_with("devices: ")),
        "{:?}",
        comparison.differences
    );
}
