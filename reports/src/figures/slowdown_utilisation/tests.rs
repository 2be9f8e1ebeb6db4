//! Points and lines against the tables, and against values computed another way.

use super::{super::together::testing, *};

fn plane(figure: &Figure) -> &Plane {
    let Chart::Planes(planes) = &figure.chart else { panic!("planes") };
    &planes[0]
}

fn points(plane: &Plane) -> Vec<&Point> {
    plane.series.iter().filter(|series| series.form == Form::Dots).flat_map(|series| &series.points).collect()
}

/// A run whose jobs have these utilisations alone, and these pairs.
fn run(utilisations: &[(&str, f64)], pairs: &[(&str, &str, f64)]) -> Run {
    let rows =
        pairs.iter().flat_map(|&(a, b, slowdown)| testing::pair(a, b, [slowdown - 0.05, slowdown + 0.05]));
    let mut run = testing::run(rows.collect());
    let mut summaries = run.summaries.clone();
    summaries.truncate(utilisations.len());
    for (summary, (job, percent)) in summaries.iter_mut().zip(utilisations) {
        summary.job = (*job).into();
        summary.device_util_percent_mean = Some(*percent);
    }
    run.summaries = summaries;
    run
}

#[test]
fn points_are_slowdowns_over_the_sums_of_the_table() {
    let run = testing::record("20261122-epyc/colocate/all-pairs-1");
    let [figure] = &make(&run, &Colours::default())[..] else { panic!("one sharing mode") };
    let plane = plane(figure);
    assert_eq!(points(plane).len(), 42);
    let alone = |job: &str| {
        let of_job = run.summaries.iter().find(|row| row.job == job && row.group.is_none());
        of_job.and_then(|row| row.device_util_percent_mean).expect("it was read")
    };
    let row = &run.interference[3];
    let drawn =
        points(plane).into_iter().find(|point| point.label == "lstm@b20@dp1 beside resnet18-mini@b16@dp1");
    let drawn = drawn.expect("the pair is drawn");
    assert_eq!(
        (drawn.y, drawn.ci),
        (row.slowdown.unwrap_or(0.0), row.slowdown_ci_lo.zip(row.slowdown_ci_hi))
    );
    assert!((drawn.x - alone("lstm@b20@dp1") - alone("resnet18-mini@b16@dp1")).abs() < 1e-9);
    assert_eq!(
        points(plane).iter().filter(|point| !point.doubt.is_empty()).count(),
        2,
        "two rows are not valid"
    );
    assert!(figure.caption.contains("the 20 groups without doubts"), "{}", figure.caption);
    assert!(figure.finding.contains("10 % more"), "{}", figure.finding);
}

const UTILISATIONS: [(&str, f64); 6] =
    [("a", 20.0), ("b", 40.0), ("c", 60.0), ("d", 80.0), ("e", 100.0), ("f", 120.0)];

/// The sums of utilisation are 40, 60, 80, 100 and 120, and the slowdowns 1.1, 1.3, 1.3, 1.5 and 1.5. The mean of the sums is
/// 80, and that of the slowdowns 1.34. The products of the distances from them add up to 20, and the squares to 4000, so that
/// the line is 0.94 + 0.005 x. The distances from the line are -0.04, 0.06, -0.04, 0.06 and -0.04, so that R^2 is
/// 1 - 0.012 / 0.112.
#[test]
fn the_line_is_that_of_least_squares_over_groups() {
    let pairs = [("a", "a", 1.1), ("a", "b", 1.3), ("a", "c", 1.3), ("a", "d", 1.5), ("a", "e", 1.5)];
    let [figure] = &make(&run(&UTILISATIONS, &pairs), &Colours::default())[..] else { panic!("one mode") };
    let line = plane(figure).series.last().expect("the line");
    assert_eq!((line.form, line.points.len()), (Form::DashedLine, 2));
    assert!((line.points[0].x - 40.0).abs() < 1e-9 && (line.points[0].y - 1.14).abs() < 1e-9);
    assert!((line.points[1].x - 120.0).abs() < 1e-9 && (line.points[1].y - 1.54).abs() < 1e-9);
    assert!(figure.caption.contains("0.94 and 0.005 for each percent (R^2 0.89)"), "{}", figure.caption);
}

#[test]
fn doubtful_groups_are_hollow_and_not_fitted() {
    let pairs = [
        ("a", "a", 1.1),
        ("a", "b", 1.2),
        ("a", "c", 1.3),
        ("a", "d", 1.4),
        ("a", "e", 1.5),
        ("a", "f", 9.0),
    ];
    let mut run = run(&UTILISATIONS, &pairs);
    run.interference.iter_mut().filter(|row| row.slowdown > Some(8.0)).for_each(|row| row.valid = false);
    let [figure] = &make(&run, &Colours::default())[..] else { panic!("one mode") };
    let line = plane(figure).series.last().expect("the line");
    assert!((line.points[1].x - 120.0).abs() < 1e-9 && (line.points[1].y - 1.5).abs() < 1e-9);
    assert_eq!(points(plane(figure)).iter().filter(|point| !point.doubt.is_empty()).count(), 2);
}

#[test]
fn what_is_not_known_is_missing_and_never_zero() {
    let [figure] = &make(&run(&[("a", 20.0)], &[("a", "a", 1.1), ("a", "b", 1.3)]), &Colours::default())[..]
    else {
        panic!("one mode")
    };
    assert_eq!(points(plane(figure)).len(), 2);
    assert!(figure.missing[0].starts_with("a + b: "), "{:?}", figure.missing);
    assert!(figure.finding.is_empty() && figure.caption.contains("There is no line"));
    assert!(make(&testing::record("20261122-epyc/colocate/two-cores"), &Colours::default()).is_empty());
}
