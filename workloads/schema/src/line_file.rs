//! Files to which whole lines are appended, even if a write fails within a line.

use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use rustix::fs::OFlags;

/// Appends whole lines to a file. A full disk may cut a line off. The rest of the line is then written
/// before all later data, so that no line is torn, and a reader that follows the file never sees a byte
/// change.
pub struct LineFile<W = File> {
    file: W,
    /// The rest of a line that was cut off.
    unfinished: Vec<u8>,
    /// Number of lines begun since the file was opened.
    lines: u64,
}

impl LineFile {
    /// Opens a file that is new or empty.
    pub fn create(path: &Path) -> io::Result<LineFile> {
        Ok(LineFile::at_end_of(options().open(path)?))
    }

    /// Opens a file for appending, and returns whether it is empty. A torn line that a killed writer left
    /// is cut off first.
    pub fn open(path: &Path) -> io::Result<(LineFile, bool)> {
        let file = options().read(true).open(path)?;
        let whole = whole_lines_bytes(&std::fs::read(path)?) as u64;
        file.set_len(whole)?;
        Ok((LineFile::at_end_of(file), whole == 0))
    }
}

/// In a received directory, a raw file may be a link to one of the user's own files, so links are not
/// followed.
fn options() -> OpenOptions {
    let mut options = File::options();
    options.append(true).create(true).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    options
}

impl<W: Write> LineFile<W> {
    fn at_end_of(file: W) -> LineFile<W> {
        LineFile { file, unfinished: Vec::new(), lines: 0 }
    }

    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Appends lines, which end at the offsets `ends` of `lines`, with one write if the system accepts it.
    ///
    /// # Errors
    /// The write failed. The next write completes the torn line, and the lines after it are dropped.
    pub fn append(&mut self, lines: &[u8], ends: &[usize]) -> io::Result<()> {
        let (finished, outcome) = write(&mut self.file, &self.unfinished);
        self.unfinished.drain(..finished);
        outcome?;
        let (written, outcome) = write(&mut self.file, lines);
        let begun = ends.iter().take_while(|end| **end <= written).count();
        let is_torn = written > begun.checked_sub(1).map_or(0, |last| ends[last]);
        if is_torn {
            self.unfinished.extend_from_slice(&lines[written..ends[begun]]);
        }
        self.lines += begun as u64 + u64::from(is_torn);
        outcome
    }
}

/// Writes as much as possible, and returns the number of bytes.
fn write(file: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(0) => return (written, Err(ErrorKind::WriteZero.into())),
            Ok(taken) => written += taken,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

/// The length up to and including the last line break.
pub fn whole_lines_bytes(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&b| b == b'\n').map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A disk with limited space, which the test can extend.
    struct Disk {
        bytes: Vec<u8>,
        free: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.free);
            if taken == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            self.free -= taken;
            self.bytes.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn no_line_is_torn_by_a_disk_that_is_full_for_a_while(
            pushes in prop::collection::vec((prop::collection::vec(0usize..9, 0..4), 0usize..20), 1..12),
        ) {
            let mut file = LineFile::at_end_of(Disk { bytes: Vec::new(), free: 0 });
            let mut number = 0;
            for (widths, free) in pushes {
                file.file.free = free;
                let (mut lines, mut ends) = (Vec::new(), Vec::new());
                for width in widths {
                    number += 1;
                    lines.extend_from_slice(format!("<{number}{}>\n", "x".repeat(width)).as_bytes());
                    ends.push(lines.len());
                }
                let _ = file.append(&lines, &ends);
            }
            file.file.free = usize::MAX;
            file.append(b"<end>\n", &[6]).unwrap();
            let text = String::from_utf8(file.file.bytes).unwrap();
            prop_assert!(text.ends_with("<end>\n"));
            prop_assert_eq!(text.lines().count() as u64, file.lines);
            let is_whole = |line: &str| {
                line.starts_with('<') && line.ends_with('>') && line.matches(['<', '>']).count() == 2
            };
            prop_assert!(text.lines().all(is_whole), "{}", text);
        }
    }
}
