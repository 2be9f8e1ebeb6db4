//! The harness's end of a leash.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Write},
    net::Shutdown,
    os::{fd::OwnedFd, unix::net::UnixStream as Socket},
    path::{Path, PathBuf},
    process::Stdio,
};

use record::launch_end::RankEnd;
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use schema::device::Device;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::UnixStream,
    process::{Child, Command},
};

use super::{
    CGROUP, CWD, ENV, EXITED, FREEZE, Isolation, KILL, KILL_ROUND, LINK, MARK, REFUSED, SLICE, STARTED,
    TERMINATE, TERMINATED, THAW,
};
use crate::{descriptors, processes::strays};

/// The program of one rank, with its environment and its files.
pub(crate) struct RankCommand {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    /// Variables that the user has chosen.
    pub(crate) users_environment: Vec<(String, OsString)>,
    /// Variables that the harness sets, whatever the user has chosen.
    pub(crate) environment: Vec<(&'static str, OsString)>,
    /// Variables that the rank must not inherit; its environment may set them anew.
    pub(crate) removed: Vec<OsString>,
    /// The folder in which it runs; if absent, the folder of the harness.
    pub(crate) cwd: Option<PathBuf>,
    /// The device that it runs on, or its cores of the host in addition to a GPU.
    pub(crate) device: Device,
    pub(crate) stdin: Stdio,
    /// A link that the leash removes if the harness ends before it.
    pub(crate) link: Option<PathBuf>,
    pub(crate) stdout: PathBuf,
    pub(crate) stderr: PathBuf,
}

/// A report of a leash. `Started`, `Terminated` and `Leaving` come at most once. One of the others is the last: then all processes of the
/// rank have ended.
#[derive(Debug, PartialEq)]
pub(crate) enum RankStatus {
    /// The process id is the program's own.
    Started {
        pid: u32,
    },
    /// All processes of the rank have received the SIGTERM that was ordered.
    Terminated,
    /// The program or its leash has ended, and its remaining processes are being killed.
    Leaving,
    /// The program could not be started.
    Refused {
        why: String,
    },
    Ended(RankEnd),
    /// The leash was killed from outside; its processes have been killed.
    Lost,
}

impl RankStatus {
    pub(crate) fn is_last(&self) -> bool {
        !matches!(self, RankStatus::Started { .. } | RankStatus::Terminated | RankStatus::Leaving)
    }
}

/// A handle to a leash. Dropping it kills the rank and all processes that it started.
pub(crate) struct LeashHandle {
    /// A socket of the standard library. That of tokio refuses to write until it has seen that it may, and an order must not be
    /// lost.
    orders: Socket,
}

/// The source of the leash's reports, of which [`Reports::next`] returns one.
pub(crate) struct Reports {
    lines: tokio::io::Lines<BufReader<UnixStream>>,
    leash: Child,
    leash_pid: i32,
    program_pid: Option<i32>,
    /// Whether the leash was killed from outside.
    is_lost: bool,
}

impl LeashHandle {
    /// Starts `leash` of the program `own`, and through it the rank, which joins what it is to join before its program runs.
    /// Needs a tokio runtime.
    pub(crate) fn start(
        own: &Path,
        isolation: &Isolation,
        rank: RankCommand,
    ) -> io::Result<(LeashHandle, Reports)> {
        let (ours, theirs) = Socket::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = Command::new(own);
        rank.removed.iter().for_each(|name| {
            command.env_remove(name);
        });
        command.arg("leash");
        if let Some(cgroup) = &isolation.cgroup {
            command.arg(CGROUP).arg(cgroup);
        }
        if let Some(slice) = isolation.slice {
            command.arg(SLICE).arg(slice.as_nanos().to_string());
        }
        if let Some(link) = &rank.link {
            command.arg(LINK).arg(link);
        }
        if let Some(cwd) = &rank.cwd {
            command.arg(CWD).arg(cwd);
        }
        let set_by_us = || rank.environment.iter().chain(&isolation.environment).map(|(name, _)| *name);
        for (name, value) in &rank.users_environment {
            if !set_by_us().any(|other| other == name) {
                command.arg(ENV).args([OsStr::new(name), value]);
            }
        }
        command
            .arg(&rank.stdout)
            .arg(rank.device.to_string())
            .arg(&rank.program)
            .args(&rank.arguments)
            .envs(rank.environment)
            .envs(isolation.environment.iter().map(|(name, value)| (name, value)))
            .stdin(rank.stdin)
            .stdout(OwnedFd::from(theirs))
            .stderr(File::create(&rank.stderr)?);
        descriptors::give_back(command.as_std_mut());
        // The command holds the leash's end of the socket. It is dropped here, because an open copy in this process would hide
        // the death of a leash.
        let leash = command.spawn()?;
        drop(command);
        let leash_pid = leash.id().expect("it was not waited for yet") as i32;
        let orders = ours.try_clone()?;
        let lines = BufReader::new(UnixStream::from_std(ours)?).lines();
        Ok((LeashHandle { orders }, Reports { lines, leash, leash_pid, program_pid: None, is_lost: false }))
    }

