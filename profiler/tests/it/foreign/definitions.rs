//! The definitions in `workloads/programs`, with the packages that they need: each plan computes the same, and a checkpoint goes on.

use std::{env, path::Path, process::Command};

use front_door::{Said, has_cores};

use super::{pytorch::python_with_torch, root};

/// Verifies the program of a definition with the packages of this Python.
fn verify(name: &str, python: &Path) {
    let door = crate::door();
    let out = door.path("v");
    let options =
        format!("--catalog workloads/programs/{name}.toml --device cpu:0,cpu:1 --out {}", out.display());
    let mut command = door.command(&format!("verify {name} {options}"));
    let folder = python.parent().expect("it is in a folder");
    let others = env::var("PATH").unwrap_or_default();
    // Paths of definitions begin in the root of the repository.
    command.current_dir(root()).env("PATH", format!("{}:{others}", folder.display()));
    let output = command.output().expect("profile starts");
    let said = Said::of(&output);
    assert_eq!(output.status.code(), Some(0), "{name}: {}\n{}", said.out, said.err);
    let resumed = said.out.lines().filter(|line| line.contains(" resume ") && line.contains(" verified"));
    assert_eq!(resumed.count(), 2, "under the first plan and under the most ranks: {}", said.out);
}

#[test]
fn the_reference_is_verified() {
    if !has_cores(2) {
        return;
    }
    let Some(python) = python_with_torch() else { return };
    verify("ddp", &python);
}

#[test]
fn programs_of_public_packages_are_verified() {
    if env::var_os("TANDEM_SLOW").is_none_or(|value| value != "1") {
        return schema::skips::skipped("slow", "set TANDEM_SLOW=1 to take the minutes that it takes");
    }
    if !has_cores(2) {
        return;
    }
    let Some(python) = python_with_torch() else { return };
    for (name, packages) in [
        ("fsdp2", "torch"),
        ("trainer", "transformers, accelerate"),
        ("lightning", "lightning"),
        ("deepspeed", "deepspeed"),
    ] {
        let import = Command::new(&python).args(["-c", &format!("import {packages}")]).output();
        match import.is_ok_and(|output| output.status.success()) {
            true => verify(name, &python),
            false => schema::skips::skipped("pytorch", format!("{} has no {packages}", python.display())),
        }
    }
}
