//! Tables of foreign formats: where their columns are, what their cells hold, and which of their rows are left out.

use std::{collections::BTreeMap, path::Path, str::FromStr};

use csv::{ByteRecord, StringRecord};
use record::rows::{RowError, has_comma, line_of, remedy_for_comma, shown, whole_number};

use super::Source;
use crate::trace::LONGEST_S;

/// Separators of cells. The first of several that fit a header is meant.
const SEPARATORS: [u8; 4] = *b",;\t|";

/// Numbers from here on are Unix time: no trace is as long.
const UNIX_TIMES_S: f64 = 1e9;

/// A table of a foreign format.
pub(super) struct Table<'a> {
    pub(super) file: &'a Path,
    text: &'a [u8],
    reader: csv::Reader<&'a [u8]>,
    /// The names of the columns, in the order of the file.
    columns: Vec<String>,
    has_header: bool,
}

/// A row of a table.
pub(super) struct Cells<'a> {
    columns: &'a [String],
    record: StringRecord,
    /// Counted from 1, as an editor counts.
    pub(super) line: u64,
}

/// Why a row is left out, or refused if it has to be valid.
#[derive(Clone, Debug)]
pub(super) struct Odd {
    /// Empty if the reason is about the whole line.
    pub(super) column: String,
    /// The reason, without values: what is counted.
    reason: String,
    /// The reason with the value.
    message: String,
    /// Whether the row is valid, and only of no use in a trace of devices.
    is_valid: bool,
}

/// The rows that are left out of a table or a trace.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// Whether invalid rows are refused.
    pub(super) is_strict: bool,
    /// Their number for each reason.
    pub(super) counts: BTreeMap<String, usize>,
}

impl Odd {
    /// A cell that is no value of its column. `fault` follows the name of the column or the cell, as in `is no number`.
    pub(super) fn cell(column: &str, fault: &str, cell: &str) -> Odd {
        let message = if cell.is_empty() { fault.into() } else { format!("'{}' {fault}", shown(cell)) };
        Odd { column: column.into(), reason: format!("'{column}' {fault}"), message, is_valid: false }
    }

    /// A job that is left out for a reason that its cells have together.
    pub(super) fn job(column: &str, reason: &str) -> Odd {
        Odd { column: column.into(), reason: reason.into(), message: reason.into(), is_valid: false }
    }

    /// A job that is valid, and of no use in a trace of devices.
    pub(super) fn unsuitable(column: &str, reason: &str) -> Odd {
        Odd { is_valid: true, ..Odd::job(column, reason) }
    }

    pub(super) fn with_message(self, message: String) -> Odd {
        Odd { message, ..self }
    }
}

impl LeftOut {
    /// Counts a row that is left out.
    ///
    /// # Errors
    /// The row is invalid, and invalid rows are refused.
    pub(super) fn add(&mut self, file: &Path, line: u64, odd: Odd) -> Result<(), RowError> {
        if self.is_strict && !odd.is_valid {
            return Err(refusal(file, line, odd));
        }
        *self.counts.entry(odd.reason).or_default() += 1;
        Ok(())
    }
}

fn refusal(file: &Path, line: u64, Odd { column, message, .. }: Odd) -> RowError {
    let file = file.into();
    match column.is_empty() {
        true => RowError::Row { file, line, message },
        false => RowError::Field { file, line, column, message },
    }
}

