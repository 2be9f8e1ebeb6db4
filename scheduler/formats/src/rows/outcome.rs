//! `outcomes.csv`: how jobs ended, one row per job of a trace. `predictions.csv`: the predictions made
//! before the run.

use record::rows::{ErrorKind, Status, Warnings};
use schema::plan::Plan;
use serde::{Deserialize, Serialize};

use super::draw::Range;
use crate::{decision::JobId, trace::Class};

/// How a job ended, and how its time was spent. Instants are from the start of the run.
///
/// From arrival to end a job is always either queued, switching, running or paused, so that the four add up
/// to `jct_ns`. For a job that has not ended, they add up to the end of the run.
///
/// A file without a column is refused if the column is read by `deserialize_with`, though its cells may be empty: serde regards any
/// other [`Option`] that is absent as empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub job: JobId,
    pub name: String,
    /// The workload of the catalog, or the name of a command.
    pub workload: String,
    #[serde(deserialize_with = "Option::deserialize")]
    pub global_batch: Option<u32>,
    /// The plan as requested.
    #[serde(deserialize_with = "Option::deserialize")]
    pub plan: Option<Plan>,
    pub devices: u32,
    pub user: String,
    pub vc: String,
    pub class: Class,
    /// The recurring job of which it is an instance, and date and time of its arrival in UTC (RFC 3339), if
    /// the trace has them. Absent in files without these columns.
    pub recurring_job: Option<String>,
    pub submit_utc: Option<String>,
    pub submit_ns: u64,
    /// When it first got devices; absent if it never did.
    #[serde(deserialize_with = "Option::deserialize")]
    pub start_ns: Option<u64>,
    /// Absent if it had not ended at the end of the run, and if it was never admitted.
    #[serde(deserialize_with = "Option::deserialize")]
    pub end_ns: Option<u64>,
    /// Job completion time, from arrival to end. Absent if it did not end well.
    #[serde(deserialize_with = "Option::deserialize")]
    pub jct_ns: Option<u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    pub queued_ns: Option<u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    pub switching_ns: Option<u64>,
    /// The part of the switching time in which the job started: until all ranks were ready, or until the first event of a program.
    /// Absent in files without this column.
    #[serde(default)]
    pub starting_ns: Option<u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    pub running_ns: Option<u64>,
    /// The part of the running time in which another job had one of its devices, too.
    #[serde(deserialize_with = "Option::deserialize")]
    pub packed_ns: Option<u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    pub paused_ns: Option<u64>,
    /// Running time times the number of devices.
    #[serde(deserialize_with = "Option::deserialize")]
    pub device_time_ns: Option<u64>,
    /// The job's part of the busy time of devices. Jobs that run on a device at the same time have equal
    /// parts, so that the sum over jobs counts the device once. Absent in files without this column.
    pub busy_share_ns: Option<u64>,
    /// Time that all steps of the job take alone on what it asks for. Absent in files without this column, if
    /// no time of a step is known, and for a command that runs until it ends.
    #[serde(default)]
    pub alone_ns: Option<u64>,
    /// Time that the job would take alone on its fair share of the devices that it may use: one part in as many
    /// as there were jobs during its stay. `jct_ns` over it is the finish-time fairness of the job.
    #[serde(default)]
    pub fair_ns: Option<u64>,
    /// Time from arrival until it had done 100 steps, interpolated between the two reports around them. It stays
    /// if these steps are lost later. Absent if it did fewer, for a command without a number of steps, and in files without this
    /// column.
    pub first_100_ns: Option<u64>,
    pub starts: u32,
    pub pauses: u32,
    /// Number of stops by the policy, and of starts after a stop on other devices than before. Absent in files
    /// without these columns.
    pub stops: Option<u32>,
    pub migrations: Option<u32>,
    /// Number of restarts after failures.
    pub retries: u32,
    /// Effective steps, and the requested steps. Of a program without steps whose duration is known, equal parts
    /// of the duration.
    pub steps: u64,
    #[serde(deserialize_with = "Option::deserialize")]
    pub steps_asked: Option<u64>,
    /// Steps that were lost to a failure or a stop without a checkpoint.
    pub steps_lost: u64,
    /// The last reported training loss, which is the mean over the steps since the report before. Absent if
    /// none of them had a finite one, and in files without this column.
    #[serde(default)]
    pub loss: Option<f64>,
    /// The part of `steps` that a fast-forwarded run counted without doing them, and the part of `running_ns` in which all jobs
    /// were skipped. 0 in files without these columns.
    #[serde(default)]
    pub steps_skipped: u64,
    #[serde(default)]
    pub skipped_ns: u64,
    #[serde(deserialize_with = "Option::deserialize")]
    pub predicted_jct_ns: Option<u64>,
    pub status: Status,
    #[serde(deserialize_with = "Option::deserialize")]
    pub err: Option<ErrorKind>,
    pub err_detail: Option<String>,
}

