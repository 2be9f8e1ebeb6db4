//! Measures the cost of suspending a job, and of stopping it and starting it again, part by part, on real launches.

use std::{collections::BTreeMap, fs, io, path::Path};

use jobs::launch;
use record::{
    calibration::{NotMeasured, RestartRow, SuspendRow, Switch},
    manifest::{Cell, Manifest},
    run_dir::RunDir,
    suspension::Suspension,
};
use rig::{EventLoop, Rig};
use schema::{
    catalog::Catalog,
    spec::Program,
    units::Nanos,
    wire::{Command, Event},
};

use super::{
    limits::{Limits, NO_TIME},
    program,
    suspend::{self, Suspended, Ways},
    values::{failed, over_repeats},
};
use crate::{
    order,
    progress::Progress,
    running::{Running, Trouble, step},
};

/// The number of steps before the job is stopped. The first step is slower than the others, and the last one is the one to
/// compare with.
pub(super) const STEPS: u64 = 4;

/// Restarts of the jobs of a run.
pub(super) struct Restarts<'a> {
    pub(super) run: &'a RunDir,
    pub(super) manifest: &'a Manifest,
    pub(super) catalog: &'a Catalog,
    pub(super) rig: &'a mut Rig,
    pub(super) limits: &'a Limits,
}

/// The time of each part of one restart, and the bytes it moved.
pub(super) type Parts = BTreeMap<Switch, (Nanos, Option<u64>)>;

/// What was measured in one restart.
#[derive(Default)]
pub(super) struct Restarted {
    pub(super) parts: Parts,
    pub(super) ways: Ways,
    /// What failed when `cuda-checkpoint` moved the job.
    pub(super) move_failure: Option<String>,
}

/// What was measured of a job so far.
struct MeasuredJob<'a> {
    cell: &'a Cell,
    parts: Vec<Parts>,
    ways: Vec<Ways>,
    /// Why the job is not restarted any more.
    failure: Option<String>,
    /// Why `cuda-checkpoint` does not move it.
    not_moved: Option<String>,
    move_failed: bool,
}

/// What was measured of all jobs.
#[derive(Default)]
pub(super) struct Measurements {
    pub(super) restart: Vec<RestartRow>,
    pub(super) suspend: Vec<SuspendRow>,
    pub(super) not_measured: Vec<NotMeasured>,
}