impl<'a> Table<'a> {
    /// A table with the names of its columns in its first line, which is split at the separator that gives the most of them.
    ///
    /// # Errors
    /// One of these columns is missing.
    pub(super) fn new(Source { file, text }: Source<'a>, needed: &[&str]) -> Result<Table<'a>, RowError> {
        let header = |separator: u8| {
            let mut reader = reader(text, separator);
            let mut record = ByteRecord::new();
            let names = reader.read_byte_record(&mut record).is_ok_and(|is_record| is_record);
            let names = if names { &record } else { &ByteRecord::new() };
            let names: Vec<String> =
                names.iter().map(|name| String::from_utf8_lossy(name).trim().to_owned()).collect();
            (reader, names)
        };
        let missing = |names: &[String]| {
            needed.iter().find(|needed| !names.iter().any(|name| name == *needed)).copied()
        };
        let present = |names: &[String]| {
            needed.iter().filter(|needed| names.iter().any(|name| name == *needed)).count()
        };
        let mut headers = SEPARATORS.map(header);
        // The sort is stable.
        headers.sort_by_key(|(_, names)| std::cmp::Reverse(present(names)));
        let [(reader, columns), ..] = headers;
        if let Some(column) = missing(&columns) {
            let message = format!(
                "there is no column '{column}' in the first line, which has to name {}; choose the format of the file",
                needed.join(",")
            );
            return Err(RowError::Row { file: file.into(), line: 1, message });
        }
        Ok(Table { file, text, reader, columns, has_header: true })
    }

    /// A table without the names of its columns. A line that names them is skipped.
    pub(super) fn without_header(
        Source { file, text }: Source<'a>,
        separators: &[u8],
        columns: &[&str],
    ) -> Table<'a> {
        let first_line = text.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty());
        let separated = |separator: &&u8| {
            first_line.unwrap_or_default().iter().filter(|byte| byte == separator).count() + 1
                == columns.len()
        };
        let separator = separators.iter().find(separated).unwrap_or(&separators[0]);
        Table {
            file,
            text,
            reader: reader(text, *separator),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            has_header: false,
        }
    }

    /// Calls a function with each row, and counts those for which it gives a reason. Tables of millions of rows are not kept.
    ///
    /// # Errors
    /// A row is refused, or the first row has another number of cells than a table without header has columns.
    pub(super) fn for_each(
        &mut self,
        left_out: &mut LeftOut,
        mut row: impl FnMut(&Cells<'_>) -> Result<(), Odd>,
    ) -> Result<(), RowError> {
        let mut record = ByteRecord::new();
        let mut is_first = true;
        loop {
            let read = self.reader.read_byte_record(&mut record);
            if !read.map_err(|error| RowError::Row {
                file: self.file.into(),
                line: 1,
                message: error.to_string(),
            })? {
                return Ok(());
            }
            let line = record.position().map_or(1, |position| line_of(self.text, position));
            let names_columns = || record.iter().eq(self.columns.iter().map(String::as_bytes));
            if !self.has_header && names_columns() {
                continue;
            }
            let cells = record.len();
            let is_wrong_table =
                std::mem::take(&mut is_first) && !self.has_header && cells != self.columns.len();
            if is_wrong_table {
                let message = format!(
                    "has {cells} columns, and {} are expected: {}; give the files of the format, in the order of `sched trace \
                     import --help`",
                    self.columns.len(),
                    self.columns.join(",")
                );
                return Err(RowError::Row { file: self.file.into(), line, message });
            }
            let result = if cells == self.columns.len() {
                let text = record.iter().map(|cell| String::from_utf8_lossy(cell.trim_ascii()));
                row(&Cells { columns: &self.columns, record: text.collect(), line })
            } else {
                let reason = Odd::job("", "the line has another number of cells than the table has columns");
                let message = format!("has {cells} cells, and the table has {} columns", self.columns.len());
                Err(reason.with_message(message))
            };
            if let Err(odd) = result {
                left_out.add(self.file, line, odd)?;
            }
        }
    }
}

fn reader(text: &[u8], separator: u8) -> csv::Reader<&[u8]> {
    // Slurm separates cells by bars, and quotes none.
    csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(separator)
        .quoting(separator != b'|')
        .from_reader(text)
}

