//! JSON output of commands that is no table of a run.

use schema::plan::Plan;
use schema::words;
use serde::{Deserialize, Serialize};

use super::labels::Status;

/// `profile list --plans`: one row per plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRow {
    pub plan: Plan,
    pub devices: u32,
    pub micro_batch: Option<u32>,
    /// Estimated peak of tensor memory of the largest rank; absent if unknown.
    pub memory_bytes: Option<u64>,
    /// Capacity of the plan's smallest device; absent if the device is not present.
    pub capacity_bytes: Option<u64>,
    pub valid: bool,
    pub reason: Option<String>,
}

words! {
    /// The verdict of `profile doctor` on one subject.
    Health {
        Ok = "ok",
        /// It works, but not at its best.
        Note = "note",
        /// A function is not available here.
        Lacks = "lacks",
    }
}

/// `profile doctor`: one row per subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorRow {
    pub about: String,
    pub health: Health,
    pub found: String,
}

/// `profile runs`: one row per run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    pub run: String,
    pub started_utc: String,
    /// The program and its command, as `profile single`.
    pub command: String,
    /// Words of `--tag`.
    pub tags: Vec<String>,
    /// Rows of summary.csv.
    pub rows: u64,
    /// Absent if the run has no end: it goes on, or was killed.
    pub exit_code: Option<u8>,
    /// Whether the numbers may be quoted, in words; absent without rows.
    pub verdict: Option<String>,
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
    /// The model was not trained; parameters and operations were counted from the shapes of tensors.
    pub shapes_only: bool,
    /// The reason why it was not verified, or only by shapes.
    pub reason: Option<String>,
}

/// `profile verify --plans`: one row per plan of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerifyPlanRow {
    /// The job without its plan.
    pub job: String,
    pub plan: Plan,
    pub devices: u32,
    pub steps: u64,
    /// The largest relative difference between a step's loss and that of `dp1`, both in fp64.
    pub loss_difference: Option<f64>,
    /// `unsupported` if it was not started because it does not fit in memory.
    pub status: Status,
    pub verified: bool,
    pub reason: Option<String>,
}

words! {
    /// What is verified of a program of the catalog.
    ProgramCheck {
        /// That it trains under a plan.
        Plan = "plan",
        /// That it saves, and goes on under a plan from what it has saved.
        Resume = "resume",
    }
}

/// `profile verify` of a program of the catalog: one plan, or its checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerifyProgramRow {
    pub program: String,
    pub global_batch: u32,
    pub plan: Plan,
    pub check: ProgramCheck,
    pub devices: u32,
    /// Ranks in which steps were seen.
    pub ranks: u32,
    pub steps: u64,
    /// Steps that the checkpoint holds from which it went on.
    pub saved_steps: Option<u64>,
    /// The largest relative difference between the loss of a step and that of the plan with which it is compared.
    pub loss_difference: Option<f64>,
    /// `unsupported` if it was not started.
    pub status: Status,
    pub verified: bool,
    pub reason: Option<String>,
}

/// `profile doctor --overhead`: the cost of the harness for the job that it observes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverheadRow {
    pub job: String,
    pub device: String,
    /// Number of blocks of four stretches behind the ratio: observed, unobserved, unobserved, observed.
    pub blocks: u32,
    /// Number of blocks that were left out, because the job finished no whole step in one of their stretches.
    #[serde(default)]
    pub blocks_left_out: u32,
    pub stretch_s: f64,
    /// Step time observed over step time unobserved, with its 95 % interval over blocks.
    pub step_ratio: f64,
    pub step_ratio_ci_lo: f64,
    pub step_ratio_ci_hi: f64,
    /// Readings per second of the device's fast tier, while observed.
    pub fast_reads_per_s: f64,
    /// CPU time of the harness per second, while observed.
    pub harness_cpu_us_per_s: u64,
}

words! {
    /// The activity of a device during a reading.
    Load {
        Idle = "idle",
        Training = "training",
    }
}

/// `profile doctor --readings`: the duration of a reading, and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadingRow {
    pub device: String,
    /// A metric, or a whole tier of the sampler.
    pub reading: String,
    pub load: Load,
    pub calls: u64,
    pub failures: u64,
    pub ns_p50: Option<u64>,
    /// Over at least 200 calls.
    pub ns_p99: Option<u64>,
    pub ns_max: Option<u64>,
    /// The device's answer: `ok` with its width or unit, or the reason of the refusal.
    pub capability: Option<String>,
}

words! {
    /// The direction of bytes over the link between host and device.
    Direction {
        HostToDevice = "host-to-device",
        DeviceToHost = "device-to-host",
    }
}

/// `profile doctor --transfers`: the speed of copies of page-locked memory, and the part of them that the
/// device's counters saw. Intervals are 95 %, over the copies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferRow {
    pub device: String,
    pub direction: Direction,
    /// Size of one copy.
    pub bytes: u64,
    pub copies: u32,
    pub bytes_per_s: f64,
    pub bytes_per_s_ci_lo: Option<f64>,
    pub bytes_per_s_ci_hi: Option<f64>,
    /// Growth of the PCIe byte counter over the copied bytes. It includes packet headers.
    pub counter_ratio: Option<f64>,
    pub counter_ratio_ci_lo: Option<f64>,
    pub counter_ratio_ci_hi: Option<f64>,
    /// The same for the integral of the rate in the GPU performance monitors (GPM).
    pub gpm_ratio: Option<f64>,
    pub gpm_ratio_ci_lo: Option<f64>,
    pub gpm_ratio_ci_hi: Option<f64>,
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
        round_trips(&PlanRow {
            plan,
            devices: 2,
            micro_batch: None,
            memory_bytes: Some(7),
            capacity_bytes: None,
            valid: false,
            reason: reason.clone(),
        });
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
            shapes_only: true,
            reason: reason.clone(),
        });
        round_trips(&VerifyPlanRow {
            job: "lstm@b20".into(),
            plan,
            devices: 2,
            steps: 20,
            loss_difference: Some(1.5e-15),
            status: Status::Ok,
            verified: true,
            reason,
        });
        round_trips(&OverheadRow {
            job: "a".into(),
            device: "cpu:0".into(),
            blocks: 20,
            blocks_left_out: 1,
            stretch_s: 1.0,
            step_ratio: 1.001,
            step_ratio_ci_lo: 0.999,
            step_ratio_ci_hi: 1.003,
            fast_reads_per_s: 25.0,
            harness_cpu_us_per_s: 3_000,
        });
        for &load in Load::ALL {
            round_trips(&ReadingRow {
                device: "cuda:0".into(),
                reading: "power_mw".into(),
                load,
                calls: 200,
                failures: 1,
                ns_p50: Some(3_000),
                ns_p99: Some(9_000),
                ns_max: None,
                capability: Some("ok, 32 bits".into()),
            });
        }
        for &direction in Direction::ALL {
            round_trips(&TransferRow {
                device: "cuda:0".into(),
                direction,
                bytes: 8 << 30,
                copies: 5,
                bytes_per_s: 5.5e10,
                bytes_per_s_ci_lo: Some(5.4e10),
                bytes_per_s_ci_hi: Some(5.6e10),
                counter_ratio: Some(1.02),
                counter_ratio_ci_lo: None,
                counter_ratio_ci_hi: None,
                gpm_ratio: None,
                gpm_ratio_ci_lo: None,
                gpm_ratio_ci_hi: None,
            });
        }
    }
}
