//! Output of `profile` for programs: readers that have ended, shells, `man`, and help.

use std::{fs, process::Stdio};

use front_door::check_help;

#[test]
fn a_short_help_fits_on_a_screen_and_names_what_the_long_one_has() {
    let commands = check_help(&crate::door());
    let known = ["single", "colocate", "calibrate", "program init"];
    assert!(known.iter().all(|name| commands.iter().any(|known| known == name)), "{commands:?}");
}

#[test]
fn a_reader_that_is_gone_ends_nothing() {
    let door = crate::door();
    door.catalog("mine.toml", "light", "step_us = 1000, busy_percent = 1");
    let single = "single light --catalog mine.toml --device cpu:0 --steps 20 --repeats 2 --json --out r";
    for arguments in ["list", "list --json", single] {
        let mut command = door.command(arguments);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("profile starts");
        drop((child.stdout.take(), child.stderr.take()));
        assert_eq!(child.wait().expect("it is ours").code(), Some(0), "{arguments}");
    }
    assert_eq!(door.summaries("r").len(), 1, "files are for others than who reads what is printed");
}

#[test]
fn shells_and_man_know_the_options() {
    let door = crate::door();
    for shell in ["bash", "zsh", "fish"] {
        assert!(door.exits(0, &format!("completions {shell}")).out.contains("all-pairs"), "{shell}");
    }
    door.exits(0, "man --out pages");
    let page = fs::read_to_string(door.path("pages/profile-colocate.1")).expect("it was written");
    assert!(page.contains("\\-\\-all\\-pairs"), "{page}");
}
