//! The cores of a round. The number of cores changes the speed of a plan that offloads the optimizer, which is updated on the host. Each rank
//! under another plan gets the smallest number on its curve. The job whose speed rises most for each further core gets the free
//! cores of its node, and then those of jobs that lose less speed.

use std::collections::BTreeMap;

use engine::{topology::NodeId, view::View};

use super::{contender::Contender, floor::Floor};
use crate::kit::elastic::Point;

/// The points at which jobs run, by their places in the round; `None` for a job that cannot be started for lack of cores. A job that
/// is not among them runs as it did before. `cpus` has the cores of each node that the jobs may have, where they are counted.
pub(super) fn points(view: &View<'_>, cpus: &[Option<u32>], floor: &Floor) -> BTreeMap<usize, Option<Point>> {
    let counts = view.occupancy.counts_cpus();
    let mut points = BTreeMap::new();
    let mut on_one_node: BTreeMap<NodeId, Vec<Share>> = BTreeMap::new();
    let mut elsewhere: BTreeMap<NodeId, u32> = BTreeMap::new();
    for (place, job) in floor.jobs.iter().enumerate() {
        let Some(has) = &job.has else { continue };
        let Some(level) = has.level else {
            // It goes on as it is, with the cores that it has.
            let cpus = view.job(job.job).placed().and_then(|placed| placed.cpus).unwrap_or(0);
            has.nodes.iter().for_each(|(node, devices)| {
                *elsewhere.entry(*node).or_default() += u32::from(cpus) * devices
            });
            continue;
        };
        match has.nodes[..] {
            [(node, _)] if counts => {
                on_one_node.entry(node).or_default().push(Share::new(view, place, job, level))
            }
            _ => {
                let fair = *job.curve.levels[level].fair();
                let needed = |devices: u32| u32::from(fair.cpus.unwrap_or(0)) * devices;
                let lacks = |(node, devices): &(NodeId, u32)| {
                    let taken = elsewhere.get(node).copied().unwrap_or(0);
                    cpus[node.0 as usize].is_some_and(|cpus| cpus < taken + needed(*devices))
                };
                if job.before.is_none() && has.nodes.iter().any(lacks) {
                    points.insert(place, None);
                    continue;
                }
                for (node, devices) in &has.nodes {
                    *elsewhere.entry(*node).or_default() += needed(*devices);
                }
                if job.has_changed() {
                    points.insert(place, Some(fair));
                }
            }
        }
    }
    for (node, shares) in on_one_node {
        let Some(there) = cpus[node.0 as usize] else {
            for share in shares.iter().filter(|share| floor.jobs[share.place].has_changed()) {
                let level = &floor.jobs[share.place].curve.levels[share.level];
                points.insert(share.place, Some(*level.fair()));
            }
            continue;
        };
        let taken = elsewhere.get(&node).copied().unwrap_or(0);
        let mut of_node = OfNode {
            floor,
            shares,
            left: i64::from(there) - i64::from(taken),
            reserve: i64::from(floor.free_on(node)),
        };
        of_node.divide();
        for share in &of_node.shares {
            if share.has_changed(floor) {
                points.insert(share.place, (!share.is_dropped).then(|| of_node.point(share)));
            }
        }
    }
    points
}

/// The cores of a job on one node.
#[derive(Clone, Copy, Debug)]
struct Share {
    place: usize,
    level: usize,
    devices: u32,
    /// The place of its point at the level.
    point: usize,
    /// The place of the point that it had before; `None` for a job that is started or moved anyway.
    before: Option<usize>,
    /// Whether it is not started, because there are too few cores.
    is_dropped: bool,
}

impl Share {
    fn new(view: &View<'_>, place: usize, job: &Contender, level: usize) -> Share {
        let placed = view.job(job.job).placed();
        let points = &job.curve.levels[level].points;
        let is_present = |point: &Point| {
            placed.is_some_and(|placed| (placed.plan, placed.cpus) == (point.plan, point.cpus))
        };
        let before = points.iter().position(is_present).filter(|_| !job.has_changed());
        Share { place, level, devices: job.devices(), point: before.unwrap_or(0), before, is_dropped: false }
    }

    fn has_changed(&self, floor: &Floor) -> bool {
        floor.jobs[self.place].has_changed() || self.before != Some(self.point)
    }
}

/// The jobs on a node, and its cores.
struct OfNode<'a> {
    floor: &'a Floor,
    shares: Vec<Share>,
    /// Cores of the node that no job has. Below 0 if the jobs have more than there are.
    left: i64,
    /// Cores that are kept for the free devices of the node, so that jobs can be started there.
    reserve: i64,
}

