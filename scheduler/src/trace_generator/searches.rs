//! Searches over learning rates.

use formats::trace::TraceRow;

/// Makes a search of each job: one member for each learning rate, all with the arrival and the length of the job.
pub fn searches(
    rows: impl Iterator<Item = TraceRow>,
    learning_rates: &[f64],
) -> impl Iterator<Item = TraceRow> {
    let member = |row: &TraceRow, rate: f64| TraceRow {
        name: format!("{}-lr{rate}", row.name),
        search: Some(row.name.clone()),
        learning_rate: Some(rate),
        ..row.clone()
    };
    rows.flat_map(move |row| learning_rates.iter().map(move |rate| member(&row, *rate)))
}
