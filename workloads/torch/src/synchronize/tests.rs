//! Several ranks against one that does all the work, on models that each show one difficulty.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use front_door::LONG;
use schema::{
    catalog::Optimizer,
    mesh::Mesh,
    spec::Collectives,
    wire::{FailureKind, Phases},
};
use tch::{Device, Kind, TchError, Tensor};

use super::*;
use crate::{
    failure::Failure,
    group::{
        Meeting,
        observed::{Observed, SumMade},
        threads::Thread,
    },
    nn::{channels_last, init::Init, parameters::Parameters},
    shim::autograd::{backward, clear_gradients},
    step::{Execution, StepError, Trainer},
    workload::{Batch, DataStream, Share, Update, Workload},
    world::World,
};

/// Samples of a step, all ranks together: it can be cut into 2, 3, 4 and 6 parts.
const SAMPLES: usize = 12;
const STEPS: usize = 3;
/// Size of a sample.
const WIDTH: i64 = 48;
/// Width of the hidden layer: the square weight at the end is large enough to be summed on its own.
const HIDDEN: i64 = 512;

/// The difficulty of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Difficulty {
    Nothing,
    /// The first layer's weight is the last one's, too.
    Tied,
    /// Three weights are not used, a large one among them.
    Unused,
    /// The first layer is a convolution, whose weight is kept channels-last.
    ChannelsLast,
    /// The weight of the convolution is large.
    LargeChannelsLast,
    /// The last layer's weight is the sum of two, so that autograd makes the gradient of one from that of
    /// the other.
    Shared,
    /// Two updates, of a part of the weights each.
    TwoUpdates,
}

/// Two layers with a tanh between and after them.
struct Model {
    difficulty: Difficulty,
    parameters: Parameters,
    first: Tensor,
    last: Tensor,
    /// Half of `last` is added to it.
    added: Option<Tensor>,
    updates: Vec<Update>,
    passes: Arc<AtomicUsize>,
}

/// Distinct numbers between -1 and 1. Tests run in parallel and would share a random generator.
fn wave(shape: &[i64], step: f64) -> Tensor {
    let count = shape.iter().product::<i64>();
    (Tensor::arange(count, (Kind::Float, Device::Cpu)) * step).sin().view(shape)
}

impl Model {
    fn new(difficulty: Difficulty) -> Self {
        let mut parameters = Parameters::new(Device::Cpu);
        let mut parameter = |name: &str, shape: &[i64], step: f64| {
            let weight = parameters.root().part(name).parameter("weight", shape, Init::ONES).unwrap();
            tch::no_grad(|| weight.shallow_clone().copy_(&(wave(shape, step) * 0.05)));
            weight
        };
        let is = |other| difficulty == other;
        let shape: &[i64] = match difficulty {
            Difficulty::ChannelsLast => &[32, 3, 3, 3],
            Difficulty::LargeChannelsLast => &[HIDDEN, WIDTH, 5, 5],
            _ => &[WIDTH, HIDDEN],
        };
        let first = parameter("first", shape, 0.7);
        if is(Difficulty::Unused) {
            let _ = parameter("unused", &[7], 1.1);
            let _ = parameter("unused-large", &[HIDDEN, HIDDEN], 1.7);
        }
        let last = parameter("last", &[HIDDEN, HIDDEN], 0.3);
        let added = is(Difficulty::Shared).then(|| parameter("added", &[HIDDEN, HIDDEN], 0.9));
        if is(Difficulty::Unused) {
            let _ = parameter("unused-too", &[5], 1.3);
        }
        let optimizer = Optimizer::Sgd { learning_rate: 0.5, momentum: 0.9, weight_decay: 0.01 };
        let update = |prefix| Update { name: "part", parameter_prefix: prefix, optimizer };
        let updates = if is(Difficulty::TwoUpdates) {
            vec![update("first."), update("last.")]
        } else {
            vec![update("")]
        };
        Self { difficulty, parameters, first, last, added, updates, passes: Arc::default() }
    }

