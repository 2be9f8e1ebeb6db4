//! A policy whose decisions are timed. The times are of the host and differ from run to run, so that they are printed and are in no
//! file of a run. What the policy decides does not depend on them.

use std::{collections::BTreeMap, time::Instant};

use engine::{cluster::JobId, view::View};
use formats::rows::DecisionTimes;
use statistics::quantile_of_sorted;

use engine::policy::{Decision, Policy};

/// Times the decisions of a policy.
pub struct Timed {
    policy: Box<dyn Policy>,
    took_ns: Vec<u64>,
}

impl Timed {
    pub fn new(policy: Box<dyn Policy>) -> Timed {
        Timed { policy, took_ns: Vec::new() }
    }

    /// The times of all decisions. `None` if there was none.
    pub fn times(mut self) -> Option<DecisionTimes> {
        let us = |ns: u64| ns as f64 / 1e3;
        self.took_ns.sort_unstable();
        let max_us = us(*self.took_ns.last()?);
        Some(DecisionTimes {
            decisions: self.took_ns.len() as u64,
            mean_us: us(self.took_ns.iter().sum()) / self.took_ns.len() as f64,
            p99_us: us(quantile_of_sorted(&self.took_ns, 0.99)),
            max_us,
        })
    }
}

impl Policy for Timed {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let began = Instant::now();
        let decision = self.policy.decide(view);
        self.took_ns.push(began.elapsed().as_nanos() as u64);
        decision
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        self.policy.explain(view, job)
    }

    fn explanations(&mut self) -> BTreeMap<JobId, String> {
        self.policy.explanations()
    }

    fn failure(&mut self) -> Option<anyhow::Error> {
        self.policy.failure()
    }
}
