//! Every workload of the set quick, and what a deep one holds.

use std::collections::BTreeMap;

use schema::{
    catalog::{Catalog, Gpt2, Model, Workload},
    plan::Axis,
};
use tch::{Device, Kind, Tensor};
use torch_worker::{
    data, models,
    nn::parameters::Entry,
    recompute::enter,
    shim::{
        autograd::{AutocastBf16, backward, clear_gradients},
        memory::{count_cpu_tensors, reset_peak, tensor_memory},
    },
    step::{Execution, Trainer},
    workload::Batch,
};

use crate::turn;

fn catalog(name: &str) -> Workload {
    Catalog::embedded().get(name).expect("the catalog has it").clone()
}

/// With much noise wherever a model has any, so that no random number can be drawn twice unseen.
fn noisy(workload: &Workload) -> Workload {
    let mut tagged = serde_json::to_value(&workload.model).unwrap();
    for sizes in tagged.as_object_mut().unwrap().values_mut() {
        for noise in ["dropout", "stochastic_depth"] {
            if let Some(share) = sizes.get_mut(noise) {
                *share = 0.3.into();
            }
        }
    }
    Workload { model: serde_json::from_value(tagged).unwrap(), ..workload.clone() }
}

/// What a pass through all updates of a step leaves behind.
struct Left {
    losses: Vec<f64>,
    /// Gradients of each update, by parameter of any network.
    gradients: BTreeMap<(usize, String), Tensor>,
    /// Running statistics.
    buffers: BTreeMap<String, Tensor>,
    /// What the generator gives next.
    drawn: Tensor,
}

#[derive(Clone, Copy, Debug)]
struct Way {
    recomputes: bool,
    bf16: bool,
    micro_batches: usize,
}

fn pass(workload: &Workload, way: Way) -> Left {
    tch::manual_seed(1);
    let model = models::build(workload, Device::Cpu).unwrap();
    let mut stream = data::of(&*model, workload.model.samples(), None, 1, Device::Cpu).unwrap();
    let batches: Vec<Batch> = (0..way.micro_batches).map(|_| stream.next(3).unwrap()).collect();
    tch::manual_seed(2);
    let (mut losses, mut gradients) = (Vec::new(), BTreeMap::new());
    let updates = model.updates();
    for (index, update) in updates.iter().enumerate() {
        let own = model.parameters().with_prefix(update.parameter_prefix);
        let differentiated = if updates.len() == 1 { &[] } else { &own[..] };
        for batch in &batches {
            let loss = {
                let _recompute = enter(way.recomputes);
                let _autocast = way.bf16.then(|| AutocastBf16::enter(Device::Cpu).unwrap());
                model.loss(index, batch).unwrap()
            };
            losses.push(loss.double_value(&[]));
            backward(&loss, differentiated).unwrap();
        }
        let has_one = |entry: &&Entry| entry.is_trainable() && entry.tensor().grad().defined();
        for entry in model.parameters().state().filter(has_one) {
            gradients.insert((index, entry.name().to_owned()), entry.tensor().grad().copy());
        }
        clear_gradients(&model.parameters().with_prefix("")).unwrap();
    }
    let buffers = model.parameters().state().filter(|entry| !entry.is_trainable());
    let buffers = buffers.map(|entry| (entry.name().to_owned(), entry.tensor().copy())).collect();
    Left { losses, gradients, buffers, drawn: Tensor::rand([4], (Kind::Float, Device::Cpu)) }
}

/// Whether gradients are added up in another order, as [`torch_worker::recompute`] tells: the encoder's output goes to all
/// layers of the decoder, twice to each.
fn is_summed_otherwise(workload: &Workload) -> bool {
    matches!(workload.model, Model::T5(_) | Model::Transformer(_))
}