impl Restarts<'_> {
    /// Restarts each job once per block, in an order drawn from the seed. A job that fails is not tried again.
    pub(super) fn measure(mut self, jobs: &[Cell]) -> Measurements {
        let repeats = self.manifest.settings.repeats;
        let mut measured: Vec<MeasuredJob<'_>> = jobs.iter().map(MeasuredJob::new).collect();
        let progress = Progress::new(jobs.len() as u64 * u64::from(repeats));
        let visits = (0..repeats).flat_map(|block| {
            let order = order::shuffled(jobs.len(), self.manifest.seed, block);
            order.into_iter().map(move |job| (block, job))
        });
        for (block, job) in visits.collect::<Vec<_>>() {
            let job = &mut measured[job];
            if job.failure.is_some() {
                continue;
            }
            if !self.limits.has_time() {
                job.failure = Some(NO_TIME.into());
                continue;
            }
            let what = format!("restart of {}", job.cell.name);
            progress.begin(&what);
            let restarted = match job.cell.command {
                Some(_) => self.restart_program(job.cell, block),
                None => self.restart(job.cell, block, job.not_moved.is_none()),
            };
            match restarted {
                Ok(Restarted { parts, ways, move_failure }) => {
                    progress.end(&format!("{what}: {} in all", parts[&Switch::Total].0));
                    job.parts.push(parts);
                    job.ways.push(ways);
                    job.move_failed |= move_failure.is_some();
                    job.not_moved = job.not_moved.take().or(move_failure);
                }
                Err(Trouble::Failed(reason)) => {
                    progress.end(&format!("{what}: {reason}"));
                    job.failure = Some(reason);
                }
                Err(Trouble::Interrupted) => break,
            }
        }
        progress.finish();
        let mut found = Measurements::default();
        measured.iter().for_each(|job| job.add_to(&mut found, repeats));
        found
    }

    /// Trains a few steps, is held, trains some more, pauses, writes a checkpoint, ends the launch, starts another from the checkpoint
    /// and trains one step. `cuda-checkpoint` comes last, because a launch may not survive it.
    fn restart(&mut self, cell: &Cell, block: u32, moves: bool) -> Result<Restarted, Trouble> {
        let mut parts = Parts::new();
        let mut ways = Ways::new();
        let mut suspended = |way, suspend, resume, bytes| {
            ways.insert(way, Suspended { suspend, resume, bytes });
        };
        let mut job = self.start(cell, block, None)?;
        let checkpoint = job.checkpoint.clone();
        job.event_loop.rig.extend(job.member, STEPS);
        job.all_say(|event| matches!(event, Event::Held { index: STEPS }).then_some(()))?;
        let last = job.all_say(|event| step(event, STEPS - 1))?;
        let step_ns = longest(&last);
        parts.insert(Switch::Step, (step_ns, None));
        let (release, hold) = job.release_and_hold()?;
        parts.extend([(Switch::Release, (release, None)), (Switch::Hold, (hold, None))]);
        suspended(Suspension::StepGate, hold, release, None);

        let ordered = Nanos::monotonic_now();
        job.event_loop.rig.command(job.member, Command::Pause {});
        let paused = job.all_say(|event| match event {
            Event::Paused { dur_ns, bytes_freed } => Some((*dur_ns, *bytes_freed)),
            _ => None,
        })?;
        parts.insert(Switch::Pause, longest_and_sum(&paused));
        let pausing = Nanos::monotonic_now() - ordered;
        parts.insert(Switch::PauseAnswer, (pausing, None));
        let ordered = Nanos::monotonic_now();
        job.event_loop.rig.command(job.member, Command::Resume {});
        let resumed = job.all_say(|event| match event {
            Event::Resumed { dur_ns } => Some(*dur_ns),
            _ => None,
        })?;
        parts.insert(Switch::Resume, (longest(&resumed), None));
        let resuming = Nanos::monotonic_now() - ordered;
        parts.insert(Switch::ResumeAnswer, (resuming, None));
        suspended(Suspension::Pause, hold + pausing, resuming + release, parts[&Switch::Pause].1);

        let ordered = Nanos::monotonic_now();
        let path = checkpoint.to_string_lossy().into_owned();
        job.event_loop.rig.command(job.member, Command::Checkpoint { path });
        let written = job.all_say(|event| match event {
            Event::Checkpointed { bytes, dur_ns } => Some((*dur_ns, *bytes)),
            _ => None,
        })?;
        parts.insert(Switch::Checkpoint, longest_and_sum(&written));
        let answered = Nanos::monotonic_now();
        parts.insert(Switch::CheckpointAnswer, (answered - ordered, None));
        let end = job.leave()?;
        parts.insert(Switch::Stop, (end.mono_ns.saturating_sub(answered), None));
        let stopping = hold + end.mono_ns.saturating_sub(ordered);

        drop(job);

        let launched = Nanos::monotonic_now();
        let mut job = self.start(cell, block, Some(&checkpoint))?;
        let ready = job.all_say(|event| match event {
            Event::Ready(ready) => Some(ready.restore_ns),
            _ => None,
        })?;
        let ready_at = ready.iter().map(|(at, _)| *at).max().unwrap_or(launched);
        let restore = ready.iter().filter_map(|(_, restore)| *restore).max();
        let start = ready_at.saturating_sub(launched).saturating_sub(restore.unwrap_or_default());
        parts.insert(Switch::Start, (start, None));
        parts.extend(restore.map(|restore| (Switch::Restore, (restore, None))));
        job.event_loop.rig.extend(job.member, 1);
        let first = job.all_say(|event| step(event, 0))?;
        let first_ns = longest(&first);
        parts.insert(Switch::FirstStep, (first_ns, None));
        let starting = job.begun(0)?.saturating_sub(launched) + first_ns.saturating_sub(step_ns);
        suspended(Suspension::Checkpoint, stopping, starting, parts[&Switch::Checkpoint].1);
        let ended = first.iter().map(|(at, _)| *at).max().unwrap_or(launched);
        parts.insert(Switch::Total, (ended.saturating_sub(ordered), None));
        let move_failure =
            match cell.devices.first().filter(|_| moves).map(|device| job.move_off_and_back(device)) {
                Some(Ok(moved)) => {
                    parts.extend(moved);
                    None
                }
                Some(Err(Trouble::Failed(why))) => Some(why),
                Some(Err(Trouble::Interrupted)) => return Err(Trouble::Interrupted),
                None => None,
            };
        ways.extend(
            suspend::by_cuda_checkpoint(&parts).map(|suspended| (Suspension::CudaCheckpoint, suspended)),
        );
        match &move_failure {
            None => drop(job.leave()?),
            // It may not be able to leave by itself.
            Some(_) => drop(job),
        }
        // No launch continues from this checkpoint any more, and it may be large.
        remove(&checkpoint).map_err(|error| Trouble::Failed(format!("{}: {error}", checkpoint.display())))?;
        Ok(Restarted { parts, ways, move_failure })
    }

    /// Starts a launch and waits until it is ready.
    fn start(&mut self, cell: &Cell, block: u32, restore: Option<&Path>) -> Result<Running<'_>, Trouble> {
        let mut running = self.launch(cell, block, restore)?;
        running.all_say(|event| matches!(event, Event::Ready(_)).then_some(()))?;
        Ok(running)
    }

    /// Starts a launch.
    pub(super) fn launch(
        &mut self,
        cell: &Cell,
        block: u32,
        restore: Option<&Path>,
    ) -> Result<Running<'_>, Trouble> {
        let failed = |error: anyhow::Error| Trouble::Failed(format!("{error:#}"));
        let number = self.run.next_number().map_err(|error| failed(error.into()))?;
        let mut request = launch::request(self.run, self.manifest, self.catalog, cell, (number, block), None)
            .map_err(failed)?;
        if let Program::Training(training) = &mut request.spec.program {
            training.restore = restore.map(Path::to_path_buf);
        } else if let Some(folder) = restore.and_then(Path::file_name) {
            launch::resume(&mut request.spec, self.catalog, cell, &folder.to_string_lossy());
        }
        let checkpoint = self.run.checkpoint_path(&request.spec.launch);
        let folder = checkpoint.parent().unwrap_or(self.run.path());
        fs::create_dir_all(folder).map_err(|e| Trouble::Failed(format!("{}: {e}", folder.display())))?;
        Ok(Running::start(EventLoop::new(self.rig, None, &self.limits.interrupt), request))
    }
}

