//! Reads the records of tables, also of tables that pandas or a spreadsheet has read and written again.
//!
//! pandas writes `True` for `true`, and `2.0` for the whole number 2 if another cell of the column is empty. By default it also
//! writes its index as a first column without a name.

use std::path::Path;

use csv::{DeserializeErrorKind, StringRecord};
use serde::de::DeserializeOwned;

use super::RowError;
use crate::first_bytes::check_plain;

/// The number of characters of a cell that a message quotes.
const QUOTED_CHARACTERS: usize = 80;

/// The records of a table.
pub struct Records<'a> {
    file: &'a Path,
    text: &'a [u8],
    reader: csv::Reader<&'a [u8]>,
    header: StringRecord,
    /// The number of columns before those of `header`, which pandas wrote.
    indexes: usize,
    record: StringRecord,
    line: u64,
    /// For each column, what pandas was seen to change in it.
    changes: Vec<Option<Change>>,
}

/// What pandas changes in the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// `true` has become `True`.
    Flag,
    /// 2 has become `2.0`.
    WholeNumber,
}

/// The reason why a record is no row of the table.
#[derive(Debug)]
pub struct NoRow {
    /// The number of the column, if the reason is about one.
    pub column: Option<usize>,
    pub message: String,
}

impl<'a> Records<'a> {
    /// Reads the header. `file` is the name of the table in errors.
    ///
    /// # Errors
    /// The text is compressed, is not UTF-8, or has no header.
    pub fn new(file: &'a Path, text: &'a [u8]) -> Result<Records<'a>, RowError> {
        check_plain(file, text)?;
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut reader = csv::ReaderBuilder::new().delimiter(separator(text)).from_reader(text);
        let mut records = Records {
            file,
            text,
            header: reader.headers().map_err(|error| row_error(file, &error))?.clone(),
            reader,
            indexes: 0,
            record: StringRecord::new(),
            line: 1,
            changes: Vec::new(),
        };
        let is_index = |name: &&str| name.is_empty() || name.starts_with("Unnamed: ");
        let indexes = records.header.iter().take_while(is_index).count();
        if indexes < records.header.len() {
            records.indexes = indexes;
            records.header = without(&records.header, indexes);
        }
        records.changes = vec![None; records.header.len()];
        Ok(records)
    }

    pub fn header(&self) -> &StringRecord {
        &self.header
    }

    /// Reads the next record; `false` at the end.
    pub fn advance(&mut self) -> Result<bool, RowError> {
        match self.reader.read_record(&mut self.record) {
            Ok(false) => return Ok(false),
            Ok(true) => self.line = self.record.position().map_or(1, |at| line_of(self.text, at)),
            Err(error) => return Err(self.torn(&error)),
        }
        if self.indexes > 0 {
            self.record = without(&self.record, self.indexes);
        }
        Ok(true)
    }

    pub fn record(&self) -> &StringRecord {
        &self.record
    }

    /// The line in which the record begins, counted from 1 with the header, as an editor counts.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The row of the record.
    pub fn row<T: DeserializeOwned>(&mut self) -> Result<T, NoRow> {
        self.deserialize(None)
    }

    /// The row of the record if its columns had these names. There are as many as in the header.
    pub fn row_under<T: DeserializeOwned>(&mut self, names: &StringRecord) -> Result<T, NoRow> {
        self.deserialize(Some(names))
    }

    fn deserialize<T: DeserializeOwned>(&mut self, names: Option<&StringRecord>) -> Result<T, NoRow> {
        for column in 0..self.changes.len() {
            if let Some(change) = self.changes[column] {
                self.undo(column, change);
            }
        }
        loop {
            let error = match self.record.deserialize(Some(names.unwrap_or(&self.header))) {
                Ok(row) => return Ok(row),
                Err(error) => error,
            };
            let csv::ErrorKind::Deserialize { err, .. } = error.kind() else {
                return Err(NoRow { column: None, message: error.to_string() });
            };
            let column = err.field().map(|column| column as usize);
            // Only the type of the row says what a column holds: a name may be `True` or `2.0`.
            let change = match err.kind() {
                DeserializeErrorKind::ParseBool(_) => Some(Change::Flag),
                DeserializeErrorKind::ParseInt(_) => Some(Change::WholeNumber),
                _ => None,
            };
            if let Some((column, change)) = column.zip(change)
                && column < self.changes.len()
                && self.changes[column].is_none()
            {
                self.changes[column] = Some(change);
                self.undo(column, change);
                continue;
            }
            let cell = column.and_then(|column| self.record.get(column)).unwrap_or_default();
            let message = self.shortened(no_value(cell, err.kind()));
            return Err(NoRow { column, message });
        }
    }

    /// The error for a row that [`Self::row`] or [`Self::row_under`] refuses.
    pub fn refuse(&self, NoRow { column, message }: NoRow) -> RowError {
        let (file, line) = (self.file.into(), self.line);
        match column.and_then(|column| self.header.get(column)) {
            Some(column) => RowError::Field { file, line, column: column.into(), message },
            None => RowError::Row { file, line, message },
        }
    }

    /// Writes a cell as it was before pandas.
    fn undo(&mut self, column: usize, change: Change) {
        let before = self.record.get(column).and_then(|cell| match change {
            Change::Flag => flag(cell),
            Change::WholeNumber => whole_number(cell),
        });
        if let Some(before) = before.map(str::to_owned) {
            let cells = self.record.iter().enumerate();
            self.record = cells.map(|(number, cell)| if number == column { &before } else { cell }).collect();
        }
    }

    /// A message in which no cell of the record is longer than messages quote it.
    fn shortened(&self, message: String) -> String {
        let long = self.record.iter().filter(|cell| cell.chars().nth(QUOTED_CHARACTERS).is_some());
        long.fold(message, |message, cell| message.replace(cell, &shown(cell)))
    }

    /// The error for a record that is no row. If it is too short, the error names the first missing column.
    fn torn(&self, error: &csv::Error) -> RowError {
        if let csv::ErrorKind::UnequalLengths { pos: Some(position), len, .. } = error.kind() {
            let (file, line) = (self.file.into(), line_of(self.text, position));
            let (len, columns) = ((*len as usize).saturating_sub(self.indexes), self.header.len());
            return match self.header.get(len) {
                Some(column) => {
                    let message =
                        format!("the line ends after {len} of {columns} columns; complete it or drop it");
                    RowError::Field { file, line, column: column.into(), message }
                }
                None => {
                    let message = format!("has {len} cells, and the table has {columns} columns");
                    RowError::Row { file, line, message }
                }
            };
        }
        row_error(self.file, error)
    }
}

