//! Tests of what the crate claims about simulated launches, whose truth is known.

mod coverage;
mod properties;
mod steady;
mod trace;
