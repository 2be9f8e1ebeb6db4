//! Copies and marks in the stream of a device.

use std::time::Instant;

use front_door::{wait_for, wait_until};
use tch::{Cuda, Device, Kind, Tensor};
use torch_worker::shim::{
    event::CudaEvent,
    transfer::{to_device, to_host},
};

use crate::{FIRST, Present, present, there_is_a_device};

#[test]
fn copies_that_nobody_waits_for_arrive_whole() {
    let device = if present() == Present::Device { FIRST } else { Device::Cpu };
    let numbered = |number: i64| Tensor::full([1 << 20], number, (Kind::Int64, Device::Cpu));
    // All but the copies is given back at once, while the device still reads: the next ones would write over it.
    let there: Vec<_> = (0..50).map(|number| to_device(numbered(number), device).unwrap()).collect();
    let back: Vec<_> = there.iter().map(|copy| to_host(&(copy * 2)).unwrap()).collect();
    if device == FIRST {
        Cuda::synchronize(0);
    }
    for (number, copy) in (0..).zip(back) {
        assert_eq!(copy.device(), Device::Cpu);
        assert_eq!(copy, numbered(2 * number), "number {number}");
    }
}

#[test]
fn a_mark_is_come_by_after_the_work_before_it_and_not_earlier() {
    if !there_is_a_device() {
        return;
    }
    let matrix = Tensor::ones([8192, 8192], (Kind::Float, FIRST));
    // Loads what the product needs, for which the device does wait.
    let _ = matrix.matmul(&matrix);
    Cuda::synchronize(0);
    let (mut from, mut to) = (CudaEvent::new().unwrap(), CudaEvent::new().unwrap());
    // Twice, as marks are used again.
    for _ in 0..2 {
        let mut products = 50;
        let (began, error) = wait_for("the host is ahead of the device", || {
            let began = Instant::now();
            from.record(0).unwrap();
            for _ in 0..products {
                let _ = matrix.matmul(&matrix);
            }
            to.record(0).unwrap();
            // A host that loses its core for as long as this takes finds the device idle.
            products *= 2;
            let is_done = to.is_done().unwrap();
            match to.milliseconds_since(&from) {
                Ok(milliseconds) => Err(milliseconds),
                Err(error) if is_done => panic!("the mark was come by, and {error}"),
                Err(error) => Ok((began, error.to_string())),
            }
        });
        assert!(error.contains("must be completed before"), "{error}");
        wait_until("the device comes by the mark", || to.is_done().unwrap());
        let milliseconds = to.milliseconds_since(&from).unwrap();
        let host = began.elapsed().as_secs_f64() * 1e3;
        assert!(1.0 < milliseconds && milliseconds < host, "{milliseconds} ms, on the host {host} ms");
    }
}
