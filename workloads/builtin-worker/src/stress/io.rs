//! `stress-io`: writes blocks to a file, one after the other, and waits for the disk after each.
//!
//! The file is on the file system of the run, so that `--out` selects the disk, and has no name: the kernel
//! frees it when the last process that holds it is gone. One thread has one write in progress; a disk with
//! parallel writes is busier with more threads.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path, time::Duration};

use rustix::fs::{OFlags, fcntl_setfl, statfs};
use schema::units::Nanos;

use super::Stressor;

/// Size of a unit of work, so large that the transfer dominates the latency of a command.
const BLOCK_BYTES: usize = 256 << 10;

/// The number of blocks after which a file is written from its beginning again: 16 MiB.
const BLOCKS: u64 = 64;

/// Direct writes must be aligned to this on every disk.
const ALIGNMENT: usize = 4096;

/// A block, and room to align it.
pub(super) const THREAD_BYTES: u64 = (BLOCK_BYTES + ALIGNMENT) as u64;

/// File systems that are memory: tmpfs and ramfs, as in Linux's `include/uapi/linux/magic.h`.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// The reason why there is no disk to load. A file system on top of another, as in containers, is trusted.
pub(super) fn refusal(folder: &Path) -> Option<String> {
    let kind = statfs(folder).ok()?.f_type as u64;
    IN_MEMORY.contains(&kind).then(|| {
        "stress-io writes to the file system of the run, which is in memory; name a place on a disk with --out".into()
    })
}

pub(super) struct Io {
    file: File,
    /// The block of the file that is written next.
    block: u64,
    buffer: Vec<u8>,
    /// Offset of the aligned part of the buffer.
    aligned: usize,
}

impl Io {
    /// # Errors
    /// The folder cannot be written to, or the disk is full.
    pub(super) fn new(folder: &Path) -> io::Result<Io> {
        let file = tempfile::tempfile_in(folder)?;
        let buffer = vec![0x5a; THREAD_BYTES as usize];
        let aligned = buffer.as_ptr().align_offset(ALIGNMENT);
        let mut io = Io { file, block: 0, buffer, aligned };
        // Writing to allocated blocks changes no metadata, so that no write waits for a journal.
        (0..BLOCKS).try_for_each(|_| io.write())?;
        io.file.sync_all()?;
        // Some file systems do not support it. A block then goes to the disk through the page cache.
        if let Err(error) = fcntl_setfl(&io.file, OFlags::DIRECT) {
            eprintln!("stress-io: writes go through the page cache: O_DIRECT: {error}");
        }
        Ok(io)
    }

    fn write(&mut self) -> io::Result<()> {
        let block = &self.buffer[self.aligned..self.aligned + BLOCK_BYTES];
        self.file.write_all_at(block, self.block * BLOCK_BYTES as u64)?;
        self.block = (self.block + 1) % BLOCKS;
        Ok(())
    }
}

impl Stressor for Io {
    fn unit(&mut self) -> io::Result<()> {
        self.write()?;
        self.file.sync_data()
    }

    /// Waiting for the disk is its work.
    fn clock(&self) -> Duration {
        Nanos::monotonic_now().as_duration()
    }

    fn memory_bytes(&self) -> u64 {
        self.buffer.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::MetadataExt};

    use super::*;

    /// Bytes that this process has caused to be written to a disk.
    fn written_bytes() -> u64 {
        let io = fs::read_to_string("/proc/self/io").expect("there is /proc");
        let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).expect("it has the line");
        line.parse().expect("a number")
    }

    #[test]
    fn blocks_reach_the_disk_in_a_file_that_no_one_sees() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        if let Some(refusal) = refusal(folder.path()) {
            schema::skips::skipped("disk", refusal);
            return;
        }
        let mut io = Io::new(folder.path()).expect("the folder is writable");
        let before = written_bytes();
        for _ in 0..3 {
            io.unit().expect("the disk has room");
        }
        assert!(written_bytes() - before >= 3 * BLOCK_BYTES as u64);
        assert_eq!(io.block, 3);
        let file = io.file.metadata().expect("it is open");
        assert_eq!((file.len(), file.nlink()), (BLOCKS * BLOCK_BYTES as u64, 0));
        assert!(file.blocks() * 512 >= file.len(), "all of it has its place on the disk");
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);
    }

    #[test]
    fn a_file_system_in_memory_is_refused() {
        let kind = statfs("/dev/shm").map(|file_system| file_system.f_type as u64);
        if !kind.is_ok_and(|kind| kind == IN_MEMORY[0]) {
            schema::skips::skipped("tmpfs", "/dev/shm is no tmpfs here");
            return;
        }
        let reason = refusal(Path::new("/dev/shm")).expect("it is in memory");
        assert!(reason.contains("in memory; name a place on a disk with --out"), "{reason}");
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        assert!(Io::new(Path::new("/nowhere/at/all")).is_err());
    }
}
