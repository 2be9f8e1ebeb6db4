//! Recovery after a scheduler has died: how far each job on devices had come, and from where it resumes.
//!
//! Its processes died with it. Their events are on file, so the steps that have to be repeated are known.

use std::{collections::BTreeMap, slice};

use anyhow::Context as _;
use engine::cluster::{ClusterEvent, JobId};
use formats::{rows::Skip, saved::Saved};
use launches::launcher::came_short;
use record::{manifest::Manifest, rows::ErrorKind, run_dir::RunDir, steps};
use schema::{
    events::{self, EventReader},
    units::Nanos,
};

use super::checkpoints::Checkpoints;

/// A job that was on devices, or waited for those that it was started on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WasPlaced {
    pub job: JobId,
    /// The steps that it asks for.
    pub asked: Option<u64>,
    /// The number of parts of its duration that count as its steps, for a program without steps of its own.
    pub parts: Option<u64>,
    /// The steps that were reported.
    pub told: u64,
    /// The number of earlier starts.
    pub start: u32,
    /// The time of the run at which it was started.
    pub started_at: Nanos,
}

/// What is known of the jobs that were on devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recovered {
    /// Their events, in order: for each job its progress, and then that it has finished, if it had done all steps, or that its launch
    /// has failed.
    pub fates: Vec<ClusterEvent>,
    /// The time of the last event of any of them.
    pub last_word_mono_ns: Option<Nanos>,
}

impl Recovered {
    /// Reads what is on file of jobs that were on devices.
    ///
    /// # Errors
    /// Where files of the run cannot be read.
    pub fn read(
        run: &RunDir,
        manifest: &Manifest,
        (checkpoints, skips): (&Checkpoints, &[Skip]),
        placed: &[WasPlaced],
    ) -> anyhow::Result<Recovered> {
        // A later launch of a job replaces those before.
        let last: BTreeMap<String, RecordedLaunch> =
            launches(run)?.into_iter().map(|launch| (launch.cell.clone(), launch)).collect();
        let mut recovered = Recovered::default();
        for &WasPlaced { job, asked, parts, told, start, started_at } in placed {
            let cell = manifest.cells.get(job.0 as usize);
            let cell = cell.context("a decision names a job that is not in the trace")?;
            // A job that was not launched yet has left nothing: its last launch belongs to an earlier start, which was reported.
            let launch = last.get(&cell.name).filter(|launch| launch.start == start);
            let traces = launch.map(|launch| Traces::read(run, &launch.name)).transpose()?;
            recovered.last_word_mono_ns =
                recovered.last_word_mono_ns.max(traces.as_ref().and_then(|traces| traces.last_mono_ns));
            let (done, has_ended) = done(checkpoints.last(job), traces.as_ref());
            let of_launch = skips_since(skips, job, started_at);
            let done = done + skipped_after(of_launch.clone(), checkpoints.steps(job));
            // The file of a program may have the step that it was granted beyond its last one.
            let done = asked.map_or(done, |asked| done.min(asked));
            // A file may have lost its end with the machine, and nothing is taken back.
            let done = done.max(told);
            let executed = (done - told).saturating_sub(skipped_after(of_launch, told));
            let loss = traces.as_ref().and_then(|traces| traces.loss_of_last(executed));
            // A worker that leaves before its time has failed; a command decides that for itself.
            let is_over = has_ended && cell.command.is_some();
            if let Some(what) = is_over.then(|| came_short(done, asked)).flatten() {
                recovered.fates.push(ClusterEvent::Progress { job, steps: done, loss });
                recovered.fates.push(ClusterEvent::Failed {
                    job,
                    steps: 0,
                    kind: ErrorKind::TooShort,
                    detail: what,
                });
                continue;
            }
            if is_over || asked.is_some_and(|asked| done >= asked) {
                recovered.fates.push(ClusterEvent::Finished { job, steps: parts.unwrap_or(done) });
                continue;
            }
            let steps = checkpoints.steps(job);
            if done > steps {
                recovered.fates.push(ClusterEvent::Progress { job, steps: done, loss });
            }
            let detail = "ended together with the scheduler".to_owned();
            recovered.fates.push(ClusterEvent::Failed { job, steps, kind: ErrorKind::Interrupted, detail });
        }
        Ok(recovered)
    }
}

