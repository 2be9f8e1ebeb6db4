//! Columns about the machine and the job's first device, from the manifest.

use record::{
    manifest::{Cell, Manifest},
    rows::ExportRow,
};

pub(super) fn fill(row: &mut ExportRow, manifest: &Manifest, cell: &Cell) {
    row.started_utc = manifest.started_utc.clone();
    row.version = manifest.version.clone();
    row.git_revision = manifest.git_revision.clone();
    row.seed = manifest.seed;
    let machine = &manifest.machine;
    row.boot_id = machine.boot_id.clone();
    row.machine_cpu = machine.cpu.clone();
    row.machine_cores = machine.cores;
    row.machine_memory_bytes = machine.memory_bytes;
    row.machine_hypervisor = machine.hypervisor;
    row.machine_driver = machine.driver.clone();
    row.machine_libtorch = machine.libtorch.clone();

    let first = cell.devices.first();
    let Some(facts) = manifest.devices.iter().find(|facts| Some(&facts.device) == first) else { return };
    row.device_name = Some(facts.name.clone());
    row.device_capacity_bytes = facts.memory_bytes;
    let chip = |name: &str| facts.chip.get(name).copied();
    row.device_multiprocessors = chip("multiprocessors");
    row.device_l2_cache_bytes = chip("l2_cache_bytes");
    row.device_memory_bus_bits = chip("memory_bus_bits");
    row.device_clock_mhz = chip("clock_mhz_max");
    row.device_memory_clock_mhz = chip("memory_clock_mhz_max");
}
