//! Moves all device memory of a process to the memory of the host and back, by NVIDIA's program `cuda-checkpoint`
//! (github.com/NVIDIA/cuda-checkpoint).
//!
//! The program is closed and belongs to the driver. A process whose checkpoint failed may be unusable. All of this was tested with a
//! stand-in for the program, and has not run on a GPU.

use std::{
    ffi::OsStr,
    fmt,
    os::unix::process::CommandExt as _,
    path::Path,
    process::Command,
    sync::mpsc::{self, Receiver, TryRecvError},
    thread,
    time::Duration,
};

use schema::{device::Device, units::Nanos};

use crate::{
    device,
    leash::die_with_us,
    mps,
    programs::{is_there, output_within},
};

/// The name of the program, which has to be in PATH.
pub const PROGRAM: &str = "cuda-checkpoint";

/// The first driver whose program has single actions. Earlier ones can only toggle.
const FIRST_DRIVER: u32 = 570;

/// The time in which calls of CUDA that are under way have to end, or else the process is not locked.
const LOCKS_WITHIN: Duration = Duration::from_secs(10);

/// The time after which an action is given up. About 5 GB/s were reported, so that 80 GB take 15 s.
const PATIENCE: Duration = Duration::from_secs(120);

/// One action of the program on a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CudaAction {
    /// Blocks calls of CUDA and lets the work on the device end.
    Lock,
    /// Moves the memory of the device to that of the host, and releases the device. The process is locked.
    Checkpoint,
    /// Moves it back, to the same addresses.
    Restore,
    /// Lets calls of CUDA go on.
    Unlock,
}

impl fmt::Display for CudaAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CudaAction::Lock => "lock",
            CudaAction::Checkpoint => "checkpoint",
            CudaAction::Restore => "restore",
            CudaAction::Unlock => "unlock",
        })
    }
}

/// Whether the program can suspend jobs on these devices.
///
/// # Errors
/// Returns the reason why it cannot. Devices that MIG has divided are refused when they are opened.
pub fn check(devices: &[Device]) -> Result<(), String> {
    check_with(
        devices,
        device::driver_version().as_deref(),
        is_there(PROGRAM),
        Path::new(mps::DEFAULT_SOCKET),
    )
}

fn check_with(
    devices: &[Device],
    driver: Option<&str>,
    is_in_path: bool,
    mps_pipe: &Path,
) -> Result<(), String> {
    if let Some(cores) = devices.iter().find(|device| !matches!(device, Device::Cuda(_))) {
        return Err(format!("{PROGRAM} moves the memory of GPUs, and {cores} is not a GPU"));
    }
    if devices.is_empty() {
        return Err(format!("{PROGRAM} moves the memory of GPUs, and none can be opened here"));
    }
    if !is_in_path {
        return Err(format!("there is no {PROGRAM} in PATH; it is at github.com/NVIDIA/cuda-checkpoint"));
    }
    let number = driver.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    if number.is_none_or(|number| number < FIRST_DRIVER) {
        let found = driver.unwrap_or("unknown");
        return Err(format!(
            "single actions of {PROGRAM} need driver {FIRST_DRIVER} or newer, and it is {found}"
        ));
    }
    if mps_pipe.exists() {
        let pipe = mps_pipe.display();
        return Err(format!(
            "a server of MPS runs ({pipe}), and {PROGRAM} is not known to work on its clients"
        ));
    }
    Ok(())
}

/// Actions on a process, which are done one after the other in the background.
#[derive(Debug)]
pub struct Switching(Receiver<Switched>);

/// The time of each action, from the start of the program to its end, or the reason why one failed. The actions after it were not done.
pub type Switched = Result<Vec<(CudaAction, Nanos)>, String>;

/// Moves the memory of a process off its device. It must rest.
pub fn suspend(pid: u32) -> Switching {
    Switching::begin(PROGRAM.as_ref(), &[CudaAction::Lock, CudaAction::Checkpoint], pid, PATIENCE)
}

/// Moves it back.
pub fn resume(pid: u32) -> Switching {
    Switching::begin(PROGRAM.as_ref(), &[CudaAction::Restore, CudaAction::Unlock], pid, PATIENCE)
}

impl Switching {
    fn begin(program: &OsStr, actions: &'static [CudaAction], pid: u32, timeout: Duration) -> Switching {
        let (sender, receiver) = mpsc::channel();
        let program = program.to_owned();
        // The kernel kills the program when this thread ends, so that it does not outlive the harness.
        thread::spawn(move || {
            let done = actions.iter().map(|action| Ok((*action, act(&program, *action, pid, timeout)?)));
            // A job that has ended meanwhile has no receiver any more.
            let _ = sender.send(done.collect());
        });
        Switching(receiver)
    }

    /// The result, if there is one yet.
    pub fn poll(&self) -> Option<Switched> {
        match self.0.try_recv() {
            Ok(switched) => Some(switched),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(format!("{PROGRAM} was not waited for"))),
        }
    }
}

