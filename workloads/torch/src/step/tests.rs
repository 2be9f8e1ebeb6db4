//! Steps on a device of which the test decides the times.

use schema::catalog::{self, Catalog};
use tch::Kind;

use super::*;
use crate::{
    clock::scripted::Scripted,
    data,
    group::observed::Observed,
    models,
    nn::{init::Init, parameters::Parameters},
    workload::Update,
};

const MS: u64 = 1_000_000;
const RATE: f64 = 0.5;

/// Networks of one weight each, which start at 1 and have their own value times the sample as loss.
struct Weights {
    parameters: Parameters,
    weights: Vec<Tensor>,
    updates: Vec<Update>,
}

impl Workload for Weights {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn updates(&self) -> &[Update] {
        &self.updates
    }

    fn loss(&self, update: usize, batch: &Batch) -> Result<Tensor, TchError> {
        self.weights[update].f_mul(&batch.inputs.f_mean(Kind::Float)?)
    }
}

/// The samples 1, 2, 3 and so on up to 20.
struct Numbers(i64);

impl DataStream for Numbers {
    fn next(&mut self, samples: usize) -> anyhow::Result<Batch> {
        let first = self.0;
        anyhow::ensure!(first <= 20, "no more numbers");
        self.0 += samples as i64;
        let samples = Tensor::f_arange_start(first, self.0, (Kind::Float, Device::Cpu))?;
        Ok(Batch { targets: samples.shallow_clone(), inputs: samples })
    }
}

/// Trains this number of networks with micro-batches of one sample on a device with scripted times.
pub(crate) fn trainer(device: &Scripted, networks: usize, micro_batches: usize) -> Trainer {
    trainer_among(World::alone(), device, networks, micro_batches)
}

fn trainer_among(world: World, device: &Scripted, networks: usize, micro_batches: usize) -> Trainer {
    let mut parameters = Parameters::new(Device::Cpu);
    let prefixes = ["a.", "b."];
    let optimizer = catalog::Optimizer::Sgd { learning_rate: RATE, momentum: 0.0, weight_decay: 0.0 };
    let update = |prefix: &&'static str| Update { name: "network", parameter_prefix: prefix, optimizer };
    let updates = prefixes[..networks].iter().map(update).collect();
    let weights = prefixes[..networks]
        .iter()
        .map(|prefix| {
            let name = prefix.trim_end_matches('.');
            parameters.root().part(name).parameter("weight", &[], Init::ONES).unwrap()
        })
        .collect();
    let workload = Box::new(Weights { parameters, weights, updates });
    let execution = Execution { micro_batches, ..Execution::plain(Device::Cpu, 1) };
    Trainer::with_clock(workload, Box::new(Numbers(1)), execution, world, None, device.clock()).unwrap()
}

/// Trains a workload of the catalog under the plan `dp1`, on the CPU and on synthetic samples.
pub(crate) fn trainer_of(workload: &str, samples: usize) -> Trainer {
    const SEED: u64 = 7;
    let workload = Catalog::embedded().get(workload).expect("a workload of the catalog").clone();
    let model = models::build(&workload, Device::Cpu).unwrap();
    let data = data::open(workload.model.samples(), None, SEED, Device::Cpu).unwrap();
    Trainer::new(model, data, Execution::plain(Device::Cpu, samples)).unwrap()
}

#[test]
fn a_full_ring_waits_for_its_oldest_step_and_a_rest_for_all() {
    let device = Scripted::at(0);
    let mut trainer = trainer(&device, 1, 1);
    let mut ends = Vec::new();
    for _ in 0..6 {
        device.will_work(&[MS, 3 * MS, 5 * MS, MS]);
        trainer.issue().unwrap();
        while let Some(completed) = trainer.completed(4).unwrap() {
            ends.push(completed.end.0 / MS);
        }
    }
    assert_eq!(ends, [10, 20], "the host runs four steps ahead");
    let last = [0; 4].map(|_| trainer.completed(0).unwrap().unwrap());
    assert_eq!(last.each_ref().map(|step| step.end.0 / MS), [30, 40, 50, 60]);
    assert_eq!(trainer.completed(0).unwrap(), None);
    // 1 - 0.5 - 1 - 1.5 - 2 - 2.5 of the weight before the sixth update, times the sample 6.
    assert_eq!(last[3].loss, -6.5 * 6.0, "the loss is that of its own step");
}

