//! Cgroups that this process creates and removes, one per member.
//!
//! They are in one directory, so that the members divide among themselves what the group gets as a whole. The kernel has two
//! interfaces. In version 1, any group may have child groups. In version 2, a group with processes cannot distribute anything
//! to child groups, so the directory is created beside the cgroup of this process, or in the nearest ancestor that already
//! distributes CPU time. Settings of cgroups that others created are never changed.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use procfs::process::{MountInfo, Process};
use rig::cgroup::directory_in;
use rustix::fs::{FlockOperation, flock};
use schema::units::Nanos;

/// The prefix of the names of these directories. Each directory is locked while its group lives; one without a lock was left
/// behind.
const PREFIX: &str = "tandem-";

/// The largest weight, which is that of version 2.
pub(super) const LARGEST: u32 = 10_000;

/// The time within which the kernel releases a process from its cgroup after its parent was notified of its end.
const LETTING_GO: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

/// Directories of cgroups that are removed when this is dropped.
pub(super) struct Groups {
    seats: Vec<PathBuf>,
    all: PathBuf,
    _lock: File,
}

impl Groups {
    /// Creates one directory for each of these weights.
    pub(super) fn make(weights: &[u32]) -> anyhow::Result<Groups> {
        Groups::at(&ParentGroup::find()?, weights)
    }

    fn at(within: &ParentGroup, weights: &[u32]) -> anyhow::Result<Groups> {
        let context = |path: &Path| path.display().to_string();
        let parent = File::open(&within.path).with_context(|| context(&within.path))?;
        // The lock comes first, so that no other process mistakes a new directory for one that was left behind.
        flock(&parent, FlockOperation::LockExclusive).with_context(|| context(&within.path))?;
        sweep(&within.path);
        let name = format!("{PREFIX}{}-{:x}", std::process::id(), Nanos::monotonic_now().0);
        let all = within.path.join(name);
        fs::create_dir(&all).with_context(|| context(&all))?;
        let lock = File::open(&all).with_context(|| context(&all))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).with_context(|| context(&all))?;
        let mut made = Groups { seats: Vec::new(), all, _lock: lock };
        within.version.share_out_below(&made.all)?;
        for (seat, weight) in within.version.scaled(weights).into_iter().enumerate() {
            let group = made.all.join(seat.to_string());
            fs::create_dir(&group).with_context(|| context(&group))?;
            made.seats.push(group.clone());
            write(&group.join(within.version.weight_file()), &weight.to_string())?;
        }
        within.check_that_processes_may_move()?;
        Ok(made)
    }

    pub(super) fn seat(&self, seat: usize) -> Option<PathBuf> {
        self.seats.get(seat).cloned()
    }

    pub(super) fn remove(&self) -> anyhow::Result<()> {
        for group in self.seats.iter().chain([&self.all]) {
            remove(group).with_context(|| format!("cannot remove {}", group.display()))?;
        }
        Ok(())
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        // After a regular removal nothing is left. What cannot be removed now is removed by the next process.
        let _ = self.remove();
    }
}

/// The group of the kernel in which ours are made.
struct ParentGroup {
    path: PathBuf,
    version: Version,
}

/// A version of the kernel's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    fn weight_file(self) -> &'static str {
        match self {
            Version::One => "cpu.shares",
            Version::Two => "cpu.weight",
        }
    }

    /// Weights in the same proportions, as large as the kernel accepts. It rounds, and version 1 accepts none below 2.
    fn scaled(self, weights: &[u32]) -> Vec<u32> {
        let most = match self {
            Version::One => 262_144,
            Version::Two => LARGEST,
        };
        let factor = most / weights.iter().copied().max().unwrap_or(1);
        weights.iter().map(|weight| weight * factor).collect()
    }

    fn share_out_below(self, group: &Path) -> anyhow::Result<()> {
        match self {
            Version::One => Ok(()),
            Version::Two => write(&group.join("cgroup.subtree_control"), "+cpu"),
        }
    }
}

