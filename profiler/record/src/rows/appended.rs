//! Raw tables, which grow row by row: a writer, and readers for tables that still grow or were cut off by a
//! kill.

use std::{
    marker::PhantomData,
    path::{Path, PathBuf},
};

use schema::line_file::{LineFile, whole_lines_bytes};

use super::table::{Row, RowError, believe};
use crate::lines;

/// Appends rows to a raw table. Each is on file when `push` returns.
pub struct Appender<T> {
    file: LineFile,
    /// The file has no header yet.
    is_empty: bool,
    path: PathBuf,
    row: PhantomData<fn(&T)>,
}

impl<T: Row> Appender<T> {
    /// Opens the table for appending. A torn line that a killed writer left is cut off first.
    pub fn open(path: &Path) -> Result<Appender<T>, RowError> {
        let (file, is_empty) =
            LineFile::open(path).map_err(|cause| RowError::Write { file: path.into(), cause })?;
        Ok(Appender { file, is_empty, path: path.into(), row: PhantomData })
    }

    /// # Errors
    /// The file cannot be written. Rows may be missing from it then, but none is torn.
    pub fn push(&mut self, rows: &[T]) -> Result<(), RowError> {
        let io = |cause| RowError::Write { file: self.path.clone(), cause };
        let has_header = !self.is_empty || self.file.lines() > 0;
        let mut writer = csv::WriterBuilder::new().has_headers(!has_header).from_writer(Vec::new());
        let mut ends = Vec::with_capacity(rows.len());
        for row in rows {
            writer.serialize(row).map_err(|e| io(e.into()))?;
            writer.flush().map_err(io)?;
            ends.push(writer.get_ref().len());
        }
        self.file.append(writer.get_ref(), &ends).map_err(io)
    }
}

/// Follows a raw table as it grows, and reads the new complete rows.
pub struct Follower<T> {
    path: PathBuf,
    header: Vec<u8>,
    /// Number of bytes read.
    bytes: u64,
    lines: u64,
    row: PhantomData<fn() -> T>,
}

impl<T: Row> Follower<T> {
    /// Begins at the start of a table, which may not exist yet.
    pub fn new(path: &Path) -> Follower<T> {
        Follower { path: path.into(), header: Vec::new(), bytes: 0, lines: 0, row: PhantomData }
    }

    /// The rows since the last call, up to the last complete line.
    pub fn read_on(&mut self) -> Result<Vec<T>, RowError> {
        let new = self.new_lines()?;
        let rows = if self.header.is_empty() { &new[..] } else { &[&self.header[..], &new[..]].concat() };
        let before = self.lines.saturating_sub(1);
        let table = believe(&self.path, rows).map_err(|e| e.further_down(before))?;
        if self.header.is_empty() {
            let end = new.iter().position(|&byte| byte == b'\n').map_or(0, |last| last + 1);
            self.header = new[..end].to_vec();
        }
        self.bytes += new.len() as u64;
        self.lines += new.iter().filter(|&&byte| byte == b'\n').count() as u64;
        Ok(table)
    }

    fn new_lines(&self) -> Result<Vec<u8>, RowError> {
        let mut bytes = Vec::new();
        if self.path.exists() {
            bytes = lines::read_on(&self.path, self.bytes, self.lines)?;
            bytes.truncate(whole_lines_bytes(&bytes));
        }
        Ok(bytes)
    }
}

/// Reads a raw table up to its last complete line, because a killed writer may have left an incomplete one.
/// A missing table is empty.
pub fn read_appended<T: Row>(path: &Path) -> Result<Vec<T>, RowError> {
    Follower::new(path).read_on()
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write as _};

    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::rows::{Status, read};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Pair {
        a: u64,
        status: Status,
    }

    fn row(a: u64) -> Pair {
        Pair { a, status: Status::Ok }
    }

    fn add(path: &Path, text: &str) {
        File::options().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn an_appender_cuts_off_a_torn_line_and_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.csv");
        Appender::open(&path).unwrap().push(&[row(1)]).unwrap();
        add(&path, "2,o");
        assert!(read::<Pair>(&path).is_err());
        assert_eq!(read_appended::<Pair>(&path).unwrap(), [row(1)]);
        Appender::open(&path).unwrap().push(&[row(3)]).unwrap();
        assert_eq!(read::<Pair>(&path).unwrap(), [row(1), row(3)]);
        assert_eq!(read_appended::<Pair>(&dir.path().join("none.csv")).unwrap(), []);
    }

    #[test]
    fn a_follower_reads_each_row_once_and_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.csv");
        let mut follower = Follower::<Pair>::new(&path);
        for (text, expected) in [
            ("", &[][..]),
            ("a,sta", &[]),
            ("tus\n", &[]),
            ("1,ok\n2,", &[row(1)]),
            ("ok\n3,ok\n", &[row(2), row(3)]),
            ("", &[]),
        ] {
            add(&path, text);
            assert_eq!(follower.read_on().unwrap(), expected, "after {text:?}");
        }
        add(&path, "4,ok\nx,ok\n");
        let error = follower.read_on().unwrap_err().to_string();
        assert!(error.contains("rows.csv: line 6: column 'a': "), "{error}");
    }
}