    /// Bytes that each of this number of ranks sends in a step. A large gradient is moved by itself, and the small ones
    /// of every model fit in one bucket.
    fn sent_bytes(&self, ranks: u64) -> u64 {
        let parameters = self.parameters.with_prefix("");
        let bytes = parameters.iter().map(|parameter| 4 * parameter.numel() as u64);
        let (large, small): (Vec<u64>, Vec<u64>) = bytes.partition(|bytes| *bytes >= 1 << 20);
        let sums = large.into_iter().chain([small.iter().sum()]);
        sums.map(|bytes| 2 * (bytes * (ranks - 1) / ranks)).sum()
    }
}

impl Workload for Model {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn updates(&self) -> &[Update] {
        &self.updates
    }

    fn loss(&self, update: usize, batch: &Batch) -> Result<Tensor, TchError> {
        self.passes.fetch_add(1, Ordering::Relaxed);
        let samples = batch.inputs.size()[0];
        let convolved = |channels: i64, side: i64, padding: i64| {
            let images = batch.inputs.f_view([samples, channels, side, side])?;
            images.f_conv2d::<Tensor>(&self.first, None, 1, padding, 1, 1)?.f_reshape([samples, HIDDEN])
        };
        let hidden = match self.difficulty {
            Difficulty::ChannelsLast => convolved(3, 4, 1)?,
            Difficulty::LargeChannelsLast => convolved(WIDTH, 1, 2)?,
            _ => batch.inputs.f_matmul(&self.first)?,
        };
        let last = match &self.added {
            Some(added) => {
                let half = self.last.f_mul_scalar(0.5)?.f_view([1, HIDDEN, HIDDEN])?;
                half.f_add(&added.f_view([1, HIDDEN, HIDDEN])?)?.f_view([HIDDEN, HIDDEN])?
            }
            None => self.last.shallow_clone(),
        };
        let output = hidden.f_tanh()?.f_matmul(&last)?.f_tanh()?;
        let output = match self.difficulty {
            Difficulty::Tied => output.f_matmul(&self.first.f_transpose(0, 1)?)?,
            _ => output.f_narrow(1, 0, WIDTH)?,
        };
        let sign = [1.0, -1.0][update];
        output.f_mse_loss(&batch.targets, tch::Reduction::Mean)?.f_mul_scalar(sign)
    }
}

/// Samples of all ranks in order. Each rank gets its part of every micro-batch.
struct Samples {
    share: Share,
    micro_batch: u64,
}

impl DataStream for Samples {
    fn next(&mut self, samples: usize) -> anyhow::Result<Batch> {
        let all = self.share.all(samples as u64);
        let begin = self.micro_batch * all + self.share.before(samples as u64);
        self.micro_batch += 1;
        let rows = |step| {
            let whole = wave(&[(STEPS * SAMPLES) as i64, WIDTH], step);
            whole.narrow(0, begin as i64, samples as i64)
        };
        Ok(Batch { inputs: rows(0.37), targets: rows(0.91) })
    }
}

/// The trainer of a data-parallel rank.
fn trainer(model: Model, micro_batches: usize, world: World) -> Trainer {
    let share = Share { rank: world.at.data, ranks: world.mesh.data };
    let samples = SAMPLES / micro_batches / share.ranks as usize;
    let execution = Execution { micro_batches, ..Execution::plain(Device::Cpu, samples) };
    let data = Box::new(Samples { share, micro_batch: 0 });
    Trainer::among(Box::new(model), data, execution, world, None).unwrap()
}

/// What one rank computes of the whole batch.
fn train_alone(difficulty: Difficulty) -> (Vec<f64>, Vec<Tensor>) {
    train(trainer(Model::new(difficulty), 1, World::alone()), None)
}

