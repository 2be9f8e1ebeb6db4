//! Errors of a full disk: how they are recognized, and their message.

use std::io;

use record::run_dir::RunDir;
use schema::files::RunError;

use crate::exit::Exit;

/// The text of the system's error, which other programs print as well: a worker's error arrives only as text.
const WORDS: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

/// Whether a message reports a full disk or an exceeded quota.
pub fn is_full(message: &str) -> bool {
    WORDS.iter().any(|words| message.contains(words))
}

/// Whether a new file cannot be written to the folder of a run. The attempt also notices a lack of inodes and an exceeded quota, of
/// which the counts of free blocks say nothing.
pub fn has_no_space(run: &RunDir) -> bool {
    matches!(run.check_space(), Err(RunError::Write { cause, .. }) if is_error_of_full(&cause))
}

fn is_error_of_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
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
    use std::{env, fs, path::PathBuf, process::Command};

    use super::*;

    /// The variable that names a folder of few inodes to the test within a namespace of its own.
    const FEW_INODES: &str = "TANDEM_TEST_FEW_INODES";

    #[test]
    fn a_full_disk_is_known_by_what_the_system_says() {
        for (errno, full) in [(28, true), (122, true), (5, false), (13, false)] {
            assert_eq!(is_error_of_full(&io::Error::from_raw_os_error(errno)), full, "{errno}");
            let error = anyhow::Error::new(io::Error::from_raw_os_error(errno)).context("devices.csv");
            assert_eq!(is_full(&format!("{error:#}")), full, "{error:#}");
        }
        assert!(is_full("OSError: [Errno 28] No space left on device"), "what Python makes of it");
    }

    /// The test starts itself again in a namespace in which it may mount a file system.
    #[test]
    fn a_disk_without_an_inode_has_no_space() {
        if let Some(folder) = env::var_os(FEW_INODES) {
            return fill_inodes(&PathBuf::from(folder));
        }
        let dir = tempfile::tempdir().unwrap();
        let own_name = "disk::tests::a_disk_without_an_inode_has_no_space";
        let script =
            "mount -t tmpfs -o size=8m,nr_inodes=32 tmpfs \"$1\" || exit 77; exec \"$0\" --exact \"$2\"";
        let mut again = Command::new("unshare");
        again.args(["-Urm", "sh", "-c", script]).arg(env::current_exe().unwrap());
        again.arg(dir.path()).arg(own_name).env(FEW_INODES, dir.path());
        match again.output() {
            Ok(output) if output.status.success() => {}
            Ok(output) if output.status.code() == Some(101) => {
                panic!("{}", String::from_utf8_lossy(&output.stdout));
            }
            _ => schema::skips::skipped(
                "disk",
                "no file system can be mounted in a namespace of one's own here",
            ),
        }
    }

    fn fill_inodes(folder: &std::path::Path) {
        let run = RunDir::create(&folder.join("run")).unwrap();
        assert!(!has_no_space(&run));
        let file = |number: u32| folder.join(number.to_string());
        let last = (0..).find(|number| fs::write(file(*number), "").is_err()).unwrap();
        assert!(rustix::fs::statvfs(folder).unwrap().f_bavail > 0, "there are free blocks");
        assert!(has_no_space(&run));
        fs::remove_file(file(last - 1)).unwrap();
        assert!(!has_no_space(&run));
    }
}
