//! The exported functions of `libcuda.so` that a program needs to copy page-locked memory.
//!
//! Each has the name, the arguments and the meaning of its namesake in NVIDIA's `cuda.h`. Devices are
//! numbered in the reverse order of NVML, so that a mix-up of the two numbers is detected. Host memory is
//! real; device memory consists of addresses only, without content.

mod memory;

use std::{
    cell::Cell,
    ffi::{c_char, c_int, c_uint, c_void},
    ptr,
    time::Instant,
};

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUresult, CUstream, CUuuid,
};

use crate::{
    link::Way,
    machine::{FakeDevice, Machine, machine},
    script::CudaScript,
};

const SUCCESS: CUresult = CUresult::CUDA_SUCCESS;
const INVALID: CUresult = CUresult::CUDA_ERROR_INVALID_VALUE;

thread_local! {
    /// The context of this thread: its device's index plus one, zero for none.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// The content of a `CUevent`: its time and its device.
#[derive(Default)]
struct Event {
    at: Option<(usize, Instant)>,
}

fn answer(body: impl FnOnce(&mut Machine) -> Result<(), CUresult>) -> CUresult {
    match machine().as_mut() {
        None => CUresult::CUDA_ERROR_NOT_INITIALIZED,
        Some(machine) => body(machine).err().unwrap_or(SUCCESS),
    }
}

/// The devices of the script that CUDA lists, by their index in NVML.
fn listed(machine: &Machine) -> Vec<usize> {
    let has_cuda = |&i: &usize| machine.devices[i].script.cuda.is_some();
    (0..machine.devices.len()).rev().filter(has_cuda).collect()
}

fn script_of(device: &FakeDevice) -> Result<&CudaScript, CUresult> {
    device.script.cuda.as_ref().ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)
}

/// The device of this thread's context.
fn current() -> Result<usize, CUresult> {
    CURRENT.get().checked_sub(1).ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)
}

#[unsafe(no_mangle)]
extern "C" fn cuInit(_: c_uint) -> CUresult {
    let mut machine = machine();
    if machine.is_none() {
        match Machine::load() {
            Ok(loaded) => *machine = Some(loaded),
            Err(reason) => {
                eprintln!("fake cuda: {reason}");
                return CUresult::CUDA_ERROR_UNKNOWN;
            }
        }
    }
    if machine.as_ref().is_some_and(|machine| listed(machine).is_empty()) {
        return CUresult::CUDA_ERROR_NO_DEVICE;
    }
    SUCCESS
}

