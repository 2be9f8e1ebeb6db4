//! Raw samples: `devices.csv`, one row per device and tick, and `host.csv`, one per rank and tick.
//!
//! Counters are cumulative from the start of the sampler, with wraps undone, so that the growth in a window
//! is a difference of two rows. A counter that falls between two rows was reset with its device, and no
//! difference across that row is valid. PCIe bytes of the fast tier come from a 32-bit counter, which may
//! have wrapped unnoticed between rows more than 70 ms apart. Every tick is a row even if equal to the
//! last, and a failed read is a row with `err`, so that a steady device and a dead one look different.

use schema::units::Nanos;
use schema::words;
use serde::{Deserialize, Serialize};

words! {
    /// The rate of a reading. A row holds the readings of its tier and leaves the others empty.
    Tier {
        Fast = "fast",
        /// NVIDIA's GPU performance monitoring, which is invalid in windows below 100 ms.
        Gpm = "gpm",
        Slow = "slow",
    }
}

/// One reading of one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceSample {
    /// Begin and end of the reading.
    pub mono_ns: Nanos,
    pub end_mono_ns: Nanos,
    pub device: String,
    pub tier: Tier,
    /// Share of time in which a kernel ran (GPU).
    pub util_percent: Option<f64>,
    pub memory_used_bytes: Option<u64>,
    pub sm_util_percent: Option<f64>,
    pub sm_occupancy_percent: Option<f64>,
    pub tensor_util_percent: Option<f64>,
    pub dram_util_percent: Option<f64>,
    pub pcie_rx_bytes: Option<u64>,
    pub pcie_tx_bytes: Option<u64>,
    pub nvlink_rx_bytes: Option<u64>,
    pub nvlink_tx_bytes: Option<u64>,
    pub energy_mj: Option<u64>,
    pub power_mw: Option<u64>,
    pub sm_clock_mhz: Option<u64>,
    pub memory_clock_mhz: Option<u64>,
    pub temperature_c: Option<u64>,
    /// Time below the requested clock, summed over all causes, but never more than the elapsed time.
    pub throttle_ns: Option<u64>,
    /// The present PCIe link, which falls back to a lower generation while the device is idle.
    pub pcie_link_generation: Option<u64>,
    pub pcie_link_width: Option<u64>,
    /// Number of packets that were sent again.
    pub pcie_replays: Option<u64>,
    /// Busy time of the cores of the set, summed over cores (CPU).
    pub busy_ns: Option<u64>,
    /// Time that the hypervisor gave to others while a core of the set was ready to run.
    pub steal_ns: Option<u64>,
    /// Processes of no launch of the harness that use the device (GPU), as its driver listed them in the
    /// second before.
    pub foreign_processes: Option<u64>,
    pub err: Option<String>,
}

/// One reading of the processes of one rank, including children. If some of them could not be read although they ran, the sums
/// are empty, and `err` says why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostSample {
    pub mono_ns: Nanos,
    pub end_mono_ns: Nanos,
    pub launch: String,
    pub rank: u32,
    pub processes: Option<u64>,
    pub cpu_ns: Option<u64>,
    /// Time that its threads were ready to run without a core.
    pub run_queue_wait_ns: Option<u64>,
    /// Resident memory. A page that several processes share counts once, or in each of them where the kernel
    /// does not tell which they share.
    pub rss_bytes: Option<u64>,
    /// Bytes that went through read and write calls.
    pub read_bytes: Option<u64>,
    pub write_bytes: Option<u64>,
    /// Number of periods since the first reading in which a CPU quota of its cgroup, or of one above, stopped
    /// processes. Empty without cgroups.
    #[serde(default)]
    pub throttled_periods: Option<u64>,
    /// Device memory of its processes as the driver reports it, including context and caches.
    pub device_memory_bytes: Option<u64>,
    /// Share of the time since the last such reading in which its kernels ran, as the driver attributes it.
    /// It does not tell how much of the device they occupied.
    pub device_util_percent: Option<f64>,
    pub err: Option<String>,
}