/// What a launch has left on file.
#[derive(Clone, Debug, PartialEq)]
struct Traces {
    launch: String,
    /// The steps that every rank has reported.
    steps: u64,
    /// Its program has ended without a failure, by itself.
    has_ended: bool,
    last_mono_ns: Option<Nanos>,
    /// The losses of its steps, as far as they have one.
    losses: Vec<(u64, f64)>,
}

impl Traces {
    fn read(run: &RunDir, launch: &str) -> anyhow::Result<Traces> {
        let spec = run.spec(launch)?;
        let (mut steps, mut last_mono_ns) = (None::<u64>, None);
        let mut events = Vec::new();
        for rank in 0..run.ranks(&spec) {
            let mut lines = Vec::new();
            // A rank that was killed before its first word has no file, and what one has said that was killed within a line is all
            // that stands before it.
            if let Ok(mut reader) = EventReader::open(&run.events_path(launch, rank), rank) {
                let _ = reader.poll(&mut lines);
            }
            let done = events::steps_taken(slice::from_ref(&lines));
            steps = Some(steps.map_or(done, |least| least.min(done)));
            last_mono_ns = last_mono_ns.max(lines.iter().map(|line| line.mono_ns).max());
            events.push(lines);
        }
        let end = run.launch_end(launch)?;
        let has_ended = end.is_some_and(|end| end.err.is_none() && end.enough_mono_ns.is_none());
        let losses =
            steps::job_steps(&events, 1).into_iter().filter_map(|step| Some((step.index, step.loss?)));
        let (launch, steps, losses) = (launch.to_owned(), steps.unwrap_or(0), losses.collect());
        Ok(Traces { launch, steps, has_ended, last_mono_ns, losses })
    }

    /// The mean loss of the last steps, this many of them. `None` if none of them had one.
    fn loss_of_last(&self, steps: u64) -> Option<f64> {
        let first = self.steps.saturating_sub(steps);
        let losses = self.losses.iter().filter(|(index, _)| (first..self.steps).contains(index));
        let (sum, number) = losses.fold((0.0, 0_u32), |(sum, number), (_, loss)| (sum + loss, number + 1));
        (number > 0).then(|| sum / f64::from(number)).filter(|mean: &f64| mean.is_finite())
    }
}

/// Steps that a job has done, and whether it had ended. A launch that has not saved itself began with the last checkpoint.
fn done(saved: Option<&Saved>, traces: Option<&Traces>) -> (u64, bool) {
    let before = saved.map_or(0, |saved| saved.steps);
    let Some(traces) = traces else { return (before, false) };
    let saved_itself = saved.filter(|saved| saved.launch == traces.launch);
    let since = traces.steps.saturating_sub(saved_itself.map_or(0, |saved| saved.launch_steps));
    (before + since, traces.has_ended)
}

/// The jumps in which a job trained since it was started at this time of the run. The clock of the host does not tell them apart: it begins
/// anew when the machine does.
fn skips_since(skips: &[Skip], job: JobId, started_at: Nanos) -> impl Iterator<Item = &Skip> + Clone {
    let first = skips.partition_point(|row| row.from_ns < started_at.0);
    skips[first..].iter().filter(move |row| row.job == Some(job))
}

/// The steps that were skipped after a job had done `steps`.
fn skipped_after<'a>(skips: impl Iterator<Item = &'a Skip>, steps: u64) -> u64 {
    skips.filter(|row| row.steps_before >= Some(steps)).filter_map(|row| row.steps).sum()
}

