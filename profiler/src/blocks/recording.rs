//! Records the operators of each cell in a launch of its own, after all measured launches.

use std::{fs, path};

use cli::options::HEARTBEAT;
use jobs::launch;
use record::{
    launch_end::LaunchEnd, manifest::Cell, operators, rows::RowError, run_dir::RunDir, steps::read_each,
};
use rig::{StopRule, measure_alone};
use schema::{
    files,
    spec::{LaunchSpec, OperatorSteps},
    wire::Event,
};

use super::{Blocks, Missing};
use crate::{cores, progress::Progress};

/// The steps before the recording. By then, memory has been allocated and code compiled.
const BEFORE: u64 = 10;

/// Why a program without a step hook has no recording.
const NO_HOOK: &str = "the step hook saw no step in it";

impl Blocks<'_> {
    /// Records the operators of the cells whose operators are not on file yet, during `count` steps each. Adds the cells without a
    /// recording to the missing launches.
    pub(crate) fn record_operators(&mut self, count: u32, mut missing: Missing) -> anyhow::Result<Missing> {
        let recorded = recorded_cells(self.run)?;
        let is_left = |cell: &&Cell| cell.unsupported.is_none() && !recorded.contains(&cell.name);
        let left: Vec<&Cell> = self.cells.iter().filter(is_left).collect();
        let progress = Progress::new(left.len() as u64);
        for cell in left {
            let what = format!("{}, operators", cell.name);
            if self.interrupt.asked() || self.budget_is_spent() {
                missing.launches.push(what);
                continue;
            }
            progress.begin(&what);
            match self.record(cell, OperatorSteps { first: BEFORE, count })? {
                Ok(launch) => progress.end(&format!("{what}: {count} steps recorded ({launch})")),
                Err(why) => {
                    progress.end(&format!("{what}: {why}"));
                    missing.launches.push(format!("{what}: {why}"));
                }
            }
            missing.interrupted |= self.interrupt.asked();
        }
        progress.finish();
        Ok(missing)
    }

    /// Launches a cell for a recording. Returns the name of the launch, or why it has no recording.
    fn record(&mut self, cell: &Cell, steps: OperatorSteps) -> anyhow::Result<Result<String, String>> {
        if let Some(why) = self.lost.refusal(&cell.devices) {
            return Ok(Err(why));
        }
        let place = (self.next_number, 0);
        let mut request = launch::request(self.run, self.manifest, self.catalog, cell, place, None)?;
        request.spec.part = self.part;
        request.spec.operators = Some(steps);
        // A program may take too few steps and go on without end.
        request.timeouts.heartbeat = request.timeouts.heartbeat.min(HEARTBEAT);
        self.host_cores.of_jobs(&[cell]).into_iter().for_each(|cores| cores::bind(&mut request.spec, cores));
        self.next_number += 1;
        let spec = request.spec.clone();
        let rule = StopRule::First(steps.end());
        let end = measure_alone(self.rig, self.sampler, request, rule, false, self.interrupt);
        self.lost.note(&spec.launch, &cell.devices, &end);
        self.sampler.flush()?;
        let ranks = self.run.ranks(&spec);
        let paths = || (0..ranks).map(|rank| self.run.recording_path(&spec.launch, rank));
        if ranks == 0 || !paths().all(|path| path.is_file()) {
            return Ok(Err(why_not_recorded(self.run, &spec, &end, steps)));
        }
        for rank in 0..ranks {
            if let Err(error) = keep(self.run, &spec.launch, rank)? {
                return Ok(Err(self
                    .run
                    .relative(&error.to_string(), &self.run.recording_path(&spec.launch, rank))));
            }
        }
        Ok(Ok(spec.launch))
    }
}

/// The names of the cells with a recording.
fn recorded_cells(run: &RunDir) -> anyhow::Result<Vec<String>> {
    let mut cells = Vec::new();
    for launch in run.launches()? {
        let spec = run.spec(&launch)?;
        let ranks = run.ranks(&spec);
        let is_kept = |rank| run.operators_trace_path(&launch, rank).is_file();
        if spec.operators.is_some() && ranks > 0 && (0..ranks).all(is_kept) {
            cells.push(spec.cell);
        }
    }
    Ok(cells)
}

/// Moves the trace of a rank to its place, without the path of the machine that PyTorch writes into it.
///
/// # Errors
/// The outer error is one of writing; the inner one is that of a file which is no trace.
fn keep(run: &RunDir, launch: &str, rank: u32) -> anyhow::Result<Result<(), RowError>> {
    let from = run.recording_path(launch, rank);
    if let Err(error) = operators::read(&from) {
        return Ok(Err(error));
    }
    let to = run.operators_trace_path(launch, rank);
    let text = fs::read_to_string(&from)?.replace(&path::absolute(&from)?.display().to_string(), "");
    fs::create_dir_all(run.operators_folder())?;
    files::replace(&to, &text)?;
    fs::remove_file(&from)?;
    Ok(Ok(()))
}

/// Why a launch has no recording, after it has ended.
fn why_not_recorded(run: &RunDir, spec: &LaunchSpec, end: &LaunchEnd, steps: OperatorSteps) -> String {
    if let Some(detail) = &end.err_detail {
        return detail.clone();
    }
    let events = run.events_path(&spec.launch, 0);
    if !events.is_file() {
        return NO_HOOK.into();
    }
    let mut taken = 0;
    let read = read_each(&events, 0, |line| {
        if let Event::Step(step) = &line.event {
            taken = step.index + 1;
        }
    });
    match taken {
        _ if read.is_err() => "its events cannot be read".into(),
        0 => NO_HOOK.into(),
        taken if taken < steps.end() => {
            format!("it ended after {taken} steps, and a recording of {} needs {}", steps.count, steps.end())
        }
        _ => "PyTorch's profiler recorded nothing; the program may run a profiler of its own".into(),
    }
}