impl Cells<'_> {
    /// The cell of a column; empty if the table does not have the column, or the cell says that there is no value.
    pub(super) fn get(&self, column: &str) -> &str {
        let number = self.columns.iter().position(|name| name == column);
        let cell = number.and_then(|number| self.record.get(number)).unwrap_or_default();
        match cell {
            // As pandas, spreadsheets and Slurm write that there is no value.
            "nan" | "NaN" | "None" | "NULL" | "N/A" | "Unknown" => "",
            cell => cell,
        }
    }

    /// A cell that is not empty.
    pub(super) fn text(&self, column: &str) -> Result<&str, Odd> {
        match self.get(column) {
            "" => Err(Odd::cell(column, "is empty", "")),
            cell => Ok(cell),
        }
    }

    /// A whole number, which may be written as `2.0`.
    pub(super) fn whole<T: FromStr<Err = std::num::ParseIntError>>(&self, column: &str) -> Result<T, Odd> {
        let cell = self.text(column)?;
        let fault = |error: std::num::ParseIntError| match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => {
                "is too large".into()
            }
            _ if cell.parse::<f64>().is_ok_and(|number| number < 0.0) => "is below 0".into(),
            _ => format!("is no whole number{}", remedy_for_comma(cell)),
        };
        whole_number(cell).unwrap_or(cell).parse().map_err(|error| Odd::cell(column, &fault(error), cell))
    }

    /// A finite number of 0 or more.
    pub(super) fn number(&self, column: &str) -> Result<f64, Odd> {
        let cell = self.text(column)?;
        let fault = match cell.parse::<f64>() {
            Ok(number) if !number.is_finite() => "is not finite".into(),
            Ok(number) if number < 0.0 => "is below 0".into(),
            Ok(number) => return Ok(number),
            Err(_) => format!("is no number{}", remedy_for_comma(cell)),
        };
        Err(Odd::cell(column, &fault, cell))
    }

    /// A time in seconds, from 0 to a hundred years.
    pub(super) fn seconds(&self, column: &str) -> Result<f64, Odd> {
        bounded(column, self.get(column), self.number(column)?)
    }

    /// A length of time in seconds, above 0.
    pub(super) fn length(&self, column: &str) -> Result<f64, Odd> {
        above_zero(column, self.seconds(column)?)
    }

    /// A length of time in seconds, above 0, that follows from a cell.
    pub(super) fn length_of(&self, column: &str, seconds: f64) -> Result<f64, Odd> {
        above_zero(column, bounded(column, self.get(column), seconds)?)
    }

    /// A length of time as [`Self::length`], or as `[DAYS-]HOURS:MINUTES:SECONDS`.
    pub(super) fn elapsed(&self, column: &str) -> Result<f64, Odd> {
        let cell = self.text(column)?;
        if !cell.contains(':') {
            return self.length(column);
        }
        let length =
            clock(cell).ok_or_else(|| Odd::cell(column, "is no length of time such as 1-02:30:00", cell))?;
        above_zero(column, bounded(column, cell, length)?)
    }

    /// A time from the start of the trace in seconds, or a date. Of a date, and of Unix time since 2001, the Unix time comes second.
    pub(super) fn arrival(&self, column: &str) -> Result<(f64, Option<f64>), Odd> {
        let cell = self.text(column)?;
        let time = match cell.parse::<f64>() {
            Ok(_) => self.seconds(column)?,
            Err(_) if has_comma(cell) => self.seconds(column)?,
            Err(_) => self.date(column)?,
        };
        let is_date = time >= UNIX_TIMES_S || cell.parse::<f64>().is_err();
        Ok((time, is_date.then_some(time)))
    }

    /// A number of GPUs, also as resources of Slurm: `cpu=8,gres/gpu=2`.
    pub(super) fn gpus(&self, column: &str) -> Result<u32, Odd> {
        let cell = self.text(column)?;
        if !cell.contains('=') {
            return self.whole(column);
        }
        let resources = || cell.split(',').filter_map(|resource| resource.split_once('='));
        let all = resources().find(|(name, _)| *name == "gres/gpu").map(|(_, number)| number.parse());
        // A number for each type is there beside the number of all, or alone.
        let of_types = || {
            resources()
                .filter(|(name, _)| name.starts_with("gres/gpu:"))
                .map(|(_, number)| number.parse::<u32>())
                .sum()
        };
        all.unwrap_or_else(of_types).map_err(|_| Odd::cell(column, "is no list of resources", cell))
    }

    /// The Unix time of a date such as `2017-10-09 07:01:55`, which may have an offset such as `+08:00`. Without one, its time zone
    /// is taken to be UTC.
    pub(super) fn date(&self, column: &str) -> Result<f64, Odd> {
        let cell = self.text(column)?;
        let time = unix_time(cell)
            .ok_or_else(|| Odd::cell(column, "is no date such as 2017-10-09 07:01:55", cell))?;
        bounded(column, cell, time)
    }

    /// The time from a start to an end.
    pub(super) fn between(&self, start: (&str, f64), end: (&str, f64)) -> Result<f64, Odd> {
        if end.1 < start.1 {
            let odd = Odd::cell(end.0, &format!("is before '{}'", start.0), self.get(end.0));
            return Err(odd);
        }
        above_zero(end.0, end.1 - start.1)
    }
}

