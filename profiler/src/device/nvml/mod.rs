//! A GPU, read through NVIDIA's management library.
//!
//! Fast rows hold what is cheap or must be read often (the PCIe counters wrap within 78 ms at full
//! speed), GPM rows what the performance monitors say of the time since the row before, slow rows the
//! NVLink counters. A metric that the device refuses once is not asked for again.

mod gpm;
mod inquiry;
mod library;
mod nvlink;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use nvml_wrapper::{
    Device as Handle, Nvml,
    enum_wrappers::device::{Clock, TemperatureSensor},
    enums::device::{SampleValue, UsedGpuMemory},
    error::NvmlError,
    structs::device::FieldId,
    sys_exports::field_id,
};
use schema::{
    device::Device,
    manifest::DeviceFacts,
    rows::{DeviceSample, Tier},
    units::Nanos,
};

use super::{DeviceError, DeviceReader, LOST, ProcessMemory, counter::Counter, peak::peak_flops};
use gpm::Gpm;
use inquiry::Inquiry;
pub(super) use library::devices;
#[cfg(test)]
pub(crate) use library::library_at;
pub use library::{LIBRARY_ENV, driver_version, library, uuid};

/// Metrics that one call answers together. The last five are causes of throttling, in nanoseconds.
const FIELDS: [(&str, u32); 9] = [
    ("pcie_tx_bytes", field_id::NVML_FI_DEV_PCIE_COUNT_TX_BYTES),
    ("pcie_rx_bytes", field_id::NVML_FI_DEV_PCIE_COUNT_RX_BYTES),
    ("energy_mj", field_id::NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION),
    ("power_mw", field_id::NVML_FI_DEV_POWER_INSTANT),
    ("throttle_power_cap_ns", field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP),
    ("throttle_sync_boost_ns", field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST),
    ("throttle_software_thermal_ns", field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN),
    ("throttle_hardware_thermal_ns", field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN),
    ("throttle_power_brake_ns", field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN),
];

pub struct NvmlReader {
    device: Device,
    nvml: &'static Nvml,
    /// Fetched once: looking a device up takes milliseconds.
    handle: Handle<'static>,
    facts: DeviceFacts,
    inquiry: Inquiry,
    counters: BTreeMap<&'static str, Counter>,
    gpm: Gpm,
}

impl NvmlReader {
    /// Opens `cuda:<index>`, counted as CUDA programs count that order devices by bus and obey
    /// `CUDA_VISIBLE_DEVICES`. Reads every tier once, which takes a tenth of a second: the facts say
    /// what the device can be asked for.
    pub fn open(nvml: &'static Nvml, index: u32) -> Result<NvmlReader, DeviceError> {
        let device = Device::Cuda(index);
        let handle = library::handle(nvml, index)?;
        let name = handle.name().map_err(|e| DeviceError::Driver {
            device: device.clone(),
            call: "name",
            reason: e.to_string(),
        })?;
        let mut reader = NvmlReader {
            facts: DeviceFacts {
                device: device.clone(),
                memory_bytes: None,
                peak_flops: peak_flops(&name),
                name,
                capabilities: BTreeMap::new(),
                chip: BTreeMap::new(),
                topology: library::topology(nvml, &handle),
            },
            device,
            nvml,
            handle,
            inquiry: Inquiry::default(),
            counters: BTreeMap::new(),
            gpm: Gpm::default(),
        };
        reader.probe();
        Ok(reader)
    }

    fn probe(&mut self) {
        for tier in [Tier::Fast, Tier::Slow, Tier::Gpm] {
            self.sample(tier);
        }
        if self.gpm.is_offered() {
            std::thread::sleep(gpm::SHORTEST_WINDOW);
            self.sample(Tier::Gpm);
        }
        self.memory_by_process();
        self.facts.capabilities = self.inquiry.findings();
        if let Ok(capability) = self.handle.cuda_compute_capability() {
            let version = format!("ok, compute capability {}.{}", capability.major, capability.minor);
            self.facts.capabilities.insert("cuda".into(), version);
        }
        if let Ok(memory) = self.handle.memory_info() {
            self.facts.memory_bytes = Some(memory.total);
            // Drivers differ in whether what they keep for themselves counts as used.
            let apart = memory.used + memory.free + memory.reserved == memory.total;
            let kept = if apart {
                "ok, without what the driver reserves"
            } else {
                "ok, with what the driver reserves"
            };
            self.facts.capabilities.insert("memory_used_bytes".into(), kept.into());
        }
    }

