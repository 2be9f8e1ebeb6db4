//! Runs `profile` as a user would, each test in a folder of its own.

use std::{
    fs,
    io::{BufReader, Read as _},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use schema::{
    capabilities::Capabilities,
    rows::{self, Interference, Measurement, Summary},
    run_dir::RunDir,
};

/// A folder to run in, gone with the test.
pub(crate) struct Door {
    folder: tempfile::TempDir,
}

impl Door {
    pub(crate) fn new() -> Door {
        Door { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `profile` with these arguments, split at spaces.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profile"));
        command.args(arguments.split_whitespace()).current_dir(self.folder.path());
        // Inherited by all that the run starts, so that what is left of it can be found.
        command.env("TANDEM_TEST_FOLDER", self.folder.path());
        command
    }

    /// Runs to the end and checks the exit code.
    pub(crate) fn exits(&self, code: i32, arguments: &str) -> Said {
        let output = self.command(arguments).output().expect("profile starts");
        let said = Said::of(&output);
        assert_eq!(output.status.code(), Some(code), "profile {arguments}\n{}\n{}", said.out, said.err);
        said
    }

    /// `profile` with a torch-worker that is the synthetic one, and takes a second to say that it knows no footprint.
    pub(crate) fn command_with_stand_in(&self, arguments: &str) -> Command {
        let said = Capabilities {
            version: env!("CARGO_PKG_VERSION").into(),
            libtorch: "2.11.0".into(),
            cuda: None,
            cuda_devices: 0,
            cuda_error: None,
        };
        let script = format!(
            "#!/bin/sh\ncase $1 in\n--capabilities) echo '{}' ;;\n--footprint) sleep 1; echo no footprint >&2; exit 1 ;;\n\
             *) exec '{}' synthetic-worker ;;\nesac\n",
            said.to_line(),
            env!("CARGO_BIN_EXE_profile"),
        );
        let bin = self.path("bin");
        fs::create_dir_all(&bin).expect("the folder is writable");
        fs::write(bin.join("torch-worker"), script).expect("the folder is writable");
        fs::set_permissions(bin.join("torch-worker"), PermissionsExt::from_mode(0o755)).expect("it is ours");
        let mut command = self.command(arguments);
        command.env("TANDEM_BIN", bin);
        command
    }

    /// What a run in this folder has left running.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        processes_with(&self.folder.path().to_string_lossy())
    }

    pub(crate) fn run(&self, name: &str) -> RunDir {
        RunDir::open(&self.path(name)).expect("the run was begun")
    }

    pub(crate) fn measurements(&self, name: &str) -> Vec<Measurement> {
        rows::read(&self.run(name).measurements_path()).expect("measurements.csv reads back")
    }

    pub(crate) fn summaries(&self, name: &str) -> Vec<Summary> {
        rows::read(&self.run(name).summary_path()).expect("summary.csv reads back")
    }

    pub(crate) fn interference(&self, name: &str) -> Vec<Interference> {
        rows::read(&self.run(name).interference_path()).expect("interference.csv reads back")
    }

    /// A catalog of one synthetic workload, given by its `model.synthetic` table.
    pub(crate) fn catalog(&self, file: &str, name: &str, synthetic: &str) {
        let text = format!(
            r#"
            [[workload]]
            name = "{name}"
            about = "for a test"
            source = "a test"
            global_batch = 8
            axes = ["dp", "ga"]
            verify = {{ global_batch = 8, steps = 4 }}
            optimizer.sgd = {{ learning_rate = 0.1, momentum = 0.0, weight_decay = 0.0 }}
            model.synthetic = {{ {synthetic} }}
            "#
        );
        fs::write(self.path(file), text).expect("the folder is writable");
    }
}

/// The folder of torch-worker, or nothing and a word that says so.
pub(crate) fn torch_bin() -> Option<PathBuf> {
    let bin = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../bin");
    let found = bin.join("torch-worker").is_file();
    if !found {
        schema::skips::skipped("torch-worker", "there is no bin/torch-worker; scripts/setup builds it");
    }
    found.then_some(bin)
}

/// What a program printed.
pub(crate) struct Said {
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn of(output: &Output) -> Said {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said { out: text(&output.stdout), err: text(&output.stderr) }
    }
}

/// Waits until something holds; panics after a time that only a hanging program takes.
pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A `profile` in the background, which does not outlive a test that fails.
pub(crate) struct Started(Child);

impl Started {
    pub(crate) fn new(mut command: Command) -> Started {
        Started(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("profile starts"))
    }

    pub(crate) fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it runs");
    }

    /// Waits for its end; returns the exit code, absent after a signal, and what it said on stderr.
    pub(crate) fn wait(&mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        let stderr = self.0.stderr.take().expect("waited for once");
        BufReader::new(stderr).read_to_string(&mut said).expect("it speaks UTF-8");
        (self.0.wait().expect("it ends").code(), said)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Processes in whose environment or command line this text stands, other than our own.
fn processes_with(text: &str) -> Vec<String> {
    let mentions =
        |file: PathBuf| fs::read(file).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text));
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("there is /proc").flatten() {
        let process = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_process = name.chars().all(|c| c.is_ascii_digit()) && name != std::process::id().to_string();
        if is_process && (mentions(process.join("environ")) || mentions(process.join("cmdline"))) {
            let command = fs::read(process.join("cmdline")).unwrap_or_default();
            found.push(format!("{name}: {}", String::from_utf8_lossy(&command).replace('\0', " ")));
        }
    }
    found
}
