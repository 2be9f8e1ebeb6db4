//! Makes the steps of a job from the events of its ranks.

use std::collections::BTreeSet;

use schema::{
    units::Nanos,
    wire::{Event, EventLine, Phases, Step, Timing},
};

use crate::window::total;

/// One step of a job. It ends when its last rank ends it. The lengths of consecutive steps, if no rank was held between them,
/// therefore add up to the elapsed time; the lengths of the slowest rank of each step would add up to more.
#[derive(Clone, Debug, PartialEq)]
pub struct JobStep {
    pub index: u64,
    /// When the last rank ended the step.
    pub end: Nanos,
    /// With several ranks, the time from the end of the step before, or from the start of the first rank if that is later
    /// because the job was held. A single rank reports its own duration, which may be more accurate than the time of its event.
    pub dur_ns: u64,
    /// The phases of the rank that took longest.
    pub phases: Phases,
    /// Samples of all ranks together; `None` if one of them does not know its number.
    pub samples: Option<u64>,
    pub sent_bytes: Option<u64>,
    /// The mean over the samples of all ranks. It is `None` if a rank reports no loss, if one of several ranks does not know
    /// its samples, and if the step had no samples.
    pub loss: Option<f64>,
    pub timing: Timing,
}

/// The steps of one launch, and which of them a row of `measurements.csv` is made from.
pub struct LaunchSteps {
    pub launch: String,
    pub steps: Vec<JobStep>,
    /// Their positions in `steps`; `None` if the row has no numbers of steps.
    pub used: Option<BTreeSet<usize>>,
}

impl JobStep {
    /// The start of the step, without time in which the job was held.
    pub fn start(&self) -> Nanos {
        self.end.saturating_sub(Nanos(self.dur_ns))
    }
}

/// The steps that all ranks completed and timed, in order. `ranks` has the events of each rank.
pub fn job_steps(ranks: &[Vec<EventLine>]) -> Vec<JobStep> {
    let steps: Vec<Vec<(Nanos, &Step)>> = ranks.iter().map(|events| steps_of(events)).collect();
    let Some((first, others)) = steps.split_first() else { return Vec::new() };
    let mut before = Nanos::ZERO;
    let step = |own: &(Nanos, &Step)| {
        let mut of_ranks = vec![*own];
        for rank in others {
            of_ranks.push(rank[rank.binary_search_by_key(&own.1.index, |(_, step)| step.index).ok()?]);
        }
        let step = job_step(&of_ranks, before);
        before = step.end;
        Some(step)
    };
    first.iter().filter_map(step).collect()
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

/// Combines one step of all ranks, of which there is at least one. `before` is the end of the step before.
fn job_step(ranks: &[(Nanos, &Step)], before: Nanos) -> JobStep {
    let (_, first) = ranks[0];
    let slowest = ranks.iter().map(|(_, step)| *step).max_by_key(|step| step.dur_ns).unwrap_or(first);
    let end = ranks.iter().map(|(end, _)| *end).max().unwrap_or_default();
    let began = ranks.iter().map(|(end, step)| end.saturating_sub(step.dur_ns)).min().unwrap_or_default();
    let dur_ns = match ranks {
        [(_, only)] => only.dur_ns,
        _ => end.saturating_sub(began.max(before)),
    };
    JobStep {
        index: first.index,
        end,
        dur_ns: dur_ns.0,
        phases: slowest.phases.clone().unwrap_or_default(),
        samples: total(ranks.iter().map(|(_, step)| step.samples)),
        sent_bytes: total(ranks.iter().map(|(_, step)| step.sent_bytes)),
        loss: loss(ranks),
        timing: first.timing,
    }
}

fn loss(ranks: &[(Nanos, &Step)]) -> Option<f64> {
    if let [(_, only)] = ranks {
        return only.loss.filter(|_| only.samples != Some(0));
    }
    let samples = total(ranks.iter().map(|(_, step)| step.samples))?;
    let losses: Option<f64> = ranks.iter().map(|(_, step)| Some(step.loss? * step.samples? as f64)).sum();
    losses.filter(|_| samples > 0).map(|sum| sum / samples as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
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
    fn a_step_is_of_all_ranks_together() {
        let zero = vec![step(0, 0, 100, 10, Some(3)), step(0, 1, 112, 12, Some(3))];
        let one = vec![step(1, 0, 105, 14, Some(4))];
        let steps = job_steps(&[zero, one]);
        let [only] = &steps[..] else { panic!("what one rank did not complete is no step") };
        assert_eq!((only.end, only.dur_ns, only.start()), (Nanos(105), 15, Nanos(90)));
        assert_eq!((only.samples, only.sent_bytes, only.loss), (Some(8), Some(7), Some(0.5)));
        assert_eq!(only.phases.forward_ns, Some(Nanos(7)));
    }

    /// Two ranks are slow in turn: the longest times of the first three steps add up to 36, and the steps took 32. Before the
    /// last step both ranks were held for 100.
    #[test]
    fn a_step_lasts_from_the_end_of_the_last_to_its_own() {
        let ranks = [[(12, 12), (20, 8), (32, 12)], [(8, 8), (20, 12), (28, 8)]];
        let held = [(142, 10), (144, 11)];
        let rank = |rank: usize| {
            let steps = ranks[rank].iter().chain([&held[rank]]).zip(0..);
            steps.map(|(&(end, dur), index)| step(rank as u32, index, 100 + end, dur, None)).collect()
        };
        let steps = job_steps(&[rank(0), rank(1)]);
        let lengths: Vec<u64> = steps.iter().map(|step| step.dur_ns).collect();
        assert_eq!(lengths, [12, 8, 12, 12]);
        let starts: Vec<Nanos> = steps.iter().map(JobStep::start).collect();
        assert_eq!(starts, [100, 112, 120, 232].map(Nanos));
    }

    proptest! {
        /// From boundary to boundary, as a rank tells its steps: each begins when its last one ended.
        #[test]
        fn lengths_of_unheld_steps_add_up_to_the_time_on_the_clock(
            ranks in prop::collection::vec((0..500u64, prop::collection::vec(1..1_000u64, 1..40)), 1..6),
        ) {
            let events: Vec<Vec<EventLine>> = ranks
                .iter()
                .zip(0..)
                .map(|((start, lengths), rank)| {
                    let mut end = 1_000 + start;
                    let told = lengths.iter().zip(0..).map(|(&length, index)| {
                        end += length;
                        step(rank, index, end, length, None)
                    });
                    told.collect()
                })
                .collect();
            let steps = job_steps(&events);
            let sum: u64 = steps.iter().map(|step| step.dur_ns).sum();
            let first = ranks.iter().map(|(start, _)| 1_000 + start).min().expect("there is a rank");
            let last = steps.last().expect("each rank has a step").end;
            prop_assert_eq!(sum, last.0 - first);
            prop_assert!(steps.windows(2).all(|pair| pair[1].start() == pair[0].end));
        }
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

    /// Lines of output that were seen at one look end together, and share the time since the last look.
    #[test]
    fn steps_of_one_rank_are_as_long_as_it_says() {
        let events = vec![step(0, 0, 100, 10, None), step(0, 1, 120, 10, None), step(0, 2, 120, 10, None)];
        let lengths: Vec<u64> = job_steps(&[events]).iter().map(|step| step.dur_ns).collect();
        assert_eq!(lengths, [10, 10, 10]);
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
