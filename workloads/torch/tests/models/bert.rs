//! BERT against Hugging Face's.

use schema::catalog::{Model, Workload};

use crate::{
    reference::assert_equal_to_reference,
    support::{assert_deviation, build, catalog, size_of_part, state},
};

/// The sizes of `scripts/reference_py/bert.py`.
fn small() -> Model {
    let mut workload = catalog("bert-mini");
    let Model::Bert(bert) = &mut workload.model else { unreachable!("it is a BERT") };
    (bert.vocabulary, bert.positions, bert.context) = (64, 16, 16);
    (bert.layers, bert.width, bert.heads, bert.dropout) = (2, 32, 4, 0.0);
    workload.model
}

#[test]
fn loss_and_gradients_are_those_of_transformers() {
    assert_equal_to_reference("bert", small());
}

#[test]
fn the_body_has_its_published_size() {
    let sizes = [("bert-base", 109_482_240), ("bert-large", 335_141_888)];
    for (name, published) in sizes {
        assert_eq!(size_of_part(name, "bert."), published, "{name}");
    }
}

#[test]
fn initial_weights_have_the_spread_of_the_papers_code() {
    let model = build(&catalog("bert-mini"));
    assert_deviation(model.as_ref(), "bert.embeddings.word_embeddings.weight", 0.02);
    assert_deviation(model.as_ref(), "bert.encoder.layer.1.intermediate.dense.weight", 0.02);
    assert_deviation(model.as_ref(), "cls.predictions.transform.dense.weight", 0.02);
}

#[test]
fn dropout_acts_only_where_the_catalog_says_so() {
    let mut workload = catalog("bert-mini");
    // Two losses under dropout may be near each other by chance, sixteen of them are not.
    let spread = |workload: &Workload| {
        let (model, batch) = (build(workload), crate::support::batch(workload, 4));
        let losses = [(); 16].map(|()| model.loss(0, &batch).unwrap().double_value(&[]));
        losses.iter().copied().fold(f64::MIN, f64::max) - losses.iter().copied().fold(f64::MAX, f64::min)
    };
    assert!(spread(&workload) > 1e-4, "no two of the losses differ");
    let Model::Bert(bert) = &mut workload.model else { unreachable!("it is a BERT") };
    bert.dropout = 0.0;
    assert_eq!(spread(&workload), 0.0);
}

#[test]
fn the_head_for_questions_reads_every_token_and_has_no_pooler() {
    let model = build(&catalog("bert-mini-squad"));
    let state = state(model.as_ref());
    assert_eq!(state["qa_outputs.weight"].size(), [2, 128]);
    assert!(!state.keys().any(|name| name.contains("pooler") || name.starts_with("cls.")));
}
