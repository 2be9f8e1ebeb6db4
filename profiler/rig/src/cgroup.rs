//! CPU quotas: the CPU time that a cgroup and those above it may use in each period. When it is used up, the kernel stops all
//! processes of the group until the next period, and counts the period as throttled.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use procfs::{
    ProcessCGroup,
    process::{MountInfo, Process},
};

/// The quota of one cgroup.
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    /// The directory of the cgroup.
    pub directory: PathBuf,
    pub quota_us: u64,
    pub period_us: u64,
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Quota { directory, quota_us, period_us } = self;
        let cores = *quota_us as f64 / *period_us as f64;
        write!(f, "{} limits its processes to {cores:.2} cores", directory.display())?;
        write!(f, " ({quota_us} us of CPU time in {period_us} us) and stops them beyond that")
    }
}

/// The quotas of the cgroup of a process and of all above it that are mounted. A process that cannot be read has none.
pub fn quotas_of(pid: i32) -> Vec<Quota> {
    directories(pid).iter().filter_map(|directory| quota(directory)).collect()
}

/// The throttled periods of some cgroups, each counted from when it was added.
#[derive(Debug, Default)]
pub struct Throttling {
    is_known: bool,
    counters: Vec<Counter>,
}

/// The counter of one cgroup.
#[derive(Debug)]
struct Counter {
    directory: PathBuf,
    has_quota: bool,
    first: u64,
    last: u64,
}

impl Throttling {
    /// Adds the cgroups among these that are not here yet, and looks which of all have a quota now: both change while a program
    /// runs, for example if it is started by `systemd-run --scope`.
    pub fn refresh(&mut self, directories: Vec<PathBuf>) {
        self.is_known |= !directories.is_empty();
        for directory in directories {
            let is_new = self.counters.iter().all(|counter| counter.directory != directory);
            // A cgroup that does not count has no quota either, as that at the root of version 2.
            if let Some(first) = throttled_periods(&directory).filter(|_| is_new) {
                self.counters.push(Counter { directory, has_quota: false, first, last: first });
            }
        }
        for counter in &mut self.counters {
            counter.has_quota = quota(&counter.directory).is_some();
            counter.read();
        }
    }

    /// The number of periods, added up over the cgroups; `None` if no cgroup is known. Those without a quota are read by
    /// [`Throttling::refresh`] alone, because the kernel adds up the CPU time of all that is below a cgroup for each reading.
    pub fn periods(&mut self) -> Option<u64> {
        self.counters.iter_mut().filter(|counter| counter.has_quota).for_each(Counter::read);
        let sum = self.counters.iter().map(|counter| counter.last - counter.first).sum();
        self.is_known.then_some(sum)
    }
}

impl Counter {
    /// Reads the counter. The count of a cgroup that was removed stays.
    fn read(&mut self) {
        self.last = self.last.max(throttled_periods(&self.directory).unwrap_or(0));
    }
}

/// The counter of a cgroup, which has the same name in both versions of the kernel's interface.
fn throttled_periods(directory: &Path) -> Option<u64> {
    let stat = fs::read_to_string(directory.join("cpu.stat")).ok()?;
    stat.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.trim().parse().ok())
}

/// The directories of the cgroups that divide CPU time for a process, in both versions of the kernel's interface: its own and all
/// above it.
pub fn directories(pid: i32) -> Vec<PathBuf> {
    // The kernel gives the cgroups of other processes as this process sees them, so its own mounts have them.
    static MOUNTS: OnceLock<Vec<MountInfo>> = OnceLock::new();
    let mounts = MOUNTS.get_or_init(|| {
        let all = Process::myself().and_then(|own| own.mountinfo());
        all.map_or(Vec::new(), |all| {
            all.0.into_iter().filter(|mount| mount.fs_type.starts_with("cgroup")).collect()
        })
    });
    let groups = Process::new(pid).and_then(|process| process.cgroups());
    groups.map_or(Vec::new(), |groups| directories_in(mounts, &groups.0))
}

