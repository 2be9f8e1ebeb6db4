//! Raw samples: `devices.csv`, one row per device and tick, and `host.csv`, one per rank and tick.
//!
//! Counters are cumulative from the start of the sampler with wraps already undone, so that a
//! window is a difference of two rows. One that falls from a row to the next was reset with its
//! device, and no difference across that is a growth. PCIe bytes of the fast tier come from a counter
//! of 32 bits: between rows more than 70 ms apart it may have wrapped more often than was undone. Every tick is a row even if equal to the last, and a read
//! that failed is a row with `err`: a steady device and a dead one must not look alike.

use serde::{Deserialize, Serialize};

use super::labels::words;
use crate::units::Nanos;

words! {
    /// How often a reading is taken; a row holds the readings of its tier and leaves the others empty.
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
    /// When the reading began, and when it was complete.
    pub mono_ns: Nanos,
    pub end_mono_ns: Nanos,
    pub device: String,
    pub tier: Tier,
    /// Share of time in which any kernel ran (GPU).
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
    /// Time spent below the wanted clock, all causes added up, but never more than the time that passed.
    pub throttle_ns: Option<u64>,
    /// The PCIe link as it is now: it falls back to a lower generation while the device rests.
    pub pcie_link_generation: Option<u64>,
    pub pcie_link_width: Option<u64>,
    /// Packets that had to be sent again.
    pub pcie_replays: Option<u64>,
    /// Time all cores of the set were busy, added up over cores (CPU).
    pub busy_ns: Option<u64>,
    /// Time the hypervisor gave to others while a core of the set wanted to run.
    pub steal_ns: Option<u64>,
    /// Processes of no launch of ours that use the device (GPU), as its driver listed them in the second before.
    pub foreign_processes: Option<u64>,
    pub err: Option<String>,
}

/// One reading of the processes of one rank, children included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostSample {
    pub mono_ns: Nanos,
    pub end_mono_ns: Nanos,
    pub launch: String,
    pub rank: u32,
    pub processes: Option<u64>,
    pub cpu_ns: Option<u64>,
    /// Time its threads were ready to run and had no core.
    pub run_queue_wait_ns: Option<u64>,
    pub rss_bytes: Option<u64>,
    /// Bytes that went through read and write calls.
    pub read_bytes: Option<u64>,
    pub write_bytes: Option<u64>,
    /// Device memory held by its processes, as the driver sees it: context and caches included.
    pub device_memory_bytes: Option<u64>,
    /// Share of the time since the last such reading in which its kernels ran, as the driver
    /// attributes it. Says nothing of how much of the device they filled.
    pub device_util_percent: Option<f64>,
    pub err: Option<String>,
}
