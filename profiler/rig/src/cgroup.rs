//! CPU quotas: the CPU time that a cgroup and those above it may use in each period. When it is used up, the kernel stops all
//! processes of the group until the next period.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use procfs::process::{MountInfo, Process};

/// The quotas that a process was under when they were looked for.
#[derive(Debug, Default)]
pub struct Quotas(Vec<Quota>);

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

impl Quotas {
    /// The quotas of the cgroup of a process and of all above it that are mounted. A process that cannot be read has none.
    pub fn for_process(pid: i32) -> Quotas {
        Quotas(directories(pid).iter().filter_map(|directory| quota(directory)).collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Quota> {
        self.0.iter()
    }

    /// The number of periods in which processes were stopped, added up over the quotas; `None` if there is no quota.
    pub fn throttled_periods(&self) -> Option<u64> {
        let read = |quota: &Quota| {
            let stat = fs::read_to_string(quota.directory.join("cpu.stat")).ok()?;
            stat.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.trim().parse().ok())
        };
        let periods: Option<Vec<u64>> = self.0.iter().map(read).collect();
        periods.filter(|periods| !periods.is_empty()).map(|periods| periods.iter().sum())
    }
}

/// The directories of the cgroups that divide CPU time for a process, in both versions of the kernel's interface: its own and all
/// above it.
pub fn directories(pid: i32) -> Vec<PathBuf> {
    let Ok(process) = Process::new(pid) else { return Vec::new() };
    let (Ok(groups), Ok(mounts)) = (process.cgroups(), process.mountinfo()) else { return Vec::new() };
    let mut all = Vec::new();
    for group in &groups.0 {
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
    use super::*;

    /// Writes the files of a cgroup and returns its directory.
    fn group(within: &Path, name: &str, files: &[(&str, &str)]) -> PathBuf {
        let directory = within.join(name);
        fs::create_dir(&directory).unwrap();
        files.iter().for_each(|(file, text)| fs::write(directory.join(file), text).unwrap());
        directory
    }

    #[test]
    fn quotas_of_both_versions_are_read_and_their_throttled_periods_add_up() {
        let folder = tempfile::tempdir().unwrap();
        let stat =
            |throttled: u64| format!("nr_periods 400\nnr_throttled {throttled}\nthrottled_usec 36000000\n");
        let two = group(folder.path(), "two", &[("cpu.max", "150000 100000\n"), ("cpu.stat", &stat(5))]);
        let one = group(
            folder.path(),
            "one",
            &[("cpu.cfs_quota_us", "3000\n"), ("cpu.cfs_period_us", "100000\n"), ("cpu.stat", &stat(375))],
        );
        let free_two =
            group(folder.path(), "free-two", &[("cpu.max", "max 100000\n"), ("cpu.stat", &stat(7))]);
        let free_one = group(
            folder.path(),
            "free-one",
            &[("cpu.cfs_quota_us", "-1\n"), ("cpu.cfs_period_us", "100000\n"), ("cpu.stat", &stat(7))],
        );
        let root = group(folder.path(), "root", &[]);
        assert_eq!([&free_two, &free_one, &root].map(|directory| quota(directory)), [None, None, None]);
        let quotas = Quotas([&two, &one].into_iter().filter_map(|directory| quota(directory)).collect());
        let told: Vec<String> = quotas.iter().map(Quota::to_string).collect();
        let expected = [
            (&two, "1.50 cores (150000 us of CPU time in 100000 us)"),
            (&one, "0.03 cores (3000 us of CPU time in 100000 us)"),
        ]
        .map(|(directory, text)| {
            format!("{} limits its processes to {text} and stops them beyond that", directory.display())
        });
        assert_eq!(told, expected);
        assert_eq!(quotas.throttled_periods(), Some(380));
        fs::remove_file(one.join("cpu.stat")).unwrap();
        assert_eq!(quotas.throttled_periods(), None, "one of them is not known");
        assert_eq!(Quotas::default().throttled_periods(), None);
    }

    #[test]
    fn a_process_that_does_not_exist_has_no_quota() {
        // This process id is above the kernel's limit.
        assert_eq!(Quotas::for_process(5_000_000).iter().count(), 0);
    }
}
