//! The columns of a row that come from readings of devices in its windows.

use record::rows::{DeviceSample, HostSample, Measurement, Tier};
use rig::device::WRAPS_BEYOND;
use schema::{device::Device, units::Nanos};

use super::rounded;
use crate::window::{Window, growth_in, longest_gap, mean, sum_of_all};

/// Drivers update the energy counter about ten times a second. Over a window shorter than this, the error at its ends may be a
/// tenth of the value or more.
const PERIOD_OF_ENERGY: Nanos = Nanos::SECOND;

/// A column of a device's readings.
type Value = fn(&DeviceSample) -> Option<u64>;

/// The growth of a counter of one device in the windows.
fn grown(rows: &[&DeviceSample], value: Value, own_period: Nanos, windows: &[Window]) -> Option<u64> {
    growth_in(rows.iter().filter_map(|row| Some((row.mono_ns, value(row)?))), own_period, windows)
}

/// The growth of a PCIe counter. The fast tier has a counter that wraps; on a device without it, the performance monitors give
/// rates, which do not wrap.
fn pcie_grown(rows: &[&DeviceSample], value: Value, windows: &[Window]) -> Option<u64> {
    let counted = of_wrapping(rows, value);
    match wrap_gap(&counted, windows) {
        Some(_) => None,
        None if counted.is_empty() => grown(rows, value, Nanos::ZERO, windows),
        None => grown(&counted, value, Nanos::ZERO, windows),
    }
}

/// The longest time without a reading of a device's PCIe counters, if they may have wrapped more than once in it.
pub(super) fn unread_pcie(rows: &[&DeviceSample], windows: &[Window]) -> Option<Nanos> {
    let of = |value: Value| wrap_gap(&of_wrapping(rows, value), windows);
    of(|row| row.pcie_rx_bytes).max(of(|row| row.pcie_tx_bytes))
}

/// The readings of a counter that wraps.
fn of_wrapping<'a>(rows: &[&'a DeviceSample], value: Value) -> Vec<&'a DeviceSample> {
    rows.iter().copied().filter(|row| row.tier == Tier::Fast && value(row).is_some()).collect()
}

fn wrap_gap(counted: &[&DeviceSample], windows: &[Window]) -> Option<Nanos> {
    let times = || counted.iter().map(|row| (row.mono_ns, row.end_mono_ns));
    let longest = windows.iter().map(|window| longest_gap(times(), *window)).max()?;
    (!counted.is_empty() && longest > WRAPS_BEYOND).then_some(longest)
}

/// Fills in the columns of the job's devices: counters are summed over devices, gauges are averaged. A value that one device
/// does not have is `None` for the job.
pub(super) fn fill(row: &mut Measurement, devices: &[Vec<&DeviceSample>], windows: &[Window]) {
    let counter = |value: Value, own_period| {
        sum_of_all(devices.iter().map(|rows| grown(rows, value, own_period, windows)))
    };
    let pcie = |value: Value| sum_of_all(devices.iter().map(|rows| pcie_grown(rows, value, windows)));
    row.pcie_rx_bytes = pcie(|row| row.pcie_rx_bytes);
    row.pcie_tx_bytes = pcie(|row| row.pcie_tx_bytes);
    row.nvlink_rx_bytes = counter(|row| row.nvlink_rx_bytes, Nanos::ZERO);
    row.nvlink_tx_bytes = counter(|row| row.nvlink_tx_bytes, Nanos::ZERO);
    row.energy_mj = counter(|row| row.energy_mj, PERIOD_OF_ENERGY);
    let gauge = |value: fn(&DeviceSample) -> Option<f64>| {
        let of_one = |rows: &Vec<&DeviceSample>| {
            mean(rows.iter().filter_map(|row| Some((row.mono_ns, value(row)?))), windows)
        };
        let sum: f64 = devices.iter().map(of_one).sum::<Option<f64>>()?;
        Some(rounded(sum / devices.len() as f64, 2))
    };
    row.device_util_percent_mean = gauge(|row| row.util_percent);
    row.sm_util_percent = gauge(|row| row.sm_util_percent);
    row.sm_occupancy_percent = gauge(|row| row.sm_occupancy_percent);
    row.tensor_util_percent = gauge(|row| row.tensor_util_percent);
    row.dram_util_percent = gauge(|row| row.dram_util_percent);
}

