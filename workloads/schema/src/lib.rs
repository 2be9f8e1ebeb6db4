//! Every format of Tandem that crosses a process or a disk. Type, reader, writer and round-trip test lie
//! side by side, and no other crate serialises.

pub mod calibration;
pub mod capabilities;
pub mod catalog;
pub mod checkpoint;
pub mod cluster;
mod covariance;
pub mod decision;
pub mod device;
pub mod events;
pub mod exec;
pub mod fitted;
pub mod folder;
pub mod footprint;
pub mod grant;
pub mod group;
pub mod history;
pub mod import;
pub mod interference_fit;
pub mod job;
mod line_file;
pub mod lines;
pub mod loss_curve;
pub mod manifest;
pub mod mesh;
pub mod placement;
pub mod plan;
pub mod rows;
pub mod run_dir;
pub mod shapes;
pub mod sharing;
pub mod skips;
pub mod spec;
pub mod steps;
pub mod suspension;
pub mod trace;
pub mod trace_events;
mod unfinished;
pub mod units;
pub mod wire;

/// The version of the content of a run directory. A reader accepts this version and older ones.
pub const FORMAT: u32 = 1;
