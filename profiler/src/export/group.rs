//! Columns about the co-runners of a job, and the interference between them.

use anyhow::Context as _;
use jobs::cells;
use record::{
    manifest::{Cell, Manifest},
    rows::{ExportRow, Interference, Measurement, Status, split_key},
};
use schema::{
    device::Device,
    sharing::{Quantum, Sharing},
    spec::LaunchSpec,
};

use super::{Source, Subject, alone::Alone};
use crate::derive::whole;

/// The cells of a group, including that of this row; a single cell for a job alone.
pub(super) struct Members<'a> {
    all: Vec<&'a Cell>,
    seat: usize,
}

impl<'a> Members<'a> {
    /// # Errors
    /// The row is of a cell or a group that the manifest does not name.
    pub(super) fn of(
        manifest: &'a Manifest,
        row: &Measurement,
        spec: Option<&LaunchSpec>,
    ) -> anyhow::Result<Members<'a>> {
        let cell = |name: &str| {
            let found = manifest.cells.iter().find(|cell| cell.name == name);
            found.with_context(|| format!("manifest.toml has no cell '{name}'"))
        };
        let is_of_row = |cell: &&Cell| cell.job == row.job && cells::joined(&cell.devices) == row.device;
        let Some(name) = &row.group else {
            let own = match spec {
                Some(spec) => cell(&spec.cell)?,
                None => manifest.cells.iter().find(is_of_row).context("manifest.toml has no such cell")?,
            };
            return Ok(Members { all: vec![own], seat: 0 });
        };
        let group = manifest.groups.iter().find(|group| group.name == *name && group.sharing == row.sharing);
        let group =
            group.with_context(|| format!("manifest.toml has no group '{name}' under {}", row.sharing))?;
        let all = group.members.iter().map(|name| cell(name)).collect::<anyhow::Result<Vec<_>>>()?;
        let seat = match row.seat {
            Some(seat) => Some(seat as usize).filter(|seat| *seat < all.len()),
            None => all.iter().position(is_of_row),
        };
        let seat = seat.with_context(|| format!("group '{name}' has no such member"))?;
        Ok(Members { all, seat })
    }

    pub(super) fn own(&self) -> &'a Cell {
        self.all[self.seat]
    }

    pub(super) fn seat(&self) -> usize {
        self.seat
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// All members except its own, in the order of their seats.
    pub(super) fn co_runners(&self) -> impl Iterator<Item = &'a Cell> {
        let others = self.all.iter().enumerate().filter(|(seat, _)| *seat != self.seat);
        others.map(|(_, cell)| *cell)
    }

    pub(super) fn split_key(&self) -> u32 {
        split_key(self.all.iter().map(|cell| cell.workload.as_str()))
    }
}

pub(super) fn fill(row: &mut ExportRow, source: &Source, subject: &Subject) {
    let members = &subject.members;
    row.split_key = members.split_key();
    row.group_size = members.len() as u32;
    fill_sharing(row, members);
    if row.group.is_none() {
        row.valid = row.status == Status::Ok && row.warnings.leave_valid();
        return;
    }
    let own = members.own();
    let joined = |name: fn(&Cell) -> &str| Some(members.co_runners().map(name).collect::<Vec<_>>().join(";"));
    row.co_runners = joined(|cell| &cell.name);
    row.co_runner_workloads = joined(|cell| &cell.workload);
    let shares = |cell: &&Cell| cell.devices.iter().any(|device| overlaps(device, &own.devices));
    row.co_runners_on_device = Some(members.co_runners().filter(shares).count() as u32);

    let of = |cell: &Cell| Alone::of(&source.measurements, cell);
    let alone = of(own);
    row.step_ns_alone = alone.step_ns_beside(subject.measurement).map(whole);
    row.slowdown_in_block = alone.slowdown_of(subject.measurement);
    row.alone_device_util_percent = alone.mean(|row| row.device_util_percent_mean);
    row.alone_sm_util_percent = alone.mean(|row| row.sm_util_percent);
    row.alone_dram_util_percent = alone.mean(|row| row.dram_util_percent);
    row.alone_peak_memory_bytes = alone.peak_memory_bytes();

    let others: Vec<Alone> = members.co_runners().map(of).collect();
    let sum = |value: fn(&Measurement) -> Option<f64>| -> Option<f64> {
        others.iter().map(|other| other.mean(value)).sum()
    };
    row.co_runners_alone_device_util_percent = sum(|row| row.device_util_percent_mean);
    row.co_runners_alone_sm_util_percent = sum(|row| row.sm_util_percent);
    row.co_runners_alone_dram_util_percent = sum(|row| row.dram_util_percent);
    row.co_runners_alone_peak_memory_bytes = others.iter().map(Alone::peak_memory_bytes).sum();
    if let Some(found) = source.interference.iter().find(|found| is_of(found, row, members.seat())) {
        fill_interference(row, found);
    }
}

fn fill_sharing(row: &mut ExportRow, members: &Members) {
    let mode = row.sharing.to_string();
    row.sharing_mode = mode.split(':').next().unwrap_or_default().into();
    match &row.sharing {
        Sharing::StepGate { quantum: Quantum::Steps(steps), .. } => {
            row.quantum_steps = Some(u64::from(*steps))
        }
        Sharing::StepGate { quantum: Quantum::Time(time), .. } | Sharing::TimeSlice { slice: Some(time) } => {
            row.quantum_ns = Some(time.as_nanos() as u64)
        }
        Sharing::Mps { threads, memory_mib } => {
            row.thread_limit_percent = threads.get(members.seat()).map(u32::from);
            row.memory_limit_bytes = memory_mib.get(members.seat()).map(|mib| u64::from(mib) << 20);
        }
        _ => {}
    }
    row.weight_share = row.sharing.weights().map(|weights| {
        let all: u32 = (0..members.len()).map(|seat| weights.of(seat)).sum();
        f64::from(weights.of(members.seat())) / f64::from(all)
    });
}

/// Whether a device is one of these, or shares a core with one of them.
fn overlaps(device: &Device, others: &[Device]) -> bool {
    others.iter().any(|other| match (device, other) {
        (Device::Cpu(some), Device::Cpu(more)) => some.iter().any(|core| more.contains(core)),
        _ => device == other,
    })
}

fn is_of(found: &Interference, row: &ExportRow, seat: usize) -> bool {
    row.group.as_ref() == Some(&found.group) && row.sharing == found.sharing && found.seat as usize == seat
}

fn fill_interference(row: &mut ExportRow, found: &Interference) {
    row.blocks = Some(found.blocks);
    row.blocks_failed = Some(found.blocks_failed);
    row.slowdown = found.slowdown;
    row.slowdown_ci_lo = found.slowdown_ci_lo;
    row.slowdown_ci_hi = found.slowdown_ci_hi;
    row.slowdown_p99 = found.slowdown_p99;
    row.slowdown_p99_ci_lo = found.slowdown_p99_ci_lo;
    row.slowdown_p99_ci_hi = found.slowdown_p99_ci_hi;
    row.group_norm_throughput = found.group_norm_throughput;
    row.group_norm_throughput_ci_lo = found.group_norm_throughput_ci_lo;
    row.group_norm_throughput_ci_hi = found.group_norm_throughput_ci_hi;
    row.group_memory_bytes = found.group_memory_bytes;
    row.valid = found.valid;
}
