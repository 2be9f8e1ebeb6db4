//! Finds the other programs of Tandem, which setup installs beside this one.

use std::{
    ffi::OsStr,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use anyhow::Context as _;
use rustix::{
    fs::{Access, access},
    process::{Pid, Signal, WaitOptions, waitpid},
};
use schema::{capabilities::Capabilities, shapes::Shapes};

use crate::{exit::Exit, launch::Programs, leash::die_with_us, processes};

/// The environment variable with a folder that is searched before the folder of this program.
pub const TANDEM_BIN: &str = "TANDEM_BIN";

/// The time limit for an answer of torch-worker about itself or about shapes. Loading libtorch from a cold disk takes seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// The path of the program called `name`, or an error with a way to install it.
pub fn find(name: &str) -> anyhow::Result<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|path| path.parent().map(Path::to_path_buf));
    let named = std::env::var_os(TANDEM_BIN).map(PathBuf::from);
    named
        .into_iter()
        .chain(beside)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .with_context(|| format!("{name} is not beside this program; run scripts/setup, which builds it"))
}

/// Whether a program of the user's with this name can be started: on the PATH, or at its path.
pub fn is_there(name: &str) -> bool {
    if name.contains('/') {
        return can_be_started(name.as_ref());
    }
    is_on(&std::env::var_os("PATH").unwrap_or_default(), name)
}

/// Whether a program with this name can be started from these folders, in the form of the variable `PATH`.
pub fn is_on(folders: &OsStr, name: &str) -> bool {
    find_in(std::env::split_paths(folders), name).is_some()
}

/// The path of the first program with this name in these folders that can be started.
pub(crate) fn find_in(folders: impl IntoIterator<Item = PathBuf>, name: &str) -> Option<PathBuf> {
    folders.into_iter().map(|folder| folder.join(name)).find(|path| can_be_started(path))
}

fn can_be_started(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// The paths of all programs that a launch may need.
pub fn all() -> std::io::Result<Programs> {
    Ok(Programs { torch_worker: find("torch-worker").ok(), ..Programs::beside_us()? })
}

/// The capabilities of torch-worker. The worker loads libtorch for this query: about half a second.
pub fn torch_capabilities() -> anyhow::Result<Capabilities> {
    let said = ask_torch_worker(["--capabilities".as_ref()])?;
    Capabilities::from_line(&said)
        .context("torch-worker --capabilities is not of this version; run scripts/setup")
}

/// The shapes of the workload of a launch, for which no memory is needed.
pub fn torch_shapes(spec: &Path) -> anyhow::Result<Shapes> {
    let said = ask_torch_worker(["--shapes".as_ref(), "--spec".as_ref(), spec.as_os_str()])?;
    Shapes::from_line(&said).context("torch-worker --shapes is not of this version; run scripts/setup")
}

/// Runs a query of the worker and returns its output.
fn ask_torch_worker<const N: usize>(arguments: [&OsStr; N]) -> anyhow::Result<String> {
    let program = find("torch-worker")?;
    let mut command = Command::new(&program);
    die_with_us(command.args(arguments));
    let output = output_within(PATIENCE, command).context("torch-worker cannot be started")?;
    let output = output.ok_or_else(|| {
        let waited = PATIENCE.as_secs();
        Exit::Stuck
            .because(format!("torch-worker has not answered for {waited} s; a device's driver may hang"))
    })?;
    let last_line =
        |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().last().map(str::to_owned).unwrap_or_default();
    anyhow::ensure!(
        output.status.success(),
        "torch-worker cannot run here: {}; run scripts/setup, which gets libtorch",
        last_line(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a program to its end and returns its output. A program that exceeds the time limit is killed, and the result is `None`.
/// Its death is not waited for, because it may never come to a process that hangs in a driver.
pub fn output_within(timeout: Duration, command: Command) -> io::Result<Option<Output>> {
    answer_within(timeout, command, "")
}

/// The same for a program that reads its input, which must fit into a pipe.
pub(crate) fn answer_within(
    timeout: Duration,
    mut command: Command,
    input: &str,
) -> io::Result<Option<Output>> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(input.as_bytes()) {
            // It has ended without reading.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            written => written?,
        }
    }
    let pid = Pid::from_child(&child);
    let (sender, receiver) = mpsc::channel();
    let wait = thread::Builder::new().spawn(move || sender.send(child.wait_with_output()));
    if let Err(error) = wait {
        // Nothing would wait for its end, as where no more processes can be started.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
        let _ = waitpid(Some(pid), WaitOptions::empty());
        return Err(error);
    }
    match receiver.recv_timeout(timeout) {
        Ok(output) => output.map(Some),
        Err(_) => {
            // A script may have started others.
            let family = processes::family(pid.as_raw_pid());
            family.into_iter().for_each(|process| process.signal(Signal::KILL));
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_heard_to_its_end_and_one_that_hangs_is_not_waited_for() {
        let mut echo = Command::new("echo");
        echo.arg("said");
        let output = output_within(PATIENCE, echo).unwrap().expect("it ends");
        assert_eq!(output.stdout, b"said\n");

        let mut hangs = Command::new("sleep");
        hangs.arg("1000");
        assert!(output_within(Duration::from_millis(10), hangs).unwrap().is_none());
        assert!(output_within(PATIENCE, Command::new("/nonexistent")).is_err());
    }
}
