//! Pollux (Qiao et al., OSDI 2021, section 4.2) for jobs of a fixed global batch. Its name here says so.
//!
//! In each round, all jobs are given numbers of devices, or none, so that the power mean of their speedups with the exponent -1 is
//! the largest. The speedup of a job is its throughput over that on its fair share: with n jobs, the n-th part of the devices of
//! the type, rounded up. What a running job would have with another number of devices is multiplied by the factor `max(T - N S, 0)
//! / (T + S)`, with its age T, the number N of its restarts and the time S that a restart takes. As in the code of the authors,
//! 0.001 is added to each speedup, so that a job without devices counts.
//!
//! The parameter is the time between two rounds, `every`, by default 60 s, as in the paper.
//!
//! Deviations: the batch is fixed, so that statistical efficiency is 1 and goodput is throughput. The paper searches with a genetic
//! algorithm, which draws random numbers. But the power mean is largest where the sum of the reciprocals over all jobs is smallest,
//! and a sum over jobs under one limit is minimised exactly by dynamic programming over the number of devices. Of two equal
//! allocations, that is kept in which running jobs, and then earlier ones, have devices. This search knows numbers of devices and
//! no nodes: a job for which there is no room on the nodes gets the next smaller number, and several jobs on more than one node may
//! share a node. Throughputs are those of the model of the run, and a job may be given any level of its curve
//! (`kit/elastic/curve.rs`) at once, where the paper at most doubles what it has seen. S is what the run knows of the job, where the
//! code has 30 s. A job that waits pays no restart; the code charges it as well. The policy changes the degree of data parallelism
//! and nothing else of a plan, uses the first type of device of which the times of a job are known, and ignores classes and
//! priorities.

use engine::{occupancy::PoolId, view::View};

use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        elastic::{Candidate, Configuration, restart_factor},
        in_order::every,
        round::InRounds,
    },
};

pub(super) const POLLUX_FIXED_BATCH: Declaration = Declaration {
    name: "pollux-fixed-batch",
    source: "Pollux, OSDI 2021",
    order: "the harmonic mean of speedups",
    misfit: "waits",
    preemption: "resizes and stops jobs in each round",
    packing: "no",
    needs: "times of steps, costs of restarts",
    uses: &[Uses::Resizes, Uses::Rounds],
    example: "pollux-fixed-batch:every=2m",
    settings: &[every("60s")],
    build: |values| {
        let every = values.time("every");
        each(move || InRounds::new(every, chosen))
    },
};

/// Added to every speedup.
const WITHOUT_DEVICES: f64 = 1e-3;
/// A gain below this is a rounding error.
const ROUNDING: f64 = 1e-7;

/// The configuration of each candidate. `free` has the numbers of devices by pool.
fn chosen(view: &View<'_>, candidates: &[Candidate], free: &mut [u32]) -> Vec<Option<usize>> {
    let mut chosen = vec![None; candidates.len()];
    for pool in view.pools() {
        in_pool(view, candidates, (pool, free[usize::from(pool.0)]), &mut chosen);
    }
    chosen
}

/// Chooses the configurations of the candidates of a pool, of which so many devices are to be given out.
fn in_pool(
    view: &View<'_>,
    candidates: &[Candidate],
    (pool, free): (PoolId, u32),
    chosen: &mut [Option<usize>],
) {
    let is_of_pool = |number: &usize| candidates[*number].configurations[0].pool == pool;
    let mut numbers: Vec<usize> = (0..candidates.len()).filter(is_of_pool).collect();
    numbers.sort_by_key(|number| candidates[*number].running.is_none());
    let fair = free.div_ceil((numbers.len() as u32).max(1));
    let worths: Vec<Vec<(u32, f64)>> =
        numbers.iter().map(|number| worths(view, &candidates[*number], fair)).collect();
    for (number, best) in numbers.into_iter().zip(best(&worths, free as usize)) {
        chosen[number] = best;
    }
}

/// The devices of each configuration of a job, and by how much it lowers the reciprocal of the speedup.
fn worths(view: &View<'_>, candidate: &Candidate, fair: u32) -> Vec<(u32, f64)> {
    let of = &candidate.configurations;
    let within = of.partition_point(|configuration| configuration.devices <= fair);
    let base = of[within.saturating_sub(1)].rate;
    let factor = candidate
        .running
        .as_ref()
        .map_or(1.0, |running| restart_factor(view, candidate.job, running.restart_s));
    let worth = |(place, configuration): (usize, &Configuration)| {
        let stays = candidate.now().is_none_or(|now| now == place);
        let speedup = configuration.rate / base * if stays { 1.0 } else { factor };
        (configuration.devices, 1.0 / WITHOUT_DEVICES - 1.0 / (speedup + WITHOUT_DEVICES))
    };
    of.iter().enumerate().map(worth).collect()
}

/// The choice of each job with which the sum of the worths is the largest, of those that take at most `free` devices together. Of
/// equal sums, that in which the first jobs have devices.
fn best(worths: &[Vec<(u32, f64)>], free: usize) -> Vec<Option<usize>> {
    let mut sums = vec![0.0; free + 1];
    // For each job and each number of devices for it and the jobs before it.
    let mut choices: Vec<Vec<Option<usize>>> = Vec::with_capacity(worths.len());
    for of in worths {
        let mut next = sums.clone();
        let mut choice = vec![None; free + 1];
        for (place, &(devices, worth)) in of.iter().enumerate() {
            for most in devices as usize..=free {
                let sum = sums[most - devices as usize] + worth;
                if sum > next[most] + ROUNDING {
                    (next[most], choice[most]) = (sum, Some(place));
                }
            }
        }
        sums = next;
        choices.push(choice);
    }
    let mut left = free;
    let mut best: Vec<Option<usize>> = choices
        .iter()
        .zip(worths)
        .rev()
        .map(|(choice, of)| {
            let chosen = choice[left];
            left -= chosen.map_or(0, |place| of[place].0 as usize);
            chosen
        })
        .collect();
    best.reverse();
    best
}
