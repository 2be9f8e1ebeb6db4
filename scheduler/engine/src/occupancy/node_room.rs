//! The nodes on which a job that needs CPUs is placed. Every node of a pool is looked at, because there is no order of nodes by
//! both devices and CPUs.

use std::cmp::Reverse;

use record::placement::Placement;

use crate::topology::NodeId;

/// The room of a node for ranks of a job.
#[derive(Clone, Copy, Debug)]
pub struct NodeRoom {
    node: NodeId,
    /// All devices of the node, and the free ones.
    devices: u32,
    free: u32,
    /// The number of ranks for which there are devices and CPUs.
    ranks: u32,
}

impl NodeRoom {
    /// The room of a node with these free devices and CPUs, which are `None` if they are not known. Each rank needs `per_rank`.
    pub fn new(node: NodeId, devices: u32, free: u32, cpus: Option<u32>, per_rank: Option<u16>) -> NodeRoom {
        let enough = cpus.zip(per_rank).and_then(|(cpus, each)| cpus.checked_div(each.into()));
        NodeRoom { node, devices, free, ranks: enough.map_or(free, |ranks| ranks.min(free)) }
    }
}

/// The nodes of a placement, each with the number of devices there. `fewest` is the smallest number of nodes of the pool that have
/// as many devices, free or not. Nodes are chosen as by [`Draft::take_in`](super::Draft::take_in).
pub fn place(
    placement: Placement,
    fewest: usize,
    mut nodes: Vec<NodeRoom>,
    count: u32,
) -> Option<Vec<(NodeId, u32)>> {
    let mut found: Vec<(NodeId, u32)> = Vec::new();
    let mut left = count;
    if placement == Placement::Consolidated {
        let mut whole: Vec<&NodeRoom> = nodes.iter().filter(|of| of.ranks == of.devices).collect();
        whole.sort_unstable_by_key(|of| (Reverse(of.devices), of.node));
        found.extend(whole.iter().take(fewest - 1).map(|of| (of.node, of.devices)));
        if found.len() < fewest - 1 {
            return None;
        }
        left = left.checked_sub(found.iter().map(|(_, devices)| devices).sum())?;
        nodes.retain(|of| found.iter().all(|(node, _)| *node != of.node));
    }
    loop {
        if let Some(of) = nodes.iter().filter(|of| of.ranks >= left).min_by_key(|of| (of.free, of.node)) {
            found.push((of.node, left));
            return Some(found);
        }
        let most = nodes.iter().filter(|of| of.ranks > 0).max_by_key(|of| (of.ranks, Reverse(of.node)))?;
        if placement == Placement::Consolidated {
            return None;
        }
        let (node, ranks) = (most.node, most.ranks);
        found.push((node, ranks));
        left -= ranks;
        nodes.retain(|of| of.node != node);
    }
}
