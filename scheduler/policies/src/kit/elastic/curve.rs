//! The best plan of a job for each number of devices and cores: the resource-sensitivity curve of Rubick (arXiv 2408.08586).
//!
//! A job has part of one node, or whole nodes, or what it asks for. A number of devices is a level of its curve if the best plan there
//! is faster by more than 1 % than that of the level below. At each level, a number of cores for each rank is a point if the best
//! plan with it is faster by more than 1 % than that with fewer. So both never fall, and the smaller of two equal allocations is
//! kept.

use std::{
    collections::{BTreeSet, HashMap},
    rc::Rc,
};

use engine::{
    cluster::JobId,
    job::{JobRequest, SharedRequest},
    occupancy::PoolId,
    topology::{Node, NodeId},
    view::{Change, View},
};
use model::Prediction;
use schema::plan::Plan;
use statrs::distribution::{ContinuousCDF as _, Normal};

use super::Available;
use crate::kit::belief;

/// One more unit of a resource is worth taking if it raises the throughput by more than this.
pub(crate) const WORTH: f64 = 0.01;

/// What a policy may choose for an elastic job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Freedom {
    /// Whether it may choose another plan than the job asks for. Without it, another number of devices means another degree of data
    /// parallelism, and everything else stays.
    pub(crate) plans: bool,
    /// Whether it may choose another number of devices and of cores.
    pub(crate) resources: bool,
    /// The quantile of the predicted time of a step by which it decides: 0.5 is the median, and more is more careful.
    pub(crate) quantile: f64,
    /// A plan that differs from that of the job in more than the degree of data parallelism is chosen only if it is faster by more than this
    /// share.
    pub(crate) margin: f64,
}

impl Freedom {
    pub(crate) const ALL: Freedom = Freedom { plans: true, resources: true, quantile: 0.5, margin: 0.0 };

    pub(crate) fn allows(&self, asked: &JobRequest, plan: Plan) -> bool {
        let Some(own) = asked.plan else { return false };
        // Another precision would change what the job computes.
        let is_same_job = plan.precision == own.precision;
        let is_same_plan = self.plans || is_same_kind(plan, own);
        let is_same_size = self.resources || plan.ranks() == asked.devices;
        is_same_job && is_same_plan && is_same_size
    }

    /// The time of a step at the quantile, in seconds. The logarithm of a predicted time is normal.
    pub(crate) fn step_s(&self, predicted: Prediction) -> f64 {
        let z = Normal::standard().inverse_cdf(self.quantile);
        let deviation = predicted.step_ns_ci.map_or(0.0, |(lo, hi)| (hi / lo).ln() / (2.0 * 1.96));
        predicted.step_ns / 1e9 * (z * deviation).exp()
    }
}

/// Whether two plans differ in the degree of data parallelism alone.
fn is_same_kind(plan: Plan, own: Plan) -> bool {
    Plan { dp: own.dp, zero: own.zero, ..plan } == own && is_same_zero(plan, own)
}

/// One rank alone has nothing to divide, so that it has no ZeRO stage.
fn is_same_zero(plan: Plan, own: Plan) -> bool {
    plan.zero == own.zero || plan.dp == 1 || own.dp == 1
}

/// The curve of a job on the devices of one type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Curve {
    /// The pool of the devices: of the type that the job asks for, or of the first type of which its times are known and which has
    /// room for it in an empty cluster.
    pub(crate) pool: PoolId,
    /// Devices of a node of the pool, the largest.
    pub(crate) per_node: u32,
    /// In ascending order of devices, and of throughput. There is at least one.
    pub(crate) levels: Vec<Level>,
    /// The throughput under the plan and with the resources that the job asks for, in steps per second. `None` if it is not known.
    pub(crate) asked_rate: Option<f64>,
    /// Whether the times of the job are known. If not, there is one level, which is what the job asks for, with a rate of 1.
    pub(crate) is_known: bool,
}

/// A number of devices, and what it gives.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Level {
    pub(crate) devices: u32,
    /// By number of cores, in ascending order. There is at least one.
    pub(crate) points: Vec<Point>,
    /// The point that the job has with its share of the cores of a node.
    fair: usize,
}

/// The best plan with a number of devices and of cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// Cores for each rank. `None` if cores are not counted and the job asks for none.
    pub(crate) cpus: Option<u16>,
    pub(crate) plan: Option<Plan>,
    /// Steps per second.
    pub(crate) rate: f64,
}

