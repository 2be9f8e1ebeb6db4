//! The running jobs that give up devices to a waiting job, and the time that they lose in sum.
//!
//! A job that is stopped loses the time of its restart, and at most the time for which the other has its devices. A job that can go on with
//! fewer devices loses only a part of that time. Of the nodes, those are freed whose jobs lose the least in sum.

use engine::{occupancy::PoolId, topology::NodeId};

use super::{
    entry::{Entry, RunOption},
    room::{Room, shares},
};

/// Jobs that give up devices, and the devices that another one takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Displacement {
    pub(super) nodes: Vec<(NodeId, u32)>,
    /// The indices of the jobs among the entries.
    pub(super) victims: Vec<usize>,
    /// By how many seconds the remaining times of the victims grow, in sum.
    pub(super) loss_s: f64,
}

/// What a job gives up on a node.
#[derive(Clone, Copy, Debug)]
struct Yield {
    victim: usize,
    devices: u32,
    loss_s: f64,
}

/// The displacement of least loss that frees devices for an option of a job that then has them for `taker_s` seconds. `victims` are the indices
/// of the jobs that may be stopped. `None` if they have too few devices.
pub(super) fn cheapest(
    room: &Room<'_>,
    entries: &[Entry],
    victims: &[usize],
    (pool, option, taker_s): (PoolId, &RunOption, f64),
) -> Option<Displacement> {
    if room.is_spread() {
        let needed = option.devices.saturating_sub(room.available.of_pool(pool));
        let of_pool = victims.iter().filter(|index| entries[**index].pool == pool);
        let yields = of_pool.map(|index| yielded(&entries[*index], *index, None, needed, taker_s)).collect();
        return spread(room, entries, (yields, needed), (pool, option));
    }
    let number = room.fewest_nodes(pool, option.devices)?;
    let mut displacement = Displacement::default();
    for (devices, count) in shares(room, pool, option.devices, number) {
        let of_node = |node: &NodeId| {
            let (chosen, loss_s) = on_node(room, entries, victims, (*node, devices, taker_s))?;
            Some((loss_s, *node, chosen))
        };
        let is_left = |node: &&NodeId| displacement.nodes.iter().all(|(taken, _)| taken != *node);
        let mut nodes: Vec<(f64, NodeId, Vec<Yield>)> =
            room.nodes(pool).iter().filter(is_left).filter_map(of_node).collect();
        nodes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        if nodes.len() < count {
            return None;
        }
        for (_, node, chosen) in nodes.into_iter().take(count) {
            displacement.nodes.push((node, devices));
            displacement.add(&chosen);
        }
    }
    room.has_cpus_without(entries, &displacement, option.cpus).then_some(displacement)
}

impl Displacement {
    /// Adds what jobs give up. A job on several nodes is stopped once.
    fn add(&mut self, yields: &[Yield]) {
        for given in yields {
            if !self.victims.contains(&given.victim) {
                self.victims.push(given.victim);
                self.loss_s += given.loss_s;
            }
        }
    }
}

/// What jobs give up so that a node has these devices, and their loss.
fn on_node(
    room: &Room<'_>,
    entries: &[Entry],
    victims: &[usize],
    (node, devices, taker_s): (NodeId, u32, f64),
) -> Option<(Vec<Yield>, f64)> {
    let free = room.available.at(node);
    let Some(needed) = devices.checked_sub(free).filter(|needed| *needed > 0) else {
        return Some((Vec::new(), 0.0));
    };
    let there = victims.iter().filter(|index| devices_on(&entries[**index], node) > 0);
    let yields = there.map(|index| yielded(&entries[*index], *index, Some(node), needed, taker_s)).collect();
    let chosen = fewest(entries, yields, needed)?;
    let loss_s = chosen.iter().map(|given| given.loss_s).sum();
    Some((chosen, loss_s))
}

/// The same in a pool in which jobs are spread.
fn spread(
    room: &Room<'_>,
    entries: &[Entry],
    (yields, needed): (Vec<Yield>, u32),
    (pool, option): (PoolId, &RunOption),
) -> Option<Displacement> {
    let mut displacement = Displacement::default();
    displacement.add(&fewest(entries, yields, needed)?);
    let mut available = room.available.clone();
    for runs in displacement.victims.iter().filter_map(|index| entries[*index].runs()) {
        available.give_back(&runs.target.nodes, runs.target.cpus);
    }
    displacement.nodes = available.find(pool, option.devices, option.cpus)?;
    Some(displacement)
}

/// Jobs that together give up enough devices: those with the most time left, without any that is not needed.
fn fewest(entries: &[Entry], mut yields: Vec<Yield>, needed: u32) -> Option<Vec<Yield>> {
    let left_s = |given: &Yield| entries[given.victim].left_s();
    yields.sort_by(|a, b| left_s(b).total_cmp(&left_s(a)).then(b.victim.cmp(&a.victim)));
    let (mut chosen, mut gathered) = (Vec::new(), 0);
    for given in yields {
        if gathered >= needed {
            break;
        }
        gathered += given.devices;
        chosen.push(given);
    }
    if gathered < needed {
        return None;
    }
    let mut surplus = gathered - needed;
    chosen.retain(|given| {
        let is_needed = given.devices > surplus;
        surplus -= if is_needed { 0 } else { given.devices };
        is_needed
    });
    Some(chosen)
}

/// What a job gives up on a node, or on all nodes: some of its devices if it can go on with the others, or else all of them.
fn yielded(entry: &Entry, victim: usize, node: Option<NodeId>, needed: u32, taker_s: f64) -> Yield {
    let runs = entry.runs();
    let all =
        node.map_or_else(|| entry.runs().map_or(0, |runs| runs.devices()), |node| devices_on(entry, node));
    let restart_s = entry.restart_s().unwrap_or(f64::INFINITY);
    let is_on_one = runs.is_some_and(|runs| runs.target.nodes.len() == 1);
    let lower = entry.options.iter().rev().find(|option| option.devices + needed <= all);
    match (lower.filter(|_| is_on_one || node.is_none()), runs) {
        (Some(lower), Some(runs)) => {
            let slower = (1.0 - lower.rate / runs.rate).clamp(0.0, 1.0);
            Yield { victim, devices: all - lower.devices, loss_s: restart_s + taker_s * slower }
        }
        _ => Yield { victim, devices: all, loss_s: restart_s + taker_s },
    }
}

fn devices_on(entry: &Entry, node: NodeId) -> u32 {
    let nodes = entry.runs().map_or(&[][..], |runs| &runs.target.nodes);
    nodes.iter().find(|(on, _)| *on == node).map_or(0, |(_, devices)| *devices)
}
