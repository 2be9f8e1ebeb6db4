//! The table of a duration model, drawn.

use std::fs;

use formats::rows::DurationShape;
use front_door::Door;
use record::rows::{self, from_csv};

fn shapes() -> Vec<DurationShape> {
    let shape = |feature: &str, level: &str, other: Option<(&str, &str)>, factor| DurationShape {
        feature: feature.into(),
        level: level.into(),
        other_feature: other.map(|(feature, _)| feature.into()),
        other_level: other.map(|(_, level)| level.into()),
        jobs: 12,
        factor,
    };
    vec![
        shape("user", "<b>ann", None, 0.25),
        shape("user", "bob", None, 3.5),
        shape("hour", "4", None, 0.75),
        shape("hour", "16", None, 1.25),
        shape("user", "bob", Some(("hour", "16")), 2.5),
    ]
}

#[test]
fn a_duration_model_has_a_page_with_a_figure_for_each_term() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    rows::write(&door.path("shapes.csv"), &shapes()).expect("the folder is writable");
    let said = door.exits(0, "shapes.csv");
    assert_eq!((said.out.trim(), &*said.err), ("report/index.html", ""));
    let page = fs::read_to_string(door.path("report/index.html")).expect("a page");
    assert!(page.contains("<title>shapes.csv</title>") && page.contains("Durations of jobs"), "{page}");
    assert!(page.contains("&#60;b&#62;ann") && !page.contains("<b>ann"), "names are text");
    assert!(!page.contains("The runs"), "there are none");
    for figure in ["user", "hour", "user-hour"] {
        for ending in ["svg", "png", "csv"] {
            let file = format!("report/figures/duration-shapes-{figure}.{ending}");
            assert!(door.path(&file).exists(), "{file}");
        }
    }
    let svg = fs::read_to_string(door.path("report/figures/duration-shapes-user.svg")).expect("a picture");
    assert!(svg.contains("data-value=\"0.25\"") && svg.contains("data-value=\"3.5\""), "{svg}");
}

#[test]
fn the_numbers_of_shapes_are_printed_and_other_files_are_refused() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    rows::write(&door.path("shapes.csv"), &shapes()).expect("the folder is writable");
    let said = door.exits(0, "table duration-shapes shapes.csv --csv");
    let first = said.out.split("\n\n").next().expect("a table");
    let (columns, cells) = from_csv(first.as_bytes()).expect("stdout is CSV");
    assert_eq!(columns, ["user", "factor", "note"]);
    assert_eq!(cells[0], ["bob", "3.5", "12 jobs"]);
    door.write("other.csv", "a,b\n1,2\n");
    let said = door.exits(2, "other.csv");
    assert!(
        said.err.contains("other.csv is no run, and no folder of runs, and no table of durations"),
        "{}",
        said.err
    );
    assert!(said.err.contains("missing field `feature`"), "{}", said.err);
}
