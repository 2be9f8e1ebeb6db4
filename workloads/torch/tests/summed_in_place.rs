//! Ranks that share a step copy no large gradient. All of it is one test: memory is recorded for the whole process.

use schema::{catalog::Catalog, units::Nanos};
use tch::{Device, TchError, Tensor};
use torch_worker::{
    data, models,
    shim::{
        memory::count_cpu_tensors,
        memory_trace::{self, Event},
    },
    step::{Execution, Trainer},
    synchronize::{Ranks, Sum},
};

/// What is summed on its own is no smaller.
const LARGE_BYTES: i64 = 1 << 20;

/// A rank that is alone in its group: its sums are made before they begin.
#[derive(Clone)]
struct Alone;

impl Ranks for Alone {
    fn size(&self) -> u32 {
        1
    }

    fn begin_sum(&self, _flat: &Tensor) -> Result<Box<dyn Sum>, TchError> {
        Ok(Box::new(Alone))
    }
}

impl Sum for Alone {
    fn wait(self: Box<Self>) -> Result<Option<Nanos>, TchError> {
        Ok(None)
    }
}

fn trainer(workload: &str, recompute: bool) -> Trainer {
    let workload = Catalog::embedded().get(workload).expect("a workload of the catalog").clone();
    let model = models::build(&workload, Device::Cpu).unwrap();
    let samples = data::open(workload.model.samples(), None, 7, Device::Cpu).unwrap();
    Trainer::new(model, samples, Execution { recompute, ..Execution::plain(Device::Cpu, 2) }).unwrap()
}

/// The large pieces of memory that the next step takes, in order.
fn large_pieces(trainer: &mut Trainer) -> Vec<i64> {
    memory_trace::begin(Device::Cpu).unwrap();
    trainer.issue().unwrap();
    let events = memory_trace::end(Device::Cpu).unwrap();
    trainer.completed(0).unwrap().expect("the step is complete");
    let large = |event| match event {
        Event::Bytes(bytes) if bytes >= LARGE_BYTES => Some(bytes),
        _ => None,
    };
    events.into_iter().filter_map(large).collect()
}

#[test]
fn sharing_a_step_takes_no_large_piece_of_memory_that_it_does_not_take_alone() {
    count_cpu_tensors();
    tch::set_num_threads(1);
    // Convolutions, 1x1 ones among them, and products of matrices, which autograd makes transposed.
    for (workload, is_large) in [("resnet50-cifar", 9_437_184), ("gpt2-mini", LARGE_BYTES)] {
        for recompute in [false, true] {
            let mut trainer = trainer(workload, recompute);
            let _first = large_pieces(&mut trainer);
            let alone = large_pieces(&mut trainer);
            assert!(alone.contains(&is_large), "{workload} has such a gradient: {alone:?}");
            trainer.join(&Alone).unwrap();
            // Sums begin at the end of the first step, and within the backward pass of the next.
            for step in 0..2 {
                assert_eq!(
                    large_pieces(&mut trainer),
                    alone,
                    "{workload}, recompute {recompute}, step {step}"
                );
            }
        }
    }
}
