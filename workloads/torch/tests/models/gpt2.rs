//! GPT-2 against single operations and against Hugging Face's implementation.

use schema::catalog::{Gpt2, Model};
use tch::{Device, Kind, Reduction, Tensor};
use torch_worker::workload;

use crate::{
    operations::{State, assert_same_training, draw, layer_norm, linear},
    reference::assert_equal_to_reference,
    support::{assert_deviation, batch, build, catalog, state},
};

/// GPT-2 once more, in single operations: attention as a product, a mask, a softmax and a product.
fn gpt2_loss(state: &State, batch: &workload::Batch, layers: u32, heads: i64) -> Tensor {
    let get = |name: &str| &state[name];
    let (samples, tokens) = batch.inputs.size2().unwrap();
    let norm = |x: &Tensor, name: &str| layer_norm(state, name, x, 1e-5);
    let linear = |x: &Tensor, name: &str| linear(state, name, x);
    let future = Tensor::ones([tokens, tokens], (Kind::Bool, Device::Cpu)).triu(1);

    let mut x = get("wte.weight").index_select(0, &batch.inputs.flatten(0, -1)).view([samples, tokens, -1])
        + get("wpe.weight");
    let width = x.size()[2];
    for layer in 0..layers {
        let name = |part: &str| format!("h.{layer}.{part}");
        let qkv = linear(&norm(&x, &name("ln_1")), &name("attn.c_attn"));
        let per_head = |index: i64| {
            qkv.narrow(2, index * width, width).view([samples, tokens, heads, width / heads]).transpose(1, 2)
        };
        let scores = per_head(0).matmul(&per_head(1).transpose(2, 3)) / ((width / heads) as f64).sqrt();
        let weights = scores.masked_fill(&future, f64::NEG_INFINITY).softmax(-1, None);
        let mixed = weights.matmul(&per_head(2)).transpose(1, 2).reshape([samples, tokens, width]);
        x += linear(&mixed, &name("attn.c_proj"));
        let inner = linear(&norm(&x, &name("ln_2")), &name("mlp.c_fc"));
        // Hendrycks and Gimpel, 2016: the approximation by tanh.
        let inside: Tensor =
            (&inner + 0.044_715 * inner.pow_tensor_scalar(3)) * (2.0 / std::f64::consts::PI).sqrt();
        let inner = 0.5 * inner * (1.0 + inside.tanh());
        x += linear(&inner, &name("mlp.c_proj"));
    }
    let logits = norm(&x, "ln_f").matmul(&get("wte.weight").tr());
    logits.flatten(0, 1).cross_entropy_loss::<Tensor>(
        &batch.targets.flatten(0, 1),
        None,
        Reduction::Mean,
        -100,
        0.0,
    )
}

#[test]
fn gpt2_equals_single_operations() {
    let workload = catalog("gpt2-mini");
    let model = build(&workload);
    let (batch, state) = (batch(&workload, 2), state(model.as_ref()));
    draw(&state);
    let expected = gpt2_loss(&state, &batch, 4, 8);
    assert_same_training(&state, &model.loss(0, &batch).unwrap(), &expected, 1e-3);
}

#[test]
fn gpt2_equals_the_one_of_transformers() {
    let model = Gpt2 { vocabulary: 64, context: 16, layers: 2, width: 32, heads: 4 };
    assert_equal_to_reference("gpt2", Model::Gpt2(model));
}

#[test]
fn initial_weights_have_the_spread_that_the_paper_gives() {
    let model = build(&catalog("gpt2-mini"));
    assert_deviation(model.as_ref(), "wte.weight", 0.02);
    assert_deviation(model.as_ref(), "h.3.mlp.c_fc.weight", 0.02);
    assert_deviation(model.as_ref(), "h.3.mlp.c_proj.weight", 0.02 / 8.0_f64.sqrt());
}
