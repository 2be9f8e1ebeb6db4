//! Random numbers that belong to a question: the same each time that it is asked.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::{JobKey, PredictRequest};

/// A hash of a seed and of what is asked.
pub(crate) struct Key(blake3::Hasher);

impl Key {
    pub(crate) fn new(seed: u64) -> Key {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes());
        Key(hasher)
    }

    /// The job, its plan, and the number and type of its devices. Jobs of one workload with different times in their trace are
    /// different.
    pub(crate) fn job(self, question: &PredictRequest<'_>) -> Key {
        let devices: u32 = question.placement.iter().sum();
        self.subject(&question.job).text(question.device_type).number(devices.into())
    }

    /// The other jobs on its devices and on others of its nodes, each in any order.
    pub(crate) fn company(mut self, question: &PredictRequest<'_>) -> Key {
        let neighbours: Vec<JobKey<'_>> = question.neighbours.iter().map(|neighbour| neighbour.job).collect();
        for jobs in [question.co_runners, &neighbours] {
            let mut keys: Vec<u64> = jobs.iter().map(|job| Key::new(0).subject(job).finish()).collect();
            keys.sort_unstable();
            self = keys.into_iter().fold(self.number(jobs.len() as u64), Key::number);
        }
        self
    }

    fn subject(self, job: &JobKey<'_>) -> Key {
        let plan = job.plan.map(|plan| plan.to_string()).unwrap_or_default();
        let key = self.text(job.workload).text(&plan);
        let numbers = [job.global_batch.map(u64::from), job.trace_time.map(|time| time.step_ns)];
        numbers.into_iter().fold(key, |key, number| key.number(number.unwrap_or(u64::MAX)))
    }

    fn text(mut self, text: &str) -> Key {
        self.0.update(text.as_bytes()).update(&[0]);
        self
    }

    fn number(mut self, number: u64) -> Key {
        self.0.update(&number.to_le_bytes());
        self
    }

    pub(crate) fn finish(self) -> u64 {
        let bytes = self.0.finalize();
        u64::from_le_bytes(*bytes.as_bytes().first_chunk().expect("a hash has 32 bytes"))
    }
}

/// The number of the standard normal distribution that belongs to a number of the uniform one.
pub(crate) fn normal(uniform: u64) -> f64 {
    // Strictly between 0 and 1, where the inverse is finite.
    Normal::standard().inverse_cdf(((uniform >> 11) as f64 + 0.5) / (1u64 << 53) as f64)
}
