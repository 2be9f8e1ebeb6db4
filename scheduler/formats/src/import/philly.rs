//! Philly: arrival times, durations and numbers of GPUs. The models are unknown.

use super::timed::{Layout, Length};

/// The columns: `duration` is in seconds, and `cluster` is the name of the virtual cluster. `gpu_time` is the product of two other
/// columns and left out. Jobs have no names in the file and are named after their lines. The published file has 82,247 jobs and an
/// empty line at its end.
pub(super) fn layout() -> Layout<'static> {
    Layout {
        workload: "philly",
        arrival: "timestamp",
        gpus: "num_gpus",
        length: Length::Duration("duration"),
        vc: "cluster",
        ..Layout::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{TraceFormat, read_text, refusal};

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
    fn invalid_rows_are_left_out_and_refused_with_line_and_column_if_strict() {
        for (row, message) in [
            ("yesterday,66.0,1,66.0,a", "p.csv: line 3: column 'timestamp': 'yesterday' is no date"),
            ("2017-10-09 07:01:55,-1,1,1,a", "p.csv: line 3: column 'duration': '-1' is below 0"),
            ("2017-10-09 07:01:55,0,1,1,a", "p.csv: line 3: column 'duration': a duration of 0"),
            ("2017-10-09 07:01:55,1,x,1,a", "p.csv: line 3: column 'num_gpus': 'x' is no whole number"),
        ] {
            let text = format!("{HEADER}2017-10-09 00:00:10,66.0,8,528.0,11cb48\n{row}\n");
            let imported = read_text(TraceFormat::Philly, "p.csv", &text).unwrap();
            assert_eq!((imported.rows.len(), imported.left_out.len()), (1, 1), "{row}");
            let error = refusal(TraceFormat::Philly, "p.csv", &text);
            assert!(error.starts_with(message), "{error}");
        }
    }
}
