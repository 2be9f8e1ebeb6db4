//! Tests through the program itself, as the harness and people start it.

mod all_reduce;
mod checkpoint;
#[path = "../common/mod.rs"]
mod common;
mod itself;
mod loaders;
mod pause;
mod plans;
mod protocol;
mod ranks;
mod support;
mod whole_libtorch;
