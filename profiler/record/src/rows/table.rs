//! Reads and writes CSV for every row type.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use schema::unfinished::{self, Unfinished};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    names::names_of,
    records::Records,
    rules::{self, Rules},
};
use crate::lines;

/// A table that cannot be read or written. Lines count from 1, including the header. The cause is part of
/// the message and no `source`, because a printed chain of errors would repeat it.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    #[error("{}: {cause}", file.display())]
    Io { file: PathBuf, cause: io::Error },
    #[error("{} cannot be written: {cause}", file.display())]
    Write { file: PathBuf, cause: io::Error },
    #[error("{}: line {line}: column '{column}': {message}", file.display())]
    Field { file: PathBuf, line: u64, column: String, message: String },
    #[error("{}: line {line}: {message}", file.display())]
    Row { file: PathBuf, line: u64, message: String },
}

impl RowError {
    /// The same error for a position `lines` lines further down.
    pub(super) fn further_down(mut self, lines: u64) -> RowError {
        if let RowError::Field { line, .. } | RowError::Row { line, .. } = &mut self {
            *line += lines;
        }
        self
    }
}

/// A type of rows.
pub trait Row: Serialize + DeserializeOwned {}

impl<T: Serialize + DeserializeOwned> Row for T {}

/// Replaces a table atomically, so that a reader finds the old or the new one.
pub fn write<T: Row>(path: &Path, rows: &[T]) -> Result<(), RowError> {
    let mut writer = Writer::create(path)?;
    writer.push(rows)?;
    writer.finish()
}

/// Writes a whole table in pieces. It moves to its place when it is finished. A table without rows has the names of its columns.
pub struct Writer<T> {
    writer: csv::Writer<File>,
    is_begun: bool,
    unfinished: Unfinished,
    row: std::marker::PhantomData<fn(&T)>,
}

impl<T: Row> Writer<T> {
    pub fn create(path: &Path) -> Result<Writer<T>, RowError> {
        let io = |cause| RowError::Write { file: path.into(), cause };
        let (file, unfinished) = unfinished::begin(path).map_err(io)?;
        let writer = csv::Writer::from_writer(file);
        Ok(Writer { writer, is_begun: false, unfinished, row: std::marker::PhantomData })
    }

