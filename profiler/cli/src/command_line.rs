//! Parses the command line, with an error for negative values, which clap would take for options.
//!
//! `-h` lists the options without a heading, and names the headings that `--help` has beside them.

use std::ffi::OsString;

use clap::{
    Command, Parser,
    error::{ContextKind, ErrorKind},
};

/// Parses the command line, and ends the program if it is wrong.
///
/// For `--seconds -1`, clap would suggest `-- -1`, which would name a program of the user's.
pub fn parse<T: Parser>() -> T {
    let mut command = with_short_help(T::command());
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let parsed = matches.and_then(|matches| T::from_arg_matches(&matches));
    parsed.unwrap_or_else(|mut error| {
        // The tip says that `--` makes a value of an option. Here, a program of the user's follows it.
        error.remove(ContextKind::Suggested);
        let negative =
            negative(std::env::args_os().skip(1)).filter(|_| error.kind() == ErrorKind::UnknownArgument);
        let error = match negative {
            Some((option, value)) => {
                let message = format!("{option} {value}: the value must be positive");
                command.error(ErrorKind::ValueValidation, message)
            }
            None => error.format(&mut command),
        };
        error.exit()
    })
}

/// The command and its subcommands with a `-h` that leaves out all options under headings.
fn with_short_help(command: Command) -> Command {
    let mut headings: Vec<String> = Vec::new();
    for arg in command.get_arguments().filter(|arg| !arg.is_positional()) {
        if let Some(heading) = arg.get_help_heading()
            && !headings.iter().any(|known| known == heading)
        {
            headings.push(heading.to_owned());
        }
    }
    let is_headed = |arg: &clap::Arg| !arg.is_positional() && arg.get_help_heading().is_some();
    let mut command = command.mut_args(|arg| {
        let is_headed = is_headed(&arg);
        if is_headed { arg.hide_short_help(true) } else { arg }
    });
    if !headings.is_empty() {
        let further = format!("--help has further options: {}.", headings.join("; "));
        command = command.after_help(further).after_long_help("");
    }
    command.mut_subcommands(with_short_help)
}
/// The first option that is followed by a negative number, as `-1` or `-5m`. Arguments after `--` belong to a program of the
/// user's.
fn negative(arguments: impl Iterator<Item = OsString>) -> Option<(String, String)> {
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    let ours: Vec<String> = arguments.take_while(|argument| argument != "--").collect();
    let begins_a_number = |letter: char| letter.is_ascii_digit() || letter == '.';
    let is_negative =
        |text: &str| text.strip_prefix('-').is_some_and(|rest| rest.starts_with(begins_a_number));
    let pair = ours.windows(2).find(|pair| pair[0].starts_with("--") && is_negative(&pair[1]))?;
    Some((pair[0].clone(), pair[1].clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_value_is_found_with_its_option() {
        let found = |line: &str| negative(line.split(' ').map(OsString::from));
        let pair = |option: &str, value: &str| Some((option.to_owned(), value.to_owned()));
        for (line, expected) in [
            ("single lstm --seconds -1", pair("--seconds", "-1")),
            ("single lstm --ci 1 --budget -5m --json", pair("--budget", "-5m")),
            ("single lstm --seconds -.5", pair("--seconds", "-.5")),
            ("single lstm --seconds 1 -h", None),
            ("single lstm --seconds=-1", None),
            ("single -1", None),
            ("single --seconds 1 -- program --delta -1", None),
        ] {
            assert_eq!(found(line), expected, "{line}");
        }
    }
}
