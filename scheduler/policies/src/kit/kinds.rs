//! The kinds of jobs that behave alike beside others, and the pairs of kinds that are not packed.

use std::collections::{BTreeSet, HashMap};

use engine::{cluster::JobId, job::Payload, view::View};
use schema::plan::Plan;

/// The number of a kind: jobs that behave alike in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Kind(usize);

/// The properties of a job that determine its behaviour in a pack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Alike {
    what: Payload,
    plan: Option<Plan>,
    devices: u32,
    cpus: Option<u16>,
    step_ns: Option<u64>,
}

/// The kinds of a run.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    of: HashMap<Alike, Kind>,
    /// Pairs of kinds that are not packed, because they lost throughput or did not fit. The smaller kind is first.
    apart: BTreeSet<(Kind, Kind)>,
}

impl Kinds {
    pub(crate) fn of(&mut self, view: &View<'_>, job: JobId) -> Kind {
        let asked = view.request(job);
        let alike = Alike {
            what: asked.what.clone(),
            plan: asked.plan,
            devices: asked.devices,
            cpus: asked.cpus,
            step_ns: asked.step_ns,
        };
        let next = Kind(self.of.len());
        *self.of.entry(alike).or_insert(next)
    }

    /// Whether jobs of these kinds are not packed, because such jobs lost throughput or did not fit.
    pub(crate) fn are_apart(&self, one: Kind, other: Kind) -> bool {
        self.apart.contains(&pair(one, other))
    }

    pub(crate) fn keep_apart(&mut self, view: &View<'_>, jobs: [JobId; 2]) {
        let [one, other] = jobs.map(|job| self.of(view, job));
        self.apart.insert(pair(one, other));
    }
}

fn pair(one: Kind, other: Kind) -> (Kind, Kind) {
    (one.min(other), one.max(other))
}
