//! Tests through the front door: the program itself, with no libtorch.

mod door;
mod fidelity;
mod sim;
mod trace;
