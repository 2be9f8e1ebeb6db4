//! The devices that a run may use, in the order in which it takes them.

use std::collections::BTreeSet;

use anyhow::bail;
use rig::device::{allowed_cores, discover};
use schema::{device::Device, job::Job, spec::Collectives, units::HumanBytes};

/// The pool that a user named, with `cpu` replaced by its cores, or the best device of the machine if none was named.
///
/// # Errors
/// Two devices of the pool share a core or are the same GPU: ranks on them would share what is treated as their own. Ranks may
/// share devices if the user chose Gloo to move tensors between them. A device is not a GPU although NCCL was chosen.
pub fn resolve(named: &[Device], collectives: Option<Collectives>) -> anyhow::Result<Vec<Device>> {
    let pool = if named.is_empty() {
        discover()?.devices.into_iter().take(1).collect()
    } else {
        distinct(named, collectives == Some(Collectives::Gloo))?
    };
    let cpu = pool.iter().find(|device| matches!(device, Device::Cpu(_)));
    match cpu.filter(|_| collectives == Some(Collectives::Nccl)) {
        Some(cpu) => {
            bail!("--collectives nccl moves tensors between GPUs only, and {cpu} is not one; use gloo")
        }
        None => Ok(pool),
    }
}

/// The pool for the jobs that name no device.
///
/// # Errors
/// The errors of [`resolve`], and a pool that was named although every job names its own device.
pub fn of_jobs(
    jobs: &[Job],
    named: &[Device],
    collectives: Option<Collectives>,
) -> anyhow::Result<Vec<Device>> {
    if !named.is_empty() && !jobs.is_empty() && jobs.iter().all(|job| job.device.is_some()) {
        bail!("every job names its device with @on=, and so does --device; remove one of them");
    }
    resolve(named, collectives)
}

/// The pool of one job: the device that it names, or the shared pool.
///
/// # Errors
/// The machine lacks the device that the job names.
pub fn of_job(job: &Job, shared: &[Device]) -> anyhow::Result<Vec<Device>> {
    match &job.device {
        // A single device is no place for two ranks, so the library between them does not matter.
        Some(own) => resolve(std::slice::from_ref(own), None),
        None => Ok(shared.to_vec()),
    }
}

/// Checks that `--memory` applies to a device of the run.
///
/// # Errors
/// Every device is a GPU, which has memory of its own as the limit.
pub fn check_memory<'a>(
    named: Option<HumanBytes>,
    mut devices: impl Iterator<Item = &'a Device>,
) -> anyhow::Result<()> {
    if named.is_some() && devices.all(|device| matches!(device, Device::Cuda(_))) {
        bail!("--memory applies to CPU devices only, and none is used; remove it");
    }
    Ok(())
}

fn distinct(named: &[Device], ranks_may_share: bool) -> anyhow::Result<Vec<Device>> {
    let mut taken = BTreeSet::new();
    let mut pool = Vec::new();
    for device in named {
        let device = match device {
            Device::AllCores => Device::Cpu(allowed_cores()?),
            other => other.clone(),
        };
        let parts = match &device {
            Device::Cpu(cores) => cores.iter().map(|&core| Device::Cpu(vec![core])).collect(),
            other => vec![other.clone()],
        };
        let shared = parts.into_iter().find(|part| !taken.insert(part.clone()));
        if let Some(shared) = shared.filter(|_| !ranks_may_share) {
            bail!(
                "--device names {shared} twice; name each device once, or let ranks share it with --collectives gloo"
            );
        }
        pool.push(device);
    }
    Ok(pool)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved_for(collectives: Option<Collectives>, names: &[&str]) -> anyhow::Result<Vec<Device>> {
        let named: Vec<Device> = names.iter().map(|name| name.parse().expect("a device")).collect();
        resolve(&named, collectives)
    }

    fn resolved(names: &[&str]) -> anyhow::Result<Vec<Device>> {
        resolved_for(None, names)
    }

    #[test]
    fn cpu_stands_for_the_allowed_cores_and_nothing_for_the_best_device() {
        let all = vec![Device::Cpu(allowed_cores().expect("there are cores"))];
        assert_eq!(resolved(&["cpu"]).expect("a pool"), all);
        assert_eq!(resolved(&[]).expect("a pool").len(), 1);
    }

    #[test]
    fn what_is_named_twice_is_refused() {
        let error = resolved(&["cpu:0-1", "cpu:1"]).expect_err("refused").to_string();
        let remedy = "name each device once, or let ranks share it with --collectives gloo";
        assert_eq!(error, format!("--device names cpu:1 twice; {remedy}"));
        let error = resolved(&["cuda:0", "cuda:0"]).expect_err("refused").to_string();
        assert_eq!(error, format!("--device names cuda:0 twice; {remedy}"));
        assert_eq!(resolved(&["cpu:0", "cuda:0", "cpu:1"]).expect("a pool").len(), 3);
    }

    #[test]
    fn ranks_share_devices_through_gloo_alone_and_nccl_knows_gpus_alone() {
        let (gloo, nccl) = (Some(Collectives::Gloo), Some(Collectives::Nccl));
        for (collectives, names, refusal) in [
            (gloo, ["cuda:0", "cuda:0"], None),
            (nccl, ["cuda:0", "cuda:0"], Some("names cuda:0 twice")),
            (gloo, ["cpu:0", "cpu:0"], None),
            (None, ["cpu:0", "cpu:0"], Some("names cpu:0 twice")),
            (gloo, ["cpu:0", "cpu:1"], None),
            (nccl, ["cuda:0", "cuda:1"], None),
            (nccl, ["cuda:0", "cpu:1"], Some("between GPUs only, and cpu:1 is not one; use gloo")),
        ] {
            let error = resolved_for(collectives, &names).err().map(|error| error.to_string());
            let expected = error.as_deref().zip(refusal).is_some_and(|(error, words)| error.contains(words));
            assert!(
                expected || (error.is_none() && refusal.is_none()),
                "{collectives:?} {names:?}: {error:?}"
            );
        }
    }
}