/// The launches that no turn of the journal has started: the scheduler died before it had written their turn. `starts` is the
/// number of starts of each job in the journal.
///
/// # Errors
/// Fails if files of the run cannot be read.
pub fn unrecorded(
    run: &RunDir,
    manifest: &Manifest,
    starts: &BTreeMap<JobId, u32>,
) -> anyhow::Result<Vec<String>> {
    let recorded = manifest.cells.iter().zip((0..).map(JobId));
    let recorded: BTreeMap<&str, u32> =
        recorded.map(|(cell, job)| (&*cell.name, starts.get(&job).copied().unwrap_or(0))).collect();
    let is_recorded =
        |launch: &RecordedLaunch| recorded.get(&*launch.cell).is_some_and(|starts| launch.start < *starts);
    Ok(launches(run)?.into_iter().filter(|launch| !is_recorded(launch)).map(|launch| launch.name).collect())
}

struct RecordedLaunch {
    name: String,
    cell: String,
    /// The number of earlier starts of its job.
    start: u32,
}

/// All launches of a run in the order in which they were started.
fn launches(run: &RunDir) -> anyhow::Result<Vec<RecordedLaunch>> {
    let launch = |name: String| {
        let spec = run.spec(&name)?;
        Ok(RecordedLaunch { name, cell: spec.cell, start: spec.block })
    };
    run.launches()?.into_iter().map(launch).collect()
}

#[cfg(test)]
mod tests {
    use schema::FORMAT;

    use super::*;

    fn saved(launch: &str, launch_steps: u64, steps: u64) -> Saved {
        Saved { format: FORMAT, name: format!("{launch}-1"), launch: launch.into(), launch_steps, steps }
    }

    #[test]
    fn steps_of_a_torn_job_are_those_of_its_checkpoint_and_what_came_after() {
        let traces = |launch: &str, steps| Traces {
            launch: launch.into(),
            steps,
            has_ended: false,
            last_mono_ns: None,
            losses: Vec::new(),
        };
        for (saved, left, steps) in [
            (None, None, 0),
            (None, Some(traces("0001-a", 30)), 30),
            (Some(saved("0001-a", 20, 20)), Some(traces("0001-a", 30)), 30),
            (Some(saved("0003-a", 20, 70)), Some(traces("0003-a", 30)), 80),
            // Its last launch began with the checkpoint of the one before, or had not begun.
            (Some(saved("0001-a", 20, 20)), Some(traces("0003-a", 30)), 50),
            (Some(saved("0001-a", 20, 20)), Some(traces("0003-a", 0)), 20),
            (Some(saved("0001-a", 20, 20)), None, 20),
        ] {
            assert_eq!(done(saved.as_ref(), left.as_ref()), (steps, false), "{saved:?} {left:?}");
        }
    }

    /// The first jump was before the machine was restarted, and its clock with it.
    #[test]
    fn only_what_a_launch_has_skipped_since_its_checkpoint_is_added() {
        let skip = |from_ns, mono_ns, job, before| {
            let (job, steps_before, steps) = (Some(JobId(job)), Some(before), Some(10));
            Skip { job, steps_before, steps, ..Skip::without_job(0, (from_ns, from_ns + 5), mono_ns) }
        };
        let skips = [skip(10, 9_000, 0, 100), skip(20, 40, 0, 50), skip(30, 50, 1, 70), skip(40, 60, 0, 90)];
        let after = |steps| skipped_after(skips_since(&skips, JobId(0), Nanos(20)), steps);
        assert_eq!([0, 60, 91].map(after), [20, 10, 0]);
    }

    #[test]
    fn the_loss_of_a_torn_job_is_that_of_its_steps_since_the_last_report() {
        let losses = vec![(0, 8.0), (1, 4.0), (3, 2.0), (4, 9.0)];
        let traces =
            Traces { launch: "0001-a".into(), steps: 4, has_ended: false, last_mono_ns: None, losses };
        let found = [0, 1, 2, 3, 9].map(|steps| traces.loss_of_last(steps));
        // The third step had no loss, and not all ranks have done the fifth.
        assert_eq!(found, [None, Some(2.0), Some(2.0), Some(3.0), Some(14.0 / 3.0)]);
    }
}
