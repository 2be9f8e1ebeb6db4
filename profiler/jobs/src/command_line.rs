//! Commands that users type as one text, such as `--cmd 'python3 train.py'`, and the patterns of their steps.

use std::str::FromStr;

use rig::StepPattern;

use crate::surroundings;

/// A program of the user's with its arguments, typed as one argument. It is split as a shell splits it, but no shell runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine(pub Vec<String>);

impl FromStr for CommandLine {
    type Err = String;

    fn from_str(text: &str) -> Result<CommandLine, String> {
        let argv = shlex::split(text).ok_or("a quote is not closed, or a backslash is at the end")?;
        let first = argv.first().ok_or("expected a program")?;
        if let Some((variable, _)) = first.split_once('=').filter(|(name, _)| surroundings::is_name(name)) {
            return Err(format!("no shell runs this command, so {variable} is not set; write env {text}"));
        }
        let is_of_shell = |word: &&String| first == "cd" || OF_SHELL.contains(&word.as_str());
        if let Some(word) = argv.iter().find(is_of_shell) {
            let quoted = shlex::try_quote(text).map_err(|error| error.to_string())?;
            return Err(format!(
                "no shell runs this command, so '{word}' has no effect; write sh -c {quoted}"
            ));
        }
        Ok(CommandLine(argv))
    }
}

/// Words that have a meaning only to a shell, if they are words of their own.
const OF_SHELL: [&str; 11] = ["&&", "||", "|", ";", "&", ">", ">>", "<", "2>", "2>&1", "&>"];

/// A program with its arguments in the form that [`CommandLine`] reads.
pub fn quoted(argv: &[String]) -> String {
    // Only a zero byte cannot be quoted, and no program can be started with one.
    shlex::try_join(argv.iter().map(String::as_str)).unwrap_or_else(|_| argv.join(" "))
}

/// Checks the regular expression of `--steps-regex`.
///
/// # Errors
/// The text is no regular expression, or one of its groups has no meaning.
pub fn steps_regex(text: &str) -> Result<String, String> {
    StepPattern::parse(text).map(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_split_as_a_shell_would_and_means_nothing_else() {
        let split = |text: &str| text.parse::<CommandLine>().map(|CommandLine(argv)| argv);
        for (text, argv) in [
            ("python3 train.py --epochs 1", &["python3", "train.py", "--epochs", "1"][..]),
            (r#"sh -c 'echo "$HOME"; exit' a\ b"#, &["sh", "-c", r#"echo "$HOME"; exit"#, "a b"]),
            ("a $d * x=1", &["a", "$d", "*", "x=1"]),
            ("a 'b && c'", &["a", "b && c"]),
            ("a ''", &["a", ""]),
        ] {
            assert_eq!(split(text).expect("a command"), argv, "{text}");
        }
        for (text, why) in [
            ("", "expected a program"),
            ("  ", "expected a program"),
            ("python3 'train.py", "a quote is not closed, or a backslash is at the end"),
            ("a \\", "a quote is not closed, or a backslash is at the end"),
            (
                "SEED=1 python3 a.py",
                "no shell runs this command, so SEED is not set; write env SEED=1 python3 a.py",
            ),
            (
                "cd x && python3 a.py",
                "no shell runs this command, so 'cd' has no effect; write sh -c 'cd x && python3 a.py'",
            ),
            ("a > log", "no shell runs this command, so '>' has no effect; write sh -c 'a > log'"),
        ] {
            assert_eq!(split(text), Err(why.to_owned()), "{text:?}");
        }
    }
}
