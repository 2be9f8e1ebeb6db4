//! What a program must know to be run by Tandem, and the words that all rooms share: the protocol of workers (wire, launch
//! specification, grant, checkpoint), the catalog, plans, devices, units, and how files are written whole or line by line.
//!
//! An edit here rebuilds everything, torch-worker too. What only the profiler writes is in the crate `record`, and what only the
//! scheduler writes in the crate `formats`. These three crates define every format of Tandem that crosses a process or a disk: type,
//! reader, writer and round-trip test lie side by side, and no other crate serialises.

// Tests that other rooms include name this crate as they do.
#[cfg(test)]
extern crate self as schema;

pub mod braces;
pub mod capabilities;
pub mod catalog;
pub mod checkpoint;
pub mod device;
pub mod events;
pub mod files;
pub mod footprint;
pub mod grant;
pub mod job;
pub mod line_file;
pub mod mesh;
pub mod plan;
pub mod shapes;
pub mod sharing;
pub mod skips;
pub mod spec;
pub mod surroundings;
pub mod unfinished;
pub mod units;
pub mod values;
pub mod wire;
mod words;

/// The version of the content of a run directory. A reader accepts this version and older ones.
pub const FORMAT: u32 = 1;
