//! What is known of a machine before a fit: by the kind of its devices, and by what `profile calibrate` measured.

use anyhow::ensure;
use model::{Parts, Prior};
use record::calibration::Calibration;
use schema::device::Device;

/// What training takes of collectives that were measured by themselves.
struct InTraining {
    /// The bandwidth that it reaches, over the measured one, and the standard deviation of its logarithm.
    bandwidth: (f64, f64),
    /// The fixed part of a synchronisation of data-parallel ranks, over the time of the smallest all-reduce: gradients are reduced in
    /// several of them.
    sync: f64,
    /// The fixed part of a tensor-parallel all-reduce, by that time.
    tensor: f64,
}

/// Standard deviation of the logarithm of a latency in training.
const LATENCY: f64 = 1.0;

/// On GPUs ranks have their links to themselves. Latencies are as those of [`Parts::A800`] are to each other.
const ON_GPUS: InTraining = InTraining { bandwidth: (1.0, 0.2), sync: 5.0, tensor: 1.0 };

/// On cores ranks share the memory that they talk through with their own compute. Ten fits to workloads on two cores (`two-ranks` of
/// `reports/record/20261124-epyc-avx512` and `20261125-epyc-avx512`) have, in the geometric mean, 2.2 GB/s, 1.9 ms and 0.45 ms, and
/// `reports/record/20261125-epyc-rubick/machine.toml` has 3.2 GB/s and 0.10 ms for machines of this kind.
const ON_CORES: InTraining = InTraining { bandwidth: (0.7, 0.5), sync: 18.0, tensor: 4.5 };

/// Types of devices with the compute, the links and the network of [`Parts::A800`], or nearly.
const LIKE_A800: [&str; 2] = ["A800-SXM4", "A100-SXM4"];

/// The parts of a machine with devices of a type. Bandwidths that were measured take the place of those that are assumed.
///
/// # Errors
/// The calibration is of another kind of device.
pub fn of(is_on_cores: bool, device_type: &str, calibration: Option<&Calibration>) -> anyhow::Result<Parts> {
    let mut parts = match is_on_cores {
        true => Parts::CORES,
        false if LIKE_A800.iter().any(|name| device_type.contains(name)) => Parts::A800,
        false => Parts::GPUS,
    };
    let Some(calibration) = calibration else { return Ok(parts) };
    let kind = |is_on_cores| if is_on_cores { "cores" } else { "GPUs" };
    let has_cores = !calibration.pool.iter().any(|device| matches!(device, Device::Cuda(_)));
    ensure!(
        has_cores == is_on_cores,
        "--machine is of {}, and the rows are of {}; leave it out, or calibrate the devices of the rows",
        kind(has_cores),
        kind(is_on_cores)
    );
    let InTraining { bandwidth: (share, sd), sync, tensor } = if is_on_cores { ON_CORES } else { ON_GPUS };
    if let Some(bandwidth) = all_reduce(calibration) {
        parts.intra = Prior { mean: share * bandwidth, sd };
    }
    if let Some(latency_s) = latency_s(calibration) {
        parts.sync_latency = Prior { mean: sync * latency_s, sd: LATENCY };
        parts.tensor_latency = Prior { mean: tensor * latency_s, sd: LATENCY };
    }
    if let Some(bandwidth) = copies(calibration) {
        parts.host_link = bandwidth;
    }
    Ok(parts)
}

/// The bus bandwidth of the largest all-reduces, in GB/s: the geometric mean over groups of devices.
fn all_reduce(calibration: &Calibration) -> Option<f64> {
    let largest = calibration.all_reduce.iter().map(|row| row.bytes).max()?;
    let rows = calibration.all_reduce.iter().filter(|row| row.bytes == largest);
    geometric_mean(rows.map(|row| row.bus_bytes_per_s.value as f64 / 1e9))
}

/// The time of the smallest all-reduces, in s for each rank beside the first: the geometric mean over groups of devices.
fn latency_s(calibration: &Calibration) -> Option<f64> {
    let smallest = calibration.all_reduce.iter().map(|row| row.bytes).min()?;
    let rows = calibration.all_reduce.iter().filter(|row| row.bytes == smallest && row.devices.len() > 1);
    geometric_mean(rows.map(|row| row.time_ns.value as f64 / 1e9 / (row.devices.len() - 1) as f64))
}

/// The bandwidth of the largest copies between host and device, in GB/s: the geometric mean over devices and directions.
fn copies(calibration: &Calibration) -> Option<f64> {
    let largest = calibration.copy.iter().map(|row| row.bytes).max()?;
    let rows = calibration.copy.iter().filter(|row| row.bytes == largest);
    geometric_mean(rows.map(|row| row.bytes_per_s.value as f64 / 1e9))
}

fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = values.map(f64::ln).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn measured_bandwidths_take_the_place_of_assumed_ones() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../profiler/record/golden/machine.toml");
        let mut calibration = Calibration::read(Path::new(golden)).unwrap();
        let mut larger = calibration.all_reduce[0].clone();
        larger.bytes *= 1024;
        larger.bus_bytes_per_s.value = 4_000_000_000;
        let mut other = larger.clone();
        other.bus_bytes_per_s.value = 1_000_000_000;
        calibration.all_reduce.extend([larger, other]);
        let parts = of(true, "EPYC", Some(&calibration)).unwrap();
        // The geometric mean of 4 and 1 GB/s, and the share of it that training reaches on cores.
        assert!((parts.intra.mean - 0.7 * 2.0).abs() < 1e-12 && parts.intra.sd == 0.5, "{:?}", parts.intra);
        // The all-reduce of 1 KiB takes 0.1 ms.
        assert!((parts.sync_latency.mean - 18.0 * 1e-4).abs() < 1e-12, "{:?}", parts.sync_latency);
        assert!((parts.tensor_latency.mean - 4.5 * 1e-4).abs() < 1e-12, "{:?}", parts.tensor_latency);
        // The golden file has a copy of 1 GiB at 55 GB/s.
        assert!((parts.host_link - 55.0).abs() < 1e-9, "{}", parts.host_link);
        assert_eq!(parts.update, Parts::CORES.update);
        let error = of(false, "Tesla T4", Some(&calibration)).unwrap_err().to_string();
        assert!(error.contains("--machine is of cores, and the rows are of GPUs"), "{error}");
        assert_eq!(of(false, "NVIDIA A800-SXM4-80GB", None).unwrap(), Parts::A800);
        assert_eq!(of(false, "Tesla T4", None).unwrap(), Parts::GPUS);
    }
}
