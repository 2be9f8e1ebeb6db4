//! Measures the cost of stopping a job and starting it again, part by part, on a real launch.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use jobs::launch;
use rig::{Leave, Member, Rig, RigEvent, Watch};
use schema::{
    calibration::{NotMeasured, RestartRow, Switch},
    catalog::Catalog,
    manifest::{Cell, Manifest},
    run_dir::RunDir,
    spec::{LaunchEnd, Program},
    units::Nanos,
    wire::{Command, Event},
};

use super::{
    limits::{Limits, NO_TIME},
    values::{failed, over_repeats},
};
use crate::{order, progress::Progress};

/// The number of steps before the job is stopped. The first step is slower than the others, and the last one is the one to
/// compare with.
const STEPS: u64 = 4;

/// Restarts of the jobs of a run.
pub(super) struct Restarts<'a> {
    pub(super) run: &'a RunDir,
    pub(super) manifest: &'a Manifest,
    pub(super) catalog: &'a Catalog,
    pub(super) rig: &'a mut Rig,
    pub(super) limits: &'a Limits,
}

/// The time of each part of one restart, and the bytes it moved.
type Parts = BTreeMap<Switch, (Nanos, Option<u64>)>;

/// Why a restart has no numbers.
enum Trouble {
    Failed(String),
    /// The user interrupts the calibration.
    Interrupted,
}

impl Restarts<'_> {
    /// Restarts each job once per block, in an order drawn from the seed. A job that fails is not tried again.
    pub(super) fn measure(mut self, jobs: &[Cell]) -> (Vec<RestartRow>, Vec<NotMeasured>) {
        let repeats = self.manifest.settings.repeats;
        let mut taken: Vec<Vec<Parts>> = vec![Vec::new(); jobs.len()];
        let mut reasons: Vec<Option<String>> = vec![None; jobs.len()];
        let progress = Progress::new(jobs.len() as u64 * u64::from(repeats));
        let visits = (0..repeats).flat_map(|block| {
            let order = order::shuffled(jobs.len(), self.manifest.seed, block);
            order.into_iter().map(move |job| (block, job))
        });
        for (block, job) in visits.collect::<Vec<_>>() {
            if reasons[job].is_some() {
                continue;
            }
            if !self.limits.has_time() {
                reasons[job] = Some(NO_TIME.into());
                continue;
            }
            let what = format!("restart of {}", jobs[job].name);
            progress.begin(&what);
            match self.restart(&jobs[job], block) {
                Ok(parts) => {
                    progress.end(&format!("{what}: {} in all", parts[&Switch::Total].0));
                    taken[job].push(parts);
                }
                Err(Trouble::Failed(reason)) => {
                    progress.end(&format!("{what}: {reason}"));
                    reasons[job] = Some(reason);
                }
                Err(Trouble::Interrupted) => break,
            }
        }
        progress.finish();
        let (mut rows, mut unmeasured) = (Vec::new(), Vec::new());
        for ((job, taken), reason) in jobs.iter().zip(&taken).zip(reasons) {
            let what = format!("restart of {}", job.name);
            if let Some(reason) = reason {
                unmeasured
                    .push(failed(&format!("{what}, after {} of {repeats} repeats", taken.len()), &reason));
            }
            if taken.len() < 2 {
                continue;
            }
            for &part in Switch::ALL {
                match row(job, part, taken) {
                    Some(row) => rows.push(row),
                    None => unmeasured
                        .push(failed(&format!("{what}: {part}"), "fewer than two repeats have a value")),
                }
            }
        }
        (rows, unmeasured)
    }

    /// Trains a few steps, pauses, writes a checkpoint, ends the launch, starts another from the checkpoint and trains one
    /// step.
    fn restart(&mut self, cell: &Cell, block: u32) -> Result<Parts, Trouble> {
        let mut parts = Parts::new();
        let mut job = self.start(cell, block, None)?;
        let checkpoint = job.checkpoint.clone();
        job.watch.rig.extend(job.member, STEPS);
        job.all_say(|event| matches!(event, Event::Held { index: STEPS }).then_some(()))?;
        let last = job.all_say(|event| step(event, STEPS - 1))?;
        parts.insert(Switch::Step, (longest(&last), None));

        job.watch.rig.command(job.member, Command::Pause {});
        let paused = job.all_say(|event| match event {
            Event::Paused { dur_ns, bytes_freed } => Some((*dur_ns, *bytes_freed)),
            _ => None,
        })?;
        parts.insert(Switch::Pause, longest_and_sum(&paused));
        job.watch.rig.command(job.member, Command::Resume {});
        let resumed = job.all_say(|event| match event {
            Event::Resumed { dur_ns } => Some(*dur_ns),
            _ => None,
        })?;
        parts.insert(Switch::Resume, (longest(&resumed), None));

        let ordered = Nanos::monotonic_now();
        let path = checkpoint.to_string_lossy().into_owned();
        job.watch.rig.command(job.member, Command::Checkpoint { path });
        let written = job.all_say(|event| match event {
            Event::Checkpointed { bytes, dur_ns } => Some((*dur_ns, *bytes)),
            _ => None,
        })?;
        parts.insert(Switch::Checkpoint, longest_and_sum(&written));
        let told = Nanos::monotonic_now();
        let end = job.leave()?;
        parts.insert(Switch::Stop, (end.mono_ns.saturating_sub(told), None));

        drop(job);

        let told = Nanos::monotonic_now();
        let mut job = self.start(cell, block, Some(&checkpoint))?;
        let ready = job.all_say(|event| match event {
            Event::Ready(ready) => Some(ready.restore_ns),
            _ => None,
        })?;
        let ready_at = ready.iter().map(|(at, _)| *at).max().unwrap_or(told);
        let restore = ready.iter().filter_map(|(_, restore)| *restore).max();
        let start = ready_at.saturating_sub(told).saturating_sub(restore.unwrap_or_default());
        parts.insert(Switch::Start, (start, None));
        parts.extend(restore.map(|restore| (Switch::Restore, (restore, None))));
        job.watch.rig.extend(job.member, 1);
        let first = job.all_say(|event| step(event, 0))?;
        parts.insert(Switch::FirstStep, (longest(&first), None));
        let ended = first.iter().map(|(at, _)| *at).max().unwrap_or(told);
        parts.insert(Switch::Total, (ended.saturating_sub(ordered), None));
        job.leave()?;
        // No launch continues from this checkpoint any more, and it may be large.
        remove(&checkpoint).map_err(|error| Trouble::Failed(format!("{}: {error}", checkpoint.display())))?;
        Ok(parts)
    }

    /// Starts a launch and waits until it is ready.
    fn start(&mut self, cell: &Cell, block: u32, restore: Option<&Path>) -> Result<Running<'_>, Trouble> {
        let failed = |error: anyhow::Error| Trouble::Failed(format!("{error:#}"));
        let number = self.run.next_number().map_err(|error| failed(error.into()))?;
        let mut request = launch::request(self.run, self.manifest, self.catalog, cell, (number, block), None)
            .map_err(failed)?;
        if let Program::Training(training) = &mut request.spec.program {
            training.restore = restore.map(Path::to_path_buf);
        }
        let checkpoint = self.run.checkpoint_path(&request.spec.launch);
        let folder = checkpoint.parent().unwrap_or(self.run.path());
        fs::create_dir_all(folder).map_err(|e| Trouble::Failed(format!("{}: {e}", folder.display())))?;
        let ranks = request.spec.devices.len() as u32;
        let watch = Watch::new(self.rig, None, &self.limits.interrupt);
        let member = watch.rig.add(request);
        let mut running = Running { watch, member, ranks, checkpoint, said: Vec::new(), is_over: false };
        running.all_say(|event| matches!(event, Event::Ready(_)).then_some(()))?;
        Ok(running)
    }
}

