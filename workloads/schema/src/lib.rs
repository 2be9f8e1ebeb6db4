//! Every format of Tandem that crosses a process or a disk: type, reader, writer and round-trip
//! test side by side. Nothing outside this crate serialises.

pub mod calibration;
pub mod capabilities;
pub mod catalog;
pub mod checkpoint;
pub mod decision;
pub mod device;
pub mod events;
pub mod exec;
pub mod footprint;
pub mod grant;
pub mod group;
pub mod import;
pub mod job;
mod line_file;
pub mod lines;
pub mod manifest;
pub mod plan;
pub mod rows;
pub mod run_dir;
pub mod shapes;
pub mod sharing;
pub mod skips;
pub mod spec;
pub mod trace;
pub mod trace_events;
mod unfinished;
pub mod units;
pub mod wire;

/// The version of what a run directory holds. A reader accepts this one and older ones.
pub const FORMAT: u32 = 1;
