//! Tests through the front door: the program itself, with no libtorch.

mod background;
mod door;
mod fidelity;
mod help;
mod kill;
mod lacking;
mod output;
mod run;
mod sim;
mod trace;