fn bounded(column: &str, cell: &str, seconds: f64) -> Result<f64, Odd> {
    match seconds <= LONGEST_S {
        true => Ok(seconds),
        false => Err(Odd::cell(column, "is more than a hundred years in seconds", cell)),
    }
}

fn above_zero(column: &str, seconds: f64) -> Result<f64, Odd> {
    match seconds > 0.0 {
        true => Ok(seconds),
        false => Err(Odd::job(column, "a duration of 0")),
    }
}

/// Seconds of a date. Negative before 1970.
fn unix_time(cell: &str) -> Option<f64> {
    // The hyphens of a date come before the tenth character.
    let (date, offset_s) =
        match cell.char_indices().skip(11).find(|(_, character)| "+-Zz".contains(*character)) {
            Some((at, 'Z' | 'z')) if at + 1 == cell.len() => (&cell[..at], 0.0),
            Some((at, '+' | '-')) => (&cell[..at], offset(&cell[at..])?),
            Some(_) => return None,
            None => (cell, 0.0),
        };
    let date = date.trim_end();
    let time = humantime::parse_rfc3339_weak(date).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(time.as_secs_f64() - offset_s)
}

/// The seconds of an offset such as `+08:00`, `+0800` or `-05`.
fn offset(text: &str) -> Option<f64> {
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1.0, digits.replace(':', "")),
        ("-", digits) => (-1.0, digits.replace(':', "")),
        _ => return None,
    };
    if !matches!(digits.len(), 2 | 4) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes): (f64, f64) = (digits[..2].parse().ok()?, digits[2..].parse().unwrap_or(0.0));
    Some(sign * (hours * 3600.0 + minutes * 60.0))
}

/// The seconds of `[DAYS-]HOURS:MINUTES:SECONDS` or `MINUTES:SECONDS`.
fn clock(cell: &str) -> Option<f64> {
    let (days, time) = cell.split_once('-').unwrap_or(("0", cell));
    let units: Vec<f64> =
        time.split(':').map(|part| part.parse().ok().filter(|part| *part >= 0.0)).collect::<Option<_>>()?;
    let [.., minutes, seconds] = units[..] else { return None };
    let hours = match units[..] {
        [_, _] => 0.0,
        [hours, _, _] => hours,
        _ => return None,
    };
    let days: u32 = days.parse().ok()?;
    Some(((f64::from(days) * 24.0 + hours) * 60.0 + minutes) * 60.0 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_with_and_without_an_offset_are_unix_times() {
        for (cell, time) in [
            ("2020-09-01 08:00:00", Some(1_598_947_200.0)),
            ("2020-09-01T08:00:00Z", Some(1_598_947_200.0)),
            ("2020-09-01 16:00:00+08:00", Some(1_598_947_200.0)),
            ("2020-09-01T16:00:00.5 +0800", Some(1_598_947_200.5)),
            ("2020-09-01 03:00:00-05", Some(1_598_947_200.0)),
            ("1970-01-01 07:00:00+08:00", Some(-3600.0)),
            ("2020-09-01 08:00:00+8", None),
            ("2020-09-01 08:00:00 CST", None),
            ("2020-13-01 08:00:00", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(unix_time(cell), time, "{cell}");
        }
    }

    #[test]
    fn lengths_of_slurm_are_seconds() {
        for (cell, seconds) in [
            ("1-02:30:00", Some(95_400.0)),
            ("00:00:05.250", Some(5.25)),
            ("03:05", Some(185.0)),
            ("1:2:3:4", None),
            ("x:00", None),
            ("-1:00", None),
        ] {
            assert_eq!(clock(cell), seconds, "{cell}");
        }
    }

    #[test]
    fn the_separator_is_the_one_that_gives_the_columns() {
        for separator in [",", ";", "\t", "|"] {
            let text = ["a|b", "c,d"].map(|text| text.replace(['|', ','], separator)).join(separator) + "\n";
            let text = text.clone() + &text;
            let source = Source { file: Path::new("t"), text: text.as_bytes() };
            let mut seen = Vec::new();
            let mut table = Table::new(source, &["b", "d"]).unwrap();
            let each = |cells: &Cells<'_>| {
                seen.push((cells.get("b").to_owned(), cells.get("d").to_owned(), cells.line));
                Ok(())
            };
            table.for_each(&mut LeftOut::default(), each).unwrap();
            assert_eq!(seen, [("b".into(), "d".into(), 2)], "{separator}");
        }
    }
}
