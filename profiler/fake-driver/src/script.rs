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
    /// The newest CUDA that the driver can run, as it writes it: `13000` for 13.0.
    #[serde(default = "cuda_13")]
    pub cuda_version: i32,
    #[serde(default)]
    pub device: Vec<DeviceScript>,
}

/// One device. A metric that is not listed is not supported.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceScript {
    pub name: String,
    /// Empty where the driver does not tell it.
    #[serde(default = "a_uuid")]
    pub uuid: String,
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
    /// Whose kernels ran; each entry is a sample of its own.
    #[serde(default)]
    pub utilization: Vec<UtilizationSample>,
    /// Without it CUDA does not list the device.
    pub cuda: Option<CudaScript>,
    #[serde(default)]
    pub metrics: BTreeMap<String, Reading>,
}

/// What CUDA says of a device and does with it. What is absent has no answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CudaScript {
    pub multiprocessors: Option<i32>,
    pub l2_cache_bytes: Option<i32>,
    pub memory_bus_bits: Option<i32>,
    pub clock_khz: Option<i32>,
    pub memory_clock_khz: Option<i32>,
    pub shared_memory_per_multiprocessor_bytes: Option<i32>,
    pub registers_per_multiprocessor: Option<i32>,
    pub async_engines: Option<i32>,
    /// How fast copies are; PCIe bytes of NVML and rates of GPM (in MiB/s) grow by what is copied.
    pub host_to_device_bytes_per_s: u64,
    pub device_to_host_bytes_per_s: u64,
    /// What headers of packets add to the traffic, over the bytes copied.
    #[serde(default)]
    pub header_share: f64,
    /// Another process has the device for itself, so that no context can be made on it.
    #[serde(default)]
    pub occupied: bool,
    /// How much host memory can be page-locked.
    pub page_locked_bytes: u64,
}

/// What the driver notes of a process at each call from `first_call` on, `calls` times. Notes are
/// kept, and handed out to whoever has not seen them by their time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UtilizationSample {
    pub pid: u32,
    pub sm_percent: u32,
    #[serde(default)]
    pub first_call: u64,
    #[serde(default = "always")]
    pub calls: u64,
    /// Its time lies so far ahead of the clock, as that of a place nobody has written.
    #[serde(default)]
    pub ahead_s: u64,
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
    /// How long the driver says it took (fields only).
    pub latency_us: i64,
    /// What the driver calls the unit (GPM only).
    pub unit: Option<String>,
    /// The value is not a number (GPM only).
    pub is_nan: bool,
    /// `not-supported`, `no-permission`, `timeout`, `insufficient-size` or `unknown`, instead of a value; or `hangs`: the call
    /// does not return (not of fields) ...
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

fn cuda_13() -> i32 {
    13_000
}

fn always() -> u64 {
    u64::MAX
}

fn a_uuid() -> String {
    "GPU-00000000-0000-0000-0000-000000000000".into()
}

fn hopper() -> [i32; 2] {
    [9, 0]
}
