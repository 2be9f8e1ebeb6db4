//! The examples in the help of each command work.

use front_door::{Door, check_help};

/// Examples in the help of a command, without the name of the program.
fn examples(door: &Door, command: &str) -> Vec<String> {
    let help = door.exits(0, &format!("{command} --help")).out;
    let words: Vec<&str> = help.split_whitespace().collect();
    let words = words.join(" ");
    let examples = words.split("Example: `").skip(1).filter_map(|rest| rest.split_once('`'));
    examples.map(|(example, _)| example.trim_start_matches("sched ").to_owned()).collect()
}

#[test]
fn a_short_help_fits_on_a_screen_and_names_what_the_long_one_has() {
    let commands = check_help(&crate::door());
    assert!(
        ["run", "sim", "fit", "trace make"].iter().all(|name| commands.iter().any(|known| known == name))
    );
}

/// Commands in the order of a user's work, except those that need runs of `profile` or other files.
#[test]
fn examples_work_as_printed() {
    let door = crate::door();
    door.write("cluster.toml", "[[nodes]]\ncount = 2\ndevices = 4\n");
    let mut done = 0;
    for command in ["trace make", "policies", "sim", "replay", "fidelity"] {
        let examples = examples(&door, command);
        let wants = |example: &str| {
            ["--table", "--truth", "--again", "philly"].iter().any(|word| example.contains(word))
        };
        for example in examples.iter().filter(|example| !wants(example)) {
            door.exits(0, example);
            done += 1;
        }
    }
    assert_eq!(
        done, 13,
        "one of each, two more of sim, four more of make, and one more of policies and fidelity"
    );
}

#[test]
fn the_version_names_the_revision() {
    assert_eq!(crate::door().exits(0, "--version").out, format!("sched {}\n", revision::LONG_VERSION));
}
