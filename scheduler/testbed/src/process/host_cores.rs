//! Cores of the host for jobs on GPUs that are started with a number of cores. Each rank is bound to cores of its own.
//!
//! A launch is bound once, so that a job that is resumed may share cores with one that was started while it was paused.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use jobs::cores::{
    assign::{Core, Wish, assign},
    topology,
};
use rig::device::{DeviceError, allowed_cores, pci_address};
use schema::device::Device;

const SYS: &str = "/sys";

/// The cores that this program may use and that are part of no CPU device of the run. Empty without a GPU.
#[derive(Debug, Default)]
pub struct HostCores {
    cores: Vec<Core>,
    near: BTreeMap<Device, Vec<u16>>,
}

impl HostCores {
    /// The cores beside these devices.
    ///
    /// # Errors
    /// Fails if the kernel does not report which cores this program may use.
    pub fn beside(devices: &[Device]) -> Result<HostCores, DeviceError> {
        if !devices.iter().any(is_gpu) {
            return Ok(HostCores::default());
        }
        let is_free = |core: &Core| {
            let mut others = devices.iter().filter(|device| !is_gpu(device));
            !others.any(|device| device.shares_with(&Device::Cpu(core.0.clone())))
        };
        let cores = topology::cores(Path::new(SYS), &allowed_cores()?).into_iter().filter(is_free).collect();
        let near = |device: &Device| {
            let address = pci_address(device)?;
            Some((device.clone(), topology::near(Path::new(SYS), &address)))
        };
        Ok(HostCores {
            cores,
            near: devices.iter().filter(|device| is_gpu(device)).filter_map(near).collect(),
        })
    }

    pub fn count(&self) -> u32 {
        self.cores.len() as u32
    }

    /// The cores of each rank on these GPUs, near them if possible. Processors in `taken` are not given, and those in `resting`, of
    /// launches that are paused or leave, only if there are too few others.
    pub(super) fn of_ranks(
        &self,
        gpus: &[Device],
        cpus: u16,
        taken: &BTreeSet<u16>,
        resting: &BTreeSet<u16>,
    ) -> Result<Vec<Device>, String> {
        let is_in = |core: &Core, set: &BTreeSet<u16>| core.0.iter().any(|cpu| set.contains(cpu));
        let (mut free, others): (Vec<Core>, Vec<Core>) = self
            .cores
            .iter()
            .filter(|core| !is_in(core, taken))
            .cloned()
            .partition(|core| !is_in(core, resting));
        let needed = usize::from(cpus) * gpus.len();
        let lacking = needed.saturating_sub(free.len());
        if lacking > others.len() {
            let left = free.len() + others.len();
            return Err(format!("too few cores of the host are left for it: {left}, and it needs {needed}"));
        }
        free.extend(others.into_iter().take(lacking));
        let near = |device: &Device| self.near.get(device).cloned().unwrap_or_default();
        let wish = |device| Wish { near: near(device), cores: cpus.into() };
        let wishes: Vec<Wish> = gpus.iter().map(wish).collect();
        Ok(assign(&free, &wishes).into_iter().map(Device::Cpu).collect())
    }
}

/// Whether jobs on this device are bound to cores beside it. A CPU device already consists of cores.
pub(super) fn is_gpu(device: &Device) -> bool {
    matches!(device, Device::Cuda(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_has_cores_of_its_own_for_as_long_as_others_leave_some() {
        let cores = (0..6).map(|cpu| Core(vec![cpu])).collect();
        let gpus = [Device::Cuda(0), Device::Cuda(1)];
        let near = BTreeMap::from([(gpus[1].clone(), vec![3, 4, 5])]);
        let host = HostCores { cores, near };
        let given = |gpus: &[Device], cpus, taken: &[u16], resting: &[u16]| {
            let [taken, resting] = [taken, resting].map(|set| set.iter().copied().collect());
            let sets = host.of_ranks(gpus, cpus, &taken, &resting)?;
            Ok::<_, String>(sets.iter().map(Device::to_string).collect::<Vec<_>>().join(" "))
        };
        let text = |sets: &str| Ok(sets.to_owned());
        assert_eq!(given(&gpus, 2, &[], &[]), text("cpu:0-1 cpu:3-4"));
        assert_eq!(given(&gpus[..1], 2, &[0, 1, 3, 4], &[]), text("cpu:2+5"));
        assert_eq!(given(&gpus[..1], 2, &[3, 4], &[0, 1]), text("cpu:2+5"), "not those of a job that rests");
        assert_eq!(given(&gpus[..1], 3, &[3, 4], &[0, 1]), text("cpu:0+2+5"), "unless there are too few");
        let few = "too few cores of the host are left for it: 3, and it needs 4";
        assert_eq!(given(&gpus, 2, &[0, 1, 3], &[2]), Err(few.into()));
        assert_eq!(HostCores::beside(&[Device::AllCores]).unwrap().count(), 0);
        assert!(HostCores::beside(&gpus).unwrap().count() > 0);
    }
}
