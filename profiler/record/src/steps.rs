//! Makes the steps of a job from the events of its ranks.

use std::path::{Path, PathBuf};

use schema::{
    events::{EventError, EventReader, steps_told},
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
    /// Samples of all ranks together; `None` if one of them does not know its number.
    pub samples: Option<u64>,
    pub sent_bytes: Option<u64>,
    /// The mean over the samples of all ranks; a rank without samples has no say. It is `None` if another
    /// rank reports no loss, if one of several ranks does not know its samples, and if the step had no
    /// samples.
    pub loss: Option<f64>,
    /// The part of each pipeline stage, in order of stages; one without pipeline parallelism.
    pub stages: Vec<StageStep>,
    pub timing: Timing,
}

/// The part of a step that the ranks of one pipeline stage did. Samples, bytes and loss are as those of
/// [`JobStep`].
#[derive(Clone, Debug, PartialEq)]
pub struct StageStep {
    /// The phases of the stage's rank that took longest. Most programs of the user's report none, so they take memory of their own.
    pub phases: Option<Box<Phases>>,
    pub samples: Option<u64>,
    pub sent_bytes: Option<u64>,
    pub loss: Option<f64>,
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

/// The steps that all ranks completed and timed, in order. `ranks` has the events of each rank, and `stages` is
/// the number of pipeline stages of the job ([`schema::spec::Program::stages`]).
pub fn job_steps(ranks: &[Vec<EventLine>], stages: u32) -> Vec<JobStep> {
    let steps: Vec<Vec<(Nanos, &Step)>> = ranks.iter().map(|events| steps_of(events)).collect();
    job_steps_of(&steps, stages)
}

fn job_steps_of(ranks: &[Vec<(Nanos, &Step)>], stages: u32) -> Vec<JobStep> {
    let mut before = Nanos::ZERO;
    joined(
        ranks,
        |(_, step)| step.index,
        |of_ranks| {
            let step = job_step(of_ranks, stages, before);
            before = step.end;
            step
        },
    )
}

/// The events of the ranks of a job, with the steps of the ranks combined.
#[derive(Debug, Default)]
pub struct JobEvents {
    /// As those of [`job_steps`].
    pub steps: Vec<JobStep>,
    /// As [`schema::events::steps_taken`].
    pub steps_taken: u64,
    /// The events of each rank that are no steps.
    pub others: Vec<Vec<EventLine>>,
}

/// Whether a reader of events goes on after an invalid line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// The whole job has no events then.
    IsAnError,
    /// The file counts up to this line. A file that cannot be read has no events.
    EndsTheFile,
}

/// Reads the events of a job from the complete files of its ranks, of which the first is that of rank 0. `stages` is as in
/// [`job_steps`]. The steps of a single rank, of which there may be a million, are combined while they are read.
///
/// # Errors
/// The first file that is invalid, with its path, if that is an error.
pub fn read_job(
    files: &[PathBuf],
    stages: u32,
    invalid: Invalid,
) -> Result<JobEvents, (PathBuf, EventError)> {
    let mut job = JobEvents::default();
    let mut of_ranks: Vec<Vec<(Nanos, Step)>> = Vec::new();
    let mut taken: Option<u64> = None;
    for (path, rank) in files.iter().zip(0..) {
        let (mut steps, mut others, mut told, mut before) = (Vec::new(), Vec::new(), 0, Nanos::ZERO);
        let read = read_each(path, rank, |line| {
            told = told.max(steps_told(&line));
            match line.event {
                Event::Step(step) if files.len() == 1 => {
                    let combined = job_step(&[(line.mono_ns, &step)], stages, before);
                    before = combined.end;
                    job.steps.push(combined);
                }
                Event::Step(step) => steps.push((line.mono_ns, step)),
                _ => others.push(line),
            }
        });
        match read {
            Err(error) if invalid == Invalid::IsAnError => return Err((path.clone(), error)),
            Ok(()) | Err(_) => {}
        }
        taken = Some(taken.map_or(told, |least| least.min(told)));
        of_ranks.push(steps);
        job.others.push(others);
    }
    if files.len() > 1 {
        let steps: Vec<Vec<(Nanos, &Step)>> =
            of_ranks.iter().map(|steps| steps.iter().map(|(end, step)| (*end, step)).collect()).collect();
        job.steps = job_steps_of(&steps, stages);
    }
    job.steps_taken = taken.unwrap_or(0);
    Ok(job)
}