    fn fill_fast(&mut self, sample: &mut DeviceSample) {
        let handle = &self.handle;
        let inquiry = &mut self.inquiry;
        let util = inquiry.ask("util_percent", || handle.utilization_rates());
        sample.util_percent = util.map(|rates| f64::from(rates.gpu));
        sample.memory_used_bytes = inquiry.ask("memory_used_bytes", || handle.memory_info()).map(|m| m.used);
        sample.sm_clock_mhz = inquiry.ask("sm_clock_mhz", || handle.clock_info(Clock::SM)).map(u64::from);
        sample.memory_clock_mhz =
            inquiry.ask("memory_clock_mhz", || handle.clock_info(Clock::Memory)).map(u64::from);
        let temperature = inquiry.ask("temperature_c", || handle.temperature(TemperatureSensor::Gpu));
        sample.temperature_c = temperature.map(u64::from);
        self.fill_fields(sample);
        if sample.power_mw.is_none() {
            let handle = &self.handle;
            let average = self.inquiry.ask("power_average_mw", || handle.power_usage());
            sample.power_mw = average.map(u64::from);
        }
    }

    fn fill_fields(&mut self, sample: &mut DeviceSample) {
        let asked: Vec<(&str, u32)> =
            FIELDS.into_iter().filter(|(name, _)| self.inquiry.wants(name)).collect();
        let ids: Vec<FieldId> = asked.iter().map(|&(_, id)| FieldId(id)).collect();
        let handle = &self.handle;
        let ask = || if ids.is_empty() { Ok(Vec::new()) } else { handle.field_values_for(&ids) };
        let Some(answers) = self.inquiry.ask("field_values", ask) else { return };
        for ((name, _), answer) in asked.into_iter().zip(answers) {
            let answer = answer.and_then(|field| field.value);
            let Some(raw) = self.inquiry.ask(name, || answer.and_then(whole)) else { continue };
            if name == "power_mw" {
                sample.power_mw = Some(raw);
                continue;
            }
            let total = self.counters.entry(name).or_default().read(raw);
            match name {
                "pcie_tx_bytes" => sample.pcie_tx_bytes = Some(total),
                "pcie_rx_bytes" => sample.pcie_rx_bytes = Some(total),
                "energy_mj" => sample.energy_mj = Some(total),
                _ => *sample.throttle_ns.get_or_insert_default() += total,
            }
        }
    }

    fn fill_slow(&mut self, sample: &mut DeviceSample) {
        for (metric, field, place) in [
            ("nvlink_tx_bytes", field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, &mut sample.nvlink_tx_bytes),
            ("nvlink_rx_bytes", field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, &mut sample.nvlink_rx_bytes),
        ] {
            let kib = self.inquiry.ask(metric, || nvlink::all_links_kib(self.nvml, &self.handle, field));
            *place = kib.map(|kib| self.counters.entry(metric).or_default().read(kib * 1024));
        }
    }
}

impl DeviceReader for NvmlReader {
    fn device(&self) -> &Device {
        &self.device
    }

    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn period(&self, tier: Tier) -> Option<Duration> {
        let has_counters = self.inquiry.wants("pcie_tx_bytes") || self.inquiry.wants("pcie_rx_bytes");
        match tier {
            Tier::Fast if has_counters => Some(Duration::from_millis(40)),
            // Without counters that wrap there is no hurry.
            Tier::Fast => Some(Duration::from_millis(100)),
            Tier::Gpm => self.gpm.is_offered().then_some(Duration::from_millis(200)),
            Tier::Slow => Some(Duration::from_secs(1)),
        }
    }

    fn sample(&mut self, tier: Tier) -> DeviceSample {
        let mut sample = super::empty_sample(&self.device, tier, Nanos::monotonic_now());
        match tier {
            Tier::Fast => self.fill_fast(&mut sample),
            Tier::Gpm => {
                self.gpm.fill(self.nvml, &self.handle, &mut self.inquiry, &mut self.counters, &mut sample);
            }
            Tier::Slow => self.fill_slow(&mut sample),
        }
        sample.err = match self.inquiry.lost() {
            Some(reason) => Some(format!("{LOST}: {reason}")),
            None => self.inquiry.take_trouble(),
        };
        sample.end_mono_ns = Nanos::monotonic_now();
        sample
    }

    fn memory_by_process(&mut self) -> Option<Vec<ProcessMemory>> {
        let handle = &self.handle;
        let alone = self.inquiry.ask("processes", || handle.running_compute_processes());
        let mps = self.inquiry.ask("mps_processes", || handle.mps_running_compute_processes());
        if alone.is_none() && mps.is_none() {
            return None;
        }
        let listed = alone.into_iter().chain(mps).flatten().map(|process| ProcessMemory {
            pid: process.pid,
            bytes: match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(bytes),
                UsedGpuMemory::Unavailable => None,
            },
        });
        // A client of MPS may stand in both lists.
        let by_pid: BTreeMap<u32, ProcessMemory> = listed.map(|process| (process.pid, process)).collect();
        Some(by_pid.into_values().collect())
    }

    fn is_lost(&self) -> bool {
        self.inquiry.lost().is_some()
    }
}

fn whole(value: SampleValue) -> Result<u64, NvmlError> {
    match value {
        SampleValue::U32(n) => Ok(u64::from(n)),
        SampleValue::U64(n) => Ok(n),
        SampleValue::I64(n) => u64::try_from(n).map_err(|_| NvmlError::Unknown),
        SampleValue::F64(x) => Ok(x as u64),
    }
}
