//! Segments of a few operations: gradients, threads, freed memory and failures.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use schema::wire::FailureKind;
use tch::{Device, Kind, TchError, Tensor};
use torch_worker::{
    failure::Failure,
    nn::relu_in_place,
    recompute::{self, Segment, enter, is_again},
    shim::autograd::{AutocastBf16, backward},
};

use crate::turn;

/// A segment of one tensor that gives one tensor.
fn segment(
    input: &Tensor,
    forward: impl Fn(&Tensor) -> Result<Tensor, TchError> + Send + 'static,
) -> Result<Tensor, TchError> {
    let forward = move |inputs: &[Tensor]| Ok(vec![forward(&inputs[0])?]);
    let mut outputs = recompute::segment(&[input.shallow_clone()], forward)?;
    assert_eq!(outputs.len(), 1);
    Ok(outputs.remove(0))
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
            let forward = move |x: &Tensor| x.f_matmul(&parameter)?.f_dropout(0.5, true);
            sum(&segment(&weight.detach().cos(), forward).unwrap())
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
            let forward = move |input: &Tensor| {
                // Drawn so that a second run must put the generator back, also when it fails.
                let noise = input.f_rand_like()?;
                if is_again() == fails_again { fails() } else { input.f_mul(&parameter)?.f_mul(&noise) }
            };
            let made = {
                let _recompute = enter(true);
                segment(&leaf(), forward)
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
            segment(&x, move |x| {
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
    let sine = |x: &Tensor| x.f_sin();

    let relu = |x: &Tensor| relu_in_place(x.shallow_clone());
    let error = segment(&(leaf() + 1.0), relu).unwrap_err().to_string();
    assert!(error.contains("a view of a leaf Variable that requires grad"), "{error}");

    let (weight, images) = (leaf(), leaf().detach());
    let made = segment(&images, move |x| relu_in_place(x.shallow_clone())?.f_mul(&weight)).unwrap();
    let error = backward(&sum(&made), &[]).unwrap_err().to_string();
    assert!(error.contains(overwritten), "{error}");

    let between = segment(&leaf(), sine).unwrap();
    let made = segment(&between, sine).unwrap();
    let _ = relu_in_place(between).unwrap();
    let error = backward(&sum(&made), &[]).unwrap_err().to_string();
    assert!(error.contains(overwritten), "{error}");

    // An output that no segment takes may be, as of any other operation that does not keep it.
    let [first, second] = [leaf(), leaf()];
    backward(&sum(&relu_in_place(segment(&first, sine).unwrap()).unwrap()), &[]).unwrap();
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
        let outer = move |x: &Tensor| {
            let (runs, other) = (Arc::clone(&runs), other.shallow_clone());
            runs[0].fetch_add(1, Ordering::Relaxed);
            let inner = segment(&x.f_mul(&asked)?, move |x| {
                runs[1].fetch_add(1, Ordering::Relaxed);
                x.f_mul(&other)
            });
            // A parameter may be used twice.
            inner?.f_add(&asked)
        };
        sum(&segment(&input, outer).unwrap())
    };
    backward(&loss, &[asked.shallow_clone()]).unwrap();
    assert_eq!(asked.grad(), input.detach() * other.detach() + 1.0);
    assert!(!other.grad().defined() && !input.grad().defined());
    let runs = runs.each_ref().map(|count| count.load(Ordering::Relaxed));
    assert_eq!(runs, [2, 2], "a segment inside a segment is just called");
}

#[test]
fn without_a_plan_or_without_gradients_nothing_is_recomputed() {
    let _turn = turn();
    let part = Segment::new(Arc::new(AtomicU32::new(0)));
    let run = |input: &Tensor| {
        let part = part.shallow_clone();
        let counted = move |x: &Tensor| {
            part.with(|count| count.fetch_add(1, Ordering::Relaxed));
            x.f_sin()
        };
        segment(input, counted).unwrap()
    };
    let runs = || part.with(|count| count.load(Ordering::Relaxed));
    backward(&sum(&run(&leaf())), &[]).unwrap();
    {
        let _recompute = enter(true);
        let _plain = enter(false);
        backward(&sum(&run(&leaf())), &[]).unwrap();
    }
    let _recompute = enter(true);
    assert!(!tch::no_grad(|| run(&leaf())).requires_grad());
    assert!(!run(&leaf().detach()).requires_grad(), "nothing in it learns");
    assert_eq!(runs(), 4);
}

#[test]
fn a_carry_of_several_tensors_has_the_gradients_of_each() {
    let _turn = turn();
    let gradients = |recomputes: bool| {
        let [first, second, weight] = [leaf(), leaf() * 2.0, leaf() + 0.5].map(|x| x.detach());
        let leaves = [first, second, weight].map(|x| x.set_requires_grad(true));
        let [first, second, parameter] = leaves.each_ref().map(Tensor::shallow_clone);
        let table = Tensor::from_slice(&[2_i64, 0, 1]);
        let loss = {
            let _recompute = enter(recomputes);
            // Whole numbers and the second tensor go through; the first output takes no part in the loss.
            let forward = move |inputs: &[Tensor]| {
                let [first, second, table] = inputs else { panic!("it has three tensors") };
                let mixed = first.f_mul(&parameter)?.f_add(&second.f_sin()?)?.f_index_select(0, table)?;
                Ok(vec![first.f_cos()?, second.shallow_clone(), mixed, table.shallow_clone()])
            };
            let inputs = [first, second.shallow_clone(), table.shallow_clone()];
            let outputs = recompute::segment(&inputs, forward).unwrap();
            let [_, through, mixed, same] = &outputs[..] else { panic!("it gives four tensors") };
            assert_eq!((through.data_ptr(), same.data_ptr()), (second.data_ptr(), table.data_ptr()));
            sum(&(mixed * through))
        };
        backward(&loss, &[]).unwrap();
        leaves.map(|leaf| leaf.grad())
    };
    assert_eq!(gradients(true), gradients(false));
}