/// Another point for a job, and for one that gives cores up for it.
struct Step {
    slope: f64,
    taker: (usize, usize),
    giver: Option<(usize, usize)>,
}

impl OfNode<'_> {
    fn divide(&mut self) {
        for share in 0..self.shares.len() {
            self.left -= self.cores(&self.shares[share], self.shares[share].point);
        }
        while self.left < 0 {
            let Some((giver, point)) = self.cheapest_giver(None) else { break };
            self.set(giver, point);
        }
        for share in (0..self.shares.len()).rev() {
            let Share { place, point, .. } = self.shares[share];
            if self.left < 0 && self.floor.jobs[place].before.is_none() {
                self.left += self.cores(&self.shares[share], point);
                self.shares[share].is_dropped = true;
            }
        }
        while let Some(step) = self.best_step() {
            for (share, point) in step.giver.into_iter().chain([step.taker]) {
                self.set(share, point);
            }
        }
    }

    fn set(&mut self, share: usize, point: usize) {
        let now = self.shares[share];
        self.left += self.cores(&now, now.point) - self.cores(&now, point);
        self.shares[share].point = point;
    }

    fn cores(&self, share: &Share, point: usize) -> i64 {
        let cpus = self.floor.jobs[share.place].curve.levels[share.level].points[point].cpus;
        i64::from(share.devices) * i64::from(cpus.unwrap_or(0))
    }

    fn point(&self, share: &Share) -> Point {
        self.floor.jobs[share.place].curve.levels[share.level].points[share.point]
    }

    fn speed(&self, share: &Share, point: usize) -> f64 {
        self.floor.jobs[share.place].speed_at_point(share.level, point)
    }

    /// The work that a change costs a job once, in seconds at the reference.
    fn cost_of_change(&self, share: &Share) -> f64 {
        let job = &self.floor.jobs[share.place];
        match share.before == Some(share.point) {
            true if job.may_restart => job.cost_of_change(),
            true => f64::INFINITY,
            false => 0.0,
        }
    }

    /// The job that loses the least speed for each core by having the next smaller number, and its point then.
    fn cheapest_giver(&self, except: Option<usize>) -> Option<(usize, usize)> {
        let lower = |(place, share): (usize, &Share)| {
            let point = share.point.checked_sub(1).filter(|_| Some(place) != except && !share.is_dropped)?;
            let loss = self.speed(share, share.point) - self.speed(share, point);
            let cores = self.cores(share, share.point) - self.cores(share, point);
            Some((loss / cores as f64, place, point))
        };
        let steps = self.shares.iter().enumerate().filter_map(lower);
        steps.min_by(|(a, ..), (b, ..)| a.total_cmp(b)).map(|(_, place, point)| (place, point))
    }

    /// The step that gains the most speed for each core among those that pay.
    fn best_step(&self) -> Option<Step> {
        let mut best: Option<Step> = None;
        for (place, share) in self.shares.iter().enumerate().filter(|(_, share)| !share.is_dropped) {
            let points = self.floor.jobs[share.place].curve.levels[share.level].points.len();
            for point in share.point + 1..points {
                let gain = self.speed(share, point) - self.speed(share, share.point);
                let cores = self.cores(share, point) - self.cores(share, share.point);
                let slope = gain / cores as f64;
                let is_steeper = best.as_ref().is_none_or(|best| slope > best.slope);
                if !is_steeper {
                    continue;
                }
                let giver = match self.left - self.reserve >= cores {
                    true => None,
                    false => match self.cheapest_giver(Some(place)) {
                        Some(giver) => Some(giver),
                        None => continue,
                    },
                };
                let (mut loss, mut once, mut given) = (0.0, self.cost_of_change(share), 0);
                if let Some((other, lower)) = giver {
                    let of = &self.shares[other];
                    loss = self.speed(of, of.point) - self.speed(of, lower);
                    once += self.cost_of_change(of);
                    given = self.cores(of, of.point) - self.cores(of, lower);
                    let job = &self.floor.jobs[of.place];
                    if self.speed(of, lower) < job.guarantee * (1.0 - 1e-9) {
                        continue;
                    }
                }
                if self.left - self.reserve + given < cores {
                    continue;
                }
                let seconds = self.floor.jobs[share.place].left_at(self.speed(share, point));
                if (gain - loss) * seconds - once > 0.0 {
                    best = Some(Step { slope, taker: (place, point), giver });
                }
            }
        }
        best
    }
}
