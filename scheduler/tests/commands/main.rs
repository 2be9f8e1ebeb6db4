//! Tests through the front door: the program itself, with no libtorch.

mod background;
mod door;
mod fidelity;
mod kill;
mod run;
mod sim;
mod trace;
