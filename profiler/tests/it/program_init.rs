//! `profile program init`: a first definition of a program, from a command and its `--help`.

use std::{fs, process::Command};

use front_door::{Door, executable};

/// Options as argparse shows them. The program says that it was started, with what, and would train without `--help`.
const SCRIPT: &str = r#"#!/bin/sh
echo "$@" >> started
case "$*" in *--help) ;; *) exit 9 ;; esac
cat <<END
usage: train [-h]

options:
  -h, --help            show this help message and exit
  --batch-size N        samples of a step (default: 16)
  --bf16                compute in bfloat16
  --output-dir DIR      where to save
END
"#;

fn with_script() -> Door {
    let door = crate::door();
    executable(&door.path("train"), SCRIPT);
    door
}

fn init(door: &Door, code: i32, options: &str, command: &[&str]) -> front_door::Said {
    let mut run = door.command(&format!("program init {options}"));
    let output = run.arg("--").args(command).output().expect("profile starts");
    let said = front_door::Said::of(&output);
    assert_eq!(output.status.code(), Some(code), "{options} {command:?}: {}", said.err);
    said
}

#[test]
fn a_definition_is_written_from_one_start_with_help_and_lists_its_program() {
    let door = with_script();
    let said = init(&door, 0, "--out mine.toml", &["./train", "--batch-size", "4", "data dir"]);
    assert_eq!(
        fs::read_to_string(door.path("started")).expect("it was started"),
        "--batch-size 4 data dir --help\n"
    );
    assert!(said.err.contains("profile list --catalog mine.toml"), "{}", said.err);
    let text = fs::read_to_string(door.path("mine.toml")).expect("it was written");
    for line in [
        r#"name = "train""#,
        r#"command = "./train --batch-size {batch} 'data dir'""#,
        "batches = [4]",
        r#"axes = ["bf16"]"#,
        r#"bf16 = "--bf16""#,
    ] {
        assert!(text.lines().any(|other| other == line), "{line}: {text}");
    }
    assert!(text.contains("# - command: --output-dir {launch} gives each launch"), "{text}");
    let list = door.exits(0, "list train --catalog mine.toml").out;
    assert!(list.contains("train"), "{list}");
    let dry = "single train --plan dp1,bf16 --catalog mine.toml --device cpu:0 --dry-run --json";
    let cells = door.exits(0, dry).out;
    assert!(cells.contains("train@b4@bf16@on=cpu:0") && cells.contains("\"--bf16\""), "{cells}");
}

#[test]
fn without_a_file_the_definition_is_printed_and_a_program_that_fails_has_one_too() {
    let door = crate::door();
    let said = init(&door, 0, "", &["sh", "-c", "exit 3"]);
    assert!(
        said.out.contains("[[program]]\n") && said.out.contains("# - --help names no options"),
        "{}",
        said.out
    );
    door.write("printed.toml", &said.out);
    door.exits(0, "list --catalog printed.toml");
}

#[test]
fn a_python_without_pytorch_is_named() {
    for (finds, is_named) in [("True", false), ("False", true), ("an error", false)] {
        let door = crate::door();
        let python = format!("#!/bin/sh\ncase \"$*\" in -c*) echo {finds} ;; *) echo options: ;; esac\n");
        executable(&door.path("python3"), &python);
        let said = init(&door, 0, "", &["./python3", "train.py"]);
        let line =
            "# ./python3 finds no PyTorch: if the program imports it, check which Python the command starts.";
        assert_eq!(said.out.lines().next() == Some(line), is_named, "{finds}: {}", said.out);
    }
}

#[test]
fn files_are_not_overwritten_and_programs_that_are_not_there_are_refused() {
    let door = with_script();
    door.write("mine.toml", "kept\n");
    let said = init(&door, 2, "--out mine.toml", &["./train"]);
    assert!(
        said.err.contains("--out mine.toml: there is such a file, and none is overwritten"),
        "{}",
        said.err
    );
    assert_eq!(fs::read_to_string(door.path("mine.toml")).expect("it is there"), "kept\n");
    assert!(!door.path("started").exists(), "nothing was started");
    let said = init(&door, 2, "--out other.toml", &["./no-such"]);
    assert!(said.err.contains("there is no program './no-such'"), "{}", said.err);
    let said = init(&door, 2, "--out other.toml", &["torchrun", "--nproc-per-node", "2"]);
    assert!(said.err.contains("names no program after its launcher"), "{}", said.err);
    door.exits(2, "program init --out other.toml");
    assert!(!door.path("other.toml").exists());
}

#[test]
fn the_program_of_the_repository_is_defined_with_its_plans() {
    let has_torch = Command::new("python3").args(["-c", "import torch"]).output();
    if !has_torch.is_ok_and(|output| output.status.success()) {
        schema::skips::skipped("pytorch", "python3 has no PyTorch");
        return;
    }
    let door = crate::door();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../workloads/programs/ddp.py");
    let command = ["torchrun", "--standalone", "--nproc-per-node", "2", script, "--micro-batch", "4"];
    init(&door, 0, "--out mine.toml", &command);
    let said = door.exits(0, "list --plans ddp --catalog mine.toml --device cpu:0,cpu:1").out;
    for plan in ["dp2", "ga2", "bf16", "dp2-zero1"] {
        assert!(said.contains(plan), "{plan}: {said}");
    }
}