#[test]
fn gradients_losses_statistics_and_random_numbers_are_those_without() {
    let _turn = turn();
    let catalog = Catalog::embedded();
    let mut compared = 0;
    for workload in catalog.set("quick").filter(|workload| workload.axes.contains(&Axis::Gc)).map(noisy) {
        for (bf16, micro_batches) in [(false, 2), (true, 1)] {
            let way = Way { recomputes: false, bf16, micro_batches };
            let plain = pass(&workload, way);
            let ours = pass(&workload, Way { recomputes: true, ..way });
            let name = format!("{} with {way:?}", workload.name);
            assert_eq!(ours.losses, plain.losses, "{name}");
            assert_eq!(ours.drawn, plain.drawn, "{name}");
            assert!(ours.buffers == plain.buffers, "running statistics of {name}");
            assert!(ours.gradients.keys().eq(plain.gradients.keys()), "{name}: the same parameters learn");
            for (place, expected) in &plain.gradients {
                let gradient = &ours.gradients[place];
                if is_summed_otherwise(&workload) {
                    let apart = (gradient - expected).abs().max().double_value(&[]);
                    let allowed = 2e-6 * expected.abs().max().double_value(&[]);
                    assert!(apart <= allowed, "{name}: {place:?} is {apart} apart");
                } else {
                    assert!(gradient == expected, "{name}: {place:?}");
                }
            }
            compared += plain.gradients.len();
        }
    }
    assert!(compared > 500, "{compared}");
}

/// A GPT-2 of twelve narrow layers.
fn deep() -> Workload {
    let gpt2 = Gpt2 { vocabulary: 64, context: 64, layers: 12, width: 64, heads: 4 };
    Workload { model: Model::Gpt2(gpt2), ..catalog("gpt2-mini") }
}

fn allocated() -> u64 {
    tensor_memory(Device::Cpu).unwrap().allocated_bytes
}

#[test]
fn twelve_layers_hold_a_quarter_after_the_forward_pass_and_nothing_after_the_backward_pass() {
    let _turn = turn();
    count_cpu_tensors();
    let workload = deep();
    let model = models::build(&workload, Device::Cpu).unwrap();
    let batch = data::open(workload.model.samples(), None, 1, Device::Cpu).unwrap().next(8).unwrap();
    let before = allocated();
    let [plain, ours] = [false, true].map(|recomputes| {
        let loss = || {
            let _recompute = enter(recomputes);
            model.loss(0, &batch).unwrap()
        };
        let abandoned = loss();
        let held = allocated() - before;
        drop(abandoned);
        assert_eq!(allocated(), before, "a graph without a backward pass is freed whole");
        backward(&loss(), &[]).unwrap();
        clear_gradients(&model.parameters().with_prefix("")).unwrap();
        assert_eq!(allocated(), before, "so is one that had it");
        held
    });
    println!("held after the forward pass: {plain} bytes, {ours} with checkpointing");
    assert!(4 * ours <= plain, "{plain} became {ours}");
    // The input of each layer, the tensors that the head saves, and the state of the generator.
    let activation = 8 * 64 * 64 * 4;
    assert!(ours > 13 * activation && ours < 18 * activation, "{ours}");
}

#[test]
fn a_step_that_recomputes_makes_the_same_update_in_less_memory() {
    let _turn = turn();
    count_cpu_tensors();
    let workload = deep();
    let [plain, ours] = [false, true].map(|recompute| {
        tch::manual_seed(1);
        let model = models::build(&workload, Device::Cpu).unwrap();
        let parameters = model.parameters().with_prefix("");
        let samples = data::open(workload.model.samples(), None, 1, Device::Cpu).unwrap();
        let execution = Execution { micro_batches: 2, recompute, ..Execution::plain(Device::Cpu, 8) };
        let mut trainer = Trainer::new(model, samples, execution).unwrap();
        let before = allocated();
        reset_peak(Device::Cpu).unwrap();
        let losses = [0; 2].map(|_| {
            trainer.issue().unwrap();
            trainer.completed(0).unwrap().unwrap().loss
        });
        let peak = tensor_memory(Device::Cpu).unwrap().peak_bytes - before;
        (losses, parameters, peak)
    });
    assert_eq!(ours.0, plain.0);
    assert!(ours.1 == plain.1, "parameters after two steps");
    assert!(2 * ours.2 < plain.2, "the peak of {} became {}", plain.2, ours.2);
}
