//! The demand of jobs for cores of the host, and their share.

use std::collections::HashMap;

use engine::{
    cluster::JobId,
    occupancy::PoolId,
    topology::{Node, NodeId},
    view::{Change, View},
};

use crate::kit::{belief, elastic::WORTH, ranking::Need};

/// The cores for each rank of a job on the devices of a pool. `None` if it takes no number of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Demand {
    /// The smallest number at which the throughput saturates: no larger number raises it by more than 1 %.
    pub(super) full: Option<u16>,
    /// The same, but no more than the cores of a node by its devices.
    pub(super) share: Option<u16>,
}

/// The demands of jobs on each pool in which they may run. They are asked for once, and again when the model has learned.
#[derive(Debug, Default)]
pub(super) struct Demands {
    of_jobs: HashMap<JobId, Vec<(PoolId, Demand)>>,
}

impl Demands {
    /// Forgets the demands that the changes of a view make wrong.
    pub(super) fn refresh(&mut self, view: &View<'_>) {
        for change in view.changes {
            if let Change::Believed(job) | Change::Ended(job) = change {
                self.of_jobs.remove(job);
            }
        }
    }

    /// The demand of a job on each pool in which it may run.
    pub(super) fn of(&mut self, view: &View<'_>, job: JobId) -> &[(PoolId, Demand)] {
        self.of_jobs.entry(job).or_insert_with(|| {
            let need = Need::of(view, job);
            let pools = view.pools().filter(|pool| need.allows(*pool));
            pools.map(|pool| (pool, demand(view, job, pool))).collect()
        })
    }

    /// The demand of a job where it runs.
    pub(super) fn on(&mut self, view: &View<'_>, job: JobId, pool: PoolId) -> Option<Demand> {
        self.of(view, job).iter().find(|(of, _)| *of == pool).map(|(_, demand)| *demand)
    }

    /// Says how many cores a job wants and has.
    pub(super) fn explain(&self, view: &View<'_>, job: JobId) -> Option<String> {
        let cores = |cpus: Option<u16>| cpus.map_or("no number of".to_owned(), |cpus| cpus.to_string());
        let (_, demand) = self.of_jobs.get(&job)?.first()?;
        let has = view.job(job).placed().map(|placed| format!(" and has {}", cores(placed.cpus)));
        let (full, share) = (cores(demand.full), cores(demand.share));
        Some(format!("it wants {full} cores for each rank, at least {share}{}", has.unwrap_or_default()))
    }
}

fn demand(view: &View<'_>, job: JobId, pool: PoolId) -> Demand {
    let asked = view.request(job);
    let as_asked = Demand { full: asked.cpus, share: asked.cpus };
    let Some(node) = largest(view, pool) else { return as_asked };
    let rates: Vec<(u16, f64)> = (1..=most(node, asked.devices))
        .filter_map(|cpus| Some((cpus, 1.0 / belief::step_with(view, job, node, cpus)?.step_ns)))
        .collect();
    let Some(best) = rates.iter().map(|(_, rate)| *rate).reduce(f64::max) else { return as_asked };
    let saturates = |(_, rate): &&(u16, f64)| rate * (1.0 + WORTH) >= best;
    let full = rates.iter().find(saturates).map(|(cpus, _)| *cpus);
    let within = share_in(view, pool);
    let knows_share = rates.iter().any(|(cpus, _)| *cpus == within);
    let share = full.map(|full| if knows_share { full.min(within) } else { full });
    Demand { full, share }
}

/// The node of a pool that has the most devices, of those with a known number of cores.
pub(super) fn largest<'a>(view: &View<'a>, pool: PoolId) -> Option<&'a Node> {
    let nodes = nodes_in(view, pool).filter(|node| node.facts.cpus.is_some());
    nodes.max_by_key(|node| (node.devices.len(), std::cmp::Reverse(node.first)))
}

/// The largest number of cores that a node has for each of its ranks of a job.
fn most(node: &Node, devices: u32) -> u16 {
    let ranks = devices.min(node.devices.len() as u32).max(1);
    u16::try_from(node.facts.cpus.unwrap_or_default() / ranks).unwrap_or(u16::MAX)
}

/// The cores for each device on the node of a pool that has the fewest.
fn share_in(view: &View<'_>, pool: PoolId) -> u16 {
    let share = |node: &Node| Some(node.facts.cpus? / node.devices.len().max(1) as u32);
    let least = nodes_in(view, pool).filter_map(share).min().unwrap_or_default();
    u16::try_from(least).unwrap_or(u16::MAX)
}

fn nodes_in<'a>(view: &View<'a>, pool: PoolId) -> impl Iterator<Item = &'a Node> {
    let nodes = view.topology.nodes();
    view.occupancy.nodes_in(pool).map(move |node: NodeId| &nodes[node.0 as usize])
}
