//! CPU time by weight, which the kernel distributes among cgroups.

use std::fs;

use rig::Isolation;
use schema::{device::Device, sharing::Weights};

use super::{
    backend::{Backend, runs},
    cgroup::{Groups, LARGEST},
};

pub(super) struct CpuShares {
    weights: Weights,
    devices: Vec<Device>,
    made: Option<Groups>,
}

impl CpuShares {
    pub(super) fn new(weights: Weights, devices: &[Device]) -> CpuShares {
        CpuShares { weights, devices: devices.to_vec(), made: None }
    }

    fn make(&self, seats: usize) -> Result<Groups, String> {
        if let Some(gpu) = self.devices.iter().find(|device| matches!(device, Device::Cuda(_))) {
            return Err(format!("cpu-shares divides the time of cores, and {gpu} is a GPU"));
        }
        let weights: Vec<u32> = (0..seats).map(|seat| self.weights.of(seat)).collect();
        if let Some(weight) = weights.iter().find(|weight| **weight > LARGEST) {
            return Err(format!("cpu-shares has weights up to {LARGEST}, and {weight} is more"));
        }
        Groups::make(&weights).map_err(|error| format!("cpu-shares needs cgroups of its own: {error:#}"))
    }
}

impl Backend for CpuShares {
    fn probe(&self) -> Result<(), String> {
        // Permissions, mounts and the kernel version all matter, so the only reliable probe is to create the cgroups.
        self.make(self.weights.count().unwrap_or(1)).map(drop)
    }

    fn set_up(&mut self, seats: usize) -> anyhow::Result<()> {
        self.made = Some(self.make(seats).map_err(anyhow::Error::msg)?);
        Ok(())
    }

    fn isolation(&self, seat: usize) -> Isolation {
        Isolation { cgroup: self.made.as_ref().and_then(|made| made.seat(seat)), ..Isolation::default() }
    }

    fn verify(&mut self, seat: usize, pids: &[u32]) -> Result<(), String> {
        let Some(group) = self.isolation(seat).cgroup else { return Err("its cgroup is not there".into()) };
        let file = group.join("cgroup.procs");
        let members = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let is_member = |pid: &&u32| members.lines().any(|line| line.parse() == Ok(**pid));
        match pids.iter().filter(|pid| runs(**pid)).find(|pid| !is_member(pid)) {
            Some(pid) => Err(format!("process {pid} has left {}", group.display())),
            None => Ok(()),
        }
    }

    fn tear_down(&mut self) -> anyhow::Result<()> {
        self.made.take().map_or(Ok(()), |made| made.remove())
    }
}

#[cfg(test)]
mod tests {
    use schema::sharing::Sharing;

    use super::*;

    fn shares(mode: &str, devices: &[&str]) -> CpuShares {
        let Sharing::CpuShares { weights } = mode.parse().unwrap() else { panic!("{mode}") };
        let devices: Vec<Device> = devices.iter().map(|device| device.parse().unwrap()).collect();
        CpuShares::new(weights, &devices)
    }

    #[test]
    fn what_cannot_be_shared_out_is_refused() {
        let refusal = |mode: &str, device: &str| shares(mode, &["cpu:0", device]).probe().unwrap_err();
        assert_eq!(
            refusal("cpu-shares:3/1", "cuda:1"),
            "cpu-shares divides the time of cores, and cuda:1 is a GPU"
        );
        assert_eq!(
            refusal("cpu-shares:10001/1", "cpu:0"),
            "cpu-shares has weights up to 10000, and 10001 is more"
        );
    }

    #[test]
    fn groups_of_the_kernel_come_and_go() {
        let mut shares = shares("cpu-shares:3/1", &["cpu:0"]);
        if let Err(reason) = shares.probe() {
            return schema::skips::skipped("cgroups", reason);
        }
        shares.set_up(2).unwrap();
        let groups = [0, 1].map(|seat| shares.isolation(seat).cgroup.unwrap());
        assert!(groups.iter().all(|group| group.join("cgroup.procs").exists()));
        let own = std::process::id();
        let message = shares.verify(1, &[own]).unwrap_err();
        assert!(message.starts_with(&format!("process {own} has left ")), "{message}");
        assert_eq!(shares.verify(1, &[]), Ok(()));
        shares.tear_down().unwrap();
        assert!(!groups.iter().any(|group| group.exists() || group.parent().unwrap().exists()));
        assert_eq!(shares.isolation(0), Isolation::default());
    }
}