impl ParentGroup {
    fn find() -> anyhow::Result<ParentGroup> {
        let own = Process::myself()?;
        let (groups, mounts) = (own.cgroups()?, own.mountinfo()?);
        let mount = |kind: &str, option: Option<&str>| {
            let wanted = |mount: &&MountInfo| {
                mount.fs_type == kind && option.is_none_or(|name| mount.super_options.contains_key(name))
            };
            mounts.iter().find(wanted)
        };
        let of_first = groups.0.iter().find(|group| group.controllers.iter().any(|name| name == "cpu"));
        if let (Some(group), Some(mount)) = (of_first, mount("cgroup", Some("cpu"))) {
            return Ok(ParentGroup { path: directory_in(mount, &group.pathname), version: Version::One });
        }
        let of_second = groups.0.iter().find(|group| group.hierarchy == 0);
        let (Some(group), Some(mount)) = (of_second, mount("cgroup2", None)) else {
            anyhow::bail!("none are mounted")
        };
        let path = directory_in(mount, &group.pathname);
        let mut above = path.ancestors().take_while(|path| path.starts_with(&mount.mount_point));
        let found = above.find(|path| shares_out_cpu(path));
        let path = found.with_context(|| format!("none above {} shares out CPU time", path.display()))?;
        Ok(ParentGroup { path: path.into(), version: Version::Two })
    }

    /// Checks that processes may be moved into a new group. In version 2, this also requires write permission on the common
    /// ancestor of both cgroups.
    fn check_that_processes_may_move(&self) -> anyhow::Result<()> {
        let file = self.path.join("cgroup.procs");
        if self.version == Version::Two {
            File::options().write(true).open(&file).with_context(|| file.display().to_string())?;
        }
        Ok(())
    }
}

fn shares_out_cpu(group: &Path) -> bool {
    let controllers = fs::read_to_string(group.join("cgroup.subtree_control")).unwrap_or_default();
    controllers.split_ascii_whitespace().any(|name| name == "cpu")
}

/// Removes directories of harness processes that were killed: their locks and their processes are gone.
fn sweep(place: &Path) {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        let left = entry.path();
        let free = File::open(&left)
            .is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok());
        if free {
            // A directory that still contains a process is left to the next process.
            let below = fs::read_dir(&left).into_iter().flatten().flatten();
            below.filter(|entry| entry.path().is_dir()).for_each(|seat| drop(fs::remove_dir(seat.path())));
            let _ = fs::remove_dir(&left);
        }
    }
}

fn remove(group: &Path) -> io::Result<()> {
    let began = Instant::now();
    loop {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ResourceBusy && began.elapsed() < LETTING_GO => {
                thread::sleep(PAUSE);
            }
            removed => return removed,
        }
    }
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {text} to {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_keep_their_proportions() {
        for (weights, one, two) in [
            (vec![3, 1], vec![262_143, 87_381], vec![9_999, 3_333]),
            (vec![1, 1], vec![262_144, 262_144], vec![10_000, 10_000]),
            (vec![10_000, 1], vec![260_000, 26], vec![10_000, 1]),
        ] {
            assert_eq!(Version::One.scaled(&weights), one);
            assert_eq!(Version::Two.scaled(&weights), two);
        }
    }

    #[test]
    fn a_mount_may_show_a_part_of_the_hierarchy() {
        for (mounted, group, expected) in [
            ("/", "/", "/sys/fs/cgroup/cpu"),
            ("/", "/a/b", "/sys/fs/cgroup/cpu/a/b"),
            ("/docker/7", "/docker/7", "/sys/fs/cgroup/cpu"),
            ("/docker/7", "/docker/7/a", "/sys/fs/cgroup/cpu/a"),
            // Of a namespace: the group is named from there, and the mount from outside.
            ("/docker/7", "/", "/sys/fs/cgroup/cpu"),
        ] {
            let line = format!("32 31 0:29 {mounted} /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu");
            let mount = MountInfo::from_line(&line).unwrap();
            assert_eq!(directory_in(&mount, group), Path::new(expected), "{mounted} {group}");
        }
    }

    #[test]
    fn what_is_made_is_locked_and_what_a_killed_harness_left_is_swept_up() {
        // Not in the kernel's file system: there only the files inside are particular, and those of the first
        // are made here.
        let dir = tempfile::tempdir().unwrap();
        let within = ParentGroup { path: dir.path().into(), version: Version::One };
        let left = dir.path().join("tandem-1-2");
        fs::create_dir_all(left.join("0")).unwrap();
        let others = dir.path().join("others");
        fs::create_dir(&others).unwrap();
        let made = Groups::at(&within, &[3, 1]).unwrap();
        assert!(!left.exists() && others.exists());
        let shares_of = |seat: usize| fs::read_to_string(made.seats[seat].join("cpu.shares")).unwrap();
        assert_eq!((shares_of(0), shares_of(1)), ("262143".into(), "87381".into()));
        sweep(dir.path());
        assert!(made.seats[0].exists(), "it is in use");
    }
}
