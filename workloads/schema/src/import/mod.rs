//! Traces that others have published, as traces of ours.

mod philly;
mod rubick;

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::{
    rows::{self, RowError, words},
    trace::TraceRow,
};

words! {
    /// Whose trace it is.
    TraceFormat {
        /// Of Microsoft's cluster in 2017 (Jeon et al., USENIX ATC 2019), as the artifact of Pollux has it (petuum/adaptdl,
        /// branch osdi21-artifact, `simulator/traces/philly.csv`).
        Philly = "philly",
        /// Of the artifact of Rubick (AlibabaPAI/reconfigurable-dl-scheduler, MLSys 2025).
        Rubick = "rubick",
    }
}

/// The jobs of such a trace, in order of their arrival, the first at its own time in the file or, where that is a date, at 0.
///
/// # Errors
/// The first line that is not as that format has it, with its column.
pub fn read(format: TraceFormat, file: &Path, text: &[u8]) -> Result<Vec<TraceRow>, RowError> {
    let mut rows = match format {
        TraceFormat::Philly => philly::read(file, text)?,
        TraceFormat::Rubick => rubick::read(file, text)?,
    };
    // Stable: who stands first in the file of two that arrive at once stays first.
    rows.sort_by(|a, b| a.submit_s.total_cmp(&b.submit_s));
    Ok(rows)
}

/// What a row of theirs says, or the column that says nothing and why.
type Found<T> = Result<T, (&'static str, String)>;

/// The rows of a file, through what makes one of ours of one of theirs.
fn rows_of<T: DeserializeOwned>(
    file: &Path,
    text: &[u8],
    mut row: impl FnMut(usize, T) -> Found<TraceRow>,
) -> Result<Vec<TraceRow>, RowError> {
    let theirs: Vec<T> = rows::parse(file, csv::Reader::from_reader(text))?;
    let of = |(number, theirs)| {
        row(number, theirs).map_err(|(column, message)| RowError::Field {
            file: file.into(),
            // None of these formats quotes line breaks, and the header is the first.
            line: number as u64 + 2,
            column: column.into(),
            message,
        })
    };
    theirs.into_iter().enumerate().map(of).collect()
}

/// Seconds that something took, above 0.
fn seconds(column: &'static str, value: f64) -> Found<f64> {
    match value.is_finite() && value > 0.0 {
        true => Ok(value),
        false => Err((column, format!("{value} is no length of time; drop the line"))),
    }
}

/// A job of `steps` steps, with its duration.
fn step_ns(length_s: f64, steps: u64) -> Option<u64> {
    Some(((length_s * 1e9 / steps as f64).round() as u64).max(1))
}
