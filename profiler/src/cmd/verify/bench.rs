//! Launches the cells of a run once each, one after another.

use jobs::run;
use record::{
    launch_end::LaunchEnd,
    manifest::{Cell, Manifest},
    run_dir::RunDir,
};
use rig::{
    EventLoop, LaunchRequest, Rig, StopRule,
    interrupt::Interrupt,
    measure_alone, programs,
    sampler::{Sampler, SamplerCost},
};
use schema::catalog::Catalog;

use crate::{progress::Progress, running::Running};

/// A run of `profile verify`.
pub(super) struct Bench<'a> {
    pub(super) run: &'a RunDir,
    pub(super) manifest: &'a Manifest,
    pub(super) catalog: &'a Catalog,
}

/// Runs launches until they end.
pub(super) struct Launcher {
    rig: Rig,
    sampler: Sampler,
    interrupt: Interrupt,
}

impl Bench<'_> {
    /// Calls `visit` for each cell in the order of the manifest, until it returns `None` or the cells end. Returns the results
    /// and the cost of the sampler. `line` formats a result for the progress display.
    pub(super) fn each_cell<R>(
        &self,
        line: impl Fn(&R) -> String,
        mut visit: impl FnMut(&Cell, &mut Launcher) -> anyhow::Result<Option<R>>,
    ) -> anyhow::Result<(Vec<R>, SamplerCost)> {
        let _lock = run::lock(self.run)?;
        let mut launcher = Launcher {
            interrupt: Interrupt::listen()?,
            sampler: run::start_sampler(self.run, self.manifest)?,
            rig: Rig::new(programs::all()?)?,
        };
        let progress = Progress::new(self.manifest.cells.len() as u64);
        let mut rows = Vec::new();
        for cell in &self.manifest.cells {
            progress.begin(&cell.name);
            let Some(row) = visit(cell, &mut launcher)? else { break };
            progress.end(&line(&row));
            rows.push(row);
        }
        progress.finish();
        let Launcher { rig, sampler, .. } = launcher;
        drop(rig);
        Ok((rows, sampler.stop()?))
    }
}

impl Launcher {
    /// Starts a launch that the caller drives.
    pub(super) fn drive(&mut self, request: LaunchRequest) -> Running<'_> {
        Running::start(EventLoop::new(&mut self.rig, Some(&self.sampler), &self.interrupt), request)
    }

    /// Runs a launch to its end and returns how it ended, or `None` if the user interrupted it.
    pub(super) fn launch(&mut self, request: LaunchRequest) -> Option<LaunchEnd> {
        let end = measure_alone(&mut self.rig, &self.sampler, request, StopRule::End, true, &self.interrupt);
        (!self.interrupt.asked()).then_some(end)
    }
}
