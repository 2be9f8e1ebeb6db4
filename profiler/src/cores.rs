//! Cores of the host for jobs on GPUs.
//!
//! A job on a GPU also needs the host: it makes batches, launches kernels, and moves offloaded data. Two jobs that are measured
//! together would share the host's cores too, and that cost would be attributed to the GPU. Each job therefore has separate
//! cores near its GPU, which the harness does not use. A job alone has as many cores as in its groups.

use std::{collections::BTreeMap, path::Path};

use jobs::{
    cores::{
        assign::{Core, Wish, assign},
        topology,
    },
    launch,
};
use record::manifest::{Cell, Manifest};
use rig::{
    device::{DeviceError, allowed_cores, pci_address},
    output,
};
use rustix::{
    process::Pid,
    thread::{CpuSet, sched_setaffinity},
};
use schema::{device::Device, spec::LaunchSpec};

const SYS: &str = "/sys";

/// The cores of the host for jobs on GPUs, and the number for each job.
#[derive(Debug, Default)]
pub struct HostCores {
    /// The cores in the order in which they are assigned. The first core comes last, because the kernel handles most interrupts
    /// on it.
    cores: Vec<Core>,
    near: BTreeMap<Device, Vec<u16>>,
    per_job: Option<u32>,
    per_rank: usize,
}

impl HostCores {
    /// The cores for the jobs of a run; empty if the run uses no GPU.
    ///
    /// # Errors
    /// The kernel does not report which cores this program may use.
    pub fn of(manifest: &Manifest) -> Result<HostCores, DeviceError> {
        let runnable: Vec<&Cell> = manifest.cells.iter().filter(|cell| cell.unsupported.is_none()).collect();
        let devices = || runnable.iter().flat_map(|cell| &cell.devices);
        if !devices().any(is_gpu) {
            return Ok(HostCores::default());
        }
        let mut cores = free_of_cpu_devices(topology::cores(Path::new(SYS), &allowed_cores()?), devices());
        let first = 1.min(cores.len());
        cores.rotate_left(first);
        let near = |device: &Device| {
            let address = pci_address(device);
            (
                device.clone(),
                address.map(|address| topology::near(Path::new(SYS), &address)).unwrap_or_default(),
            )
        };
        let near = devices().filter(|device| is_gpu(device)).map(near).collect();
        let per_rank = (cores.len().saturating_sub(1) / most_ranks(manifest, &runnable).max(1)).max(1);
        Ok(HostCores { cores, near, per_job: manifest.settings.cpus_per_job, per_rank })
    }

    /// A set of cores for each rank of each job that is measured together with the others. A job on CPU devices has none,
    /// because it is bound to these devices.
    pub fn of_jobs(&self, jobs: &[&Cell]) -> Vec<Vec<Device>> {
        let wishes: Vec<Vec<Wish>> = jobs.iter().map(|job| self.wishes(job)).collect();
        let mut sets = assign(&self.cores, &wishes.concat()).into_iter().map(Device::Cpu);
        wishes.iter().map(|ranks| sets.by_ref().take(ranks.len()).collect()).collect()
    }

    fn wishes(&self, job: &Cell) -> Vec<Wish> {
        if self.cores.is_empty() || !job.devices.iter().all(is_gpu) {
            return Vec::new();
        }
        let ranks = job.devices.len();
        let cores = |rank: usize| match self.per_job {
            Some(all) => (all as usize / ranks + usize::from(rank < all as usize % ranks)).max(1),
            None => self.per_rank,
        };
        let wish = |(rank, device)| Wish {
            near: self.near.get(device).cloned().unwrap_or_default(),
            cores: cores(rank),
        };
        job.devices.iter().enumerate().map(wish).collect()
    }

    /// Moves this program off the cores of the run's jobs, if any cores are left for it. Programs that it starts are bound
    /// separately.
    pub fn keep_off(&self, manifest: &Manifest) {
        let cell = |name: &String| manifest.cells.iter().find(|cell| cell.name == *name);
        let alone = manifest.cells.iter().map(|cell| vec![cell]);
        let together = manifest.groups.iter().map(|group| group.members.iter().filter_map(cell).collect());
        let given: Vec<Device> =
            alone.chain(together).flat_map(|jobs| self.of_jobs(&jobs)).flatten().collect();
        let is_left = |cpu: &u16| !given.iter().any(|set| set.shares_with(&Device::Cpu(vec![*cpu])));
        let left: Vec<u16> =
            self.cores.iter().flat_map(|core| core.0.iter().copied()).filter(is_left).collect();
        if left.is_empty() {
            return;
        }
        let mut set = CpuSet::new();
        left.iter().for_each(|cpu| set.set(usize::from(*cpu)));
        let threads = procfs::process::Process::myself().and_then(|own| own.tasks());
        for thread in threads.into_iter().flatten().flatten() {
            if let Err(error) = sched_setaffinity(Pid::from_raw(thread.tid), &set) {
                output::note(format_args!(
                    "warning: the harness cannot be moved off the cores of jobs: {error}"
                ));
                return;
            }
        }
    }
}

