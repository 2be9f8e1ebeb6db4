//! One process, read through files that are kept open.

use std::{
    fs::{self, File},
    io,
    os::{fd::AsRawFd, unix::fs::FileExt},
    path::Path,
    sync::OnceLock,
};

use procfs::{FromRead, process::Stat};
use rustix::{
    io::Errno,
    process::{Resource, getrlimit},
};

use super::sharing::{self, Mapped};
use crate::processes::descendants_read;

/// The number of threads of a process beyond which their waiting time is not read: a read takes about a microsecond per thread.
const THREADS_READ_MAX: usize = 64;

/// The number of files that readings leave to the rest of the harness.
const FILES_SPARED: u64 = 16;

/// A process and its last reading.
pub(super) struct Process {
    pid: u32,
    stat: File,
    /// `None` if the process of another user may not be read.
    io_file: Option<File>,
    threads: Threads,
    io: Option<[u64; 2]>,
    pub(super) start_ticks: u64,
    pub(super) parent: u32,
    pub(super) is_zombie: bool,
    pub(super) cpu_ns: u64,
    /// CPU time of children that it waited for, including their own children.
    pub(super) reaped_ns: u64,
    pub(super) rss_bytes: u64,
    /// The part of the resident set that other processes count, as of the last reading of it. Before the first, it is the
    /// resident set with which the process was opened, because a process that was forked has that in common with its parent.
    pub(super) repeated_bytes: u64,
}

impl Process {
    pub(super) fn open(pid: u32) -> io::Result<Process> {
        let stat = open_to_keep(&format!("/proc/{pid}/stat"))?;
        let io_file = match open_to_keep(&format!("/proc/{pid}/io")) {
            Ok(file) => Some(file),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) =>
            {
                None
            }
            Err(error) => return Err(error),
        };
        let mut process = Process {
            pid,
            stat,
            io_file,
            threads: Threads::default(),
            io: None,
            start_ticks: 0,
            parent: 0,
            is_zombie: false,
            cpu_ns: 0,
            reaped_ns: 0,
            rss_bytes: 0,
            repeated_bytes: 0,
        };
        process.refresh_threads();
        process.read()?;
        process.repeated_bytes = process.rss_bytes;
        Ok(process)
    }

    /// Reads the process again. After an error, of which [`has_ended`] tells whether it is the end of the process, the last
    /// values are kept.
    pub(super) fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; 1024];
        let stat = Stat::from_read(text(&self.stat, &mut buffer)?.as_bytes()).map_err(io::Error::other)?;
        let tick_ns = 1_000_000_000 / procfs::ticks_per_second();
        self.start_ticks = stat.starttime;
        self.parent = stat.ppid.try_into().unwrap_or(0);
        self.is_zombie = stat.state == 'Z';
        self.rss_bytes = stat.rss * procfs::page_size();
        self.reaped_ns = (stat.cutime + stat.cstime).max(0) as u64 * tick_ns;
        self.threads.read();
        // Ticks include all threads that ever existed, but are rounded down to 10 ms. Threads are exact, but some ended unseen.
        // Both are lower bounds.
        self.cpu_ns = self.cpu_ns.max((stat.utime + stat.stime) * tick_ns).max(self.threads.run_ns());
        self.io = self.io_file.as_ref().and_then(|file| io(text(file, &mut buffer).ok()?)).or(self.io);
        Ok(())
    }

    /// Looks for new threads.
    pub(super) fn refresh_threads(&mut self) {
        self.threads.refresh(self.pid);
    }

    /// Reads which part of its memory it has in common with others. If the kernel does not give it, all of its memory counts.
    pub(super) fn refresh_mapped(&mut self) -> Option<Mapped> {
        let mapped = Mapped::read(self.pid);
        self.repeated_bytes = mapped.map_or(0, |mapped| mapped.repeated_bytes());
        mapped
    }

    pub(super) fn wait_ns(&self) -> Option<u64> {
        self.threads.wait_ns()
    }

    /// Bytes read and written.
    pub(super) fn io(&self) -> Option<[u64; 2]> {
        self.io
    }
}

/// The values about processes that not every kernel reports in full.
pub fn capabilities() -> [(&'static str, &'static str); 3] {
    let wait = if schedstat_is_live() { "ok" } else { "this kernel keeps no scheduler statistics" };
    let io =
        if Path::new("/proc/self/io").exists() { "ok" } else { "this kernel counts no bytes of a process" };
    [("run_queue_wait_ns", wait), ("read_bytes", io), ("rss_bytes", sharing::capability())]
}

/// The kernel's account of each thread, exact as of the last tick of the scheduler.
#[derive(Default)]
struct Threads {
    alive: Vec<Thread>,
    ended: Times,
    /// Whether some are not read, because there are too many or their files could not be opened.
    is_incomplete: bool,
}

struct Thread {
    tid: u32,
    file: File,
    last: Times,
}

#[derive(Clone, Copy, Default)]
struct Times {
    run_ns: u64,
    wait_ns: u64,
}

impl Threads {
    fn refresh(&mut self, pid: u32) {
        if self.is_incomplete || !schedstat_is_live() {
            return;
        }
        let tids = match read_numbers(&format!("/proc/{pid}/task")) {
            Ok(tids) => tids,
            Err(error) => {
                self.is_incomplete = !has_ended(&error);
                return;
            }
        };
        for tid in tids {
            if self.alive.iter().any(|thread| thread.tid == tid) {
                continue;
            }
            if self.alive.len() == THREADS_READ_MAX {
                self.is_incomplete = true;
                self.alive.clear();
                return;
            }
            match open_to_keep(&format!("/proc/{pid}/task/{tid}/schedstat")) {
                Ok(file) => self.alive.push(Thread { tid, file, last: Times::default() }),
                Err(error) => self.is_incomplete |= !has_ended(&error),
            }
        }
    }