    pub fn push(&mut self, rows: &[T]) -> Result<(), RowError> {
        for row in rows {
            let written = self.writer.serialize(row);
            written.map_err(|error| self.unwritten(error))?;
            self.is_begun = true;
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<(), RowError> {
        if !self.is_begun {
            let written = self.writer.write_record(names_of::<T>());
            written.map_err(|error| self.unwritten(error))?;
        }
        let path = self.unfinished.path().to_path_buf();
        let flushed = self.writer.flush().and_then(|()| self.unfinished.put());
        flushed.map_err(|cause| RowError::Write { file: path, cause })
    }

    /// The error of the CSV writer, which would hide the number of an error of the system.
    fn unwritten(&self, error: csv::Error) -> RowError {
        let number = match error.kind() {
            csv::ErrorKind::Io(cause) => cause.raw_os_error(),
            _ => None,
        };
        let cause = number.map_or_else(|| error.into(), io::Error::from_raw_os_error);
        RowError::Write { file: self.unfinished.path().into(), cause }
    }
}

/// Reads a whole table. A torn last line, which a killed writer leaves, is an error, and so is an
/// impossible number.
pub fn read<T: Row>(path: &Path) -> Result<Vec<T>, RowError> {
    parse(path, &lines::read(path)?)
}

/// Reads a whole table from the bytes of its file, as [`read`] does. A file that is no regular one can be read once.
pub fn parse<T: Row>(path: &Path, bytes: &[u8]) -> Result<Vec<T>, RowError> {
    match bytes {
        [] => Err(rules::nothing(path)),
        bytes => believe(path, bytes),
    }
}

/// Parses and checks the rows of a table of Tandem.
pub(super) fn believe<T: Row>(path: &Path, bytes: &[u8]) -> Result<Vec<T>, RowError> {
    let mut records = Records::new(path, bytes)?;
    let rules = Rules::of(records.header());
    let mut rows = Vec::new();
    while records.advance()? {
        if let Err((column, message)) = rules.check(records.record()) {
            return Err(RowError::Field { file: path.into(), line: records.line(), column, message });
        }
        rows.push(records.row().map_err(|error| records.refuse(error))?);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use schema::wire::Timing;
    use serde::Deserialize;

    use super::*;
    use crate::rows::{
        Appender, Curve, DeviceSample, ErrorKind, HostSample, Interference, Measurement, Side, Status,
        Summary, Tier, Warning, Warnings,
    };

    /// Fills every column of a row type with the result of `value`, through its JSON form.
    fn filled<T: Row>(row: &T, value: impl Fn(usize) -> Option<u32>) -> T {
        let mut json = serde_json::to_value(row).unwrap();
        for (i, (name, field)) in json.as_object_mut().unwrap().iter_mut().enumerate() {
            if field.is_null() {
                *field = match value(i) {
                    Some(number) if name == "command" => format!("sh -c \"sleep {number}; true\"").into(),
                    Some(number) if name == "vary" => format!("lr={number}").into(),
                    Some(number) if name.ends_with("_by_stage") => format!("{number};;{number}").into(),
                    number => number.into(),
                };
            }
        }
        let cells = json.as_object_mut().unwrap();
        let estimates: Vec<String> =
            cells.keys().filter_map(|name| name.strip_suffix("_ci_lo").map(str::to_owned)).collect();
        for of in estimates {
            let places = [format!("{of}_ci_lo"), of.clone(), format!("{of}_ci_hi")];
            let mut numbers: Vec<_> = places.iter().filter_map(|place| cells[place].as_u64()).collect();
            numbers.sort_unstable();
            let filled = places.iter().filter(|place| !cells[*place].is_null()).cloned().collect::<Vec<_>>();
            filled.into_iter().zip(numbers).for_each(|(place, number)| cells[&place] = number.into());
        }
        serde_json::from_value(json).unwrap()
    }

    fn measurement() -> Measurement {
        let nothing = serde_json::json!({
            "run": "r", "launch": "0001-a", "repeat": 1, "job": "a@b1@dp1", "workload": "a", "plan": "ga4",
            "device": "cpu:0", "threads": 1, "sharing": "alone", "group": "a+b", "steps_total": 3, "steps_used": 2,
            "steady": true, "timing": "host", "statistics": "local", "mfu_arithmetic": "tf32", "warnings": "steal;foreign",
            "status": "failed", "err": "hung",
            "err_detail": "said \"nothing\",\nfor 30 s",
        });
        serde_json::from_value(nothing).unwrap()
    }

    fn summary() -> Summary {
        let nothing = serde_json::json!({
            "run": "r", "job": "a", "workload": "a", "plan": "dp1", "device": "cpu:0", "threads": 1,
            "sharing": "alone", "group": null, "repeats": 3, "repeats_failed": 0, "statistics": "local", "mfu_arithmetic": "bf16",
            "warnings": "", "status": "ok",
            "err": "data", "err_detail": "x",
        });
        let mut row: Summary = serde_json::from_value(nothing).unwrap();
        row.group = Some("a+b".into());
        row
    }

    fn interference() -> Interference {
        let nothing = serde_json::json!({
            "run": "r", "job": "a", "workload": "a", "plan": "dp1", "device": "cpu:0", "sharing": "step-gate:8:2/1",
            "group": "a+b", "group_size": 2, "seat": 1, "blocks": 3, "timing": "hook-device-event", "valid": true,
            "warnings": "faster-together", "status": "failed", "err": "contaminated", "err_detail": "x",
        });
        serde_json::from_value(nothing).unwrap()
    }

    fn curve() -> Curve {
        let nothing = serde_json::json!({
            "run": "r", "job": "a", "device": "cpu:0", "sharing": "time-slice", "stressor": "stress-cache", "dial_percent": 50,
            "side": "aggressiveness", "blocks": 3, "status": "ok", "err": "data", "err_detail": "x",
        });
        serde_json::from_value(nothing).unwrap()
    }

    fn device_sample() -> DeviceSample {
        let nothing = serde_json::json!({
            "mono_ns": 5, "end_mono_ns": 6, "device": "cpu:0", "tier": "gpm", "err": "lost",
        });
        serde_json::from_value(nothing).unwrap()
    }

    fn host_sample() -> HostSample {
        let nothing = serde_json::json!({ "mono_ns": 5, "end_mono_ns": 6, "launch": "0001-a", "rank": 1, "err": "gone" });
        serde_json::from_value(nothing).unwrap()
    }

    proptest! {
        #[test]
        fn every_table_round_trips(values in prop::collection::vec(prop::option::of(1u32..1000), 80)) {
            fn check<T: Row + PartialEq + std::fmt::Debug>(rows: Vec<T>) {
                let dir = crate::folder_for_many_files();
                let path = dir.path().join("table.csv");
                write(&path, &rows).unwrap();
                assert_eq!(read::<T>(&path).unwrap(), rows);
                let appended = dir.path().join("appended.csv");
                for row in &rows {
                    Appender::open(&appended).unwrap().push(std::slice::from_ref(row)).unwrap();
                }
                let text = std::fs::read_to_string(&path).unwrap();
                assert_eq!(std::fs::read_to_string(&appended).unwrap(), text);
                write::<T>(&path, &[]).unwrap();
                assert_eq!(std::fs::read_to_string(&path).ok().as_deref(), text.split_inclusive('\n').next());
                assert_eq!(read::<T>(&path).unwrap(), []);
            }
            let value = |i: usize| values[i];
            check(vec![filled(&measurement(), value), measurement()]);
            check(vec![filled(&summary(), value), summary()]);
            check(vec![filled(&interference(), value), interference()]);
            check(vec![filled(&curve(), value), curve()]);
            check(vec![filled(&device_sample(), value), device_sample()]);
            check(vec![filled(&host_sample(), value), host_sample()]);
        }
    }

    #[test]
    fn every_word_round_trips() {
        fn check<T: std::str::FromStr<Err = String> + ToString + PartialEq + std::fmt::Debug>(all: &[T]) {
            for word in all {
                assert_eq!(&word.to_string().parse::<T>().unwrap(), word);
            }
        }
        check(Status::ALL);
        check(Side::ALL);
        check(ErrorKind::ALL);
        check(Warning::ALL);
        check(Tier::ALL);
        let some: Warnings = [Warning::Foreign, Warning::Throttled, Warning::Foreign].into_iter().collect();
        assert_eq!(some.to_string(), "throttled;foreign");
        assert_eq!(measurement().timing, Some(Timing::Host));
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Pair {
        a: u64,
        status: Status,
    }

    #[test]
    fn a_bad_field_names_file_line_and_column() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.csv");
        for (text, message) in [
            ("a,status\n1,ok\nx,ok\n", "rows.csv: line 3: column 'a': "),
            ("a,status\n1,fine\n", "'fine' is not one of: ok, unsupported, failed"),
            ("a,status\n1,ok\n2", "rows.csv: line 3: "),
            ("a\n1\n", "missing field `status`"),
            ("", "rows.csv: line 1: the file is empty, and a table begins with the names of its columns"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read::<Pair>(&path).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
