//! The time of jobs that take turns.

use record::rows::Warnings;
use schema::sharing::{Quantum, Sharing};

use crate::{PredictRequest, Prediction, Throughput};

/// A model that also answers for jobs that take turns of equal length under `step-gate`, where the model itself has no answer. Each
/// of n jobs then takes n times as long as alone. If a turn is a number of steps, a job takes as long for a step as one step of each
/// job takes alone.
///
/// This holds if switches between jobs cost nothing, and if all jobs share a device with each other. If two co-runners of a job share
/// none, they have their turns at the same time, and the job takes less long.
pub struct InTurns {
    pub model: Box<dyn Throughput>,
}

impl Throughput for InTurns {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        self.model.predict(question).or_else(|| {
            let Sharing::StepGate { quantum, .. } = question.sharing else { return None };
            let alone = self.model.predict(&PredictRequest { co_runners: &[], ..*question })?;
            Some(alone.times(match quantum {
                Quantum::Time(_) => 1.0 + question.co_runners.len() as f64,
                Quantum::Steps(_) => {
                    let step_ns = |job| {
                        let of_other = PredictRequest { job, co_runners: &[], cpus: None, ..*question };
                        self.model.predict(&of_other).map(|other| other.step_ns)
                    };
                    let others: f64 =
                        question.co_runners.iter().map(|job| step_ns(*job)).sum::<Option<_>>()?;
                    (alone.step_ns + others) / alone.step_ns
                }
            }))
        })
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
    use super::*;
    use crate::{JobKey, Table, TraceTime};

    fn job(workload: &'static str, step_ns: u64) -> JobKey<'static> {
        let time = TraceTime { step_ns, plan: None, devices: 1, nodes: 1, device_type: None };
        JobKey { trace_time: Some(time), ..JobKey::new(workload, None, None) }
    }

    fn step_ns(job: JobKey<'_>, co_runners: &[JobKey<'_>], sharing: &str) -> Option<f64> {
        let sharing = &sharing.parse().unwrap();
        let (placement, device_type, cpus, neighbours) = (&[1][..], "GPU", None, &[][..]);
        let model = InTurns { model: Box::new(Table::default()) };
        let question = PredictRequest { job, placement, device_type, cpus, co_runners, sharing, neighbours };
        model.predict(&question).map(|found| found.step_ns)
    }

    #[test]
    fn jobs_that_take_turns_share_the_time_or_the_steps_equally() {
        let (a, b, c) = (job("a", 10), job("b", 30), job("c", 60));
        let unknown = JobKey { trace_time: None, ..c };
        for (of, co_runners, sharing, expected) in [
            (a, &[][..], "step-gate", Some(10.0)),
            (a, &[b], "step-gate", Some(20.0)),
            (b, &[a, c], "step-gate:250ms", Some(90.0)),
            (a, &[b, c], "step-gate:8", Some(100.0)),
            (c, &[a, b], "step-gate:8", Some(100.0)),
            (a, &[unknown], "step-gate", Some(20.0)),
            (a, &[unknown], "step-gate:8", None),
            (unknown, &[a], "step-gate", None),
            (a, &[b], "time-slice", None),
            (a, &[b], "time-slice:20ms", None),
        ] {
            let found = step_ns(of, co_runners, sharing);
            let is_right = found.zip(expected).map_or(found == expected, |(a, b)| (a - b).abs() < 1e-9);
            assert!(is_right, "{} beside {} under {sharing}: {found:?}", of.workload, co_runners.len());
        }
    }
}
