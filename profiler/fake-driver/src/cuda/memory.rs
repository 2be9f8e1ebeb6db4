//! The exported functions that allocate memory of a device or page-locked memory of the host.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    collections::BTreeMap,
    ffi::{c_uint, c_void},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use cudarc::driver::sys::{CUdeviceptr, CUresult, CUstream};

use super::{INVALID, SUCCESS, answer, current, script_of};

/// Live allocations: bytes by address, and the device that owns them (absent for the host).
static TAKEN: Mutex<BTreeMap<u64, (usize, Option<usize>)>> = Mutex::new(BTreeMap::new());

/// The next address of device memory, above all addresses that programs can have.
static NEXT_ADDRESS: AtomicU64 = AtomicU64::new(1 << 48);

#[unsafe(no_mangle)]
extern "C" fn cuMemAllocAsync(out: *mut CUdeviceptr, bytes: usize, _: CUstream) -> CUresult {
    answer(|machine| {
        let device = current()?;
        let limit = machine.devices[device].script.memory_bytes;
        let next = || NEXT_ADDRESS.fetch_add(bytes as u64, Ordering::Relaxed);
        let address = take(Some(device), bytes, limit, next)?;
        // SAFETY: the caller of every exported function passes a valid place for the answer.
        unsafe { out.write(address) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeAsync(address: CUdeviceptr, _: CUstream) -> CUresult {
    give_back(address).map_or(INVALID, |_| SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostAlloc(out: *mut *mut c_void, bytes: usize, _: c_uint) -> CUresult {
    answer(|machine| {
        let limit = script_of(&machine.devices[current()?])?.page_locked_bytes;
        let layout = page_aligned(bytes)?;
        // SAFETY: the layout is not empty.
        let memory = take(None, bytes, limit, || unsafe { alloc_zeroed(layout) } as u64)?;
        // SAFETY: the caller of every exported function passes a valid place for the answer.
        unsafe { out.write(memory as *mut c_void) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeHost(memory: *mut c_void) -> CUresult {
    let Some(layout) = give_back(memory as u64).and_then(|bytes| page_aligned(bytes).ok()) else {
        return INVALID;
    };
    // SAFETY: `cuMemHostAlloc` returned it with this layout, and it was not freed before.
    unsafe { dealloc(memory.cast(), layout) };
    SUCCESS
}

fn page_aligned(bytes: usize) -> Result<Layout, CUresult> {
    Layout::from_size_align(bytes, 4096).ok().filter(|layout| layout.size() > 0).ok_or(INVALID)
}

/// Allocates from an owner that has `limit` bytes, at the result of `address`.
fn take(
    owner: Option<usize>,
    bytes: usize,
    limit: u64,
    address: impl FnOnce() -> u64,
) -> Result<u64, CUresult> {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let of_owner = taken.values().filter(|(_, of)| *of == owner).map(|(bytes, _)| *bytes as u64);
    if of_owner.sum::<u64>() + bytes as u64 > limit {
        return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    }
    let address = address();
    taken.insert(address, (bytes, owner));
    Ok(address)
}

fn give_back(address: u64) -> Option<usize> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&address).map(|(bytes, _)| bytes)
}

#[unsafe(no_mangle)]
extern "C" fn cuMemsetD8Async(_: CUdeviceptr, _: u8, _: usize, _: CUstream) -> CUresult {
    SUCCESS
}
