//! The capabilities of this program's libtorch on this machine, for `profile doctor` and for people.

use schema::capabilities::Capabilities;
use tch::{Cuda, utils};

use crate::{cuda, shim::library};

/// Asks libtorch, without allocating on a device.
pub fn probe() -> Capabilities {
    let loaded = cuda::load().is_ok() && utils::has_cudart();
    Capabilities {
        version: env!("CARGO_PKG_VERSION").into(),
        libtorch: library::libtorch_version().into(),
        cuda: loaded.then(|| cuda_version(utils::version_cudart())),
        cuda_devices: if loaded { u32::try_from(Cuda::device_count()).unwrap_or(0) } else { 0 },
        cuda_error: None,
    }
}

/// Asks libtorch and tries to make a tensor on `cuda:0`.
pub fn try_devices() -> Capabilities {
    Capabilities { cuda_error: cuda::try_first_device().err(), ..probe() }
}

/// 13000, as NVIDIA counts, is 13.0.
fn cuda_version(number: i64) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}
