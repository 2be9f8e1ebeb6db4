//! The tables of a run: one type a file, written and read here alone.

mod labels;
mod measurement;
mod sample;
mod summary;
mod table;

pub use labels::{ErrorKind, Sharing, Status, Warning, Warnings};
pub use measurement::Measurement;
pub use sample::{DeviceSample, HostSample, Tier};
pub use summary::Summary;
pub use table::{Appender, RowError, read, write};
