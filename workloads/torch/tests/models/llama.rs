//! LLaMA against Hugging Face's implementation.

use schema::catalog::{Llama, Model};

use crate::{
    reference::assert_equal_to_reference,
    support::{assert_deviation, build, catalog, state},
};

#[test]
fn llama_equals_the_one_of_transformers() {
    let model = Llama {
        vocabulary: 64,
        context: 16,
        layers: 2,
        width: 32,
        heads: 4,
        key_value_heads: 2,
        feed_forward: 48,
    };
    assert_equal_to_reference("llama", Model::Llama(model));
}

#[test]
fn initial_weights_have_the_spread_of_transformers() {
    let model = build(&catalog("llama-mini"));
    for name in
        ["model.embed_tokens", "model.layers.3.self_attn.k_proj", "model.layers.3.mlp.down_proj", "lm_head"]
    {
        assert_deviation(model.as_ref(), &format!("{name}.weight"), 0.02);
    }
    assert_eq!(state(model.as_ref())["model.norm.weight"].min().double_value(&[]), 1.0);
}
