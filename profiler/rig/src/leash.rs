//! The leash: a process between the harness and each rank, so that `kill -9` of the harness leaves no process behind.
//!
//! A parent-death signal reaches only the direct child; data loaders, shells and daemons outlive it. The leash is a subreaper,
//! so all processes that its program ever starts stay below it, whatever they fork and whatever session they move to. It holds
//! one end of a socket, and the harness holds the other. When the harness ends for any reason, the kernel closes that end, and
//! the leash kills all processes below it until none is left. The same happens to processes that the program leaves behind when
//! it exits. An idle leash is blocked in the kernel and costs no time.
//!
//! The guarantees depend on the process that is killed with SIGKILL:
//!
//! * the harness: the leash kills the tree, whatever it does;
//! * the leash: the program dies by its parent-death signal, and the harness looks for the rest by
//!   session and by the mark in their environment, as Jenkins' `ProcessTreeKiller` does. A
//!   descendant escapes that both left the session and cleared its environment;
//! * both at the same instant: the program dies, and its own children live on. `pkill profile`
//!   does not do this: a leash goes by another name, in a session of its own.

mod children;
mod frozen;
mod handle;
mod spared;

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Read, Write},
    os::{
        fd::AsFd,
        unix::{net::UnixStream, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::Context;
use record::launch_end::RankEnd;
use rustix::{
    process::{
        Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, set_child_subreaper,
        set_parent_process_death_signal, setsid,
    },
    thread::{CpuSet, sched_setaffinity},
};
use schema::{device::Device, units::Nanos};

use self::{children::usage_of_children, frozen::Frozen, spared::Spared};
use crate::{descriptors, limits, processes::descendants, slices};
pub(crate) use handle::{LeashHandle, RankCommand, RankStatus, Reports};

/// The environment variable by which the strays of a leash are found. It holds the process id of the leash.
const MARK: &str = "TANDEM_LEASH";

/// What a rank joins before its program runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Isolation {
    /// The directory of a cgroup.
    pub cgroup: Option<PathBuf>,
    /// The length of time slices that it requests from the kernel's scheduler.
    pub slice: Option<Duration>,
    /// Variables of its environment.
    pub environment: Vec<(&'static str, OsString)>,
}

/// The orders of the harness, one byte each. The end of file is an order for [`KILL`].
const TERMINATE: u8 = b't';
const KILL: u8 = b'k';
const FREEZE: u8 = b'f';
const THAW: u8 = b'c';

/// The first word of the first line of a leash if the program runs; its process id follows.
const STARTED: &str = "started";
/// The first word if the program could not be started; the reason follows.
const REFUSED: &str = "refused";
/// The program has ended and left processes behind, which are being killed. The last line is the [`RankEnd`] as JSON.
const EXITED: &str = "exited";
/// The order to terminate was carried out: all processes have received SIGTERM.
const TERMINATED: &str = "terminated";

/// The pause between two rounds of killing. A process that forks as fast as it can loses: after each round, only processes that
/// were started within it are left.
const KILL_ROUND: Duration = Duration::from_millis(5);

/// The number of rounds after which every process that can die is dead. A process that is left waits in the kernel, and each
/// search for it costs time: from then on there is a round every `SLOW_ROUND`.
const KILL_ROUNDS: u32 = 1000;
const SLOW_ROUND: Duration = Duration::from_secs(1);

/// Precedes the other arguments if the program belongs in a cgroup; its directory follows.
const CGROUP: &str = "--cgroup";

/// Follows it if the program requests time slices of a length; nanoseconds follow.
const SLICE: &str = "--slice-ns";

/// Follows it if a link is to be removed when the harness has ended first; its path follows.
const LINK: &str = "--link";

/// Follows it if the program runs in another folder than the harness; the folder follows.
const CWD: &str = "--cwd";

/// Precedes a variable of the program, repeated for each variable; the name and the value follow. The leash does not set these
/// variables for itself, because the dynamic linker would obey them there.
const ENV: &str = "--env";

/// `leash [--cgroup DIRECTORY] [--slice-ns NS] [--link PATH] [--cwd FOLDER] [--env NAME VALUE].. STDOUT DEVICE PROGRAM ARGUMENT...`: runs
/// a program until it ends or the harness does.
///
/// File descriptors: 0 becomes the program's stdin, 1 is the socket to the harness, 2 becomes the
/// program's stderr. `STDOUT` is the file for its stdout. `DEVICE` binds it to cores if it is a set of cores.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match lead(&arguments.into_iter().collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leash: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn lead(arguments: &[OsString]) -> anyhow::Result<()> {
    let (cgroup, arguments) = match arguments {
        [option, directory, rest @ ..] if option == CGROUP => (Some(Path::new(directory)), rest),
        _ => (None, arguments),
    };
    let (slice, arguments) = match arguments {
        [option, ns, rest @ ..] if option == SLICE => {
            (Some(ns.to_str().context("a slice is no text")?.parse().context("a slice in ns")?), rest)
        }
        _ => (None, arguments),
    };
    let (link, arguments) = match arguments {
        [option, path, rest @ ..] if option == LINK => (Some(Path::new(path)), rest),
        _ => (None, arguments),
    };
    let (cwd, arguments) = match arguments {
        [option, folder, rest @ ..] if option == CWD => (Some(Path::new(folder)), rest),
        _ => (None, arguments),
    };
    let (mut variables, mut arguments) = (Vec::new(), arguments);
    while let [option, name, value, rest @ ..] = arguments
        && option == ENV
    {
        variables.push((name, value));
        arguments = rest;
    }
    let [stdout, device, program, arguments @ ..] = arguments else {
        anyhow::bail!(
            "usage: leash [{CGROUP} DIRECTORY] [{SLICE} NS] [{LINK} PATH] [{CWD} FOLDER] [{ENV} NAME VALUE].. STDOUT DEVICE PROGRAM \
             ARGUMENT...; the harness starts this"
        )
    };
    // A signal to all programs with the harness's name then spares the leashes, which clean up after it.
    rustix::thread::set_name(c"leash")?;
    // The leash leaves the terminal's session: Ctrl-C is for the harness, which ends its launches in order.
    setsid().context("setsid")?;
    set_child_subreaper(Some(getpid())).context("set_child_subreaper")?;
    let harness = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    let began = Nanos::monotonic_now();
    let started = cgroup
        .map_or(Ok(()), join)
        .and_then(|()| slice.map_or(Ok(()), |ns| slices::take(Duration::from_nanos(ns))))
        .and_then(|()| start(stdout.as_ref(), device, (cwd, &variables), (program, arguments)));
    let (was_told, spared) = (Arc::new(AtomicBool::new(false)), Arc::new(Spared::default()));
    let started = started.and_then(|child| {
        let program = Pid::from_child(&child);
        listen(harness.try_clone()?, program, was_told.clone(), spared.clone()).or_else(|error| {
            end_refused(child)?;
            Err(error)
        })?;
        Ok(program)
    });
    let program = match started {
        Ok(program) => program,
        Err(error) => return Ok(report(&harness, &format!("{REFUSED} {}", limits::told(&error)))?),
    };
    let _ = report(&harness, &format!("{STARTED} {}", program.as_raw_nonzero()));
    let mut end = wait_for(program)?;
    // The leash sends these two, and a program that is exiting may still receive them.
    let by_ours = [Signal::TERM, Signal::KILL].iter().any(|ours| end.signal == Some(ours.as_raw()));
    end.by_itself = !by_ours && !was_told.load(Ordering::SeqCst);
    end.began_mono_ns = Some(began.0);
    end.wall_ns = Some((Nanos::monotonic_now() - began).0);
    if was_told.load(Ordering::SeqCst) {
        // A shell ends at once by SIGTERM, and its child may still save its work. The harness orders a kill after the grace period.
        wait_for_leftovers(&spared)?;
    }
    end_leftovers(&harness)?;
    let usage = usage_of_children()?;
    (end.cpu_ns, end.rss_peak_bytes) = (Some(usage.cpu_ns), Some(usage.rss_peak_bytes));
    // A harness that has ended does not read it, and can no longer remove what it has made.
    if report(&harness, &end.to_line()).is_err()
        && let Some(link) = link.filter(|link| link.is_symlink())
    {
        fs::remove_file(link).with_context(|| link.display().to_string())?;
    }
    Ok(())
}

/// Sends a line to the harness. It is one write, because the thread for orders sends lines, too.
fn report(mut harness: &UnixStream, line: &str) -> io::Result<()> {
    harness.write_all(format!("{line}\n").as_bytes())
}

/// Joins a cgroup. Processes that the leash starts later inherit it, and the sleeping leash takes no CPU time from them.
fn join(cgroup: &Path) -> anyhow::Result<()> {
    // The kernel takes 0 for the process that writes it.
    fs::write(cgroup.join("cgroup.procs"), "0").with_context(|| format!("cannot join {}", cgroup.display()))
}

/// Starts the program, bound to its cores, in a process group of its own.
fn start(
    stdout: &Path,
    device: &OsStr,
    (cwd, variables): (Option<&Path>, &[(&OsString, &OsString)]),
    (program, arguments): (&OsStr, &[OsString]),
) -> anyhow::Result<Child> {
    let stdout = File::options()
        .append(true)
        .create(true)
        .open(stdout)
        .with_context(|| format!("cannot write {}", stdout.display()))?;
    let device: Device = device.to_str().context("the device is no text")?.parse()?;
    if let Device::Cpu(cores) = &device {
        // The leash binds itself, because its program inherits the set, and the leash has no other work.
        let mut set = CpuSet::new();
        cores.iter().for_each(|core| set.set(usize::from(*core)));
        sched_setaffinity(None, &set)
            .with_context(|| format!("cannot run on {device}; `profile doctor` lists the cores there are"))?;
    }
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::inherit())
        .stdout(stdout)
        .stderr(Stdio::inherit())
        .envs(variables.iter().copied())
        .env(MARK, getpid().as_raw_nonzero().to_string())
        .process_group(0);
    if let Some(cwd) = cwd {
        // A relative path of the program counts from this folder, too.
        command.current_dir(cwd);
    }
    die_with_us(&mut command);
    let child = command.spawn().with_context(|| format!("cannot start {}", Path::new(program).display()))?;
    // The end of its stdin is between the harness and the program.
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(child)
}

