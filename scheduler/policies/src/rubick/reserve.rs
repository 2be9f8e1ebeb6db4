//! Devices that are kept for a guaranteed job that has waited for too long.
//!
//! Without them a job that needs many devices of a node waits for ever behind jobs that need few, because these take each device that
//! becomes free. One job of each type of device has nodes kept for it: those that have its devices first, once the jobs there have ended.
//! Jobs may come to these nodes meanwhile if they end before that, as far as the model can tell. No nodes are kept if nothing tells when
//! they have the devices, because these might then be idle for ever.

use std::cmp::Reverse;

use engine::topology::NodeId;

use super::floor::{Claim, Floor, Reserved, devices_on};

impl Floor {
    /// Keeps nodes for a job that waits, unless nodes of this type are kept for another one.
    pub(super) fn reserve(&mut self, job: usize) {
        let curve = &self.jobs[job].curve;
        let Some(least) = self.jobs[job].least else { return };
        let (pool, devices) = (curve.pool, curve.levels[least].devices);
        if self.reserved.iter().any(|other| self.jobs[other.job].curve.pool == pool) {
            return;
        }
        let Some(number) = self.fewest_nodes(pool, devices) else { return };
        let wanted = |node: NodeId| if number == 1 { devices } else { self.size(node) };
        let nodes = self.nodes_of(pool).iter().filter(|node| self.present(**node) >= wanted(**node));
        let mut nodes: Vec<(f64, NodeId)> =
            nodes.map(|node| (self.has_devices_in(*node, wanted(*node)), *node)).collect();
        nodes.sort_by(|(a, node), (b, other)| a.total_cmp(b).then(node.cmp(other)));
        let first: u32 = nodes.iter().take(number).map(|(_, node)| wanted(*node)).sum();
        if first < devices {
            // Nodes of different sizes: as few nodes hold the job only if they are the largest.
            nodes.sort_by_key(|(_, node)| Reverse(self.size(*node)));
        }
        nodes.truncate(number);
        let until_s = nodes.iter().map(|(after_s, _)| *after_s).fold(0.0, f64::max);
        if nodes.len() < number || !until_s.is_finite() {
            return;
        }
        self.reserved.push(Reserved {
            job,
            nodes: nodes.into_iter().map(|(_, node)| node).collect(),
            until_s,
        });
    }

    /// In how many seconds a node has these devices for a guaranteed job. Infinite if that is not known.
    fn has_devices_in(&self, node: NodeId, devices: u32) -> f64 {
        let mut there = self.freed_at_most(node, Claim::Guarantee);
        let held = |job: &usize| {
            let of = &self.jobs[*job];
            let least = of.curve.levels[of.least?].devices;
            Some((of.ends_in()?, devices_on(&of.has, node).min(least)))
        };
        let mut held: Vec<(f64, u32)> = self.jobs_on(node).iter().filter_map(held).collect();
        held.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut after_s = 0.0;
        let mut held = held.into_iter();
        while there < devices {
            let Some((ends_in, count)) = held.next() else { return f64::INFINITY };
            there += count;
            after_s = ends_in;
        }
        after_s
    }

    /// Whether a node is kept from a job that would have so many devices of it at a level.
    pub(super) fn is_kept_from(&self, (taker, level): (usize, usize), node: NodeId, devices: u32) -> bool {
        let job = &self.jobs[taker];
        let comes_late = |reserved: &Reserved| {
            reserved.job != taker
                && reserved.nodes.contains(&node)
                && job.ends_after(level) > reserved.until_s
        };
        devices > devices_on(&job.has, node) && self.reserved.iter().any(comes_late)
    }
}
