//! What commands print as JSON that is no table of a run.

use serde::{Deserialize, Serialize};

use super::labels::words;
use crate::plan::Plan;

/// `profile list --plans`: one row per plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRow {
    pub plan: Plan,
    pub devices: u32,
    pub micro_batch: Option<u32>,
    pub valid: bool,
    pub reason: Option<String>,
}

words! {
    /// What `profile doctor` thinks of one thing.
    Health {
        Ok = "ok",
        /// It works, less well than it could.
        Note = "note",
        /// Something cannot be done here.
        Lacks = "lacks",
    }
}

/// `profile doctor`: one row per thing looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorRow {
    pub about: String,
    pub health: Health,
    pub found: String,
}

/// `profile verify`: one row per workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerifyRow {
    pub workload: String,
    pub parameters: Option<u64>,
    pub parameters_expected: Option<u64>,
    pub steps: u64,
    /// Mean loss of the first and of the last three steps.
    pub loss_first: Option<f64>,
    pub loss_last: Option<f64>,
    pub verified: bool,
    pub reason: Option<String>,
}

/// `profile doctor --overhead`: what the harness costs the job it watches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverheadRow {
    pub job: String,
    pub device: String,
    /// Blocks of four stretches: watched, not watched, not watched, watched.
    pub blocks: u32,
    pub stretch_s: f64,
    /// Step time watched over step time not watched, with its 95 % interval over blocks.
    pub step_ratio: f64,
    pub step_ratio_ci_lo: f64,
    pub step_ratio_ci_hi: f64,
    /// CPU time of the harness per second in which it watched.
    pub harness_cpu_us_per_s: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trips<T: Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(row: &T) {
        let text = serde_json::to_string(row).unwrap();
        assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), row);
    }

    #[test]
    fn every_listing_round_trips() {
        let reason = Some("why".to_string());
        let plan = "dp2".parse().unwrap();
        round_trips(&PlanRow { plan, devices: 2, micro_batch: None, valid: false, reason: reason.clone() });
        for &health in Health::ALL {
            round_trips(&DoctorRow { about: "cores".into(), health, found: "2".into() });
        }
        round_trips(&VerifyRow {
            workload: "lstm".into(),
            parameters: Some(1),
            parameters_expected: None,
            steps: 3,
            loss_first: Some(0.5),
            loss_last: None,
            verified: false,
            reason,
        });
        round_trips(&OverheadRow {
            job: "a".into(),
            device: "cpu:0".into(),
            blocks: 20,
            stretch_s: 1.0,
            step_ratio: 1.001,
            step_ratio_ci_lo: 0.999,
            step_ratio_ci_hi: 1.003,
            harness_cpu_us_per_s: 3_000,
        });
    }
}
