//! Finish-time fairness in rounds, after Themis (Mahajan et al., NSDI 2020), simplified as in the simulators of Gavel and Shockwave, whose
//! `finish_time_fairness` stands for Themis.
//!
//! In each round, devices are offered first to the job with the largest rho: its time from its arrival to its end if it ran alone from
//! now on, over the same if it had had a fair share all the time. The fair share is one part of the devices that it may use, in as many as
//! there were jobs since its arrival on average, as in the finish-time fairness of a run (`outcomes::fairness`). A job on `d` of
//! `M` devices with `N` jobs takes `d N / M` times as long as alone there, and never less than alone. Jobs of unknown length come last.
//!
//! The parameters are the length of a round, `every`, by default 360 s, and `bump`, as for `las`. Deviations: the paper offers devices to
//! the part `1 - f` of the jobs with the largest rho, which bid for them in an auction, and gives leases that end one by one; the agents of
//! applications tell their rho. Here all of it is one order. `gavel:objective=finish-time` is the linear program of Gavel for the
//! same goal.

use std::collections::HashMap;

use engine::{
    cluster::JobId,
    view::{Change, View},
};
use schema::units::Nanos;

use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        belief,
        elastic::steps_left,
        in_order::{BUMP, InOrder, Order, Times, every},
        ranking::Need,
    },
};

pub(super) const THEMIS: Declaration = Declaration {
    name: "themis",
    source: "Themis, NSDI 2020",
    order: "rho, the largest first",
    misfit: "is passed",
    preemption: "stops and moves jobs, with a checkpoint",
    packing: "no",
    needs: "time of a step alone",
    uses: &[Uses::Lengths, Uses::Stops, Uses::Rounds],
    example: "themis:every=6m",
    settings: &[every("360s"), BUMP],
    build: |values| {
        let times = Times::read(values);
        each(move || InOrder::new(times, Themis::default()))
    },
};

/// Counts the jobs that are there.
#[derive(Debug, Default)]
struct Themis {
    /// The integral over time of the number of jobs, in seconds, up to `until`.
    jobs_s: f64,
    until: Nanos,
    /// This integral when each job arrived.
    at_arrival: HashMap<JobId, f64>,
}

impl Themis {
    /// The mean number of jobs since a job has arrived, and its finish-time fairness if it ran alone from now on. `None` if its length is
    /// not known.
    fn rho(&self, view: &View<'_>, job: JobId) -> Option<(f64, f64)> {
        let asked = view.request(job);
        let step_s = belief::step(view, job)?.step_ns / 1e9;
        let alone_s = asked.steps? as f64 * step_s;
        let left_s = steps_left(view, job, 1.0 / step_s) * step_s;
        let age_s = view.now.saturating_sub(asked.arrival).as_secs_f64();
        let jobs = match age_s > 0.0 {
            true => (self.jobs_s - self.at_arrival.get(&job)?) / age_s,
            false => self.at_arrival.len() as f64,
        };
        let need = Need::of(view, job);
        let pools = view.pools().filter(|pool| need.allows(*pool));
        let devices: u32 = pools.map(|pool| view.occupancy.present_in(pool)).sum();
        let slower = f64::from(asked.devices) * jobs / f64::from(devices.max(1));
        Some((jobs, (age_s + left_s) / (alone_s * slower.max(1.0))))
    }
}

impl Order for Themis {
    const BY: &'static str = "finish-time fairness";

    fn refresh(&mut self, view: &View<'_>, jobs: usize) {
        self.jobs_s += jobs as f64 * view.now.saturating_sub(self.until).as_secs_f64();
        self.until = view.now;
        for change in view.changes {
            match *change {
                Change::Waits(job) => drop(self.at_arrival.entry(job).or_insert(self.jobs_s)),
                Change::Ended(job) => drop(self.at_arrival.remove(&job)),
                _ => {}
            }
        }
    }

    fn key(&self, view: &View<'_>, job: JobId) -> f64 {
        self.rho(view, job).map_or(f64::INFINITY, |(_, rho)| -rho)
    }

    fn say(&self, view: &View<'_>, job: JobId) -> String {
        match self.rho(view, job) {
            Some((jobs, rho)) => {
                format!("its rho is at least {rho:.2}, with {jobs:.1} jobs since its arrival")
            }
            None => "its length is not known".to_owned(),
        }
    }
}
