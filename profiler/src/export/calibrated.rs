//! What the parts of the machine can do, from `machine.toml`.

use std::collections::BTreeSet;

use schema::{
    calibration::{Calibration, CopyRow, Switch},
    device::Device,
    manifest::{Cell, Manifest},
    rows::{Direction, ExportRow},
};

use super::group::Members;

/// Whether a calibration is of the machine of a run, as far as their own words tell: same processor, as many cores.
pub fn is_of(calibration: &Calibration, manifest: &Manifest) -> bool {
    (&calibration.machine.cpu, calibration.machine.cores) == (&manifest.machine.cpu, manifest.machine.cores)
}

pub(super) fn fill(row: &mut ExportRow, calibration: &Calibration, members: &Members) {
    let cell = members.own();
    let devices: BTreeSet<&Device> = cell.devices.iter().collect();
    let are_those = |others: &[Device]| others.iter().collect::<BTreeSet<_>>() == devices;
    if let Some(triad) = calibration.memory.iter().find(|found| are_those(&found.devices)) {
        row.triad_bytes_per_s = Some(triad.bytes_per_s);
        row.triad_bytes_per_s_ci_lo = Some(triad.bytes_per_s_ci_lo);
        row.triad_bytes_per_s_ci_hi = Some(triad.bytes_per_s_ci_hi);
    }
    if let Some(copy) = copy(calibration, cell, Direction::HostToDevice) {
        row.host_to_device_bytes_per_s = Some(copy.bytes_per_s);
        row.host_to_device_bytes_per_s_ci_lo = Some(copy.bytes_per_s_ci_lo);
        row.host_to_device_bytes_per_s_ci_hi = Some(copy.bytes_per_s_ci_hi);
    }
    if let Some(copy) = copy(calibration, cell, Direction::DeviceToHost) {
        row.device_to_host_bytes_per_s = Some(copy.bytes_per_s);
        row.device_to_host_bytes_per_s_ci_lo = Some(copy.bytes_per_s_ci_lo);
        row.device_to_host_bytes_per_s_ci_hi = Some(copy.bytes_per_s_ci_hi);
    }
    fill_all_reduce(row, calibration, cell);
    fill_spin(row, calibration, members);
    let is_total = |found: &&schema::calibration::RestartRow| {
        found.part == Switch::Total && found.job == cell.job && found.devices == cell.devices
    };
    if let Some(restart) = calibration.restart.iter().find(is_total) {
        row.restart_ns = Some(restart.ns);
        row.restart_ns_ci_lo = Some(restart.ns_ci_lo);
        row.restart_ns_ci_hi = Some(restart.ns_ci_hi);
    }
}

/// The largest copies in a direction: those that are not mostly latency.
fn copy<'a>(calibration: &'a Calibration, cell: &Cell, direction: Direction) -> Option<&'a CopyRow> {
    let is_it =
        |found: &&CopyRow| Some(&found.device) == cell.devices.first() && found.direction == direction;
    calibration.copy.iter().filter(is_it).max_by_key(|found| found.bytes)
}

/// Those between the devices of the ranks, one each, over the libraries that the run used where it named one.
fn fill_all_reduce(row: &mut ExportRow, calibration: &Calibration, cell: &Cell) {
    let collectives = row.collectives;
    let found = || {
        calibration.all_reduce.iter().filter(|found| {
            found.devices == cell.devices && collectives.is_none_or(|named| found.collectives == named)
        })
    };
    if let Some(smallest) = found().min_by_key(|found| found.bytes) {
        row.all_reduce_latency_ns = Some(smallest.time_ns);
        row.all_reduce_latency_ns_ci_lo = Some(smallest.time_ns_ci_lo);
        row.all_reduce_latency_ns_ci_hi = Some(smallest.time_ns_ci_hi);
    }
    if let Some(largest) = found().max_by_key(|found| found.bytes) {
        row.all_reduce_bus_bytes_per_s = Some(largest.bus_bytes_per_s);
        row.all_reduce_bus_bytes_per_s_ci_lo = Some(largest.bus_bytes_per_s_ci_lo);
        row.all_reduce_bus_bytes_per_s_ci_hi = Some(largest.bus_bytes_per_s_ci_hi);
    }
}

fn fill_spin(row: &mut ExportRow, calibration: &Calibration, members: &Members) {
    let (own, others): (Vec<&Device>, Vec<&Device>) = (
        members.own().devices.iter().collect(),
        members.co_runners().flat_map(|cell| &cell.devices).collect(),
    );
    let between = calibration.spin.iter().filter(|found| {
        let [one, other] = [&found.devices[0], &found.devices[1]];
        (own.contains(&one) && others.contains(&other)) || (own.contains(&other) && others.contains(&one))
    });
    if let Some(worst) = between.max_by(|a, b| a.ratio.total_cmp(&b.ratio)) {
        row.spin_ratio = Some(worst.ratio);
        row.spin_ratio_ci_lo = Some(worst.ratio_ci_lo);
        row.spin_ratio_ci_hi = Some(worst.ratio_ci_hi);
    }
}
