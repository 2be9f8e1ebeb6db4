//! Optimus (Peng et al., EuroSys 2018, section 4.1): devices go one after another to the job that gains most time by one more.
//!
//! In each round, every job first gets its smallest number of devices, in order of arrival, while devices last; a job that does not
//! fit is passed. Then the job gets its next larger number for which the gain for each further device is largest: the fall of the
//! time of a step, times the remaining steps. That goes on until no job gains, or no devices are left. A running job whose number
//! stays the same stays where it is. No restart is charged: a job restarts whenever its number changes.
//!
//! The parameter is the time between two rounds, `every`, by default 60 s. Both are those of the policy `Optimus+Oracle` in the
//! simulator of Pollux (Qiao et al., OSDI 2021), which knows the remaining steps and measured step times; the paper fits both, the
//! remaining steps from the loss curve. Here the remaining steps are those of the trace, and step times are those of the model of
//! the run.
//!
//! Deviations from both: numbers of devices are the levels of the curve of a job (`kit/elastic/curve.rs`), at most all devices of one
//! type. There are no parameter servers. A job is placed as `--placement` says, where the paper spreads it evenly over the nodes
//! with the most free devices. The policy changes the degree of data parallelism and nothing else of a plan, uses the first type of
//! device of which the times of a job are known, and ignores classes and priorities.

use engine::view::View;

use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        elastic::{Candidate, steps_left},
        in_order::every,
        round::InRounds,
    },
};

pub(super) const OPTIMUS: Declaration = Declaration {
    name: "optimus",
    source: "Optimus, EuroSys 2018",
    order: "gain of time for a further device",
    misfit: "is passed",
    preemption: "resizes jobs in each round",
    packing: "no",
    needs: "times of steps, costs of restarts",
    uses: &[Uses::Resizes, Uses::Rounds],
    example: "optimus:every=10m",
    settings: &[every("60s")],
    build: |values| {
        let every = values.time("every");
        each(move || InRounds::new(every, chosen))
    },
};

/// The configuration of each candidate. `free` has the numbers of devices by pool.
fn chosen(view: &View<'_>, candidates: &[Candidate], free: &mut [u32]) -> Vec<Option<usize>> {
    let mut chosen = vec![None; candidates.len()];
    for (candidate, chosen) in candidates.iter().zip(&mut chosen) {
        let least = &candidate.configurations[0];
        let free = &mut free[usize::from(least.pool.0)];
        if least.devices <= *free {
            *free -= least.devices;
            *chosen = Some(0);
        }
    }
    let left: Vec<f64> = candidates.iter().map(|candidate| steps_left_of(view, candidate)).collect();
    loop {
        let gain = |(number, candidate): (usize, &Candidate)| {
            let place = chosen[number]?;
            let (now, next) = (&candidate.configurations[place], candidate.configurations.get(place + 1)?);
            let more = next.devices - now.devices;
            let fits = more <= free[usize::from(now.pool.0)];
            let gain = (1.0 / now.rate - 1.0 / next.rate) * left[number] / f64::from(more);
            (fits && gain > 0.0).then_some((gain, number, more))
        };
        let gains = candidates.iter().enumerate().filter_map(gain);
        // Of equal gains, that of the first job.
        let best = gains.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let Some((_, number, more)) = best else { return chosen };
        free[usize::from(candidates[number].configurations[0].pool.0)] -= more;
        chosen[number] = chosen[number].map(|place| place + 1);
    }
}

fn steps_left_of(view: &View<'_>, candidate: &Candidate) -> f64 {
    let now = &candidate.configurations[candidate.now().unwrap_or(0)];
    steps_left(view, candidate.job, now.rate)
}
