//! What jobs cost each other when they run together.
//!
//! Pure functions on the way from jobs to `interference.csv`: [`groups`] says which of the jobs run together, [`window`] which
//! part of a visit counts, [`slowdown`] makes rows of ratios out of rows of measurements, and [`curves`] picks those that
//! lie along the dial of a stressor. Nothing here starts a job, reads a file, or asks for the time.

pub mod curves;
pub mod groups;
pub mod slowdown;
pub mod window;
