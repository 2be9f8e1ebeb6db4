//! The names of devices: one GPU, or a set of cores on a machine without one.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize, de};

/// A device as people type it: `cuda:0`, `cpu:0` (core 0), `cpu:0-1` (a set of two), `cpu:0-1+4` (a set
/// with a gap), `cpu` (all cores that this process may use).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Device {
    Cuda(u32),
    /// Core numbers, ascending and distinct.
    Cpu(Vec<u16>),
    /// All allowed cores. The harness replaces it by the set of them before anything starts.
    AllCores,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no device; write cuda:N, cpu:N, cpu:N-M, cpu:N-M+K or cpu")]
pub struct DeviceError(String);

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cuda(index) => f.pad(&format!("cuda:{index}")),
            Device::AllCores => f.pad("cpu"),
            Device::Cpu(cores) => f.pad(&format!("cpu:{}", ranges(cores))),
        }
    }
}

impl Device {
    /// The type of device that a rate is valid for: the name, and the number of cores of a set of several.
    pub fn type_of(&self, name: &str) -> String {
        match self {
            Device::Cpu(cores) if cores.len() > 1 => format!("{} cores of {name}", cores.len()),
            Device::Cpu(_) | Device::AllCores | Device::Cuda(_) => name.into(),
        }
    }

    /// Whether jobs on the two devices compete for a core or a GPU.
    pub fn shares_with(&self, other: &Device) -> bool {
        match (self, other) {
            (Device::Cpu(own), Device::Cpu(others)) => own.iter().any(|core| others.contains(core)),
            (Device::Cuda(own), Device::Cuda(other)) => own == other,
            (Device::Cuda(_), _) | (_, Device::Cuda(_)) => false,
            (Device::AllCores, _) | (_, Device::AllCores) => true,
        }
    }
}

/// The device on which a process runs that is given all of these: all their cores, or the first GPU, because a process is bound to cores
/// alone. `None` without a device.
pub fn joint(devices: &[Device]) -> Option<Device> {
    let mut cores = Vec::new();
    for device in devices {
        match device {
            Device::Cpu(own) => cores.extend(own),
            Device::Cuda(_) | Device::AllCores => return Some(device.clone()),
        }
    }
    cores.sort_unstable();
    cores.dedup();
    (!cores.is_empty()).then_some(Device::Cpu(cores))
}

/// How ranks are divided among devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    pub devices: u32,
    pub ranks_per_device: u32,
}

impl Division {
    /// The division of ranks whose devices are named one by one. `None` if a device has more ranks than another, or shares cores
    /// with another.
    pub fn of(ranks: &[Device]) -> Option<Division> {
        let is_first = |rank: &usize| !ranks[..*rank].contains(&ranks[*rank]);
        let devices: Vec<&Device> = (0..ranks.len()).filter(is_first).map(|rank| &ranks[rank]).collect();
        let ranks_on = |device: &Device| ranks.iter().filter(|other| *other == device).count();
        let each = ranks_on(devices.first()?);
        let is_even = devices.iter().all(|device| ranks_on(device) == each);
        let is_apart = |at: usize| !devices[..at].iter().any(|other| other.shares_with(devices[at]));
        (is_even && (0..devices.len()).all(is_apart))
            .then_some(Division { devices: devices.len() as u32, ranks_per_device: each as u32 })
    }
}

fn ranges(cores: &[u16]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for run in cores.chunk_by(|a, b| a + 1 == *b) {
        parts.push(match run {
            [only] => only.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => unreachable!("chunk_by yields no empty chunk"),
        });
    }
    parts.join("+")
}

impl FromStr for Device {
    type Err = DeviceError;

    fn from_str(s: &str) -> Result<Device, DeviceError> {
        let wrong = || DeviceError(s.into());
        if s == "cpu" {
            return Ok(Device::AllCores);
        }
        match s.split_once(':') {
            Some(("cuda", index)) => Ok(Device::Cuda(index.parse().map_err(|_| wrong())?)),
            Some(("cpu", set)) => {
                let mut cores = Vec::new();
                for part in set.split('+') {
                    let (first, last) = part.split_once('-').unwrap_or((part, part));
                    let (first, last): (u16, u16) =
                        (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
                    cores.extend(first..=last);
                    // Empty ranges and repeated cores are typing errors.
                    if first > last || !cores.is_sorted_by(|a, b| a < b) {
                        return Err(wrong());
                    }
                }
                Ok(Device::Cpu(cores))
            }
            _ => Err(wrong()),
        }
    }
}

impl Serialize for Device {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Device {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Device, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn devices_share_a_core_or_a_gpu() {
        let shares = |a: &str, b: &str| {
            let (a, b): (Device, Device) = (a.parse().unwrap(), b.parse().unwrap());
            assert_eq!(a.shares_with(&b), b.shares_with(&a));
            a.shares_with(&b)
        };
        for (a, b) in [
            ("cpu:0", "cpu:0"),
            ("cpu:0-1", "cpu:1+3"),
            ("cpu", "cpu:5"),
            ("cuda:1", "cuda:1"),
            ("cpu", "cpu"),
        ] {
            assert!(shares(a, b), "{a} {b}");
        }
        for (a, b) in [("cpu:0", "cpu:1"), ("cuda:0", "cuda:1"), ("cuda:0", "cpu:0"), ("cuda:0", "cpu")] {
            assert!(!shares(a, b), "{a} {b}");
        }
    }

    #[test]
    fn ranks_are_divided_evenly_or_not_at_all() {
        let of = |names: &str| {
            let ranks: Vec<Device> = names.split(',').map(|name| name.parse().unwrap()).collect();
            Division::of(&ranks).map(|of| (of.devices, of.ranks_per_device))
        };
        assert_eq!(of("cpu:0"), Some((1, 1)));
        assert_eq!(of("cuda:0,cuda:1"), Some((2, 1)));
        assert_eq!(of("cpu:0,cpu:1,cpu:0,cpu:1"), Some((2, 2)));
        assert_eq!(of("cpu:0,cpu:1,cpu:0"), None);
        assert_eq!(of("cpu:0-1,cpu:1-2"), None);
        assert_eq!(Division::of(&[]), None);
    }

    proptest! {
        #[test]
        fn every_device_round_trips(cores in prop::collection::btree_set(0u16..300, 1..20), index in 0u32..64) {
            for device in [Device::Cpu(cores.iter().copied().collect()), Device::Cuda(index), Device::AllCores] {
                prop_assert_eq!(device.to_string().parse::<Device>().unwrap(), device);
            }
        }
    }

    #[test]
    fn what_parses() {
        assert_eq!("cpu:0-1+4".parse::<Device>().unwrap(), Device::Cpu(vec![0, 1, 4]));
        assert_eq!("cpu:3".parse::<Device>().unwrap(), Device::Cpu(vec![3]));
        for wrong in ["gpu:0", "cuda", "cuda:x", "cpu:", "cpu:1-0", "cpu:1+1", "cpu:2+0", "", "cpu:0,1"] {
            let message = wrong.parse::<Device>().unwrap_err().to_string();
            assert!(message.starts_with(&format!("'{wrong}' is no device")), "{message}");
        }
    }
}
