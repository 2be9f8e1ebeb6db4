//! The steps of a job out of the events of its ranks.

use std::collections::BTreeSet;

use schema::{
    units::Nanos,
    wire::{Event, EventLine, Phases, Step, Timing},
};

/// One step of a job: as long as its slowest rank took.
#[derive(Clone, Debug, PartialEq)]
pub struct JobStep {
    pub index: u64,
    /// When the last rank was through.
    pub end: Nanos,
    pub dur_ns: u64,
    /// Of the slowest rank.
    pub phases: Phases,
    /// Of all ranks together; absent where one of them does not know.
    pub samples: Option<u64>,
    pub sent_bytes: Option<u64>,
    /// The mean over the samples of all ranks; absent where one of them says none, or of several does not know its samples,
    /// and where nothing was trained on.
    pub loss: Option<f64>,
    pub timing: Timing,
}

/// The steps of one launch, and which of them a row of `measurements.csv` is made from.
pub struct LaunchSteps {
    pub launch: String,
    pub steps: Vec<JobStep>,
    /// Their places in `steps`; absent where the row has no numbers of steps.
    pub used: Option<BTreeSet<usize>>,
}

impl JobStep {
    /// When the step began, time held left out.
    pub fn start(&self) -> Nanos {
        self.end.saturating_sub(Nanos(self.dur_ns))
    }
}

/// The steps that all ranks completed, in order. `ranks` holds the events of each rank.
pub fn job_steps(ranks: &[Vec<EventLine>]) -> Vec<JobStep> {
    let steps: Vec<Vec<(Nanos, &Step)>> = ranks.iter().map(|events| steps_of(events)).collect();
    let complete = steps.iter().map(Vec::len).min().unwrap_or(0);
    (0..complete).map(|i| job_step(&steps.iter().map(|rank| rank[i]).collect::<Vec<_>>())).collect()
}

fn steps_of(events: &[EventLine]) -> Vec<(Nanos, &Step)> {
    events
        .iter()
        .filter_map(|line| match &line.event {
            Event::Step(step) => Some((line.mono_ns, step)),
            _ => None,
        })
        .collect()
}

/// One step out of those of all ranks, of which there is at least one.
fn job_step(ranks: &[(Nanos, &Step)]) -> JobStep {
    let (_, first) = ranks[0];
    let slowest = ranks.iter().map(|(_, step)| *step).max_by_key(|step| step.dur_ns).unwrap_or(first);
    JobStep {
        index: first.index,
        end: ranks.iter().map(|(end, _)| *end).max().unwrap_or_default(),
        dur_ns: slowest.dur_ns.0,
        phases: slowest.phases.clone().unwrap_or_default(),
        samples: ranks.iter().map(|(_, step)| step.samples).sum(),
        sent_bytes: ranks.iter().map(|(_, step)| step.sent_bytes).sum(),
        loss: loss(ranks),
        timing: first.timing,
    }
}

fn loss(ranks: &[(Nanos, &Step)]) -> Option<f64> {
    if let [(_, only)] = ranks {
        return only.loss.filter(|_| only.samples != Some(0));
    }
    let samples: u64 = ranks.iter().map(|(_, step)| step.samples).sum::<Option<u64>>()?;
    let losses: Option<f64> = ranks.iter().map(|(_, step)| Some(step.loss? * step.samples? as f64)).sum();
    losses.filter(|_| samples > 0).map(|sum| sum / samples as f64)
}

#[cfg(test)]
mod tests {
    use schema::wire::Memory;

    use super::*;

    fn step(rank: u32, index: u64, end: u64, dur: u64, sent: Option<u64>) -> EventLine {
        let step = Step {
            index,
            dur_ns: Nanos(dur),
            samples: Some(4),
            loss: Some(f64::from(rank)),
            phases: Some(Phases { forward_ns: Some(Nanos(dur / 2)), ..Phases::default() }),
            sent_bytes: sent,
            timing: Timing::Host,
        };
        EventLine { seq: index, rank, mono_ns: Nanos(end), event: Event::Step(step) }
    }

    #[test]
    fn a_step_is_as_long_as_its_slowest_rank() {
        let zero = vec![step(0, 0, 100, 10, Some(3)), step(0, 1, 112, 12, Some(3))];
        let one = vec![step(1, 0, 105, 14, Some(4))];
        let steps = job_steps(&[zero, one]);
        let [only] = &steps[..] else { panic!("what one rank did not complete is no step") };
        assert_eq!((only.end, only.dur_ns, only.start()), (Nanos(105), 14, Nanos(91)));
        assert_eq!((only.samples, only.sent_bytes, only.loss), (Some(8), Some(7), Some(0.5)));
        assert_eq!(only.phases.forward_ns, Some(Nanos(7)));
    }

    #[test]
    fn steps_that_are_told_late_end_when_they_ended() {
        let memory = Memory {
            allocated_bytes: 1,
            reserved_bytes: None,
            peak_bytes: 1,
            host_bytes: None,
            allocator_retries: None,
        };
        let memory = EventLine { seq: 1, rank: 0, mono_ns: Nanos(130), event: Event::Memory(memory) };
        // A GPU's clock is read when it is through, which may be some steps later.
        let events =
            vec![step(0, 0, 100, 10, None), memory, step(0, 1, 112, 12, None), step(0, 2, 124, 12, None)];
        let ends: Vec<_> = job_steps(&[events]).iter().map(|step| (step.start(), step.end)).collect();
        assert_eq!(ends, [(90, 100), (100, 112), (112, 124)].map(|(start, end)| (Nanos(start), Nanos(end))));
    }

    #[test]
    fn bytes_that_one_rank_cannot_tell_are_absent_in_the_sum() {
        let steps = job_steps(&[vec![step(0, 0, 1, 1, Some(3))], vec![step(1, 0, 1, 1, None)]]);
        assert_eq!(steps[0].sent_bytes, None);
        assert!(job_steps(&[]).is_empty());
    }

    #[test]
    fn samples_that_one_rank_does_not_know_are_absent_and_so_is_a_mean_over_them() {
        let of = |rank, samples| {
            let mut line = step(rank, 0, 1, 1, None);
            if let Event::Step(step) = &mut line.event {
                step.samples = samples;
            }
            vec![line]
        };
        for (samples, expected) in [
            // The loss of rank 1 is 1, that of rank 0 is 0.
            ([Some(1), Some(3)], (Some(4), Some(0.75))),
            ([Some(1), None], (None, None)),
            ([None, None], (None, None)),
            ([Some(0), Some(0)], (Some(0), None)),
        ] {
            let steps = job_steps(&[of(0, samples[0]), of(1, samples[1])]);
            assert_eq!((steps[0].samples, steps[0].loss), expected, "{samples:?}");
        }
        for (samples, loss) in [(Some(4), Some(1.0)), (None, Some(1.0)), (Some(0), None)] {
            assert_eq!(job_steps(&[of(1, samples)])[0].loss, loss, "of one rank: {samples:?}");
        }
    }
}
