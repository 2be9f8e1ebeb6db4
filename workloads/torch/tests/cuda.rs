//! What the shim answers about CUDA: with a device the thing itself, without one an error in words and never a crash.

mod common;

use std::{
    collections::HashSet,
    env, iter,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use schema::{
    catalog::{Catalog, Optimizer as CatalogOptimizer},
    wire::Timing,
};
use tch::{Cuda, Device, Kind, TchError, Tensor};
use torch_worker::{
    cuda, data, models,
    nn::channels_last,
    optimizer::{Home, Optimizer},
    pause::Paused,
    shim::{
        autograd::{AutocastBf16, backward},
        event::CudaEvent,
        memory::{give_back_unused, page_locked_bytes, reset_peak, tensor_memory},
        random::{random_state, set_random_state},
        storage::Storage,
        stream::SideStream,
        transfer::{copy_all, page_locked, to_device, to_host, wait_for},
    },
    step::{Completed, Execution, Trainer},
};

const FIRST: Device = Device::Cuda(0);

/// What there is of CUDA.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Present {
    Device,
    LibraryAlone,
    Nothing,
}

fn present() -> Present {
    match (cuda::load(), cuda::try_first_device()) {
        (Ok(()), Ok(())) => Present::Device,
        (Ok(()), Err(_)) => Present::LibraryAlone,
        (Err(_), _) => Present::Nothing,
    }
}

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
        .args(["--exact", "every_entry_point_works_or_says_why_not", "--nocapture"])
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
    if present() != Present::Device {
        eprintln!("skipped: no CUDA device");
        return;
    }
    let matrix = Tensor::ones([8192, 8192], (Kind::Float, FIRST));
    // Loads what the product needs, for which the device does wait.
    let _ = matrix.matmul(&matrix);
    Cuda::synchronize(0);
    let (mut from, mut to) = (CudaEvent::new().unwrap(), CudaEvent::new().unwrap());
    let began = Instant::now();
    // Twice, as marks are used again.
    for _ in 0..2 {
        from.record(0).unwrap();
        for _ in 0..50 {
            let _ = matrix.matmul(&matrix);
        }
        to.record(0).unwrap();
        assert!(!to.is_done().unwrap(), "the host runs ahead of the device");
        assert!(to.milliseconds_since(&from).unwrap_err().to_string().contains("must be completed before"));
        while !to.is_done().unwrap() {
            thread::sleep(Duration::from_millis(1));
        }
        let milliseconds = to.milliseconds_since(&from).unwrap();
        let host = began.elapsed().as_secs_f64() * 1e3;
        assert!(1.0 < milliseconds && milliseconds < host, "{milliseconds} ms, on the host {host} ms");
    }
}

/// Steps of two micro-batches.
fn trainer(name: &str, device: Device, recompute: bool) -> Trainer {
    let workload = Catalog::embedded().get(name).unwrap().clone();
    tch::manual_seed(7);
    let model = models::build(&workload, device).unwrap();
    let samples = data::open(workload.model.samples(), None, 7, device).unwrap();
    let execution = Execution { micro_batches: 2, recompute, ..Execution::plain(device, 4) };
    Trainer::new(model, samples, execution).unwrap()
}

/// Trains eight steps, issued ahead of the device where it allows that.
fn train(name: &str, device: Device, recompute: bool) -> Vec<Completed> {
    let mut trainer = trainer(name, device, recompute);
    let mut steps = Vec::new();
    for _ in 0..8 {
        trainer.issue().unwrap();
        steps.extend(iter::from_fn(|| trainer.completed(4).unwrap()));
    }
    steps.extend(iter::from_fn(|| trainer.completed(0).unwrap()));
    assert_eq!(steps.len(), 8);
    steps
}

#[test]
fn a_device_times_its_own_steps_and_computes_what_the_cpu_does() {
    if present() != Present::Device {
        eprintln!("skipped: no CUDA device");
        return;
    }
    for name in ["dcgan", "gpt2-mini", "lstm", "neumf", "resnet18-cifar"] {
        let steps = train(name, FIRST, false);
        assert!(steps.is_sorted_by_key(|step| step.end));
        for step in &steps {
            let phases = &step.phases;
            let parts = [phases.data_ns, phases.forward_ns, phases.backward_ns, phases.optimizer_ns];
            let sum: u64 = parts.map(|part| part.expect("each is timed").0).iter().sum();
            assert!(step.dur.0 > 0 && sum.abs_diff(step.dur.0) < 50_000, "phases fill the step: {step:?}");
            assert!(step.loss.is_finite() && step.timing == Timing::DeviceEvent, "{name}: {step:?}");
        }
    }
    // Neither dropout, whose masks differ, nor convolutions, which are in TF32.
    for recompute in [false, true] {
        let on_cpu = train("gpt2-mini", Device::Cpu, false);
        for (cpu, gpu) in on_cpu.iter().zip(train("gpt2-mini", FIRST, recompute)) {
            assert!((cpu.loss - gpu.loss).abs() < 1e-3, "{} and {}", cpu.loss, gpu.loss);
        }
    }
}

