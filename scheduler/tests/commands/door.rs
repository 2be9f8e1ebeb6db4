//! Runs `sched` as a user would, each test in a folder of its own.

use std::{
    path::PathBuf,
    process::{Command, Output},
};

/// A folder to run in, gone with the test.
pub(crate) struct Door {
    folder: tempfile::TempDir,
}

/// What a program printed.
pub(crate) struct Said {
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Door {
    pub(crate) fn new() -> Door {
        Door { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("the folder is writable");
    }

    /// `sched` with these arguments, split at spaces.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sched"));
        command.args(arguments.split_whitespace()).current_dir(self.folder.path());
        command
    }

    /// Runs to the end and checks the exit code.
    pub(crate) fn exits(&self, code: i32, arguments: &str) -> Said {
        let output = self.command(arguments).output().expect("sched starts");
        let said = Said::of(&output);
        assert_eq!(output.status.code(), Some(code), "sched {arguments}\n{}\n{}", said.out, said.err);
        said
    }
}

impl Said {
    pub(crate) fn of(output: &Output) -> Said {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said { out: text(&output.stdout), err: text(&output.stderr) }
    }
}
