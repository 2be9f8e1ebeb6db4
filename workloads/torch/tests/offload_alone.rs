//! What offload takes of memory and threads. All of it is one test: both are counted for the whole process.

#[path = "common/optimizers.rs"]
mod optimizers;

use std::fs;

use schema::catalog;
use tch::{Device, Kind, TchError, Tensor};
use torch_worker::{
    optimizer::{Home, Optimizer},
    shim::{
        autograd::backward,
        memory::{count_cpu_tensors, tensor_memory},
    },
};

use self::optimizers::OPTIMIZERS;

const SHAPES: [&[i64]; 4] = [&[1300, 1100], &[64, 3, 3, 3], &[64], &[1]];

fn allocated() -> u64 {
    tensor_memory(Device::Cpu).unwrap().allocated_bytes
}

/// A model on the CPU device, whose parameters stay where they are, and its optimizer.
fn optimizer(settings: catalog::Optimizer, kind: Kind, home: Home) -> Optimizer {
    let parameter = |shape: &&[i64]| Tensor::zeros(*shape, (kind, Device::Cpu)).set_requires_grad(true);
    Optimizer::new(settings, SHAPES.iter().map(parameter).collect(), home).unwrap()
}

fn make_gradients(optimizer: &Optimizer) {
    let sum: Tensor = optimizer.parameters().iter().map(|parameter| parameter.sum(None)).sum();
    backward(&sum, &[]).unwrap();
}

fn threads_of_process() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn offload_takes_the_memory_and_the_threads_that_it_should() {
    count_cpu_tensors();
    tch::set_num_threads(1);
    let numbers: u64 = SHAPES.iter().map(|shape| shape.iter().product::<i64>() as u64).sum();
    let base = allocated();

    // At a step's boundary there are parameters and state, and in host memory another copy of the parameters.
    for (name, settings) in OPTIMIZERS {
        // What is remembered of each number, and the bytes of the count of updates.
        let (state, counter) = match settings {
            catalog::Optimizer::Sgd { momentum: 0.0, .. } => (0, 0),
            catalog::Optimizer::Sgd { .. } => (1, 0),
            catalog::Optimizer::Adam { .. } | catalog::Optimizer::Adamw { .. } => (2, 4),
        };
        for (kind, bytes) in [(Kind::Float, 4), (Kind::Double, 8)] {
            for (home, copies) in [(Home::Device, 1), (Home::Host { threads: 1 }, 2)] {
                let mut optimizer = optimizer(settings, kind, home);
                for step in 0..3 {
                    let persistent = (copies + state) * numbers * bytes + counter;
                    assert_eq!(allocated() - base, persistent, "{name} at {home:?} before step {step}");
                    make_gradients(&optimizer);
                    optimizer.step(&mut |_| Ok(())).unwrap();
                    assert_eq!(allocated() - base, persistent + numbers * bytes, "the gradients are left");
                    optimizer.clear_gradients().unwrap();
                }
                drop(optimizer);
                assert_eq!(allocated(), base);
            }
        }
    }

    let before = threads_of_process();
    let [.., (_, adamw)] = OPTIMIZERS;
    let mut optimizer = optimizer(adamw, Kind::Float, Home::Host { threads: 3 });
    make_gradients(&optimizer);
    let mut seen = Vec::new();
    let mut lap = |_| {
        seen.push(tch::get_num_threads());
        Ok(())
    };
    optimizer.step(&mut lap).unwrap();
    // The first lap is that of what came before the update; the model has two chunks.
    assert_eq!(seen, [1, 3, 3, 3, 3, 3]);
    assert_eq!(tch::get_num_threads(), 1, "the number of before is put back");
    assert_eq!(threads_of_process(), before + 2, "two more have worked, and wait for more to do");

    let mut laps = 0;
    let error = optimizer
        .step(&mut |_| {
            laps += 1;
            if laps == 2 { Err(TchError::Torch("the device is lost".into())) } else { Ok(()) }
        })
        .unwrap_err();
    assert!(error.to_string().contains("the device is lost"), "{error}");
    assert_eq!(tch::get_num_threads(), 1, "also after a failure");
}
