//! The course of a quantity of a device, in stretches without a gap.

use schema::rows::DeviceSample;

use crate::table::Unit;

/// The time over which a share of a counter is taken, because the counters of the kernel move in steps of 10
/// ms.
const SHARE_OVER_NS: u64 = 1_000_000_000;
/// Readings further apart than this do not tell what happened between them.
const LONGEST_GAP_NS: u64 = 3_000_000_000;

/// Times of the clock of the host, and values.
pub(super) type Stretch = Vec<(u64, f64)>;

/// The name of a counter, its column, and where it is in a row.
type Counter = (&'static str, &'static str, fn(&DeviceSample) -> Option<u64>);
/// The name of a gauge, its column, its unit, and where it is in a row.
type Gauge = (&'static str, &'static str, Unit, fn(&DeviceSample) -> Option<f64>);

pub(super) const COUNTERS: &[Counter] = &[
    ("busy share of the cores", "busy_percent", |row| row.busy_ns),
    ("share that the hypervisor took", "steal_percent", |row| row.steal_ns),
];

pub(super) const GAUGES: &[Gauge] = &[
    // On a CPU, this is the busy share of the cores over a shorter time.
    ("utilisation", "util_percent", Unit::Percent, |row| row.util_percent.filter(|_| row.busy_ns.is_none())),
    ("memory in use", "memory_used_bytes", Unit::Bytes, |row| {
        row.memory_used_bytes.map(|bytes| bytes as f64)
    }),
    ("power", "power_mw", Unit::Milliwatts, |row| row.power_mw.map(|mw| mw as f64)),
    ("SM clock", "sm_clock_mhz", Unit::Mhz, |row| row.sm_clock_mhz.map(|mhz| mhz as f64)),
    ("temperature", "temperature_c", Unit::Celsius, |row| row.temperature_c.map(|celsius| celsius as f64)),
];

/// The readings of a gauge.
pub(super) fn gauge(rows: &[&DeviceSample], value: fn(&DeviceSample) -> Option<f64>) -> Vec<Stretch> {
    stretches(rows, |row| value(row).filter(|value| value.is_finite()), |_, _| false)
}

/// The growth of a counter of nanoseconds in percent of the time of all cores. Each value is at the begin of
/// its time, and the last one of a stretch at the end, too. A time in which the counter fell has none.
pub(super) fn shares(
    rows: &[&DeviceSample],
    counter: fn(&DeviceSample) -> Option<u64>,
    cores: usize,
) -> Vec<Stretch> {
    let read = stretches(rows, counter, |one, next| next < one);
    read.iter().filter_map(|readings| share(readings, cores)).collect()
}

fn share(readings: &[(u64, u64)], cores: usize) -> Option<Stretch> {
    let mut from = *readings.first().filter(|_| cores > 0)?;
    let mut shares = Vec::new();
    for &(at, count) in readings {
        let elapsed = at.saturating_sub(from.0);
        if elapsed >= SHARE_OVER_NS {
            let grown = count.saturating_sub(from.1) as f64;
            shares.push((from.0, 100.0 * grown / (elapsed as f64 * cores as f64)));
            from = (at, count);
        }
    }
    let (_, last) = *shares.last()?;
    shares.push((from.0, last));
    Some(shares)
}

/// Divides readings where one failed, where they are far apart, and between two that do not belong together.
fn stretches<T: Copy>(
    rows: &[&DeviceSample],
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
                    && stretch.last().is_some_and(|last| follows(*last, at) && !is_apart(last.1, value)) =>
            {
                stretch.push((at, value))
            }
            _ => stretches.push(vec![(at, value)]),
        }
        goes_on = true;
    }
    stretches
}

fn follows<T>(last: (u64, T), at: u64) -> bool {
    last.0 <= at && at - last.0 <= LONGEST_GAP_NS
}
