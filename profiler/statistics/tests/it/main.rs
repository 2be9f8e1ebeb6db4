//! Tests of what the crate claims about simulated launches, whose truth is known.

mod coverage;
mod drift;
mod properties;
mod steady;
mod trace;
