//! Step times drawn from their intervals.

use record::rows::Warnings;

use crate::{
    PredictRequest, Prediction, Throughput,
    chance::{Key, normal},
};

/// A model whose step times are drawn from their 95 % intervals, with a log-normal distribution around the prediction.
///
/// The factor of a job alone is drawn once for each job, plan, number and type of devices, and that of its company once for each
/// set of co-runners and neighbours. A prediction without an interval is exact.
pub struct Drawn<'a> {
    pub model: &'a dyn Throughput,
    pub seed: u64,
}

/// The half-width of the 95 % interval of the standard normal distribution.
const HALF_WIDTH: f64 = 1.959_963_984_540_054;

impl Throughput for Drawn<'_> {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let found = self.model.predict(question)?;
        let alone = PredictRequest { co_runners: &[], neighbours: &[], ..*question };
        let is_alone = question.co_runners.is_empty() && question.neighbours.is_empty();
        let of_alone = if is_alone {
            deviation(&found)
        } else {
            self.model.predict(&alone).map_or(0.0, |of| deviation(&of))
        };
        let mut log = of_alone * normal(Key::new(self.seed).job(&alone).finish());
        if !is_alone {
            // The interval beside co-runners is that of the slowdown alone, and the one beside neighbours contains both.
            let whole = deviation(&found);
            let of_company = if question.co_runners.is_empty() { (whole - of_alone).max(0.0) } else { whole };
            log += of_company * normal(Key::new(self.seed).job(question).company(question).finish());
        }
        let step_ns = found.step_ns * log.exp();
        Some(Prediction { step_ns, step_ns_ci: Some((step_ns, step_ns)) })
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
}

/// The standard deviation of a prediction on the log scale.
fn deviation(of: &Prediction) -> f64 {
    of.step_ns_ci.map_or(0.0, |(lo, hi)| (hi / lo).ln() / 2.0 / HALF_WIDTH)
}

#[cfg(test)]
mod tests {
    use schema::sharing::Sharing;

    use super::*;
    use crate::JobKey;

    /// Alone 100 (90.. 1/0.9 as much), beside others twice that (1.5 to 2/0.75 times).
    struct Known;

    impl Throughput for Known {
        fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
            let (step_ns, part) = if question.co_runners.is_empty() { (100.0, 0.9) } else { (200.0, 0.75) };
            Some(Prediction { step_ns, step_ns_ci: Some((step_ns * part, step_ns / part)) })
        }
    }

    #[test]
    fn nineteen_of_twenty_draws_are_in_the_interval_and_company_has_a_factor_of_its_own() {
        let job = |workload| JobKey::new(workload, Some(8), None);
        let beside = [job("b")];
        let question = |co_runners| PredictRequest {
            job: job("a"),
            placement: &[1],
            device_type: "GPU",
            cpus: None,
            co_runners,
            sharing: &Sharing::TIME_SLICE,
            neighbours: &[],
        };
        let drawn = |seed, co_runners| {
            let found = Drawn { model: &Known, seed }.predict(&question(co_runners)).unwrap();
            assert_eq!(found.step_ns_ci, Some((found.step_ns, found.step_ns)));
            found.step_ns
        };
        assert_eq!(drawn(3, &[]), drawn(3, &[]), "the same of each seed");
        let count = 4_000;
        let part = |is_inside: &dyn Fn(u64) -> bool| {
            (0..count).filter(|seed| is_inside(*seed)).count() as f64 / count as f64
        };
        let alone = part(&|seed| (90.0..=100.0 / 0.9).contains(&drawn(seed, &[])));
        assert!((alone - 0.95).abs() < 0.01, "{alone}");
        // The ratio of both draws is that of the slowdown, whose interval is 1.5 to 2.67.
        let slowdown = |seed| drawn(seed, &beside) / drawn(seed, &[]);
        let together = part(&|seed| (1.5..=2.0 / 0.75).contains(&slowdown(seed)));
        assert!((together - 0.95).abs() < 0.01, "{together}");
    }
}