    /// Requests SIGTERM for all processes of the rank.
    pub(crate) fn terminate(&self) {
        self.order(TERMINATE);
    }

    /// Requests SIGKILL for all processes of the rank, until none is left.
    pub(crate) fn kill(&self) {
        self.order(KILL);
    }

    /// Requests SIGSTOP for all processes of the rank.
    pub(crate) fn freeze(&self) {
        self.order(FREEZE);
    }

    /// Lets the processes that [`LeashHandle::freeze`] has stopped go on.
    pub(crate) fn thaw(&self) {
        self.order(THAW);
    }

    fn order(&self, order: u8) {
        // The socket has room for more orders than are ever given, so this does not block. It fails if the leash has ended,
        // which its reports show.
        let _ = (&self.orders).write_all(&[order]);
    }
}

impl Drop for LeashHandle {
    fn drop(&mut self) {
        // The reports arrive over the same socket, so closing this copy would not be noticed.
        let _ = self.orders.shutdown(Shutdown::Write);
    }
}

impl Reports {
    /// Waits for the next report.
    pub(crate) async fn next(&mut self) -> RankStatus {
        if self.is_lost {
            let _ = self.leash.start_kill();
            let _ = self.leash.wait().await;
            self.kill_strays().await;
            return RankStatus::Lost;
        }
        let line = self.lines.next_line().await.ok().flatten();
        if let Some(line) = line {
            if let Some(pid) = line.strip_prefix(STARTED).and_then(|pid| pid.trim().parse().ok()) {
                self.program_pid = Some(pid as i32);
                return RankStatus::Started { pid };
            }
            if line == TERMINATED {
                return RankStatus::Terminated;
            }
            if line == EXITED {
                return RankStatus::Leaving;
            }
            let last = match line.strip_prefix(REFUSED) {
                Some(why) => Some(RankStatus::Refused { why: why.trim().into() }),
                None => RankEnd::from_line(&line).ok().map(RankStatus::Ended),
            };
            if let Some(last) = last {
                // The leash only has to exit; waiting for it leaves no zombie.
                let _ = self.leash.wait().await;
                return last;
            }
        }
        self.is_lost = true;
        RankStatus::Leaving
    }

    /// Does the work of a leash that was killed. Because the harness is a subreaper, its orphans may have become children of
    /// the harness. They are reaped by process id, because other threads wait for their own children.
    async fn kill_strays(&self) {
        let mark = format!("{MARK}={}", self.leash_pid);
        let mut orphans: Vec<i32> = self.program_pid.into_iter().collect();
        loop {
            let left = strays(self.leash_pid, &mark);
            for stray in &left {
                stray.signal(Signal::KILL);
                orphans.push(stray.pid);
            }
            tokio::time::sleep(KILL_ROUND).await;
            for orphan in orphans.iter().filter_map(|pid| Pid::from_raw(*pid)) {
                let _ = waitpid(Some(orphan), WaitOptions::NOHANG);
            }
            if left.is_empty() {
                return;
            }
        }
    }
}