/// May be called before `cuInit`, like the real one.
#[unsafe(no_mangle)]
extern "C" fn cuDriverGetVersion(version: *mut c_int) -> CUresult {
    let loaded = machine().as_ref().map(|machine| machine.cuda_version);
    let Some(number) = loaded.or_else(|| Machine::load().ok().map(|machine| machine.cuda_version)) else {
        return CUresult::CUDA_ERROR_UNKNOWN;
    };
    // SAFETY: the caller of every exported function passes a valid place for the answer.
    unsafe { version.write(number) };
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuGetErrorString(error: CUresult, text: *mut *const c_char) -> CUresult {
    let words = match error {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => c"out of memory",
        CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE => c"CUDA-capable device(s) is/are busy or unavailable",
        CUresult::CUDA_ERROR_NO_DEVICE => c"no CUDA-capable device is detected",
        _ => c"an error of the scripted library",
    };
    // SAFETY: as in `cuDriverGetVersion`.
    unsafe { text.write(words.as_ptr()) };
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetCount(count: *mut c_int) -> CUresult {
    answer(|machine| {
        // SAFETY: as in `cuDriverGetVersion`.
        unsafe { count.write(listed(machine).len() as c_int) };
        Ok(())
    })
}

/// A device handle is its index in NVML.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceGet(device: *mut CUdevice, number: c_int) -> CUresult {
    answer(|machine| {
        let index = *listed(machine).get(number as usize).ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)?;
        // SAFETY: as in `cuDriverGetVersion`.
        unsafe { device.write(index as CUdevice) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice) -> CUresult {
    answer(|machine| {
        let name = &machine.devices[device as usize].script.uuid;
        let digits: String = name.trim_start_matches("GPU-").chars().filter(|&c| c != '-').collect();
        let number = u128::from_str_radix(&digits, 16).map_err(|_| INVALID)?;
        // SAFETY: as in `cuDriverGetVersion`.
        unsafe { uuid.write(CUuuid { bytes: number.to_be_bytes().map(|byte| byte as c_char) }) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetAttribute(
    value: *mut c_int,
    attribute: CUdevice_attribute,
    device: CUdevice,
) -> CUresult {
    use CUdevice_attribute::*;
    answer(|machine| {
        let script = script_of(&machine.devices[device as usize])?;
        let number = match attribute {
            CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT => script.multiprocessors,
            CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE => script.l2_cache_bytes,
            CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH => script.memory_bus_bits,
            CU_DEVICE_ATTRIBUTE_CLOCK_RATE => script.clock_khz,
            CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE => script.memory_clock_khz,
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR => {
                script.shared_memory_per_multiprocessor_bytes
            }
            CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR => script.registers_per_multiprocessor,
            CU_DEVICE_ATTRIBUTE_WARP_SIZE => Some(32),
            CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT => script.async_engines,
            CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED => Some(1),
            _ => None,
        };
        // SAFETY: as in `cuDriverGetVersion`.
        unsafe { value.write(number.ok_or(INVALID)?) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) -> CUresult {
    answer(|machine| {
        if script_of(&machine.devices[device as usize])?.occupied {
            return Err(CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE);
        }
        // SAFETY: as in `cuDriverGetVersion`.
        unsafe { context.write(ptr::without_provenance_mut(device as usize + 1)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(_: CUdevice) -> CUresult {
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetCurrent(context: *mut CUcontext) -> CUresult {
    // SAFETY: as in `cuDriverGetVersion`.
    unsafe { context.write(ptr::without_provenance_mut(CURRENT.get())) };
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: CUcontext) -> CUresult {
    CURRENT.set(context as usize);
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyHtoDAsync_v2(_: CUdeviceptr, _: *const c_void, bytes: usize, _: CUstream) -> CUresult {
    copy(Way::In, bytes)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemcpyDtoHAsync_v2(_: *mut c_void, _: CUdeviceptr, bytes: usize, _: CUstream) -> CUresult {
    copy(Way::Out, bytes)
}

fn copy(way: Way, bytes: usize) -> CUresult {
    answer(|machine| {
        let device = &mut machine.devices[current()?];
        let script = device.script.cuda.as_ref().ok_or(INVALID)?;
        device.link.copy(script, way, bytes);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamWaitEvent(_: CUstream, _: CUevent, _: c_uint) -> CUresult {
    // There is one stream, which works in order.
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuEventCreate(out: *mut CUevent, _: c_uint) -> CUresult {
    // SAFETY: as in `cuDriverGetVersion`.
    unsafe { out.write(Box::into_raw(Box::<Event>::default()).cast()) };
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuEventDestroy_v2(event: CUevent) -> CUresult {
    // SAFETY: the caller returns what `cuEventCreate` gave, once.
    drop(unsafe { Box::from_raw(event.cast::<Event>()) });
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn cuEventRecord(event: CUevent, _: CUstream) -> CUresult {
    answer(|machine| {
        let device = current()?;
        let at = machine.devices[device].link.mark();
        // SAFETY: the event comes from `cuEventCreate` and is not destroyed yet.
        unsafe { event.cast::<Event>().write(Event { at: Some((device, at)) }) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(event: CUevent) -> CUresult {
    // SAFETY: as in `cuEventRecord`.
    let Some((device, at)) = (unsafe { &*event.cast::<Event>() }).at else { return SUCCESS };
    answer(|machine| match machine.devices[device].link.has_passed(at) {
        true => Ok(()),
        false => Err(CUresult::CUDA_ERROR_NOT_READY),
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuEventSynchronize(event: CUevent) -> CUresult {
    // SAFETY: as in `cuEventRecord`.
    let at = unsafe { &*event.cast::<Event>() }.at;
    std::thread::sleep(
        at.map_or_else(Default::default, |(_, at)| at.saturating_duration_since(Instant::now())),
    );
    cuEventQuery(event)
}

#[unsafe(no_mangle)]
extern "C" fn cuEventElapsedTime_v2(ms: *mut f32, begin: CUevent, end: CUevent) -> CUresult {
    // SAFETY: as in `cuEventRecord`.
    let [begin, end] = [begin, end].map(|event| unsafe { &*event.cast::<Event>() }.at);
    let Some(((_, begin), (_, end))) = begin.zip(end) else { return INVALID };
    // SAFETY: as in `cuDriverGetVersion`.
    unsafe { ms.write((end - begin).as_secs_f64() as f32 * 1e3) };
    SUCCESS
}
