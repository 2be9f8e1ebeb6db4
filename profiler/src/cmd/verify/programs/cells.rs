//! The plans under which `profile verify` starts a program.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail};
use jobs::{
    catalog_programs,
    cells::{Grid, Plans},
    plans, pool,
};
use record::manifest::Cell;
use schema::{
    catalog::Catalog,
    device::Device,
    job::Job,
    plan::{Axis, Plan},
    surroundings::Surroundings,
};

use super::judge::is_bf16;

/// Whether all of these names are programs of the catalog.
///
/// # Errors
/// Only some of them are.
pub(in super::super) fn are_all(catalog: &Catalog, names: &[String]) -> anyhow::Result<bool> {
    let is_program =
        |name: &&String| name.parse::<Job>().is_ok_and(|job| catalog.program(&job.workload).is_some());
    let (programs, others): (Vec<&String>, Vec<&String>) = names.iter().partition(is_program);
    match (programs.first(), others.first()) {
        (Some(program), Some(other)) => {
            bail!("'{program}' is a program and '{other}' is not; verify them one after another")
        }
        (program, _) => Ok(program.is_some()),
    }
}

/// A cell for each program and plan that the pool has devices for: all plans, or a few that have each axis. The plan with which others are
/// compared comes first.
pub(in super::super) fn cells(
    catalog: &Catalog,
    names: &[String],
    named: &[Device],
    has_all: bool,
) -> anyhow::Result<Vec<Cell>> {
    let pool = pool::resolve(named, None)?;
    let mut all = Vec::new();
    for name in names {
        let job: Job = name.parse()?;
        if let Some(plan) = job.plan {
            bail!(
                "'{name}' names its plan {plan}, and a program is verified under all of its plans; remove it"
            );
        }
        let program = catalog.program(&job.workload).context("it is a program")?;
        let batch = job.global_batch.unwrap_or(program.batches[0]);
        let possible = plans::of_program(program, batch, &pool);
        let can_run = possible.iter().filter(|one| one.refusal.is_none());
        let mut plans: Vec<Plan> = can_run.map(|one| one.plan).collect();
        if plans.is_empty() {
            let why = possible.into_iter().find_map(|one| one.refusal).unwrap_or_default();
            bail!("'{name}': no plan can run here: {why}");
        }
        // A plan in bf16 is compared with the first one in bf16.
        plans.sort_by_key(|plan| (is_bf16(plan), plan.ranks(), plan.axes().len()));
        if !has_all {
            plans = few_plans(&plans);
        }
        let grid = Grid { batches: vec![batch], plans: Plans::Named(plans), ..Grid::default() };
        let job = Job { global_batch: None, ..job };
        all.extend(jobs::cells::alone(catalog, &[job], &grid, &pool, None)?);
    }
    catalog_programs::check(&all, catalog, &Surroundings::default())?;
    Ok(all)
}

/// A few of these plans: the first, the simplest with each axis, and the one with the most axes, in their order.
fn few_plans(plans: &[Plan]) -> Vec<Plan> {
    let axes: BTreeSet<Axis> = plans.iter().flat_map(Plan::axes).collect();
    let simplest = |axis: &Axis| {
        let with = plans.iter().filter(|plan| plan.axes().contains(axis));
        with.min_by_key(|plan| (plan.axes().len(), plan.ranks()))
    };
    let fullest = plans.iter().max_by_key(|plan| (plan.axes().len(), plan.ranks()));
    let chosen: Vec<&Plan> =
        plans.first().into_iter().chain(axes.iter().filter_map(simplest)).chain(fullest).collect();
    plans.iter().filter(|plan| chosen.contains(plan)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_plans_have_each_axis() {
        let parse = |names: &[&str]| -> Vec<Plan> {
            names.iter().map(|name| name.parse().expect("a plan")).collect()
        };
        let all = parse(&[
            "dp1",
            "ga2",
            "ga4",
            "gc",
            "ga2-gc",
            "dp2",
            "dp2-gc",
            "dp2-zero1",
            "dp2-zero1-gc",
            "bf16",
            "ga2-bf16",
            "dp2-zero1-ga2-gc-bf16",
        ]);
        let few = parse(&["dp1", "ga2", "gc", "dp2", "dp2-zero1", "bf16", "dp2-zero1-ga2-gc-bf16"]);
        assert_eq!(few_plans(&all), few);
        assert_eq!(few_plans(&[]), []);
    }
}
