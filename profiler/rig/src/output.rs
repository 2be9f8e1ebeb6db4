//! Output on stdout and stderr. The reader may stop early, as `head` does. This does not end a run, whose files remain.

use std::{
    borrow::Cow,
    fmt::Display,
    io::{self, ErrorKind, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::Context as _;

/// Whether the terminal was closed, after which printed output has no reader.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether the user wants results and trouble alone, without [`news`].
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Leaves out [`news`] from now on.
pub fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Whether [`be_quiet`] was called.
pub fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// Records that SIGHUP has arrived because the terminal was closed.
pub(crate) fn terminal_was_closed() {
    IS_CLOSED.store(true, Ordering::Relaxed);
}

/// Whether the terminal was closed.
pub(crate) fn terminal_is_closed() -> bool {
    IS_CLOSED.load(Ordering::Relaxed)
}

/// Prints data on stdout, with a line break after it.
///
/// # Errors
/// Standard output cannot be written, for example because the disk is full. A reader that is gone is not an error.
pub fn print(text: impl Display) -> anyhow::Result<()> {
    print_with(|stdout| writeln!(stdout, "{}", harmless(&text.to_string())))
}

/// Prints on stdout what `write` writes.
///
/// # Errors
/// The errors of [`print()`].
pub fn print_with(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match write(&mut stdout).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe || terminal_is_closed() => Ok(()),
        printed => printed.context("standard output"),
    }
}

/// Prints a line on stderr. A failure is ignored, because there is no other place to report it.
pub fn note(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{}", harmless(&line.to_string()));
}

/// Prints a line about progress, or about a file that was written, on stderr, unless the user wants quiet.
pub fn news(line: impl Display) {
    if !is_quiet() {
        note(line);
    }
}

/// Escapes characters that move the cursor or change the direction of text, because names of jobs and files and the output of
/// programs may contain them.
///
/// The escapes are those of JSON, so they have the same meaning in its strings.
pub fn harmless(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let spelled = |letter: char| match is_harmful(letter) {
        true => format!("\\u{:04x}", u32::from(letter)),
        false => letter.to_string(),
    };
    Cow::Owned(text.chars().map(spelled).collect())
}

fn is_harmful(letter: char) -> bool {
    let turns_round =
        matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns_round || (letter.is_control() && !matches!(letter, '\n' | '\t'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_spelled_out() {
        for (text, printed) in [
            ("a job, b\u{e4}h \u{4e2d}\n\tthe next line", "a job, b\u{e4}h \u{4e2d}\n\tthe next line"),
            ("\u{1b}[31mred\u{1b}[0m", "\\u001b[31mred\\u001b[0m"),
            ("over\rwritten\u{8}\u{7f}\u{9b}", "over\\u000dwritten\\u0008\\u007f\\u009b"),
            ("\u{202e}txt.exe", "\\u202etxt.exe"),
        ] {
            assert_eq!(harmless(text), printed);
        }
        let name = "\u{7f}\u{1b}";
        let json = record::rows::to_json(&name);
        assert_eq!(
            record::rows::from_json::<String>(&harmless(&json)).unwrap(),
            name,
            "JSON stays what it was"
        );
    }
}