/// The share of its devices that the driver attributes to a job. Ranks that share a device are summed, and devices are
/// averaged, as for every gauge. If the value of a rank is unknown, the value of the job is unknown too: an unknown rank is not
/// an idle one.
pub(super) fn job_util_percent(
    host: &[&HostSample],
    ranks: u32,
    devices: usize,
    windows: &[Window],
) -> Option<f64> {
    let of_rank = |rank| {
        let readings = host.iter().filter(|row| row.rank == rank);
        mean(readings.filter_map(|row| Some((row.mono_ns, row.device_util_percent?))), windows)
    };
    let sum: f64 = (0..ranks).map(of_rank).sum::<Option<f64>>()?;
    (devices > 0).then(|| rounded(sum / devices as f64, 2))
}

/// The share of a job in its cores by its CPU time. `None` for GPUs, and for devices with different numbers of cores: the utilisation of
/// devices is averaged, and the CPU time of a job is not known for each of them.
pub(super) fn job_util_of_cores<'a>(
    devices: impl IntoIterator<Item = &'a Device>,
    cpu_ns: u64,
    windows: &[Window],
) -> Option<f64> {
    let counts = devices.into_iter().map(|device| match device {
        Device::Cpu(cores) => Some(cores.len()),
        _ => None,
    });
    let counts: Vec<usize> = counts.collect::<Option<_>>()?;
    let cores = counts.iter().all(|count| *count == counts[0]).then(|| counts.iter().sum::<usize>())?;
    let length_ns: u64 = windows.iter().map(|window| window.length().0).sum();
    let whole = cores as f64 * length_ns as f64;
    // Both are read at slightly different times.
    (whole > 0.0).then(|| rounded((100.0 * cpu_ns as f64 / whole).min(100.0), 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rig::device;

    const MS: u64 = 1_000_000;

    fn read(tier: Tier, at_ms: u64) -> DeviceSample {
        let (begin, end) = (Nanos(at_ms * MS), Nanos(at_ms * MS + MS));
        DeviceSample {
            end_mono_ns: end,
            ..device::empty_sample(&schema::device::Device::Cuda(0), tier, begin)
        }
    }

    /// A device whose link carries a megabyte and which takes a joule in a millisecond: read every 40 ms but for those left out,
    /// and every second in the slow tier.
    fn readings(left_out: &[u64]) -> Vec<DeviceSample> {
        let fast = (0..100).map(|i| 40 * i).filter(|at| !left_out.contains(at)).map(|at| DeviceSample {
            pcie_rx_bytes: Some(1_000_000 * at),
            pcie_tx_bytes: Some(at),
            energy_mj: Some(1_000 * at),
            ..read(Tier::Fast, at)
        });
        let slow = (0..4)
            .map(|s| DeviceSample { nvlink_rx_bytes: Some(7_000 * s), ..read(Tier::Slow, 1_000 * s + 18) });
        let mut rows: Vec<DeviceSample> = fast.chain(slow).collect();
        rows.sort_by_key(|row| row.mono_ns);
        rows
    }

    fn measured(rows: &[DeviceSample], start_ms: u64, end_ms: u64) -> Measurement {
        let window = Window { start: Nanos(start_ms * MS), end: Nanos(end_ms * MS) };
        let mut row = Measurement::default();
        fill(&mut row, &[rows.iter().collect()], &[window]);
        row
    }

    #[test]
    fn a_window_in_which_a_counter_may_have_wrapped_unseen_has_no_bytes() {
        let rows = readings(&[2_000]);
        let whole = measured(&readings(&[]), 1_000, 3_000);
        assert_eq!((whole.pcie_rx_bytes, whole.pcie_tx_bytes), (Some(2_000_000_000), Some(2_000)));
        let broken = measured(&rows, 1_000, 3_000);
        assert_eq!(
            (broken.pcie_rx_bytes, broken.pcie_tx_bytes),
            (None, None),
            "80 ms without a fast reading"
        );
        assert_eq!(
            (broken.energy_mj, broken.nvlink_rx_bytes),
            (Some(2_000_000), Some(14_000)),
            "these do not wrap"
        );
        assert_eq!(measured(&rows, 1_000, 1_960).pcie_rx_bytes, Some(960_000_000));
        assert_eq!(measured(&rows, 1_000, 1_970).pcie_rx_bytes, None, "its end lies in the gap");
        assert_eq!(measured(&rows, 2_041, 3_001).pcie_rx_bytes, Some(960_000_000));
        let windows = [Window { start: Nanos(1_000 * MS), end: Nanos(3_000 * MS) }];
        assert_eq!(unread_pcie(&rows.iter().collect::<Vec<_>>(), &windows), Some(Nanos(81 * MS)));
        assert_eq!(unread_pcie(&readings(&[]).iter().collect::<Vec<_>>(), &windows), None);
    }

    #[test]
    fn rates_that_stand_in_for_a_counter_do_not_wrap() {
        let gpm = |at: u64| DeviceSample { pcie_rx_bytes: Some(at), ..read(Tier::Gpm, at) };
        let rows: Vec<DeviceSample> = (0..20).map(|i| gpm(200 * i)).collect();
        assert_eq!(measured(&rows, 1_000, 3_000).pcie_rx_bytes, Some(2_000));
        assert_eq!(unread_pcie(&rows.iter().collect::<Vec<_>>(), &[]), None);
    }

    #[test]
    fn energy_over_less_than_a_second_is_not_known() {
        let rows = readings(&[]);
        assert_eq!(measured(&rows, 1_000, 1_999).energy_mj, None);
        assert_eq!(measured(&rows, 1_000, 2_000).energy_mj, Some(1_000_000));
    }

    fn host(rank: u32, at: u64, device_util_percent: Option<f64>) -> HostSample {
        HostSample {
            mono_ns: Nanos(at),
            end_mono_ns: Nanos(at),
            launch: "0001-x".into(),
            rank,
            processes: None,
            cpu_ns: None,
            run_queue_wait_ns: None,
            rss_bytes: None,
            read_bytes: None,
            write_bytes: None,
            throttled_periods: None,
            device_memory_bytes: None,
            device_util_percent,
            err: None,
        }
    }

    #[test]
    fn the_share_of_a_job_in_its_cores_is_its_cpu_time_over_theirs() {
        let windows = [(0, 30), (50, 80)].map(|(start, end)| Window { start: Nanos(start), end: Nanos(end) });
        let cores = |names: &str| {
            names.split(',').map(|name| name.parse().expect("a device")).collect::<Vec<Device>>()
        };
        // 45 of 60 ns on one core, and of 180 ns on three devices of a core.
        assert_eq!(job_util_of_cores(&cores("cpu:0"), 45, &windows), Some(75.0));
        assert_eq!(job_util_of_cores(&cores("cpu:0,cpu:1,cpu:2"), 45, &windows), Some(25.0));
        assert_eq!(job_util_of_cores(&cores("cpu:0"), 61, &windows), Some(100.0));
        for unknown in ["cuda:0", "cpu:0,cpu:1-2"] {
            assert_eq!(job_util_of_cores(&cores(unknown), 45, &windows), None, "{unknown}");
        }
        assert_eq!(job_util_of_cores(&cores("cpu:0"), 45, &[]), None);
    }

    #[test]
    fn the_utilisation_of_a_job_is_the_mean_over_its_devices() {
        let window = Window { start: Nanos(100), end: Nanos(200) };
        let of = |rows: &[HostSample], ranks, devices| {
            job_util_percent(&rows.iter().collect::<Vec<_>>(), ranks, devices, &[window])
        };
        // Most rows say nothing of it, and the first reading is of a time before the window.
        let mut rows = vec![host(0, 90, Some(5.0)), host(0, 120, Some(80.0)), host(0, 130, None)];
        rows.extend([host(0, 170, Some(60.0)), host(1, 150, Some(20.0))]);
        assert_eq!(of(&rows, 1, 1), Some(70.0));
        assert_eq!(of(&rows, 2, 2), Some(45.0));
        assert_eq!(of(&rows, 2, 1), Some(90.0), "two ranks of one device");
        assert_eq!(of(&rows, 3, 3), None, "of one rank nothing is known");
    }
}
