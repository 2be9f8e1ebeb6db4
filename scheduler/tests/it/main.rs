//! Tests of the engine with simulated clusters in front of it: through the loop that every command uses.

mod actions;
mod admission;
mod exec;
mod invariants;
mod packing;
mod policies;
mod queueing;
mod replay;
mod scripts;
mod support;
mod switches;
