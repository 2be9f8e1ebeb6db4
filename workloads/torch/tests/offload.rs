//! Updates in host memory are those on the device, to the last bit where both are a CPU.

#[path = "common/optimizers.rs"]
mod optimizers;

use std::iter;

use schema::catalog::{self, Catalog};
use tch::{Device, Kind, Tensor};
use torch_worker::{
    clock::Phase,
    data, models,
    nn::channels_last,
    optimizer::{GradientNorm, Home, Optimizer},
    shim::autograd::backward,
    step::{Completed, Execution, Trainer},
};

use self::optimizers::OPTIMIZERS;

const STEPS: usize = 10;
const HOST: Home = Home::Host { threads: 2 };

/// No random numbers: tests run side by side in one process and would draw from the same generator.
fn values(shape: &[i64], rate: f64, kind: Kind) -> Tensor {
    let count = shape.iter().product::<i64>();
    (Tensor::arange(count, (kind, Device::Cpu)) * rate).sin().view(shape)
}

/// Small parameters, one that is channels-last, one of several chunks, and one that never has a gradient.
struct Problem {
    parameters: Vec<Tensor>,
    targets: Vec<Tensor>,
    optimizer: Optimizer,
}

const SHAPES: [&[i64]; 6] = [&[7], &[16, 3, 3, 3], &[2, 5], &[1021, 1031], &[1], &[30]];

impl Problem {
    fn new(settings: catalog::Optimizer, kind: Kind, home: Home) -> Self {
        let laid_out =
            |tensor: Tensor| if tensor.dim() == 4 { channels_last(&tensor).unwrap() } else { tensor };
        let start = |shape: &&[i64]| laid_out(values(shape, 0.7, kind)).set_requires_grad(true);
        let parameters: Vec<_> = SHAPES.iter().map(start).collect();
        let targets = SHAPES.iter().map(|shape| values(shape, 1.3, kind) + 0.5).collect();
        let handles = parameters.iter().map(Tensor::shallow_clone).collect();
        Self { parameters, targets, optimizer: Optimizer::new(settings, handles, home).unwrap() }
    }

    /// Makes a step; gives the phases that it told of.
    fn step(&mut self, norm_max: Option<f64>) -> Vec<Phase> {
        let with_gradient = self.parameters.iter().zip(&self.targets).take(SHAPES.len() - 1);
        let losses = with_gradient.map(|(parameter, target)| (parameter - target).square().sum(None));
        backward(&losses.sum::<Tensor>(), &[]).unwrap();
        if let Some(norm_max) = norm_max {
            self.optimizer.clip_gradients(norm_max, &GradientNorm::Own).unwrap();
        }
        let mut phases = Vec::new();
        let mut lap = |phase| {
            phases.push(phase);
            Ok(())
        };
        self.optimizer.step(&mut lap).unwrap();
        self.optimizer.clear_gradients().unwrap();
        phases
    }

    fn assert_equals(&self, other: &Self, case: &str) {
        for (index, (one, two)) in self.parameters.iter().zip(&other.parameters).enumerate() {
            assert_eq!(one.stride(), two.stride(), "{case}: layout of parameter {index}");
            assert!(one.equal(two), "{case}: parameter {index}");
        }
        let (one, two) = (self.optimizer.state(), other.optimizer.state());
        assert_eq!(one.len(), two.len());
        for ((kind, one), (same, two)) in one.iter().zip(two) {
            assert_eq!(*kind, same);
            assert!(one.iter().zip(two).all(|(one, two)| one.equal(two)), "{case}: {kind}");
        }
    }
}

