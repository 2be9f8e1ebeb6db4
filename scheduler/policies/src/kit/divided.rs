//! One policy for each virtual cluster. A virtual cluster has jobs and devices of its own, so that a policy decides in it as it would in
//! a cluster of its own: the head of one queue does not hold up another. If the cluster is not divided, there is one policy.

use engine::{
    cluster::JobId,
    policy::{Decision, Policy},
    topology::VirtualClusterId,
    view::{Change, View},
};
use schema::units::Nanos;

pub(crate) struct Divided {
    build: Box<dyn Fn() -> Box<dyn Policy>>,
    /// By virtual cluster. Empty before the first turn.
    parts: Vec<Part>,
}

struct Part {
    policy: Box<dyn Policy>,
    wake_at: Option<Nanos>,
    /// Whether the last decision had actions. Some of them may have been refused, so that the policy decides again.
    has_acted: bool,
    changes: Vec<Change>,
}

impl Divided {
    /// `build` makes the policy of a virtual cluster.
    pub(crate) fn new(build: impl Fn() -> Box<dyn Policy> + 'static) -> Divided {
        Divided { build: Box::new(build), parts: Vec::new() }
    }
}

impl Policy for Divided {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let names = view.topology.virtual_clusters();
        if self.parts.is_empty() {
            let part =
                |_| Part { policy: (self.build)(), wake_at: None, has_acted: false, changes: Vec::new() };
            self.parts = (0..names.len().max(1)).map(part).collect();
        }
        if names.is_empty() {
            return self.parts[0].policy.decide(view);
        }
        for change in view.changes {
            if let Some(virtual_cluster) = of_change(view, *change) {
                self.parts[usize::from(virtual_cluster.0)].changes.push(*change);
            }
        }
        let mut decision = Decision::default();
        let mut reasons = Vec::new();
        for ((part, name), number) in self.parts.iter_mut().zip(names).zip(0..) {
            let is_due = part.wake_at.is_some_and(|at| at <= view.now);
            if is_due || part.has_acted || !part.changes.is_empty() {
                let changes = std::mem::take(&mut part.changes);
                let virtual_cluster = Some(VirtualClusterId(number));
                let own = part.policy.decide(&View { changes: &changes, virtual_cluster, ..*view });
                part.has_acted = !own.actions.is_empty();
                part.wake_at = own.wake_at;
                if !own.reason.is_empty() {
                    reasons.push(format!("{}: {}", name.name, own.reason));
                }
                decision.actions.extend(own.actions);
            }
            decision.wake_at = [decision.wake_at, part.wake_at].into_iter().flatten().min();
        }
        Decision { reason: reasons.join("; "), ..decision }
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        let virtual_cluster = view.topology.virtual_cluster(&view.request(job).virtual_cluster);
        let part = virtual_cluster.map_or(0, |of| usize::from(of.0));
        let explain = |part: &Part| part.policy.explain(&View { virtual_cluster, ..*view }, job);
        self.parts.get(part).map(explain).unwrap_or_default()
    }

    fn failure(&mut self) -> Option<anyhow::Error> {
        self.parts.iter_mut().find_map(|part| part.policy.failure())
    }
}

/// The virtual cluster that a change is of. `None` if the cluster is not divided.
pub(crate) fn of_change(view: &View<'_>, change: Change) -> Option<VirtualClusterId> {
    match change {
        Change::Lost(device) | Change::Back(device) => {
            view.topology.nodes()[view.topology.node_of(device).0 as usize].virtual_cluster
        }
        Change::DoNotFit(job, _) => view.topology.virtual_cluster(&view.request(job).virtual_cluster),
        _ => view.topology.virtual_cluster(&view.request(change.job()?).virtual_cluster),
    }
}
