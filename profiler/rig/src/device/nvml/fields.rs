//! Metrics that one call answers together.

use std::collections::BTreeMap;

use nvml_wrapper::{
    Device as Handle, enums::device::SampleValue, error::NvmlError, structs::device::FieldId,
    sys_exports::field_id,
};
use record::rows::DeviceSample;
use schema::units::Nanos;

use super::{
    super::counter::{Counter, Width},
    Inquiry,
    throttle::Throttle,
};

/// The fields of every reading. The PCIe counters take 0.3 ms on an H200.
const ALWAYS: [(&str, u32); 3] = [
    ("pcie_tx_bytes", field_id::NVML_FI_DEV_PCIE_COUNT_TX_BYTES),
    ("pcie_rx_bytes", field_id::NVML_FI_DEV_PCIE_COUNT_RX_BYTES),
    ("power_mw", field_id::NVML_FI_DEV_POWER_INSTANT),
];

/// The fields of some readings: they take 2.8 ms on an H200, nearly all for the energy, which its driver updates every
/// 100 ms. The last five are causes of throttling, in nanoseconds.
const SOMETIMES: [(&str, u32); 6] = [
    ("energy_mj", field_id::NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION),
    ("throttle_power_cap_ns", field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP),
    ("throttle_sync_boost_ns", field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST),
    ("throttle_software_thermal_ns", field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN),
    ("throttle_hardware_thermal_ns", field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN),
    ("throttle_power_brake_ns", field_id::NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN),
];

/// Fills in the values of the fields, of the costly ones if `all` are asked for.
pub(super) fn fill(
    handle: &Handle<'static>,
    all: bool,
    inquiry: &mut Inquiry,
    counters: &mut BTreeMap<&'static str, Counter>,
    throttle: &mut Throttle,
    row: &mut DeviceSample,
) {
    let fields = ALWAYS.into_iter().chain(SOMETIMES.into_iter().filter(|_| all));
    let asked: Vec<(&str, u32)> = fields.filter(|(name, _)| inquiry.is_due(name)).collect();
    if asked.is_empty() {
        return;
    }
    let ids: Vec<FieldId> = asked.iter().map(|&(_, id)| FieldId(id)).collect();
    let Some(answers) = inquiry.ask("field_values", || handle.field_values_for(&ids)) else { return };
    let now = Nanos::monotonic_now();
    let (mut causes, mut silent) = (Vec::new(), false);
    for ((name, _), answer) in asked.into_iter().zip(answers) {
        let is_cause = name.starts_with("throttle");
        // A driver that does not fill in the value leaves zero.
        if let Ok(latency_us @ 1..) = answer.as_ref().map(|field| field.latency) {
            inquiry.took(name, latency_us as u64 * 1000);
        }
        let answer = answer.and_then(|field| field.value).and_then(whole);
        let Some((raw, width)) = inquiry.take(name, answer) else {
            silent |= is_cause && inquiry.wants(name);
            continue;
        };
        if name == "power_mw" {
            row.power_mw = Some(raw);
            continue;
        }
        inquiry.remark(name, || match width {
            Width::Bits32 => "32 bits".into(),
            Width::Bits64 => "64 bits".into(),
        });
        if is_cause {
            causes.push((name, raw, width));
            continue;
        }
        let total = Some(add_up(inquiry, counters, name, raw, width));
        match name {
            "pcie_tx_bytes" => row.pcie_tx_bytes = total,
            "pcie_rx_bytes" => row.pcie_rx_bytes = total,
            _ => row.energy_mj = total,
        }
    }
    row.throttle_ns = throttle.read(now, &causes, silent);
}

/// Takes the reading of a counter and returns its total. A fall is reported in the row's `err`.
pub(super) fn add_up(
    inquiry: &mut Inquiry,
    counters: &mut BTreeMap<&'static str, Counter>,
    name: &'static str,
    raw: u64,
    width: Width,
) -> u64 {
    let counter = counters.entry(name).or_default();
    if let Err(fell) = counter.grow(raw, width) {
        inquiry.trouble(name, &fell);
    }
    counter.total()
}

/// A value and the width of the driver's type for it.
fn whole(value: SampleValue) -> Result<(u64, Width), NvmlError> {
    match value {
        SampleValue::U32(n) => Ok((u64::from(n), Width::Bits32)),
        SampleValue::U64(n) => Ok((n, Width::Bits64)),
        SampleValue::I64(n) => u64::try_from(n).map(|n| (n, Width::Bits64)).map_err(|_| NvmlError::Unknown),
        SampleValue::F64(x) => Ok((x as u64, Width::Bits64)),
    }
}
