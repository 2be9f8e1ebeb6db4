//! Tests the claims of the crate on simulated launches with a known truth.

mod changes;
mod coverage;
mod drift;
mod levels;
mod properties;
mod steady;
mod trace;
