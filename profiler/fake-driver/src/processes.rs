//! The exported functions that list the processes on a device.
#![expect(non_upper_case_globals, reason = "the names are NVIDIA's")]

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::*;

use crate::{
    exports::{INVALID, index_of, on_machine},
    script::RunningProcess,
};

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: nvmlDevice_t,
    count: *mut c_uint,
    out: *mut nvmlProcessInfo_t,
) -> nvmlReturn_t {
    running(device, "processes", count, out)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
    device: nvmlDevice_t,
    count: *mut c_uint,
    out: *mut nvmlProcessInfo_t,
) -> nvmlReturn_t {
    running(device, "mps_processes", count, out)
}

/// Lists processes, or only their number if the caller's place is too small.
fn running(
    device: nvmlDevice_t,
    metric: &str,
    count: *mut c_uint,
    out: *mut nvmlProcessInfo_t,
) -> nvmlReturn_t {
    on_machine(|machine| {
        match machine.answer(index_of(device), metric) {
            // A request for the number alone always has this code.
            Err(nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE) if out.is_null() => {}
            answer => drop(answer?),
        }
        let script = &machine.devices[index_of(device)].script;
        let list = if metric == "processes" { &script.processes } else { &script.mps_processes };
        let info = |process: &RunningProcess| nvmlProcessInfo_t {
            pid: process.pid,
            // NVML's value for "not available" has all bits set.
            usedGpuMemory: process.bytes.unwrap_or(u64::MAX),
            gpuInstanceId: u32::MAX,
            computeInstanceId: u32::MAX,
        };
        // SAFETY: the caller's place holds `count` processes, or none if the pointer is null.
        unsafe {
            let room = if out.is_null() { 0 } else { count.read() as usize };
            count.write(list.len() as c_uint);
            if room < list.len() {
                return Err(nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE);
            }
            for (i, process) in list.iter().enumerate() {
                out.add(i).write(info(process));
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetProcessUtilization(
    device: nvmlDevice_t,
    out: *mut nvmlProcessUtilizationSample_t,
    count: *mut c_uint,
    last_seen_us: c_ulonglong,
) -> nvmlReturn_t {
    on_machine(|machine| {
        // The call without a place requests the number, and belongs to the call that follows it.
        if out.is_null() {
            machine.answer(index_of(device), "process_util")?;
            machine.devices[index_of(device)].note_utilization();
        }
        let device = machine.devices.get(index_of(device)).ok_or(INVALID)?;
        let new: Vec<_> = device.noted.iter().filter(|sample| sample.timeStamp > last_seen_us).collect();
        if new.is_empty() {
            return Err(nvmlReturn_enum_NVML_ERROR_NOT_FOUND);
        }
        // SAFETY: the caller's place holds `count` samples, or none if the pointer is null.
        unsafe {
            let room = if out.is_null() { 0 } else { count.read() as usize };
            count.write(new.len() as c_uint);
            if room < new.len() {
                return Err(nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE);
            }
            for (i, sample) in new.into_iter().enumerate() {
                out.add(i).write(*sample);
            }
        }
        Ok(())
    })
}
