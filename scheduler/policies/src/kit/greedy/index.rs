//! An index of the nodes on which a consolidated job can be placed. For each number of devices that a job needs of a node, the nodes
//! are in a tournament. The winner is the fullest node that has them free, or else the one of which the running jobs that are
//! displaced are furthest behind. A search takes a time that grows with the logarithm of the number of nodes, and does not depend
//! on the number of jobs.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use engine::{
    cluster::JobId,
    occupancy::{Occupancy, PoolId, Pools},
    topology::NodeId,
};

use super::room::{Bin, BinId, Leaves, Place};

/// What it takes to free a number of devices of a node. Greater is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach<K> {
    /// The node has fewer, even without the running jobs that can be displaced.
    Never,
    /// The last running jobs are displaced, up to this one.
    Displaces((K, JobId)),
    /// The devices are free. This is the number of all free devices of the node, so that the fullest node is greatest.
    Free(Reverse<u32>),
}

impl<K: Ord> Reach<K> {
    /// Whether no job is displaced that comes before the key.
    pub(super) fn is_behind(&self, key: K) -> bool {
        match self {
            Reach::Never => false,
            Reach::Displaces((last, _)) => *last > key,
            Reach::Free(_) => true,
        }
    }
}

pub(super) struct Index<K> {
    pools: BTreeMap<PoolId, PoolIndex<K>>,
    /// The pool of each node, and the place of the node in it. `None` for nodes of other virtual clusters.
    place_of: Vec<Option<(PoolId, usize)>>,
    /// The nodes that have changed, some more than once.
    changed: Vec<NodeId>,
}

struct PoolIndex<K> {
    /// The nodes of the pool, and the number of devices of each.
    nodes: Vec<(NodeId, u32)>,
    /// By the number of devices that are needed of a node.
    parts: BTreeMap<u32, Tournament<Reach<K>>>,
    /// By the number of devices of a node, of which all are needed. Empty until a job needs several nodes.
    whole: BTreeMap<u32, Tournament<Reach<K>>>,
}

impl<K: Ord + Copy> Index<K> {
    pub(super) fn new(occupancy: &Occupancy, pools: Pools) -> Index<K> {
        let mut place_of = Vec::new();
        let mut pool_index = |pool| {
            let nodes: Vec<NodeId> = occupancy.nodes_in(pool).collect();
            for (place, node) in nodes.iter().enumerate() {
                let at = node.0 as usize;
                place_of.resize(place_of.len().max(at + 1), None);
                place_of[at] = Some((pool, place));
            }
            let nodes = nodes.into_iter().map(|node| (node, occupancy.devices_of(node))).collect();
            (pool, PoolIndex { nodes, parts: BTreeMap::new(), whole: BTreeMap::new() })
        };
        let pools = pools.map(&mut pool_index).collect();
        Index { pools, place_of, changed: Vec::new() }
    }

    /// Notes that the free devices or the running jobs of a node have changed.
    pub(super) fn mark(&mut self, node: NodeId) {
        self.changed.push(node);
    }

    /// Enters the nodes that have changed.
    pub(super) fn refresh(&mut self, bins: &[Bin<K>]) {
        self.changed.sort_unstable();
        self.changed.dedup();
        for node in self.changed.drain(..) {
            let Some(Some((pool, place))) = self.place_of.get(node.0 as usize) else { continue };
            if let Some(of) = self.pools.get_mut(pool) {
                of.enter(*place, &bins[node.0 as usize]);
            }
        }
    }

    /// A consolidated place of `wanted` devices in a pool, on nodes that `reaches` admits.
    pub(super) fn place(
        &mut self,
        occupancy: &Occupancy,
        bins: &[Bin<K>],
        pool: PoolId,
        wanted: u32,
        reaches: &dyn Fn(&Reach<K>) -> bool,
    ) -> Option<Place> {
        let count = occupancy.fewest_nodes(pool, wanted)?;
        let pool = self.pools.get_mut(&pool)?;
        let mut place = Place::new();
        let mut left = wanted;
        if count > 1 {
            if pool.whole.is_empty() {
                pool.need_whole(bins);
            }
            for (&devices, nodes) in pool.whole.iter().rev() {
                if !reaches(&nodes.greatest()) {
                    continue;
                }
                let admitted = nodes.descending().take_while(|(reach, _)| reaches(reach));
                for (_, at) in admitted.take(count - 1 - place.len()) {
                    place.push((bin_of(pool.nodes[at].0), devices));
                    left -= devices;
                }
            }
            if place.len() < count - 1 {
                return None;
            }
        }
        if !pool.parts.contains_key(&left) {
            pool.need_part(left, bins);
        }
        let nodes = &pool.parts[&left];
        if !reaches(&nodes.greatest()) {
            return None;
        }
        if place.is_empty() {
            return Some(vec![(bin_of(pool.nodes[nodes.first()].0), left)]);
        }
        let mut admitted = nodes.descending().take_while(|(reach, _)| reaches(reach));
        let is_left = |at: usize| place.iter().all(|(bin, _)| *bin != bin_of(pool.nodes[at].0));
        let (_, at) = admitted.find(|(_, at)| is_left(*at))?;
        place.push((bin_of(pool.nodes[at].0), left));
        Some(place)
    }
}

