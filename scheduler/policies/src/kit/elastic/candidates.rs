//! The configurations that a job can be given now, and the nodes for those that were chosen.

use std::collections::BTreeMap;

use engine::{
    cluster::{Action, JobId},
    job::Placed,
    occupancy::PoolId,
    view::View,
};
use schema::plan::Plan;

use super::{
    Available, Curve, Curves, Freedom, Level, Roster, Standing, Target, Wanted, find_nodes, on_nodes, pursue,
    restart_s,
};
use crate::kit::{belief, moves::Moves};

/// A number of devices of a pool that a job can be given, and what it does with them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Configuration {
    pub(crate) pool: PoolId,
    pub(crate) devices: u32,
    /// Cores for each rank: what the best plan needs of the share of a device in the cores of a node.
    pub(crate) cpus: Option<u16>,
    pub(crate) plan: Option<Plan>,
    /// Steps per second.
    pub(crate) rate: f64,
}

/// A job that may be started, resized or stopped now.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) job: JobId,
    /// There is at least one. Those of a pool are adjacent, in ascending order of devices.
    pub(crate) configurations: Vec<Configuration>,
    pub(crate) running: Option<Running>,
}

/// What is known of a candidate that runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Running {
    /// The place of its present configuration.
    pub(crate) now: usize,
    pub(crate) target: Target,
    /// The cost of a restart, in seconds.
    pub(crate) restart_s: f64,
}

impl Candidate {
    /// The place of the present configuration of a candidate that runs.
    pub(crate) fn now(&self) -> Option<usize> {
        self.running.as_ref().map(|running| running.now)
    }
}

/// The types of device among which a policy chooses for a job that may have any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Types {
    /// The first of which its times are known.
    First,
    All,
}

/// The jobs of a policy that chooses numbers of devices, and nothing else.
#[derive(Debug)]
pub(crate) struct Elastic {
    types: Types,
    /// For all pools or, of each job, for its first.
    curves: BTreeMap<Option<PoolId>, Curves>,
    roster: Roster,
    moves: Moves,
}

impl Elastic {
    const FREEDOM: Freedom = Freedom { plans: false, resources: true, quantile: 0.5, margin: 0.0 };

    pub(crate) fn new(types: Types) -> Elastic {
        Elastic { types, curves: BTreeMap::new(), roster: Roster::default(), moves: Moves::default() }
    }

    /// Updates the jobs after the changes of a view. Returns the starts of the jobs that have left their devices to move.
    pub(crate) fn refresh(&mut self, view: &View<'_>) -> Vec<Action> {
        self.roster.refresh(view);
        self.curves.values_mut().for_each(|curves| curves.refresh(view));
        self.moves.refresh(view)
    }

    /// Whether a job is moving.
    pub(crate) fn moves(&self, job: JobId) -> bool {
        self.moves.has(job)
    }

    /// Whether a job has devices, or will have some.
    pub(crate) fn any_placed(&self, view: &View<'_>) -> bool {
        self.roster.jobs(view, &self.moves).any(|(_, standing)| standing != Standing::Waits)
    }

    /// The jobs that may be started, resized or stopped, in order of arrival, and the devices for them. `wants` chooses levels of
    /// curves; if it leaves none of an elastic job, the job has the lowest. A job keeps its devices if it takes no checkpoint, or
    /// if the cost of restarting it is not known.
    pub(crate) fn candidates<'a>(
        &mut self,
        view: &'a View<'a>,
        wants: impl Fn(&Curve, &Level) -> bool,
    ) -> (Vec<Candidate>, Available<'a>) {
        let mut available = Available::new(view, &self.roster, &self.moves);
        let mut candidates = Vec::new();
        for (job, standing) in self.roster.jobs(view, &self.moves) {
            let running = match standing {
                Standing::Waits => None,
                Standing::Runs(placed) => match restart_s(view, job) {
                    Some(restart_s) => Some((placed, restart_s)),
                    None => {
                        available.take(&on_nodes(view, placed), placed.cpus);
                        continue;
                    }
                },
                Standing::Stays(_) | Standing::IsOnItsWay => continue,
            };
            let mut configurations = configurations(view, job, self.types, &mut self.curves, &wants);
            let running = running.map(|(placed, restart_s)| {
                let now = present(view, job, placed, &mut configurations);
                Running { now, target: Target::of(view, placed), restart_s }
            });
            candidates.push(Candidate { job, configurations, running });
        }
        (candidates, available)
    }

    /// Makes the actions that give candidates the chosen configurations. A candidate whose configuration does
    /// not fit on the nodes gets the next smaller configuration of the pool that fits. If none fits, the candidate waits.
    pub(crate) fn give(
        &mut self,
        view: &View<'_>,
        available: &Available<'_>,
        candidates: &[Candidate],
        mut chosen: Vec<Option<usize>>,
    ) -> Vec<Action> {
        let found = loop {
            let wanted = candidates.iter().zip(&chosen).filter_map(|(candidate, chosen)| {
                let Configuration { pool, devices, cpus, .. } = candidate.configurations[(*chosen)?];
                let stays = candidate.running.as_ref().filter(|running| Some(running.now) == *chosen);
                let now = stays.map_or_else(Vec::new, |running| running.target.nodes.clone());
                Some(Wanted { job: candidate.job, pool, devices, cpus, now })
            });
            let found = find_nodes(available, &wanted.collect::<Vec<_>>());
            let mut fit = true;
            for (candidate, chosen) in candidates.iter().zip(&mut chosen) {
                let Some(place) = chosen.filter(|_| !found.contains_key(&candidate.job)) else { continue };
                let of = &candidate.configurations;
                *chosen = place.checked_sub(1).filter(|lower| of[*lower].pool == of[place].pool);
                fit = false;
            }
            if fit {
                break found;
            }
        };
        let targets = candidates.iter().zip(&chosen).map(|(candidate, chosen)| {
            let target = chosen.zip(found.get(&candidate.job)).map(|(chosen, nodes)| {
                let Configuration { plan, cpus, .. } = candidate.configurations[chosen];
                Target { nodes: nodes.clone(), plan, cpus }
            });
            (candidate.job, target)
        });
        self.pursue(view, &targets.collect())
    }

    /// Makes the actions that bring candidates to their targets.
    pub(crate) fn pursue(
        &mut self,
        view: &View<'_>,
        targets: &BTreeMap<JobId, Option<Target>>,
    ) -> Vec<Action> {
        pursue(view, &mut self.moves, targets)
    }
}

