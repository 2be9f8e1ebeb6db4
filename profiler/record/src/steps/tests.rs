use proptest::prelude::*;
use schema::{events::EventWriter, wire::Memory};

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
    let steps = job_steps(&[zero, one], 1);
    let [only] = &steps[..] else { panic!("what one rank did not complete is no step") };
    assert_eq!((only.end, only.dur_ns, only.start()), (Nanos(105), 15, Nanos(90)));
    assert_eq!((only.samples, only.sent_bytes, only.loss), (Some(8), Some(7), Some(0.5)));
    assert_eq!(only.stages[0].phases.as_ref().unwrap().forward_ns, Some(Nanos(7)));
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
    let steps = job_steps(&[rank(0), rank(1)], 1);
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

/// The events of ranks that were written to files, and files that end within a line if they are `torn`.
fn job_on_file(ranks: &[Vec<EventLine>], torn: bool, invalid: Invalid) -> Result<JobEvents, EventError> {
    let folder = tempfile::tempdir().unwrap();
    let write = |(events, rank): (&Vec<EventLine>, u32)| {
        let path = folder.path().join(format!("{rank}.jsonl"));
        let mut writer = EventWriter::create(&path, rank).unwrap();
        events.iter().for_each(|line| writer.say_at(line.mono_ns, line.event.clone()).unwrap());
        if torn {
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(&path, format!("{text}{{\"seq\"")).unwrap();
        }
        path
    };
    let files: Vec<PathBuf> = ranks.iter().zip(0..).map(write).collect();
    read_job(&files, 1, invalid).map_err(|(path, error)| {
        assert_eq!(path, files[0], "the first file is named");
        error
    })
}

#[test]
fn events_on_file_are_those_of_all_ranks_with_their_steps_combined() {
    let held =
        |rank: u32, seq: u64| EventLine { seq, rank, mono_ns: Nanos(500), event: Event::Held { index: 9 } };
    let zero = vec![step(0, 0, 100, 10, Some(3)), step(0, 1, 112, 12, Some(3)), held(0, 2)];
    let one = vec![step(1, 0, 105, 14, Some(4)), step(1, 1, 119, 14, None)];
    for ranks in [vec![zero.clone()], vec![zero.clone(), one.clone()], vec![zero, one[..1].to_vec()], vec![]]
    {
        let taken = schema::events::steps_taken(&ranks);
        for (torn, invalid) in [(false, Invalid::IsAnError), (true, Invalid::EndsTheFile)] {
            let job = job_on_file(&ranks, torn, invalid).unwrap();
            assert_eq!((&job.steps, job.steps_taken), (&job_steps(&ranks, 1), taken));
            let others: Vec<usize> = job.others.iter().map(Vec::len).collect();
            let expected: Vec<usize> =
                ranks.iter().map(|events| events.len() - steps_of(events).len()).collect();
            assert_eq!(others, expected);
        }
        let torn = job_on_file(&ranks, true, Invalid::IsAnError);
        assert!(ranks.is_empty() || matches!(torn, Err(EventError::Torn { .. })), "{torn:?}");
    }
}

fn of_job(steps: &[JobStep]) -> Vec<StepTime> {
    steps.iter().map(|step| StepTime { index: step.index, end: step.end, dur_ns: step.dur_ns }).collect()
}

#[test]
fn times_of_ranks_that_were_held_are_those_of_their_steps() {
    let zero = vec![step(0, 0, 100, 10, None), step(0, 1, 112, 12, None), step(0, 2, 400, 9, None)];
    let one = vec![step(1, 0, 101, 12, None), step(1, 1, 115, 14, None), step(1, 2, 402, 12, None)];
    for ranks in [vec![zero.clone()], vec![zero.clone(), one.clone()], vec![one, zero[..2].to_vec()], vec![]]
    {
        assert_eq!(times_on_file(&ranks), of_job(&job_steps(&ranks, 1)));
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
        let steps = job_steps(&events, 1);
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
    let ends: Vec<_> = job_steps(&[events], 1).iter().map(|step| (step.start(), step.end)).collect();
    assert_eq!(ends, [(90, 100), (100, 112), (112, 124)].map(|(start, end)| (Nanos(start), Nanos(end))));
}

/// Lines of output that were seen at one look end together, and share the time since the last look.
#[test]
fn steps_of_one_rank_are_as_long_as_it_says() {
    let events = vec![step(0, 0, 100, 10, None), step(0, 1, 120, 10, None), step(0, 2, 120, 10, None)];
    let lengths: Vec<u64> = job_steps(&[events], 1).iter().map(|step| step.dur_ns).collect();
    assert_eq!(lengths, [10, 10, 10]);
}

/// Under dp2-pp2, ranks 0 and 1 are stage 0 and report neither samples nor a loss.
#[test]
fn each_stage_has_the_phases_of_its_slowest_rank_and_the_last_has_the_loss() {
    let rank = |rank: u32, dur: u64| {
        let mut line = step(rank, 0, 100, dur, Some(10 + u64::from(rank)));
        if let (0..2, Event::Step(step)) = (rank, &mut line.event) {
            (step.samples, step.loss) = (Some(0), None);
        }
        vec![line]
    };
    let steps = job_steps(&[rank(0, 20), rank(1, 22), rank(2, 12), rank(3, 8)], 2);
    let [step] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!((step.dur_ns, step.samples, step.loss, step.sent_bytes), (22, Some(8), Some(2.5), Some(46)));
    let stages = step.stages.iter();
    let stages: Vec<_> = stages
        .map(|it| (it.phases.as_ref().unwrap().forward_ns, it.samples, it.loss, it.sent_bytes))
        .collect();
    assert_eq!(
        stages,
        [(Some(Nanos(11)), Some(0), None, Some(21)), (Some(Nanos(6)), Some(8), Some(2.5), Some(25))]
    );
}

#[test]
fn bytes_that_one_rank_cannot_tell_are_absent_in_the_sum() {
    let steps = job_steps(&[vec![step(0, 0, 1, 1, Some(3))], vec![step(1, 0, 1, 1, None)]], 1);
    assert_eq!(steps[0].sent_bytes, None);
    assert!(job_steps(&[], 1).is_empty());
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
        ([Some(0), Some(3)], (Some(3), Some(1.0))),
    ] {
        let steps = job_steps(&[of(0, samples[0]), of(1, samples[1])], 1);
        assert_eq!((steps[0].samples, steps[0].loss), expected, "{samples:?}");
    }
    for (samples, loss) in [(Some(4), Some(1.0)), (None, Some(1.0)), (Some(0), None)] {
        assert_eq!(job_steps(&[of(1, samples)], 1)[0].loss, loss, "of one rank: {samples:?}");
    }
}
