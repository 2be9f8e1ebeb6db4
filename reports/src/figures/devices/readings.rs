//! The course of a quantity of a device, in stretches without a gap.

use record::rows::DeviceSample;
use rig::device::WRAPS_BEYOND;

use crate::table::Unit;

/// The time over which the rate of a counter is taken, because the counters of the kernel move in steps of 10
/// ms.
const RATE_OVER_NS: u64 = 1_000_000_000;
/// Readings further apart than this do not tell what happened between them.
const LONGEST_GAP_NS: u64 = 3_000_000_000;

/// Times of the clock of the host, and values.
pub(super) type Stretch = Vec<(u64, f64)>;

/// A counter that grows with time.
pub(super) struct Counter {
    pub name: &'static str,
    /// The column of its rate.
    pub column: &'static str,
    pub unit: Unit,
    /// Readings further apart than this do not tell its growth.
    pub longest_gap_ns: u64,
    pub of: fn(&DeviceSample) -> Option<u64>,
}

/// The name of a gauge, its column, its unit, and where it is in a row.
type Gauge = (&'static str, &'static str, Unit, fn(&DeviceSample) -> Option<f64>);

pub(super) const COUNTERS: &[Counter] = &[
    share("busy share of the cores", "busy_percent", |row| row.busy_ns),
    share("share that the hypervisor took", "steal_percent", |row| row.steal_ns),
    // These counters wrap.
    traffic("PCIe to the device", "pcie_rx_bytes_per_s", WRAPS_BEYOND.0, |row| row.pcie_rx_bytes),
    traffic("PCIe from the device", "pcie_tx_bytes_per_s", WRAPS_BEYOND.0, |row| row.pcie_tx_bytes),
    traffic("NVLink to the device", "nvlink_rx_bytes_per_s", LONGEST_GAP_NS, |row| row.nvlink_rx_bytes),
    traffic("NVLink from the device", "nvlink_tx_bytes_per_s", LONGEST_GAP_NS, |row| row.nvlink_tx_bytes),
];

/// A counter of the nanoseconds of all cores.
const fn share(name: &'static str, column: &'static str, of: fn(&DeviceSample) -> Option<u64>) -> Counter {
    Counter { name, column, unit: Unit::Percent, longest_gap_ns: LONGEST_GAP_NS, of }
}

/// A counter of bytes.
const fn traffic(
    name: &'static str,
    column: &'static str,
    longest_gap_ns: u64,
    of: fn(&DeviceSample) -> Option<u64>,
) -> Counter {
    Counter { name, column, unit: Unit::BytesPerS, longest_gap_ns, of }
}

pub(super) const GAUGES: &[Gauge] = &[
    // On a CPU, this is the busy share of the cores over a shorter time.
    ("utilisation", "util_percent", Unit::Percent, |row| row.util_percent.filter(|_| row.busy_ns.is_none())),
    ("memory in use", "memory_used_bytes", Unit::Bytes, |row| {
        row.memory_used_bytes.map(|bytes| bytes as f64)
    }),
    ("SMs in use", "sm_util_percent", Unit::Percent, |row| row.sm_util_percent),
    ("tensor cores in use", "tensor_util_percent", Unit::Percent, |row| row.tensor_util_percent),
    ("memory bandwidth in use", "dram_util_percent", Unit::Percent, |row| row.dram_util_percent),
    ("power", "power_mw", Unit::Milliwatts, |row| row.power_mw.map(|mw| mw as f64)),
    ("SM clock", "sm_clock_mhz", Unit::Mhz, |row| row.sm_clock_mhz.map(|mhz| mhz as f64)),
    ("temperature", "temperature_c", Unit::Celsius, |row| row.temperature_c.map(|celsius| celsius as f64)),
];

/// The readings of a gauge.
pub(super) fn gauge(rows: &[&DeviceSample], value: fn(&DeviceSample) -> Option<f64>) -> Vec<Stretch> {
    stretches(rows, LONGEST_GAP_NS, |row| value(row).filter(|value| value.is_finite()), |_, _| false)
}

/// The rate of a counter: a share in percent of the time of all cores, or bytes per second. Each value is at the
/// begin of its time, and the last one of a stretch at the end, too. A time in which the counter fell has none.
pub(super) fn rates(rows: &[&DeviceSample], counter: &Counter, cores: usize) -> Vec<Stretch> {
    let per_ns = match counter.unit {
        Unit::Percent if cores > 0 => 100.0 / cores as f64,
        Unit::BytesPerS => 1e9,
        _ => return Vec::new(),
    };
    let read = stretches(rows, counter.longest_gap_ns, counter.of, |one, next| next < one);
    read.iter().filter_map(|readings| rate(readings, per_ns)).collect()
}

fn rate(readings: &[(u64, u64)], per_ns: f64) -> Option<Stretch> {
    let mut from = *readings.first()?;
    let mut rates = Vec::new();
    for &(at, count) in readings {
        let elapsed = at.saturating_sub(from.0);
        if elapsed >= RATE_OVER_NS {
            rates.push((from.0, count.saturating_sub(from.1) as f64 * per_ns / elapsed as f64));
            from = (at, count);
        }
    }
    let (_, last) = *rates.last()?;
    rates.push((from.0, last));
    Some(rates)
}

/// Divides readings where one failed, where they are far apart, and between two that do not belong together.
fn stretches<T: Copy>(
    rows: &[&DeviceSample],
    longest_gap_ns: u64,
    value: impl Fn(&DeviceSample) -> Option<T>,
    is_apart: impl Fn(T, T) -> bool,
) -> Vec<Vec<(u64, T)>> {
    let mut stretches: Vec<Vec<(u64, T)>> = Vec::new();
    let mut tier = None;
    let mut goes_on = false;
    for row in rows {
        let Some(value) = value(row) else {
            goes_on &= row.err.is_none() || tier != Some(row.tier);
            continue;
        };
        let at = row.mono_ns.0;
        tier = Some(row.tier);
        match stretches.last_mut() {
            Some(stretch)
                if goes_on
                    && stretch.last().is_some_and(|last| {
                        last.0 <= at && at - last.0 <= longest_gap_ns && !is_apart(last.1, value)
                    }) =>
            {
                stretch.push((at, value))
            }
            _ => stretches.push(vec![(at, value)]),
        }
        goes_on = true;
    }
    stretches
}
