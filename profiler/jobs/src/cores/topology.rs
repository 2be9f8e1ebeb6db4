//! The cores of the machine, as the kernel reports them in `/sys`.

use std::{fs, path::Path};

use super::assign::Core;

/// The cores of the allowed processors, each with its allowed hyperthreads, in the order of the lowest. A processor that the
/// kernel does not describe is a core of its own.
pub fn cores(sys: &Path, allowed: &[u16]) -> Vec<Core> {
    let mut cores: Vec<Core> = Vec::new();
    for &cpu in allowed {
        if cores.iter().any(|core| core.0.contains(&cpu)) {
            continue;
        }
        let file = sys.join(format!("devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
        let siblings = list(&file).unwrap_or_default();
        let is_of_core = |other: &u16| *other == cpu || siblings.contains(other);
        cores.push(Core(allowed.iter().copied().filter(is_of_core).collect()));
    }
    cores
}

/// The processors near a device of the PCI bus, named as in `0000:3b:00.0`; empty if the kernel does not report them.
pub fn near(sys: &Path, address: &str) -> Vec<u16> {
    let device = sys.join("bus/pci/devices").join(address);
    let node: Option<i32> =
        fs::read_to_string(device.join("numa_node")).ok().and_then(|text| text.trim().parse().ok());
    // For a device without a NUMA node, the list contains all processors.
    if node.is_none_or(|node| node < 0) {
        Vec::new()
    } else {
        list(&device.join("local_cpulist")).unwrap_or_default()
    }
}

/// Parses a set of processors in the kernel's format, such as `0-3,8`.
fn list(file: &Path) -> Option<Vec<u16>> {
    let text = fs::read_to_string(file).ok()?;
    let mut all = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        all.extend(first..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hyperthreads_and_nodes_are_read() {
        let sys = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = sys.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (cpu, siblings) in [(0, "0,2\n"), (1, "1,3\n"), (2, "0,2\n"), (3, "1,3\n")] {
            write(&format!("devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), siblings);
        }
        let found =
            |allowed: &[u16]| cores(sys.path(), allowed).into_iter().map(|core| core.0).collect::<Vec<_>>();
        assert_eq!(found(&[0, 1, 2, 3]), [vec![0, 2], vec![1, 3]]);
        assert_eq!(found(&[1, 2, 3]), [vec![1, 3], vec![2]], "what is not allowed is left out");
        assert_eq!(found(&[7]), [vec![7]], "the topology does not mention it");

        for (address, node, local) in [("0000:3b:00.0", "1\n", "1,3\n"), ("0000:af:00.0", "-1\n", "0-3\n")] {
            write(&format!("bus/pci/devices/{address}/numa_node"), node);
            write(&format!("bus/pci/devices/{address}/local_cpulist"), local);
        }
        assert_eq!(near(sys.path(), "0000:3b:00.0"), [1, 3]);
        assert_eq!(near(sys.path(), "0000:af:00.0"), [0u16; 0]);
        assert_eq!(near(sys.path(), "0000:00:00.0"), [0u16; 0]);
    }
}
