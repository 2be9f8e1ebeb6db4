//! Makes the steps of a job from the events of its ranks.

use std::path::Path;

use crate::{
    events::{EventError, EventReader},
    units::{Nanos, total},
    wire::{Event, EventLine, Phases, Step, Timing},
};

/// One step of a job. It ends when its last rank ends it. The lengths of consecutive steps, if no rank was
/// held between them, therefore add up to the elapsed time; the lengths of the slowest rank of each step
/// would add up to more.
#[derive(Clone, Debug, PartialEq)]
pub struct JobStep {
    pub index: u64,
    /// When the last rank ended the step.
    pub end: Nanos,
    /// With several ranks, the time from the end of the step before, or from the start of the first rank if
    /// that is later because the job was held. A single rank reports its own duration, which may be more
    /// accurate than the time of its event.
    pub dur_ns: u64,
    /// The phases of the rank that took longest.
    pub phases: Phases,
    /// Samples of all ranks together; `None` if one of them does not know its number.
    pub samples: Option<u64>,
    pub sent_bytes: Option<u64>,
    /// The mean over the samples of all ranks. It is `None` if a rank reports no loss, if one of several
    /// ranks does not know its samples, and if the step had no samples.
    pub loss: Option<f64>,
    pub timing: Timing,
}

/// The index, the end and the duration of a step of a rank or of a job, without everything else that is known
/// of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTime {
    pub index: u64,
    pub end: Nanos,
    pub dur_ns: u64,
}

impl JobStep {
    /// The start of the step, without time in which the job was held.
    pub fn start(&self) -> Nanos {
        self.end.saturating_sub(Nanos(self.dur_ns))
    }
}

impl StepTime {
    /// The start of the step, without time in which the job was held.
    pub fn start(&self) -> Nanos {
        self.end.saturating_sub(Nanos(self.dur_ns))
    }

    fn of(end: Nanos, step: &Step) -> StepTime {
        StepTime { index: step.index, end, dur_ns: step.dur_ns.0 }
    }

    /// Combines the times of one step of all ranks, of which there is at least one. `before` is the end of
    /// the step before.
    fn of_ranks(ranks: &[StepTime], before: Nanos) -> StepTime {
        let end = ranks.iter().map(|step| step.end).max().unwrap_or_default();
        let began = ranks.iter().map(StepTime::start).min().unwrap_or_default();
        let dur_ns = match ranks {
            [only] => only.dur_ns,
            _ => end.saturating_sub(began.max(before)).0,
        };
        StepTime { index: ranks[0].index, end, dur_ns }
    }
}

/// The steps that all ranks completed and timed, in order. `ranks` has the events of each rank.
pub fn job_steps(ranks: &[Vec<EventLine>]) -> Vec<JobStep> {
    let steps: Vec<Vec<(Nanos, &Step)>> = ranks.iter().map(|events| steps_of(events)).collect();
    let mut before = Nanos::ZERO;
    joined(
        &steps,
        |(_, step)| step.index,
        |of_ranks| {
            let step = job_step(of_ranks, before);
            before = step.end;
            step
        },
    )
}

/// The times of the steps that all ranks completed and timed, as those of [`job_steps`]. `ranks` has the
/// times of each rank.
pub fn step_times(ranks: &[Vec<StepTime>]) -> Vec<StepTime> {
    let mut before = Nanos::ZERO;
    joined(
        ranks,
        |step| step.index,
        |of_ranks| {
            let step = StepTime::of_ranks(of_ranks, before);
            before = step.end;
            step
        },
    )
}

/// Reads the times of the steps in a complete event file. The events of a long launch do not have to fit into
/// memory.
pub fn read_times(path: &Path, rank: u32) -> Result<Vec<StepTime>, EventError> {
    let mut reader = EventReader::open(path, rank)?;
    let (mut times, mut lines) = (Vec::new(), Vec::new());
    let mut may_have_more = true;
    while may_have_more {
        may_have_more = reader.poll_some(&mut lines)?;
        times.extend(steps_of(&lines).into_iter().map(|(end, step)| StepTime::of(end, step)));
        lines.clear();
    }
    reader.finish()?;
    Ok(times)
}

/// Combines the steps that all ranks have, in order of the first rank.
fn joined<T: Copy, J>(
    ranks: &[Vec<T>],
    index: impl Fn(&T) -> u64,
    mut combine: impl FnMut(&[T]) -> J,
) -> Vec<J> {
    let Some((first, others)) = ranks.split_first() else { return Vec::new() };
    let mut of_ranks = Vec::with_capacity(ranks.len());
    let step = |own: &T| {
        of_ranks.clear();
        of_ranks.push(*own);
        for rank in others {
            of_ranks.push(rank[rank.binary_search_by_key(&index(own), &index).ok()?]);
        }
        Some(combine(&of_ranks))
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
    let times: Vec<StepTime> = ranks.iter().map(|(end, step)| StepTime::of(*end, step)).collect();
    let StepTime { index, end, dur_ns } = StepTime::of_ranks(&times, before);
    JobStep {
        index,
        end,
        dur_ns,
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

    use super::*;
    use crate::{events::EventWriter, wire::Memory};

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

    /// Two ranks are slow in turn: the longest times of the first three steps add up to 36, and the steps
    /// took 32. Before the last step both ranks were held for 100.
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

    /// The times of steps whose events were written to files.
    fn times_on_file(ranks: &[Vec<EventLine>]) -> Vec<StepTime> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let read = |events: &Vec<EventLine>| {
            let rank = events.first().map_or(0, |line| line.rank);
            let _ = std::fs::remove_file(&path);
            let mut writer = EventWriter::create(&path, rank).unwrap();
            events.iter().for_each(|line| writer.say_at(line.mono_ns, line.event.clone()).unwrap());
            read_times(&path, rank).unwrap()
        };
        step_times(&ranks.iter().map(read).collect::<Vec<_>>())
    }

    fn of_job(steps: &[JobStep]) -> Vec<StepTime> {
        steps.iter().map(|step| StepTime { index: step.index, end: step.end, dur_ns: step.dur_ns }).collect()
    }

    #[test]
    fn times_of_ranks_that_were_held_are_those_of_their_steps() {
        let zero = vec![step(0, 0, 100, 10, None), step(0, 1, 112, 12, None), step(0, 2, 400, 9, None)];
        let one = vec![step(1, 0, 101, 12, None), step(1, 1, 115, 14, None), step(1, 2, 402, 12, None)];
        for ranks in
            [vec![zero.clone()], vec![zero.clone(), one.clone()], vec![one, zero[..2].to_vec()], vec![]]
        {
            assert_eq!(times_on_file(&ranks), of_job(&job_steps(&ranks)));
        }
    }

    #[test]
    fn a_torn_file_has_no_times() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        std::fs::write(&path, "{\"seq\":0").unwrap();
        assert!(matches!(read_times(&path, 0), Err(EventError::Torn { .. })));
        assert!(matches!(read_times(folder.path(), 0), Err(EventError::Io { .. })));
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
            prop_assert_eq!(times_on_file(&events), of_job(&steps));
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
