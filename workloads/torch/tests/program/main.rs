//! Tests through the program itself, as the harness and people start it.

mod itself;
mod protocol;
mod support;
