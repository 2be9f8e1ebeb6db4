//! Tests through the program and its seams, with synthetic workers and no libtorch.

mod bench;
mod testbed;
