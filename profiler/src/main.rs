//! The program `profile`, which is also the leash and the synthetic worker.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().as_deref().and_then(|first| first.to_str()) {
        Some("leash") => rig::leash::main(arguments),
        Some("synthetic-worker") => builtin_worker::main(),
        _ => profiler::cmd::main(),
    }
}
