//! Follows a log that another process writes, line by line.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

/// The length at which a line of output is cut.
const LONGEST_LINE_BYTES: usize = 1 << 16;
const CHUNK_BYTES: u64 = 1 << 20;

pub(super) struct Tail {
    file: File,
    /// The beginning of a line that is not complete yet.
    line: Vec<u8>,
    read_bytes: u64,
}

impl Tail {
    pub(super) fn open(log: &Path) -> io::Result<Tail> {
        Ok(Tail { file: File::open(log)?, line: Vec::new(), read_bytes: 0 })
    }

    /// Passes on the lines that were completed since the last call, up to a megabyte of them, so that a program which writes
    /// faster than the harness reads does not block it. Returns whether there may be more. A progress bar ends its lines with a
    /// carriage return.
    pub(super) fn poll(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<bool> {
        let mut chunk = Vec::new();
        let read = (&mut self.file).take(CHUNK_BYTES).read_to_end(&mut chunk)?;
        self.read_bytes += read as u64;
        let mut parts = chunk.split(|byte| matches!(byte, b'\n' | b'\r'));
        // The text before the first line break belongs to the line that has begun already.
        self.extend(parts.next().unwrap_or_default());
        for part in parts {
            self.end_line(&mut each);
            self.extend(part);
        }
        Ok(read as u64 == CHUNK_BYTES)
    }

    pub(super) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Passes on the rest, which is a line too. It is called when the file has no writer any more.
    pub(super) fn finish(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        while self.poll(&mut each)? {}
        self.end_line(&mut each);
        Ok(())
    }

    fn extend(&mut self, part: &[u8]) {
        let room = LONGEST_LINE_BYTES - self.line.len();
        self.line.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn end_line(&mut self, each: &mut impl FnMut(&[u8])) {
        if !self.line.is_empty() {
            each(&self.line);
        }
        self.line.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// The lines that are given after each of these was appended, and at the end.
    fn lines(appended: &[&[u8]]) -> Vec<Vec<String>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = File::create(&path).unwrap();
        let mut tail = Tail::open(&path).unwrap();
        let mut given = Vec::new();
        let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
        for bytes in appended {
            log.write_all(bytes).unwrap();
            let mut lines = Vec::new();
            tail.poll(|line| lines.push(text(line))).unwrap();
            given.push(lines);
        }
        let mut lines = Vec::new();
        tail.finish(|line| lines.push(text(line))).unwrap();
        given.push(lines);
        given
    }

    #[test]
    fn lines_are_given_when_they_end() {
        let given = lines(&[b"one\ntw", b"o\r\n\n", b"5%\r10%\r", b"", b"last"]);
        assert_eq!(given, [vec!["one"], vec!["two"], vec!["5%", "10%"], vec![], vec![], vec!["last"]]);
    }

    #[test]
    fn output_of_any_kind_is_read_and_long_lines_are_cut() {
        let long = vec![b'x'; 2 * LONGEST_LINE_BYTES];
        let given = lines(&[&long, b"\n\xff\xfe\0end\n"]);
        assert_eq!(given[0], Vec::<String>::new());
        assert_eq!((given[1][0].len(), given[1].len()), (LONGEST_LINE_BYTES, 2));
        assert!(given[1][1].ends_with("\0end"), "{:?}", given[1][1]);
    }
}
