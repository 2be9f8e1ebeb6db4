//! Configurations to measure next, and how errors fall as configurations are measured.

use schema::job::Job;
use schema::words;
use serde::{Deserialize, Serialize};

/// A configuration that is worth its measurement. The first one is worth most for a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suggestion {
    /// `WORKLOAD@bN@PLAN`.
    pub job: Job,
    pub devices: u32,
    /// The predicted time of a step.
    pub step_ns: u64,
    /// Half of the 95 % interval of that time over the time, before any of the suggestions is measured.
    pub half_width_percent: f64,
    /// The same once all suggestions are measured.
    pub half_width_percent_after: f64,
    /// What its measurement is expected to cost: seconds times devices.
    pub device_s: f64,
}

words! {
    /// The order in which configurations are measured.
    MeasuringOrder {
        /// As `sched fit --suggest` says, with a fit to what was measured before.
        Suggested = "suggested",
        Random = "random",
        /// As the rows of the table are, with the workloads in turns.
        Grid = "grid",
    }
}

/// A point of a curve: the errors of predictions of the remaining configurations, once some are measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    pub order: MeasuringOrder,
    /// Number of measured configurations.
    pub configurations: u32,
    /// What they cost to measure: seconds times devices.
    pub device_s: f64,
    /// Mean and 95th percentile of `|predicted / measured - 1|` of the other configurations, in percent.
    pub mean_percent: f64,
    pub p95_percent: f64,
    pub seed: u64,
}

#[cfg(test)]
mod tests {
    use record::rows::{self, JobTable};

    use super::*;

    #[test]
    fn suggestions_and_points_round_trip_and_suggestions_are_a_table_of_jobs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("next.csv");
        let suggestion = |job: &str| Suggestion {
            job: job.parse().unwrap(),
            devices: 2,
            step_ns: 12_500_000,
            half_width_percent: 31.5,
            half_width_percent_after: 6.25,
            device_s: 4.75,
        };
        let all = ["lstm@b8@dp2", "gpt2-mini@b4@tp2-ga2-gc"].map(suggestion);
        rows::write(&path, &all).unwrap();
        assert_eq!(rows::read::<Suggestion>(&path).unwrap(), all);
        let jobs = JobTable::read(&path).unwrap().rows.into_iter().map(|row| (row.job, row.devices));
        assert!(jobs.eq(all.map(|row| (row.job, Some(2)))));

        let point = CurvePoint {
            order: MeasuringOrder::Random,
            configurations: 26,
            device_s: 310.5,
            mean_percent: 12.25,
            p95_percent: 40.5,
            seed: 3,
        };
        rows::write(&path, std::slice::from_ref(&point)).unwrap();
        assert_eq!(rows::read::<CurvePoint>(&path).unwrap(), [point]);
    }
}
