//! The tables of `profile export` hold what their data dictionaries say, in an order that never changes.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use record::rows::{self, ColumnRow, Columns, ExportRow, ExportStep, Kind, Measurement, Row, dictionary};
use serde_json::{Map, Value};

fn object<T: Row>(row: &T) -> Map<String, Value> {
    let Value::Object(cells) = serde_json::to_value(row).unwrap() else { panic!("a row is a struct") };
    cells
}

/// One word of every text column, because a number would not be read back as text.
fn word(column: &str) -> &'static str {
    match column {
        "plan" => "dp2-ga4-bf16",
        "sharing" => "step-gate:250ms:2/1",
        "timing" => "hook-device-event",
        "statistics" => "local",
        "warnings" => "steal;foreign",
        "status" => "failed",
        "err" => "contaminated",
        "program" => "all-reduce",
        "definition" => "catalog",
        "split" => "test",
        "mfu_arithmetic" => "tf32",
        "precision" => "bf16",
        "collectives" => "gloo",
        _ if column.ends_with("_by_stage") => "120;;95",
        _ => "said \"nothing\",\nfor 30 s",
    }
}

/// Puts estimates between the ends of their intervals.
fn in_order(cells: &mut Map<String, Value>) {
    let ends: Vec<String> = cells.keys().filter(|name| name.ends_with("_ci_lo")).cloned().collect();
    for lo in ends {
        let of = lo.trim_end_matches("_ci_lo");
        let places = [lo.clone(), of.to_owned(), format!("{of}_ci_hi")];
        let filled: Vec<_> = places.iter().filter(|place| !cells[*place].is_null()).collect();
        let mut numbers: Vec<Value> = filled.iter().map(|place| cells[*place].clone()).collect();
        numbers.sort_by(|a, b| a.as_f64().unwrap().total_cmp(&b.as_f64().unwrap()));
        filled.into_iter().zip(numbers).for_each(|(place, number)| cells[place] = number);
    }
}

/// A row with valid cells. Cells that may be empty are filled if `number` returns a number for them.
fn filled<T: Row + Columns + Default>(number: impl Fn(usize) -> Option<u32>) -> T {
    let mut cells = object(&T::default());
    for (i, column) in T::COLUMNS.iter().enumerate() {
        let cell = cells.get_mut(column.name).unwrap();
        *cell = match number(i) {
            None if cell.is_null() => Value::Null,
            found => match column.kind {
                Kind::Text => word(column.name).into(),
                Kind::Integer => found.unwrap_or(7).into(),
                Kind::Real => (f64::from(found.unwrap_or(7)) / 8.0).into(),
                Kind::Flag => (found.unwrap_or(7) % 2 == 0).into(),
            },
        };
    }
    in_order(&mut cells);
    serde_json::from_value(Value::Object(cells)).unwrap()
}

fn round_trips<T: Row + Columns + Default + PartialEq + std::fmt::Debug>(
    number: impl Fn(usize) -> Option<u32>,
) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    let written = vec![filled::<T>(number), T::default()];
    rows::write(&path, &written).unwrap();
    assert_eq!(rows::read::<T>(&path).unwrap(), written);
    let text = std::fs::read_to_string(&path).unwrap();
    let names: Vec<&str> = T::COLUMNS.iter().map(|column| column.name).collect();
    assert_eq!(text.lines().next().unwrap().split(',').collect::<Vec<_>>(), names);
}

proptest! {
    #[test]
    fn every_row_round_trips(numbers in prop::collection::vec(prop::option::of(1u32..1000), 256)) {
        round_trips::<ExportRow>(|i| numbers[i]);
        round_trips::<ExportStep>(|i| numbers[i]);
    }
}

#[test]
fn a_row_of_a_measurement_has_all_of_its_columns_first() {
    let measurement =
        Measurement { run: "r".into(), steps_used: 3, step_ns_p99: Some(5), ..Measurement::default() };
    let (of, own) = (object(&ExportRow::of(&measurement)), object(&measurement));
    for (name, cell) in &own {
        assert_eq!(of.get(name), Some(cell), "{name} of measurements.csv is lost");
    }
    let first: Vec<&str> = ExportRow::COLUMNS.iter().take(own.len()).map(|column| column.name).collect();
    assert!(first.iter().all(|name| own.contains_key(*name)), "{first:?}");
}

/// A reader of tables of two versions finds each column under its old name.
#[test]
fn the_golden_dictionaries_are_what_the_tables_hold() {
    for (golden, found) in [
        ("export.columns.csv", dictionary::<ExportRow>()),
        ("export-steps.columns.csv", dictionary::<ExportStep>()),
    ] {
        let golden = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/golden")).join(golden);
        assert_eq!(rows::read::<ColumnRow>(&golden).unwrap(), found, "{}", golden.display());
        let folder = tempfile::tempdir().unwrap();
        let path: PathBuf = folder.path().join("columns.csv");
        rows::write(&path, &found).unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), std::fs::read_to_string(golden).unwrap());
    }
}

#[test]
fn the_unit_of_a_column_stands_in_its_name() {
    let units = [
        ("flops_per_s", "FLOP/s"),
        ("bytes_per_s", "bytes/s"),
        ("samples_per_s", "1/s"),
        ("flops", "FLOP"),
        ("bytes", "bytes"),
        ("bits", "bits"),
        ("mhz", "MHz"),
        ("mj", "mJ"),
        ("ns", "ns"),
        ("percent", "percent"),
    ];
    for column in ExportRow::COLUMNS.iter().chain(ExportStep::COLUMNS) {
        let name = format!("_{}_", column.name);
        let named = units.iter().find(|(part, _)| name.contains(&format!("_{part}_")));
        assert_eq!(named.map_or("", |(_, unit)| unit), column.unit, "{}", column.name);
        assert!(column.meaning.trim().ends_with(['.', ')']), "{}: {}", column.name, column.meaning);
        assert!(
            column.unit.is_empty()
                || matches!(column.kind, Kind::Integer | Kind::Real)
                || column.name.ends_with("_by_stage"),
            "{}",
            column.name
        );
    }
}
