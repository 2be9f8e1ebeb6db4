//! Columns about the parts of the machine, from `machine.toml`.

use std::collections::BTreeSet;

use record::{
    calibration::{AllReduceRow, Calibration, Measured, Switch},
    manifest::Manifest,
    rows::{Direction, ExportRow},
};
use schema::device::Device;

use super::group::Members;

/// Whether a calibration was made on the machine of a run, as far as both describe it: the same processor and number of cores.
pub fn is_of(calibration: &Calibration, manifest: &Manifest) -> bool {
    (&calibration.machine.cpu, calibration.machine.cores) == (&manifest.machine.cpu, manifest.machine.cores)
}

pub(super) fn fill(row: &mut ExportRow, calibration: &Calibration, members: &Members) {
    let cell = members.own();
    let devices: BTreeSet<&Device> = cell.devices.iter().collect();
    let triad =
        calibration.memory.iter().find(|found| found.devices.iter().collect::<BTreeSet<_>>() == devices);
    [row.triad_bytes_per_s, row.triad_bytes_per_s_ci_lo, row.triad_bytes_per_s_ci_hi] =
        spread(triad.map(|found| found.bytes_per_s));

    // The largest copies are those with the smallest share of latency.
    let copies = |direction| {
        let of_first = calibration.copy.iter().filter(|found| cell.devices.first() == Some(&found.device));
        let found = of_first.filter(|found| found.direction == direction).max_by_key(|found| found.bytes);
        spread(found.map(|found| found.bytes_per_s))
    };
    [
        row.host_to_device_bytes_per_s,
        row.host_to_device_bytes_per_s_ci_lo,
        row.host_to_device_bytes_per_s_ci_hi,
    ] = copies(Direction::HostToDevice);
    [
        row.device_to_host_bytes_per_s,
        row.device_to_host_bytes_per_s_ci_lo,
        row.device_to_host_bytes_per_s_ci_hi,
    ] = copies(Direction::DeviceToHost);

    // If the run chose a library, only all-reduces with that library count.
    let named = row.collectives;
    let is_between = |found: &&AllReduceRow| {
        found.devices == cell.devices && named.is_none_or(|named| found.collectives == named)
    };
    let all_reduces = || calibration.all_reduce.iter().filter(is_between);
    [row.all_reduce_latency_ns, row.all_reduce_latency_ns_ci_lo, row.all_reduce_latency_ns_ci_hi] =
        spread(all_reduces().min_by_key(|found| found.bytes).map(|found| found.time_ns));
    [
        row.all_reduce_bus_bytes_per_s,
        row.all_reduce_bus_bytes_per_s_ci_lo,
        row.all_reduce_bus_bytes_per_s_ci_hi,
    ] = spread(all_reduces().max_by_key(|found| found.bytes).map(|found| found.bus_bytes_per_s));

    [row.spin_ratio, row.spin_ratio_ci_lo, row.spin_ratio_ci_hi] = spread(spin(calibration, members));

    let mut restarts = calibration.restart.iter().filter(|found| found.part == Switch::Total);
    let restart = restarts.find(|found| found.job == cell.job && found.devices == cell.devices);
    [row.restart_ns, row.restart_ns_ci_lo, row.restart_ns_ci_hi] = spread(restart.map(|found| found.ns));
}

/// The worst ratio between a device of the job and a device of its co-runners.
fn spin(calibration: &Calibration, members: &Members) -> Option<Measured<f64>> {
    let own = &members.own().devices;
    let others: Vec<&Device> = members.co_runners().flat_map(|cell| &cell.devices).collect();
    let are_apart = |one: &Device, other: &Device| own.contains(one) && others.contains(&other);
    let between = calibration.spin.iter().filter(|found| {
        let [one, other] = &found.devices;
        are_apart(one, other) || are_apart(other, one)
    });
    between.map(|found| found.ratio).max_by(|a, b| a.value.total_cmp(&b.value))
}

/// The three columns of a number with its interval; empty if it was not measured.
fn spread<T: Copy>(measured: Option<Measured<T>>) -> [Option<T>; 3] {
    let [lo, hi] = measured.and_then(|number| number.interval).map_or([None; 2], |ends| ends.map(Some));
    [measured.map(|number| number.value), lo, hi]
}
