//! What jobs cost each other when they run together.
//!
//! The way from jobs to `interference.csv`: [`groups`] says which of the jobs run together, [`sharing`] makes the machine share a
//! device among them, [`visit`] runs one group, [`window`] says which part of the visit counts, [`slowdown`] makes rows of ratios
//! out of rows of measurements, and [`curves`] picks those that lie along the dial of a stressor.

pub mod curves;
pub mod groups;
pub mod sharing;
pub mod slowdown;
pub mod visit;
pub mod window;
