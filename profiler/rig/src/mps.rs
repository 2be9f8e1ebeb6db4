//! NVIDIA's Multi-Process Service, by a control daemon of our own for one GPU.
//!
//! A program with the variables of [`Daemon::environment`] becomes a client of the daemon's server when it first uses CUDA, and the
//! kernels of all clients run side by side. CUDA runs a program without the service if the program cannot connect, and reports no
//! error; [`Daemon::clients`] lists the programs that did connect. The daemon runs in the foreground as a child of this process. Its
//! sockets are in a private folder, where no other program looks for them. The kernel kills the daemon when this process ends,
//! and the server ends with the daemon. The settings of the GPU, such as its compute mode, stay as they are.
//!
//! A fault of one client ends the work of all clients with the same error. The server continues to run and accepts new clients. If
//! the server or the daemon is killed, the clients fail with `CUDA_ERROR_MPS_RPC_FAILURE`. Source: driver 580 on an H200, record
//! `20261128-h200`.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    fs::{self, File},
    io::ErrorKind,
    os::unix::{fs::DirBuilderExt as _, net::UnixStream, process::CommandExt as _},
    path::{Path, PathBuf, absolute},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use schema::device::Device;

use crate::{
    device,
    launch::removed_from_environment,
    leash::die_with_us,
    programs::{answer_within, find_in},
};

/// The program that is both the daemon and the way to talk to it.
pub const CONTROL: &str = "nvidia-cuda-mps-control";

/// Folders of the program besides those of PATH: containers mount the driver outside of it.
const FOLDERS: [&str; 3] = ["/usr/bin", "/usr/local/nvidia/bin", "/opt/nvidia/bin"];

/// The socket at which CUDA looks for a daemon if no variable names another. A client that finds a daemon joins it silently.
pub const DEFAULT_SOCKET: &str = "/tmp/nvidia-mps/control";

/// The prefix of our folders, each of which is locked while its daemon runs. One with an unlocked file was left behind.
const PREFIX: &str = "tandem-mps-";
const LOCK: &str = "lock";

/// The name of the daemon's socket, and the longest path of a socket.
const SOCKET: &str = "control_privileged";
const LONGEST_SOCKET: usize = 107;

/// A daemon was seen to listen after 64 ms, to answer within 6 ms, and to quit within 70 ms.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// What a client may use of the GPU. Without a limit it may use all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientLimits {
    /// The percentage of the threads of the GPU. The driver rounds it up to what the hardware supports.
    pub threads_percent: Option<u8>,
    /// Device memory in MiB, the context of about 0.5 GiB included.
    pub memory_mib: Option<u32>,
}

/// Whether a daemon of our own can run here.
///
/// # Errors
/// Returns the reason why it cannot.
pub fn check(devices: &[Device]) -> Result<(), String> {
    check_with(devices, Path::new(DEFAULT_SOCKET))
}

fn check_with(devices: &[Device], default_socket: &Path) -> Result<(), String> {
    if let Some(cores) = devices.iter().find(|device| !matches!(device, Device::Cuda(_))) {
        return Err(format!("mps shares a GPU, and {cores} is not a GPU; write time-slice"));
    }
    let gpus: BTreeSet<&Device> = devices.iter().collect();
    if gpus.len() > 1 {
        return Err(format!("mps shares one GPU, and the members have {}; write time-slice", gpus.len()));
    }
    if is_listening(default_socket) {
        let socket = default_socket.display();
        return Err(format!("another MPS daemon answers at {socket}, which is left alone; end it first"));
    }
    control().map(drop)
}

fn control() -> Result<PathBuf, String> {
    let paths = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&paths).chain(FOLDERS.map(PathBuf::from));
    find_in(folders, CONTROL).ok_or_else(|| {
        format!("there is no {CONTROL} in PATH or {}; it comes with the driver", FOLDERS.join(", "))
    })
}

/// Whether a process listens on a socket. The type of the socket does not matter: without a listener, the kernel refuses the
/// connection before it compares types.
pub fn is_listening(socket: &Path) -> bool {
    match UnixStream::connect(socket) {
        Ok(_) => true,
        Err(error) => !matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::ConnectionRefused
        ),
    }
}

