//! Devices behind one trait: a GPU read through NVML, or a set of cores read from the kernel.

mod counter;
mod cpu;
pub mod cuda;
mod nvml;
mod peak;

use std::{io, path::PathBuf, time::Duration};

use record::{
    manifest::DeviceFacts,
    rows::{DeviceSample, Tier},
};
use schema::{device::Device, units::Nanos};
use statistics::Durations;

pub use counter::WRAPS_BEYOND;
pub use cpu::{CpuReader, allowed_cores};
#[cfg(test)]
pub(crate) use nvml::library_at;
pub use nvml::{LIBRARY_ENV, NvmlReader, SHORTEST_GPM_WINDOW, driver_version, library, pci_address, uuid};

/// Begins the `err` of every row of a device that answered before and is gone.
pub const LOST: &str = "device-lost";

/// Reads one device. Opened where it is convenient, used by one thread: the sampler's.
pub trait DeviceReader: Send {
    fn device(&self) -> &Device;

    /// What the device is and what it can be asked for, found out once when it was opened.
    fn facts(&self) -> &DeviceFacts;

    /// How often a tier is worth reading; `None` where the device has nothing to say in it.
    fn period(&self, tier: Tier) -> Option<Duration>;

    /// Takes one reading. Never fails: what could not be read is empty, and `err` says why. Counters
    /// start at zero when the device is opened, and again where what they count fell, as in a reset.
    fn sample(&mut self, tier: Tier) -> DeviceSample;

    /// Gives out, once, what lists the processes that use the device; `None` where no processes are known of it.
    fn lister(&mut self) -> Option<Box<dyn ProcessLister>> {
        None
    }

    /// What the calls to the driver have cost since this was last asked for. A device that is read
    /// without a driver has no such calls.
    fn take_costs(&mut self) -> Vec<CallCost> {
        Vec::new()
    }

    /// Whether the device has stopped answering for good.
    fn is_lost(&self) -> bool;
}

/// Lists who uses one device. It is apart from what reads the device, as a driver may take long to list processes, while
/// counters wrap.
pub trait ProcessLister: Send {
    /// The processes that use the device, by the pids that the driver knows; `None` where the driver does not tell.
    fn list(&mut self) -> Option<Processes>;

    /// What failed in lists since this was last asked for.
    fn take_trouble(&mut self) -> Option<String>;

    /// As [`DeviceReader::take_costs`].
    fn take_costs(&mut self) -> Vec<CallCost>;
}

/// Who uses a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Processes {
    /// Ascending by pid.
    pub listed: Vec<ProcessUse>,
    /// A process that is not listed holds no memory; otherwise nothing is known of it.
    pub memory_is_known: bool,
    /// A process that is not listed ran no kernel; otherwise nothing is known of it.
    pub util_is_known: bool,
}

/// What a process has of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessUse {
    pub pid: u32,
    /// Its tensors, what its allocator keeps, and the context. Absent where the driver lists the
    /// process and not its memory.
    pub bytes: Option<u64>,
    /// Share of the time since the device was last asked in which its kernels ran, 0 to 100. Absent
    /// where the driver does not say whose kernels run.
    pub util_percent: Option<f64>,
}

/// What one kind of call to the driver has cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallCost {
    /// The metric that was asked for, or the call that answers for several.
    pub metric: &'static str,
    /// How often an answer was wanted, and how often there was none.
    pub calls: u64,
    pub failures: u64,
    /// How long the calls took. For a metric that one call answers together with others it is what
    /// the driver says its part took, in steps of a microsecond, and empty where the driver says
    /// nothing.
    pub took: Durations,
}

