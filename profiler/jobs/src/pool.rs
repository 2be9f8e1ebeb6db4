//! The devices that a run may use, in the order in which it takes them.

use std::collections::BTreeSet;

use anyhow::bail;
use rig::device::{allowed_cores, discover};
use schema::{device::Device, job::Job, spec::Collectives, units::HumanBytes};

/// The pool that a user named, with `cpu` replaced by its cores, or the best device of the machine if none was named.
///
/// # Errors
/// Two devices of the pool share a core or are the same GPU. A device is not a GPU although NCCL was chosen.
pub fn resolve(named: &[Device], collectives: Option<Collectives>) -> anyhow::Result<Vec<Device>> {
    let pool = devices(named, collectives)?;
    match first_shared(&pool) {
        Some(shared) => bail!("--device names {shared} twice; name each device once"),
        None => Ok(pool),
    }
}

/// The pool for the jobs that name no device. Their ranks may share devices if the user chose Gloo to move tensors between them.
///
/// # Errors
/// A pool that was named although every job names its own device. Two devices of the pool share a core or are the same GPU without
/// that choice: ranks on them would share what is treated as their own. A device is not a GPU although NCCL was chosen.
pub fn of_jobs(
    jobs: &[Job],
    named: &[Device],
    collectives: Option<Collectives>,
) -> anyhow::Result<Vec<Device>> {
    if !named.is_empty() && !jobs.is_empty() && jobs.iter().all(|job| job.device.is_some()) {
        bail!("every job names its device with @on=, and so does --device; remove one of them");
    }
    let pool = devices(named, collectives)?;
    match first_shared(&pool).filter(|_| collectives != Some(Collectives::Gloo)) {
        Some(shared) => bail!(
            "--device names {shared} twice; name each device once, or let ranks share it with --collectives gloo"
        ),
        None => Ok(pool),
    }
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

fn devices(named: &[Device], collectives: Option<Collectives>) -> anyhow::Result<Vec<Device>> {
    let pool: Vec<Device> = if named.is_empty() {
        discover()?.devices.into_iter().take(1).collect()
    } else {
        let of_cores = |device: &Device| match device {
            Device::AllCores => Ok(Device::Cpu(allowed_cores()?)),
            other => Ok(other.clone()),
        };
        named.iter().map(of_cores).collect::<anyhow::Result<_>>()?
    };
    let cpu = pool.iter().find(|device| matches!(device, Device::Cpu(_)));
    match cpu.filter(|_| collectives == Some(Collectives::Nccl)) {
        Some(cpu) => {
            bail!("--collectives nccl moves tensors between GPUs only, and {cpu} is not one; use gloo")
        }
        None => Ok(pool),
    }
}

/// The first core or GPU that a device of the pool has in common with one before it.
fn first_shared(pool: &[Device]) -> Option<Device> {
    let mut taken = BTreeSet::new();
    let parts = |device: &Device| match device {
        Device::Cpu(cores) => cores.iter().map(|&core| Device::Cpu(vec![core])).collect(),
        other => vec![other.clone()],
    };
    pool.iter().flat_map(parts).find(|part| !taken.insert(part.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Vec<Device> {
        names.iter().map(|name| name.parse().expect("a device")).collect()
    }

    fn resolved(names: &[&str]) -> anyhow::Result<Vec<Device>> {
        resolve(&named(names), None)
    }

    #[test]
    fn cpu_stands_for_the_allowed_cores_and_nothing_for_the_best_device() {
        let all = vec![Device::Cpu(allowed_cores().expect("there are cores"))];
        assert_eq!(resolved(&["cpu"]).expect("a pool"), all);
        assert_eq!(resolved(&[]).expect("a pool").len(), 1);
    }

    #[test]
    fn what_is_named_twice_is_refused() {
        // Not every command has ranks that could share a device.
        for collectives in [None, Some(Collectives::Gloo)] {
            let error = resolve(&named(&["cpu:0-1", "cpu:1"]), collectives).expect_err("refused").to_string();
            assert_eq!(error, "--device names cpu:1 twice; name each device once");
        }
        let remedy = "name each device once, or let ranks share it with --collectives gloo";
        for (names, twice) in [(["cpu:0-1", "cpu:1"], "cpu:1"), (["cuda:0", "cuda:0"], "cuda:0")] {
            let error = of_jobs(&[], &named(&names), None).expect_err("refused").to_string();
            assert_eq!(error, format!("--device names {twice} twice; {remedy}"));
        }
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
            let error = of_jobs(&[], &named(&names), collectives).err().map(|error| error.to_string());
            let expected = error.as_deref().zip(refusal).is_some_and(|(error, words)| error.contains(words));
            assert!(
                expected || (error.is_none() && refusal.is_none()),
                "{collectives:?} {names:?}: {error:?}"
            );
        }
    }
}
