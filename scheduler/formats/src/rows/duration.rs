//! Estimates of how long jobs run: their errors, and the shapes of the additive model.

use schema::words;
use serde::{Deserialize, Serialize};

words! {
    /// A way to estimate how long a job runs.
    DurationEstimator {
        /// The mean of all jobs that have ended.
        Mean = "mean",
        /// The rolling estimate of QSSF.
        Qssf = "qssf",
        /// The duration of the most recently ended job with the same user, virtual cluster and number of devices; without one, of the same user;
        /// without one, of any user.
        Last = "last",
        /// The additive model with pairwise terms.
        Additive = "additive",
    }
}

/// The errors of estimates of a history, each made when a job arrives, from the jobs that had ended by then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DurationErrors {
    pub estimator: DurationEstimator,
    /// The number of estimates.
    pub jobs: u32,
    /// What the absolute errors of a quarter of the estimates do not exceed.
    pub p25_absolute_s: f64,
    pub median_absolute_s: f64,
    pub p75_absolute_s: f64,
    pub p90_absolute_s: f64,
    pub mean_absolute_s: f64,
    /// The factor by which a quarter of the estimates are off at most, above or below.
    pub p25_factor: f64,
    pub median_factor: f64,
    pub p75_factor: f64,
    pub p90_factor: f64,
    /// Spearman's rank correlation of estimates and durations.
    pub rank_correlation: f64,
}

/// A value of a shape of the additive model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DurationShape {
    /// A column of a trace; `hour` and `day` are those of `submit_utc`, in UTC and from Monday as 0, and `last_duration` is how long the last job
    /// of the same user, virtual cluster and devices took, as a power of three seconds.
    pub feature: String,
    pub level: String,
    /// The second feature and its level; absent if the term has one.
    pub other_feature: Option<String>,
    pub other_level: Option<String>,
    /// The number of jobs that it was fitted to.
    pub jobs: u32,
    /// What the duration is multiplied by.
    pub factor: f64,
}

#[cfg(test)]
mod tests {
    use record::rows;

    use super::*;

    #[test]
    fn errors_and_shapes_round_trip() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let errors = DurationErrors {
            estimator: DurationEstimator::Qssf,
            jobs: 12,
            p25_absolute_s: 0.5,
            median_absolute_s: 1.5,
            p75_absolute_s: 12.0,
            p90_absolute_s: 31.0,
            mean_absolute_s: 20.25,
            p25_factor: 1.25,
            median_factor: 2.0,
            p75_factor: 3.0,
            p90_factor: 9.5,
            rank_correlation: -0.5,
        };
        rows::write(&path, std::slice::from_ref(&errors)).unwrap();
        assert_eq!(rows::read::<DurationErrors>(&path).unwrap(), [errors]);
        let shape = |other: Option<&str>| DurationShape {
            feature: "user".into(),
            level: "0x1f".into(),
            other_feature: other.map(Into::into),
            other_level: other.map(|_| "8".into()),
            jobs: 3,
            factor: 0.25,
        };
        let shapes = [shape(None), shape(Some("devices"))];
        rows::write(&path, &shapes).unwrap();
        assert_eq!(rows::read::<DurationShape>(&path).unwrap(), shapes);
    }
}
