//! Elastic first-come: first in, first out, in which a job that finds less than it asks for starts with less. There is no paper; it
//! is the smallest change of `fifo` that uses elasticity, and so the baseline that shows what elasticity alone is worth.
//!
//! Jobs start in order of arrival. A job gets the highest level of its curve (`kit/elastic/curve.rs`) that fits, of those with at most
//! the devices that it asks for. If not even the lowest level fits, the job holds up all jobs behind it, unless lost devices are
//! why. If no job waits, devices that are left go to running jobs in order of arrival, up to what they ask for. Because that needs
//! a restart, a job is given more only if it then ends sooner: the time that its remaining steps take must fall by more than a
//! restart takes. No job is stopped for another, or given less.
//!
//! The policy decides at every change, and has no parameters. It changes the degree of data parallelism and nothing else of a plan,
//! uses the first type of device of which the times of a job are known, gives a job the share of its devices in the cores of a
//! node, and ignores classes and priorities.

use std::collections::BTreeMap;

use engine::{
    cluster::{Action, JobId},
    policy::{Decision, Policy},
    view::View,
};

use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        elastic::{Available, Candidate, Configuration, Elastic, Target, Types, steps_left},
        jobs_named,
    },
};

pub(super) const ELASTIC_FIFO: Declaration = Declaration {
    name: "elastic-fifo",
    source: "a baseline, no paper",
    order: "arrival",
    misfit: "starts on fewer devices, or holds up all jobs behind it",
    preemption: "moves jobs to more devices if that pays",
    packing: "no",
    needs: "times of steps, costs of restarts",
    uses: &[Uses::Resizes],
    example: "elastic-fifo",
    settings: &[],
    build: |_| each(|| ElasticFifo { jobs: Elastic::new(Types::First) }),
};

struct ElasticFifo {
    jobs: Elastic,
}

impl Policy for ElasticFifo {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let mut actions = self.jobs.refresh(view);
        let (candidates, mut available) = self.jobs.candidates(view, |_, _| true);
        for running in candidates.iter().filter_map(|candidate| candidate.running.as_ref()) {
            available.take(&running.target.nodes, running.target.cpus);
        }
        let mut targets = start(view, &mut available, &candidates);
        let waits =
            |candidate: &Candidate| candidate.running.is_none() && !targets.contains_key(&candidate.job);
        if !candidates.iter().any(|candidate| waits(candidate) && is_present(view, candidate)) {
            targets.extend(grow(view, &mut available, &candidates));
        }
        let targets = targets.into_iter().map(|(job, target)| (job, Some(target))).collect();
        let new = self.jobs.pursue(view, &targets);
        let stopped = |action: &Action| matches!(action, Action::Stop { .. });
        let (grown, started): (Vec<&Action>, Vec<&Action>) = new.iter().partition(|action| stopped(action));
        let named = |actions: &[&Action]| {
            jobs_named(view, &actions.iter().map(|action| action.job()).collect::<Vec<_>>())
        };
        let mut reasons = Vec::new();
        if !started.is_empty() {
            reasons.push(format!("first in the queue: {}", named(&started)));
        }
        if !grown.is_empty() {
            reasons.push(format!("devices are left: {} moves to more", named(&grown)));
        }
        actions.extend(new);
        Decision { actions, wake_at: None, reason: reasons.join("; ") }
    }
}

/// The targets of jobs that wait.
fn start(
    view: &View<'_>,
    available: &mut Available<'_>,
    candidates: &[Candidate],
) -> BTreeMap<JobId, Target> {
    let mut targets = BTreeMap::new();
    for candidate in candidates.iter().filter(|candidate| candidate.running.is_none()) {
        let most = most(view, candidate);
        let find = |configuration: &Configuration| find(available, configuration);
        match candidate.configurations[..=most].iter().rev().find_map(find) {
            Some(target) => drop(targets.insert(candidate.job, target)),
            None if is_present(view, candidate) => break,
            None => {}
        }
    }
    targets
}

/// The targets of running jobs that are worth a restart.
fn grow(view: &View<'_>, available: &mut Available<'_>, candidates: &[Candidate]) -> BTreeMap<JobId, Target> {
    let mut targets = BTreeMap::new();
    for candidate in candidates {
        let Some(running) = &candidate.running else { continue };
        let now = &candidate.configurations[running.now];
        let left = steps_left(view, candidate.job, now.rate);
        let pays = |more: &&Configuration| left / now.rate - left / more.rate > running.restart_s;
        let larger = candidate.configurations[..=most(view, candidate)].iter().skip(running.now + 1);
        available.give_back(&running.target.nodes, running.target.cpus);
        match larger.rev().filter(pays).find_map(|configuration| find(available, configuration)) {
            Some(target) => drop(targets.insert(candidate.job, target)),
            None => available.take(&running.target.nodes, running.target.cpus),
        }
    }
    targets
}

/// The place of the largest configuration with no more devices than the job asks for, or the smallest.
fn most(view: &View<'_>, candidate: &Candidate) -> usize {
    let asked = view.request(candidate.job).devices;
    let within = candidate.configurations.partition_point(|configuration| configuration.devices <= asked);
    within.saturating_sub(1)
}

/// Whether the devices that the job needs are there, free or not: lost devices may never come back.
fn is_present(view: &View<'_>, candidate: &Candidate) -> bool {
    let least = &candidate.configurations[0];
    view.occupancy.present_in(least.pool) >= least.devices
}

fn find(available: &mut Available<'_>, configuration: &Configuration) -> Option<Target> {
    let Configuration { pool, devices, cpus, plan, .. } = *configuration;
    let nodes = available.find(pool, devices, cpus)?;
    Some(Target { nodes, plan, cpus })
}
