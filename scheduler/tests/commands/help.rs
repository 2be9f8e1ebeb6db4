//! What the help of each command shows is what it does.

use front_door::Door;

/// Command lines that the help of a command gives as examples, without the name of the program.
fn examples(door: &Door, command: &str) -> Vec<String> {
    let help = door.exits(0, &format!("{command} --help")).out;
    let words: Vec<&str> = help.split_whitespace().collect();
    let words = words.join(" ");
    let examples = words.split("Example: `").skip(1).filter_map(|rest| rest.split_once('`'));
    examples.map(|(example, _)| example.trim_start_matches("sched ").to_owned()).collect()
}

/// In the order in which a user comes to them, and all but those that want runs of `profile` or files of others.
#[test]
fn examples_work_as_printed() {
    let door = crate::door();
    let mut done = 0;
    for command in ["trace make", "sim", "replay", "fidelity"] {
        let examples = examples(&door, command);
        let wants =
            |example: &str| ["--table", "--again", "philly"].iter().any(|word| example.contains(word));
        for example in examples.iter().filter(|example| !wants(example)) {
            door.exits(0, example);
            done += 1;
        }
    }
    assert_eq!(done, 4, "one of each");
}