/// The prediction for a job before the run, from a simulation of the same trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    pub job: JobId,
    pub name: String,
    #[serde(deserialize_with = "Option::deserialize")]
    pub start_ns: Option<u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    pub end_ns: Option<u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    pub jct_ns: Option<u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    pub queued_ns: Option<u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    pub switching_ns: Option<u64>,
    #[serde(default)]
    pub starting_ns: Option<u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    pub running_ns: Option<u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    pub packed_ns: Option<u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    pub paused_ns: Option<u64>,
    #[serde(deserialize_with = "Option::deserialize")]
    pub device_time_ns: Option<u64>,
    pub busy_share_ns: Option<u64>,
    #[serde(default)]
    pub alone_ns: Option<u64>,
    #[serde(default)]
    pub fair_ns: Option<u64>,
    pub first_100_ns: Option<u64>,
    pub starts: u32,
    pub pauses: u32,
    pub steps: u64,
    /// Number of draws in which the job ended well. Its completion time over these draws follows: the median
    /// and the 95 % interval.
    #[serde(default)]
    pub draws: u32,
    #[serde(default)]
    pub jct_ns_median: Option<u64>,
    #[serde(default)]
    pub jct_ns_ci_lo: Option<u64>,
    #[serde(default)]
    pub jct_ns_ci_hi: Option<u64>,
    /// Time of a step of the job alone on what it asks for, with its 95 % interval. The interval is absent if
    /// the time is that of the trace.
    #[serde(default)]
    pub step_ns: Option<u64>,
    #[serde(default)]
    pub step_ns_ci_lo: Option<u64>,
    #[serde(default)]
    pub step_ns_ci_hi: Option<u64>,
    /// Warnings of the measured rows from which this time was made.
    #[serde(default)]
    pub warnings: Warnings,
    pub status: Status,
    #[serde(deserialize_with = "Option::deserialize")]
    pub err: Option<ErrorKind>,
    pub err_detail: Option<String>,
}

impl Prediction {
    /// The completion time over all draws.
    pub fn range(&self) -> Option<Range> {
        Some(Range {
            median_ns: self.jct_ns_median?,
            ci_lo_ns: self.jct_ns_ci_lo?,
            ci_hi_ns: self.jct_ns_ci_hi?,
        })
    }
}

impl From<&Outcome> for Prediction {
    fn from(outcome: &Outcome) -> Prediction {
        Prediction {
            job: outcome.job,
            name: outcome.name.clone(),
            start_ns: outcome.start_ns,
            end_ns: outcome.end_ns,
            jct_ns: outcome.jct_ns,
            queued_ns: outcome.queued_ns,
            switching_ns: outcome.switching_ns,
            starting_ns: outcome.starting_ns,
            running_ns: outcome.running_ns,
            packed_ns: outcome.packed_ns,
            paused_ns: outcome.paused_ns,
            device_time_ns: outcome.device_time_ns,
            busy_share_ns: outcome.busy_share_ns,
            alone_ns: outcome.alone_ns,
            fair_ns: outcome.fair_ns,
            first_100_ns: outcome.first_100_ns,
            starts: outcome.starts,
            pauses: outcome.pauses,
            steps: outcome.steps,
            draws: 0,
            jct_ns_median: None,
            jct_ns_ci_lo: None,
            jct_ns_ci_hi: None,
            step_ns: None,
            step_ns_ci_lo: None,
            step_ns_ci_hi: None,
            warnings: Warnings::default(),
            status: outcome.status,
            err: outcome.err,
            err_detail: outcome.err_detail.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use record::rows::{Appender, Row, read, write};

    use super::*;

    fn outcome() -> Outcome {
        let nothing = serde_json::json!({
            "job": 3, "name": "a, \"b\"", "workload": "a", "plan": "dp2", "devices": 2, "user": "", "vc": "v", "class": "best-effort", "recurring_job": "0x10",
            "submit_utc": "2020-08-01T08:00:00Z",
            "submit_ns": 5, "starts": 0, "pauses": 1, "retries": 2, "steps": 7, "steps_lost": 0, "status": "failed", "err": "hung",
            "err_detail": "x", "global_batch": null, "start_ns": null, "end_ns": null, "jct_ns": null, "queued_ns": null,
            "switching_ns": null, "running_ns": null, "packed_ns": null, "paused_ns": null, "device_time_ns": null,
            "steps_asked": null, "predicted_jct_ns": null,
        });
        serde_json::from_value(nothing).unwrap()
    }

    /// Fills every empty column with the result of `value`, through the JSON form of the row.
    fn filled(row: &Outcome, value: impl Fn(usize) -> Option<u32>) -> Outcome {
        let mut json = serde_json::to_value(row).unwrap();
        for (number, cell) in json.as_object_mut().unwrap().values_mut().enumerate() {
            if cell.is_null() {
                *cell = value(number).into();
            }
        }
        serde_json::from_value(json).unwrap()
    }

    fn check<T: Row + PartialEq + std::fmt::Debug>(rows: Vec<T>) {
        // In memory, or else on disk: syncing takes no time in memory.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let path = dir.path().join("table.csv");
        write(&path, &rows).unwrap();
        assert_eq!(read::<T>(&path).unwrap(), rows);
        let appended = dir.path().join("appended.csv");
        for row in &rows {
            Appender::open(&appended).unwrap().push(std::slice::from_ref(row)).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&appended).unwrap(), text);
        write::<T>(&path, &[]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).ok().as_deref(), text.split_inclusive('\n').next());
        assert_eq!(read::<T>(&path).unwrap(), []);
    }

    proptest! {
        #[test]
        fn both_tables_round_trip(values in prop::collection::vec(prop::option::of(1u32..1000), 80)) {
            let outcomes = vec![filled(&outcome(), |number| values[number]), outcome()];
            check::<Prediction>(outcomes.iter().map(Prediction::from).collect());
            check(outcomes);
        }
    }
}
