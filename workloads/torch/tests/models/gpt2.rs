//! GPT-2 against Hugging Face's implementation.

use schema::catalog::{Gpt2, Model};

use crate::{
    reference::assert_equal_to_reference,
    support::{assert_deviation, build, catalog},
};

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
