//! What a program prints. Whoever reads it may have seen enough and be gone, as `head` is: that ends no run, whose files are for others.

use std::{
    fmt::Display,
    io::{self, ErrorKind, Write},
};

use anyhow::Context as _;

/// Prints data on stdout, with a line break after it.
///
/// # Errors
/// A stdout that takes nothing more, as one on a disk that is full. That nobody reads it any more is none.
pub fn print(text: impl Display) -> anyhow::Result<()> {
    print_with(|stdout| writeln!(stdout, "{text}"))
}

/// Prints data on stdout through whoever writes it.
///
/// # Errors
/// As of [`print()`].
pub fn print_with(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match write(&mut stdout).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed.context("standard output"),
    }
}

/// Tells a line on stderr. What cannot be told there can be told nowhere.
pub fn note(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
