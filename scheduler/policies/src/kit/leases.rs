//! Leases: which jobs have devices for the next round.
//!
//! A policy that decides in rounds names leases in order, each of one job or of two that share, on devices of a pool. A lease is
//! granted if its jobs have none yet and enough devices are left. A job whose lease is of the pool where it runs stays on its
//! devices and is not restarted, as in Gavel (Narayanan et al., OSDI 2020, section 5), unless more leases fit on the nodes if it moves. The
//! others are placed on as few nodes as the placement of the run asks for, the largest first. Jobs without a lease are stopped with
//! a checkpoint. A job that is in a switch or takes no checkpoint keeps what it has.

use std::collections::{BTreeMap, BTreeSet};

use engine::{
    cluster::{Action, JobId},
    job::{Placed, State},
    occupancy::PoolId,
    topology::{DeviceId, NodeId},
    view::View,
};

use crate::kit::{
    elastic::{Available, Roster, Standing, Wanted, find_nodes, on_nodes},
    moves::Moves,
    start,
};

/// One job, or two that share, on devices of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lease {
    pub(crate) job: JobId,
    pub(crate) beside: Option<JobId>,
    pub(crate) pool: PoolId,
}

/// The jobs of a run, and those that are on their way to other devices.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    roster: Roster,
    moves: Moves,
}

/// The nodes of each lease that was granted, by its first job.
type Nodes = BTreeMap<JobId, Vec<(NodeId, u32)>>;

impl Lease {
    pub(crate) fn jobs(self) -> impl Iterator<Item = JobId> {
        [Some(self.job), self.beside].into_iter().flatten()
    }

    /// The cores for each device, if its jobs ask for some.
    fn cpus(self, view: &View<'_>) -> Option<u16> {
        self.jobs().filter_map(|job| view.request(job).cpus).reduce(u16::saturating_add)
    }
}

impl Leases {
    /// Updates the jobs after the changes of a view. Returns the starts of the jobs that have left their devices to move.
    pub(crate) fn refresh(&mut self, view: &View<'_>) -> Vec<Action> {
        self.roster.refresh(view);
        self.moves.refresh(view)
    }

    /// The jobs that have arrived and have not ended, in order of arrival.
    pub(crate) fn jobs(&self, view: &View<'_>) -> Vec<JobId> {
        self.roster.jobs(view, &self.moves).map(|(job, _)| job).collect()
    }

    /// The number of jobs that have arrived and have not ended.
    pub(crate) fn count(&self) -> usize {
        self.roster.count()
    }

    /// Whether a job has devices, or will have some.
    pub(crate) fn any_placed(&self, view: &View<'_>) -> bool {
        self.roster.jobs(view, &self.moves).any(|(_, standing)| standing != Standing::Waits)
    }

    /// The jobs that may have another lease now: those that wait, and those that run and may be stopped.
    pub(crate) fn open_to(&self, view: &View<'_>) -> BTreeSet<JobId> {
        let is_open =
            |(job, standing)| matches!(standing, Standing::Waits | Standing::Runs(_)).then_some(job);
        let mut open: BTreeSet<JobId> = self.roster.jobs(view, &self.moves).filter_map(is_open).collect();
        // A job that shares the devices of one that stays there stays as well.
        let stays = |job: &JobId| {
            let mut devices = view.job(*job).placed().into_iter().flat_map(|placed| &placed.devices);
            devices.any(|device| view.occupancy.kept_by(*device).iter().any(|other| !open.contains(other)))
        };
        let staying: BTreeSet<JobId> = open.iter().copied().filter(stays).collect();
        open.retain(|job| !staying.contains(job));
        open
    }