/// The separator of cells. Spreadsheets write semicolons where the comma separates the digits of a number.
fn separator(text: &[u8]) -> u8 {
    let header = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let separators = header.iter().find(|byte| b",;\t".contains(byte));
    *separators.unwrap_or(&b',')
}

/// The error of the CSV reader.
fn row_error(file: &Path, error: &csv::Error) -> RowError {
    let line = error.position().map_or(1, csv::Position::line);
    RowError::Row { file: file.into(), line, message: error.to_string() }
}

/// The line of a record, as an editor counts. The CSV reader counts empty lines to the record after them.
pub fn line_of(text: &[u8], position: &csv::Position) -> u64 {
    let before = text.get(position.byte() as usize..).unwrap_or_default();
    let empty = before.iter().take_while(|byte| b"\r\n".contains(byte));
    position.line() + empty.filter(|byte| **byte == b'\n').count() as u64
}

/// A record without its first cells.
fn without(record: &StringRecord, cells: usize) -> StringRecord {
    record.iter().skip(cells).collect()
}

/// The digits of a whole number that may be written with a fraction of zeros, such as `2.0`.
pub fn whole_number(cell: &str) -> Option<&str> {
    let (whole, fraction) = cell.split_once('.')?;
    let digits = whole.strip_prefix('-').unwrap_or(whole);
    let is_whole = !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && fraction.bytes().all(|byte| byte == b'0');
    is_whole.then_some(whole)
}

/// A flag as Rust writes it.
fn flag(cell: &str) -> Option<&'static str> {
    match cell {
        "True" | "TRUE" => Some("true"),
        "False" | "FALSE" => Some("false"),
        _ => None,
    }
}

/// A cell as a message quotes it.
pub fn shown(cell: &str) -> String {
    match cell.char_indices().nth(QUOTED_CHARACTERS) {
        Some((end, _)) => format!("{}..", &cell[..end]),
        None => cell.into(),
    }
}

/// The reason why a cell is no value of its column.
fn no_value(cell: &str, kind: &DeserializeErrorKind) -> String {
    let shown = shown(cell);
    match kind {
        DeserializeErrorKind::ParseBool(_) => format!("'{shown}' is neither true nor false"),
        DeserializeErrorKind::ParseInt(error) => no_whole_number(cell, error),
        DeserializeErrorKind::ParseFloat(_) if cell.is_empty() => "is empty".into(),
        DeserializeErrorKind::ParseFloat(_) => format!("'{shown}' is no number{}", remedy_for_comma(cell)),
        kind => kind.to_string(),
    }
}

