//! Tests of the engine with simulated clusters in front of it: through the loop that every command uses.

mod actions;
mod admission;
mod invariants;
mod queueing;
mod replay;
mod scripts;
mod support;
mod switches;
