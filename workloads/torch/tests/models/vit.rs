//! Vision transformers against torchvision's.

use schema::catalog::{Model, Vit};
use tch::Tensor;

use crate::{
    reference::assert_equal_to_reference,
    support::{assert_deviation, build, catalog, state},
};

#[test]
fn vit_equals_torchvision() {
    let model = Vit { image: 16, patch: 4, classes: 5, layers: 2, width: 16, heads: 2, feed_forward: 32 };
    assert_equal_to_reference("vit", Model::Vit(model));
}

#[test]
fn initial_weights_are_those_of_torchvision() {
    let model = build(&catalog("vit-mini"));
    assert_deviation(model.as_ref(), "conv_proj.weight", (1.0 / 48.0_f64).sqrt());
    assert_deviation(model.as_ref(), "encoder.pos_embedding", 0.02);
    let uniform = |sides: f64| (2.0 / sides).sqrt();
    let layer = |name: &str| format!("encoder.layers.encoder_layer_3.{name}");
    assert_deviation(model.as_ref(), &layer("self_attention.in_proj_weight"), uniform(4.0 * 128.0));
    assert_deviation(
        model.as_ref(),
        &layer("self_attention.out_proj.weight"),
        (1.0 / (3.0 * 128.0_f64)).sqrt(),
    );
    assert_deviation(model.as_ref(), &layer("mlp.0.weight"), uniform(128.0 + 512.0));
    let zero = |tensor: &Tensor| tensor.abs().max().double_value(&[]) == 0.0;
    let state = state(model.as_ref());
    assert!(["class_token", "heads.head.weight", "conv_proj.bias"].iter().all(|&name| zero(&state[name])));
}
