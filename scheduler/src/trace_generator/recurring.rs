//! Recurring jobs: a job is often one that its user has submitted before, and then takes about as long as it did.

use fastrand::Rng;
use statrs::distribution::{ContinuousCDF as _, Normal};

use super::JobKind;

/// The recurring jobs of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recurring {
    /// Their number. Each line of the mix has a share of them by its weight, and at least one.
    pub jobs: u32,
    /// The number of their users.
    pub users: u32,
    /// The share of the variance of lengths that is between recurring jobs, from 0 to 1. If lengths are log-normal, it is that of their
    /// logarithms.
    pub share: f64,
    /// The seed of the recurring jobs: traces with the same one have the same recurring jobs. `None` for that of the trace.
    pub seed: Option<u64>,
}

/// A recurring job of a line of the mix, by its number, and the number of its user.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecurringJob {
    pub(super) number: u32,
    pub(super) user: u32,
}

/// An instance of a recurring job.
pub(super) struct Instance {
    pub(super) job: RecurringJob,
    /// The share of all jobs that are not longer.
    pub(super) part: f64,
}

/// Draws instances.
pub(super) struct Instances {
    share: f64,
    /// For each line of the mix, the user of each recurring job and its length, as a standard normal number.
    of_kinds: Vec<Vec<(u32, f64)>>,
    rng: Rng,
}

impl Instances {
    /// Draws the recurring jobs from `of_jobs`, or else from the random numbers of the instances.
    pub(super) fn new(
        recurring: Recurring,
        mix: &[JobKind],
        mut rng: Rng,
        mut of_jobs: Option<Rng>,
    ) -> Instances {
        let all: f64 = mix.iter().map(|kind| kind.weight).sum();
        let normal = Normal::standard();
        let drawn_from = of_jobs.as_mut().unwrap_or(&mut rng);
        let of_kinds = mix.iter().map(|kind| {
            let jobs = (f64::from(recurring.jobs) * kind.weight / all).round().max(1.0) as u32;
            let job = |_| (drawn_from.u32(0..recurring.users), normal.inverse_cdf(above_0(drawn_from.f64())));
            (0..jobs).map(job).collect()
        });
        let of_kinds = of_kinds.collect();
        Instances { share: recurring.share, of_kinds, rng }
    }

    /// An instance of a recurring job of this line of the mix, each of which is as likely. Over all recurring jobs, the part is as evenly
    /// distributed as the one that is given.
    pub(super) fn instance(&mut self, kind: usize, part: f64) -> Instance {
        let jobs = &self.of_kinds[kind];
        let number = self.rng.usize(0..jobs.len());
        let (user, own) = jobs[number];
        let normal = Normal::standard();
        let length = self.share.sqrt() * own + (1.0 - self.share).sqrt() * normal.inverse_cdf(above_0(part));
        Instance { job: RecurringJob { number: number as u32, user }, part: normal.cdf(length) }
    }
}

/// A random number from 0 up to 1, without 0, whose quantile is infinite.
fn above_0(part: f64) -> f64 {
    part.max(f64::EPSILON)
}
