//! A GPU, read through NVIDIA's management library.
//!
//! Fast rows have what is cheap or must be read often (the PCIe counters wrap within 78 ms at full speed), and every fifth has
//! the energy and the time below the clock as well. GPM rows have the values of the performance monitors since the row before,
//! and slow rows have the NVLink counters and the state of the PCIe link. `inquiry` remembers the metrics that a device refuses.

mod fields;
mod gpm;
mod inquiry;
mod library;
mod nvlink;
mod processes;
#[cfg(test)]
mod tests;
mod throttle;

use std::{collections::BTreeMap, time::Duration};

use nvml_wrapper::{
    Device as Handle, Nvml,
    enum_wrappers::device::{Clock, TemperatureSensor},
    sys_exports::field_id,
};
use record::{
    manifest::DeviceFacts,
    rows::{DeviceSample, Tier},
};
use schema::{device::Device, units::Nanos};

use super::{
    CallCost, DeviceError, DeviceReader, LOST, ProcessLister,
    counter::{Counter, Width},
    cuda,
    peak::peak_flops,
};
use fields::add_up;
use gpm::Gpm;
pub use gpm::SHORTEST_WINDOW as SHORTEST_GPM_WINDOW;
use inquiry::Inquiry;
pub(super) use library::devices;
#[cfg(test)]
pub(crate) use library::library_at;
pub use library::{LIBRARY_ENV, driver_version, library, pci_address, uuid};
use processes::Users;
use throttle::Throttle;

/// One of so many fast rows has the metrics that are costly to read.
const COSTLY_EVERY: u32 = 5;

pub struct NvmlReader {
    device: Device,
    nvml: &'static Nvml,
    /// Fetched once: looking a device up takes milliseconds.
    handle: Handle<'static>,
    facts: DeviceFacts,
    inquiry: Inquiry,
    counters: BTreeMap<&'static str, Counter>,
    throttle: Throttle,
    /// The fast rows so far.
    fast_rows: u32,
    /// Absent once it was given out.
    users: Option<Users>,
    gpm: Gpm,
}

impl NvmlReader {
    /// Opens `cuda:<index>`, counted as CUDA programs count that order devices by bus and obey
    /// `CUDA_VISIBLE_DEVICES`. Reads every tier once, which takes a tenth of a second: the facts say
    /// what the device can be asked for. Changes no setting of it.
    ///
    /// # Errors
    /// Where there is no such device; where the driver does not say its uuid, without which no job could be shown it; and
    /// where MIG has split it up: what the driver counts for the chip is then not what a job on a part of it does.
    pub fn open(nvml: &'static Nvml, index: u32) -> Result<NvmlReader, DeviceError> {
        let device = Device::Cuda(index);
        let handle = library::handle(nvml, index)?;
        let topology = library::topology(nvml, &handle);
        if topology.get("mig").is_some_and(|mode| mode == library::MIG_ENABLED) {
            return Err(DeviceError::Mig { device });
        }
        let name = handle.name().map_err(|e| DeviceError::Driver {
            device: device.clone(),
            call: "name",
            reason: e.to_string(),
        })?;
        // Jobs are shown their device by it.
        let uuid = library::uuid_of(&device, &handle)?;
        let mut reader = NvmlReader {
            facts: DeviceFacts {
                device: device.clone(),
                memory_bytes: None,
                peak_flops: peak_flops(&name),
                name,
                capabilities: BTreeMap::new(),
                // Without CUDA's library a device is still measured; `profile doctor` says what is missing.
                chip: cuda::chip(&uuid).unwrap_or_default(),
                topology,
            },
            device,
            nvml,
            handle,
            inquiry: Inquiry::default(),
            counters: BTreeMap::new(),
            throttle: Throttle::default(),
            fast_rows: 0,
            users: Some(Users::new(library::handle(nvml, index)?)),
            gpm: Gpm::default(),
        };
        reader.probe();
        Ok(reader)
    }