/// A running daemon. It is killed and its folder removed when this is dropped.
#[derive(Debug)]
pub struct Daemon {
    control: PathBuf,
    child: Child,
    folder: Folder,
}

impl Daemon {
    /// Starts a daemon for one GPU and waits until it answers.
    ///
    /// # Errors
    /// The program is not there, ends, or does not answer in time.
    pub fn start(gpu: &Device) -> anyhow::Result<Daemon> {
        let Device::Cuda(index) = gpu else { bail!("mps shares a GPU, and {gpu} is not a GPU") };
        let control = control().map_err(anyhow::Error::msg)?;
        // Clients may have another working folder.
        let folder = Folder::make(&absolute(env::temp_dir())?)?;
        let said = File::create(folder.said())?;
        let mut command = Command::new(&control);
        command.arg("-f").env("CUDA_VISIBLE_DEVICES", device::uuid(*index)?);
        // A limit of the user's for other clients would hold for all of ours.
        for name in removed_from_environment() {
            command.env_remove(name);
        }
        // Ctrl-C is for the harness, which ends the clients first.
        command.envs(folder.environment()).process_group(0);
        command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
        die_with_us(&mut command);
        let child = command.spawn().with_context(|| format!("{} cannot be started", control.display()))?;
        let mut daemon = Daemon { control, child, folder };
        daemon.wait_until_it_answers()?;
        Ok(daemon)
    }

    fn wait_until_it_answers(&mut self) -> anyhow::Result<()> {
        let since = Instant::now();
        loop {
            self.check_that_it_runs()?;
            if self.folder.path.join(SOCKET).exists() && self.ask("get_server_list").is_ok() {
                return Ok(());
            }
            ensure!(since.elapsed() < PATIENCE, "{CONTROL} -f does not answer after {PATIENCE:?}");
            thread::sleep(PAUSE);
        }
    }

    /// The variables that make a program a client.
    pub fn environment(&self, limits: ClientLimits) -> Vec<(&'static str, OsString)> {
        let threads = limits.threads_percent.map(|percent| percent.to_string());
        // A client sees one GPU, which is its first.
        let memory = limits.memory_mib.map(|mib| format!("0={mib}M"));
        let limits = [
            ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", threads.map(OsString::from)),
            ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", memory.map(OsString::from)),
        ];
        let limits = limits.into_iter().filter_map(|(name, value)| Some((name, value?)));
        self.folder.environment().into_iter().chain(limits).collect()
    }

    /// The processes that are clients now.
    ///
    /// # Errors
    /// The daemon has ended or does not answer.
    pub fn clients(&mut self) -> anyhow::Result<BTreeSet<u32>> {
        let mut clients = BTreeSet::new();
        for server in numbers(&self.ask("get_server_list")?) {
            clients.extend(numbers(&self.ask(&format!("get_client_list {server}"))?));
        }
        Ok(clients)
    }