impl Level {
    /// The point with the share of the cores that belongs to these devices.
    pub(crate) fn fair(&self) -> &Point {
        &self.points[self.fair]
    }
}

impl Curve {
    /// The throughput with which those of the job are compared: that with what it asks for, or else the highest with no more devices.
    pub(crate) fn reference(&self, asked: &JobRequest) -> f64 {
        let as_asked = || self.levels.iter().rev().find(|level| level.devices <= asked.devices);
        let own = || as_asked().unwrap_or(&self.levels[0]).fair().rate;
        self.asked_rate.unwrap_or_else(own)
    }

    /// The place of the level with this number of devices, or of the next lower one. `None` if all have more.
    pub(crate) fn at(&self, devices: u32) -> Option<usize> {
        self.levels.partition_point(|level| level.devices <= devices).checked_sub(1)
    }
}

/// The curves of the jobs of a run. Jobs that ask for the same share one, and a curve is made again when the model has learned.
#[derive(Debug, Default)]
pub(crate) struct Curves {
    of_jobs: HashMap<JobId, Rc<Curve>>,
    shared: HashMap<Alike, Rc<Curve>>,
    /// Plans under which a job ran out of memory.
    too_large: HashMap<JobId, BTreeSet<Plan>>,
    /// The pool of all curves. `None` if they are of the pool that is best known of each job.
    only: Option<PoolId>,
}

/// What the curve of a job depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Alike {
    workload: String,
    global_batch: Option<u32>,
    asked: (Option<Plan>, u32, Option<u16>),
    bounds: (bool, Option<u32>, Option<u32>),
    device_type: Option<String>,
    virtual_cluster: String,
    step_ns: Option<u64>,
}

impl Alike {
    fn of(asked: &JobRequest) -> Alike {
        Alike {
            workload: asked.what.workload().into_owned(),
            global_batch: asked.what.global_batch(),
            asked: (asked.plan, asked.devices, asked.cpus),
            bounds: (asked.elastic, asked.min_devices, asked.max_devices),
            device_type: asked.device_type.clone(),
            virtual_cluster: asked.virtual_cluster.clone(),
            step_ns: asked.step_ns,
        }
    }
}

impl Curves {
    /// Curves on the devices of one pool. Of a job that may not have these, none is known.
    pub(crate) fn in_pool(pool: PoolId) -> Curves {
        Curves { only: Some(pool), ..Curves::default() }
    }

    /// Forgets the curves that the changes of a view make wrong.
    pub(crate) fn refresh(&mut self, view: &View<'_>) {
        for change in view.changes {
            match *change {
                Change::Believed(job) => {
                    self.of_jobs.remove(&job);
                    self.shared.remove(&Alike::of(view.request(job)));
                }
                Change::TooLarge { job, plan: Some(plan) } => {
                    self.of_jobs.remove(&job);
                    self.too_large.entry(job).or_default().insert(plan);
                }
                Change::Ended(job) => drop(self.of_jobs.remove(&job)),
                _ => {}
            }
        }
    }

    /// The curve of a job, if it was asked for before.
    pub(crate) fn known(&self, job: JobId) -> Option<Rc<Curve>> {
        self.of_jobs.get(&job).cloned()
    }

    /// The curve of a job.
    pub(crate) fn of(&mut self, view: &View<'_>, job: JobId, freedom: &Freedom) -> Rc<Curve> {
        if let Some(known) = self.of_jobs.get(&job) {
            return known.clone();
        }
        let curve = match self.too_large.get(&job) {
            Some(too_large) => Rc::new(curve(view, job, freedom, (self.only, too_large))),
            None => {
                let alike = Alike::of(view.request(job));
                let make = || Rc::new(curve(view, job, freedom, (self.only, &BTreeSet::new())));
                self.shared.entry(alike).or_insert_with(make).clone()
            }
        };
        self.of_jobs.insert(job, curve.clone());
        curve
    }
}