/// Why a device cannot be read. `profile` exits with 3 for all of these: the machine lacks something.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("no NVIDIA driver: {reason}; use a cpu device, or name the library in {LIBRARY_ENV}")]
    NoDriver { reason: String },
    #[error("there is no {device}: {}", found(.devices))]
    NoSuchDevice { device: Device, devices: Vec<Device> },
    #[error("core {core} of {device} is not among the cores this process may use: {}", Device::Cpu(.allowed.clone()))]
    CoreNotAllowed { device: Device, core: u16, allowed: Vec<u16> },
    #[error("{device}: {call}: {reason}")]
    Driver { device: Device, call: &'static str, reason: String },
    #[error(
        "{device}: the driver does not say its uuid, by which a job is shown this device and no other: {reason}; take \
         another device"
    )]
    Uuid { device: Device, reason: String },
    #[error(
        "{device} is split up by MIG, and its readings would be those of the whole chip: take another device, \
         or ask its owner to turn MIG off"
    )]
    Mig { device: Device },
    #[error("CUDA_VISIBLE_DEVICES: '{entry}' is neither an index nor the uuid of a whole device; unset it")]
    Visible { entry: String },
    #[error(
        "CUDA_VISIBLE_DEVICES: '{entry}' may be a device of which the driver does not say its uuid; name devices by \
         their index, or unset it"
    )]
    Unnamed { entry: String },
    #[error("{}: {cause}", file.display())]
    Io { file: PathBuf, cause: io::Error },
}

fn found(devices: &[Device]) -> String {
    match devices {
        [] => "the driver lists no device, or CUDA_VISIBLE_DEVICES hides them all".into(),
        devices => {
            let names: Vec<String> = devices.iter().map(Device::to_string).collect();
            format!("the driver lists {}", names.join(", "))
        }
    }
}

/// A row that holds nothing yet. The reader fills in what it reads and, last, when it was done.
pub fn empty_sample(device: &Device, tier: Tier, begin: Nanos) -> DeviceSample {
    DeviceSample {
        mono_ns: begin,
        end_mono_ns: begin,
        device: device.to_string(),
        tier,
        util_percent: None,
        memory_used_bytes: None,
        sm_util_percent: None,
        sm_occupancy_percent: None,
        tensor_util_percent: None,
        dram_util_percent: None,
        pcie_rx_bytes: None,
        pcie_tx_bytes: None,
        nvlink_rx_bytes: None,
        nvlink_tx_bytes: None,
        energy_mj: None,
        power_mw: None,
        sm_clock_mhz: None,
        memory_clock_mhz: None,
        temperature_c: None,
        throttle_ns: None,
        pcie_link_generation: None,
        pcie_link_width: None,
        pcie_replays: None,
        busy_ns: None,
        steal_ns: None,
        foreign_processes: None,
        err: None,
    }
}

/// Opens a device for reading. `cpu` means all allowed cores.
pub fn open(device: &Device) -> Result<Box<dyn DeviceReader>, DeviceError> {
    Ok(match device {
        Device::Cuda(index) => Box::new(NvmlReader::open(library()?, *index)?),
        Device::Cpu(cores) => Box::new(CpuReader::open(cores)?),
        Device::AllCores => Box::new(CpuReader::open(&allowed_cores()?)?),
    })
}

/// What this machine offers.
#[derive(Debug)]
pub struct Discovered {
    /// Best first: every GPU, then the set of all allowed cores.
    pub devices: Vec<Device>,
    /// Why there is no GPU among them.
    pub no_gpu: Option<DeviceError>,
}

/// Lists the devices of this machine. A machine without a driver is no error; one without cores is.
pub fn discover() -> Result<Discovered, DeviceError> {
    let cores = Device::Cpu(allowed_cores()?);
    Ok(match library().and_then(nvml::devices) {
        Ok(gpus) if gpus.is_empty() => {
            let nobody = DeviceError::NoSuchDevice { device: Device::Cuda(0), devices: gpus };
            Discovered { devices: vec![cores], no_gpu: Some(nobody) }
        }
        Ok(gpus) => Discovered { devices: gpus.into_iter().chain([cores]).collect(), no_gpu: None },
        Err(reason) => Discovered { devices: vec![cores], no_gpu: Some(reason) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_there_is_a_clear_line() {
        let error = |device: &str| open(&device.parse().unwrap()).err().unwrap().to_string();
        assert!(
            error("cpu:9999")
                .starts_with("core 9999 of cpu:9999 is not among the cores this process may use: cpu:")
        );
        if library().is_err() {
            assert!(error("cuda:0").starts_with("no NVIDIA driver: "), "{}", error("cuda:0"));
            let found = discover().unwrap();
            assert_eq!(found.devices, [Device::Cpu(allowed_cores().unwrap())]);
            assert!(found.no_gpu.is_some());
        }
    }

    #[test]
    fn all_cores_are_the_allowed_ones() {
        let reader = open(&Device::AllCores).unwrap();
        assert_eq!(*reader.device(), Device::Cpu(allowed_cores().unwrap()));
    }
}
