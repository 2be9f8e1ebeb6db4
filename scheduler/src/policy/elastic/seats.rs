//! The nodes on which numbers of devices are found. A job has part of one node, or whole nodes and part of another.

use std::{cmp::Reverse, collections::BTreeMap};

use crate::{cluster::JobId, occupancy::PoolId, topology::NodeId, view::View};

/// A number of devices that a job is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::policy) struct Seat {
    pub(in crate::policy) job: JobId,
    pub(in crate::policy) pool: PoolId,
    pub(in crate::policy) devices: u32,
    /// The devices of each node that it has now. Empty if it has none.
    pub(in crate::policy) now: Vec<(NodeId, u32)>,
}

/// The nodes for each job, and the devices that it has on them. Jobs that keep their number stay where they are; the others come
/// after them, the largest first, each on the node with the least room in which it fits. If one does not fit that way, all are
/// seated anew, the largest first. Jobs that still do not fit are left out. `room` has the devices of each node that may be used.
pub(in crate::policy) fn seat(
    view: &View<'_>,
    room: &[u32],
    wanted: &[Seat],
) -> BTreeMap<JobId, Vec<(NodeId, u32)>> {
    let stays = |seat: &&Seat| seat.now.iter().map(|(_, devices)| devices).sum::<u32>() == seat.devices;
    let (stay, come): (Vec<&Seat>, Vec<&Seat>) = wanted.iter().partition(stays);
    let mut free = room.to_vec();
    let mut found: BTreeMap<JobId, Vec<(NodeId, u32)>> = BTreeMap::new();
    for seat in stay {
        seat.now.iter().for_each(|(node, devices)| free[node.0 as usize] -= devices);
        found.insert(seat.job, seat.now.clone());
    }
    if seat_each(view, &mut free, come, &mut found) {
        return found;
    }
    let mut anew = BTreeMap::new();
    seat_each(view, &mut room.to_vec(), wanted.iter().collect(), &mut anew);
    if anew.len() > found.len() { anew } else { found }
}

/// Returns whether all of them were seated.
fn seat_each(
    view: &View<'_>,
    free: &mut [u32],
    mut wanted: Vec<&Seat>,
    found: &mut BTreeMap<JobId, Vec<(NodeId, u32)>>,
) -> bool {
    let count = found.len() + wanted.len();
    wanted.sort_by_key(|seat| (Reverse(seat.devices), seat.job));
    for seat in wanted {
        if let Some(nodes) = nodes_for(view, free, seat) {
            nodes.iter().for_each(|(node, devices)| free[node.0 as usize] -= devices);
            found.insert(seat.job, nodes);
        }
    }
    found.len() == count
}

fn nodes_for(view: &View<'_>, free: &[u32], seat: &Seat) -> Option<Vec<(NodeId, u32)>> {
    let of_pool = || view.occupancy.nodes_in(seat.pool).filter(|node| free[node.0 as usize] > 0);
    let largest = view.occupancy.nodes_in(seat.pool).map(|node| view.occupancy.devices_of(node)).max()?;
    let (whole, rest) = (seat.devices / largest, seat.devices % largest);
    let is_whole = |node: &NodeId| free[node.0 as usize] == largest;
    let mut nodes: Vec<(NodeId, u32)> =
        of_pool().filter(is_whole).take(whole as usize).map(|node| (node, largest)).collect();
    if nodes.len() < whole as usize {
        return None;
    }
    if rest > 0 {
        let fits =
            |node: &NodeId| free[node.0 as usize] >= rest && nodes.iter().all(|(taken, _)| taken != node);
        // A node that the job is on already costs it nothing to stay on.
        let was_on = |node: NodeId| seat.now.iter().any(|(before, _)| *before == node);
        let node =
            of_pool().filter(fits).min_by_key(|node| (free[node.0 as usize], !was_on(*node), *node))?;
        nodes.push((node, rest));
    }
    Some(nodes)
}
