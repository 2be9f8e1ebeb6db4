//! Compiles the library that keeps the step hook on the path of a program (`workloads/python/preload`), which is part of this crate.

use std::{env, path::Path};

const SOURCE: &str = "../../workloads/python/preload/keep_hook.c";

fn main() {
    println!("cargo:rerun-if-changed={SOURCE}");
    println!("cargo:rerun-if-changed=build.rs");
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let mut build = cc::Build::new();
    // The same at each level of optimisation, and without what libc would have to provide.
    build.opt_level(2).debug(false).pic(true).warnings(true).extra_warnings(true);
    let mut command = build.get_compiler().to_command();
    command.args(["-shared", "-nostdlib", "-ffreestanding", "-fno-builtin", "-fno-stack-protector", "-s"]);
    command.arg(SOURCE).arg("-o").arg(Path::new(&out).join("keep_hook.so"));
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
