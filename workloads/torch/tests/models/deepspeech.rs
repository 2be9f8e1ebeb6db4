//! Deep Speech 2 against single operations.

use schema::catalog::Model;
use tch::{Reduction, Tensor};

use crate::{
    operations::{State, assert_same_training, batch_norm, convolution, draw},
    support::{batch, build, catalog, state},
};

/// The states of an LSTM that reads moment after moment of `[samples, time, inputs]`.
fn lstm(state: &State, name: &str, suffix: &str, x: &Tensor) -> Tensor {
    let of = |part: &str| &state[&format!("{name}.{part}_l0{suffix}")];
    let (samples, width) = (x.size()[0], of("weight_hh").size()[1]);
    let zeros = || Tensor::zeros([samples, width], tch::kind::FLOAT_CPU);
    let (mut hidden, mut cell) = (zeros(), zeros());
    let mut all = Vec::new();
    for moment in x.unbind(1) {
        let sums = moment.matmul(&of("weight_ih").tr())
            + of("bias_ih")
            + hidden.matmul(&of("weight_hh").tr())
            + of("bias_hh");
        let gates = sums.chunk(4, 1);
        cell = gates[1].sigmoid() * &cell + gates[0].sigmoid() * gates[2].tanh();
        hidden = gates[3].sigmoid() * cell.tanh();
        all.push(hidden.shallow_clone());
    }
    Tensor::stack(&all, 1)
}

#[test]
fn deepspeech_equals_single_operations() {
    let mut workload = catalog("deepspeech2-mini");
    let Model::Deepspeech(model) = &mut workload.model else { unreachable!("it is a Deep Speech") };
    // Few enough frames for the cells of an LSTM one by one.
    (model.frames, model.letters) = (24, 3);
    let (layers, alphabet) = (model.layers, i64::from(model.alphabet));
    let (model, batch) = (build(&workload), batch(&workload, 3));
    let state = state(model.as_ref());
    draw(&state);

    let layer = |numbers: [u32; 2], x: &Tensor, stride: [i64; 2], padding: [i64; 2]| {
        let sums = convolution(&state, &format!("conv.seq_module.{}", numbers[0]), x, stride, padding);
        batch_norm(&state, &format!("conv.seq_module.{}", numbers[1]), &sums).relu().clamp_max(20.0)
    };
    let first = layer([0, 1], &batch.inputs, [2, 2], [20, 5]);
    let second = layer([3, 4], &first, [2, 1], [10, 5]);
    let mut x = second.flatten(1, 2).transpose(1, 2);
    for index in 0..layers {
        if index > 0 {
            let name = format!("rnns.{index}.batch_norm.module");
            x = batch_norm(&state, &name, &x.transpose(1, 2)).transpose(1, 2);
        }
        let name = format!("rnns.{index}.rnn");
        x = lstm(&state, &name, "", &x) + lstm(&state, &name, "_reverse", &x.flip([1])).flip([1]);
    }
    let normalised = batch_norm(&state, "fc.0.module.0", &x.transpose(1, 2)).transpose(1, 2);
    let logits = normalised.matmul(&state["fc.0.module.1.weight"].tr());
    assert_eq!(logits.size(), [3, 12, alphabet]);
    let expected = Tensor::ctc_loss(
        &logits.log_softmax(-1, None).transpose(0, 1),
        &batch.targets,
        [12; 3],
        [3; 3],
        0,
        Reduction::Mean,
        false,
    );
    assert_same_training(&state, &model.loss(0, &batch).unwrap(), &expected, 1e-4);
}
