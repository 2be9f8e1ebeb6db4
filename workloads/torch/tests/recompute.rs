//! Activation checkpointing forgets activations and changes nothing else.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use schema::{
    catalog::{Catalog, Gpt2, Model, Workload},
    plan::Axis,
    wire::FailureKind,
};
use tch::{Device, Kind, TchError, Tensor};
use torch_worker::{
    data,
    failure::Failure,
    models,
    nn::relu_in_place,
    recompute::{Segment, enter, is_again, segment},
    shim::{
        autograd::{AutocastBf16, backward, clear_gradients},
        memory::{count_cpu_tensors, reset_peak, tensor_memory},
    },
    step::{Execution, Trainer},
    workload::Batch,
};

/// Initial weights and dropout come from torch's one generator, and memory is counted for the whole process: tests that
/// run side by side must take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    tch::set_num_threads(1);
    turn
}

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
    /// Of each update, by parameter, whatever network that is of.
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
        let has_one = |(_, tensor): &(&str, &Tensor)| tensor.requires_grad() && tensor.grad().defined();
        for (name, tensor) in model.parameters().state().filter(has_one) {
            gradients.insert((index, name.to_owned()), tensor.grad().copy());
        }
        clear_gradients(&model.parameters().with_prefix("")).unwrap();
    }
    let buffers = model.parameters().state().filter(|(_, tensor)| !tensor.requires_grad());
    let buffers = buffers.map(|(name, tensor)| (name.to_owned(), tensor.copy())).collect();
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
    // Of each layer its input, of the head what it saves, and the state of the generator.
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

/// So PyTorch has it on a GPU. The other thread has a state of its own, of autocast and of what is recomputed.
#[test]
fn a_backward_pass_on_another_thread_is_the_same() {
    let _turn = turn();
    let gradient = |recomputes: bool, elsewhere: bool| {
        let weight =
            Tensor::arange(64, (Kind::Float, Device::Cpu)).sin().view([8, 8]).set_requires_grad(true);
        let parameter = weight.shallow_clone();
        tch::manual_seed(3);
        let loss = {
            let _recompute = enter(recomputes);
            let _autocast = AutocastBf16::enter(Device::Cpu).unwrap();
            let forward = move |[x]: [&Tensor; 1]| x.f_matmul(&parameter)?.f_dropout(0.5, true);
            sum(&segment([&weight.detach().cos()], forward).unwrap())
        };
        let pass = move || backward(&loss, &[]).unwrap();
        if elsewhere {
            thread::spawn(pass).join().unwrap()
        } else {
            pass()
        }
        weight.grad()
    };
    let expected = gradient(false, false);
    assert_eq!(gradient(true, false), expected);
    assert_eq!(gradient(true, true), expected);
}

/// Three numbers that require a gradient.
fn leaf() -> Tensor {
    Tensor::from_slice(&[-1.0_f32, 2.0, 3.0]).set_requires_grad(true)
}

fn sum(tensor: &Tensor) -> Tensor {
    tensor.sum(Kind::Float)
}

#[test]
fn a_failure_of_either_run_comes_out_in_its_own_words() {
    let _turn = turn();
    type Fails = fn() -> Result<Tensor, TchError>;
    let out_of_memory = || Err(TchError::Torch("CUDA out of memory. Tried to allocate 2.00 GiB".into()));
    let cases: [(Fails, FailureKind, &str); 3] = [
        (out_of_memory, FailureKind::OutOfMemory, "CUDA out of memory. Tried to allocate 2.00 GiB"),
        (|| leaf().f_reshape([7]), FailureKind::Internal, "shape '[7]' is invalid for input of size 3"),
        (|| panic!("no such layer"), FailureKind::Internal, "no such layer"),
    ];
    for (fails, kind, words) in cases {
        for fails_again in [false, true] {
            let parameter = leaf();
            let forward = move |[input]: [&Tensor; 1]| {
                // Drawn so that a second run must put the generator back, also when it fails.
                let noise = input.f_rand_like()?;
                if is_again() == fails_again { fails() } else { input.f_mul(&parameter)?.f_mul(&noise) }
            };
            let made = {
                let _recompute = enter(true);
                segment([&leaf()], forward)
            };
            tch::manual_seed(5);
            let error = if fails_again {
                backward(&sum(&made.unwrap()), &[]).unwrap_err()
            } else {
                made.unwrap_err()
            };
            let drawn = Tensor::rand([2], (Kind::Float, Device::Cpu));
            tch::manual_seed(5);
            assert_eq!(drawn, Tensor::rand([2], (Kind::Float, Device::Cpu)), "the generator goes on");
            let failure = Failure::from(error);
            assert!(failure.message.contains(words), "{}", failure.message);
            assert_eq!(failure.kind, kind, "{words}");
        }
    }
}