    /// Grants leases in this order to jobs of `open`. Returns those that were granted, and the actions that bring it about.
    pub(crate) fn grant(
        &mut self,
        view: &View<'_>,
        open: &BTreeSet<JobId>,
        wishes: &[Lease],
    ) -> (Vec<Lease>, Vec<Action>) {
        let free = self.free(view, open);
        let mut on_node = vec![0; view.topology.nodes().len()];
        free.iter().for_each(|device| on_node[view.topology.node_of(*device).0 as usize] += 1);
        let available = Available::of(view, on_node, self.cpus(view, open));
        let mut do_not_fit = BTreeSet::new();
        let (granted, found, kept) = loop {
            let chosen = choose(view, open, &available, wishes, &do_not_fit);
            let kept = kept(view, &free, &chosen);
            let wanted = chosen.iter().map(|lease| Wanted {
                job: lease.job,
                pool: lease.pool,
                devices: view.request(lease.job).devices,
                cpus: lease.cpus(view),
                now: kept.get(&lease.job).map_or_else(Vec::new, |placed| on_nodes(view, placed)),
            });
            let found = find_nodes(&available, &wanted.collect::<Vec<_>>());
            let lacks: Vec<Lease> =
                chosen.iter().copied().filter(|lease| !found.contains_key(&lease.job)).collect();
            if lacks.is_empty() {
                break (chosen, found, kept);
            }
            do_not_fit.extend(lacks);
        };
        let devices = devices(view, free, &granted, found, &kept);
        let actions = self.act(view, open, &granted, &devices);
        (granted, actions)
    }

    /// The number of devices of each pool that leases of these jobs may be of.
    pub(crate) fn free_by_pool(&self, view: &View<'_>, open: &BTreeSet<JobId>) -> BTreeMap<PoolId, u32> {
        let mut free = BTreeMap::new();
        for device in self.free(view, open) {
            *free.entry(view.occupancy.pool_of(device)).or_default() += 1;
        }
        free
    }

    /// The devices that leases may be of: all that are not lost, held by no other jobs than those in `open`, and not the destination
    /// of a move.
    fn free(&self, view: &View<'_>, open: &BTreeSet<JobId>) -> BTreeSet<DeviceId> {
        let mut free = BTreeSet::new();
        for node in view.pools().flat_map(|pool| view.occupancy.nodes_in(pool)) {
            let first = view.topology.nodes()[node.0 as usize].first.0;
            for device in (first..first + view.occupancy.devices_of(node)).map(DeviceId) {
                let is_free = view.occupancy.kept_by(device).iter().all(|job| open.contains(job));
                if is_free && !view.occupancy.is_lost(device) {
                    free.insert(device);
                }
            }
        }
        for (_, to) in self.moves.under_way() {
            free.retain(|device| !to.devices.contains(device));
        }
        free
    }

    /// The cores of each node that no job has but those in `open`, and that no job will have after a move.
    fn cpus(&self, view: &View<'_>, open: &BTreeSet<JobId>) -> Vec<Option<u32>> {
        let nodes = (0..).take(view.topology.nodes().len()).map(NodeId);
        let mut cpus: Vec<Option<u32>> = nodes.map(|node| view.occupancy.free_cpus(node)).collect();
        for (job, to) in self.moves.under_way() {
            // Once the job starts there, its cores are no longer free.
            let comes = to.devices.iter().filter(|device| !view.occupancy.kept_by(**device).contains(&job));
            for device in comes {
                let free = &mut cpus[view.topology.node_of(*device).0 as usize];
                *free = free.map(|free| free.saturating_sub(u32::from(to.cpus.unwrap_or_default())));
            }
        }
        for placed in open.iter().filter_map(|job| view.job(*job).placed()) {
            for (node, devices) in on_nodes(view, placed) {
                let free = &mut cpus[node.0 as usize];
                *free = free.map(|free| free + devices * u32::from(placed.cpus.unwrap_or_default()));
            }
        }
        cpus
    }