/// A launch that has not ended.
struct Running<'a> {
    watch: Watch<'a>,
    member: Member,
    ranks: u32,
    /// The path that a checkpoint may be written to.
    checkpoint: PathBuf,
    said: Vec<(u32, Nanos, Event)>,
    is_over: bool,
}

impl Drop for Running<'_> {
    /// Ends a launch after an error, so that it does not run beside the next job.
    fn drop(&mut self) {
        if !self.is_over {
            self.watch.rig.remove(self.member, Leave::Now);
            while !matches!(self.watch.next(None), Some(RigEvent::Ended { .. })) {}
        }
    }
}

impl Running<'_> {
    /// Waits until every rank has sent an event that `wanted` accepts. Returns the first of each rank with its time, in the
    /// order of ranks.
    fn all_say<T>(&mut self, wanted: impl Fn(&Event) -> Option<T>) -> Result<Vec<(Nanos, T)>, Trouble> {
        loop {
            let of_rank = |rank| {
                let mut said = self.said.iter().filter(|(of, ..)| *of == rank);
                said.find_map(|(_, at, event)| Some((*at, wanted(event)?)))
            };
            if let Some(all) = (0..self.ranks).map(of_rank).collect() {
                return Ok(all);
            }
            let refused = |(_, _, event): &(u32, Nanos, Event)| match event {
                Event::Refused { error } => Some(Trouble::Failed(format!("refused: {error}"))),
                _ => None,
            };
            if let Some(trouble) = self.said.iter().find_map(refused) {
                return Err(trouble);
            }
            if let Some(end) = self.wait()? {
                let detail = end.err_detail.unwrap_or_else(|| "ended by itself".into());
                return Err(Trouble::Failed(detail));
            }
        }
    }

    /// Lets the job leave at a step boundary, and waits until all of its processes have ended.
    fn leave(&mut self) -> Result<LaunchEnd, Trouble> {
        self.watch.rig.remove(self.member, Leave::AtBoundary);
        loop {
            match self.wait()? {
                Some(LaunchEnd { err: Some(_), err_detail, .. }) => {
                    return Err(Trouble::Failed(err_detail.unwrap_or_default()));
                }
                Some(end) => return Ok(end),
                None => {}
            }
        }
    }

    /// Waits briefly for events and stores them. Returns the launch's end if it has ended.
    fn wait(&mut self) -> Result<Option<LaunchEnd>, Trouble> {
        if self.watch.is_interrupted() {
            return Err(Trouble::Interrupted);
        }
        match self.watch.next(None) {
            Some(RigEvent::Said { rank, at, event, .. }) => self.said.push((rank, at, event)),
            Some(RigEvent::Ended { end, .. }) => {
                self.is_over = true;
                return Ok(Some(end));
            }
            Some(RigEvent::Started { .. }) | None => {}
        }
        Ok(None)
    }
}

/// The duration of step number `index`, if the event is that step.
fn step(event: &Event, index: u64) -> Option<Nanos> {
    match event {
        Event::Step(step) if step.index == index => Some(step.dur_ns),
        _ => None,
    }
}

/// The longest time of a rank.
fn longest(said: &[(Nanos, Nanos)]) -> Nanos {
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