fn directories_in(mounts: &[MountInfo], groups: &[ProcessCGroup]) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for group in groups {
        let is_mount = |mount: &&MountInfo| match group.hierarchy {
            0 => mount.fs_type == "cgroup2",
            _ => mount.fs_type == "cgroup" && mount.super_options.contains_key("cpu"),
        };
        if group.hierarchy != 0 && !group.controllers.iter().any(|name| name == "cpu") {
            continue;
        }
        if let Some(mount) = mounts.iter().find(is_mount) {
            let own = directory_in(mount, &group.pathname);
            let up = own.ancestors().take_while(|directory| directory.starts_with(&mount.mount_point));
            all.extend(up.map(Path::to_path_buf));
        }
    }
    all
}

/// The directory of a group. In a container, the mount may show only a part of the hierarchy.
pub fn directory_in(mount: &MountInfo, group: &str) -> PathBuf {
    let within = Path::new(group).strip_prefix(&mount.root).unwrap_or(Path::new(""));
    mount.mount_point.join(within)
}

/// The quota in the files of a cgroup, of which either version has its own.
fn quota(directory: &Path) -> Option<Quota> {
    let read = |name: &str| fs::read_to_string(directory.join(name)).ok();
    let (quota_us, period_us) = match read("cpu.max") {
        Some(both) => {
            let (quota, period) = both.trim().split_once(' ')?;
            (quota.parse().ok()?, period.parse().ok()?)
        }
        None => {
            (read("cpu.cfs_quota_us")?.trim().parse().ok()?, read("cpu.cfs_period_us")?.trim().parse().ok()?)
        }
    };
    // Without a quota the files have `max` or -1, which are no such numbers.
    Some(Quota { directory: directory.into(), quota_us, period_us })
}

#[cfg(test)]
mod tests {
    use procfs::{FromBufRead, ProcessCGroups, process::MountInfos};

    use super::*;

    /// A file system of cgroups in a folder.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Tree {
            Tree(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn write(&self, group: &str, files: &[(&str, &str)]) {
            let directory = self.path(group);
            fs::create_dir_all(&directory).unwrap();
            files.iter().for_each(|(file, text)| fs::write(directory.join(file), text).unwrap());
        }

        /// Writes the quota and the counter as version 1 or 2 of the interface has them; `None` is no quota.
        fn set(&self, version: u8, group: &str, quota_us: Option<u64>, throttled: u64) {
            let quota = |none: &str| quota_us.map_or(none.into(), |us| us.to_string());
            let (limits, unit) = match version {
                1 => ([("cpu.cfs_quota_us", quota("-1")), ("cpu.cfs_period_us", "100000".into())], "time"),
                _ => ([("cpu.max", quota("max") + " 100000"), ("cpu.weight", "100".into())], "usec"),
            };
            let stat = format!("nr_periods 400\nnr_throttled {throttled}\nthrottled_{unit} 36000000\n");
            for (file, text) in limits.into_iter().chain([("cpu.stat", stat)]) {
                self.write(group, &[(file, &format!("{}\n", text.trim_end()))]);
            }
        }

        /// The directories of a process with these lines in `/proc/<pid>/cgroup`, where the kernel has mounted version 1 in
        /// `cpu,cpuacct` and `memory`, and version 2 in `unified`.
        fn directories(&self, groups: &str) -> Vec<PathBuf> {
            let root = self.0.path().display();
            let mounts = format!(
                "31 30 0:27 / {root}/memory rw,relatime shared:7 - cgroup cgroup rw,memory\n\
                 32 30 0:28 / {root}/cpu,cpuacct rw,relatime shared:8 - cgroup cgroup rw,cpu,cpuacct\n\
                 33 30 0:29 / {root}/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
            );
            let mounts = MountInfos::from_buf_read(mounts.as_bytes()).unwrap();
            directories_in(&mounts.0, &ProcessCGroups::from_buf_read(groups.as_bytes()).unwrap().0)
        }
    }

