//! Tables that cannot be true are refused by file, line and column, and all that was published is read.

use std::{
    fs,
    path::{Path, PathBuf},
};

use record::{
    calibration::Calibration,
    rows::{self, Curve, Interference, Measurement, Row, Summary},
};

fn record() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reports/record")
}

/// The first row of a published table with another text in one column.
fn with(table: &str, changes: &[(&str, &str)]) -> String {
    let text =
        fs::read_to_string(record().join("20261122-epyc/testbed-20/tables/pairs").join(table)).unwrap();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let row =
        reader.records().map(Result::unwrap).find(|row| !row.iter().any(|cell| cell == "failed")).unwrap();
    let place = |column: &str| header.iter().position(|name| name == column).expect(column);
    let mut cells: Vec<String> = row.iter().map(str::to_owned).collect();
    for (column, cell) in changes {
        cells[place(column)] = (*cell).to_owned();
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&header).unwrap();
    writer.write_record(&cells).unwrap();
    String::from_utf8(writer.into_inner().unwrap()).unwrap()
}

fn refusal<T: Row>(name: &str, text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    let error = rows::read::<T>(&path).err().expect("it is refused").to_string();
    error.strip_prefix(&format!("{}/", folder.path().display())).expect("it names the file").to_owned()
}

#[test]
fn a_summary_that_cannot_be_is_refused() {
    for (changes, message) in [
        (vec![("samples_per_s", "inf")], "column 'samples_per_s': inf is no rate"),
        (vec![("samples_per_s", "-3.5")], "column 'samples_per_s': -3.5 is no rate"),
        (vec![("samples_per_s", "0")], "column 'samples_per_s': 0 is no rate"),
        (vec![("samples_per_s", "NaN")], "column 'samples_per_s': NaN is no rate"),
        (vec![("step_ns_median", "0")], "column 'step_ns_median': 0 is no time of a step"),
        (
            vec![("step_ns_median", "0x10")],
            "column 'step_ns_median': 0x10 is hexadecimal; write a decimal number",
        ),
        (
            vec![("samples_per_s", "18446744073709551616")],
            "column 'samples_per_s': 18446744073709551616 is more than",
        ),
        (
            vec![("startup_ns", "9223372036854775807")],
            "column 'startup_ns': 9223372036854775807 is longer than 146 years",
        ),
        (vec![("step_ns_p90", "9e18")], "column 'step_ns_p90': 9e18 is longer than 146 years"),
        (
            vec![("peak_memory_bytes", "18446744073709551615")],
            "column 'peak_memory_bytes': 18446744073709551615 is more",
        ),
        (
            vec![("device_util_percent_mean", "1e9")],
            "column 'device_util_percent_mean': 1e9 is more than any machine has",
        ),
        (vec![("half_width_percent", "-1")], "column 'half_width_percent': -1 is below 0"),
        (
            vec![("half_width_percent", "18446744073709551616")],
            "column 'half_width_percent': 18446744073709551616 is wider than the widest interval of a table, 1000000 %",
        ),
        (vec![("half_width_percent", "inf")], "column 'half_width_percent': inf is not finite"),
        (
            vec![("step_ns_median", "5"), ("step_ns_median_ci_lo", "7"), ("step_ns_median_ci_hi", "4")],
            "column 'step_ns_median_ci_lo': 7 is above step_ns_median_ci_hi, 4",
        ),
        (
            vec![("step_ns_median", "9"), ("step_ns_median_ci_lo", "4"), ("step_ns_median_ci_hi", "7")],
            "column 'step_ns_median': 9 lies outside its own interval, 4 to 7",
        ),
        (
            vec![("step_ns_median_ci_lo", "0"), ("step_ns_median_ci_hi", "9223372036854775807")],
            "column 'step_ns_median_ci_hi': 9223372036854775807 is longer than 146 years",
        ),
        (vec![("repeats", "0")], "column 'repeats': is 0, and step_ns_median has a number"),
    ] {
        let error = refusal::<Summary>("summary.csv", &with("summary.csv", &changes));
        assert!(error.starts_with(&format!("summary.csv: line 2: {message}")), "{changes:?}: {error}");
    }
    // A message quotes the beginning of a long cell.
    let long = "9".repeat(10_000);
    let error = refusal::<Summary>("summary.csv", &with("summary.csv", &[("samples_per_s", &long)]));
    assert!(error.contains("9.. is no rate") && error.len() < 300, "{error}");
    // Names may be any text, and the interval of two repeats may be wide.
    for changes in [
        vec![("job", "0x10"), ("run", "inf")],
        vec![("step_ns_median_ci_lo", "0"), ("step_ns_median_ci_hi", "4611686018427387904")],
        vec![("samples_per_s", "")],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("summary.csv");
        fs::write(&path, with("summary.csv", &changes)).unwrap();
        assert_eq!(rows::read::<Summary>(&path).unwrap().len(), 1, "{changes:?}");
    }
}

#[test]
fn interference_that_cannot_be_is_refused() {
    for (changes, message) in [
        (vec![("slowdown", "1e-300")], "column 'slowdown': 1e-300 is no ratio of two speeds"),
        (vec![("slowdown", "-1")], "column 'slowdown': -1 is no ratio"),
        (vec![("norm_throughput", "inf")], "column 'norm_throughput': inf is no ratio"),
        (vec![("slowdown_ci_lo", "3"), ("slowdown_ci_hi", "2")], "column 'slowdown_ci_lo': 3 is above"),
        (
            vec![("slowdown", "1.5"), ("slowdown_ci_lo", "2"), ("slowdown_ci_hi", "3")],
            "column 'slowdown': 1.5 lies",
        ),
        (
            vec![("slowdown_ci_hi", "18446744073709551615")],
            "column 'slowdown_ci_hi': 18446744073709551615 is more than a million times as long",
        ),
        (
            vec![("slowdown_p99_ci_hi", "1e7")],
            "column 'slowdown_p99_ci_hi': 1e7 is more than a million times as long",
        ),
        (vec![("slowdown_ci_lo", "-1")], "column 'slowdown_ci_lo': -1 is below 0"),
        (vec![("blocks", "0")], "column 'blocks': is 0, and slowdown has a number"),
    ] {
        let error = refusal::<Interference>("interference.csv", &with("interference.csv", &changes));
        assert!(error.starts_with(&format!("interference.csv: line 2: {message}")), "{changes:?}: {error}");
    }
    let error = refusal::<Interference>("interference.csv", "");
    assert!(error.starts_with("interference.csv: line 1: the file is empty"), "{error}");
    let error = refusal::<Curve>("curves.csv", "");
    assert!(error.starts_with("curves.csv: line 1: the file is empty"), "{error}");
}

/// Every published file must still be accepted.
#[test]
fn the_record_is_read() {
    let (mut folders, mut read) = (vec![record()], 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let error = match name.as_str() {
                _ if path.is_dir() => {
                    folders.push(path);
                    continue;
                }
                "measurements.csv" => rows::read::<Measurement>(&path).err(),
                "summary.csv" => rows::read::<Summary>(&path).err(),
                "interference.csv" => rows::read::<Interference>(&path).err(),
                "curves.csv" => rows::read::<Curve>(&path).err(),
                "machine.toml" => {
                    Calibration::read(&path).unwrap();
                    None
                }
                _ => continue,
            };
            assert!(error.is_none(), "{}", error.unwrap());
            read += 1;
        }
    }
    assert!(read > 400, "{read} files were found");
}
