//! Errors of a full disk: how they are recognized, and their message.

use schema::run_dir::RunDir;

use crate::exit::Exit;

/// The text of the system's error, which other programs print as well: a worker's error arrives only as text.
const WORDS: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

/// Whether a message reports a full disk or an exceeded quota.
pub fn is_full(message: &str) -> bool {
    WORDS.iter().any(|words| message.contains(words))
}

/// Whether nothing can be written to the folder of a run.
pub fn has_no_space(run: &RunDir) -> bool {
    rustix::fs::statvfs(run.path()).is_ok_and(|found| found.f_bavail == 0 && found.f_blocks > 0)
}

/// The error of a run that ended because of a full disk.
pub fn full(run: &RunDir, launch: &str) -> anyhow::Error {
    Exit::InputOutput.because(format!(
        "the disk was full while {launch} ran, so that its files are not whole; make space for {}, and go on with --resume",
        run.path().display()
    ))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_full_disk_is_known_by_what_the_system_says() {
        for (errno, full) in [(28, true), (122, true), (5, false), (13, false)] {
            let error = anyhow::Error::new(io::Error::from_raw_os_error(errno)).context("devices.csv");
            assert_eq!(is_full(&format!("{error:#}")), full, "{error:#}");
        }
        assert!(is_full("OSError: [Errno 28] No space left on device"), "what Python makes of it");
    }
}
