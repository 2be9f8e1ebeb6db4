//! What becomes of CUDA: with a device the thing itself, without one an error in words and never a crash.

#[path = "../common/mod.rs"]
mod common;
mod entries;
#[path = "../common/optimizers.rs"]
mod optimizers;
mod plans;
mod streams;
mod training;

use tch::Device;
use torch_worker::cuda;

pub(crate) const FIRST: Device = Device::Cuda(0);

/// What there is of CUDA.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Present {
    Device,
    LibraryAlone,
    Nothing,
}

pub(crate) fn present() -> Present {
    match (cuda::load(), cuda::try_first_device()) {
        (Ok(()), Ok(())) => Present::Device,
        (Ok(()), Err(_)) => Present::LibraryAlone,
        (Err(_), _) => Present::Nothing,
    }
}

/// Reports on stderr that a test is skipped, if there is none.
pub(crate) fn there_is_a_device() -> bool {
    let there_is = present() == Present::Device;
    if !there_is {
        schema::skips::skipped("gpu", "there is no CUDA device");
    }
    there_is
}
