//! The grant: the number of steps that a job may complete, in a small mapped file.
//!
//! The number only grows. Ranks that read it at different moments therefore stop at the same step, so that
//! a job can be held between any two steps without a message and without a deadlock. A waiting rank sleeps
//! in the kernel (futex). Reading an open grant costs one load.
//!
//! SIGBUS kills a process that reads a mapped file after another process has truncated it, and users'
//! programs have the path of this file. The page is therefore memory that no process can truncate (a sealed
//! memfd), and the path is a link to it. Readers check the seals before they map the page.
//!
//! The link leads to a file of the harness by its process id. On another host, or in another pid namespace, the
//! same path leads to whatever has that number there. The page therefore names its origin (`identity`), and a
//! reader elsewhere refuses it.

mod identity;

use std::{
    fs::File,
    io,
    os::{
        fd::AsRawFd as _,
        unix::fs::{FileExt as _, OpenOptionsExt as _, symlink},
    },
    path::Path,
    process,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    time::Duration,
};

use memmap2::MmapMut;
use rustix::{
    fs::{MemfdFlags, OFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create},
    io::Errno,
    thread::futex::{self, Flags, Timespec},
};

/// The size of a page. Its first eight bytes hold the number in native byte order, and its origin follows.
const PAGE_BYTES: usize = 4096;
/// The seals that keep every process from changing the size of the page.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

pub struct Grant {
    page: MmapMut,
    /// The file that the path links to, as long as the harness has it open.
    _memory: File,
}

impl Grant {
    /// Makes the page of a new launch with a grant of 0. Others can open it at `path` while this value lives.
    ///
    /// # Errors
    /// The path is taken, or its folder cannot be written.
    pub fn create(path: &Path) -> io::Result<Grant> {
        let memory = File::from(memfd_create("grant", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        memory.set_len(PAGE_BYTES as u64)?;
        memory.write_all_at(&identity::here(), identity::OFFSET)?;
        fcntl_add_seals(&memory, SEALS | SealFlags::SEAL)?;
        symlink(format!("/proc/{}/fd/{}", process::id(), memory.as_raw_fd()), path)?;
        Grant::map(memory)
    }

    /// Opens the page that the harness made. A pipe or a terminal at the path is not waited for.
    ///
    /// # Errors
    /// The path cannot be opened, or leads to something else than a page of a harness in the same boot and pid
    /// namespace.
    pub fn open(path: &Path) -> io::Result<Grant> {
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
        let file = File::options().read(true).write(true).custom_flags(flags).open(path)?;
        let refused = |reason: &str| {
            let message = format!("{} is no grant page: {reason}", path.display());
            io::Error::new(io::ErrorKind::InvalidData, message)
        };
        // Only files in memory have seals, so the kernel gives those of no other kind of file.
        if !fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SEALS)) {
            return Err(refused("it is no memory with seals that keep its size, as the harness makes it"));
        }
        if file.metadata()?.len() != PAGE_BYTES as u64 {
            return Err(refused(&format!("it is not {PAGE_BYTES} bytes long")));
        }
        let mut origin = [0; identity::BYTES];
        file.read_exact_at(&mut origin, identity::OFFSET)?;
        if origin != identity::here() {
            return Err(refused(
                "it was not made by a harness of this version on this host and in this pid namespace",
            ));
        }
        Grant::map(file)
    }

    #[expect(unsafe_code, reason = "a mapped file is shared memory, which Rust cannot check")]
    fn map(memory: File) -> io::Result<Grant> {
        // SAFETY: the page is sealed, so that no process can truncate it, and it is only accessed through
        // the atomics below.
        let page = unsafe { memmap2::MmapOptions::new().len(PAGE_BYTES).map_mut(&memory)? };
        Ok(Grant { page, _memory: memory })
    }

    #[expect(unsafe_code, reason = "the first eight bytes of the page are an atomic number")]
    fn steps(&self) -> &AtomicU64 {
        // SAFETY: a page is aligned and long enough, lives as long as `self`, and all processes
        // access these bytes atomically.
        unsafe { &*self.page.as_ptr().cast::<AtomicU64>() }
    }

    /// The low half of the number, which changes with every grant of less than 2^32 steps. A futex has 32
    /// bits.
    #[expect(unsafe_code, reason = "a futex word is the low half of the atomic number")]
    fn word(&self) -> &AtomicU32 {
        let low_half = if cfg!(target_endian = "little") { 0 } else { 4 };
        // SAFETY: as for `steps`; the word is only waited on, never written through this reference.
        unsafe { &*self.page.as_ptr().add(low_half).cast::<AtomicU32>() }
    }

    /// The total number of steps that the job may complete.
    pub fn get(&self) -> u64 {
        self.steps().load(Ordering::Acquire)
    }

    /// Raises the grant to `steps` and wakes every waiting rank. A smaller number has no effect.
    pub fn extend_to(&self, steps: u64) {
        if self.steps().fetch_max(steps, Ordering::AcqRel) < steps {
            // Waking fails only for an unmapped address.
            let _ = futex::wake(self.word(), Flags::empty(), i32::MAX as u32);
        }
    }

