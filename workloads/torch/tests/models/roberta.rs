//! RoBERTa against Hugging Face's.

use schema::catalog::Model;

use crate::{
    reference::assert_equal_to_reference,
    support::{catalog, size_of_part},
};

/// The sizes of `scripts/reference_py/roberta.py`.
fn small() -> Model {
    let mut workload = catalog("roberta-mini");
    let Model::Roberta(roberta) = &mut workload.model else { unreachable!("it is a RoBERTa") };
    (roberta.vocabulary, roberta.positions, roberta.context) = (64, 16, 16);
    (roberta.layers, roberta.width, roberta.heads, roberta.dropout) = (2, 32, 4, 0.0);
    workload.model
}

#[test]
fn loss_and_gradients_are_those_of_transformers() {
    assert_equal_to_reference("roberta", small());
}

#[test]
fn the_body_with_its_pooler_has_the_published_size() {
    let body = size_of_part("roberta-large", "roberta.");
    // The published body ends in a pooler, a square layer that masked tokens do not use.
    assert_eq!(body + 1024 * 1024 + 1024, 355_359_744);
}
