//! The throughputs of jobs, alone and in pairs, in each pool, as the model of the run predicts them.

use std::collections::{BTreeSet, HashMap};

use engine::{
    cluster::JobId,
    occupancy::PoolId,
    view::{Change, View},
};

use crate::kit::{belief, ranking::Need};

/// Predicted throughputs. Jobs of one kind have the same.
#[derive(Debug, Default)]
pub(super) struct Speeds {
    kinds: HashMap<String, usize>,
    kind_of: HashMap<JobId, usize>,
    /// The steps in a second of a kind in a pool, alone or beside a kind.
    known: HashMap<(usize, Option<usize>, PoolId), Option<f64>>,
    /// Pairs of kinds that did not fit on a device together. The smaller kind is first.
    do_not_fit: BTreeSet<(usize, usize)>,
}

impl Speeds {
    /// The steps in a second of a job of which nothing is known, the default of the artifact.
    const UNKNOWN: f64 = 1.0;

    /// Updates what is known after the changes of a view. Returns whether jobs may have other throughputs than before.
    pub(super) fn refresh(&mut self, view: &View<'_>) -> bool {
        let mut has_changed = false;
        for change in view.changes {
            match *change {
                Change::Believed(_) => {
                    self.known.clear();
                    has_changed = true;
                }
                Change::DoNotFit(one, other) => {
                    let pair = [self.kind(view, one), self.kind(view, other)];
                    has_changed |= self.do_not_fit.insert(sorted(pair));
                }
                Change::Ended(job) => drop(self.kind_of.remove(&job)),
                _ => {}
            }
        }
        has_changed
    }

    /// The steps in a second of a job alone in each pool, 0 where it cannot run. If no time is known, it has the same everywhere.
    pub(super) fn alone(&mut self, view: &View<'_>, job: JobId, pools: &[PoolId]) -> Vec<f64> {
        let need = Need::of(view, job);
        let fits =
            |pool: PoolId| need.allows(pool) && view.occupancy.fewest_nodes(pool, need.devices).is_some();
        let mut speeds = Vec::new();
        for &pool in pools {
            let speed = fits(pool).then(|| self.of(view, job, None, pool)).flatten();
            speeds.push(speed.unwrap_or(0.0));
        }
        if speeds.iter().all(|speed| *speed == 0.0) {
            let unknown = |pool: &PoolId| if fits(*pool) { Speeds::UNKNOWN } else { 0.0 };
            speeds = pools.iter().map(unknown).collect();
        }
        speeds
    }

    /// The steps in a second of two jobs that share devices of a pool. `None` if they cannot, or if a time is not known.
    pub(super) fn together(&mut self, view: &View<'_>, jobs: [JobId; 2], pool: PoolId) -> Option<[f64; 2]> {
        let [one, other] = jobs;
        let pair = [self.kind(view, one), self.kind(view, other)];
        if self.do_not_fit.contains(&sorted(pair)) {
            return None;
        }
        Some([self.of(view, one, Some(other), pool)?, self.of(view, other, Some(one), pool)?])
    }

    fn of(&mut self, view: &View<'_>, job: JobId, beside: Option<JobId>, pool: PoolId) -> Option<f64> {
        let key = (self.kind(view, job), beside.map(|other| self.kind(view, other)), pool);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let node = view.occupancy.nodes_in(pool).next()?;
        let node = &view.topology.nodes()[node.0 as usize];
        let placement = node.few_like_it(view.request(job).devices);
        let step = belief::step_beside(view, job, &placement, &node.device_type, beside);
        let speed = step.map(|step| 1e9 / step.step_ns);
        self.known.insert(key, speed);
        speed
    }

    fn kind(&mut self, view: &View<'_>, job: JobId) -> usize {
        let next = self.kinds.len();
        *self
            .kind_of
            .entry(job)
            .or_insert_with(|| *self.kinds.entry(format!("{:?}", view.request(job).kind())).or_insert(next))
    }
}

fn sorted([one, other]: [usize; 2]) -> (usize, usize) {
    (one.min(other), one.max(other))
}