/// Makes the kernel kill the command's program when the thread that starts it ends, which is also when this process ends.
/// Processes that the program starts in turn are not killed; that is what a leash is for. The program has the limit of open files
/// of the user.
pub fn die_with_us(command: &mut Command) {
    let us = getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent died before the line above, there is no signal.
        if getppid() == Some(us) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
    };
    #[expect(unsafe_code, reason = "the signal must be set between fork and exec")]
    // SAFETY: two system calls, both safe in a signal handler, and no allocation.
    unsafe {
        command.pre_exec(tie);
    }
    descriptors::give_back(command);
}

/// Starts the thread that executes the orders of the harness.
fn listen(
    orders: UnixStream,
    program: Pid,
    was_told: Arc<AtomicBool>,
    spared: Arc<Spared>,
) -> anyhow::Result<()> {
    let thread = thread::Builder::new().name("orders".into());
    thread
        .spawn(move || obey(orders, program, (&was_told, &spared)))
        .context("cannot start a thread of the leash")?;
    Ok(())
}

/// Ends a program that nothing could stop later.
fn end_refused(mut child: Child) -> io::Result<()> {
    child.kill()?;
    child.wait().map(drop)
}

/// Executes the orders of the harness until the harness ends; never returns. Records whether the program was ordered to end
/// before it ended by itself.
fn obey(mut orders: UnixStream, program: Pid, (was_told, spared): (&AtomicBool, &Spared)) {
    let root = getpid().as_raw_nonzero().get();
    let mut frozen = Frozen::default();
    let mut order = [KILL];
    loop {
        let asked = orders.read(&mut order).unwrap_or(0);
        if asked == 1 && order[0] == FREEZE {
            frozen.freeze_below(root);
            continue;
        }
        if asked == 1 && order[0] == THAW {
            frozen.thaw();
            continue;
        }
        if asked == 1 && order[0] == TERMINATE {
            let mut all = descendants(root);
            spared.take_from(&mut all);
            let program = all.iter().find(|process| process.pid == program.as_raw_nonzero().get());
            // The program could begin to exit between the check and the signal, so it is stopped first.
            if program.is_some_and(|program| program.stop()) {
                was_told.store(true, Ordering::SeqCst);
            }
            all.iter().for_each(|process| process.signal(Signal::TERM));
            program.iter().for_each(|program| program.signal(Signal::CONT));
            frozen.thaw();
            // A harness that has ended is noticed by the next read.
            let _ = report(&orders, TERMINATED);
            continue;
        }
        // When killed children are reaped, the main thread continues, and ends this process when none is left.
        let mut round = 0;
        loop {
            kill_all_below(root, round);
            round = round.saturating_add(1);
        }
    }
}

