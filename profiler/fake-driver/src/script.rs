//! What a script can say.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::machine::METRICS;

/// The machine that the library pretends to run on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    #[serde(default = "a_driver_of_today")]
    pub driver: String,
    #[serde(default)]
    pub device: Vec<DeviceScript>,
}

/// One device. A metric that is not listed is not supported.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceScript {
    pub name: String,
    #[serde(default)]
    pub uuid: Option<String>,
    pub memory_bytes: u64,
    /// What the driver keeps for itself; `memory_used_bytes` does not contain it.
    #[serde(default)]
    pub reserved_bytes: u64,
    #[serde(default = "hopper")]
    pub compute_capability: [i32; 2],
    /// From this call on the device is lost. Calls that read a metric count, names and handles do not.
    pub lost_after_calls: Option<u64>,
    #[serde(default)]
    pub processes: Vec<RunningProcess>,
    /// Processes that share the device through MPS.
    #[serde(default)]
    pub mps_processes: Vec<RunningProcess>,
    #[serde(default)]
    pub metrics: BTreeMap<String, Reading>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunningProcess {
    pub pid: u32,
    /// Absent where the driver cannot tell.
    pub bytes: Option<u64>,
}

/// How a metric answers: `start + per_call * calls + per_s * seconds`, in the unit of its name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reading {
    pub start: i64,
    pub per_call: i64,
    pub per_s: i64,
    /// The counter is this many bits wide and wraps; 64 otherwise.
    pub bits: Option<u32>,
    /// What the driver calls the unit (GPM only).
    pub unit: Option<String>,
    /// `not-supported`, `no-permission`, `timeout` or `unknown`, instead of a value ...
    pub error: Option<String>,
    /// ... from this call on ...
    pub error_after_calls: u64,
    /// ... and for so many calls; for ever where absent.
    pub error_calls: Option<u64>,
}

impl Script {
    /// Reads a script; the error says what is wrong with it and where.
    pub fn parse(text: &str) -> Result<Script, String> {
        let script: Script = toml::from_str(text).map_err(|e| e.to_string())?;
        for (metric, reading) in script.device.iter().flat_map(|device| &device.metrics) {
            if !METRICS.contains(&metric.as_str()) {
                return Err(format!("there is no metric '{metric}'"));
            }
            if let Some(error) = &reading.error
                && crate::machine::error_code(error).is_none()
            {
                return Err(format!("metric '{metric}': there is no error '{error}'"));
            }
        }
        Ok(script)
    }
}

fn a_driver_of_today() -> String {
    "580.159.03".into()
}

fn hopper() -> [i32; 2] {
    [9, 0]
}