impl<K: Ord + Copy> PoolIndex<K> {
    fn enter(&mut self, place: usize, bin: &Bin<K>) {
        let mut walk = Walk::new(bin);
        for (devices, tournament) in &mut self.parts {
            tournament.set(place, walk.reach(*devices));
        }
        let (_, devices) = self.nodes[place];
        if let Some(tournament) = self.whole.get_mut(&devices) {
            tournament.set(place, Walk::new(bin).reach(devices));
        }
    }

    fn need_part(&mut self, devices: u32, bins: &[Bin<K>]) {
        let reach = |(node, _): &(NodeId, u32)| Walk::new(&bins[node.0 as usize]).reach(devices);
        self.parts.insert(devices, Tournament::new(self.nodes.iter().map(reach), Reach::Never));
    }

    fn need_whole(&mut self, bins: &[Bin<K>]) {
        for (_, devices) in &self.nodes {
            self.whole.entry(*devices).or_insert_with(|| {
                let reach = |(node, of): &(NodeId, u32)| match of == devices {
                    true => Walk::new(&bins[node.0 as usize]).reach(*devices),
                    false => Reach::Never,
                };
                Tournament::new(self.nodes.iter().map(reach), Reach::Never)
            });
        }
    }
}

/// A walk over the running jobs of a node, from the last one on.
struct Walk<'a, K> {
    bin: &'a Bin<K>,
    behind: std::iter::Rev<std::collections::btree_map::Iter<'a, (K, JobId), Leaves>>,
    room: u32,
    last: Option<(K, JobId)>,
}

impl<'a, K: Ord + Copy> Walk<'a, K> {
    fn new(bin: &'a Bin<K>) -> Walk<'a, K> {
        Walk { bin, behind: bin.running.iter().rev(), room: bin.free, last: None }
    }

    /// What it takes to free these devices. Called with ascending numbers.
    fn reach(&mut self, devices: u32) -> Reach<K> {
        while self.room < devices {
            let Some((job, leaves)) = self.behind.next() else { return Reach::Never };
            self.room += leaves.devices;
            self.last = Some(*job);
        }
        self.last.map_or(Reach::Free(Reverse(self.bin.free)), Reach::Displaces)
    }
}

/// Entries of which the greatest are found at once. A binary tree: each inner entry is the greater of the two below it.
struct Tournament<E> {
    /// The root is at 1. The entries themselves are the second half.
    tree: Vec<E>,
}

impl<E: Ord + Copy> Tournament<E> {
    fn new(entries: impl ExactSizeIterator<Item = E>, least: E) -> Tournament<E> {
        let half = entries.len().next_power_of_two();
        let mut tree = vec![least; 2 * half];
        for (entry, place) in entries.zip(half..) {
            tree[place] = entry;
        }
        for place in (1..half).rev() {
            tree[place] = tree[2 * place].max(tree[2 * place + 1]);
        }
        Tournament { tree }
    }

    fn set(&mut self, place: usize, entry: E) {
        let mut at = self.tree.len() / 2 + place;
        let mut greatest = entry;
        while self.tree[at] != greatest {
            self.tree[at] = greatest;
            if at == 1 {
                return;
            }
            greatest = greatest.max(self.tree[at ^ 1]);
            at /= 2;
        }
    }

    fn greatest(&self) -> E {
        self.tree[1]
    }

    /// The first place that has the greatest entry.
    fn first(&self) -> usize {
        let half = self.tree.len() / 2;
        let mut at = 1;
        while at < half {
            at = 2 * at + usize::from(self.tree[2 * at] != self.tree[at]);
        }
        at - half
    }

    /// The entries from the greatest down, each with its place, of equal ones the first.
    fn descending(&self) -> impl Iterator<Item = (E, usize)> {
        let half = self.tree.len() / 2;
        let first_below = move |mut at: usize| {
            while at < half {
                at *= 2;
            }
            Reverse(at)
        };
        let mut heap = BinaryHeap::from([(self.tree[1], first_below(1), 1)]);
        std::iter::from_fn(move || {
            loop {
                let (entry, _, at) = heap.pop()?;
                if at >= half {
                    return Some((entry, at - half));
                }
                heap.extend([2 * at, 2 * at + 1].map(|below| (self.tree[below], first_below(below), below)));
            }
        })
    }
}

fn bin_of(node: NodeId) -> BinId {
    BinId(node.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares the entries with a list that is sorted after each change, of equal ones the first place first.
        #[test]
        fn a_tournament_is_a_sorted_list(
            mut entries in prop::collection::vec(0u8..5, 1..12),
            changes in prop::collection::vec((0usize..12, 0u8..5), 0..20),
        ) {
            let mut tournament = Tournament::new(entries.iter().map(|entry| Some(*entry)), None);
            for (place, entry) in changes {
                let place = place % entries.len();
                entries[place] = entry;
                tournament.set(place, Some(entry));
                let mut sorted: Vec<_> = entries.iter().copied().map(Some).zip(0..).collect();
                sorted.sort_by_key(|(entry, place)| (Reverse(*entry), *place));
                prop_assert_eq!((tournament.greatest(), tournament.first()), sorted[0]);
                prop_assert_eq!(tournament.descending().take(entries.len()).collect::<Vec<_>>(), sorted);
            }
        }
    }
}
