//! The format of a script.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::machine::METRICS;

/// The machine that the library simulates.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    #[serde(default = "a_driver_of_today")]
    pub driver: String,
    /// The newest CUDA version that the driver supports, in its own form: `13000` for 13.0.
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
    /// Empty if the driver does not report it.
    #[serde(default = "a_uuid")]
    pub uuid: String,
    pub memory_bytes: u64,
    /// Memory that the driver reserves; `memory_used_bytes` does not include it.
    #[serde(default)]
    pub reserved_bytes: u64,
    #[serde(default = "hopper")]
    pub compute_capability: [i32; 2],
    /// The number of the call from which on the device is lost. Calls that read a metric count, names and
    /// handles do not.
    pub lost_after_calls: Option<u64>,
    #[serde(default)]
    pub processes: Vec<RunningProcess>,
    /// Processes that share the device through MPS.
    #[serde(default)]
    pub mps_processes: Vec<RunningProcess>,
    /// Processes whose kernels ran; each entry is a separate sample.
    #[serde(default)]
    pub utilization: Vec<UtilizationSample>,
    /// Without it CUDA does not list the device.
    pub cuda: Option<CudaScript>,
    #[serde(default)]
    pub metrics: BTreeMap<String, Reading>,
}

/// The behaviour of a device in CUDA. Absent values have no answer.
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
    /// Speed of copies. PCIe bytes of NVML and rates of GPM (in MiB/s) grow with the copied bytes.
    pub host_to_device_bytes_per_s: u64,
    pub device_to_host_bytes_per_s: u64,
    /// Traffic of packet headers relative to the copied bytes.
    #[serde(default)]
    pub header_share: f64,
    /// Another process uses the device exclusively, so that no context can be made on it.
    #[serde(default)]
    pub occupied: bool,
    /// Limit of page-locked host memory.
    pub page_locked_bytes: u64,
}

/// The driver's notes of a process, made at each of `calls` calls from `first_call` on. Notes are kept, and
/// returned to every caller that has not seen them by their time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UtilizationSample {
    pub pid: u32,
    pub sm_percent: u32,
    #[serde(default)]
    pub first_call: u64,
    #[serde(default = "always")]
    pub calls: u64,
    /// Distance of its time into the future, as in a place that nothing has written.
    #[serde(default)]
    pub ahead_s: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunningProcess {
    pub pid: u32,
    /// Absent if the driver does not know it.
    pub bytes: Option<u64>,
}

/// The answer of a metric: `start + per_call * calls + per_s * seconds`, in the unit of its name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reading {
    pub start: i64,
    pub per_call: i64,
    pub per_s: i64,
    /// Width of the counter in bits, after which it wraps; by default 64.
    pub bits: Option<u32>,
    /// Latency that the driver reports (fields only).
    pub latency_us: i64,
    /// Name of the unit in the driver (GPM only).
    pub unit: Option<String>,
    /// Whether the value is NaN (GPM only).
    pub is_nan: bool,
    /// `not-supported`, `no-permission`, `timeout`, `insufficient-size` or `unknown`, instead of a value; or `hangs`: the call
    /// does not return (not of fields) ...
    pub error: Option<String>,
    /// ... from this call on ...
    pub error_after_calls: u64,
    /// ... and for this number of calls; for ever if absent.
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
