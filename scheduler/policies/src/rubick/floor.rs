//! The devices of a round: what each node has, who has it, and what it would cost to free some.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    fmt,
};

use engine::{
    occupancy::PoolId,
    topology::{DeviceId, NodeId},
    view::View,
};

use super::contender::{Contender, Has};

/// The jobs and the nodes of a round.
pub(super) struct Floor {
    pub(super) jobs: Vec<Contender>,
    /// The devices of each node, free or not.
    sizes: Vec<u32>,
    /// Of each pool, the devices of the largest node, of the two largest together, and so on.
    largest: HashMap<PoolId, Vec<u32>>,
    free: Vec<u32>,
    /// The cores of each node that the jobs may have. `None` where they are not counted.
    cores: Vec<Option<u32>>,
    /// The jobs on each node, by their places in `jobs`.
    on: Vec<Vec<usize>>,
    nodes_of: HashMap<PoolId, Vec<NodeId>>,
    /// The cost of freeing 0, 1, 2 .. devices of each node, for each kind of claim.
    costs: [Vec<Vec<Cost>>; 4],
    /// Whether jobs may be lowered for others that only gain, or that wait.
    reclaims: bool,
    pub(super) reserved: Vec<Reserved>,
    /// The devices of each node that are not lost.
    present: Vec<u32>,
}

/// Why a job claims devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// It is below its guarantee: others give up what they have above their own, whatever a restart costs them.
    Guarantee = 0,
    /// It waits and is not guaranteed: others give up what they have above what they ask for, whatever a restart costs them.
    Start = 1,
    /// It gains more than the others lose.
    Gain = 2,
    /// The same for more devices than it asks for: others keep what they ask for.
    Growth = 3,
}

impl Claim {
    const ALL: [Claim; 4] = [Claim::Guarantee, Claim::Start, Claim::Gain, Claim::Growth];

    /// Whether it goes before the share of the time that jobs may lose by restarts.
    fn is_urgent(self) -> bool {
        matches!(self, Claim::Guarantee | Claim::Start)
    }
}

/// Nodes that are kept for a job that has waited for too long: others that come there end before it can start.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reserved {
    pub(super) job: usize,
    pub(super) nodes: Vec<NodeId>,
    /// In how many seconds the nodes have the devices. 0 if that is not known.
    pub(super) until_s: f64,
}

/// What others lose if devices are freed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    /// Speed.
    pub(super) loss: f64,
    /// Work that is lost once by restarts, in seconds at the reference.
    pub(super) once: f64,
}

impl Cost {
    /// The work that others lose in this many seconds.
    fn within(self, seconds: f64) -> f64 {
        self.loss * seconds + self.once
    }
}

/// A change of the resources of several jobs: one gets devices that are free or that others give up.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) taker: usize,
    pub(super) has: Has,
    /// What the jobs have that give something up; `None` if they are stopped.
    pub(super) givers: BTreeMap<usize, Option<Has>>,
    pub(super) cost: Cost,
}

impl Exchange {
    /// The work gained until the taker has ended, in seconds at the reference: what it gains, less what the others lose and less the
    /// restarts. Without givers this is above 0 exactly if the remaining steps times the gain of each exceed the time of a restart.
    pub(super) fn benefit(&self, taker: &Contender) -> f64 {
        let seconds = taker.left_at(self.has.speed);
        let gained = (self.has.speed - taker.speed()) * seconds;
        gained - self.cost.within(seconds) - taker.cost_of_change()
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Claim::Guarantee => "guarantee",
            Claim::Start => "start",
            Claim::Gain | Claim::Growth => "gain",
        })
    }
}