fn curve(
    view: &View<'_>,
    job: JobId,
    freedom: &Freedom,
    (only, too_large): (Option<PoolId>, &BTreeSet<Plan>),
) -> Curve {
    let asked = view.request(job);
    let pools = view.pools().filter(|pool| only.is_none_or(|only| only == *pool));
    let pools = pools.filter_map(|pool| Some((pool, largest(view, pool)?)));
    let wanted = |(_, node): &(PoolId, &Node)| {
        asked.device_type.as_ref().is_none_or(|wanted| *wanted == node.device_type)
    };
    let searches: Vec<Search<'_>> =
        pools.filter(wanted).map(|(pool, node)| Search { view, job, freedom, pool, node }).collect();
    let known = searches.iter().map(|search| search.curve(too_large)).find(|curve| curve.is_known);
    known.unwrap_or_else(|| {
        let holds = |search: &&Search<'_>| search.can_hold(asked.devices, asked.cpus);
        let search = searches.iter().find(holds).or(searches.first());
        search.map_or_else(|| unknown(asked, PoolId(0), asked.devices), Search::unknown)
    })
}

/// The node of a pool that has the most devices.
fn largest<'a>(view: &View<'a>, pool: PoolId) -> Option<&'a Node> {
    let node = |node: NodeId| &view.topology.nodes()[node.0 as usize];
    view.occupancy
        .nodes_in(pool)
        .map(node)
        .max_by_key(|node| (node.devices.len(), std::cmp::Reverse(node.first)))
}

fn unknown(asked: &JobRequest, pool: PoolId, per_node: u32) -> Curve {
    let point = Point { cpus: asked.cpus, plan: asked.plan, rate: 1.0 };
    let level = Level { devices: asked.devices, points: vec![point], fair: 0 };
    Curve { pool, per_node, levels: vec![level], asked_rate: None, is_known: false }
}

/// The search for the curve of a job in a pool.
struct Search<'a> {
    view: &'a View<'a>,
    job: JobId,
    freedom: &'a Freedom,
    pool: PoolId,
    node: &'a Node,
}

