//! The Gittins index of attained service, in rounds: Tiresias-G (Gu et al., NSDI 2019, section 3.2) without its queues.
//!
//! The service S of a job is its running time times the number of its devices. Of a job that has attained `a`, the index is
//!
//! ```text
//! G(a) = sup over D of  P(S - a <= D | S > a) / E[min(S - a, D) | S > a]
//! ```
//!
//! the largest chance of its end for the service that is spent on it. The distribution of S is that of the jobs that have
//! ended, of this run and of the history that the user has named. In each round, the jobs with the largest index have devices, and of equal
//! ones those that arrived first. A job that has attained more than any job before has the index 0, and so have all while no job has
//! ended.
//!
//! The parameters are the length of a round, `every`, by default 300 s as for `las`, `bump`, as for `las`, and `limit`, the largest D
//! in device-seconds, by default none. Tiresias-G has queues, and its D is at most the upper limit of a queue; the artifact of
//! the authors takes the one D of 3,250 s. Of a long distribution, a number of quantiles is tried for D, so that the supremum is found
//! to their distance.

use engine::{
    cluster::JobId,
    view::{Change, View},
};

use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        in_order::{BUMP, InOrder, Order, Times, every},
        settings::{Kind, Setting},
    },
};

pub(super) const GITTINS: Declaration = Declaration {
    name: "gittins",
    source: "Tiresias, NSDI 2019",
    order: "Gittins index of attained service",
    misfit: "is passed",
    preemption: "stops and moves jobs, with a checkpoint",
    packing: "no",
    needs: "jobs that have ended",
    uses: &[Uses::History, Uses::Stops, Uses::Rounds],
    example: "gittins:limit=3250s",
    settings: &[every("300s"), BUMP, LIMIT],
    build: |values| {
        let times = Times::read(values);
        let limit_s = values.time_or_none("limit").map(|limit| limit.as_secs_f64());
        each(move || InOrder::new(times, Gittins { limit_s, ..Gittins::default() }))
    },
};

const LIMIT: Setting = Setting::new(
    "limit",
    Kind::TIME,
    "none",
    "the largest service ahead, in device-seconds, by which a job is judged",
)
.or("none")
.such_as("3250s");

/// The services of the jobs that have ended.
#[derive(Debug, Default)]
struct Gittins {
    limit_s: Option<f64>,
    has_history: bool,
    /// In ascending order.
    services_s: Vec<f64>,
    /// The sum of the services before each place, and of all.
    sums_s: Vec<f64>,
}

impl Gittins {
    /// The most values of D that are tried for one index.
    const TRIED: usize = 256;

    fn learn(&mut self, mut services_s: Vec<f64>) {
        self.services_s.append(&mut services_s);
        self.services_s.sort_by(f64::total_cmp);
        let mut sum = 0.0;
        self.sums_s = std::iter::once(0.0)
            .chain(self.services_s.iter().map(|service| {
                sum += service;
                sum
            }))
            .collect();
    }

    /// The index of a job that has attained this service. 0 if no job had a larger one.
    fn index(&self, attained_s: f64) -> f64 {
        let first = self.services_s.partition_point(|service| *service <= attained_s);
        let longer = &self.services_s[first..];
        let within = match self.limit_s {
            Some(limit) => longer.partition_point(|service| service - attained_s <= limit),
            None => longer.len(),
        };
        let mut best: f64 = 0.0;
        // Among the values of D, those at which the chance of an end rises are enough.
        let stride = within.div_ceil(Gittins::TRIED).max(1);
        for ended in (stride..=within).step_by(stride).chain([within]).filter(|ended| *ended > 0) {
            let spent_s = longer[ended - 1] - attained_s;
            let of_ended = self.sums_s[first + ended] - self.sums_s[first] - ended as f64 * attained_s;
            let all_s = of_ended + (longer.len() - ended) as f64 * spent_s;
            best = best.max(ended as f64 / all_s);
        }
        best
    }
}

fn attained_s(view: &View<'_>, job: JobId) -> f64 {
    view.job(job).account_at(view.now).device_time.as_secs_f64()
}

impl Order for Gittins {
    const BY: &'static str = "Gittins index";

    fn refresh(&mut self, view: &View<'_>, _jobs: usize) {
        let mut new = Vec::new();
        if !self.has_history {
            self.has_history = true;
            let service =
                |past: &formats::history::PastJob| past.duration_ns.as_secs_f64() * f64::from(past.devices);
            new.extend(view.known.history.iter().map(service));
        }
        let ended = view.changes.iter().filter_map(|change| match *change {
            Change::Ended(job) => Some(attained_s(view, job)).filter(|service| *service > 0.0),
            _ => None,
        });
        new.extend(ended);
        if !new.is_empty() {
            self.learn(new);
        }
    }

    fn key(&self, view: &View<'_>, job: JobId) -> f64 {
        -self.index(attained_s(view, job))
    }

    fn say(&self, view: &View<'_>, job: JobId) -> String {
        let (attained, index) = (view.job(job).account_at(view.now).device_time, self.key(view, job).abs());
        format!(
            "it has attained a service of {attained}, and its index by {} jobs is {index:.3e} in a device-second",
            self.services_s.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(services_s: &[f64], limit_s: Option<f64>) -> Gittins {
        let mut gittins = Gittins { limit_s, ..Gittins::default() };
        gittins.learn(services_s.to_vec());
        gittins
    }

    /// Three of four jobs have a service of 1 s, and one of 100 s.
    #[test]
    fn the_index_is_the_best_chance_of_an_end_for_the_service() {
        let found = of(&[1.0, 100.0, 1.0, 1.0], None);
        // For D = 1 s, three end for four seconds of service; up to the end of all it would be 4 for 103 s.
        assert_eq!(found.index(0.0), 0.75);
        // After a second, one is left, with 99 s.
        assert_eq!(found.index(1.0), 1.0 / 99.0);
        assert_eq!(found.index(0.5), 3.0 / 2.0);
        assert_eq!((found.index(100.0), of(&[], None).index(0.0)), (0.0, 0.0));
        // Within 2 s of service, no other job ends.
        assert_eq!(of(&[1.0, 100.0], Some(2.0)).index(1.0), 0.0);
    }

    /// By the definition, over all D.
    #[test]
    fn the_index_is_that_of_its_definition() {
        let services: Vec<f64> = (1..60).map(|n| f64::from(n * n % 97) + 1.0).collect();
        let found = of(&services, None);
        for attained in [0.0, 3.0, 20.5, 90.0] {
            let longer: Vec<f64> = services.iter().filter(|s| **s > attained).map(|s| s - attained).collect();
            let at = |most: f64| {
                let spent: f64 = longer.iter().map(|left| left.min(most)).sum();
                longer.iter().filter(|left| **left <= most).count() as f64 / spent
            };
            let expected = (1..2_000).map(|tenths| at(f64::from(tenths) / 10.0)).fold(0.0, f64::max);
            assert!((found.index(attained) - expected).abs() < 1e-12, "{attained}: {expected}");
        }
    }
}
