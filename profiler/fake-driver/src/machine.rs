//! The simulated machine, which decides the answer of each device to each call.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Instant, SystemTime},
};

use nvml_wrapper_sys::bindings::*;

use crate::{
    link::{Link, Way},
    script::{DeviceScript, Reading, Script, UtilizationSample},
};

/// Every metric that a script may list.
pub(crate) const METRICS: &[&str] = &[
    "util_percent",
    "memory_used_bytes",
    "processes",
    "mps_processes",
    "process_util",
    "pcie_tx_bytes",
    "pcie_rx_bytes",
    "nvlink_tx_kib",
    "nvlink_rx_kib",
    "energy_mj",
    "power_mw",
    "power_average_mw",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "temperature_c",
    "throttle_power_cap_ns",
    "throttle_sync_boost_ns",
    "throttle_software_thermal_ns",
    "throttle_hardware_thermal_ns",
    "throttle_power_brake_ns",
    "gpm_sm_util",
    "gpm_sm_occupancy",
    "gpm_tensor_util",
    "gpm_dram_util",
    "gpm_pcie_tx",
    "gpm_pcie_rx",
    "gpm_nvlink_tx",
    "gpm_nvlink_rx",
    "pcie_generation",
    "pcie_width",
    "pcie_link_generation",
    "pcie_link_width",
    "pcie_replays",
    "numa_node",
    "mig",
    "compute_mode",
    "persistence",
    "ecc",
];

pub(crate) struct Machine {
    pub(crate) driver: String,
    pub(crate) cuda_version: i32,
    pub(crate) devices: Vec<FakeDevice>,
    started: Instant,
}

pub(crate) struct FakeDevice {
    pub(crate) script: DeviceScript,
    pub(crate) link: Link,
    /// Notes of processes so far.
    pub(crate) noted: Vec<nvmlProcessUtilizationSample_t>,
    calls: u64,
    calls_by_metric: BTreeMap<String, u64>,
}

static MACHINE: Mutex<Option<Machine>> = Mutex::new(None);

/// The machine, from `nvmlInit` to `nvmlShutdown`.
pub(crate) fn machine() -> MutexGuard<'static, Option<Machine>> {
    // A test that failed while it held the lock must not make others fail.
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Machine {
    /// Reads the script beside this copy of the library.
    pub(crate) fn load() -> Result<Machine, String> {
        let library = own_path().ok_or("the loader does not say where this library lies")?;
        let path = crate::script_of(&library);
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let script = Script::parse(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        let device = |script| FakeDevice {
            script,
            link: Link::default(),
            noted: Vec::new(),
            calls: 0,
            calls_by_metric: BTreeMap::new(),
        };
        Ok(Machine {
            driver: script.driver,
            cuda_version: script.cuda_version,
            devices: script.device.into_iter().map(device).collect(),
            started: Instant::now(),
        })
    }

    /// Answers for `metric` of a device, and counts the call.
    pub(crate) fn answer(&mut self, device: usize, metric: &str) -> Result<(i64, Reading), nvmlReturn_t> {
        let seconds = self.started.elapsed().as_secs_f64();
        let device = self.devices.get_mut(device).ok_or(nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT)?;
        device.calls += 1;
        if device.script.lost_after_calls.is_some_and(|last| device.calls > last) {
            return Err(nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST);
        }
        let reading = device.script.metrics.get(metric).ok_or(nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED)?;
        let calls = device.calls_by_metric.entry(metric.into()).or_default();
        let call = *calls;
        *calls += 1;
        let way = match metric {
            "pcie_rx_bytes" => Some(Way::In),
            "pcie_tx_bytes" => Some(Way::Out),
            _ => None,
        };
        let copied = way.map_or(0.0, |way| device.link.carried(way, Instant::now()));
        reading.at(call, seconds, copied as i64).map(|value| (value, reading.clone()))
    }
}

impl FakeDevice {
    /// Notes the processes whose kernels ran. The driver does this all the time, the script at each call.
    pub(crate) fn note_utilization(&mut self) {
        let call = self.calls_by_metric.get("process_util").map_or(0, |calls| calls - 1);
        let now_us = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_micros() as u64);
        let runs = |sample: &&UtilizationSample| {
            call.checked_sub(sample.first_call).is_some_and(|since| since < sample.calls)
        };
        let note = |sample: &UtilizationSample| nvmlProcessUtilizationSample_t {
            pid: sample.pid,
            timeStamp: now_us + sample.ahead_s * 1_000_000,
            smUtil: sample.sm_percent,
            memUtil: 0,
            encUtil: 0,
            decUtil: 0,
        };
        self.noted.extend(self.script.utilization.iter().filter(runs).map(note));
    }
}

impl Reading {
    fn at(&self, call: u64, seconds: f64, more: i64) -> Result<i64, nvmlReturn_t> {
        let first = self.error_after_calls;
        let last = self.error_calls.map_or(u64::MAX, |calls| first + calls);
        if let Some(error) = &self.error
            && (first..last).contains(&call)
        {
            return Err(error_code(error).expect("the script was checked when it was read"));
        }
        let value = self.start + self.per_call * call as i64 + (self.per_s as f64 * seconds) as i64 + more;
        Ok(self.bits.map_or(value, |bits| value.rem_euclid(1 << bits)))
    }
}

/// No code of the driver. A call with this code does not return.
pub(crate) const HANGS: nvmlReturn_t = nvmlReturn_t::MAX;

pub(crate) fn error_code(name: &str) -> Option<nvmlReturn_t> {
    match name {
        "not-supported" => Some(nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED),
        "no-permission" => Some(nvmlReturn_enum_NVML_ERROR_NO_PERMISSION),
        "timeout" => Some(nvmlReturn_enum_NVML_ERROR_TIMEOUT),
        "insufficient-size" => Some(nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE),
        "unknown" => Some(nvmlReturn_enum_NVML_ERROR_UNKNOWN),
        "hangs" => Some(HANGS),
        _ => None,
    }
}

/// Finds this copy of the library among the mapped files of the process, as the mapping that contains this
/// function.
fn own_path() -> Option<PathBuf> {
    let address = own_path as *const () as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().find_map(|line| {
        let (first, last) = line.split_whitespace().next()?.split_once('-')?;
        let (first, last) = (usize::from_str_radix(first, 16).ok()?, usize::from_str_radix(last, 16).ok()?);
        let path = line.find('/')?;
        (first..last).contains(&address).then(|| PathBuf::from(&line[path..]))
    })
}
