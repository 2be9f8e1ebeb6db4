//! The program `report`.

use std::process::ExitCode;

fn main() -> ExitCode {
    reports::cmd::main()
}
