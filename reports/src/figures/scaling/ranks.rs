//! Finds the jobs that differ in their number of ranks alone.

use std::collections::BTreeMap;

use record::rows::Summary;
use schema::plan::Plan;

use crate::{alone::throughput, run::Run};

/// Rows that differ in their number of data-parallel ranks alone, by that number.
pub(super) struct Scaled<'a> {
    pub workload: &'a str,
    pub batch: Option<u32>,
    /// The values of `--vary`.
    pub vary: Option<&'a str>,
    /// The plan with one rank.
    pub plan: Plan,
    threads: u32,
    /// The name of the devices in the manifest.
    model: &'a str,
    pub by_ranks: BTreeMap<u16, &'a Summary>,
}

/// The jobs that have numbers for several numbers of ranks.
pub(super) fn all(run: &Run) -> Vec<Scaled<'_>> {
    let mut all: Vec<Scaled> = Vec::new();
    for row in run.summaries.iter().filter(|row| row.group.is_none() && throughput(row).is_some()) {
        add(run, &mut all, row);
    }
    all.retain(|scaled| scaled.by_ranks.len() > 1);
    all
}

/// Adds a row. Of several rows with the same number of devices, the fastest stays.
fn add<'a>(run: &'a Run, all: &mut Vec<Scaled<'a>>, row: &'a Summary) {
    let Some(plan) = row.plan else { return };
    let first = row.device.split(',').next().unwrap_or_default();
    let facts = run.manifest.devices.iter().find(|facts| facts.device.to_string() == first);
    let model = facts.map_or("", |facts| &facts.name);
    let own = Plan { dp: 1, ..plan };
    let key = |of: &Scaled| {
        (of.workload, of.batch, of.vary, of.plan, of.threads, of.model)
            == (&*row.workload, row.global_batch, row.vary.as_deref(), own, row.threads, model)
    };
    let place = all.iter().position(key).unwrap_or_else(|| {
        all.push(Scaled {
            workload: &row.workload,
            batch: row.global_batch,
            vary: row.vary.as_deref(),
            plan: own,
            threads: row.threads,
            model,
            by_ranks: BTreeMap::new(),
        });
        all.len() - 1
    });
    let rate = |row: &Summary| throughput(row).map_or(0.0, |(rate, _)| rate);
    let fastest = all[place].by_ranks.entry(plan.dp).or_insert(row);
    if rate(row) > rate(fastest) {
        *fastest = row;
    }
}
