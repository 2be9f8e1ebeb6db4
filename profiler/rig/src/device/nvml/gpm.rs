//! GPU performance monitoring (Hopper and newer): the hardware's own view of a window of time.

use std::{collections::BTreeMap, time::Duration};

use nvml_wrapper::{
    Device as Handle, GpmSample, Nvml, enums::gpm::GpmMetricId, gpm::gpm_metrics_get,
    struct_wrappers::gpm::GpmMetricResult,
};
use record::rows::DeviceSample;
use schema::units::Nanos;

use super::{super::counter::Counter, Inquiry};

/// Windows shorter than this give invalid values on Hopper (NVIDIA/DCGM issue 310).
pub const SHORTEST_WINDOW: Duration = Duration::from_millis(100);

const SHARES: [(&str, GpmMetricId); 4] = [
    ("sm_util_percent", GpmMetricId::SmUtil),
    ("sm_occupancy_percent", GpmMetricId::SmOccupancy),
    ("tensor_util_percent", GpmMetricId::AnyTensorUtil),
    ("dram_util_percent", GpmMetricId::DramBwUtil),
];

/// Rates that stand in for a counter where the device has none: the rate, and the counter's name.
const RATES: [(&str, GpmMetricId, &str); 4] = [
    ("gpm_pcie_tx", GpmMetricId::PcieTxPerSec, "pcie_tx_bytes"),
    ("gpm_pcie_rx", GpmMetricId::PcieRxPerSec, "pcie_rx_bytes"),
    ("gpm_nvlink_tx", GpmMetricId::NvlinkTotalTxPerSec, "nvlink_tx_bytes"),
    ("gpm_nvlink_rx", GpmMetricId::NvlinkTotalRxPerSec, "nvlink_rx_bytes"),
];

/// Keeps the sample at which the next window begins, so that windows are adjacent.
#[derive(Default)]
pub(super) struct Gpm {
    begin: Option<(Nanos, GpmSample<'static>)>,
}

impl Gpm {
    /// Whether the device has returned a sample. The driver's statement on support is not used, because in a guest it may claim
    /// support and return no samples.
    pub(super) fn is_offered(&self) -> bool {
        self.begin.is_some()
    }

    /// Fills in the values of the window since the last sample. A window that is too short stays open.
    pub(super) fn fill(
        &mut self,
        nvml: &'static Nvml,
        handle: &Handle<'static>,
        inquiry: &mut Inquiry,
        counters: &mut BTreeMap<&'static str, Counter>,
        row: &mut DeviceSample,
    ) {
        let now = Nanos::monotonic_now();
        if self.begin.as_ref().is_some_and(|(then, _)| now.saturating_sub(*then) < SHORTEST_WINDOW.into()) {
            return;
        }
        let Some(end) = inquiry.ask("gpm", || handle.gpm_sample()) else { return };
        let Some((then, begin)) = self.begin.take() else {
            self.begin = Some((now, end));
            return;
        };
        let seconds = now.saturating_sub(then).as_secs_f64();
        let rates = RATES.into_iter().filter(|(_, _, counter)| !inquiry.wants(counter));
        let mut asked: Vec<_> = SHARES.into_iter().chain(rates.map(|(name, id, _)| (name, id))).collect();
        asked.retain(|(name, _)| inquiry.is_due(name));
        let ids: Vec<GpmMetricId> = asked.iter().map(|&(_, id)| id).collect();
        let answers = inquiry.ask("gpm_metrics", || gpm_metrics_get(nvml, &begin, &end, &ids));
        self.begin = Some((now, end));
        for ((name, _), answer) in asked.into_iter().zip(answers.into_iter().flatten()) {
            let Some(metric) = inquiry.take(name, answer) else { continue };
            // Not a number means no value, and the next window may have one.
            if !metric.value.is_finite() {
                continue;
            }
            let value = match RATES.iter().find(|(rate, _, _)| *rate == name) {
                None => percent(&metric).map(|(share, unit)| {
                    *share_place(row, name) = Some(share);
                    unit
                }),
                Some((_, _, counter)) => bytes_per_s(&metric).map(|(rate, unit)| {
                    let total = counters.entry(name).or_default().add((rate * seconds) as u64);
                    *bytes_place(row, counter) = Some(total);
                    unit
                }),
            };
            match value {
                Ok(unit) => inquiry.remark(name, || format!("in {unit}")),
                Err(reason) if inquiry.is_understood(name) => inquiry.trouble(name, &reason),
                Err(reason) => inquiry.refuse(name, reason),
            }
        }
    }
}

fn share_place<'a>(row: &'a mut DeviceSample, name: &str) -> &'a mut Option<f64> {
    match name {
        "sm_util_percent" => &mut row.sm_util_percent,
        "sm_occupancy_percent" => &mut row.sm_occupancy_percent,
        "tensor_util_percent" => &mut row.tensor_util_percent,
        _ => &mut row.dram_util_percent,
    }
}

fn bytes_place<'a>(row: &'a mut DeviceSample, counter: &str) -> &'a mut Option<u64> {
    match counter {
        "pcie_tx_bytes" => &mut row.pcie_tx_bytes,
        "pcie_rx_bytes" => &mut row.pcie_rx_bytes,
        "nvlink_tx_bytes" => &mut row.nvlink_tx_bytes,
        _ => &mut row.nvlink_rx_bytes,
    }
}

/// The value of a share, and the source of its unit: the driver, or the header if the driver names none. The header promises
/// percent, so any other unit of the driver is an error.
fn percent(metric: &GpmMetricResult) -> Result<(f64, String), String> {
    match metric.metric_info.unit.trim() {
        "" => Ok((metric.value, "percent by the header, the driver names no unit".into())),
        unit if ["%", "percent", "percentage"].contains(&unit.to_lowercase().as_str()) => {
            Ok((metric.value, unit.into()))
        }
        unit => Err(format!("its unit is '{unit}', not percent")),
    }
}

/// The value of a rate, and the source of its unit. Documents disagree about it, so the driver's unit takes precedence over
/// NVIDIA's header.
fn bytes_per_s(metric: &GpmMetricResult) -> Result<(f64, String), String> {
    const MIB: f64 = 1024.0 * 1024.0;
    let unit = metric.metric_info.unit.trim();
    let bytes = match unit.to_lowercase().replace("/sec", "/s").as_str() {
        "" => return Ok((metric.value * MIB, "MiB/s by the header, the driver names no unit".into())),
        "b/s" | "bytes/s" => 1.0,
        "kib/s" => 1024.0,
        "mib/s" => MIB,
        "gib/s" => 1024.0 * MIB,
        "kb/s" => 1e3,
        "mb/s" => 1e6,
        "gb/s" => 1e9,
        _ => return Err(format!("its unit '{unit}' is not known")),
    };
    Ok((metric.value * bytes, unit.into()))
}
