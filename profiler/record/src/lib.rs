//! The record of a run: its directory, its manifest, its tables and what is made from its events. The profiler writes it, and the
//! scheduler and reports read it.
//!
//! An edit here rebuilds no worker. What a worker must know is in the crate `schema`.

pub mod calibration;
pub mod facts;
pub mod first_bytes;
pub mod folder;
pub mod group;
pub mod launch_end;
pub mod lines;
pub mod manifest;
pub mod operators;
pub mod placement;
pub mod rows;
pub mod run_dir;
pub mod steps;
pub mod suspension;
pub mod trace_events;

/// A folder in memory, or else on disk, for tests that write thousands of files: syncing takes no time in memory.
#[cfg(test)]
fn folder_for_many_files() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}
