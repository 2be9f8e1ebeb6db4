//! `docs/tutorial.md`: its commands are typed as the page has them, and print what the page shows where no clock is read.

use std::{env, fs, os::unix::fs::symlink, path::Path, process::Command};

use front_door::Door;
use schema::skips::skipped;

use crate::documents::root;

/// The line before a block whose commands this test runs.
const SAME_EVERYWHERE: &str = "<!-- the same on every machine -->";

/// The width of the terminal in which the page was made.
const COLUMNS: &str = "100";

/// A command of the page, and the lines that follow it.
struct Step {
    is_same_everywhere: bool,
    /// Without the prompt, as one line.
    command: String,
    shown: String,
}

/// A piece of the page: what lies between blocks, or a step.
enum Piece {
    Text(String),
    Step(Step),
}

/// The page in pieces. A block of a terminal begins with ```` ```console ````, and a command in it with `$ `.
fn pieces(page: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let (mut is_in_block, mut is_same_everywhere) = (false, false);
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(first) = line.strip_prefix("$ ").filter(|_| is_in_block) {
            let mut command = first.to_owned();
            while command.ends_with('\\') {
                command.push('\n');
                command += lines.next().expect("a line after a backslash");
            }
            pieces.push(Piece::Step(Step { is_same_everywhere, command, shown: String::new() }));
            continue;
        }
        match line {
            "```console" => is_in_block = true,
            "```" => (is_in_block, is_same_everywhere) = (false, false),
            SAME_EVERYWHERE => is_same_everywhere = true,
            _ => {}
        }
        let line = format!("{line}\n");
        match pieces.last_mut() {
            Some(Piece::Step(step)) if is_in_block => step.shown += &line,
            Some(Piece::Text(text)) => *text += &line,
            _ => pieces.push(Piece::Text(line)),
        }
    }
    pieces
}

fn page_of(pieces: &[Piece]) -> String {
    let text = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Step(step) => format!("$ {}\n{}", step.command, step.shown),
    };
    pieces.iter().map(text).collect()
}

/// A folder as that of a checkout: with `bin/` and `reports/`. None if cargo has not built all programs, as for `report` alone.
fn checkout() -> Option<Door> {
    let built = Path::new(env!("CARGO_BIN_EXE_report")).parent().expect("a program lies in a folder");
    if let Some(lacking) = ["profile", "sched"].iter().find(|name| !built.join(name).is_file()) {
        skipped("profile", format_args!("the program `{lacking}` was not built; build the workspace"));
        return None;
    }
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let reports = fs::canonicalize(root().join("reports")).expect("it is there");
    symlink(built, door.path("bin")).expect("the folder is writable");
    symlink(reports, door.path("reports")).expect("the folder is writable");
    Some(door)
}

/// After a change of what is printed, `TANDEM_GOLDEN=write` writes the blocks again.
#[test]
fn commands_print_what_the_page_shows() {
    let path = root().join("docs/tutorial.md");
    let text = fs::read_to_string(&path).expect("the page is there");
    let mut pieces = pieces(&text);
    assert_eq!(page_of(&pieces), text, "the page is read without a loss");
    let Some(door) = checkout() else { return };
    let mut compared = 0;
    for piece in &mut pieces {
        let Piece::Step(step) = piece else { continue };
        // `--help` parses the arguments before it, and starts nothing.
        let line = match (step.is_same_everywhere, step.command.starts_with("bin/")) {
            (true, _) => step.command.clone(),
            (false, true) => format!("{} --help", step.command),
            (false, false) => continue,
        };
        let mut command = Command::new("sh");
        command.args(["-c", &line]).current_dir(door.path(".")).env("COLUMNS", COLUMNS);
        let output = command.output().expect("it starts");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}\n{out}\n{err}", step.command);
        if step.is_same_everywhere {
            step.shown = format!("{out}{err}");
            compared += 1;
        }
    }
    assert!(compared > 4, "the page has few commands that are the same on every machine: {compared}");
    let made = page_of(&pieces);
    if env::var("TANDEM_GOLDEN").is_ok_and(|value| value == "write") {
        fs::write(&path, &made).expect("the page is writable");
    }
    let text = fs::read_to_string(&path).expect("the page is there");
    let differs = made.lines().zip(text.lines()).find(|(made, there)| made != there);
    assert!(made == text, "docs/tutorial.md: {differs:?}; run this test with TANDEM_GOLDEN=write");
}