/// One round of killing, and the pause after it.
fn kill_all_below(root: i32, round: u32) {
    descendants(root).into_iter().for_each(|process| process.signal(Signal::KILL));
    thread::sleep(if round < KILL_ROUNDS { KILL_ROUND } else { SLOW_ROUND });
}

/// Waits for the program, and reaps the processes that it orphans meanwhile.
fn wait_for(program: Pid) -> io::Result<RankEnd> {
    loop {
        let reaped = rustix::io::retry_on_intr(|| rustix::process::wait(WaitOptions::empty()))?;
        if let Some((pid, status)) = reaped
            && pid == program
        {
            return Ok(rank_end(status));
        }
    }
}

fn rank_end(status: WaitStatus) -> RankEnd {
    RankEnd { exit_code: status.exit_status(), signal: status.terminating_signal(), ..RankEnd::default() }
}

/// Reaps the processes that the program left behind, until the last of them has ended.
fn wait_for_leftovers(spared: &Spared) -> io::Result<()> {
    loop {
        spared.end_orphans();
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CHILD) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills and reaps the processes that the program left behind, daemons included, and reports if there were any.
fn end_leftovers(harness: &UnixStream) -> io::Result<()> {
    let root = getpid().as_raw_nonzero().get();
    let mut round = 0;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => {
                if round == 0 {
                    let _ = report(harness, EXITED);
                }
                kill_all_below(root, round);
                round = round.saturating_add(1);
            }
            Err(rustix::io::Errno::CHILD) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
