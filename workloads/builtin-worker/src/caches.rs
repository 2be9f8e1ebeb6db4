//! The size of the caches of a set of cores, as reported by the kernel.

use std::{fs, path::Path};

/// The folder in which Linux describes the cores of a machine.
pub const CORES: &str = "/sys/devices/system/cpu";

/// Bytes of the last-level caches of these cores, with shared caches counted once. `None` if the kernel
/// does not report them, as in some containers. In a guest, the host decides what is reported.
pub fn last_level_bytes(system: &Path, cores: &[u16]) -> Option<u64> {
    let mut caches: Vec<(String, u64)> =
        cores.iter().filter_map(|core| last_level_cache(&system.join(format!("cpu{core}/cache")))).collect();
    caches.sort();
    caches.dedup();
    (!caches.is_empty()).then(|| caches.iter().map(|(_, bytes)| bytes).sum())
}

/// The cores that share the highest-level cache in this folder, and its size.
fn last_level_cache(folder: &Path) -> Option<(String, u64)> {
    let read =
        |path: &Path, file| fs::read_to_string(path.join(file)).ok().map(|text| text.trim().to_owned());
    let (_, last) = fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            Some((read(&path, "level")?.parse::<u32>().ok()?, path))
        })
        .max()?;
    let kib: u64 = read(&last, "size")?.strip_suffix('K')?.parse().ok()?;
    Some((read(&last, "shared_cpu_list")?, kib * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_that_cores_share_are_counted_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // Two cores share 32 MiB of level 3, and the third has 16 MiB for itself; level 2 does not count.
        for (core, shared, size) in [(0, "0-1", "32768K"), (1, "0-1", "32768K"), (2, "2", "16384K")] {
            for (index, level, size) in [(2, "2", "1024K"), (3, "3", size)] {
                let cache = folder.path().join(format!("cpu{core}/cache/index{index}"));
                fs::create_dir_all(&cache).expect("the folder is writable");
                for (file, text) in [("level", level), ("size", size), ("shared_cpu_list", shared)] {
                    fs::write(cache.join(file), format!("{text}\n")).expect("the folder is writable");
                }
            }
        }
        let mib = |cores: &[u16]| last_level_bytes(folder.path(), cores).map(|bytes| bytes >> 20);
        assert_eq!((mib(&[0]), mib(&[0, 1]), mib(&[0, 1, 2])), (Some(32), Some(32), Some(48)));
        assert_eq!((mib(&[9]), mib(&[])), (None, None));
    }
}