impl<'a> MeasuredJob<'a> {
    fn new(cell: &'a Cell) -> MeasuredJob<'a> {
        let (parts, ways) = (Vec::new(), Vec::new());
        let not_moved = suspend::cannot_be_moved(cell);
        MeasuredJob { cell, parts, ways, failure: None, not_moved, move_failed: false }
    }

    /// The rows of the job, and the reasons for those that are missing.
    fn add_to(&self, found: &mut Measurements, repeats: u32) {
        let what = format!("restart of {}", self.cell.name);
        if let Some(reason) = &self.failure {
            let after = format!("{what}, after {} of {repeats} repeats", self.parts.len());
            found.not_measured.push(failed(&after, reason));
        }
        if let Some(reason) = self.not_moved.as_ref().filter(|_| self.move_failed) {
            found.not_measured.push(failed(&format!("cuda-checkpoint of {}", self.cell.name), reason));
        }
        if self.parts.len() < 2 {
            return;
        }
        let is_program = self.cell.command.is_some();
        for &part in if is_program { &program::PARTS } else { Switch::ALL } {
            match row(self.cell, part, &self.parts) {
                Some(row) => found.restart.push(row),
                None if is_program && part == program::PART_OF_CHECKPOINTS => {}
                // The reason is in its row of `suspend`.
                None if suspend::is_of_cuda(part) && self.not_moved.is_some() => {}
                None => {
                    let reason = "fewer than two repeats have a value";
                    found.not_measured.push(failed(&format!("{what}: {part}"), reason));
                }
            }
        }
        let ways = if is_program { &program::WAYS } else { Suspension::ALL };
        found.suspend.extend(suspend::rows(self.cell, ways, &self.ways, self.not_moved.as_deref()));
    }
}

/// The longest time of a rank.
pub(super) fn longest(said: &[(Nanos, Nanos)]) -> Nanos {
    said.iter().map(|(_, dur)| *dur).max().unwrap_or_default()
}

/// The time of the slowest rank, and the bytes of all ranks together.
fn longest_and_sum(said: &[(Nanos, (Nanos, u64))]) -> (Nanos, Option<u64>) {
    let longest = said.iter().map(|(_, (dur, _))| *dur).max().unwrap_or_default();
    (longest, Some(said.iter().map(|(_, (_, bytes))| bytes).sum()))
}

/// Removes a checkpoint, which is a folder, or a file for a worker with little state.
fn remove(checkpoint: &Path) -> io::Result<()> {
    if checkpoint.is_dir() { fs::remove_dir_all(checkpoint) } else { fs::remove_file(checkpoint) }
}

/// The row of one part over all restarts of a job; `None` if fewer than two of them have a value.
fn row(job: &Cell, part: Switch, taken: &[Parts]) -> Option<RestartRow> {
    let of_part: Vec<(Nanos, Option<u64>)> =
        taken.iter().filter_map(|parts| parts.get(&part).copied()).collect();
    let times: Vec<f64> = of_part.iter().map(|(ns, _)| ns.0 as f64).collect();
    Some(RestartRow {
        job: job.job.clone(),
        devices: job.devices.clone(),
        part,
        ns: over_repeats(&times)?,
        bytes: of_part.iter().filter_map(|(_, bytes)| *bytes).max(),
        repeats: of_part.len() as u32,
    })
}
