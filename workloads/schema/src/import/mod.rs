//! Converts published traces.

mod philly;
mod rubick;

use std::path::Path;

use serde::de::DeserializeOwned;

use crate::{
    rows::{self, RowError, words},
    trace::TraceRow,
};

words! {
    /// The source of a trace.
    TraceFormat {
        /// Microsoft's cluster in 2017 (Jeon et al., USENIX ATC 2019), as in the artifact of Pollux
        /// (petuum/adaptdl, branch osdi21-artifact, `simulator/traces/philly.csv`).
        Philly = "philly",
        /// The artifact of Rubick (AlibabaPAI/reconfigurable-dl-scheduler, MLSys 2025).
        Rubick = "rubick",
    }
}

/// The jobs of such a trace in order of arrival. The first arrives at its own time in the file or, if that is a date, at 0.
///
/// # Errors
/// The first line that does not fit the format, with its column.
pub fn read(format: TraceFormat, file: &Path, text: &[u8]) -> Result<Vec<TraceRow>, RowError> {
    let mut rows = match format {
        TraceFormat::Philly => philly::read(file, text)?,
        TraceFormat::Rubick => rubick::read(file, text)?,
    };
    // The sort is stable, so that simultaneous jobs keep their order in the file.
    rows.sort_by(|a, b| a.submit_s.total_cmp(&b.submit_s));
    Ok(rows)
}

/// A value of a row, or the invalid column and the reason.
type Found<T> = Result<T, (&'static str, String)>;

/// Converts the rows of a file with a function for one row.
fn rows_of<T: DeserializeOwned>(
    file: &Path,
    text: &[u8],
    mut row: impl FnMut(usize, T) -> Found<TraceRow>,
) -> Result<Vec<TraceRow>, RowError> {
    let theirs: Vec<T> = rows::parse(file, csv::Reader::from_reader(text))?;
    let of = |(number, theirs)| {
        row(number, theirs).map_err(|(column, message)| RowError::Field {
            file: file.into(),
            // None of these formats quotes line breaks, and the first line is the header.
            line: number as u64 + 2,
            column: column.into(),
            message,
        })
    };
    theirs.into_iter().enumerate().map(of).collect()
}

/// A duration in seconds, above 0.
fn seconds(column: &'static str, value: f64) -> Found<f64> {
    match value.is_finite() && value > 0.0 {
        true => Ok(value),
        false => Err((column, format!("{value} is no length of time; drop the line"))),
    }
}

/// The step time of a job with this duration and number of steps.
fn step_ns(length_s: f64, steps: u64) -> Option<u64> {
    Some(((length_s * 1e9 / steps as f64).round() as u64).max(1))
}
