//! What a command ends with: one number, by which a script can tell what to do next.

use std::{
    io::{self, ErrorKind},
    process::ExitCode,
};

use record::rows::RowError;
use schema::files::RunError;

use crate::{limits, output, sampler::SamplerError};

/// What a command ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Ok = 0,
    SomeFailed = 1,
    Usage = 2,
    MachineLacks = 3,
    NothingMatched = 4,
    /// A file could not be written, or one that is there could not be read.
    InputOutput = 5,
    /// A device or its driver does not answer any more.
    Stuck = 6,
    /// The measurements decide neither way.
    CannotTell = 7,
    Interrupted = 130,
}

/// Of a program whose terminal was closed, as a shell has it for one that SIGHUP has ended.
const HUNG_UP: u8 = 129;

/// An error that decides the exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Refusal {
    exit: Exit,
    message: String,
}

impl Exit {
    /// An error that ends the program with this code.
    pub fn because(self, message: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Refusal { exit: self, message: message.into() })
    }

    /// The number.
    pub fn code(self) -> u8 {
        if self == Exit::Interrupted && output::terminal_is_closed() { HUNG_UP } else { self as u8 }
    }

    /// What a program ends with after a command, whose error it tells.
    pub fn after(outcome: anyhow::Result<Exit>) -> ExitCode {
        let exit = outcome.unwrap_or_else(|error| {
            output::note(format_args!("error: {}", limits::told(&error)));
            Exit::of(&error)
        });
        ExitCode::from(exit.code())
    }

    /// The code of an error: that of the first of its causes that has one. An error of which none has one is a mistake of the
    /// user's, as most are.
    pub fn of(error: &anyhow::Error) -> Exit {
        error.chain().find_map(of_cause).unwrap_or(Exit::Usage)
    }
}

fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if let Some(refusal) = cause.downcast_ref::<Refusal>() {
        return Some(refusal.exit);
    }
    if let Some(SamplerError::Stuck) = cause.downcast_ref() {
        return Some(Exit::Stuck);
    }
    match (cause.downcast_ref(), cause.downcast_ref()) {
        (Some(RunError::Write { .. }), _) | (_, Some(RowError::Write { .. })) => Some(Exit::InputOutput),
        (Some(RunError::Io { cause, .. }), _) | (_, Some(RowError::Io { cause, .. })) => {
            Some(of_reading(cause))
        }
        _ => cause.downcast_ref().map(of_reading),
    }
}

/// A name that leads to no file, or to one of another kind, was given by mistake; a file of that name which cannot be read was not.
fn of_reading(error: &io::Error) -> Exit {
    match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::InvalidData
        | ErrorKind::UnexpectedEof => Exit::Usage,
        _ => Exit::InputOutput,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn an_error_has_the_code_of_its_first_cause_that_has_one() {
        let full = || io::Error::from(ErrorKind::StorageFull);
        let missing = || io::Error::from(ErrorKind::NotFound);
        let cases: [(anyhow::Error, Exit); 10] = [
            (anyhow::anyhow!("--seconds: expected a number above 0"), Exit::Usage),
            (Exit::NothingMatched.because("there is no set"), Exit::NothingMatched),
            (RunError::Io { file: "m".into(), cause: missing() }.into(), Exit::Usage),
            (
                RowError::Io { file: "m".into(), cause: ErrorKind::PermissionDenied.into() }.into(),
                Exit::InputOutput,
            ),
            (RunError::Write { file: "m".into(), cause: missing() }.into(), Exit::InputOutput),
            (RowError::Write { file: "m".into(), cause: full() }.into(), Exit::InputOutput),
            (
                SamplerError::Rows(RowError::Write { file: "m".into(), cause: full() }).into(),
                Exit::InputOutput,
            ),
            (SamplerError::Stuck.into(), Exit::Stuck),
            (full().into(), Exit::InputOutput),
            (missing().into(), Exit::Usage),
        ];
        for (error, exit) in cases {
            assert_eq!(Exit::of(&error), exit, "{error:#}");
            let told = format!("{error:#}");
            assert_eq!(Exit::of(&Err::<(), _>(error).context("a word more").unwrap_err()), exit, "{told}");
        }
    }
}
