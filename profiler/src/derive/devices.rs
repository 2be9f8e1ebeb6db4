//! What devices showed in the windows that count.

use schema::rows::{DeviceSample, HostSample, Measurement};

use super::{launch::sum_of_all, rounded};
use crate::window::{Window, growth_in, mean};

/// What the job's devices showed: counters add up over them, gauges are their mean. What one of them
/// cannot tell is not known of the job.
pub(super) fn fill(row: &mut Measurement, devices: &[Vec<&DeviceSample>], windows: &[Window]) {
    let counter = |value: fn(&DeviceSample) -> Option<u64>| {
        let grown = |rows: &Vec<&DeviceSample>| {
            growth_in(rows.iter().filter_map(|row| Some((row.mono_ns, value(row)?))), windows)
        };
        sum_of_all(devices.iter().map(grown))
    };
    row.pcie_rx_bytes = counter(|row| row.pcie_rx_bytes);
    row.pcie_tx_bytes = counter(|row| row.pcie_tx_bytes);
    row.nvlink_rx_bytes = counter(|row| row.nvlink_rx_bytes);
    row.nvlink_tx_bytes = counter(|row| row.nvlink_tx_bytes);
    row.energy_mj = counter(|row| row.energy_mj);
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

/// The share of its devices that the driver attributes to a job: ranks that share a device add up, and
/// over devices it is the mean, as of every gauge. A rank of which nothing is known is not a rank at
/// rest: then nothing is known of the job.
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

#[cfg(test)]
mod tests {
    use schema::units::Nanos;

    use super::*;

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
            device_memory_bytes: None,
            device_util_percent,
            err: None,
        }
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
