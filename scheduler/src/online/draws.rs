//! The intervals of a prediction, from many simulations of the trace. Each draws what is uncertain.

use std::{
    num::NonZeroUsize,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use anyhow::Context as _;
use cli::agree::Consent;
use engine::journal::Unrecorded;
use formats::rows::{Draw, Outcome, Prediction};
use launches::simulated::Drifting;
use model::Drawn;
use outcomes::{
    draws::range,
    totals::{Makespan, average},
};
use record::rows::Status;

use super::{
    predict::{Chance, Simulated, simulate_with},
    run_inputs::RunInputs,
};

/// The simulations of a trace, each with its own draw.
#[derive(Default)]
pub struct Draws {
    /// In the order of their numbers.
    pub rows: Vec<Draw>,
    /// The completion times of each job in the draws in which it ended well.
    jct_ns: Vec<Vec<u64>>,
}

impl Draws {
    /// Simulates a trace this number of times, on all cores.
    ///
    /// # Errors
    /// Fails if a simulation ends before its jobs, for example because a step time is not known.
    pub fn new(inputs: &RunInputs, count: u32, consent: &Consent) -> anyhow::Result<Draws> {
        let next = AtomicU32::new(0);
        let done = Mutex::new(Vec::new());
        let work = || -> anyhow::Result<()> {
            loop {
                let draw = next.fetch_add(1, Ordering::Relaxed);
                if draw >= count {
                    return Ok(());
                }
                let drawn = simulated(inputs, draw, consent);
                // The other threads have nothing more to do if one fails.
                let drawn = drawn.inspect_err(|_| next.store(count, Ordering::Relaxed));
                let drawn = drawn.with_context(|| format!("draw {draw} of {count}"))?;
                done.lock().expect("no thread panics while it holds the lock").push(drawn);
            }
        };
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("a simulation does not panic"))
        })?;
        let mut done = done.into_inner().expect("all threads have ended");
        done.sort_by_key(|(row, _): &(Draw, _)| row.draw);
        let mut jct_ns = vec![Vec::new(); inputs.asked.len()];
        let mut rows = Vec::new();
        for (row, of_jobs) in done {
            jct_ns.iter_mut().zip(of_jobs).for_each(|(all, jct)| all.extend(jct));
            rows.push(row);
        }
        jct_ns.iter_mut().for_each(|all| all.sort_unstable());
        Ok(Draws { rows, jct_ns })
    }

    /// Adds the completion times over all draws to the predictions, which are those of all jobs.
    pub fn add_intervals(&self, predictions: &mut [Prediction]) {
        for (prediction, sorted) in predictions.iter_mut().zip(&self.jct_ns) {
            let range = range(sorted);
            prediction.draws = sorted.len() as u32;
            prediction.jct_ns_median = range.map(|range| range.median_ns);
            prediction.jct_ns_ci_lo = range.map(|range| range.ci_lo_ns);
            prediction.jct_ns_ci_hi = range.map(|range| range.ci_hi_ns);
        }
    }
}

/// Simulates one draw. Returns its row, and the completion time of each job that ended well.
fn simulated(inputs: &RunInputs, draw: u32, consent: &Consent) -> anyhow::Result<(Draw, Vec<Option<u64>>)> {
    let seed = inputs.manifest.seed.wrapping_add(u64::from(draw) + 1);
    let truth = Drawn { model: &*inputs.models.truth, seed };
    let course = Box::new(Drifting::new(&inputs.models.drift, seed));
    let chance = Chance { seed, truth: &truth, course };
    let Simulated { jobs, ended, .. } = simulate_with(inputs, chance, &mut Unrecorded, consent)?;
    ended?;
    let mut makespan = Makespan::default();
    let ok = |row: Outcome| {
        makespan.add(&row);
        row.jct_ns.filter(|_| row.status == Status::Ok)
    };
    let jct_ns: Vec<Option<u64>> = jobs.outcomes_without_fair_times().map(ok).collect();
    let known: Vec<u64> = jct_ns.iter().copied().flatten().collect();
    let jct_ns_mean = (!known.is_empty()).then(|| average(&known));
    let row = Draw { draw, seed, ok: known.len() as u32, jct_ns_mean, makespan_ns: makespan.ns() };
    Ok((row, jct_ns))
}
