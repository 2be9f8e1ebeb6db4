//! The commands, each in a file of its own.

mod compare;

use std::process::ExitCode;

pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
