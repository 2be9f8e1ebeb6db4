//! Jobs as people write them, on the command line, in traces and in files.

use std::{fmt, path::Path, str::FromStr};

use serde::{Deserialize, Serialize, de};

use crate::{
    device::{Device, DeviceError},
    plan::{Plan, PlanError},
};

/// `WORKLOAD[@bN][@PLAN][@on=DEVICE]`: `resnet50@b64@dp2-bf16@on=cpu:0`.
///
/// Omitted parts have the default of the workload; `b64` is the global batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Job {
    pub workload: String,
    pub global_batch: Option<u32>,
    pub plan: Option<Plan>,
    pub device: Option<Device>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    #[error("job '{job}': {cause}")]
    Plan { job: String, cause: PlanError },
    #[error("job '{job}': {cause}")]
    Device { job: String, cause: DeviceError },
    #[error("job '{job}': '{part}' is no batch; write b1 or more, as in resnet50@b64")]
    Batch { job: String, part: String },
    #[error("job '{job}': '{part}' stands twice or out of order; write WORKLOAD@bN@PLAN@on=DEVICE")]
    Order { job: String, part: String },
    #[error("job '{job}' names no workload; write WORKLOAD[@bN][@PLAN][@on=DEVICE]")]
    NoWorkload { job: String },
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.workload)?;
        if let Some(batch) = self.global_batch {
            write!(f, "@b{batch}")?;
        }
        if let Some(plan) = self.plan {
            write!(f, "@{plan}")?;
        }
        if let Some(device) = &self.device {
            write!(f, "@on={device}")?;
        }
        Ok(())
    }
}

impl FromStr for Job {
    type Err = JobError;

    fn from_str(job: &str) -> Result<Job, JobError> {
        let mut parts = job.split('@');
        let workload = parts.next().unwrap_or_default();
        if workload.is_empty() {
            return Err(JobError::NoWorkload { job: job.into() });
        }
        let mut parsed = Job { workload: workload.into(), global_batch: None, plan: None, device: None };
        for part in parts {
            let out_of_order = || JobError::Order { job: job.into(), part: part.into() };
            if let Some(name) = part.strip_prefix("on=") {
                if parsed.device.is_some() {
                    return Err(out_of_order());
                }
                let device = name.parse().map_err(|cause| JobError::Device { job: job.into(), cause })?;
                parsed.device = Some(device);
            } else if part.starts_with('b') && !part.starts_with("bf") {
                if parsed.global_batch.is_some() || parsed.plan.is_some() || parsed.device.is_some() {
                    return Err(out_of_order());
                }
                parsed.global_batch = match part[1..].parse() {
                    Ok(batch) if batch > 0 => Some(batch),
                    _ => return Err(JobError::Batch { job: job.into(), part: part.into() }),
                };
            } else {
                if parsed.plan.is_some() || parsed.device.is_some() {
                    return Err(out_of_order());
                }
                let plan = part.parse().map_err(|cause| JobError::Plan { job: job.into(), cause })?;
                parsed.plan = Some(plan);
            }
        }
        Ok(parsed)
    }
}

/// The name of a user's program, from its arguments, program first: `cmd-python-0f3a9c`.
pub fn command_name(argv: &[String]) -> String {
    let program = argv.first().and_then(|program| Path::new(program).file_name());
    let base = program.map_or_else(|| "program".into(), |name| name.to_string_lossy().to_lowercase());
    format!("cmd-{base}-{}", hash6(argv))
}

/// Six hexadecimal digits that distinguish command lines (FNV-1a, 64 bits, folded to 24).
fn hash6(argv: &[String]) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in argv.iter().flat_map(|arg| arg.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{:06x}", (hash ^ (hash >> 24) ^ (hash >> 48)) & 0xff_ffff)
}

impl Serialize for Job {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Job {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Job, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::any_plan::any_plan;

    proptest! {
        #[test]
        fn every_job_round_trips(
            workload in "[a-z][a-z0-9-]{0,12}",
            global_batch in prop::option::of(1u32..100_000),
            plan in prop::option::of(any_plan()),
            cuda in prop::option::of(0u32..9),
        ) {
            let job = Job { workload, global_batch, plan, device: cuda.map(Device::Cuda) };
            prop_assert_eq!(job.to_string().parse::<Job>().unwrap(), job);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = text.parse::<Job>();
        }
    }

    #[test]
    fn what_the_error_says() {
        for (job, message) in [
            ("resnet50@b0", "job 'resnet50@b0': 'b0' is no batch; write b1 or more, as in resnet50@b64"),
            ("resnet50@bf16-dp2", "job 'resnet50@bf16-dp2': plan 'bf16-dp2' is spelled 'dp2-bf16'"),
            (
                "gpt2@on=gpu",
                "job 'gpt2@on=gpu': 'gpu' is no device; write cuda:N, cpu:N, cpu:N-M, cpu:N-M+K or cpu",
            ),
            ("@b4", "job '@b4' names no workload; write WORKLOAD[@bN][@PLAN][@on=DEVICE]"),
            (
                "gpt2@bf16@b4",
                "job 'gpt2@bf16@b4': 'b4' stands twice or out of order; write WORKLOAD@bN@PLAN@on=DEVICE",
            ),
        ] {
            assert_eq!(job.parse::<Job>().unwrap_err().to_string(), message);
        }
    }
}
