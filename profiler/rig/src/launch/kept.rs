//! Limits the size of a program's logs so that they cannot fill the disk: the beginning and the end of each are kept.
//!
//! The program writes the file of a log directly, so that no process has to forward its output. While it writes, the space of
//! the middle part is returned to the disk. When it has ended, a line in that place has the number of bytes that were left out.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use rustix::fs::{FallocateFlags, fallocate};
use schema::units::HumanBytes;

/// The number of bytes that are kept at the beginning of a log, and at its end.
const KEPT_BYTES: u64 = 8 << 20;

/// The smallest number of bytes that a new hole has to return.
const WORTH_BYTES: u64 = 8 << 20;

pub(super) struct Kept {
    log: PathBuf,
    /// The end of the last hole.
    hole_end: u64,
}

impl Kept {
    pub(super) fn new(log: PathBuf) -> Kept {
        Kept { log, hole_end: KEPT_BYTES }
    }

    /// Returns the space of the middle of the log to the disk, up to `read_to`, which is how far steps were searched.
    ///
    /// # Errors
    /// For example, the file system does not support holes. The log is shortened at the end in any case.
    pub(super) fn give_back(&mut self, read_to: u64) -> io::Result<()> {
        let end = fs::metadata(&self.log)?.len().saturating_sub(KEPT_BYTES).min(read_to);
        if end >= self.hole_end + WORTH_BYTES {
            let log = File::options().write(true).open(&self.log)?;
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(log, hole, self.hole_end, end - self.hole_end)?;
            self.hole_end = end;
        }
        Ok(())
    }

    /// Shortens the log. It is called when the program has ended.
    ///
    /// # Errors
    /// There is no space for the part that is kept. The log then stays as it is.
    pub(super) fn shorten(&self) -> io::Result<()> {
        let length = fs::metadata(&self.log)?.len();
        if length <= 2 * KEPT_BYTES {
            return Ok(());
        }
        let mut log = File::open(&self.log)?;
        let mut begin = read(&mut log)?;
        // Only whole lines are kept, if there are lines.
        if let Some(last) = begin.iter().rposition(|byte| *byte == b'\n') {
            begin.truncate(last + 1);
        }
        log.seek(SeekFrom::Start(length - KEPT_BYTES))?;
        let mut end = read(&mut log)?;
        if let Some(first) = end.iter().position(|byte| *byte == b'\n') {
            end.drain(..=first);
        }
        let left_out = HumanBytes(length - begin.len() as u64 - end.len() as u64);
        let short = unfinished(&self.log);
        let mut file = File::create(&short)?;
        file.write_all(&begin)?;
        writeln!(file, "[{left_out} of output are left out here]")?;
        file.write_all(&end)?;
        fs::rename(short, &self.log)
    }
}

fn read(log: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    log.take(KEPT_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unfinished(log: &Path) -> PathBuf {
    let mut path = log.as_os_str().to_owned();
    path.push(".short");
    path.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn log_of(lines: u64) -> (tempfile::TempDir, Kept) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = io::BufWriter::new(File::create(&path).unwrap());
        (0..lines).for_each(|line| writeln!(file, "line {line:058}").unwrap());
        file.flush().unwrap();
        (dir, Kept::new(path))
    }

    #[test]
    fn of_a_long_log_the_beginning_and_the_end_are_kept_in_whole_lines() {
        let lines = 3 * KEPT_BYTES / 64;
        let (_dir, kept) = log_of(lines);
        kept.shorten().unwrap();
        let text = fs::read_to_string(&kept.log).unwrap();
        assert!(text.starts_with("line 0000") && text.ends_with(&format!("{:058}\n", lines - 1)));
        assert_eq!(text.lines().filter(|line| line.len() != 63).count(), 1);
        let at = text.find("[8.00 MiB of output are left out here]\n").expect("it says so");
        assert!(at as u64 <= KEPT_BYTES && text.len() as u64 <= 2 * KEPT_BYTES + 64, "{at}");
        let (_dir, short) = log_of(9);
        short.shorten().unwrap();
        assert_eq!(fs::read_to_string(&short.log).unwrap().lines().count(), 9);
    }

    #[test]
    fn while_it_grows_the_middle_takes_no_place_and_what_is_not_read_stays() {
        let (_dir, mut kept) = log_of(5 * KEPT_BYTES / 64);
        let (whole, length) = (fs::read(&kept.log).unwrap(), 5 * KEPT_BYTES);
        let on_disk = |kept: &Kept| fs::metadata(&kept.log).unwrap().blocks() * 512;
        kept.give_back(2 * KEPT_BYTES - 1).unwrap();
        assert_eq!(fs::read(&kept.log).unwrap(), whole, "it is not worth a hole");
        if kept.give_back(3 * KEPT_BYTES).is_err() {
            schema::skips::skipped("hole", "this file system makes no holes in files");
            return;
        }
        let now = fs::read(&kept.log).unwrap();
        let (first, last) = (KEPT_BYTES as usize, 3 * KEPT_BYTES as usize);
        assert!(
            now[..first] == whole[..first]
                && now[last..] == whole[last..]
                && now[first..last].iter().all(|b| *b == 0)
        );
        kept.give_back(u64::MAX).unwrap();
        assert!(on_disk(&kept) <= 2 * KEPT_BYTES + (1 << 20), "{}", on_disk(&kept));
        assert_eq!(fs::metadata(&kept.log).unwrap().len(), length);
    }
}