    /// The lines of `/proc/<pid>/cgroup` in each version, and the directory of its mount.
    const VERSIONS: [(u8, &str, &str); 2] = [
        (1, "4:memory:/elsewhere\n1:cpu,cpuacct:/job/rank\n", "cpu,cpuacct"),
        (2, "0::/job/rank\n", "unified"),
    ];

    #[test]
    fn a_process_has_the_cgroups_up_to_the_mount_in_both_versions() {
        let tree = Tree::new();
        for (_, groups, mount) in VERSIONS {
            let expected = ["job/rank", "job", ""].map(|group| tree.path(mount).join(group));
            assert_eq!(tree.directories(groups), expected, "{mount}");
        }
    }

    #[test]
    fn quotas_of_both_versions_are_read() {
        let tree = Tree::new();
        for (version, groups, mount) in VERSIONS {
            tree.set(version, &format!("{mount}/job"), Some(150_000), 0);
            tree.set(version, &format!("{mount}/job/rank"), None, 0);
            let directories = tree.directories(groups);
            let told: Vec<String> = directories
                .iter()
                .filter_map(|directory| quota(directory))
                .map(|quota| quota.to_string())
                .collect();
            let expected = format!(
                "{} limits its processes to 1.50 cores (150000 us of CPU time in 100000 us) and stops them beyond that",
                tree.path(mount).join("job").display()
            );
            assert_eq!(told, [expected]);
        }
    }

    #[test]
    fn throttled_periods_are_those_since_the_first_reading_in_both_versions() {
        for (version, groups, mount) in VERSIONS {
            let tree = Tree::new();
            let (job, rank) = (format!("{mount}/job"), format!("{mount}/job/rank"));
            // The root of version 2 has no quota and no such counter.
            tree.write(
                mount,
                &[("cpu.stat", "usage_usec 7000000\nuser_usec 6000000\nsystem_usec 1000000\n")],
            );
            tree.set(version, &job, Some(150_000), 40);
            tree.set(version, &rank, None, 7);
            let mut throttling = Throttling::default();
            throttling.refresh(tree.directories(groups));
            assert_eq!(throttling.periods(), Some(0), "those from before are not of this process");
            tree.set(version, &job, Some(150_000), 45);
            assert_eq!(throttling.periods(), Some(5));
            // A quota that is set while the process runs.
            tree.set(version, &rank, Some(50_000), 10);
            throttling.refresh(tree.directories(groups));
            assert_eq!(throttling.periods(), Some(8), "the periods of both add up");
            tree.set(version, &rank, Some(50_000), 11);
            assert_eq!(throttling.periods(), Some(9));
            // The process moves into another cgroup.
            tree.set(version, &format!("{mount}/scope"), Some(10_000), 100);
            throttling.refresh(tree.directories(&groups.replace("job/rank", "scope")));
            assert_eq!(throttling.periods(), Some(9));
            tree.set(version, &format!("{mount}/scope"), Some(10_000), 103);
            assert_eq!(throttling.periods(), Some(12));
            // Its cgroup ends with it.
            fs::remove_dir_all(tree.path(mount)).unwrap();
            throttling.refresh(Vec::new());
            assert_eq!(throttling.periods(), Some(12));
        }
    }

    #[test]
    fn a_process_without_cgroups_has_no_number() {
        let mut throttling = Throttling::default();
        throttling.refresh(Vec::new());
        assert_eq!(throttling.periods(), None);
        throttling.refresh(vec![tempfile::tempdir().unwrap().path().into()]);
        assert_eq!(throttling.periods(), Some(0), "a cgroup that does not count stops nothing");
        // This process id is above the kernel's limit.
        assert_eq!((directories(5_000_000), quotas_of(5_000_000)), (Vec::new(), Vec::new()));
    }
}
