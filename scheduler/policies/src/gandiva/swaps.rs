//! Swaps: two jobs that are on more nodes than they need trade devices, so that each is on fewer nodes.
//!
//! The paper migrates a job for locality when devices become free (section 3.2.2). In a full cluster none do, and two jobs that came when
//! the cluster was fragmented would stay spread for their lives. A swap is two such migrations at once. It has to gain for both jobs:
//! a job whose rate was known is compared with it, and if one is slower, both go back.

use engine::{cluster::JobId, topology::DeviceId, view::View};

use super::{
    Gandiva,
    place::has_cores,
    residents::Group,
    trials::{Partner, nodes_of},
};

/// The devices of two jobs after a swap.
struct Swap {
    jobs: [JobId; 2],
    devices: [Vec<DeviceId>; 2],
}

impl Gandiva {
    /// Lets pairs of spread jobs trade devices.
    pub(super) fn swap(&mut self, view: &View<'_>, reasons: &mut Vec<String>) {
        let mut groups = self.residents.groups(view);
        groups.retain(|group| self.may_trade(view, group) && self.may_move(view, group.first));
        while let Some(one) = groups.pop() {
            let swaps = groups.iter().flat_map(|other| self.swaps(view, [&one, other]));
            let nodes = |swap: &Swap| -> usize {
                swap.devices.iter().map(|devices| nodes_of(view, devices).len()).sum()
            };
            let Some(best) = swaps.min_by_key(|swap| (nodes(swap), swap.jobs)) else { continue };
            groups.retain(|group| !best.jobs.contains(&group.first));
            self.trade(view, best, reasons);
        }
    }

    /// Whether a job is on more nodes than it needs, with devices that it shares with no other job, is on no trial, and was
    /// not slower after a swap.
    fn may_trade(&self, view: &View<'_>, group: &Group) -> bool {
        let is_own =
            |device: &DeviceId| self.residents.on(*device).len() == 1 && !view.occupancy.is_lost(*device);
        let pool = view.occupancy.pool_of(group.devices[0]);
        let fewest = view.occupancy.fewest_nodes(pool, group.devices.len() as u32);
        group.devices.iter().all(is_own)
            && !self.trials.slower_after_swap.contains(&group.first)
            && !self.trials.has_moved(group.first)
            && fewest.is_some_and(|fewest| nodes_of(view, &group.devices).len() > fewest)
    }

    /// The swaps of two jobs after which one of them is on a single node, and both are on fewer nodes than before.
    fn swaps(&self, view: &View<'_>, jobs: [&Group; 2]) -> Vec<Swap> {
        let pool = |group: &Group| view.occupancy.pool_of(group.devices[0]);
        if pool(jobs[0]) != pool(jobs[1]) {
            return Vec::new();
        }
        let mut swaps = Vec::new();
        for [gathered, other] in [jobs, [jobs[1], jobs[0]]] {
            for node in nodes_of(view, &gathered.devices) {
                let is_there = |device: &DeviceId| view.topology.node_of(*device) == node;
                let (own, left): (Vec<_>, Vec<_>) =
                    gathered.devices.iter().partition(|device| is_there(device));
                let (there, elsewhere): (Vec<_>, Vec<_>) =
                    other.devices.iter().partition(|device| is_there(device));
                if there.len() < left.len() {
                    continue;
                }
                let (taken, kept) = there.split_at(left.len());
                let mut devices: [Vec<DeviceId>; 2] =
                    [[&own[..], taken].concat(), [kept, &elsewhere, &left].concat()];
                devices.iter_mut().for_each(|devices| devices.sort_unstable());
                let swap = Swap { jobs: [gathered.first, other.first], devices };
                if self.gains(view, &swap) {
                    swaps.push(swap);
                }
            }
        }
        swaps
    }

    /// Whether both jobs are on fewer nodes after a swap, have their cores there, and were not slower there before.
    fn gains(&self, view: &View<'_>, swap: &Swap) -> bool {
        swap.jobs.iter().zip(&swap.devices).all(|(job, devices)| {
            let Some(resident) = self.residents.get(*job) else { return false };
            let nodes = nodes_of(view, devices);
            nodes.len() < nodes_of(view, &resident.devices).len()
                && has_cores(view, &[*job], devices)
                && !self.trials.slower.contains(&(*job, nodes, devices.len()))
        })
    }

    fn trade(&mut self, view: &View<'_>, Swap { jobs, devices }: Swap, reasons: &mut Vec<String>) {
        let moved = |(job, after): (JobId, &Vec<DeviceId>)| {
            let resident = self.residents.get(job)?;
            Some(Partner { job, before: (resident.devices.clone(), resident.plan), after: after.clone() })
        };
        let partners = jobs.into_iter().zip(&devices).filter_map(moved).collect::<Vec<_>>();
        for (job, devices) in jobs.into_iter().zip(devices) {
            self.relocate(view, job, (devices, false), reasons);
        }
        for (job, partner) in jobs.into_iter().zip(partners.into_iter().rev()) {
            self.trials.traded(job, partner);
        }
    }
}
