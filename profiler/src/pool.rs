//! The devices a run may use, in the order it takes them.

use std::collections::BTreeSet;

use anyhow::bail;
use schema::device::Device;

use crate::device::{allowed_cores, discover};

/// The pool a user named, with `cpu` replaced by the cores it stands for; the best device of the
/// machine where none was named.
///
/// # Errors
/// Where two devices of the pool share a core or are the same GPU: ranks on them would share what
/// they are taken to have alone.
pub fn resolve(named: &[Device]) -> anyhow::Result<Vec<Device>> {
    if named.is_empty() {
        return Ok(discover()?.devices.into_iter().take(1).collect());
    }
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
        if let Some(shared) = parts.into_iter().find(|part| !taken.insert(part.clone())) {
            bail!("--device names {shared} twice; name each device once");
        }
        pool.push(device);
    }
    Ok(pool)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(names: &[&str]) -> anyhow::Result<Vec<Device>> {
        resolve(&names.iter().map(|name| name.parse().expect("a device")).collect::<Vec<_>>())
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
        assert_eq!(error, "--device names cpu:1 twice; name each device once");
        assert!(resolved(&["cuda:0", "cuda:0"]).is_err());
        assert_eq!(resolved(&["cpu:0", "cuda:0", "cpu:1"]).expect("a pool").len(), 3);
    }
}