#[test]
fn an_update_in_host_memory_is_that_on_the_device_to_the_last_bit() {
    for (name, settings) in OPTIMIZERS {
        for kind in [Kind::Float, Kind::Double] {
            for norm_max in [None, Some(0.5)] {
                let case = format!("{name}, {kind:?}, clipped to {norm_max:?}");
                let mut device = Problem::new(settings, kind, Home::Device);
                let mut host = Problem::new(settings, kind, HOST);
                for _ in 0..STEPS {
                    assert_eq!(device.step(norm_max), []);
                    let phases = host.step(norm_max);
                    let chunks = if kind == Kind::Float { 2 } else { 3 };
                    let expected = iter::once(Phase::Optimizer)
                        .chain(iter::repeat_n([Phase::Offload, Phase::Optimizer], chunks).flatten())
                        .chain([Phase::Offload]);
                    assert_eq!(phases, expected.collect::<Vec<_>>(), "{case}");
                }
                host.assert_equals(&device, &case);
                let start = values(SHAPES[5], 0.7, kind);
                assert!(host.parameters[5].equal(&start), "{case}: it has no gradient and stays");
                assert!(!host.parameters[3].equal(&values(SHAPES[3], 0.7, kind)), "{case}: nothing moved");
            }
        }
    }
}

#[test]
fn state_of_one_home_goes_on_in_the_other() {
    for (name, settings) in OPTIMIZERS {
        for (from, to) in [(Home::Device, HOST), (HOST, Home::Device)] {
            let mut whole = Problem::new(settings, Kind::Float, from);
            for _ in 0..3 {
                whole.step(None);
            }
            let mut resumed = Problem::new(settings, Kind::Float, to);
            resumed.step(None);
            tch::no_grad(|| {
                for (to, from) in resumed.parameters.iter_mut().zip(&whole.parameters) {
                    to.copy_(from);
                }
            });
            resumed.optimizer.reload_parameters().unwrap();
            for ((kind, from), (same, to)) in whole.optimizer.state().iter().zip(resumed.optimizer.state()) {
                assert_eq!(*kind, same);
                to.iter().zip(*from).for_each(|(to, from)| to.shallow_clone().copy_(from));
            }
            for _ in 0..3 {
                whole.step(None);
                resumed.step(None);
            }
            resumed.assert_equals(&whole, &format!("{name} from {from:?} to {to:?}"));
        }
    }
}

/// Trains `STEPS` steps; gives them, and everything the model then holds.
fn train(name: &str, offload: Option<u32>) -> (Vec<Completed>, Vec<Tensor>) {
    let workload = Catalog::embedded().get(name).unwrap().clone();
    tch::manual_seed(7);
    let model = models::build(&workload, Device::Cpu).unwrap();
    let samples = data::of(&*model, workload.model.samples(), None, 7, Device::Cpu).unwrap();
    let execution = Execution { micro_batches: 2, offload, ..Execution::plain(Device::Cpu, 4) };
    let mut trainer = Trainer::new(model, samples, execution).unwrap();
    let step = |_| {
        trainer.issue().unwrap();
        trainer.completed(0).unwrap().unwrap()
    };
    let steps = (0..STEPS).map(step).collect();
    let state = trainer.workload().parameters().state().map(|entry| entry.tensor().detach().copy()).collect();
    (steps, state)
}

/// All of it is one test, as all draw from torch's one generator.
#[test]
fn whole_trainings_are_the_same_under_both_homes() {
    // DCGAN has two updates a step, PPO clips its gradients, and in TD3 target networks follow the others' parameters.
    for name in ["dcgan-mini", "ppo-cartpole", "resnet18-mini", "td3-pendulum"] {
        let (device, expected) = train(name, None);
        let (host, state) = train(name, Some(1));
        for (index, (device, host)) in device.iter().zip(&host).enumerate() {
            assert_eq!(device.loss.to_bits(), host.loss.to_bits(), "{name}, step {index}");
            assert_eq!(device.phases.offload_ns, None);
            let phases = &host.phases;
            let parts = [
                phases.data_ns,
                phases.forward_ns,
                phases.backward_ns,
                phases.optimizer_ns,
                phases.offload_ns,
            ];
            let sum: u64 = parts.map(|part| part.expect("this plan has the phase").0).iter().sum();
            assert!(
                phases.offload_ns.is_some_and(|time| time.0 > 0) && sum <= host.dur.0,
                "{name}: {host:?}"
            );
        }
        assert!(expected.iter().zip(&state).all(|(device, host)| device.equal(host)), "{name}");
    }
}
