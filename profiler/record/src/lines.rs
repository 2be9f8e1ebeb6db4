//! Reads lines of limited length, so that a file without line breaks cannot fill the memory.

use std::{
    fs::File,
    io::{self, BufRead, Read, Seek as _, SeekFrom},
    path::Path,
};

use schema::units::HumanBytes;

use crate::rows::RowError;

/// The longest line that is read, in a table, a trace, a journal or an answer of a policy. A turn that
/// starts ten thousand jobs at once takes a tenth of it.
pub const LONGEST_LINE_BYTES: usize = 16 << 20;
/// Bytes per read.
const CHUNK_BYTES: u64 = 1 << 20;

/// The error for a longer line.
pub fn too_long() -> String {
    let limit = HumanBytes(LONGEST_LINE_BYTES as u64);
    format!("the line is longer than {limit}, the longest that is read; it may lack its line breaks")
}

/// Reads the next line, without its line break. `None` is the end of the input. A last line without a line break counts.
///
/// # Errors
/// The error of the reader, and `InvalidData` for a line longer than [`LONGEST_LINE_BYTES`].
pub fn next(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let most = LONGEST_LINE_BYTES as u64 + 1;
    if from.take(most).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() as u64 == most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, too_long()));
    }
    Ok(Some(line))
}

/// Reads a file of lines whole.
///
/// # Errors
/// The file cannot be read, or a line is longer than [`LONGEST_LINE_BYTES`].
pub fn read(path: &Path) -> Result<Vec<u8>, RowError> {
    read_on(path, 0, 0)
}

/// Reads a file of lines from an offset, given in bytes and in lines.
///
/// # Errors
/// See [`read`].
pub fn read_on(path: &Path, bytes_before: u64, lines_before: u64) -> Result<Vec<u8>, RowError> {
    let open = || {
        let mut file = File::open(path)?;
        // A pipe cannot seek, and is read from its beginning.
        if bytes_before > 0 {
            file.seek(SeekFrom::Start(bytes_before))?;
        }
        Ok(file)
    };
    let file = open().map_err(|cause| RowError::Io { file: path.into(), cause })?;
    read_to_end(path, file, lines_before)
}

/// Reads the lines after the first `lines_before` ones to the end. Errors name `file`.
///
/// # Errors
/// The error of the reader, or a line longer than [`LONGEST_LINE_BYTES`].
pub fn read_to_end(file: &Path, mut from: impl Read, lines_before: u64) -> Result<Vec<u8>, RowError> {
    let (mut bytes, mut line_start) = (Vec::new(), 0);
    loop {
        let old = bytes.len();
        let read = (&mut from).take(CHUNK_BYTES).read_to_end(&mut bytes);
        let read = read.map_err(|cause| RowError::Io { file: file.into(), cause })?;
        if let Some(last) = bytes[old..].iter().rposition(|byte| *byte == b'\n') {
            line_start = old + last + 1;
        }
        if bytes.len() - line_start > LONGEST_LINE_BYTES {
            let lines_read = bytes.iter().filter(|byte| **byte == b'\n').count();
            let line = lines_before + lines_read as u64 + 1;
            return Err(RowError::Row { file: file.into(), line, message: too_long() });
        }
        if read == 0 {
            return Ok(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_end_is_refused_with_its_number() {
        let error = read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert_eq!(error, format!("/dev/zero: line 1: {}", too_long()));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        std::fs::write(&path, [b"a\nb\n".as_slice(), &vec![b'x'; LONGEST_LINE_BYTES + 1]].concat()).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.ends_with(&format!("rows.csv: line 3: {}", too_long())), "{error}");
        std::fs::write(&path, "a\n\nb").unwrap();
        assert_eq!(read(&path).unwrap(), b"a\n\nb");
    }

    #[test]
    fn lines_of_a_pipe_are_given_one_by_one() {
        let mut from: &[u8] = b"one\n\nlast";
        let mut lines = Vec::new();
        while let Some(line) = next(&mut from).unwrap() {
            lines.push(String::from_utf8(line).unwrap());
        }
        assert_eq!(lines, ["one", "", "last"]);
        let error = next(&mut io::BufReader::new(io::repeat(b'x'))).unwrap_err().to_string();
        assert_eq!(error, too_long());
    }
}