impl Floor {
    /// `room` and `cores` have the devices and the cores of each node that the jobs may have, by number.
    pub(super) fn new(
        view: &View<'_>,
        jobs: Vec<Contender>,
        (room, cores): (Vec<u32>, Vec<Option<u32>>),
        reclaims: bool,
    ) -> Floor {
        let nodes_of: HashMap<PoolId, Vec<NodeId>> =
            view.pools().map(|pool| (pool, view.occupancy.nodes_in(pool).collect())).collect();
        let sizes: Vec<u32> = view.topology.nodes().iter().map(|node| node.devices.len() as u32).collect();
        let is_there = |node: NodeId| {
            let first = view.topology.nodes()[node.0 as usize].first.0;
            let devices = (first..first + view.occupancy.devices_of(node)).map(DeviceId);
            devices.filter(|device| !view.occupancy.is_lost(*device)).count() as u32
        };
        let present: Vec<u32> = (0..).map(NodeId).take(room.len()).map(is_there).collect();
        let largest = nodes_of.iter().map(|(pool, nodes)| {
            let mut of_nodes: Vec<u32> = nodes.iter().map(|node| sizes[node.0 as usize]).collect();
            of_nodes.sort_unstable_by_key(|size| Reverse(*size));
            let sums = of_nodes.iter().scan(0, |sum, size| {
                *sum += size;
                Some(*sum)
            });
            (*pool, sums.collect())
        });
        let largest = largest.collect();
        let mut on = vec![Vec::new(); room.len()];
        let mut free = room;
        for (place, job) in jobs.iter().enumerate() {
            for &(node, devices) in job.has.iter().flat_map(|has| &has.nodes) {
                free[node.0 as usize] -= devices;
                on[node.0 as usize].push(place);
            }
        }
        let (costs, reserved) = (Default::default(), Vec::new());
        let mut floor =
            Floor { jobs, sizes, largest, free, cores, on, nodes_of, costs, reclaims, reserved, present };
        for claim in Claim::ALL {
            let of = |node: usize| floor.costs_of(NodeId(node as u32), claim);
            floor.costs[claim as usize] = (0..floor.sizes.len()).map(of).collect();
        }
        floor
    }

    /// The devices of a node that no job has.
    pub(super) fn free_on(&self, node: NodeId) -> u32 {
        self.free[node.0 as usize]
    }

    /// The number of devices of a node, free or not.
    pub(super) fn size(&self, node: NodeId) -> u32 {
        self.sizes[node.0 as usize]
    }

    /// The devices of a node that are not lost.
    pub(super) fn present(&self, node: NodeId) -> u32 {
        self.present[node.0 as usize]
    }

    pub(super) fn nodes_of(&self, pool: PoolId) -> &[NodeId] {
        self.nodes_of.get(&pool).map_or(&[], |nodes| nodes)
    }

    /// The jobs on a node, by their places in `jobs`.
    pub(super) fn jobs_on(&self, node: NodeId) -> &[usize] {
        &self.on[node.0 as usize]
    }

    /// The devices of a node that are free or that others give up for a claim.
    pub(super) fn freed_at_most(&self, node: NodeId, claim: Claim) -> u32 {
        self.costs[claim as usize][node.0 as usize].len() as u32 - 1
    }

    /// The next step by which a job on a node gives up devices there: of all such steps, the one that loses the least speed for
    /// each device. `changed` has the steps that were taken before.
    fn cheapest_step(
        &self,
        node: NodeId,
        claim: Claim,
        except: Option<usize>,
        changed: &BTreeMap<usize, Option<Has>>,
    ) -> Option<(usize, Option<Has>)> {
        let mut cheapest: Option<(f64, usize, Option<Has>)> = None;
        for &place in self.on[node.0 as usize].iter().filter(|place| Some(**place) != except) {
            let job = &self.jobs[place];
            let has = match changed.get(&place) {
                Some(has) => has.as_ref(),
                None if claim.is_urgent() || job.may_restart || job.has_changed() => job.has.as_ref(),
                None => None,
            };
            let Some(has) = has else { continue };
            let Some(to) = job.lower(has, node, claim) else { continue };
            let (speed, devices) = to.as_ref().map_or((0.0, 0), |to| (to.speed, to.devices));
            let slope = (has.speed - speed) / f64::from(has.devices - devices);
            if cheapest.as_ref().is_none_or(|(least, ..)| slope < *least) {
                cheapest = Some((slope, place, to));
            }
        }
        cheapest.map(|(_, place, to)| (place, to))
    }

    /// The cost of what jobs have given up.
    fn cost(&self, changed: &BTreeMap<usize, Option<Has>>) -> Cost {
        let mut cost = Cost::default();
        for (place, to) in changed {
            let job = &self.jobs[*place];
            cost.loss += job.speed() - to.as_ref().map_or(0.0, |to| to.speed);
            cost.once += job.cost_of_change();
        }
        cost
    }