/// Binds each rank of a job on GPUs to cores of the host. If the user names no number of
/// threads, a rank has one for each of its cores.
pub fn bind(spec: &mut LaunchSpec, cores: Vec<Device>) {
    let fewest = cores.iter().map(|set| launch::threads(std::slice::from_ref(set))).min();
    spec.threads = fewest.filter(|_| !spec.threads_named).unwrap_or(spec.threads);
    spec.host_cores = cores;
}

/// How many cores this program may use.
///
/// # Errors
/// The kernel does not report them.
pub fn count() -> Result<usize, DeviceError> {
    Ok(topology::cores(Path::new(SYS), &allowed_cores()?).len())
}

fn is_gpu(device: &Device) -> bool {
    matches!(device, Device::Cuda(_))
}

/// The cores that are not part of a CPU device, or all cores if there are none.
fn free_of_cpu_devices<'a>(cores: Vec<Core>, devices: impl Iterator<Item = &'a Device>) -> Vec<Core> {
    let taken: Vec<&Device> = devices.filter(|device| !is_gpu(device)).collect();
    let is_free = |core: &&Core| !taken.iter().any(|device| device.shares_with(&Device::Cpu(core.0.clone())));
    let free: Vec<Core> = cores.iter().filter(is_free).cloned().collect();
    if free.is_empty() { cores } else { free }
}

/// The largest number of ranks on GPUs that are measured together.
fn most_ranks(manifest: &Manifest, runnable: &[&Cell]) -> usize {
    let ranks = |cell: &Cell| cell.devices.iter().filter(|device| is_gpu(device)).count();
    let of_name =
        |name: &String| runnable.iter().find(|cell| cell.name == *name).map_or(0, |cell| ranks(cell));
    let runnable_groups = manifest.groups.iter().filter(|group| group.unsupported.is_none());
    let of_groups = runnable_groups.map(|group| group.members.iter().map(of_name).sum());
    runnable.iter().map(|cell| ranks(cell)).chain(of_groups).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use schema::sharing::Sharing;

    use super::*;

    fn cell(devices: &[&str]) -> Cell {
        Cell {
            name: devices.join("+"),
            sharing: Sharing::Alone,
            job: "x".into(),
            workload: "x".into(),
            command: None,
            all_reduce_bytes: None,
            global_batch: None,
            plan: None,
            devices: devices.iter().map(|device| device.parse().unwrap()).collect(),
            memory_estimate_bytes: None,
            unsupported: None,
            ..Cell::default()
        }
    }

    fn sets(hosts: &HostCores, jobs: &[&Cell]) -> String {
        let of_job = |sets: Vec<Device>| sets.iter().map(Device::to_string).collect::<Vec<_>>().join(",");
        hosts.of_jobs(jobs).into_iter().map(of_job).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_job_has_as_many_cores_alone_as_in_its_group() {
        let cores: Vec<Core> = (0..8).map(|cpu| Core(vec![cpu])).collect();
        let hosts = HostCores { cores, per_rank: 2, ..HostCores::default() };
        let (one, two, cpu) = (cell(&["cuda:0"]), cell(&["cuda:0", "cuda:1"]), cell(&["cpu:0"]));
        assert_eq!(sets(&hosts, &[&one]), "cpu:0-1");
        assert_eq!(sets(&hosts, &[&two]), "cpu:0-1,cpu:2-3");
        assert_eq!(sets(&hosts, &[&one, &two]), "cpu:0-1 cpu:2-3,cpu:4-5");
        assert_eq!(sets(&hosts, &[&cpu, &one]), " cpu:0-1", "a CPU device is its cores");
        // The number is for all ranks of a job together.
        let hosts = HostCores { per_job: Some(3), ..hosts };
        assert_eq!(sets(&hosts, &[&one, &two]), "cpu:0-2 cpu:3-4,cpu:5");
        assert_eq!(sets(&HostCores::default(), &[&one]), "", "the run uses no GPU");
    }

    #[test]
    fn cores_of_cpu_devices_are_left_to_them() {
        let cores = || vec![Core(vec![0, 2]), Core(vec![1, 3])];
        let free = |device: &str| free_of_cpu_devices(cores(), [device.parse().unwrap()].iter());
        assert_eq!(free("cuda:0"), cores());
        assert_eq!(free("cpu:3"), [Core(vec![0, 2])]);
        assert_eq!(free("cpu:0-1"), cores(), "none would be left");
    }
}
