//! A job continues from the checkpoint of any plan under any other plan, with the losses of a job that was never stopped.

use std::{collections::BTreeMap, env};

use schema::{
    catalog::Optimizer,
    checkpoint::{Checkpoint, Content},
};

use super::{case, checkpointed, mean, restore, train};
use crate::{
    checkpoint::table,
    parallel::tests::{ADAMW, SGD, largest_difference},
};

const PLANS: [&str; 11] = [
    "dp1",
    "dp2-zero3",
    "tp2",
    "dp2",
    "pp2-ga2",
    "dp2-zero1",
    "dp2-tp2-pp2-ga2",
    "dp2-zero2-offload",
    "tp4",
    "pp4-ga2",
    "dp4-zero3-gc",
];

/// Each tensor of a checkpoint with the number of its numbers, after a check that each of them is stored once.
fn stored_numbers(checkpoint: &Checkpoint) -> BTreeMap<String, usize> {
    let mut numbers = BTreeMap::new();
    for content in [Content::Model, Content::Optimizer] {
        let files: Vec<_> = checkpoint.files.iter().filter(|file| file.content == content).collect();
        table::check(&files).unwrap();
        for stored in files.iter().flat_map(|file| &file.tensors) {
            numbers.insert(stored.name.clone(), stored.shape.iter().product());
        }
    }
    numbers
}

/// Continues from a checkpoint of every plan under `dp1`, from that of `dp1` under every plan, and from every plan under
/// another one; with `TANDEM_SLOW=1` from every plan under every plan.
fn check(model: &str, optimizer: Optimizer) {
    let is_slow = env::var_os("TANDEM_SLOW").is_some_and(|value| value == "1");
    let is_possible = |plan: &&str| model != "resnet" || !plan.contains("tp");
    let plans: Vec<&str> = PLANS.into_iter().filter(is_possible).collect();
    let folder = tempfile::tempdir().unwrap();
    let whole = case(model, optimizer, "dp1").on_ranks(|trainer| [train(trainer), train(trainer)]);
    let [before, expected] = &whole[0];
    let mut names = None;
    let mut wrong = Vec::new();
    for (place_in_plans, from) in plans.iter().enumerate() {
        let place = folder.path().join(from);
        let ours = mean(&checkpointed(&case(model, optimizer, from), &place));
        assert!(largest_difference(&ours, before) <= 1e-9, "{model} {from}: before the checkpoint");
        let written = Checkpoint::read(&place).unwrap();
        let numbers = stored_numbers(&written);
        assert_eq!(*names.get_or_insert_with(|| numbers.clone()), numbers, "{from}");
        for (place_in_targets, to) in plans.iter().enumerate() {
            let is_next = (place_in_plans + 1) % plans.len() == place_in_targets;
            if !is_slow && !is_next && *from != "dp1" && *to != "dp1" {
                continue;
            }
            let case = case(model, optimizer, to);
            let training = case.training();
            let ours = case.on_ranks(|trainer| {
                restore(&training, &place, trainer).unwrap();
                train(trainer)
            });
            let apart = largest_difference(&mean(&ours), expected);
            println!("{apart:.1e} {model} {from} to {to}");
            if apart.is_nan() || apart > 1e-9 {
                wrong.push(format!("{model} {from} to {to}: {apart:.1e}: {ours:?} for {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn gpt2_continues_under_any_plan() {
    check("gpt2", ADAMW);
}

#[test]
fn t5_with_its_tied_embedding_continues_under_any_plan() {
    check("t5", SGD);
}

#[test]
fn resnet_with_its_convolutions_and_buffers_continues_under_any_plan() {
    check("resnet", ADAMW);
}