fn configurations(
    view: &View<'_>,
    job: JobId,
    types: Types,
    curves: &mut BTreeMap<Option<PoolId>, Curves>,
    wants: &impl Fn(&Curve, &Level) -> bool,
) -> Vec<Configuration> {
    let mut found = Vec::new();
    let mut add = |curve: &Curve| {
        let wanted = |level: &&Level| !curve.is_known || wants(curve, level);
        let mut levels: Vec<&Level> = curve.levels.iter().filter(wanted).collect();
        if levels.is_empty() {
            levels.push(&curve.levels[0]);
        }
        found.extend(levels.into_iter().map(|level| {
            let point = level.fair();
            let (cpus, plan, rate) = (point.cpus, point.plan, point.rate);
            Configuration { pool: curve.pool, devices: level.devices, cpus, plan, rate }
        }));
    };
    let mut is_known = false;
    for pool in view.pools().filter(|_| types == Types::All) {
        let of_pool = curves.entry(Some(pool)).or_insert_with(|| Curves::in_pool(pool));
        let curve = of_pool.of(view, job, &Elastic::FREEDOM);
        if curve.is_known {
            add(&curve);
            is_known = true;
        }
    }
    if !is_known {
        add(&curves.entry(None).or_default().of(view, job, &Elastic::FREEDOM));
    }
    found
}

/// The place of the present configuration of a job among these. It is added if it is not one of them, because the model has learned
/// since, or because the job was started otherwise. If none is of its pool, it is the only one.
fn present(view: &View<'_>, job: JobId, placed: &Placed, configurations: &mut Vec<Configuration>) -> usize {
    let (pool, devices) = (view.occupancy.pool_of(placed.devices[0]), placed.devices.len() as u32);
    let (cpus, plan) = (placed.cpus, placed.plan);
    if configurations.iter().all(|known| known.pool != pool) {
        configurations.clear();
    }
    let key = |configuration: &Configuration| (configuration.pool, configuration.devices);
    let place = configurations.partition_point(|known| key(known) < (pool, devices));
    if let Some(known) = configurations.get_mut(place).filter(|known| key(known) == (pool, devices)) {
        (known.cpus, known.plan) = (cpus, plan);
        return place;
    }
    let placement = view.topology.placement(&placed.devices);
    let device_type = view.topology.type_of(placed.devices[0]);
    let step = belief::step_in(view, (job, plan), &placement, device_type, cpus);
    let rate = step.map_or(1.0, |step| 1e9 / step.step_ns);
    configurations.insert(place, Configuration { pool, devices, cpus, plan, rate });
    place
}

/// The share of its time that a job would have spent on its work, had it been restarted once more by now: `(T - N S) / (T + S)`,
/// with its age T, the number N of its restarts, and the time S that a restart takes. Pollux and Sia multiply a throughput by it
/// that a job reaches only after a restart.
pub(crate) fn restart_factor(view: &View<'_>, job: JobId, restart_s: f64) -> f64 {
    let age_s = (view.now - view.request(job).arrival).as_secs_f64();
    let restarts = view.job(job).account.starts.saturating_sub(1);
    let worked_s = (age_s - f64::from(restarts) * restart_s).max(0.0);
    if age_s + restart_s > 0.0 { worked_s / (age_s + restart_s) } else { 1.0 }
}
