//! `docs/columns.md` against the rows that are read and written: columns, their order, their units, and their sentences.

use std::{collections::BTreeMap, fs};

use formats::{
    rows::{
        BestPlan, CurvePoint, Draw, DurationShape, MachineSpeed, Outcome, Part, Prediction, Skip, Suggestion,
    },
    trace::TraceRow,
};
use record::rows::{
    self, Curve, DeviceSample, ExportRow, HostSample, Interference, Measurement, OperatorTime, Row, Summary,
};

use crate::documents::root;

/// The section with columns whose meaning does not depend on the file.
const COMMON: &str = "Columns of several files";

/// A row of the page: columns of the same meaning, such as those of an interval.
struct Described {
    columns: Vec<String>,
    unit: String,
    meaning: String,
}

/// The tables of columns, by the title of their section.
fn sections() -> BTreeMap<String, Vec<Described>> {
    let text = fs::read_to_string(root().join("docs/columns.md")).expect("the page is there");
    let mut sections: BTreeMap<String, Vec<Described>> = BTreeMap::new();
    let mut title = String::new();
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            title = heading.to_owned();
        }
        if line.starts_with("| `") {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [columns, unit, meaning] = cells[..] else { panic!("a row has three cells: {line}") };
            let columns = columns.split(", ").map(|name| name.trim_matches('`').to_owned()).collect();
            let row = Described { columns, unit: unit.to_owned(), meaning: meaning.to_owned() };
            sections.entry(title.clone()).or_default().push(row);
        }
    }
    sections
}

/// The first line of a file without rows.
fn columns_of<T: Row>() -> Vec<String> {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let path = folder.path().join("table.csv");
    rows::write::<T>(&path, &[]).expect("the folder is writable");
    let text = fs::read_to_string(&path).expect("it was written");
    text.trim_end().split(',').map(str::to_owned).collect()
}

fn files() -> [(&'static str, Vec<String>); 17] {
    [
        ("summary.csv", columns_of::<Summary>()),
        ("measurements.csv", columns_of::<Measurement>()),
        ("operators.csv", columns_of::<OperatorTime>()),
        ("interference.csv", columns_of::<Interference>()),
        ("curves.csv", columns_of::<Curve>()),
        ("devices.csv", columns_of::<DeviceSample>()),
        ("host.csv", columns_of::<HostSample>()),
        ("outcomes.csv", columns_of::<Outcome>()),
        ("predictions.csv", columns_of::<Prediction>()),
        ("draws.csv", columns_of::<Draw>()),
        ("speed.csv", columns_of::<MachineSpeed>()),
        ("skips.csv", columns_of::<Skip>()),
        ("parts.csv", columns_of::<Part>()),
        ("sched plan --out", columns_of::<BestPlan>()),
        ("sched fit --suggest", columns_of::<Suggestion>()),
        ("sched fit --curve", columns_of::<CurvePoint>()),
        ("sched fit --duration", columns_of::<DurationShape>()),
    ]
}

#[test]
fn the_page_has_the_columns_of_each_file_in_their_order() {
    let mut sections = sections();
    assert!(sections.remove(COMMON).is_some(), "docs/columns.md has no section '{COMMON}'");
    for (file, columns) in files() {
        let rows = sections.remove(file).unwrap_or_else(|| panic!("docs/columns.md has no section '{file}'"));
        let described: Vec<String> = rows.into_iter().flat_map(|row| row.columns).collect();
        assert_eq!(described, columns, "docs/columns.md, section '{file}'");
    }
    assert_eq!(sections.keys().collect::<Vec<_>>(), <[&String; 0]>::default(), "these sections have no file");
}

#[test]
fn each_unit_is_that_of_the_name() {
    for (section, rows) in sections() {
        for Described { columns, unit, .. } in rows {
            let mut units: Vec<&str> = columns.iter().map(|name| unit_of(name)).collect();
            units.dedup();
            let expected = if let [one] = units[..] { one } else { "" };
            assert_eq!(unit, expected, "docs/columns.md, section '{section}': {columns:?}");
        }
    }
}

/// The unit that the name of a column has as one of its words; empty for names, counts and ratios.
fn unit_of(column: &str) -> &'static str {
    if column.contains("_per_s") && !column.starts_with("flops") {
        return "1/s";
    }
    let unit = |word| {
        Some(match word {
            "ns" => "ns",
            "s" => "s",
            "bytes" => "bytes",
            "percent" => "percent",
            "mj" => "mJ",
            "mw" => "mW",
            "mhz" => "MHz",
            "c" => "°C",
            "flops" => "FLOP",
            _ => return None,
        })
    };
    column.split('_').find_map(unit).unwrap_or_default()
}

#[test]
fn a_row_that_refers_to_another_section_has_its_columns_there() {
    let sections = sections();
    let own = |rows: &[Described], column: &String| {
        rows.iter().any(|row| row.columns.contains(column) && !row.meaning.starts_with("As in "))
    };
    for (section, rows) in &sections {
        for Described { columns, meaning, .. } in rows {
            assert!(!meaning.is_empty(), "docs/columns.md, section '{section}': {columns:?}");
            let Some(link) = meaning.strip_prefix("As in [") else { continue };
            let (title, rest) = link.split_once("](#").expect("a link to a section of the page");
            let (anchor, _) = rest.split_once(')').expect("the end of the link");
            let (named, there) = sections
                .iter()
                .find(|(named, _)| named.eq_ignore_ascii_case(title))
                .unwrap_or_else(|| panic!("no section '{title}'"));
            assert_eq!(anchor, anchor_of(named));
            for column in columns {
                assert!(own(there, column), "'{section}' refers to '{named}' for '{column}'");
            }
        }
    }
}

/// The name by which a link finds a heading.
fn anchor_of(title: &str) -> String {
    let letter = |letter: char| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ => letter.is_alphanumeric().then(|| letter.to_ascii_lowercase()),
    };
    title.chars().filter_map(letter).collect()
}

/// The exported table has the columns of `measurements.csv`, and a sentence for each. It may add when its cell is empty.
#[test]
fn sentences_of_measurements_are_those_of_the_exported_table() {
    let sections = sections();
    let rows = || sections[COMMON].iter().chain(&sections["measurements.csv"]);
    let dictionary = rows::dictionary::<ExportRow>();
    for column in columns_of::<Measurement>() {
        let exported = dictionary.iter().find(|row| row.name == column).expect("it is exported");
        let described = rows()
            .find(|row| row.columns == [column.as_str()])
            .unwrap_or_else(|| panic!("'{column}' has no row of its own"));
        let sentence = described.meaning.replace('`', "");
        let of_export = exported.meaning.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "");
        let is_same = of_export.starts_with(sentence.trim_end_matches('.'));
        assert!(is_same, "'{column}' is described as\n{sentence}\nand exported as\n{of_export}");
        assert_eq!(described.unit, exported.unit, "{column}");
    }
}

#[test]
fn the_columns_of_traces_are_in_the_page_of_the_scheduler() {
    let text = fs::read_to_string(root().join("scheduler/README.md")).expect("the page is there");
    let named: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next()).collect();
    for column in columns_of::<TraceRow>() {
        let is_there = named.iter().any(|cell| cell.split(", ").any(|name| name.trim_matches('`') == column));
        assert!(is_there, "scheduler/README.md lacks the column '{column}'");
    }
}