/// Where ten updates lead, on parameters of a few and of millions of numbers.
fn updated(home: Home) -> Vec<Tensor> {
    let values = |shape: &[i64]| {
        let count = shape.iter().product::<i64>();
        (Tensor::arange(count, (Kind::Float, FIRST)) * 0.7).sin().view(shape)
    };
    let parameters = [&[7][..], &[2100, 2100], &[16, 3, 3, 3]].map(|shape| {
        let start = values(shape);
        let start = if shape.len() == 4 { channels_last(&start).unwrap() } else { start };
        start.set_requires_grad(true)
    });
    let settings = CatalogOptimizer::Adamw {
        learning_rate: 0.01,
        beta1: 0.9,
        beta2: 0.99,
        epsilon: 1e-8,
        weight_decay: 0.1,
    };
    let handles = parameters.iter().map(Tensor::shallow_clone).collect();
    let mut optimizer = Optimizer::new(settings, handles, home).unwrap();
    let place = if home == Home::Device { FIRST } else { Device::Cpu };
    for (kind, tensors) in optimizer.state() {
        assert!(tensors.iter().all(|tensor| tensor.device() == place), "{kind} for {home:?}");
    }
    for _ in 0..10 {
        // The device is still at work when the update is asked for, and again when the next step is.
        let loss: Tensor = parameters.iter().map(|parameter| (parameter - 0.5).square().sum(None)).sum();
        backward(&loss, &[]).unwrap();
        optimizer.clip_gradients(10.0).unwrap();
        optimizer.step(&mut |_| Ok(())).unwrap();
        optimizer.clear_gradients().unwrap();
    }
    parameters.iter().map(|parameter| parameter.detach().to(Device::Cpu)).collect()
}

#[test]
fn updates_in_host_memory_are_those_on_the_device() {
    if present() != Present::Device {
        eprintln!("skipped: no CUDA device");
        return;
    }
    for (device, host) in updated(Home::Device).iter().zip(updated(Home::Host { threads: 2 })) {
        let difference = (device - host).abs().max().double_value(&[]);
        assert!(difference < 1e-6, "they differ by {difference}");
    }
}

#[test]
fn a_paused_job_leaves_its_device_and_comes_back_as_it_was() {
    if present() != Present::Device {
        eprintln!("skipped: no CUDA device");
        return;
    }
    // A tied weight, weights that cuDNN wants in one piece, channels-last ones and buffers, a table.
    for name in ["gpt2-mini", "lstm", "resnet18-cifar", "llama-mini"] {
        let mut trainer = trainer(name, FIRST, false);
        let step = |trainer: &mut Trainer| {
            trainer.issue().unwrap();
            trainer.completed(0).unwrap().unwrap().loss
        };
        step(&mut trainer);
        let there = trainer.tensors();
        let values: Vec<_> = there.iter().map(|tensor| tensor.detach().to_device(Device::Cpu)).collect();
        let strides: Vec<_> = there.iter().map(Tensor::stride).collect();
        let storages = |tensors: &[Tensor]| {
            let storages: HashSet<_> = tensors.iter().map(|tensor| Storage::of(tensor).unwrap().0).collect();
            storages.len()
        };
        let before = storages(&there);

        let (paused, left) = Paused::new(&mut trainer).unwrap();
        println!("{name}: {} bytes freed in {} ns", left.bytes_freed, left.dur.0);
        for (tensor, value) in trainer.tensors().iter().zip(&values) {
            assert_eq!((tensor.device(), tensor), (Device::Cpu, value), "{name}");
        }
        let dur = paused.resume(&mut trainer, None).unwrap();
        println!("{name}: back in {} ns", dur.0);
        let back = trainer.tensors();
        assert!(back.iter().all(|tensor| tensor.device() == FIRST), "{name}");
        assert_eq!(back.iter().map(Tensor::stride).collect::<Vec<_>>(), strides, "{name}");
        for (tensor, value) in back.iter().zip(&values) {
            assert_eq!(&tensor.to_device(Device::Cpu), value, "{name}");
        }
        assert_eq!(storages(&back), before, "{name}: what shared memory shares it again");
        assert!(step(&mut trainer).is_finite(), "{name}");
    }
}
