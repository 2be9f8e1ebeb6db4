//! A policy whose decisions are timed. The times are of the host and differ from run to run, so that they are printed and are in no
//! file of a run. What the policy decides does not depend on them.

use std::time::{Duration, Instant};

use schema::rows::DecisionTimes;
use statistics::quantile_of_sorted;

use super::{Decision, Policy};
use crate::{cluster::JobId, view::View};

/// Times the decisions of a policy.
pub struct Timed {
    policy: Box<dyn Policy>,
    took: Vec<Duration>,
}

impl Timed {
    pub fn new(policy: Box<dyn Policy>) -> Timed {
        Timed { policy, took: Vec::new() }
    }

    /// The times of the decisions so far. `None` if there was none.
    pub fn times(&self) -> Option<DecisionTimes> {
        let us = |time: Duration| time.as_nanos() as f64 / 1e3;
        let mut sorted = self.took.clone();
        sorted.sort_unstable();
        let max_us = us(*sorted.last()?);
        let all: Duration = sorted.iter().sum();
        Some(DecisionTimes {
            decisions: sorted.len() as u64,
            mean_us: us(all) / sorted.len() as f64,
            p99_us: us(quantile_of_sorted(&sorted, 0.99)),
            max_us,
        })
    }
}

impl Policy for Timed {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let began = Instant::now();
        let decision = self.policy.decide(view);
        self.took.push(began.elapsed());
        decision
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        self.policy.explain(view, job)
    }

    fn failure(&mut self) -> Option<anyhow::Error> {
        self.policy.failure()
    }
}