/// The grid of this number of data-parallel ranks.
fn data_parallel(ranks: u32) -> Mesh {
    Mesh { data: ranks, tensor: 1, stages: 1 }
}

/// Trains; returns the loss of each step, and the parameters at the end.
fn train(mut trainer: Trainer, sent_bytes: Option<u64>) -> (Vec<f64>, Vec<Tensor>) {
    let parameters = trainer.workload().parameters().with_prefix("");
    let losses = (0..STEPS).map(|_| {
        trainer.issue().unwrap();
        assert!(parameters.iter().all(|parameter| !parameter.grad().defined()));
        let completed = trainer.completed(0).unwrap().unwrap();
        assert_eq!(completed.sent_bytes, sent_bytes);
        let Phases { sync_total_ns, sync_exposed_ns, .. } = completed.phases;
        assert_eq!(
            (sync_total_ns.is_some(), sync_exposed_ns.is_some()),
            (sent_bytes.is_some(), sent_bytes.is_some())
        );
        completed.loss
    });
    let losses = losses.collect();
    (losses, parameters.iter().map(|parameter| parameter.detach().copy()).collect())
}

/// Trains on several ranks in threads, and returns the result of each.
fn train_together(
    worlds: Vec<World>,
    difficulty: Difficulty,
    micro_batches: usize,
) -> Vec<(Vec<f64>, Vec<Tensor>)> {
    let rank = |world: World| {
        thread::spawn(move || {
            let model = Model::new(difficulty);
            let sent_bytes = model.sent_bytes(world.mesh.data.into());
            train(trainer(model, micro_batches, world), Some(sent_bytes))
        })
    };
    let threads: Vec<_> = worlds.into_iter().map(rank).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// Compares the results of the ranks with those of one rank on the whole batch.
fn assert_computed(whole: &(Vec<f64>, Vec<Tensor>), ranks: &[(Vec<f64>, Vec<Tensor>)], what: &str) {
    for (_, parameters) in ranks {
        for (index, (shared, whole)) in parameters.iter().zip(&whole.1).enumerate() {
            let difference = (shared - whole).abs().max().double_value(&[]);
            assert!(difference < 1e-6, "{what}: parameter {index} differs by {difference}");
            assert_eq!(*shared, ranks[0].1[index], "{what}: ranks differ in parameter {index}");
        }
    }
    for (step, whole) in whole.0.iter().enumerate() {
        let mean = ranks.iter().map(|(losses, _)| losses[step]).sum::<f64>() / ranks.len() as f64;
        assert!((mean - whole).abs() < 1e-6, "{what}: loss {mean}, and {whole} of the whole batch");
    }
}

#[test]
fn ranks_and_micro_batches_compute_what_one_rank_computes_of_the_whole_batch() {
    use Difficulty::{ChannelsLast, LargeChannelsLast, Nothing, Shared, Tied, TwoUpdates, Unused};
    for difficulty in [Nothing, Tied, Unused, ChannelsLast, LargeChannelsLast, Shared, TwoUpdates] {
        let whole = train_alone(difficulty);
        for (ranks, micro_batches) in [(2, 1), (3, 1), (4, 1), (2, 2), (2, 3), (3, 2), (4, 3)] {
            let trained = train_together(World::threads(data_parallel(ranks)), difficulty, micro_batches);
            let what = format!("{difficulty:?}, {ranks} ranks, {micro_batches} micro-batches");
            assert_computed(&whole, &trained, &what);
        }
    }
}

#[test]
fn ranks_that_meet_through_gloo_compute_it_too() {
    for (difficulty, ranks, micro_batches) in [
        (Difficulty::Tied, 2, 1),
        (Difficulty::ChannelsLast, 3, 2),
        (Difficulty::LargeChannelsLast, 2, 1),
        (Difficulty::Shared, 2, 2),
        (Difficulty::TwoUpdates, 2, 2),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rendezvous");
        let meet = &|rank| {
            let meeting = Meeting::open(&file, rank, ranks, Collectives::Gloo, Device::Cpu, LONG).unwrap();
            World::meet(&meeting, data_parallel(ranks), rank, true).unwrap()
        };
        let worlds = thread::scope(|scope| {
            let ranks: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || meet(rank))).collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        let whole = train_alone(difficulty);
        let trained = train_together(worlds, difficulty, micro_batches);
        let what = format!("{difficulty:?}, {ranks} ranks, {micro_batches} micro-batches");
        assert_computed(&whole, &trained, &what);
    }
}

#[test]
fn a_parameter_that_takes_part_in_nothing_stays_as_it_is() {
    let model = Model::new(Difficulty::Unused);
    let before: Vec<_> = model.parameters.with_prefix("unused").iter().map(Tensor::copy).collect();
    let mut trainer = trainer(model, 1, World::absent(data_parallel(2), 0));
    for _ in 0..STEPS {
        trainer.issue().unwrap();
        let _ = trainer.completed(0).unwrap();
    }
    // Weight decay would have moved it.
    assert_eq!(trainer.workload().parameters().with_prefix("unused"), before);
}

#[test]
fn sums_begin_in_the_order_of_the_portions_and_not_before_the_last_micro_batch() {
    let model = Model::new(Difficulty::Nothing);
    let (passes, bytes) = (Arc::clone(&model.passes), model.sent_bytes(2));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let world = Observed::world({
        let seen = Arc::clone(&seen);
        move |flat: &Tensor| {
            seen.lock().unwrap().push((passes.load(Ordering::Relaxed), flat.numel() as i64));
            Ok(Ok(None))
        }
    });
    let mut trainer = trainer(model, 3, world);
    for _ in 0..2 {
        trainer.issue().unwrap();
        let completed = trainer.completed(0).unwrap().unwrap();
        assert_eq!((completed.sent_bytes, completed.phases.sync_total_ns), (Some(bytes), None));
    }
    let (large, small) = (HIDDEN * HIDDEN, WIDTH * HIDDEN);
    assert_eq!(*seen.lock().unwrap(), [(3, large), (3, small), (6, large), (6, small)]);
}

#[test]
fn the_first_sum_begins_before_the_backward_pass_has_ended() {
    let model = Model::new(Difficulty::Nothing);
    let first = Mutex::new(model.first.shallow_clone());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let world = Observed::world({
        let seen = Arc::clone(&seen);
        move |_: &Tensor| {
            seen.lock().unwrap().push(first.lock().unwrap().grad().defined());
            Ok(Ok(None))
        }
    });
    let mut trainer = trainer(model, 1, world);
    for _ in 0..STEPS {
        trainer.issue().unwrap();
        let _ = trainer.completed(0).unwrap();
    }
    let later = [false, true];
    assert_eq!(*seen.lock().unwrap(), [[true, true], later, later].concat(), "the first step learns");
}

/// The synchronisation of leaves in a group that triples a gradient at the begin of its sum, so
/// that an operation that reads it later would be wrong. Also returns the group and the place of each sum.
fn tripled(leaves: &[Tensor]) -> (GradientSync, Group, Arc<Mutex<Vec<usize>>>) {
    let places = Arc::new(Mutex::new(Vec::new()));
    let group = Observed::group({
        let places = Arc::clone(&places);
        move |flat: &Tensor| {
            assert_eq!((flat.dim(), flat.is_contiguous()), (1, true));
            places.lock().unwrap().push(flat.data_ptr() as usize);
            let _ = flat.shallow_clone().f_mul_scalar_(3.0)?;
            Ok(Ok(None))
        }
    });
    (GradientSync::new(leaves, group.clone()).unwrap(), group, places)
}

fn leaf(shape: &[i64]) -> Tensor {
    wave(shape, 0.7).set_requires_grad(true)
}

#[test]
fn gradients_are_summed_where_they_lie_and_grow_there() {
    const LARGE: [i64; 4] = [64, 64, 8, 8];
    for shape in [[4, 3, 2, 2], LARGE] {
        for channels_first in [true, false] {
            let mut weight = leaf(&shape).detach();
            if !channels_first {
                weight = channels_last(&weight).unwrap();
            }
            let weight = weight.set_requires_grad(true);
            let factors = wave(&shape, 0.3);
            let (mut sync, group, summed) = tripled(&[weight.shallow_clone()]);
            for step in 0..2 {
                let mut lay = Vec::new();
                for is_last in [false, false, true] {
                    sync.before_backward(is_last);
                    backward(&(&weight * &factors).sum(Kind::Float), &[]).unwrap();
                    let gradient = weight.grad();
                    assert_eq!(gradient.stride(), weight.stride());
                    lay.push(gradient.data_ptr() as usize);
                }
                sync.finish().unwrap();
                assert_eq!(group.take_sent_bytes(), 4 * weight.numel() as u64);
                lay.push(summed.lock().unwrap()[step]);
                assert_eq!(lay, [lay[0]; 4], "{shape:?}, step {step}");
                let error = (weight.grad() - &factors * 9.0).abs().max().double_value(&[]);
                assert!(error < 1e-5, "{shape:?}, step {step}: {error}");
                let in_a_bucket = match &lock(&sync.state).portions[0].numbers {
                    Numbers::Bucket(bucket) => Some(bucket.data_ptr() as usize),
                    Numbers::Left { .. } => None,
                };
                assert_eq!(in_a_bucket, (shape != LARGE).then_some(lay[0]));
                clear_gradients(&[weight.shallow_clone()]).unwrap();
                assert!(!weight.grad().defined());
            }
        }
    }
}

#[test]
fn a_large_gradient_may_come_in_any_layout() {
    const SHAPE: [i64; 2] = [512, 600];
    let weight = leaf(&SHAPE);
    let (mut sync, _, summed) = tripled(&[weight.shallow_clone()]);
    let mut step = |factors: &Tensor, loss: &dyn Fn() -> Tensor| {
        sync.before_backward(true);
        backward(&loss(), &[]).unwrap();
        sync.finish().unwrap();
        let gradient = weight.grad();
        assert_eq!((gradient.stride(), &gradient), (weight.stride(), &(factors * 3.0)));
        assert_eq!(summed.lock().unwrap().last(), Some(&(gradient.data_ptr() as usize)));
        clear_gradients(&[weight.shallow_clone()]).unwrap();
    };
    let factors = wave(&SHAPE, 0.3);
    let ones = factors.ones_like();
    // In its own layout, as one number for all, transposed, and as a part of a larger tensor.
    for _ in 0..2 {
        step(&factors, &|| (&weight * &factors).sum(Kind::Float));
        step(&ones, &|| weight.sum(Kind::Float));
        let turned = factors.transpose(0, 1).contiguous();
        step(&factors, &|| (weight.transpose(0, 1) * &turned).sum(Kind::Float));
        let wider = Tensor::cat(&[&factors, &ones], 1);
        step(&factors, &|| (Tensor::cat(&[&weight, &ones], 1) * &wider).sum(Kind::Float));
    }
}

#[test]
fn what_a_large_gradient_is_made_from_is_not_summed_with_it() {
    const SHAPE: [i64; 2] = [512, 512];
    let (first, second) = (leaf(&SHAPE), leaf(&SHAPE));
    // The second one's sum begins first.
    let (mut sync, _, _) = tripled(&[first.shallow_clone(), second.shallow_clone()]);
    let factors = wave(&SHAPE, 0.3);
    for step in 0..2 {
        sync.before_backward(true);
        let line = |tensor: Tensor| tensor.view([-1]);
        let both = line(&first * 2.0) + line(second.shallow_clone());
        backward(&(both * line(factors.shallow_clone())).sum(Kind::Float), &[]).unwrap();
        sync.finish().unwrap();
        for (leaf, times) in [(&first, 6.0), (&second, 3.0)] {
            let error = (leaf.grad() - &factors * times).abs().max().double_value(&[]);
            assert!(error < 1e-5, "step {step}: {error}");
        }
        clear_gradients(&[first.shallow_clone(), second.shallow_clone()]).unwrap();
    }
}

#[test]
fn a_gradient_may_grow_several_times_in_a_pass_if_it_always_does() {
    for numbers in [3, 512 * 512] {
        assert_additions_are_those_of_the_first_step(&leaf(&[numbers]));
    }
}

fn assert_additions_are_those_of_the_first_step(weight: &Tensor) {
    let mut sync = GradientSync::new(&[weight.shallow_clone()], Thread::group(1).remove(0)).unwrap();
    let mut pass = |additions: usize| {
        sync.before_backward(true);
        // A part of the pass that is a pass of its own, as in recomputation, adds by itself.
        let added = (0..additions).try_for_each(|_| backward(&weight.sum(Kind::Float), &[]));
        let gradient = added.map(|()| {
            sync.finish().unwrap();
            let gradient = weight.grad();
            gradient.defined().then(|| gradient.double_value(&[0]))
        });
        clear_gradients(&[weight.shallow_clone()]).unwrap();
        gradient
    };
    assert_eq!(pass(2).unwrap(), Some(2.0));
    assert_eq!(pass(2).unwrap(), Some(2.0));
    assert_eq!(pass(1).unwrap(), Some(1.0));
    assert_eq!(pass(0).unwrap(), Some(0.0), "it took part in the first step, and may do so on other ranks");
    let error = pass(3).unwrap_err().to_string();
    assert!(error.contains("3 times, 2 in the first step"), "{error}");
}

#[test]
fn a_group_that_fails_ends_the_step_as_a_failure_of_a_collective() {
    let gone = || TchError::Torch("Connection closed by peer".into());
    let made = |made: SumMade| {
        Observed::world(move |_: &Tensor| Ok(made.as_ref().map(|end| *end).map_err(|_| gone())))
    };
    let none_begins = Observed::world(move |_: &Tensor| Err::<SumMade, _>(gone()));
    // The sums of the first step begin at its end, those of the second one within the backward pass.
    let begun = AtomicUsize::new(0);
    let two_begin = Observed::world(move |_: &Tensor| match begun.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => Ok(Ok(None)),
        _ => Err(gone()),
    });
    for (world, steps) in [(made(Err(gone())), 0), (none_begins, 0), (two_begin, 1)] {
        let mut trainer = trainer(Model::new(Difficulty::Nothing), 1, world);
        for _ in 0..steps {
            trainer.issue().unwrap();
            let _ = trainer.completed(0).unwrap();
        }
        let error = trainer.issue().unwrap_err();
        assert!(matches!(error, StepError::Collective(_)), "{error}");
        let failure = Failure::from(error);
        assert_eq!(failure.kind, FailureKind::Collective);
        assert!(failure.message.contains("Connection closed by peer"), "{failure}");
    }
}

#[test]
fn time_under_way_counts_what_overlaps_once() {
    let at = Nanos;
    for (times, total) in [
        (vec![], Some(0)),
        (vec![(10, Some(15))], Some(5)),
        (vec![(10, Some(15)), (20, Some(22))], Some(7)),
        (vec![(10, Some(15)), (12, Some(22))], Some(12)),
        // The second one ends first.
        (vec![(10, Some(30)), (12, Some(22)), (25, Some(31))], Some(21)),
        (vec![(10, Some(15)), (20, None)], None),
    ] {
        let moments: Vec<_> = times.iter().map(|(begin, end)| (at(*begin), end.map(at))).collect();
        assert_eq!(time_under_way(&moments), total.map(at), "{times:?}");
    }
}