/// Passes on each line of a complete event file, up to the first invalid one. The events do not have to fit into memory.
///
/// # Errors
/// A line is invalid, the last one is torn, or the file cannot be read.
pub fn read_each(path: &Path, rank: u32, mut visit: impl FnMut(EventLine)) -> Result<(), EventError> {
    let mut reader = EventReader::open(path, rank)?;
    let (mut lines, mut may_have_more) = (Vec::new(), true);
    while may_have_more {
        let read = reader.poll_some(&mut lines);
        lines.drain(..).for_each(&mut visit);
        may_have_more = read?;
    }
    reader.finish()
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
    let mut times = Vec::new();
    read_each(path, rank, |line| {
        if let Event::Step(step) = &line.event {
            times.push(StepTime::of(line.mono_ns, step));
        }
    })?;
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
fn job_step(ranks: &[(Nanos, &Step)], stages: u32, before: Nanos) -> JobStep {
    let (_, first) = ranks[0];
    // The ranks of a stage follow each other: see `Mesh`.
    let ranks_of_stage = ranks.len().div_ceil(stages.max(1) as usize);
    let times: Vec<StepTime> = ranks.iter().map(|(end, step)| StepTime::of(*end, step)).collect();
    let StepTime { index, end, dur_ns } = StepTime::of_ranks(&times, before);
    JobStep {
        index,
        end,
        dur_ns,
        samples: samples(ranks),
        sent_bytes: sent_bytes(ranks),
        loss: loss(ranks),
        stages: ranks.chunks(ranks_of_stage).map(stage_step).collect(),
        timing: first.timing,
    }
}

fn stage_step(ranks: &[(Nanos, &Step)]) -> StageStep {
    let slowest = ranks.iter().max_by_key(|(_, step)| step.dur_ns);
    StageStep {
        phases: slowest.and_then(|(_, step)| step.phases.clone()).map(Box::new),
        samples: samples(ranks),
        sent_bytes: sent_bytes(ranks),
        loss: loss(ranks),
    }
}

fn samples(ranks: &[(Nanos, &Step)]) -> Option<u64> {
    total(ranks.iter().map(|(_, step)| step.samples))
}

fn sent_bytes(ranks: &[(Nanos, &Step)]) -> Option<u64> {
    total(ranks.iter().map(|(_, step)| step.sent_bytes))
}

fn loss(ranks: &[(Nanos, &Step)]) -> Option<f64> {
    let of_ranks: Vec<RankLoss> = ranks.iter().map(|(_, step)| RankLoss::of(step)).collect();
    loss_of_step(&of_ranks)
}

/// What a rank reports of the loss of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankLoss {
    pub samples: Option<u64>,
    pub loss: Option<f64>,
}

impl RankLoss {
    pub fn of(step: &Step) -> RankLoss {
        RankLoss { samples: step.samples, loss: step.loss }
    }
}

/// The loss of a step from those of its ranks, as [`JobStep::loss`].
pub fn loss_of_step(ranks: &[RankLoss]) -> Option<f64> {
    if let [only] = ranks {
        return only.loss.filter(|_| only.samples != Some(0));
    }
    let samples = total(ranks.iter().map(|rank| rank.samples))?;
    let with_samples = ranks.iter().filter(|rank| rank.samples != Some(0));
    let losses: Option<f64> = with_samples.map(|rank| Some(rank.loss? * rank.samples? as f64)).sum();
    losses.filter(|_| samples > 0).map(|sum| sum / samples as f64)
}

#[cfg(test)]
mod tests;