    fn read(&mut self) {
        let ended = &mut self.ended;
        self.alive.retain_mut(|thread| {
            let mut buffer = [0; 128];
            match text(&thread.file, &mut buffer).ok().and_then(times) {
                Some(times) => thread.last = times,
                None => {
                    ended.run_ns += thread.last.run_ns;
                    ended.wait_ns += thread.last.wait_ns;
                    return false;
                }
            }
            true
        });
    }

    fn run_ns(&self) -> u64 {
        self.ended.run_ns + self.alive.iter().map(|thread| thread.last.run_ns).sum::<u64>()
    }

    fn wait_ns(&self) -> Option<u64> {
        let wait = || self.ended.wait_ns + self.alive.iter().map(|thread| thread.last.wait_ns).sum::<u64>();
        (!self.is_incomplete && schedstat_is_live()).then(wait)
    }
}

/// Whether this kernel keeps the account: without scheduler statistics its files do not exist or contain zeros. A running
/// thread has had at least one time slice, although the length of its first is added only later.
fn schedstat_is_live() -> bool {
    static LIVE: OnceLock<bool> = OnceLock::new();
    *LIVE.get_or_init(|| {
        let own = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        own.split_ascii_whitespace().nth(2).is_some_and(|slices| slices != "0")
    })
}

/// `run wait slices`, in nanoseconds.
fn times(text: &str) -> Option<Times> {
    let mut fields = text.split_ascii_whitespace().map_while(|field| field.parse().ok());
    Some(Times { run_ns: fields.next()?, wait_ns: fields.next()? })
}

/// Bytes passed through read and write calls: `rchar` and `wchar`.
fn io(text: &str) -> Option<[u64; 2]> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some([field("rchar:")?, field("wchar:")?])
}

/// The children of a process, from the kernel's list if there is one. Otherwise the parents of all processes are read, and the
/// result includes the processes below the children.
///
/// # Errors
/// Some of the children are not known.
pub(super) fn children_of(pid: u32) -> io::Result<Vec<u32>> {
    static LISTED: OnceLock<bool> = OnceLock::new();
    if *LISTED.get_or_init(|| Path::new("/proc/thread-self/children").exists()) {
        listed_children(pid)
    } else {
        scanned_children(pid)
    }
}

fn listed_children(pid: u32) -> io::Result<Vec<u32>> {
    let mut children = Vec::new();
    for tid in read_numbers(&format!("/proc/{pid}/task"))? {
        match fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")) {
            Ok(list) => {
                children.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()))
            }
            Err(error) if has_ended(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(children)
}

fn scanned_children(pid: u32) -> io::Result<Vec<u32>> {
    let below = descendants_read(pid.try_into().map_err(io::Error::other)?)?;
    Ok(below.into_iter().filter_map(|child| child.pid.try_into().ok()).collect())
}

pub(super) fn stat_of(pid: u32) -> Option<Stat> {
    Stat::from_read(File::open(format!("/proc/{pid}/stat")).ok()?).ok()
}

/// The entries of a folder that are numbers: processes or threads.
pub(super) fn numbers(folder: String) -> impl Iterator<Item = u32> {
    read_numbers(&folder).unwrap_or_default().into_iter()
}

fn read_numbers(folder: &str) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(folder)?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Opens a file that stays open for as long as its process lives.
///
/// # Errors
/// It cannot be opened, or the harness would have too few files left for its other work.
fn open_to_keep(path: &str) -> io::Result<File> {
    let file = File::open(path)?;
    // The kernel gives the lowest number that is free.
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let is_spared = file.as_raw_fd() as u64 + FILES_SPARED >= limit;
    if is_spared { Err(Errno::MFILE.into()) } else { Ok(file) }
}

/// Whether a file in `/proc` could not be read because its process or thread has ended.
pub(super) fn has_ended(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::SRCH))
}

fn text<'a>(file: &File, buffer: &'a mut [u8]) -> io::Result<&'a str> {
    let length = file.read_at(buffer, 0)?;
    if length == 0 {
        return Err(Errno::SRCH.into());
    }
    str::from_utf8(&buffer[..length]).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use front_door::wait_until;

    use super::*;

    #[test]
    fn what_the_kernel_writes_is_read() {
        let parsed = times("118345 77 3\n").unwrap();
        assert_eq!((parsed.run_ns, parsed.wait_ns), (118_345, 77));
        assert!(times("").is_none() && times("12").is_none());
        assert_eq!(io("rchar: 6976\nwchar: 12\nsyscr: 10\nread_bytes: 5\n"), Some([6976, 12]));
        assert_eq!(io("rchar: 6976\n"), None);
    }

    #[test]
    fn both_ways_to_find_children_agree() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let own = std::process::id();
        let scanned = || scanned_children(own).unwrap();
        assert!(scanned().contains(&child.id()));
        if Path::new("/proc/thread-self/children").exists() {
            // The kernel may omit a thread of this process while threads of other tests exit.
            wait_until("it is listed", || listed_children(own).unwrap().contains(&child.id()));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!scanned().contains(&child.id()) && !children_of(own).unwrap().contains(&child.id()));
    }
}