    fn act(
        &mut self,
        view: &View<'_>,
        open: &BTreeSet<JobId>,
        granted: &[Lease],
        devices: &BTreeMap<JobId, Vec<DeviceId>>,
    ) -> Vec<Action> {
        let (mut stops, mut moves, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        let lease_of: BTreeMap<JobId, &Lease> =
            granted.iter().flat_map(|lease| lease.jobs().map(move |job| (job, lease))).collect();
        for &job in open {
            let to = lease_of.get(&job).and_then(|lease| devices.get(&lease.job));
            match (&view.job(job).state, to) {
                (State::Placed(_), None) => stops.push(Action::Stop { job, checkpoint: true }),
                (State::Placed(placed), Some(to)) if !is_same(&placed.devices, to) => {
                    let asked = view.request(job);
                    moves.push(self.moves.begin(job, to.clone(), asked.plan, asked.cpus));
                }
                (State::Waiting { .. }, Some(to)) => starts.push(start(view, job, to.clone())),
                _ => {}
            }
        }
        stops.into_iter().chain(moves).chain(starts).collect()
    }
}

/// The leases that are granted by the numbers of devices of the pools, except those that do not fit on the nodes.
fn choose(
    view: &View<'_>,
    open: &BTreeSet<JobId>,
    available: &Available<'_>,
    wishes: &[Lease],
    do_not_fit: &BTreeSet<Lease>,
) -> Vec<Lease> {
    let mut left: BTreeMap<PoolId, u32> = view.pools().map(|pool| (pool, available.of_pool(pool))).collect();
    let (mut has_one, mut chosen) = (BTreeSet::new(), Vec::new());
    for lease in wishes {
        let devices = view.request(lease.job).devices;
        let can_have = lease.jobs().all(|job| open.contains(&job) && !has_one.contains(&job));
        let free = left.get_mut(&lease.pool).filter(|free| devices <= **free && can_have);
        if let Some(free) = free.filter(|_| !do_not_fit.contains(lease)) {
            *free -= devices;
            has_one.extend(lease.jobs());
            chosen.push(*lease);
        }
    }
    chosen
}

/// The placements that leases keep, by their first jobs: those of one of their jobs that runs in the pool. A placement is kept once.
fn kept<'a>(view: &'a View<'_>, free: &BTreeSet<DeviceId>, chosen: &[Lease]) -> BTreeMap<JobId, &'a Placed> {
    let mut taken = BTreeSet::new();
    let mut kept = BTreeMap::new();
    for lease in chosen {
        let can_keep = |placed: &&Placed| {
            placed.devices.iter().all(|device| {
                free.contains(device)
                    && !taken.contains(device)
                    && view.occupancy.pool_of(*device) == lease.pool
            })
        };
        if let Some(placed) = lease.jobs().filter_map(|job| view.job(job).placed()).find(can_keep) {
            taken.extend(placed.devices.iter().copied());
            kept.insert(lease.job, placed);
        }
    }
    kept
}

/// The devices of each lease, by its first job: those that it keeps, or else the first free ones of its nodes.
fn devices(
    view: &View<'_>,
    mut free: BTreeSet<DeviceId>,
    granted: &[Lease],
    found: Nodes,
    kept: &BTreeMap<JobId, &Placed>,
) -> BTreeMap<JobId, Vec<DeviceId>> {
    let mut devices = BTreeMap::new();
    for (job, placed) in kept {
        let mut nodes = found[job].clone();
        nodes.sort_unstable();
        if nodes == on_nodes(view, placed) {
            free.retain(|device| !placed.devices.contains(device));
            devices.insert(*job, placed.devices.clone());
        }
    }
    for lease in granted {
        if devices.contains_key(&lease.job) {
            continue;
        }
        let mut of_lease = Vec::new();
        for &(node, count) in &found[&lease.job] {
            let first = view.topology.nodes()[node.0 as usize].first.0;
            let range = DeviceId(first)..DeviceId(first + view.occupancy.devices_of(node));
            let here: Vec<DeviceId> = free.range(range).copied().take(count as usize).collect();
            free.retain(|device| !here.contains(device));
            of_lease.extend(here);
        }
        devices.insert(lease.job, of_lease);
    }
    devices
}

fn is_same(one: &[DeviceId], other: &[DeviceId]) -> bool {
    let sorted = |devices: &[DeviceId]| devices.iter().copied().collect::<BTreeSet<_>>();
    sorted(one) == sorted(other)
}
