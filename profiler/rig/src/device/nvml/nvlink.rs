//! NVLink counters, by a raw call: the safe wrapper always asks for link 0.
#![expect(unsafe_code, reason = "the safe wrapper sets no scope")]

use nvml_wrapper::{
    Device as Handle, Nvml,
    error::{NvmlError, nvml_sym, nvml_try},
};
use nvml_wrapper_sys::bindings::{
    nvmlFieldValue_t, nvmlValue_t, nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
};

/// The scope that means the sum over all links of the device.
const ALL_LINKS: u32 = u32::MAX;

/// Payload through all links together since the driver was loaded, in KiB. `field` is one of the
/// throughput fields; these have the same number in all drivers.
pub(super) fn all_links_kib(nvml: &Nvml, handle: &Handle<'_>, field: u32) -> Result<u64, NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetFieldValues.as_ref())?;
    let mut value = nvmlFieldValue_t {
        fieldId: field,
        scopeId: ALL_LINKS,
        timestamp: 0,
        latencyUsec: 0,
        valueType: 0,
        nvmlReturn: 0,
        value: nvmlValue_t { ullVal: 0 },
    };
    // SAFETY: the handle belongs to this library, and `value` is the one field that the count promises.
    nvml_try(unsafe { call(handle.handle(), 1, &raw mut value) })?;
    nvml_try(value.nvmlReturn)?;
    if value.valueType != nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG {
        return Err(NvmlError::UnexpectedVariant(value.valueType));
    }
    // SAFETY: the type says that this is the member that was written.
    Ok(unsafe { value.value.ullVal })
}
