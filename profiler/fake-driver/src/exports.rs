//! The exported functions. Each has the name, the arguments and the meaning of its namesake in NVIDIA's
//! `nvml.h`, which documents the contract.
#![expect(non_upper_case_globals, reason = "the names are NVIDIA's")]

use std::{
    ffi::{CString, c_char, c_int, c_uint},
    ptr,
};

use nvml_wrapper_sys::bindings::{field_id::*, *};

use crate::machine::{HANGS, Machine, machine};

pub(crate) const SUCCESS: nvmlReturn_t = nvmlReturn_enum_NVML_SUCCESS;
pub(crate) const INVALID: nvmlReturn_t = nvmlReturn_enum_NVML_ERROR_INVALID_ARGUMENT;
pub(crate) const NOT_SUPPORTED: nvmlReturn_t = nvmlReturn_enum_NVML_ERROR_NOT_SUPPORTED;

/// A device handle is its index plus one, so that none of them is null.
fn handle_of(index: usize) -> nvmlDevice_t {
    ptr::without_provenance_mut(index + 1)
}

pub(crate) fn index_of(device: nvmlDevice_t) -> usize {
    (device as usize).wrapping_sub(1)
}

/// Runs a function's body on the machine, which exists only between init and shutdown.
pub(crate) fn on_machine(body: impl FnOnce(&mut Machine) -> Result<(), nvmlReturn_t>) -> nvmlReturn_t {
    let code = match machine().as_mut() {
        None => nvmlReturn_enum_NVML_ERROR_UNINITIALIZED,
        Some(machine) => body(machine).err().unwrap_or(SUCCESS),
    };
    // Calls of other threads continue.
    if code == HANGS {
        loop {
            std::thread::park();
        }
    }
    code
}

/// Answers one number of a device.
fn number<T: TryFrom<i64>>(device: nvmlDevice_t, metric: &str, out: *mut T) -> nvmlReturn_t {
    on_machine(|machine| {
        let (value, _) = machine.answer(index_of(device), metric)?;
        let value = T::try_from(value).map_err(|_| nvmlReturn_enum_NVML_ERROR_UNKNOWN)?;
        // SAFETY: the caller of every exported function hands in a valid place for the answer.
        unsafe { out.write(value) };
        Ok(())
    })
}

