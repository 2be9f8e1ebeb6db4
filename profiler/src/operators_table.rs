//! The operators of a run that take the longest, as a table and sentences.

use cli::table::{Table, new, or_dash};
use record::{rows::OperatorTime, run_dir::RunDir};
use schema::units::Nanos;

/// The number of operators of each job that are shown.
const SHOWN: usize = 10;

/// The operators of the first rank of each job that take the longest. `rows` have them first.
pub fn of_operators(rows: &[OperatorTime]) -> Table {
    let mut table = new(&["job", "operator", "calls", "host", "device", "share"]);
    table.mark_text(&["operator"]);
    for row in of_first_ranks(rows).flat_map(|rows| rows.iter().take(SHOWN)) {
        table.add_row([
            row.job.clone(),
            row.operator.clone(),
            row.calls.to_string(),
            Nanos(row.host_ns).to_string(),
            or_dash(row.device_ns.map(Nanos)),
            row.share_percent.map_or("-".into(), |percent| format!("{percent:.1} %")),
        ]);
    }
    table
}

/// A sentence for each job: the part of the time in which nothing was computed, and the file with the trace.
pub fn idle_lines(run: &RunDir, rows: &[OperatorTime]) -> Vec<String> {
    let line = |rows: &[OperatorTime]| {
        let row = &rows[0];
        let trace = run.operators_trace_path(&row.launch, row.rank);
        let idle = match row.device_ns {
            Some(_) => format!("{} was idle in", row.device),
            None if row.device.starts_with("cuda:") => {
                format!("no work of {} was recorded; on the host, no operator was in progress in", row.device)
            }
            None => "no operator was in progress in".into(),
        };
        format!(
            "{}: {idle} {:.1} % of {} recorded steps; {} opens in Perfetto",
            row.job,
            row.idle_percent,
            row.steps,
            trace.display()
        )
    };
    of_first_ranks(rows).map(line).collect()
}

/// The rows of the first rank of each launch.
fn of_first_ranks(rows: &[OperatorTime]) -> impl Iterator<Item = &[OperatorTime]> {
    rows.chunk_by(|a, b| (&a.launch, a.rank) == (&b.launch, b.rank)).filter(|rows| rows[0].rank == 0)
}