#[test]
fn phases_are_added_up_over_updates_and_micro_batches() {
    let device = Scripted::at(0);
    let mut trainer = trainer(&device, 2, 3);
    // Data, forward and backward of three micro-batches, then the optimizer, for either network.
    for network in [1, 10] {
        device.will_work(&[MS * network; 9]);
        device.will_work(&[MS * network * 7]);
    }
    trainer.issue().unwrap();
    let completed = trainer.completed(0).unwrap().unwrap();
    let all = Some(Nanos(33 * MS));
    let phases = Phases {
        data_ns: all,
        forward_ns: all,
        backward_ns: all,
        optimizer_ns: Some(Nanos(77 * MS)),
        ..Phases::default()
    };
    assert_eq!((completed.phases, completed.dur), (phases, Nanos(176 * MS)));
    assert_eq!(completed.sent_bytes, None, "it is alone");
    assert_eq!((completed.timing, completed.samples), (Timing::DeviceEvent, 3));
    assert_eq!(completed.loss, 2.0, "the mean over the samples 1, 2 and 3 of the first network's loss");
}

#[test]
fn what_ranks_share_is_told_with_the_step() {
    for (end, is_told) in [(Some(Nanos(u64::MAX)), true), (None, false)] {
        let device = Scripted::at(0);
        let mut trainer = trainer_among(Observed::world(move |_: &Tensor| Ok(Ok(end))), &device, 2, 2);
        // Data, forward and backward of two micro-batches, then the exposed part of the sum, then the optimizer.
        for network in [1, 10] {
            device.will_work(&[MS * network; 6]);
            device.will_work(&[MS * network * 3, MS * network * 7]);
        }
        trainer.issue().unwrap();
        let completed = trainer.completed(0).unwrap().unwrap();
        let Phases { sync_exposed_ns, optimizer_ns, sync_total_ns, .. } = completed.phases;
        assert_eq!((sync_exposed_ns, optimizer_ns), (Some(Nanos(33 * MS)), Some(Nanos(77 * MS))));
        assert_eq!(sync_total_ns.is_some(), is_told);
        assert_eq!(completed.sent_bytes, Some(2 * 4), "each update sends its one weight, once");
    }
}

#[test]
fn steps_before_one_that_cannot_be_issued_are_taken_all_the_same() {
    let device = Scripted::at(0);
    let mut trainer = trainer(&device, 1, 8);
    device.will_work(&[MS; 3 * (3 * 8 + 1)]);
    trainer.issue().unwrap();
    trainer.issue().unwrap();
    let error = trainer.issue().unwrap_err();
    assert!(matches!(error, StepError::Data(_)), "{error}");
    for end in [25, 50] {
        assert_eq!(trainer.completed(0).unwrap().unwrap().end, Nanos(end * MS));
    }
    assert_eq!(trainer.completed(0).unwrap(), None);
}

#[test]
fn an_error_of_the_device_surfaces_where_its_step_is_taken() {
    let device = Scripted::at(0);
    let mut trainer = trainer(&device, 1, 1);
    for _ in 0..2 {
        device.will_work(&[0, 0, 0, 10 * MS]);
        trainer.issue().unwrap();
    }
    device.break_from(15 * MS);
    assert_eq!(trainer.completed(0).unwrap().unwrap().end, Nanos(10 * MS), "it was done before");
    let error = trainer.completed(0).unwrap_err();
    assert!(matches!(error, StepError::Device(_)), "{error}");
    assert!(error.to_string().contains("illegal memory access"), "{error}");
}
