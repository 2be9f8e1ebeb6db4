//! Exact tensor memory: the present allocation and its peak.

use std::ffi::c_int;

use tch::{Device, TchError};

use super::{check, device_number};

unsafe extern "C" {
    fn tw_cpu_counting_install();
    fn tw_keep_freed_memory() -> c_int;
    fn tw_cpu_limit(bytes: i64);
    fn tw_cpu_memory(allocated: *mut i64, peak: *mut i64);
    fn tw_cpu_reset_peak();
    fn tw_cuda_memory(
        device: c_int,
        allocated: *mut i64,
        reserved: *mut i64,
        peak: *mut i64,
        retries: *mut i64,
    ) -> c_int;
    fn tw_page_locked_bytes(bytes: *mut i64) -> c_int;
    fn tw_cuda_reset_peak(device: c_int) -> c_int;
    fn tw_cpu_give_back();
    fn tw_cuda_give_back() -> c_int;
}

/// Tensor memory of one device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMemory {
    /// Held by tensors at present.
    pub allocated_bytes: u64,
    /// Memory that the caching allocator took from the device. `None` on the CPU, which has no cache.
    pub reserved_bytes: Option<u64>,
    /// The largest `allocated_bytes` since the program began or the last [`reset_peak`].
    pub peak_bytes: u64,
    /// Number of times since the program began that the caching allocator was refused memory, released all
    /// unused memory, and tried again. `None` on the CPU.
    pub retries: Option<u64>,
}

/// Counts every CPU tensor from here on. Call before the first tensor: earlier ones are never counted.
pub fn count_cpu_tensors() {
    // SAFETY: the allocator is a static of the shim; tensors keep the deleter they were made with.
    unsafe { tw_cpu_counting_install() }
}

/// Makes the process keep host memory that tensors free for those of the next step, instead of returning it
/// to the kernel. The size of the process thus stays at its peak; [`tensor_memory`] is not affected.
///
/// # Errors
/// Where the C library refuses.
pub fn keep_freed_memory() -> Result<(), TchError> {
    // SAFETY: sets two numbers of the C library's allocator.
    check(unsafe { tw_keep_freed_memory() })
}

/// Limits the total size of CPU tensors. A larger allocation fails as on a device that is full.
pub fn limit_cpu_tensors(bytes: u64) {
    // SAFETY: takes a plain number and sets one atomic.
    unsafe { tw_cpu_limit(i64::try_from(bytes).unwrap_or(i64::MAX)) }
}

/// The tensor memory of `device`, exact, without waiting for the device.
///
/// # Errors
/// When libtorch has no such device.
pub fn tensor_memory(device: Device) -> Result<TensorMemory, TchError> {
    let (mut allocated, mut reserved, mut peak, mut retries) = (0, 0, 0, 0);
    match device {
        Device::Cuda(index) => {
            let index = device_number(index);
            // SAFETY: the pointers are those of four local numbers.
            check(unsafe { tw_cuda_memory(index, &mut allocated, &mut reserved, &mut peak, &mut retries) })?;
        }
        Device::Cpu => {
            // SAFETY: the pointers are those of two local numbers.
            unsafe { tw_cpu_memory(&mut allocated, &mut peak) };
        }
        other => return Err(no_statistics(other)),
    }
    Ok(TensorMemory {
        allocated_bytes: counted(allocated),
        reserved_bytes: device.is_cuda().then(|| counted(reserved)),
        peak_bytes: counted(peak),
        retries: device.is_cuda().then(|| counted(retries)),
    })
}

/// Page-locked host memory in use by CUDA, which the count of CPU tensors leaves out: its tensors come from
/// an allocator of CUDA, in blocks of powers of two.
///
/// # Errors
/// When libtorch has no CUDA.
pub fn page_locked_bytes() -> Result<u64, TchError> {
    let mut bytes = 0;
    // SAFETY: the pointer is that of a local number.
    check(unsafe { tw_page_locked_bytes(&mut bytes) })?;
    Ok(counted(bytes))
}

fn counted(bytes: i64) -> u64 {
    u64::try_from(bytes).expect("nothing is freed that was not counted")
}

/// Resets the peak of `device` to the present allocation.
///
/// # Errors
/// When libtorch has no such device.
pub fn reset_peak(device: Device) -> Result<(), TchError> {
    match device {
        // SAFETY: takes a plain number.
        Device::Cuda(index) => check(unsafe { tw_cuda_reset_peak(device_number(index)) }),
        Device::Cpu => {
            // SAFETY: takes nothing and changes one atomic number.
            unsafe { tw_cpu_reset_peak() };
            Ok(())
        }
        other => Err(no_statistics(other)),
    }
}

/// Releases cached memory: the cache of CUDA's allocator to CUDA, and that of the C library to the kernel.
/// Waits until `device` has completed the queued work.
///
/// # Errors
/// When libtorch has no such device, or with an earlier error of it.
pub fn give_back_unused(device: Device) -> Result<(), TchError> {
    if device.is_cuda() {
        // SAFETY: takes nothing; memory of tensors is not affected.
        check(unsafe { tw_cuda_give_back() })
    } else {
        // SAFETY: takes nothing; memory in use is not affected.
        unsafe { tw_cpu_give_back() };
        Ok(())
    }
}

fn no_statistics(device: Device) -> TchError {
    TchError::Torch(format!("no memory statistics for {device:?}"))
}