impl Search<'_> {
    fn curve(&self, too_large: &BTreeSet<Plan>) -> Curve {
        let asked = self.view.request(self.job);
        let per_node = self.node.devices.len() as u32;
        let own = asked.plan.map_or_else(BTreeSet::new, |plan| BTreeSet::from([plan]));
        let legal = self.view.plans(self.job).filter(|legal| legal.device_type == self.node.device_type);
        let legal: BTreeSet<Plan> =
            legal.map(|legal| legal.plan).filter(|plan| self.freedom.allows(asked, *plan)).collect();
        // A job without legal plans runs under its own, and so does one of which nothing is known but what it asks for.
        let plans: Vec<Option<Plan>> = match (legal.is_empty(), asked.plan) {
            (true, None) => vec![None],
            (true, Some(_)) => own.iter().copied().map(Some).collect(),
            (false, _) => legal.iter().copied().map(Some).collect(),
        };
        let mut by_devices: HashMap<u32, Vec<Option<Plan>>> = HashMap::new();
        for plan in plans.into_iter().filter(|plan| plan.is_none_or(|plan| !too_large.contains(&plan))) {
            by_devices.entry(plan.map_or(asked.devices, |plan| plan.ranks())).or_default().push(plan);
        }
        let mut numbers: Vec<u32> = by_devices.keys().copied().collect();
        numbers.sort_unstable();
        let mut levels: Vec<Level> = Vec::new();
        for devices in numbers {
            let Some(placement) = self.placement(devices) else { continue };
            let Some(level) = self.level(devices, &placement, &by_devices[&devices]) else { continue };
            let is_worth = |last: &Level| level.fair().rate > last.fair().rate * (1.0 + WORTH);
            if levels.last().is_none_or(is_worth) {
                levels.push(level);
            }
        }
        if levels.is_empty() {
            return self.unknown();
        }
        let as_asked = self.placement(asked.devices);
        let rate = |cpus| self.rate(asked.plan, as_asked.as_ref()?, cpus);
        let asked_rate = rate(asked.cpus.or(self.fair_cpus())).or_else(|| rate(asked.cpus));
        Curve { pool: self.pool, per_node, levels, asked_rate, is_known: true }
    }

    fn unknown(&self) -> Curve {
        unknown(self.view.request(self.job), self.pool, self.node.devices.len() as u32)
    }

    /// Whether the nodes of the pool would have these devices, with cores for each, if they were empty.
    fn can_hold(&self, devices: u32, cpus: Option<u16>) -> bool {
        Available::empty(self.view).find(self.pool, devices, cpus).is_some()
    }

    /// The devices on each node: those of one node, whole nodes, or what the job asks for. `None` for any other number.
    fn placement(&self, devices: u32) -> Option<Vec<u32>> {
        let per_node = self.node.devices.len() as u32;
        let (whole, rest) = (devices / per_node, devices % per_node);
        let is_asked = devices == self.view.request(self.job).devices;
        if whole > 0 && rest > 0 && !is_asked {
            return None;
        }
        let whole = std::iter::repeat_n(per_node, whole as usize);
        Some(whole.chain(Some(rest).filter(|rest| *rest > 0)).collect())
    }

    /// The share of the cores of a node that belongs to a device. `None` if cores are not counted.
    fn fair_cpus(&self) -> Option<u16> {
        let cpus = self.node.facts.cpus.filter(|_| self.view.occupancy.counts_cpus())?;
        Some(u16::try_from(cpus / self.node.devices.len() as u32).unwrap_or(u16::MAX).max(1))
    }

    /// The numbers of cores for each rank that are looked at: powers of two up to what a node has for them, the share of a device,
    /// and what the job asks for.
    fn cpus(&self, on_a_node: u32) -> Vec<Option<u16>> {
        let SharedRequest { cpus: asked, elastic, .. } = *self.view.request(self.job).shared;
        let may_choose = elastic && self.freedom.resources;
        let Some(fair) = self.fair_cpus().filter(|_| may_choose) else { return vec![asked] };
        let most = (self.node.facts.cpus.unwrap_or_default() / on_a_node).max(1);
        let powers = (0..=most.ilog2()).map(|exponent| 1u16 << exponent.min(15));
        let mut all: BTreeSet<u16> = powers.chain([fair]).chain(asked).collect();
        all.retain(|cpus| u32::from(*cpus) <= most);
        all.into_iter().map(Some).collect()
    }

    fn level(&self, devices: u32, placement: &[u32], plans: &[Option<Plan>]) -> Option<Level> {
        let on_a_node = placement[0];
        let fits = |plan: &&Option<Plan>| plan.is_none_or(|plan| is_whole_on_nodes(plan, placement));
        let plans: Vec<Option<Plan>> = plans.iter().filter(fits).copied().collect();
        let own = self.view.request(self.job).plan;
        let mut points: Vec<Point> = Vec::new();
        for cpus in self.cpus(on_a_node) {
            let point = |plan: &Option<Plan>| {
                let rate = self.rate(*plan, placement, cpus)?;
                Some(Point { cpus, plan: *plan, rate })
            };
            let worth = |point: &Point| {
                let is_own = point.plan.zip(own).is_none_or(|(plan, own)| is_same_kind(plan, own));
                point.rate * if is_own { 1.0 + self.freedom.margin } else { 1.0 }
            };
            let best = plans.iter().filter_map(point).max_by(|a, b| worth(a).total_cmp(&worth(b)));
            let is_worth =
                |best: &Point| points.last().is_none_or(|last| best.rate > last.rate * (1.0 + WORTH));
            points.extend(best.filter(is_worth));
        }
        let asked = self.view.request(self.job).cpus;
        let share = self.fair_cpus().or(asked);
        let within = |point: &Point| point.cpus.is_none_or(|cpus| share.is_none_or(|share| cpus <= share));
        let fair = points.iter().rposition(within).unwrap_or(0);
        let is_there = self.can_hold(devices, points.get(fair)?.cpus);
        is_there.then_some(Level { devices, points, fair })
    }

    fn rate(&self, plan: Option<Plan>, placement: &[u32], cpus: Option<u16>) -> Option<f64> {
        let predicted =
            belief::step_in(self.view, (self.job, plan), placement, &self.node.device_type, cpus)?;
        let step_s = self.freedom.step_s(predicted);
        (step_s > 0.0 && step_s.is_finite()).then_some(1.0 / step_s)
    }
}

/// Whether tensor-parallel ranks are on one node, and whether all nodes have as many ranks if the plan divides the model.
fn is_whole_on_nodes(plan: Plan, placement: &[u32]) -> bool {
    let divides = plan.tp > 1 || plan.pp > 1;
    let is_even = placement.iter().all(|devices| *devices == placement[0]);
    let is_within = placement[0].is_multiple_of(u32::from(plan.tp));
    placement.len() == 1 || !divides || (is_even && is_within)
}
