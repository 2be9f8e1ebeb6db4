//! The training step, on models small enough to know what must come out.

use std::sync::{Arc, Mutex};

use schema::catalog::Optimizer;
use tch::{Device, Kind, Reduction, TchError, Tensor};
use torch_worker::{
    chain::Link,
    nn::{dense::Linear, init::Init, parameters::Parameters},
    shim::autograd::AutocastBf16,
    step::{Execution, Trainer},
    workload::{Batch, Block, DataStream, Supervised, Update, Workload},
};

/// Moves a parameter by exactly its gradient, so that the difference shows the gradient.
const BY_THE_GRADIENT: Optimizer = Optimizer::Sgd { learning_rate: 1.0, momentum: 0.0, weight_decay: 0.0 };

/// The same eight samples, handed out in order.
struct Slices {
    inputs: Tensor,
    targets: Tensor,
    next: i64,
}

impl Slices {
    fn boxed() -> Box<Self> {
        // No random numbers: tests run side by side in one process and would draw from the same generator.
        let values = |width: i64, step: f64| {
            (Tensor::arange(8 * width, (Kind::Float, Device::Cpu)) * step).sin().view([8, width]) + 0.1
        };
        Box::new(Self { inputs: values(4, 0.7), targets: values(2, 1.3), next: 0 })
    }
}

impl DataStream for Slices {
    fn next(&mut self, samples: usize) -> anyhow::Result<Batch> {
        let (first, samples) = (self.next, samples as i64);
        self.next += samples;
        let slice = |tensor: &Tensor| tensor.narrow(0, first, samples);
        Ok(Batch { inputs: slice(&self.inputs), targets: slice(&self.targets) })
    }
}

/// Passes its input on and notes its kind.
struct Probe(Arc<Mutex<Option<Kind>>>);

impl Block for Probe {
    fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        *self.0.lock().unwrap() = Some(input.kind());
        Ok(input.shallow_clone())
    }
}

fn mean_square(output: &Tensor, targets: &Tensor) -> Result<Tensor, TchError> {
    output.f_to_kind(Kind::Float)?.f_mse_loss(targets, Reduction::Mean)
}

/// Makes one step of a linear model; its parameters afterwards, the loss, and the kind of the layer's output.
fn one_step(micro_batches: usize, bf16: bool) -> (Vec<Tensor>, f64, Option<Kind>) {
    let mut parameters = Parameters::new(Device::Cpu);
    let layer = Linear::with_init(parameters.root().part("layer"), 4, 2, Init::Constant(0.3)).unwrap();
    let kind = Arc::new(Mutex::new(None));
    let links: Vec<Box<dyn Link>> = vec![Box::new(layer), Box::new(Probe(Arc::clone(&kind)))];
    let handles = parameters.with_prefix("");
    let workload = Supervised::new(parameters, links, mean_square, BY_THE_GRADIENT);
    let execution = Execution { micro_batches, bf16, ..Execution::plain(Device::Cpu, 8 / micro_batches) };
    let mut trainer = Trainer::new(Box::new(workload), Slices::boxed(), execution).unwrap();
    trainer.issue().unwrap();
    let completed = trainer.completed(0).unwrap().unwrap();
    assert_eq!(completed.samples, 8);
    let kind = *kind.lock().unwrap();
    (handles.iter().map(Tensor::detach).collect(), completed.loss, kind)
}

fn largest_difference(left: &[Tensor], right: &[Tensor]) -> f64 {
    let differences =
        left.iter().zip(right).map(|(left, right)| (left - right).abs().max().double_value(&[]));
    differences.fold(0.0, f64::max)
}

#[test]
fn accumulated_gradients_are_those_of_the_whole_batch() {
    let (whole, whole_loss, _) = one_step(1, false);
    let (cut, cut_loss, _) = one_step(4, false);
    assert!((whole_loss - cut_loss).abs() < 1e-6);
    assert!(largest_difference(&whole, &cut) < 1e-6);
}

#[test]
fn bf16_runs_matrix_work_in_bfloat16_and_keeps_parameters_in_fp32() {
    let (exact, exact_loss, kind) = one_step(1, false);
    assert_eq!(kind, Some(Kind::Float));
    let (rounded, rounded_loss, kind) = one_step(1, true);
    assert_eq!(kind, Some(Kind::BFloat16));
    assert!(rounded.iter().all(|parameter| parameter.kind() == Kind::Float));
    // bfloat16 keeps eight bits: near the exact result and not equal to it.
    let difference = largest_difference(&exact, &rounded);
    assert!(difference > 0.0 && difference < 0.05, "{difference}");
    assert!((exact_loss - rounded_loss).abs() < 0.05);
}

#[test]
fn autocast_ends_with_its_guard() {
    let matrix = Tensor::ones([2, 2], (Kind::Float, Device::Cpu));
    let kind = || matrix.matmul(&matrix).kind();
    assert_eq!(kind(), Kind::Float);
    {
        let _outer = AutocastBf16::enter(Device::Cpu).unwrap();
        assert_eq!(kind(), Kind::BFloat16);
        drop(AutocastBf16::enter(Device::Cpu).unwrap());
        assert_eq!(kind(), Kind::BFloat16, "the inner guard leaves the outer one's state");
    }
    assert_eq!(kind(), Kind::Float);
}

/// Two parameters that work against each other, as a GAN's networks do: `a` minimises `a * b`, then `b` minimises
/// `-a * b`, both with the batch's mean as a factor.
struct Adversaries {
    parameters: Parameters,
    pair: [Tensor; 2],
    updates: [Update; 2],
}

impl Workload for Adversaries {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn updates(&self) -> &[Update] {
        &self.updates
    }

    fn loss(&self, update: usize, batch: &Batch) -> Result<Tensor, TchError> {
        let sign = [1.0, -1.0][update];
        let [a, b] = &self.pair;
        Ok(a * b * batch.inputs.mean(Kind::Float) * sign)
    }
}

#[test]
fn updates_of_a_step_come_in_order_see_the_same_samples_and_move_their_own_parameters() {
    let mut parameters = Parameters::new(Device::Cpu);
    let pair =
        ["a", "b"].map(|name| parameters.root().part(name).parameter("weight", &[], Init::ONES).unwrap());
    let handles = pair.each_ref().map(Tensor::shallow_clone);
    let update = |name, parameter_prefix| Update { name, parameter_prefix, optimizer: BY_THE_GRADIENT };
    let workload = Adversaries { parameters, pair, updates: [update("first", "a."), update("second", "b.")] };
    let data = Slices::boxed();
    let mean = data.inputs.mean(Kind::Float).double_value(&[]);
    let execution = Execution { micro_batches: 2, ..Execution::plain(Device::Cpu, 4) };
    let mut trainer = Trainer::new(Box::new(workload), data, execution).unwrap();
    trainer.issue().unwrap();
    let completed = trainer.completed(0).unwrap().unwrap();

    // The first update sees b = 1, the second sees the a that the first one left.
    let a = 1.0 - mean;
    let b = 1.0 + a * mean;
    for (handle, expected) in handles.iter().zip([a, b]) {
        assert!((handle.double_value(&[]) - expected).abs() < 1e-6);
        assert!(!handle.grad().defined());
    }
    assert!((completed.loss - mean).abs() < 1e-6, "the loss is that of the first update");
}