    fn costs_of(&self, node: NodeId, claim: Claim) -> Vec<Cost> {
        let mut free = self.free[node.0 as usize];
        let mut costs = vec![Cost::default(); free as usize + 1];
        let mut changed = BTreeMap::new();
        if claim != Claim::Guarantee && !self.reclaims {
            return costs;
        }
        while let Some((place, to)) = self.cheapest_step(node, claim, None, &changed) {
            free += self.freed(node, place, &to, &changed);
            changed.insert(place, to);
            costs.resize(free as usize + 1, self.cost(&changed));
        }
        costs
    }

    fn freed(
        &self,
        node: NodeId,
        place: usize,
        to: &Option<Has>,
        changed: &BTreeMap<usize, Option<Has>>,
    ) -> u32 {
        let has = changed.get(&place).unwrap_or(&self.jobs[place].has);
        devices_on(has, node) - devices_on(to, node)
    }

    /// Frees devices of a node for a job, besides those that are free and its own. Returns whether as many can be freed.
    fn free_up(
        &self,
        node: NodeId,
        devices: u32,
        (claim, taker): (Claim, usize),
        changed: &mut BTreeMap<usize, Option<Has>>,
    ) -> bool {
        let own = devices_on(&self.jobs[taker].has, node);
        let given: u32 = changed
            .iter()
            .map(|(place, to)| devices_on(&self.jobs[*place].has, node) - devices_on(to, node))
            .sum();
        let mut there = self.free[node.0 as usize] + own + given;
        while there < devices {
            if claim != Claim::Guarantee && !self.reclaims {
                return false;
            }
            let Some((place, to)) = self.cheapest_step(node, claim, Some(taker), changed) else {
                return false;
            };
            there += self.freed(node, place, &to, changed);
            changed.insert(place, to);
        }
        true
    }

    /// The exchange that brings a job to a level at the least cost. `None` if the devices cannot be freed.
    pub(super) fn exchange(&self, taker: usize, level: usize, claim: Claim) -> Option<Exchange> {
        let job = &self.jobs[taker];
        let devices = job.curve.levels[level].devices;
        let speed = job.speed_at(level);
        let seconds = job.left_at(speed);
        let mut givers = BTreeMap::new();
        let mut nodes: Vec<(NodeId, u32)> = Vec::new();
        let mut left = devices;
        // All nodes but the last are whole ones, the largest first, so that there are as few as can be.
        let whole = self.fewest_nodes(job.curve.pool, devices)? - 1;
        if whole > 0 {
            let mut sizes = self.whole_nodes_by_cost((taker, level), claim, seconds);
            sizes.sort_by(|(size, cost, node), (other_size, other_cost, other)| {
                other_size.cmp(size).then(cost.total_cmp(other_cost)).then(node.cmp(other))
            });
            for (size, _, node) in sizes.into_iter().take(whole) {
                self.free_up(node, size, (claim, taker), &mut givers).then_some(())?;
                nodes.push((node, size));
                left = left.checked_sub(size)?;
            }
            if nodes.len() < whole {
                return None;
            }
        }
        if left > 0 {
            let by_cost = self.nodes_by_cost((taker, level), |_| left, claim, seconds);
            let others = by_cost.filter(|(.., node)| nodes.iter().all(|(taken, _)| taken != node));
            let least = others.min_by(|(a, free, node), (b, more, other)| {
                a.total_cmp(b).then((free, node).cmp(&(more, other)))
            });
            let (.., node) = least?;
            self.free_up(node, left, (claim, taker), &mut givers).then_some(())?;
            nodes.push((node, left));
        }
        let cost = self.cost(&givers);
        let exchange = Exchange { taker, has: job.at_level(level, nodes), givers, cost };
        self.has_cores(&exchange).then_some(exchange)
    }

    /// Whether the nodes of a job have the cores that it and the jobs beside it need, after an exchange.
    fn has_cores(&self, exchange: &Exchange) -> bool {
        let Exchange { taker, has, givers, .. } = exchange;
        let wanted = |devices: u32| devices * u32::from(has.cpus);
        has.nodes.iter().all(|(node, devices)| self.cores_are_free(*taker, *node, wanted(*devices), givers))
    }

