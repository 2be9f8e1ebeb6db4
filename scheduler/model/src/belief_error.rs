//! Errors of a belief.

use record::rows::Warnings;

use crate::{
    PredictRequest, Prediction, Throughput,
    chance::{Key, normal},
};

/// A model whose predictions are wrong by a random factor, `exp(bias + sigma z)` with `z` from the standard normal distribution.
///
/// `z` is drawn once for each job, plan, number and type of devices: a question is answered alike each time, and by all policies
/// of a seed. Co-runners and neighbours do not change the factor.
pub struct BeliefError {
    pub model: Box<dyn Throughput>,
    /// The standard deviation of the factor on the log scale.
    pub sigma: f64,
    /// The mean of the factor on the log scale.
    pub bias: f64,
    pub seed: u64,
}

impl Throughput for BeliefError {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let found = self.model.predict(question)?;
        Some(found.times((self.bias + self.sigma * normal(Key::new(self.seed).job(question).finish())).exp()))
    }

    fn warnings(&self, question: &PredictRequest<'_>) -> Warnings {
        self.model.warnings(question)
    }

    fn peak_memory_bytes(&self, question: &PredictRequest<'_>) -> Option<u64> {
        self.model.peak_memory_bytes(question)
    }

    fn minds_neighbours(&self) -> bool {
        self.model.minds_neighbours()
    }

    fn observe(&mut self, question: &PredictRequest<'_>, step_ns: f64) -> bool {
        self.model.observe(question, step_ns)
    }

    fn version(&self) -> Option<u64> {
        self.model.version()
    }
}

#[cfg(test)]
mod tests {
    use schema::sharing::Sharing;

    use super::*;
    use crate::JobKey;

    struct Constant;

    impl Throughput for Constant {
        fn predict(&self, _: &PredictRequest<'_>) -> Option<Prediction> {
            Some(Prediction { step_ns: 100.0, step_ns_ci: Some((90.0, 110.0)) })
        }
    }

    /// The factor for a job of this batch.
    fn factor(seed: u64, sigma: f64, bias: f64, batch: u32) -> f64 {
        let job = JobKey::new("a", Some(batch), None);
        let sharing = &Sharing::TIME_SLICE;
        let (placement, device_type) = (&[1][..], "GPU");
        let question = PredictRequest {
            job,
            placement,
            device_type,
            cpus: None,
            co_runners: &[],
            sharing,
            neighbours: &[],
        };
        let found = BeliefError { model: Box::new(Constant), sigma, bias, seed }.predict(&question).unwrap();
        let (lo, hi) = found.step_ns_ci.unwrap();
        assert!((lo / found.step_ns - 0.9).abs() < 1e-9 && (hi / found.step_ns - 1.1).abs() < 1e-9);
        found.step_ns / 100.0
    }

    #[test]
    fn errors_have_their_bias_and_deviation_and_are_the_same_each_time() {
        assert!((factor(1, 0.0, 0.5, 8) - 0.5f64.exp()).abs() < 1e-12);
        assert_eq!(factor(1, 0.3, 0.0, 8), factor(1, 0.3, 0.0, 8));
        assert_ne!(factor(1, 0.3, 0.0, 8), factor(2, 0.3, 0.0, 8));
        let count = 4_000;
        let logs: Vec<f64> = (0..count).map(|batch| factor(7, 0.3, -0.1, batch).ln()).collect();
        let mean = logs.iter().sum::<f64>() / f64::from(count);
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / f64::from(count);
        assert!((mean + 0.1).abs() < 0.015 && (variance.sqrt() - 0.3).abs() < 0.015, "{mean} {variance}");
    }
}
