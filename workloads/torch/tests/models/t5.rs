//! T5 against Hugging Face's.

use schema::catalog::Model;

use crate::{
    reference::assert_equal_to_reference,
    support::{assert_deviation, build, catalog},
};

/// The sizes of `scripts/reference_py/t5.py`.
fn small() -> Model {
    let mut workload = catalog("t5-mini");
    let Model::T5(t5) = &mut workload.model else { unreachable!("it is a T5") };
    (t5.vocabulary, t5.source, t5.target) = (128, 160, 40);
    (t5.layers, t5.width, t5.heads, t5.head_width, t5.feed_forward, t5.dropout) = (2, 16, 4, 6, 40, 0.0);
    workload.model
}

#[test]
fn loss_and_gradients_are_those_of_transformers() {
    assert_equal_to_reference("t5", small());
}

#[test]
fn initial_weights_have_the_spread_of_the_papers_code() {
    let model = build(&catalog("t5-mini"));
    let check = |name: &str, expected: f64| assert_deviation(model.as_ref(), name, expected);
    check("shared.weight", 1.0);
    // Queries are drawn smaller by the root of a head's width, which scores are not divided by.
    check("encoder.block.1.layer.0.SelfAttention.q.weight", (128.0_f64 * 32.0).powf(-0.5));
    check("encoder.block.1.layer.0.SelfAttention.k.weight", 128.0_f64.powf(-0.5));
    check("decoder.block.1.layer.1.EncDecAttention.o.weight", 128.0_f64.powf(-0.5));
    check("decoder.block.1.layer.2.DenseReluDense.wo.weight", 512.0_f64.powf(-0.5));
}
