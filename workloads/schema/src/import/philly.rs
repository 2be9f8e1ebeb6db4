//! Philly: arrival times, durations and numbers of GPUs. The models are unknown.

use serde::Deserialize;

use super::{Found, Imported, Line, Source, date, rows_of, seconds, steps_of_a_second, submit_utc};
use crate::{job::Job, rows::RowError, trace::TraceRow};

/// A line. `gpu_time` is the product of two other columns and left out.
#[derive(Deserialize)]
struct PhillyRow {
    /// As `2017-10-09 07:01:55`, in an unknown time zone, which is taken to be UTC.
    timestamp: String,
    /// In seconds.
    duration: f64,
    num_gpus: u32,
    /// Name of the virtual cluster.
    cluster: String,
}

/// The jobs have a workload that no catalog defines, with steps of about one second that add up to their
/// duration. Jobs have no names in the file and are named after their lines. The published file has 82,247
/// jobs and an empty line at its end.
pub(super) fn read(source: Source<'_>) -> Result<Imported, RowError> {
    Ok(rows_of(source, line)?.starting_at_zero())
}

fn line(number: usize, row: PhillyRow) -> Found<Line> {
    let at = date("timestamp", &row.timestamp)?;
    let (steps, step_ns) = steps_of_a_second(seconds("duration", row.duration)?);
    if row.num_gpus == 0 {
        return Err(("num_gpus", "is 0; drop the line".into()));
    }
    let row = TraceRow {
        name: format!("philly-{}", number + 2),
        submit_s: at.as_secs_f64(),
        submit_utc: submit_utc(at),
        job: Some(Job { workload: "philly".into(), global_batch: None, plan: None, device: None }),
        steps,
        step_ns,
        devices: Some(row.num_gpus),
        vc: row.cluster,
        ..TraceRow::default()
    };
    Ok(row.into())
}

#[cfg(test)]
mod tests {
    use super::super::{TraceFormat, read_text};

    const HEADER: &str = "timestamp,duration,num_gpus,gpu_time,cluster\n";

    #[test]
    fn jobs_come_in_order_of_their_arrival_and_take_as_long_as_they_did() {
        let text = format!(
            "{HEADER}2017-10-09 00:00:10,66.0,8,528.0,11cb48\n2017-10-08 23:59:50,0.4,1,0.4,6214e9\n"
        );
        let rows = read_text(TraceFormat::Philly, "p.csv", &text).unwrap().rows;
        let [short, long] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((short.name.as_str(), short.submit_s, short.vc.as_str()), ("philly-3", 0.0, "6214e9"));
        assert_eq!((short.steps, short.length_ns()), (Some(1), Some(400_000_000)));
        assert_eq!(short.submit_utc.as_deref(), Some("2017-10-08T23:59:50Z"));
        assert_eq!((long.name.as_str(), long.submit_s, long.devices()), ("philly-2", 20.0, 8));
        assert_eq!((long.steps, long.length_ns()), (Some(66), Some(66_000_000_000)));
    }

    #[test]
    fn invalid_rows_are_refused_with_line_and_column() {
        for (row, message) in [
            ("yesterday,66.0,1,66.0,a", "p.csv: line 2: column 'timestamp': 'yesterday' is no 2017-10-09"),
            ("2017-10-09 07:01:55,-1,1,1,a", "p.csv: line 2: column 'duration': -1 is no length of time"),
            ("2017-10-09 07:01:55,1,0,1,a", "p.csv: line 2: column 'num_gpus': is 0"),
            ("2017-10-09 07:01:55,1,x,1,a", "p.csv: line 2: column 'num_gpus': invalid digit"),
        ] {
            let text = format!("{HEADER}{row}\n");
            let error = read_text(TraceFormat::Philly, "p.csv", &text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