#[test]
fn a_graph_lets_go_of_its_closures_after_the_backward_pass_or_without_one() {
    let _turn = turn();
    let (held, input) = (Arc::new(()), leaf());
    let three_segments = || {
        let _recompute = enter(true);
        (0..3).fold(input.shallow_clone(), |x, _| {
            let held = Arc::clone(&held);
            segment([&x], move |[x]| {
                assert!(Arc::strong_count(&held) > 1);
                x.f_sin()
            })
            .unwrap()
        })
    };
    let (done, abandoned) = (sum(&three_segments()), three_segments());
    assert_eq!(Arc::strong_count(&held), 1 + 3 + 3);
    backward(&done, &[]).unwrap();
    assert_eq!(Arc::strong_count(&held), 1 + 3, "the loss is still there");
    drop(abandoned);
    assert_eq!(Arc::strong_count(&held), 1);
    let error = backward(&done, &[]).unwrap_err().to_string();
    assert!(error.contains("backward through the graph a second time"), "{error}");
}

#[test]
fn an_input_that_is_overwritten_is_an_error_and_never_another_gradient() {
    let _turn = turn();
    let _recompute = enter(true);
    let overwritten = "modified by an inplace operation";
    let sine = |[x]: [&Tensor; 1]| x.f_sin();

    let relu = |[x]: [&Tensor; 1]| relu_in_place(x.shallow_clone());
    let error = segment([&(leaf() + 1.0)], relu).unwrap_err().to_string();
    assert!(error.contains("a view of a leaf Variable that requires grad"), "{error}");

    let (weight, images) = (leaf(), leaf().detach());
    let made = segment([&images], move |[x]| relu_in_place(x.shallow_clone())?.f_mul(&weight)).unwrap();
    let error = backward(&sum(&made), &[]).unwrap_err().to_string();
    assert!(error.contains(overwritten), "{error}");

    let between = segment([&leaf()], sine).unwrap();
    let made = segment([&between], sine).unwrap();
    let _ = relu_in_place(between).unwrap();
    let error = backward(&sum(&made), &[]).unwrap_err().to_string();
    assert!(error.contains(overwritten), "{error}");

    // An output that no segment takes may be, as of any other operation that does not keep it.
    let [first, second] = [leaf(), leaf()];
    backward(&sum(&relu_in_place(segment([&first], sine).unwrap()).unwrap()), &[]).unwrap();
    backward(&sum(&second.sin().relu()), &[]).unwrap();
    assert_eq!(first.grad(), second.grad());
}

#[test]
fn gradients_go_where_the_pass_is_asked_for_them_and_each_run_is_made_once() {
    let _turn = turn();
    let runs = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    let (input, [asked, other]) = (leaf(), [leaf(), leaf()]);
    let loss = {
        let (runs, asked, other) = (Arc::clone(&runs), asked.shallow_clone(), other.shallow_clone());
        let _recompute = enter(true);
        let outer = move |[x]: [&Tensor; 1]| {
            let (runs, other) = (Arc::clone(&runs), other.shallow_clone());
            runs[0].fetch_add(1, Ordering::Relaxed);
            let inner = segment([&x.f_mul(&asked)?], move |[x]| {
                runs[1].fetch_add(1, Ordering::Relaxed);
                x.f_mul(&other)
            });
            // A parameter may be used twice.
            inner?.f_add(&asked)
        };
        sum(&segment([&input], outer).unwrap())
    };
    backward(&loss, &[asked.shallow_clone()]).unwrap();
    assert_eq!(asked.grad(), input.detach() * other.detach() + 1.0);
    assert!(!other.grad().defined() && !input.grad().defined());
    let runs = runs.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert_eq!(runs, [2, 2], "a segment inside a segment is none");
}

#[test]
fn without_a_plan_or_without_gradients_nothing_is_recomputed() {
    let _turn = turn();
    let part = Segment::new(Arc::new(AtomicU32::new(0)));
    let run = |input: &Tensor| {
        part.forward([input], |count, [x]| {
            count.fetch_add(1, Ordering::Relaxed);
            x.f_sin()
        })
        .unwrap()
    };
    let runs =
        || part.forward([&leaf()], |count, _| Ok(Tensor::from(i64::from(count.load(Ordering::Relaxed)))));
    backward(&sum(&run(&leaf())), &[]).unwrap();
    {
        let _recompute = enter(true);
        let _plain = enter(false);
        backward(&sum(&run(&leaf())), &[]).unwrap();
    }
    let _recompute = enter(true);
    assert!(!tch::no_grad(|| run(&leaf())).requires_grad());
    assert!(!run(&leaf().detach()).requires_grad(), "nothing in it learns");
    assert_eq!(runs().unwrap().int64_value(&[]), 4);
}
