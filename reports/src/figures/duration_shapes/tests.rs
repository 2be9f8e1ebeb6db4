use super::*;

fn shape(feature: &str, level: &str, jobs: u32, factor: f64) -> DurationShape {
    DurationShape {
        feature: feature.into(),
        level: level.into(),
        other_feature: None,
        other_level: None,
        jobs,
        factor,
    }
}

fn made(rows: Vec<DurationShape>) -> Vec<Figure> {
    make(&ShapeTable { name: "shapes.csv".into(), rows }, &Colours::default())
}

#[test]
fn users_are_dots_the_slowest_first_and_days_are_in_order() {
    let mut rows = vec![shape("user", "ann", 50, 0.5), shape("user", "bob", 9, 4.0)];
    rows.extend(["3", "0", "6"].map(|day| shape("day", day, 7, 1.5)));
    let [users, days] = &made(rows)[..] else { panic!("two features") };
    let Chart::Rows(dots) = &users.chart else { panic!("rows") };
    let drawn: Vec<_> =
        dots.rows.iter().map(|row| (row.name.as_str(), row.marks[0].quantity, row.note.as_str())).collect();
    let dot = |value| MarkValue::Dot { value, ci: None };
    assert_eq!(drawn, [("bob", dot(4.0), "9 jobs"), ("ann", dot(0.5), "50 jobs")]);
    assert_eq!(
        users.finding,
        "the user changes durations by factors from 0.500 for ann (50 jobs) to 4.000 for bob (9 jobs)"
    );
    assert_eq!((users.part.as_str(), users.title.as_str()), ("user", "Durations by user"));
    let Chart::Rows(dots) = &days.chart else { panic!("rows") };
    let names: Vec<&str> = dots.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["Monday", "Thursday", "Sunday"]);
    assert_eq!(days.finding, "", "all factors are alike");
}

#[test]
fn hours_and_last_durations_are_curves_over_their_quantity() {
    let rows = vec![
        shape("hour", "23", 2, 0.9),
        shape("hour", "", 4, 1.1),
        shape("hour", "8", 3, 1.2),
        shape("last_duration", "729s", 5, 3.0),
        shape("last_duration", "1s", 6, 0.1),
    ];
    let [hours, last] = &made(rows)[..] else { panic!("two features") };
    let points = |figure: &Figure| {
        let Chart::Planes(planes) = &figure.chart else { panic!("a plane") };
        planes[0].series[0].points.iter().map(|point| (point.x, point.y)).collect::<Vec<_>>()
    };
    assert_eq!(points(hours), [(8.0, 1.2), (23.0, 0.9)]);
    assert_eq!(hours.missing, ["4 jobs without a known hour"]);
    assert_eq!(points(last), [(1e9, 0.1), (729e9, 3.0)]);
}

#[test]
fn a_pair_is_a_matrix_of_the_levels_with_the_most_jobs() {
    let of_pair = |level: &str, other: &str, jobs, factor| DurationShape {
        other_feature: Some("devices".into()),
        other_level: Some(other.into()),
        ..shape("user", level, jobs, factor)
    };
    let mut rows = vec![
        of_pair("ann", "16", 9, 2.0),
        of_pair("bob", "8", 30, 0.25),
        of_pair("ann", "8", 5, 0.5),
        of_pair("bob", "1", 2, 1.5),
    ];
    rows.extend((0..20).map(|number| of_pair(&format!("user-{number}"), "8", 2, 1.0)));
    let [figure] = &made(rows)[..] else { panic!("one pair") };
    let Chart::Heat(heat) = &figure.chart else { panic!("a matrix") };
    assert_eq!((heat.row_column.as_str(), heat.column_column.as_str()), ("user", "devices"));
    assert_eq!((&heat.rows[..2], heat.rows.len()), (&["bob".to_owned(), "ann".to_owned()][..], MOST_OF_PAIR));
    assert_eq!(heat.columns, ["1", "8", "16"]);
    let values = |row: usize| heat.cells[row].iter().map(|cell| cell.value).collect::<Vec<_>>();
    assert_eq!(values(0), [Some(1.5), Some(0.25), None]);
    assert_eq!(values(1), [None, Some(0.5), Some(2.0)]);
    assert_eq!(heat.cells[0][2].doubt, "fewer than two jobs");
    assert_eq!(figure.missing, ["10 of 24 levels of this pair, with fewer jobs"]);
}

#[test]
fn more_levels_than_there_is_room_for_are_counted() {
    let rows = (0..30).map(|number| shape("user", &format!("user-{number}"), 100 - number, 1.0)).collect();
    let [figure] = &made(rows)[..] else { panic!("one feature") };
    let Chart::Rows(dots) = &figure.chart else { panic!("rows") };
    assert_eq!(dots.rows.len(), MOST_LEVELS);
    assert!(dots.rows.iter().all(|row| row.name != "user-29"));
    assert_eq!(figure.missing, ["6 of 30 levels of this user, with fewer jobs"]);
}
