//! What `-h` and `--help` of a program and of all of its commands have to be.

use std::collections::BTreeSet;

use super::Door;

/// A screen of a terminal.
const SCREEN: usize = 40;

/// Checks that `-h` of the program and of each command fits on a screen and names the headings that only `--help` has. Returns the
/// commands.
pub fn check_help(door: &Door) -> Vec<String> {
    let mut commands = vec![String::new()];
    let mut seen = 0;
    while let Some(command) = commands.get(seen).cloned() {
        seen += 1;
        let short = door.exits(0, &format!("{command} -h")).out;
        let long = door.exits(0, &format!("{command} --help")).out;
        assert!(short.lines().count() <= SCREEN, "{command} -h is longer than a screen:\n{short}");
        let words: Vec<&str> = short.split_whitespace().collect();
        let words = words.join(" ");
        let further =
            words.split("--help has further options: ").nth(1).and_then(|rest| rest.split_once('.'));
        let named: BTreeSet<&str> = further.map(|(named, _)| named.split("; ").collect()).unwrap_or_default();
        let heading = |line: &'_ str| -> Option<String> {
            let is_heading = !line.starts_with(' ') && line.ends_with(':');
            is_heading.then(|| line.trim_end_matches(':').to_owned())
        };
        let headings: BTreeSet<String> = listed(&long).lines().filter_map(heading).collect();
        assert!(headings.iter().eq(named.iter()), "{command}: {headings:?} and in -h {named:?}");
        assert_eq!(
            listed(&short).lines().filter_map(heading).count(),
            0,
            "{command} -h has a heading:\n{short}"
        );
        assert!(options(&short).is_subset(&options(&long)), "{command}:\n{short}\n{long}");
        let table = short.split("\nCommands:\n").nth(1).and_then(|rest| rest.split("\n\n").next());
        let name = |line: &str| line.strip_prefix("  ")?.split(' ').next().map(str::to_owned);
        let names = table.into_iter().flat_map(str::lines).filter_map(name);
        let names = names.filter(|name| !name.is_empty() && name != "help");
        commands.extend(names.map(|name| format!("{command} {name}").trim().to_owned()));
    }
    commands.into_iter().filter(|command| !command.is_empty()).collect()
}

/// A help from its options on.
fn listed(help: &str) -> &str {
    help.split_once("\nOptions:\n").map_or("", |(_, options)| options)
}

/// The names of the options that a help lists.
fn options(help: &str) -> BTreeSet<&str> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    lines.flat_map(|line| line.split([' ', ',']).take(3)).filter(|word| word.starts_with("--")).collect()
}
