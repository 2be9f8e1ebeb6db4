//! Runs `profile` and `sched` in tests as a user would, each test in a folder of its own.

mod background;
mod client;
mod executable;
mod help;
mod received;
mod wait;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use record::{
    rows::{self, Interference, Measurement, Summary},
    run_dir::RunDir,
};
use rustix::thread::sched_getaffinity;
use schema::capabilities::Capabilities;

pub use self::{
    background::{Background, KilledAtTheEnd},
    client::get,
    executable::executable,
    help::check_help,
    received::check_received,
    wait::{LONG, let_pass, wait_for, wait_until},
};

/// A program, and a working folder that is removed at the end of the test.
pub struct Door {
    program: &'static Path,
    folder: tempfile::TempDir,
}

impl Door {
    pub fn new(program: &'static str) -> Door {
        Door { program: Path::new(program), folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("the folder is writable");
    }

    /// The program with these arguments, split at spaces.
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(self.program);
        command.args(arguments.split_whitespace()).current_dir(self.folder.path());
        // A variable that all processes of the run inherit, so that remaining ones can be found.
        command.env("TANDEM_TEST_FOLDER", self.folder.path());
        // Wide enough for all columns of every table.
        command.env("COLUMNS", "1000");
        command
    }

    /// Runs to the end and checks the exit code.
    pub fn exits(&self, code: i32, arguments: &str) -> Said {
        let output = self.command(arguments).output().expect("it starts");
        let said = Said::of(&output);
        let name = self.program.display();
        assert_eq!(output.status.code(), Some(code), "{name} {arguments}\n{}\n{}", said.out, said.err);
        said
    }

    /// What a command prints in a terminal of this width. Checks that no line of a table is wider; such a line begins with a space.
    pub fn prints_within(&self, width: usize, arguments: &str) -> String {
        let output = self.command(arguments).env("COLUMNS", width.to_string()).output().expect("it starts");
        let Said { out, err } = Said::of(&output);
        assert!(output.status.success(), "{arguments}\n{out}\n{err}");
        let mut lines = out.lines().filter(|line| line.starts_with(' '));
        assert!(lines.all(|line| line.chars().count() <= width), "{arguments}\n{out}");
        out
    }

    /// The program with the synthetic worker as torch-worker, which takes a second to report that it knows no footprint.
    pub fn command_with_stand_in(&self, arguments: &str) -> Command {
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
            self.program.display(),
        );
        let bin = self.path("bin");
        fs::create_dir_all(&bin).expect("the folder is writable");
        executable(&bin.join("torch-worker"), &script);
        let mut command = self.command(arguments);
        command.env("TANDEM_BIN", bin);
        command
    }

    /// The program with a stand-in for NVIDIA's `cuda-checkpoint` in its PATH, which writes its arguments to the file `calls` and then
    /// does this: `$2` is the action, and `$4` the process.
    pub fn command_with_cuda_checkpoint(&self, arguments: &str, then: &str) -> Command {
        let folder = self.path("path");
        fs::create_dir_all(&folder).expect("the folder is writable");
        let program = folder.join("cuda-checkpoint");
        let script = format!("#!/bin/sh\necho \"$@\" >> '{}'\n{then}\n", self.path("calls").display());
        executable(&program, &script);
        let others = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(folder).chain(std::env::split_paths(&others));
        let mut command = self.command(arguments);
        command.env("PATH", std::env::join_paths(all).expect("no colon is in a path"));
        command
    }

    /// The actions and the processes with which the stand-in for `cuda-checkpoint` was called.
    pub fn calls_of_cuda_checkpoint(&self) -> Vec<(String, String)> {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        let call = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            (words[1].to_owned(), words[3].to_owned())
        };
        calls.lines().map(call).collect()
    }

    /// The remaining processes of a run in this folder.
    pub fn leftovers(&self) -> Vec<String> {
        processes_with(&self.folder.path().to_string_lossy())
    }

    pub fn wait_until_nothing_is_left(&self) {
        wait_until("nothing is left", || self.leftovers().is_empty());
    }

    pub fn run(&self, name: &str) -> RunDir {
        RunDir::open(&self.path(name)).expect("the run was begun")
    }

    pub fn measurements(&self, name: &str) -> Vec<Measurement> {
        rows::read(&self.run(name).measurements_path()).expect("measurements.csv reads back")
    }

    pub fn summaries(&self, name: &str) -> Vec<Summary> {
        rows::read(&self.run(name).summary_path()).expect("summary.csv reads back")
    }

    pub fn interference(&self, name: &str) -> Vec<Interference> {
        rows::read(&self.run(name).interference_path()).expect("interference.csv reads back")
    }

    /// A catalog of one synthetic workload, given by its `model.synthetic` table.
    pub fn catalog(&self, file: &str, name: &str, synthetic: &str) {
        self.write(file, &definition(name, synthetic));
    }
}

/// A synthetic workload as it stands in a catalog, given by its `model.synthetic` table.
pub fn definition(name: &str, synthetic: &str) -> String {
    format!(
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
    )
}

/// The folder of torch-worker, or a recorded skip.
pub fn torch_bin() -> Option<PathBuf> {
    let bin = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../bin");
    let found = bin.join("torch-worker").is_file();
    if !found {
        schema::skips::skipped("torch-worker", "there is no bin/torch-worker; scripts/setup builds it");
    }
    found.then_some(bin)
}

/// Returns whether this process may run on cores 0 to `count` - 1. If not, records that the test is skipped.
pub fn has_cores(count: usize) -> bool {
    let allowed = sched_getaffinity(None).expect("the kernel says which cores there are");
    let has_all = (0..count).all(|core| allowed.is_set(core));
    if !has_all {
        schema::skips::skipped("cores", format_args!("it needs cores 0 to {}", count - 1));
    }
    has_all
}

/// The output of a program.
pub struct Said {
    pub out: String,
    pub err: String,
}

impl Said {
    pub fn of(output: &Output) -> Said {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said { out: text(&output.stdout), err: text(&output.stderr) }
    }
}

/// Other processes with this text in their environment or command line.
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
