//! Every entry point of the shim that asks something of CUDA: it works, or says why not.

use std::{env, process::Command};

use tch::{Device, Kind, TchError, Tensor};
use torch_worker::{
    cuda,
    shim::{
        autograd::AutocastBf16,
        event::CudaEvent,
        memory::{give_back_unused, page_locked_bytes, reset_peak, tensor_memory},
        random::{random_state, set_random_state},
        stream::SideStream,
        transfer::{copy_all, page_locked, to_device, to_host, wait_for},
    },
};

use crate::{FIRST, Present, common, present};

/// An entry point of the shim, and words of its error; no words where it works all the same.
struct Entry {
    call: fn() -> Result<(), TchError>,
    without_cuda: &'static str,
    without_driver: &'static str,
    with_device: &'static str,
}

const NOT_LINKED: &str = "not linked with support for cuda";
const NO_DRIVER: &str = "no NVIDIA driver";

const ENTRIES: [(&str, Entry); 19] = [
    (
        "event: new",
        Entry {
            call: || CudaEvent::new().map(drop),
            without_cuda: NOT_LINKED,
            without_driver: "",
            with_device: "",
        },
    ),
    (
        "event: record",
        Entry {
            call: || CudaEvent::new()?.record(0),
            without_cuda: NOT_LINKED,
            without_driver: "driver version is insufficient",
            with_device: "",
        },
    ),
    (
        "event: query",
        Entry {
            call: || CudaEvent::new()?.is_done().map(|done| assert!(done, "nothing was recorded")),
            without_cuda: NOT_LINKED,
            without_driver: "",
            with_device: "",
        },
    ),
    (
        "event: elapsed, of marks that were never put",
        Entry {
            call: || CudaEvent::new()?.milliseconds_since(&CudaEvent::new()?).map(drop),
            without_cuda: NOT_LINKED,
            without_driver: "must be recorded before",
            with_device: "must be recorded before",
        },
    ),
    (
        "event: hold back, by a mark that was never put",
        Entry {
            call: || CudaEvent::new()?.hold_back(0),
            without_cuda: NOT_LINKED,
            without_driver: "driver version is insufficient",
            with_device: "",
        },
    ),
    (
        "stream: beside that of the device",
        Entry {
            call: || SideStream::new(0)?.enter().map(drop),
            without_cuda: NOT_LINKED,
            without_driver: "driver version is insufficient",
            with_device: "",
        },
    ),
    (
        "memory: page-locked",
        Entry {
            call: || page_locked_bytes().map(drop),
            without_cuda: "no allocator of page-locked memory",
            without_driver: "",
            with_device: "",
        },
    ),
    (
        "transfer: page-locked memory",
        Entry {
            call: || page_locked(&ones(), 8).map(|line| assert_eq!(line.size(), [8])),
            without_cuda: "no pinned memory allocator is available",
            without_driver: NO_DRIVER,
            with_device: "",
        },
    ),
    (
        "transfer: copies from the host to the host",
        Entry {
            call: || {
                let (to, from) = ([Tensor::zeros_like(&ones())], [ones()]);
                copy_all(&to, &from).map(|()| assert_eq!(to, from))
            },
            without_cuda: "",
            without_driver: "",
            with_device: "",
        },
    ),
    (
        "memory: statistics",
        Entry {
            call: || {
                let memory = tensor_memory(FIRST)?;
                assert!(memory.reserved_bytes >= Some(memory.allocated_bytes) && memory.retries.is_some());
                Ok(())
            },
            without_cuda: "Allocator for cuda is not a DeviceAllocator",
            without_driver: "Invalid device argument",
            with_device: "",
        },
    ),
    (
        "memory: reset of the peak",
        Entry {
            call: || reset_peak(FIRST),
            without_cuda: "Allocator for cuda is not a DeviceAllocator",
            without_driver: "Invalid device argument",
            with_device: "",
        },
    ),
    (
        "transfer: to the device, through page-locked memory",
        Entry {
            call: || to_device(ones(), FIRST).map(|copy| assert_eq!(copy.device(), FIRST)),
            without_cuda: "Cannot access accelerator device when none is available",
            without_driver: NO_DRIVER,
            with_device: "",
        },
    ),
    (
        "transfer: to the host, from the host",
        Entry {
            call: || to_host(&ones()).map(|same| assert_eq!(same, ones())),
            without_cuda: "",
            without_driver: "",
            with_device: "",
        },
    ),
    (
        "transfer: waiting for the device",
        Entry {
            call: || wait_for(FIRST),
            without_cuda: NOT_LINKED,
            without_driver: "driver version is insufficient",
            with_device: "",
        },
    ),
    (
        "memory: what is not used",
        Entry {
            call: || give_back_unused(FIRST),
            without_cuda: "Allocator for cuda is not a DeviceAllocator",
            without_driver: "",
            with_device: "",
        },
    ),
    (
        "random: state",
        Entry {
            call: || random_state(FIRST).map(|state| assert!(state.numel() > 0)),
            without_cuda: "Cannot initialize CUDA without ATen_cuda library",
            without_driver: NO_DRIVER,
            with_device: "",
        },
    ),
    (
        "random: going on from a state",
        Entry {
            call: || set_random_state(FIRST, &random_state(FIRST)?),
            without_cuda: "Cannot initialize CUDA without ATen_cuda library",
            without_driver: NO_DRIVER,
            with_device: "",
        },
    ),
    (
        "autocast: enter and leave",
        Entry {
            call: || AutocastBf16::enter(FIRST).map(drop),
            without_cuda: "",
            without_driver: "",
            with_device: "",
        },
    ),
    (
        "a tensor on the device",
        Entry {
            call: || cuda::try_first_device().map_err(TchError::Torch),
            without_cuda: "libtorch has no CUDA: libtorch_cuda.so",
            without_driver: NO_DRIVER,
            with_device: "",
        },
    ),
];

fn ones() -> Tensor {
    Tensor::ones([2, 3], (Kind::Float, Device::Cpu))
}

#[test]
fn every_entry_point_works_or_says_why_not() {
    let present = present();
    println!("of CUDA there is: {present:?}");
    for (name, Entry { call, without_cuda, without_driver, with_device }) in ENTRIES {
        let words = match present {
            Present::Device => with_device,
            Present::LibraryAlone => without_driver,
            Present::Nothing => without_cuda,
        };
        match call() {
            Ok(()) => assert!(words.is_empty(), "{name}: no error, and it should say '{words}'"),
            Err(error) => {
                let error = error.to_string();
                assert!(!words.is_empty() && error.contains(words), "{name}: {error}");
            }
        }
    }
}

/// CUDA cannot be added to a process that has looked for it once, so another one runs the test above.
#[test]
fn every_entry_point_of_a_library_without_a_driver_says_so() {
    let Some(libraries) = common::whole_libtorch_without_driver() else { return };
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "entries::every_entry_point_works_or_says_why_not", "--nocapture"])
        .env("LD_LIBRARY_PATH", libraries)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("of CUDA there is: LibraryAlone"), "{said}");
}

#[test]
fn autocast_of_cuda_leaves_the_cpu_as_it_is() {
    let _ = cuda::load();
    let guard = AutocastBf16::enter(FIRST).unwrap();
    assert_eq!(ones().matmul(&ones().tr()).kind(), Kind::Float);
    drop(guard);
    let _guard = AutocastBf16::enter(Device::Cpu).unwrap();
    assert_eq!(ones().matmul(&ones().tr()).kind(), Kind::BFloat16);
}