/// Answers a text, if it fits.
fn text(value: &str, out: *mut c_char, length: c_uint) -> Result<(), nvmlReturn_t> {
    let value = CString::new(value).map_err(|_| nvmlReturn_enum_NVML_ERROR_UNKNOWN)?;
    let bytes = value.as_bytes_with_nul();
    if bytes.len() > length as usize {
        return Err(nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE);
    }
    // SAFETY: the caller's buffer holds `length` bytes, and the text is not longer.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr().cast(), out, bytes.len()) };
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> nvmlReturn_t {
    match Machine::load() {
        Ok(loaded) => {
            *machine() = Some(loaded);
            SUCCESS
        }
        Err(reason) => {
            eprintln!("fake nvml: {reason}");
            nvmlReturn_enum_NVML_ERROR_UNKNOWN
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> nvmlReturn_t {
    machine().take().map_or(nvmlReturn_enum_NVML_ERROR_UNINITIALIZED, |_| SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlErrorString(_: nvmlReturn_t) -> *const c_char {
    c"an error of the scripted library".as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) -> nvmlReturn_t {
    on_machine(|machine| text(&machine.driver, version, length))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCount_v2(count: *mut c_uint) -> nvmlReturn_t {
    on_machine(|machine| {
        // SAFETY: as in `number`.
        unsafe { count.write(machine.devices.len() as c_uint) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, device: *mut nvmlDevice_t) -> nvmlReturn_t {
    on_machine(|machine| {
        machine.devices.get(index as usize).ok_or(INVALID)?;
        // SAFETY: as in `number`.
        unsafe { device.write(handle_of(index as usize)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetName(device: nvmlDevice_t, name: *mut c_char, length: c_uint) -> nvmlReturn_t {
    on_machine(|machine| {
        let device = machine.devices.get(index_of(device)).ok_or(INVALID)?;
        text(&device.script.name, name, length)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUUID(device: nvmlDevice_t, uuid: *mut c_char, length: c_uint) -> nvmlReturn_t {
    on_machine(|machine| {
        let device = machine.devices.get(index_of(device)).ok_or(INVALID)?;
        match device.script.uuid.as_str() {
            "" => Err(NOT_SUPPORTED),
            told => text(told, uuid, length),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCudaComputeCapability(
    device: nvmlDevice_t,
    major: *mut c_int,
    minor: *mut c_int,
) -> nvmlReturn_t {
    on_machine(|machine| {
        let device = machine.devices.get(index_of(device)).ok_or(INVALID)?;
        let [a, b] = device.script.compute_capability;
        // SAFETY: as in `number`.
        unsafe {
            major.write(a);
            minor.write(b);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: nvmlDevice_t, out: *mut nvmlMemory_v2_t) -> nvmlReturn_t {
    on_machine(|machine| {
        let (used, _) = machine.answer(index_of(device), "memory_used_bytes")?;
        let script = &machine.devices[index_of(device)].script;
        let (total, reserved, used) = (script.memory_bytes, script.reserved_bytes, used as u64);
        let free = total.saturating_sub(reserved + used);
        // SAFETY: as in `number`; the caller has set the version, which is kept.
        unsafe {
            let version = (*out).version;
            out.write(nvmlMemory_v2_t { version, total, reserved, free, used });
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUtilizationRates(
    device: nvmlDevice_t,
    out: *mut nvmlUtilization_t,
) -> nvmlReturn_t {
    on_machine(|machine| {
        let (gpu, _) = machine.answer(index_of(device), "util_percent")?;
        // SAFETY: as in `number`.
        unsafe { out.write(nvmlUtilization_t { gpu: gpu as c_uint, memory: 0 }) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetClockInfo(
    device: nvmlDevice_t,
    clock: nvmlClockType_t,
    out: *mut c_uint,
) -> nvmlReturn_t {
    match clock {
        nvmlClockType_enum_NVML_CLOCK_SM => number(device, "sm_clock_mhz", out),
        nvmlClockType_enum_NVML_CLOCK_MEM => number(device, "memory_clock_mhz", out),
        _ => NOT_SUPPORTED,
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerUsage(device: nvmlDevice_t, out: *mut c_uint) -> nvmlReturn_t {
    number(device, "power_average_mw", out)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTemperature(
    device: nvmlDevice_t,
    _: nvmlTemperatureSensors_t,
    out: *mut c_uint,
) -> nvmlReturn_t {
    number(device, "temperature_c", out)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxPcieLinkGeneration(device: nvmlDevice_t, out: *mut c_uint) -> nvmlReturn_t {
    number(device, "pcie_generation", out)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxPcieLinkWidth(device: nvmlDevice_t, out: *mut c_uint) -> nvmlReturn_t {
    number(device, "pcie_width", out)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrPcieLinkGeneration(device: nvmlDevice_t, out: *mut c_uint) -> nvmlReturn_t {
    number(device, "pcie_link_generation", out)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrPcieLinkWidth(device: nvmlDevice_t, out: *mut c_uint) -> nvmlReturn_t {
    number(device, "pcie_link_width", out)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPcieReplayCounter(device: nvmlDevice_t, out: *mut c_uint) -> nvmlReturn_t {
    number(device, "pcie_replays", out)
}

/// Answers the present value of a setting and the value after the next start; the script has one value for
/// both.
fn setting(device: nvmlDevice_t, metric: &str, now: *mut c_uint, later: *mut c_uint) -> nvmlReturn_t {
    on_machine(|machine| {
        let (value, _) = machine.answer(index_of(device), metric)?;
        // SAFETY: as in `number`, for both places.
        unsafe {
            now.write(value as c_uint);
            later.write(value as c_uint);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMigMode(
    device: nvmlDevice_t,
    now: *mut c_uint,
    later: *mut c_uint,
) -> nvmlReturn_t {
    setting(device, "mig", now, later)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetEccMode(
    device: nvmlDevice_t,
    now: *mut nvmlEnableState_t,
    later: *mut nvmlEnableState_t,
) -> nvmlReturn_t {
    setting(device, "ecc", now, later)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeMode(device: nvmlDevice_t, out: *mut nvmlComputeMode_t) -> nvmlReturn_t {
    number(device, "compute_mode", out)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPersistenceMode(
    device: nvmlDevice_t,
    out: *mut nvmlEnableState_t,
) -> nvmlReturn_t {
    number(device, "persistence", out)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetNumaNodeId(device: nvmlDevice_t, out: *mut c_uint) -> nvmlReturn_t {
    number(device, "numa_node", out)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTopologyCommonAncestor(
    _: nvmlDevice_t,
    _: nvmlDevice_t,
    out: *mut nvmlGpuTopologyLevel_t,
) -> nvmlReturn_t {
    // SAFETY: as in `number`.
    unsafe { out.write(nvmlGpuLevel_enum_NVML_TOPOLOGY_NODE) };
    SUCCESS
}

/// The metric behind a field, in the numbering of drivers from 580.82 on or of older ones.
fn metric_of_field(field: u32, scope: u32, renumbered: bool) -> Option<&'static str> {
    // Links are requested one by one or, with all bits set, together. The script has only the sum.
    let together = scope == u32::MAX;
    let cause = if renumbered { field.checked_sub(18) } else { Some(field) };
    match field {
        NVML_FI_DEV_PCIE_COUNT_TX_BYTES => Some("pcie_tx_bytes"),
        NVML_FI_DEV_PCIE_COUNT_RX_BYTES => Some("pcie_rx_bytes"),
        NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX if together => Some("nvlink_tx_kib"),
        NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX if together => Some("nvlink_rx_kib"),
        NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION => Some("energy_mj"),
        NVML_FI_DEV_POWER_INSTANT => Some("power_mw"),
        NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP => Some("throttle_power_cap_ns"),
        NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST => Some("throttle_sync_boost_ns"),
        _ => match cause? {
            NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN => Some("throttle_software_thermal_ns"),
            NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN => Some("throttle_hardware_thermal_ns"),
            NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN => Some("throttle_power_brake_ns"),
            _ => None,
        },
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetFieldValues(
    device: nvmlDevice_t,
    count: c_int,
    values: *mut nvmlFieldValue_t,
) -> nvmlReturn_t {
    on_machine(|machine| {
        let mut version = machine.driver.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
        let renumbered = (version.next(), version.next()) >= (Some(580), Some(82));
        // SAFETY: the caller's array holds `count` fields.
        let values = unsafe { std::slice::from_raw_parts_mut(values, count as usize) };
        for value in values {
            let metric = metric_of_field(value.fieldId, value.scopeId, renumbered);
            let answer = metric.ok_or(NOT_SUPPORTED).and_then(|m| machine.answer(index_of(device), m));
            // As on a real card, a device that is gone fails the call and not the single field.
            if answer.as_ref().is_err_and(|&e| e == nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST) {
                return Err(nvmlReturn_enum_NVML_ERROR_GPU_IS_LOST);
            }
            value.nvmlReturn = answer.as_ref().err().copied().unwrap_or(SUCCESS);
            if let Ok((number, reading)) = answer {
                value.valueType = match reading.bits {
                    Some(32) => nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT,
                    _ => nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
                };
                value.value.ullVal = number as u64;
                value.latencyUsec = reading.latency_us;
            }
        }
        Ok(())
    })
}
