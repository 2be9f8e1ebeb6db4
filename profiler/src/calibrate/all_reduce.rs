//! All-reduces between the devices of the pool: their cells and their rows.

use jobs::cells::joined;
use record::{
    calibration::{AllReduceRow, Measured, NotMeasured},
    manifest::{Cell, DeviceFacts, Settings},
    rows::Summary,
};
use schema::{
    device::Device,
    sharing::Sharing,
    spec::Collectives,
    units::{HumanBytes, Nanos},
};
use statistics::Interval;

use super::{limits::NO_TIME, values::failed};
use crate::derive::whole;

/// The memory of an all-reduce on a rank, in sizes of the tensor: the tensor, its send and receive buffers, and a reserve.
const TENSORS_HELD: u64 = 4;

/// A cell for each size and each number of ranks, from two to all devices of a kind. Ranks on a GPU and on cores cannot be in
/// one process group. A size that does not fit into memory is a cell with the reason.
pub fn cells(facts: &[DeviceFacts], sizes: &[u64]) -> Vec<Cell> {
    let is_gpu = |facts: &&DeviceFacts| matches!(facts.device, Device::Cuda(_));
    let (gpus, cpus): (Vec<_>, Vec<_>) = facts.iter().partition(is_gpu);
    let mut cells = Vec::new();
    for kind in [cpus, gpus] {
        for ranks in 2..=kind.len() {
            cells.extend(sizes.iter().map(|&bytes| cell(&kind[..ranks], bytes)));
        }
    }
    cells
}

fn cell(facts: &[&DeviceFacts], bytes: u64) -> Cell {
    let devices: Vec<Device> = facts.iter().map(|facts| facts.device.clone()).collect();
    let job = format!("all-reduce-{bytes}");
    let small = facts.iter().find(|facts| facts.memory_bytes.is_some_and(|has| has < TENSORS_HELD * bytes));
    Cell {
        name: format!("{job}@on={}", joined(&devices)),
        sharing: Sharing::Alone,
        job,
        workload: "all-reduce".into(),
        command: None,
        all_reduce_bytes: Some(bytes),
        global_batch: None,
        plan: None,
        devices,
        memory_estimate_bytes: None,
        unsupported: small.map(|facts| {
            let has = HumanBytes(facts.memory_bytes.unwrap_or_default());
            format!("{} has {has}, and it takes {}", facts.device, HumanBytes(TENSORS_HELD * bytes))
        }),
        ..Cell::default()
    }
}

/// The rows of cells that were measured, and the reason for each that was not.
pub(super) fn rows(
    cells: &[Cell],
    summaries: &[Summary],
    settings: &Settings,
) -> (Vec<AllReduceRow>, Vec<NotMeasured>) {
    let (mut rows, mut unmeasured) = (Vec::new(), Vec::new());
    for cell in cells {
        let device = joined(&cell.devices);
        let summary = summaries.iter().find(|row| row.job == cell.job && row.device == device);
        match summary.and_then(|summary| row(cell, summary, settings.collectives)) {
            Some(row) => rows.push(row),
            None => unmeasured.push(match summary {
                Some(Summary { err_detail: Some(detail), .. }) => failed(&cell.name, detail),
                Some(_) => failed(&cell.name, "fewer than two repeats have a number"),
                None => failed(&cell.name, NO_TIME),
            }),
        }
    }
    (rows, unmeasured)
}

fn row(cell: &Cell, summary: &Summary, collectives: Option<Collectives>) -> Option<AllReduceRow> {
    let bytes = cell.all_reduce_bytes?;
    let [value, lo, hi] =
        [summary.step_ns_median?, summary.step_ns_median_ci_lo?, summary.step_ns_median_ci_hi?];
    let ends =
        Interval { estimate: value as f64, lo: lo as f64, hi: hi as f64, n: summary.repeats as usize }.ends();
    let ranks = cell.devices.len() as u32;
    // The longest time is the lowest bandwidth, so the ends are swapped.
    let bandwidth = |which: fn((u64, u64)) -> u64| Measured {
        value: which(bandwidths(bytes, ranks, value)),
        interval: ends.map(|_| [hi, lo].map(|ns| which(bandwidths(bytes, ranks, ns)))),
    };
    Some(AllReduceRow {
        devices: cell.devices.clone(),
        collectives: collectives.unwrap_or(match cell.devices[0] {
            Device::Cuda(_) => Collectives::Nccl,
            _ => Collectives::Gloo,
        }),
        bytes,
        time_ns: Measured { value, interval: ends.map(|_| [lo, hi]) },
        algorithm_bytes_per_s: bandwidth(|(algorithm, _)| algorithm),
        bus_bytes_per_s: bandwidth(|(_, bus)| bus),
        repeats: summary.repeats,
    })
}

/// The algorithm bandwidth and the bus bandwidth in bytes per second: see [`AllReduceRow`].
fn bandwidths(bytes: u64, ranks: u32, time_ns: u64) -> (u64, u64) {
    let algorithm = bytes as f64 / Nanos(time_ns.max(1)).as_secs_f64();
    let bus = 2.0 * f64::from(ranks - 1) / f64::from(ranks) * algorithm;
    (whole(algorithm), whole(bus))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn facts(device: &str, memory_bytes: u64) -> DeviceFacts {
        DeviceFacts {
            device: device.parse().expect("a device"),
            name: String::new(),
            memory_bytes: Some(memory_bytes),
            peak_flops: BTreeMap::new(),
            capabilities: BTreeMap::new(),
            chip: BTreeMap::new(),
            topology: BTreeMap::new(),
        }
    }

    #[test]
    fn each_number_of_ranks_of_a_kind_meets_each_size_that_its_memory_holds() {
        let pool: Vec<_> =
            ["cpu:0", "cuda:0", "cpu:1", "cuda:1", "cpu:2"].map(|device| facts(device, 1 << 20)).into();
        let cells = cells(&pool, &[1 << 10, 1 << 20]);
        let names: Vec<&str> = cells.iter().map(|cell| &cell.name[..]).collect();
        assert_eq!(
            names,
            [
                "all-reduce-1024@on=cpu:0,cpu:1",
                "all-reduce-1048576@on=cpu:0,cpu:1",
                "all-reduce-1024@on=cpu:0,cpu:1,cpu:2",
                "all-reduce-1048576@on=cpu:0,cpu:1,cpu:2",
                "all-reduce-1024@on=cuda:0,cuda:1",
                "all-reduce-1048576@on=cuda:0,cuda:1",
            ]
        );
        for (cell, fits) in cells.iter().zip([true, false].into_iter().cycle()) {
            assert_eq!(cell.unsupported.is_none(), fits, "{cell:?}");
        }
        assert_eq!(cells[1].unsupported.as_deref(), Some("cpu:0 has 1.00 MiB, and it takes 4.00 MiB"));
        assert!(
            super::cells(&pool[..2], &[1024]).is_empty(),
            "two devices of two kinds have nothing in common"
        );
    }

    #[test]
    fn bandwidths_are_those_of_the_definition() {
        let (algorithm, bus) = bandwidths(1_000_000, 4, 2_000_000);
        assert_eq!((algorithm, bus), (500_000_000, 750_000_000));
        let (algorithm, bus) = bandwidths(1_000_000, 2, 2_000_000);
        assert_eq!((algorithm, bus), (500_000_000, 500_000_000), "two ranks send each byte once");
    }
}