    /// Whether the jobs on a node leave this many cores to another, after some have given up devices.
    fn cores_are_free(
        &self,
        taker: usize,
        node: NodeId,
        wanted: u32,
        givers: &BTreeMap<usize, Option<Has>>,
    ) -> bool {
        let Some(cores) = self.cores[node.0 as usize].filter(|_| wanted > 0) else { return true };
        let of_others = self.on[node.0 as usize].iter().filter(|place| **place != taker).map(|place| {
            let has = givers.get(place).unwrap_or(&self.jobs[*place].has);
            devices_on(has, node) * has.as_ref().map_or(0, |has| u32::from(has.cpus))
        });
        of_others.sum::<u32>() + wanted <= cores
    }

    /// The nodes of which a job can have all devices at a level, each with their number and the work that others lose by that.
    fn whole_nodes_by_cost(
        &self,
        taker: (usize, usize),
        claim: Claim,
        seconds: f64,
    ) -> Vec<(u32, f64, NodeId)> {
        let size = |node: NodeId| self.sizes[node.0 as usize];
        let found = self.nodes_by_cost(taker, size, claim, seconds);
        found.map(|(cost, _, node)| (size(node), cost, node)).collect()
    }

    /// The smallest number of nodes of a pool that have this many devices. `None` if there are fewer.
    pub(super) fn fewest_nodes(&self, pool: PoolId, devices: u32) -> Option<usize> {
        let largest = self.largest.get(&pool)?;
        let fewer = largest.partition_point(|sum| *sum < devices);
        (fewer < largest.len()).then_some(fewer + 1)
    }

    /// The nodes on which a job can have this many devices at a level, each with the work that others lose by that, and with its free devices.
    fn nodes_by_cost(
        &self,
        (taker, level): (usize, usize),
        devices: impl Fn(NodeId) -> u32,
        claim: Claim,
        seconds: f64,
    ) -> impl Iterator<Item = (f64, u32, NodeId)> {
        let job = &self.jobs[taker];
        let own: &[(NodeId, u32)] = job.has.as_ref().map_or(&[], |has| &has.nodes);
        let nodes = self.nodes_of(job.curve.pool);
        let fewest = job.fewest_cpus(level);
        let nothing = BTreeMap::new();
        let cost = move |node: NodeId| {
            let devices = devices(node);
            if self.is_kept_from((taker, level), node, devices) {
                return None;
            }
            // If others give way, so do their cores.
            if devices <= self.free[node.0 as usize]
                && !self.cores_are_free(taker, node, devices * u32::from(fewest), &nothing)
            {
                return None;
            }
            if own.iter().any(|(on, _)| *on == node) {
                let mut changed = BTreeMap::new();
                let is_possible = self.free_up(node, devices, (claim, taker), &mut changed);
                return is_possible.then(|| self.cost(&changed));
            }
            self.costs[claim as usize][node.0 as usize].get(devices as usize).copied()
        };
        nodes.iter().filter_map(move |&node| {
            let cost = cost(node)?.within(seconds);
            Some((cost, self.free[node.0 as usize], node))
        })
    }

    /// Does an exchange. What it frees beyond need stays free.
    pub(super) fn apply(&mut self, exchange: &Exchange) {
        let mut touched: Vec<NodeId> = Vec::new();
        let changes = exchange.givers.iter().map(|(place, to)| (*place, to.clone()));
        for (place, to) in changes.chain([(exchange.taker, Some(exchange.has.clone()))]) {
            let before = std::mem::replace(&mut self.jobs[place].has, to);
            for &(node, devices) in before.iter().flat_map(|has| &has.nodes) {
                self.free[node.0 as usize] += devices;
                self.on[node.0 as usize].retain(|other| *other != place);
                touched.push(node);
            }
        }
        for place in exchange.givers.keys().copied().chain([exchange.taker]) {
            for (node, devices) in
                self.jobs[place].has.iter().flat_map(|has| has.nodes.clone()).collect::<Vec<_>>()
            {
                self.free[node.0 as usize] -= devices;
                self.on[node.0 as usize].push(place);
                touched.push(node);
            }
        }
        // A job that has changed may be lowered by others at no further cost, wherever it is.
        touched.sort_unstable();
        touched.dedup();
        for claim in Claim::ALL {
            for &node in &touched {
                self.costs[claim as usize][node.0 as usize] = self.costs_of(node, claim);
            }
        }
    }
}

/// The devices of a node among those that a job has.
pub(super) fn devices_on(has: &Option<Has>, node: NodeId) -> u32 {
    let on = has.iter().flat_map(|has| &has.nodes).find(|(on, _)| *on == node);
    on.map_or(0, |(_, devices)| *devices)
}