    /// Sleeps until more than `done` steps are granted or `at_most` has passed. Returns whether they are
    /// granted.
    pub fn wait_beyond(&self, done: u64, at_most: Duration) -> bool {
        let seen = self.word().load(Ordering::Acquire);
        if self.get() > done {
            return true;
        }
        let timeout =
            Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
        // The wait may end by a wake, a signal or a time-out, so only the number counts.
        let _: Result<(), Errno> = futex::wait(self.word(), Flags::empty(), seen, Some(&timeout));
        self.get() > done
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc::{self, RecvTimeoutError},
        thread,
    };

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_grant_only_grows_and_both_sides_see_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control");
        let harness = Grant::create(&path).unwrap();
        let worker = Grant::open(&path).unwrap();
        assert_eq!(worker.get(), 0);
        harness.extend_to(7);
        harness.extend_to(3);
        assert_eq!(worker.get(), 7);
        harness.extend_to(u64::MAX);
        assert_eq!(worker.get(), u64::MAX);
        assert_eq!(Grant::create(&path).map(|_| ()).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_waiting_rank_sleeps_until_it_is_woken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control");
        let harness = Grant::create(&path).unwrap();
        assert!(!harness.wait_beyond(0, Duration::from_millis(5)));
        // Many rounds, as a round shows nothing if the grant comes before the rank sleeps.
        const ROUNDS: u64 = 100;
        let (tell, told) = mpsc::channel();
        let worker = Grant::open(&path).unwrap();
        thread::spawn(move || {
            for done in 0..ROUNDS {
                tell.send(done).unwrap();
                // A rank that is not woken sleeps for longer than the test waits.
                while !worker.wait_beyond(done, Duration::from_secs(3600)) {}
            }
        });
        let hear = || told.recv_timeout(Duration::from_secs(120));
        for done in 0..ROUNDS {
            assert_eq!(hear(), Ok(done), "the rank was not woken");
            harness.extend_to(done + 1);
        }
        assert_eq!(hear(), Err(RecvTimeoutError::Disconnected), "the rank was not woken for its end");
    }

    #[test]
    fn no_process_makes_the_page_shorter() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control");
        let harness = Grant::create(&path).unwrap();
        harness.extend_to(7);
        let truncated = File::options().write(true).truncate(true).open(&path);
        assert_eq!(truncated.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let writable = File::options().write(true).open(&path).unwrap();
        for bytes in [0, 1, PAGE_BYTES as u64 + 1] {
            assert_eq!(
                writable.set_len(bytes).unwrap_err().kind(),
                io::ErrorKind::PermissionDenied,
                "{bytes}"
            );
        }
        harness.extend_to(8);
        assert_eq!((harness.get(), Grant::open(&path).unwrap().get()), (8, 8));
    }

    #[test]
    fn memory_of_another_program_or_of_a_harness_elsewhere_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control");
        let harness = Grant::create(&path).unwrap();
        let page = File::options().write(true).open(&path).unwrap();
        // The magic number, the boot, and the pid namespace.
        for offset in [8, 16, 51, 64] {
            let mut own = [0];
            harness._memory.read_exact_at(&mut own, offset).unwrap();
            page.write_all_at(&[own[0] ^ 1], offset).unwrap();
            let message = Grant::open(&path).map(|_| ()).unwrap_err().to_string();
            assert!(message.contains("on this host and in this pid namespace"), "{offset}: {message}");
            page.write_all_at(&own, offset).unwrap();
            assert!(Grant::open(&path).is_ok(), "{offset}");
        }
    }

    #[test]
    fn a_page_that_can_be_truncated_and_other_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let refusal = |path: &Path| Grant::open(path).map(|_| ()).unwrap_err().to_string();
        let plain = dir.path().join("plain");
        std::fs::write(&plain, [0; PAGE_BYTES]).unwrap();
        let pipe = dir.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for path in [&plain, &pipe, Path::new("/dev/ptmx"), Path::new("/dev/zero")] {
            let message = refusal(path);
            assert!(message.contains("is no grant page: it is no memory with seals"), "{message}");
        }
        for (seals, bytes, reason) in [
            (SealFlags::empty(), PAGE_BYTES as u64, "no memory with seals"),
            (SealFlags::GROW, PAGE_BYTES as u64, "no memory with seals"),
            (SealFlags::SHRINK, PAGE_BYTES as u64, "no memory with seals"),
            (SEALS, 1, "it is not 4096 bytes long"),
        ] {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let memory = File::from(memfd_create("grant", flags).unwrap());
            memory.set_len(bytes).unwrap();
            fcntl_add_seals(&memory, seals).unwrap();
            let path = format!("/proc/{}/fd/{}", process::id(), memory.as_raw_fd());
            let message = refusal(Path::new(&path));
            assert!(message.contains(reason), "{seals:?}: {message}");
        }
    }
}
