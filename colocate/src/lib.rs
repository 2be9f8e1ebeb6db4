//! Measures how much jobs slow each other down when they run together.
//!
//! [`groups`] selects the jobs that run together, [`sharing`] sets up how the machine shares a device among them, [`visit`]
//! runs one group, [`turns`] gives turns on shared devices, [`window`] finds the part of the visit that counts, [`slowdown`] makes rows of ratios from rows of
//! measurements, and [`curves`] selects the rows with a stressor.

pub mod curves;
pub mod groups;
pub mod sharing;
pub mod slowdown;
pub mod turns;
pub mod visit;
pub mod window;
