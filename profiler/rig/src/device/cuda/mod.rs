//! The CUDA driver library, opened at run time: facts of a chip, and copies over the link.
//!
//! A query of facts creates no context, which would take hundreds of megabytes of the device and list the harness among the
//! processes that use it. Only [`Link`] creates a context, and removes it when dropped. Facts are queried when a GPU is opened,
//! which is before any launch. A launch starts separate programs, which share nothing of the driver's state here.
#![expect(unsafe_code, reason = "the bindings mark as unsafe what takes a device that must have been listed")]

mod link;

use std::{collections::BTreeMap, sync::OnceLock};

use cudarc::driver::{
    DriverError, result,
    sys::{self, CUdevice_attribute as Attribute},
};

pub use link::{Copying, Link};

/// The facts of a chip with their names in the manifest, and the divisor of the driver's number, which has clocks in kHz.
const CHIP: [(&str, Attribute, i32); 9] = [
    ("multiprocessors", Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1),
    ("l2_cache_bytes", Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1),
    ("memory_bus_bits", Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 1),
    ("clock_mhz_max", Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000),
    ("memory_clock_mhz_max", Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000),
    (
        "shared_memory_per_multiprocessor_bytes",
        Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
        1,
    ),
    ("registers_per_multiprocessor", Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 1),
    ("warp_size", Attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE, 1),
    ("async_engines", Attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 1),
];

/// A call of a function that the driver's library lacks panics, so its version is asked first. These
/// are the versions, as the driver writes them, in which the youngest function used here appeared:
/// `cuDeviceGetUuid_v2` for facts, `cuEventElapsedTime_v2` for copies.
const FACTS_SINCE: i32 = 11_040;
const COPIES_SINCE: i32 = 12_080;

/// The reason that the driver library does not answer.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    #[error(
        "no CUDA driver library: libcuda.so.1 is not where the loader looks; add its folder to LD_LIBRARY_PATH"
    )]
    NoLibrary,
    #[error("the driver is of CUDA {}, and CUDA {} at least is needed; update the driver", dotted(*.found), dotted(*.needed))]
    TooOld { found: i32, needed: i32 },
    #[error("the CUDA driver lists no device {uuid}; CUDA_VISIBLE_DEVICES or MIG may hide it")]
    NoSuchDevice { uuid: String },
    #[error("{call}: {reason}")]
    Driver { call: &'static str, reason: String },
}

/// The newest CUDA that the driver can run, as in `13.0`.
pub fn version() -> Result<String, CudaError> {
    Ok(dotted(version_number()?))
}

/// The facts of the device with this name (`GPU-...`), as integers with the unit in the key. Unknown values are left out, and
/// so are zeros, because no chip has none of these.
pub fn chip(uuid: &str) -> Result<BTreeMap<String, u64>, CudaError> {
    let (_, device) = find(uuid, FACTS_SINCE)?;
    let facts = CHIP.iter().filter_map(|&(name, attribute, divisor)| {
        // SAFETY: the device was listed by the driver just now.
        let value = unsafe { result::device::get_attribute(device, attribute) }.ok()?;
        let value = u64::try_from(value / divisor).ok().filter(|&value| value > 0)?;
        Some((name.to_string(), value))
    });
    Ok(facts.collect())
}

/// The device with this name, and its number. Numbers of CUDA and of NVML differ with
/// `CUDA_DEVICE_ORDER` and `CUDA_VISIBLE_DEVICES`; names do not.
fn find(uuid: &str, needed: i32) -> Result<(usize, sys::CUdevice), CudaError> {
    let found = version_number()?;
    if found < needed {
        return Err(CudaError::TooOld { found, needed });
    }
    result::init().map_err(failed("cuInit"))?;
    let count = result::device::get_count().map_err(failed("cuDeviceGetCount"))?;
    for number in 0..count {
        let device = result::device::get(number).map_err(failed("cuDeviceGet"))?;
        if result::device::get_uuid(device).is_ok_and(|listed| name(&listed) == uuid) {
            return Ok((number as usize, device));
        }
    }
    Err(CudaError::NoSuchDevice { uuid: uuid.into() })
}

fn version_number() -> Result<i32, CudaError> {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    // SAFETY: the library that is loaded is the driver's, which any CUDA program loads.
    if !PRESENT.get_or_init(|| unsafe { sys::is_culib_present() }) {
        return Err(CudaError::NoLibrary);
    }
    let mut version = 0;
    // SAFETY: the driver writes one number to the place given; every driver has this function.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().map_err(failed("cuDriverGetVersion"))?;
    Ok(version)
}

fn dotted(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// As NVML writes it: `GPU-` and the 16 bytes in groups of 4, 2, 2, 2 and 6.
fn name(uuid: &sys::CUuuid) -> String {
    let mut text = String::from("GPU-");
    for (i, byte) in uuid.bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&i) {
            text.push('-');
        }
        text.push_str(&format!("{:02x}", *byte as u8));
    }
    text
}

/// Turns a failure of the driver into an error that names the call.
fn failed(call: &'static str) -> impl FnOnce(DriverError) -> CudaError {
    move |error| {
        let text = error
            .error_string()
            .map_or_else(|_| format!("{:?}", error.0), |text| text.to_string_lossy().into());
        CudaError::Driver { call, reason: text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_names_are_written_as_people_know_them() {
        assert_eq!((dotted(13_000), dotted(12_080)), ("13.0".into(), "12.8".into()));
        let bytes = std::array::from_fn(|i| (i as i32 * 0x11 - 0x80) as std::ffi::c_char);
        assert_eq!(name(&sys::CUuuid { bytes }), "GPU-8091a2b3-c4d5-e6f7-0819-2a3b4c5d6e7f");
    }

    #[test]
    fn without_a_driver_there_are_no_facts_and_no_panic() {
        if version().is_ok() {
            return;
        }
        let error = chip("GPU-00000000-0000-0000-0000-000000000000").unwrap_err().to_string();
        assert!(error.starts_with("no CUDA driver library: "), "{error}");
    }
}