    /// Makes the daemon quit, after its clients have ended, and removes its folder.
    ///
    /// # Errors
    /// The daemon had ended before, or had to be killed.
    pub fn quit(mut self) -> anyhow::Result<()> {
        self.ask("quit")?;
        let since = Instant::now();
        while self.child.try_wait()?.is_none() {
            ensure!(
                since.elapsed() < PATIENCE,
                "the MPS daemon did not quit within {PATIENCE:?}, and was killed"
            );
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn check_that_it_runs(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.child.try_wait()? else { return Ok(()) };
        bail!("the MPS daemon has ended by itself ({status}): {}", self.folder.last_words())
    }

    /// The daemon's answer to a command.
    fn ask(&mut self, text: &str) -> anyhow::Result<String> {
        let mut command = Command::new(&self.control);
        command.envs(self.folder.environment()).process_group(0);
        die_with_us(&mut command);
        let output = answer_within(PATIENCE, command, &format!("{text}\n"))
            .with_context(|| format!("{} cannot be started", self.control.display()))?
            .with_context(|| format!("the MPS daemon has not answered '{text}' for {PATIENCE:?}"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let why = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            self.check_that_it_runs()?;
        }
        ensure!(
            output.status.success(),
            "the MPS daemon refused '{text}': {}",
            format!("{said}{why}").trim()
        );
        Ok(said)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // After a regular end there is nothing left to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn numbers(lines: &str) -> Vec<u32> {
    lines.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// The folder of the daemon's sockets and its log, which is removed when this is dropped.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    fn make(parent: &Path) -> anyhow::Result<Folder> {
        sweep(parent);
        let path = (0..)
            .map(|number| parent.join(format!("{PREFIX}{}-{number}", std::process::id())))
            .find(|path| !path.exists())
            .expect("some number is free");
        let longest = path.join(SOCKET);
        ensure!(
            longest.as_os_str().len() <= LONGEST_SOCKET,
            "{} is too long for a socket; set TMPDIR to a shorter folder",
            longest.display()
        );
        fs::DirBuilder::new().mode(0o700).create(&path).with_context(|| path.display().to_string())?;
        // The file is locked before it has its name, so that no other process takes a new folder for one that was left behind.
        let unnamed = path.join("new");
        let lock = File::create_new(&unnamed)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(&unnamed, path.join(LOCK))?;
        Ok(Folder { path, _lock: lock })
    }

    fn environment(&self) -> Vec<(&'static str, OsString)> {
        ["CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"]
            .map(|name| (name, self.path.clone().into_os_string()))
            .into()
    }

    /// The file of the daemon's output. In the foreground it logs there.
    fn said(&self) -> PathBuf {
        self.path.join("said")
    }

    fn last_words(&self) -> String {
        let said = fs::read_to_string(self.said()).unwrap_or_default();
        said.trim().lines().next_back().unwrap_or("it said nothing").into()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next process.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes folders whose process was killed.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let Some(lock) = is_ours.then(|| File::open(entry.path().join(LOCK)).ok()).flatten() else {
            continue;
        };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixListener};

    use rustix::fs::{CWD, FileType, Mode};

    use super::*;

    #[test]
    fn a_listener_is_found_whatever_its_socket_and_a_stale_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let [stream, datagram, stale] = ["stream", "datagram", "stale"].map(|name| dir.path().join(name));
        let _listener = UnixListener::bind(&stream).unwrap();
        let _other_kind = UnixDatagram::bind(&datagram).unwrap();
        // A listener that is bound and dropped can live on for a moment in a child of another test.
        rustix::fs::mknodat(CWD, &stale, FileType::Socket, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let gpus = [Device::Cuda(1), Device::Cuda(1)];
        for (socket, expected) in
            [(stream, true), (datagram, true), (stale, false), (dir.path().join("missing"), false)]
        {
            assert_eq!(is_listening(&socket), expected, "{}", socket.display());
            let refused = check_with(&gpus, &socket).err().unwrap_or_default();
            let why = format!("another MPS daemon answers at {}, which is left alone", socket.display());
            assert_eq!(refused.starts_with(&why), expected, "{refused}");
        }
    }

    #[test]
    fn devices_other_than_one_gpu_are_refused() {
        for (devices, why) in [
            (
                [Device::Cuda(0), Device::Cpu(vec![3])],
                "mps shares a GPU, and cpu:3 is not a GPU; write time-slice",
            ),
            (
                [Device::Cuda(0), Device::Cuda(1)],
                "mps shares one GPU, and the members have 2; write time-slice",
            ),
        ] {
            assert_eq!(check(&devices), Err(why.into()));
        }
    }

    #[test]
    fn a_folder_has_no_room_for_a_socket_below_a_long_one() {
        let dir = tempfile::tempdir().unwrap();
        let long = dir.path().join("x".repeat(100));
        let error = Folder::make(&long).unwrap_err().to_string();
        assert!(
            error.ends_with("control_privileged is too long for a socket; set TMPDIR to a shorter folder"),
            "{error}"
        );
        let folders = [Folder::make(dir.path()).unwrap(), Folder::make(dir.path()).unwrap()];
        assert!(folders.iter().all(|folder| folder.path.exists()), "the second left the first alone");
    }
}