/// Runs the program once.
fn act(program: &OsStr, action: CudaAction, pid: u32, timeout: Duration) -> Result<Nanos, String> {
    let mut command = Command::new(program);
    command.args(["--action", &action.to_string(), "--pid", &pid.to_string()]);
    if action == CudaAction::Lock {
        command.args(["--timeout", &LOCKS_WITHIN.as_millis().to_string()]);
    }
    // Ctrl-C is for the harness, which ends its jobs in order.
    command.process_group(0);
    die_with_us(&mut command);
    let what = format!("{PROGRAM} --action {action}");
    let began = Nanos::monotonic_now();
    let output = output_within(timeout, command).map_err(|error| format!("{what}: {error}"))?;
    let Some(output) = output else {
        return Err(format!("{what} has not ended after {}", Nanos::from(timeout)));
    };
    let took = Nanos::monotonic_now() - began;
    if output.status.success() {
        return Ok(took);
    }
    let last_line = |bytes: &[u8]| String::from_utf8_lossy(bytes).lines().last().map(str::to_owned);
    let said = last_line(&output.stderr).or_else(|| last_line(&output.stdout)).unwrap_or_default();
    Err(format!("{what} failed ({}): {said}", output.status))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use front_door::{executable, wait_for};

    use super::*;

    /// A stand-in for the program, which writes its arguments to `calls`. Returns its folder, its path and that of `calls`.
    fn stand_in(then: &str) -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (program, calls) = (folder.path().join(PROGRAM), folder.path().join("calls"));
        executable(&program, &format!("#!/bin/sh\necho \"$@\" >> {}\n{then}\n", calls.display()));
        (folder, program, calls)
    }

    fn wait(switching: &Switching) -> Switched {
        wait_for("it has ended", || switching.poll().ok_or(()))
    }

    #[test]
    fn actions_are_done_in_order_and_timed() {
        let (_folder, program, calls) = stand_in("sleep 0.05");
        for actions in
            [&[CudaAction::Lock, CudaAction::Checkpoint], &[CudaAction::Restore, CudaAction::Unlock]]
        {
            let took = wait(&Switching::begin(program.as_os_str(), actions, 7, PATIENCE)).unwrap();
            assert!(took.iter().all(|(_, took)| *took >= Nanos(50_000_000)), "{took:?}");
            assert!(took.iter().map(|(action, _)| *action).eq(*actions));
        }
        let expected = "--action lock --pid 7 --timeout 10000\n--action checkpoint --pid 7\n--action restore --pid 7\n--action unlock --pid 7\n";
        assert_eq!(fs::read_to_string(calls).unwrap(), expected);
    }

    #[test]
    fn an_action_that_fails_is_the_last_and_says_why() {
        let (_folder, program, calls) =
            stand_in("test $2 = lock || { echo busy; echo no room >&2; exit 3; }");
        let both = &[CudaAction::Lock, CudaAction::Checkpoint];
        let why = wait(&Switching::begin(program.as_os_str(), both, 7, PATIENCE)).unwrap_err();
        assert_eq!(why, "cuda-checkpoint --action checkpoint failed (exit status: 3): no room");
        let none = wait(&Switching::begin("/nonexistent".as_ref(), both, 7, PATIENCE)).unwrap_err();
        assert!(none.starts_with("cuda-checkpoint --action lock: "), "{none}");
        let (_other, hangs, _) = stand_in("exec sleep 1000");
        let late = wait(&Switching::begin(hangs.as_os_str(), both, 7, Duration::from_millis(200)));
        assert_eq!(late.unwrap_err(), "cuda-checkpoint --action lock has not ended after 200 ms");
        assert_eq!(fs::read_to_string(calls).unwrap().lines().count(), 2);
    }

    #[test]
    fn what_it_needs_is_said_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("control");
        let gpus = [Device::Cuda(0), Device::Cuda(1)];
        let check = |devices: &[Device], driver, is_in_path| check_with(devices, driver, is_in_path, &pipe);
        assert_eq!(check(&gpus, Some("570.86.10"), true), Ok(()));
        assert_eq!(check(&gpus, Some("580"), true), Ok(()));
        let mixed = [Device::Cuda(0), Device::Cpu(vec![3])];
        for (devices, driver, is_in_path, why) in [
            (&mixed[..], Some("580"), true, "moves the memory of GPUs, and cpu:3 is not a GPU"),
            (&[], Some("580"), true, "moves the memory of GPUs, and none can be opened here"),
            (&gpus, Some("580"), false, "there is no cuda-checkpoint in PATH"),
            (&gpus, Some("565.57.01"), true, "need driver 570 or newer, and it is 565.57.01"),
            (&gpus, None, true, "need driver 570 or newer, and it is unknown"),
        ] {
            let found = check(devices, driver, is_in_path).unwrap_err();
            assert!(found.contains(why), "{found}");
        }
        fs::write(&pipe, "").unwrap();
        assert!(check(&gpus, Some("580"), true).unwrap_err().contains("a server of MPS runs ("));
    }
}