/// The reason why a cell is no whole number of the type of its column.
pub(super) fn no_whole_number(cell: &str, error: &std::num::ParseIntError) -> String {
    let shown = shown(cell);
    let digits = cell.strip_prefix('-').filter(|digits| !digits.is_empty());
    match error.kind() {
        std::num::IntErrorKind::Empty => "is empty".into(),
        std::num::IntErrorKind::PosOverflow => format!("{shown} is too large"),
        std::num::IntErrorKind::NegOverflow => format!("{shown} is too small"),
        _ if digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) => {
            format!("{shown} is below 0")
        }
        _ => format!("'{shown}' is no whole number{}", remedy_for_comma(cell)),
    }
}

/// What to do about a number with a comma, which stands before its fraction in some languages and between thousands in others.
pub fn remedy_for_comma(cell: &str) -> &'static str {
    match has_comma(cell) {
        true => "; write a point before a fraction, and no commas, such as 1234.5",
        false => "",
    }
}

/// Whether a cell is a number that is written with a comma.
pub fn has_comma(cell: &str) -> bool {
    cell.contains(',')
        && cell.bytes().any(|byte| byte.is_ascii_digit())
        && cell.bytes().all(|byte| byte.is_ascii_digit() || b"+-,.eE".contains(&byte))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Row {
        name: String,
        devices: Option<u32>,
        is_elastic: Option<bool>,
        rate: f64,
    }

    fn rows(text: &str) -> Result<Vec<(u64, Row)>, RowError> {
        let mut records = Records::new(Path::new("t.csv"), text.as_bytes())?;
        let mut rows = Vec::new();
        while records.advance()? {
            let row = records.row().map_err(|error| records.refuse(error))?;
            rows.push((records.line(), row));
        }
        Ok(rows)
    }

    fn row(name: &str, devices: Option<u32>, is_elastic: Option<bool>) -> Row {
        Row { name: name.into(), devices, is_elastic, rate: 2.0 }
    }

    #[test]
    fn cells_that_pandas_wrote_are_read_and_names_stay_as_they_are() {
        for (begin, header) in
            [("", ""), ("0,", ","), ("7,", "Unnamed: 0,"), ("0,0,", "Unnamed: 0.1,Unnamed: 0,")]
        {
            let text = format!(
                "{header}name,devices,is_elastic,rate\n{begin}2.0,2.0,True,2.0\n{begin}True,,,2\n{begin}c,3,FALSE,2\n"
            );
            let expected = [
                (2, row("2.0", Some(2), Some(true))),
                (3, row("True", None, None)),
                (4, row("c", Some(3), Some(false))),
            ];
            assert_eq!(rows(&text).unwrap(), expected, "{header}");
        }
    }

    #[test]
    fn cells_may_be_separated_by_semicolons_or_tabs() {
        let text = "name,devices,is_elastic,rate\na,2,TRUE,2\n";
        for separator in [",", ";", "\t"] {
            let rows = rows(&text.replace(',', separator)).unwrap();
            assert_eq!(rows, [(2, row("a", Some(2), Some(true)))], "{separator}");
        }
    }

    #[test]
    fn lines_are_those_of_an_editor() {
        let text = "\u{feff}name,devices,is_elastic,rate\r\n\r\n\r\n\"a\nb\",1,,2\n\nc,x,,2\n";
        let error = rows(text).unwrap_err().to_string();
        assert_eq!(error, "t.csv: line 7: column 'devices': 'x' is no whole number");
        assert_eq!(rows(&text.replace(",x,", ",4,")).unwrap()[0].0, 4);
        let error = rows(&text.replace("c,x,,2", "c,1")).unwrap_err().to_string();
        let expected =
            "t.csv: line 7: column 'is_elastic': the line ends after 2 of 4 columns; complete it or drop it";
        assert_eq!(error, expected);
    }

    #[test]
    fn an_invalid_cell_is_named_in_the_same_words_and_shortened() {
        let long = "x".repeat(500);
        for (cells, message) in [
            ("a,2.5,,2", "column 'devices': '2.5' is no whole number"),
            ("a,1e3,,2", "column 'devices': '1e3' is no whole number"),
            (
                "a,\"2,0\",,2",
                "column 'devices': '2,0' is no whole number; write a point before a fraction, and no commas, such as 1234.5",
            ),
            (
                "a,,,\"1,5e3\"",
                "column 'rate': '1,5e3' is no number; write a point before a fraction, and no commas, such as 1234.5",
            ),
            ("a,-2.0,,2", "column 'devices': -2 is below 0"),
            ("a,5000000000.0,,2", "column 'devices': 5000000000 is too large"),
            ("a,,yes,2", "column 'is_elastic': 'yes' is neither true nor false"),
            ("a,,,", "column 'rate': is empty"),
            (&format!("a,,,{long}"), &format!("column 'rate': '{}..' is no number", &long[..80])),
        ] {
            let error = rows(&format!("name,devices,is_elastic,rate\n{cells}\n")).unwrap_err().to_string();
            assert_eq!(error, format!("t.csv: line 2: {message}"));
        }
    }
}
