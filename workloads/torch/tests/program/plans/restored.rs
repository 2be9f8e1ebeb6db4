//! A checkpoint is independent of the plan: written under any plan, it continues under any other without a difference.

use std::path::Path;

use schema::{
    plan::Plan,
    spec::{LaunchSpec, Program, Training},
    wire::{Command, Event},
};

use super::{Case, MODELS, OPTIMIZERS, STEPS, at_once, chosen, largest_difference, losses_of, plans};
use crate::support::Worker;

/// Steps before the checkpoint.
const BEFORE: u64 = 10;

/// A row of the table: a job under one plan, and the plan under which it continues.
#[derive(Clone)]
struct Restart {
    from: Case,
    to: Plan,
}

/// From every plan to `dp1`, from `dp1` to every plan, and from every plan to one that has little in common with it.
fn table() -> Vec<Restart> {
    let plans = plans();
    let mut rows = Vec::new();
    for model in MODELS {
        for optimizer in OPTIMIZERS {
            for (place, plan) in plans.iter().enumerate() {
                let opposite = plans[plans.len() - 1 - place];
                for (from, to) in [(*plan, plans[0]), (plans[0], *plan), (*plan, opposite)] {
                    rows.push(Restart { from: Case { model, optimizer, plan: from, exact: true }, to });
                }
            }
        }
    }
    rows
}

/// Trains to the end, with a checkpoint on the way; the losses of all steps.
fn checkpointed(spec: &LaunchSpec, place: &Path) -> Vec<f64> {
    let mut ranks = Worker::start_ranks(spec);
    ranks[0].grant.extend_to(BEFORE);
    for rank in &mut ranks {
        rank.wait_for(|event| matches!(event, Event::Held { index: BEFORE }));
    }
    for rank in &mut ranks {
        rank.command(&Command::Checkpoint { path: place.to_str().expect("a path of a test").into() });
    }
    for rank in &mut ranks {
        rank.wait_for(|event| matches!(event, Event::Checkpointed { .. }));
    }
    ranks[0].grant.extend_to(STEPS);
    losses_of(ranks)
}

fn with(case: &Case, change: impl FnOnce(&mut Training)) -> LaunchSpec {
    let mut spec = case.spec();
    let Program::Training(training) = &mut spec.program else { unreachable!("it trains") };
    change(training);
    spec
}

/// How far the losses after a restart are from those of the job that went on.
fn restart(row: &Restart) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("checkpoint");
    let whole = checkpointed(&row.from.spec(), &place);
    let second = with(&Case { plan: row.to, ..row.from }, |training| {
        training.restore = Some(place);
        training.steps = Some(STEPS - BEFORE);
    });
    let ranks = Worker::start_ranks(&second);
    ranks[0].grant.extend_to(u64::MAX);
    let second = losses_of(ranks);
    assert_eq!((whole.len(), second.len()), (STEPS as usize, (STEPS - BEFORE) as usize), "{}", row.from);
    largest_difference(&second, &whole[BEFORE as usize..])
}

#[test]
fn a_checkpoint_of_any_plan_goes_on_under_any_other() {
    let rows = chosen(table(), |row| {
        [row.from.values(), Case { plan: row.to, ..row.from }.values().split_off(Case::PLAN_COLUMN)].concat()
    });
    let apart = at_once(&rows, restart);
    for (row, apart) in rows.iter().zip(&apart) {
        println!("{apart:.1e} {} to '{}'", row.from, row.to);
    }
    for (row, apart) in rows.iter().zip(apart) {
        assert!(apart < row.from.tolerance(), "{} to '{}': losses are {apart:.1e} apart", row.from, row.to);
    }
}
