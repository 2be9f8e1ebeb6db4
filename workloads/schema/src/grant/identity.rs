//! The origin of a grant page: 64 bytes behind the number.
//!
//! | bytes of the page | content |
//! | --- | --- |
//! | 8 to 15 | `tandem-1` |
//! | 16 to 63 | the id of this boot of the kernel as text, followed by zeros |
//! | 64 to 71 | the inode number of the pid namespace in native byte order |
//!
//! What the kernel does not tell is zero. The harness and a reader in the same place lack the same.

use std::{fs, os::unix::fs::MetadataExt as _};

pub(super) const OFFSET: u64 = 8;
pub(super) const BYTES: usize = 64;

const MAGIC: &[u8; 8] = b"tandem-1";
const BOOT_BYTES: usize = 48;

/// The origin that a page of this process has.
pub(super) fn here() -> [u8; BYTES] {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino());
    let mut origin = [0; BYTES];
    let (magic, rest) = origin.split_at_mut(MAGIC.len());
    magic.copy_from_slice(MAGIC);
    let (boot_bytes, namespace_bytes) = rest.split_at_mut(BOOT_BYTES);
    boot_bytes.iter_mut().zip(boot.trim().bytes()).for_each(|(byte, boot)| *byte = boot);
    namespace_bytes.copy_from_slice(&namespace.to_ne_bytes());
    origin
}