    /// From now on counts PCIe bytes as a device without such counters does, by the rates that GPM
    /// gives: to hold one account of the same traffic against the other.
    pub fn without_counters(mut self) -> NvmlReader {
        for counter in ["pcie_tx_bytes", "pcie_rx_bytes"] {
            self.inquiry.refuse(counter, "left aside for the rates of GPM".into());
        }
        self
    }

    fn probe(&mut self) {
        for tier in [Tier::Fast, Tier::Slow, Tier::Gpm] {
            self.sample(tier);
        }
        // The first row of a run has everything, too.
        self.fast_rows = 0;
        if self.gpm.is_offered() {
            std::thread::sleep(gpm::SHORTEST_WINDOW);
            self.sample(Tier::Gpm);
        }
        self.facts.capabilities = self.inquiry.findings();
        if let Some(users) = &mut self.users {
            users.list();
            self.facts.capabilities.extend(users.findings());
        }
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
        let memory = inquiry.ask("memory_used_bytes", || handle.memory_info());
        sample.memory_used_bytes = memory.map(|m| m.used);
        sample.sm_clock_mhz = inquiry.ask("sm_clock_mhz", || handle.clock_info(Clock::SM)).map(u64::from);
        sample.memory_clock_mhz =
            inquiry.ask("memory_clock_mhz", || handle.clock_info(Clock::Memory)).map(u64::from);
        let temperature = inquiry.ask("temperature_c", || handle.temperature(TemperatureSensor::Gpu));
        sample.temperature_c = temperature.map(u64::from);
        let all = self.fast_rows.is_multiple_of(COSTLY_EVERY);
        self.fast_rows = self.fast_rows.wrapping_add(1);
        fields::fill(handle, all, inquiry, &mut self.counters, &mut self.throttle, sample);
        if sample.power_mw.is_none() {
            let average = inquiry.ask("power_average_mw", || handle.power_usage());
            sample.power_mw = average.map(u64::from);
        }
    }

    fn fill_slow(&mut self, sample: &mut DeviceSample) {
        for (metric, field, place) in [
            ("nvlink_tx_bytes", field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, &mut sample.nvlink_tx_bytes),
            ("nvlink_rx_bytes", field_id::NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, &mut sample.nvlink_rx_bytes),
        ] {
            let kib = self.inquiry.ask(metric, || nvlink::all_links_kib(self.nvml, &self.handle, field));
            *place = kib
                .map(|kib| add_up(&mut self.inquiry, &mut self.counters, metric, kib * 1024, Width::Bits64));
        }
        let handle = &self.handle;
        let inquiry = &mut self.inquiry;
        let generation = inquiry.ask("pcie_link_generation", || handle.current_pcie_link_gen());
        sample.pcie_link_generation = generation.map(u64::from);
        let width = inquiry.ask("pcie_link_width", || handle.current_pcie_link_width());
        sample.pcie_link_width = width.map(u64::from);
        // It is 32 bits wide, but no link lives to see it wrap: one that falls was reset.
        let replays = inquiry.ask("pcie_replays", || handle.pcie_replay_counter()).map(u64::from);
        sample.pcie_replays = replays
            .map(|replays| add_up(inquiry, &mut self.counters, "pcie_replays", replays, Width::Bits64));
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
        let has_counters =
            ["pcie_tx_bytes", "pcie_rx_bytes"].iter().any(|metric| self.inquiry.may_answer(metric));
        match tier {
            Tier::Fast if has_counters => Some(Duration::from_millis(40)),
            // Without counters that wrap there is no hurry.
            Tier::Fast => Some(Duration::from_millis(100)),
            Tier::Gpm => self.inquiry.may_answer("gpm").then_some(Duration::from_millis(200)),
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

    fn lister(&mut self) -> Option<Box<dyn ProcessLister>> {
        Some(Box::new(self.users.take()?))
    }

    fn take_costs(&mut self) -> Vec<CallCost> {
        self.inquiry.take_costs()
    }

    fn is_lost(&self) -> bool {
        self.inquiry.lost().is_some()
    }
}
