//! Runs the blocks of a run over its cells and groups, until everything is measured.

mod estimate;
mod ledger;
mod lost;
mod others;
mod recording;
mod remaining;
mod visit;

use anyhow::Context as _;
use cli::table;
use colocate::visit::{VisitRequest, visit_group};
use jobs::launch;
use record::{
    group::Group,
    launch_end::LaunchEnd,
    manifest::{Cell, Manifest},
    rows::{ErrorKind, Measurement, Status, Warning},
    run_dir::RunDir,
};
use rig::{Rig, StopRule, disk, interrupt::Interrupt, measure_alone, output, sampler::Sampler, usage::Scan};
use schema::{catalog::Catalog, device::Device, units::Nanos};

pub use self::estimate::{estimate, fewest_launches};
pub(crate) use self::{ledger::Ledger, lost::Lost};
use self::{others::Others, remaining::Remaining, visit::Seating};
use crate::{
    cores::{self, HostCores},
    derive::Derived,
    order::{self, BlockPosition},
    progress::Progress,
    run_tables,
};

/// A run in progress.
pub struct Blocks<'a> {
    pub run: &'a RunDir,
    pub manifest: &'a Manifest,
    /// The cells of the manifest that are measured by blocks.
    pub cells: &'a [Cell],
    pub groups: &'a [Group],
    pub catalog: &'a Catalog,
    pub rig: &'a mut Rig,
    pub sampler: &'a Sampler,
    pub interrupt: &'a Interrupt,
    pub host_cores: HostCores,
    pub derived: Derived,
    pub(crate) ledger: Ledger,
    /// The number of this part of the run.
    pub(crate) part: u32,
    pub(crate) lost: Lost,
    /// The number of the next launch.
    pub(crate) next_number: usize,
    /// When the command began, which is the start of the budget.
    pub began: Nanos,
}

/// What a run did not measure, and whether the user interrupted it.
#[derive(Clone, Debug, PartialEq)]
pub struct Missing {
    /// The launches that are missing: `cell, block N`, or `group (mode), block N`.
    pub launches: Vec<String>,
    pub interrupted: bool,
}

impl Blocks<'_> {
    /// Measures what is missing, and returns what is still missing at the end.
    pub fn measure(&mut self) -> anyhow::Result<Missing> {
        self.note_rows();
        let progress = Progress::new(self.remaining().launches_left_from(0));
        let mut others = Others::default();
        let mut stopped = None;
        for block in 0.. {
            let positions = self.positions(&self.remaining(), block);
            if positions.is_empty() && block >= self.manifest.settings.repeats {
                break;
            }
            stopped = self.block(block, &positions, &progress, &mut others)?;
            if stopped.is_some() {
                break;
            }
            progress.expect(self.remaining().launches_left_from(block + 1));
        }
        progress.finish();
        others.lines().for_each(output::note);
        Ok(Missing { launches: self.missing_launches(), interrupted: stopped == Some(Stopped::Interrupted) })
    }

    fn block(
        &mut self,
        block: u32,
        positions: &[BlockPosition],
        progress: &Progress,
        others: &mut Others,
    ) -> anyhow::Result<Option<Stopped>> {
        for &position in positions {
            if self.interrupt.asked() {
                return Ok(Some(Stopped::Interrupted));
            }
            if self.budget_is_spent() {
                return Ok(Some(Stopped::Budget));
            }
            // What was found in this block may have made another visit pointless.
            if !self.remaining().wants(position, block) {
                continue;
            }
            progress.begin(&self.name(position));
            let before = Scan::take();
            let rows = self.derived.measurements.len();
            let devices = match position {
                BlockPosition::Cell { cell, .. } => {
                    let cell = &self.cells[cell];
                    self.launch(cell, block)?;
                    cell.devices.clone()
                }
                BlockPosition::Group(group) => self.visit(&self.groups[group], block)?,
            };
            let measured = |row: &&Measurement| row.status != Status::Unsupported;
            let new: Vec<&Measurement> = self.derived.measurements[rows..].iter().filter(measured).collect();
            progress.end(&line(&self.name(position), &new));
            let is_foreign = |row: &&&Measurement| row.warnings.iter().any(|w| w == Warning::Foreign);
            if let Some(row) = new.iter().find(is_foreign)
                && let Some(line) = others.find(&row.launch, &devices, &before)
            {
                progress.say(&line);
            }
        }
        Ok(self.interrupt.asked().then_some(Stopped::Interrupted))
    }

    /// Launches a cell once and adds the launch to the tables.
    fn launch(&mut self, cell: &Cell, block: u32) -> anyhow::Result<()> {
        let number = self.next_number;
        let mut request =
            launch::request(self.run, self.manifest, self.catalog, cell, (number, block), None)?;
        request.spec.part = self.part;
        self.host_cores.of_jobs(&[cell]).into_iter().for_each(|cores| cores::bind(&mut request.spec, cores));
        self.next_number += 1;
        let launch = request.spec.launch.clone();
        let rule = self.stop_rule(cell.command.is_some())?;
        // The cost of sharing to a program without steps is the difference in its run time, so it has to run to its end.
        let to_its_end = !self.groups.is_empty();
        let end = match self.lost.refusal(&cell.devices) {
            Some(why) => lost::refuse(self.run, &request.spec, &why)?,
            None => measure_alone(self.rig, self.sampler, request, rule, to_its_end, self.interrupt),
        };
        self.lost.note(&launch, &cell.devices, &end);
        let is_spoilt = end.err == Some(ErrorKind::DiskFull);
        if let Err(error) = self.sampler.flush() {
            let error = anyhow::Error::from(error);
            self.without_samples(&launch, end, &format!("{error:#}"));
            return Err(error);
        }
        self.derived.add_launch(&launch)?;
        self.note_rows();
        if is_spoilt { Err(disk::full(self.run, &launch)) } else { Ok(()) }
    }

    /// Marks a launch that would have succeeded as failed, because its samples did not fit on the disk.
    fn without_samples(&self, launch: &str, end: LaunchEnd, error: &str) {
        if end.err.is_none() && disk::is_full(error) {
            let message = self.run.relative(error, &self.run.devices_path());
            let message = self.run.relative(&message, &self.run.host_path());
            let end = LaunchEnd { err: Some(ErrorKind::DiskFull), err_detail: Some(message), ..end };
            if let Err(error) = self.run.write_launch_end(launch, &end) {
                output::note(format_args!("warning: {error}"));
            }
        }
    }

    fn note_rows(&mut self) {
        self.ledger.note(self.cells, self.groups, &self.derived.measurements, self.part);
    }

    /// Launches the members of a group once and adds them to the tables; returns their devices.
    fn visit(&mut self, group: &Group, block: u32) -> anyhow::Result<Vec<Device>> {
        let (run, manifest, catalog) = (self.run, self.manifest, self.catalog);
        let numbers = (self.next_number, self.part, block);
        let mut seating = Seating::new(run, manifest, catalog, group, &self.host_cores, numbers)?;
        let has_obeyed = |cell: &Cell| {
            let of_cell = self.cells.iter().position(|other| other.name == cell.name);
            of_cell.is_some_and(|cell| self.ledger.cells[cell].has_obeyed)
        };
        let seats = seating.requests(has_obeyed)?;
        let devices: Vec<Device> = seats.iter().flat_map(|seat| seat.request.spec.devices.clone()).collect();
        let rule = self.stop_rule(seats.iter().all(|seat| seat.outside))?;
        let name = seating.visit.clone();
        let again = &mut |seat| seating.request(seat);
        let visit = match self.lost.refusal(&devices) {
            Some(why) => lost::refuse_all(run, &seats, &why).map_err(anyhow::Error::from),
            None => {
                let asked = VisitRequest { sharing: &group.sharing, seats, again, rule };
                visit_group(self.rig, self.sampler, asked, self.interrupt)
            }
        };
        self.next_number = seating.next;
        let visit = visit?;
        for launch in visit.iter().flat_map(|visit| visit.launches.iter().flatten()) {
            if let Some(end) = run.launch_end(launch)? {
                self.lost.note(launch, &run.spec(launch)?.devices, &end);
            }
        }
        self.sampler.flush()?;
        if let Some(visit) = visit {
            self.run.write_visit(&name, &visit)?;
            let known = self.derived.measurements.len();
            self.derived.add_visit(&name)?;
            self.note_rows();
            let is_spoilt = |row: &&Measurement| row.err == Some(ErrorKind::DiskFull);
            if let Some(row) = self.derived.measurements[known..].iter().find(is_spoilt) {
                return Err(disk::full(self.run, &row.launch));
            }
        }
        Ok(devices)
    }

    fn stop_rule(&self, is_program: bool) -> anyhow::Result<StopRule> {
        let settings = &self.manifest.settings;
        let asked = settings.steps.map(StopRule::Steps).or(settings.seconds.map(StopRule::Seconds));
        let to_its_end = is_program.then_some(StopRule::End);
        asked.or(to_its_end).context("the manifest names neither seconds nor steps")
    }

    fn remaining(&self) -> Remaining<'_> {
        self.remaining_by(&self.ledger)
    }

    fn remaining_by<'a>(&'a self, ledger: &'a Ledger) -> Remaining<'a> {
        let settings = &self.manifest.settings;
        Remaining { settings, cells: self.cells, groups: self.groups, ledger, part: self.part }
    }

    /// What a block is still to come to, in order.
    fn positions(&self, remaining: &Remaining<'_>, block: u32) -> Vec<BlockPosition> {
        let positions = order::of_block(self.cells.len(), self.groups.len(), self.manifest.seed, block);
        positions.into_iter().filter(|&position| remaining.wants(position, block)).collect()
    }

    /// The launches that a resumed run would measure, as far as they are known now.
    pub(crate) fn missing_launches(&self) -> Vec<String> {
        let mut ledger = Ledger::default();
        ledger.note(self.cells, self.groups, &self.derived.measurements, self.part + 1);
        let remaining = self.remaining_by(&ledger);
        if self.manifest.settings.ci_percent.is_some() {
            let of_cell = |cell: usize| format!("{}, until its interval is reached", self.cells[cell].name);
            return remaining.unreached().map(of_cell).collect();
        }
        let of_block = |block| {
            let positions = self.positions(&remaining, block);
            let mut names: Vec<String> = positions.into_iter().map(|position| self.name(position)).collect();
            names.sort();
            names.into_iter().map(move |name| format!("{name}, block {block}"))
        };
        (0..self.manifest.settings.repeats).flat_map(of_block).collect()
    }

    fn name(&self, position: BlockPosition) -> String {
        match position {
            BlockPosition::Cell { cell, .. } => self.cells[cell].name.clone(),
            BlockPosition::Group(group) => {
                format!("{} ({})", self.groups[group].name, self.groups[group].sharing)
            }
        }
    }

    fn budget_is_spent(&self) -> bool {
        let spent = Nanos::monotonic_now().saturating_sub(self.began).as_secs_f64();
        self.manifest.settings.budget_s.is_some_and(|budget| spent >= budget)
    }
}

/// A line about a launch, or all members of a group, for the progress display. It begins with the full name, because launches
/// of all batches and plans of a workload have similar names.
fn line(name: &str, rows: &[&Measurement]) -> String {
    let of_row = |row: &&Measurement| match (row.status, row.step_ns_median) {
        (Status::Ok, Some(ns)) => {
            let step = run_tables::step_and_pace(ns, row.step_ns_mean);
            format!("{step} a step, {} steps used ({})", row.steps_used, row.launch)
        }
        (Status::Ok, None) => {
            format!("ran for {} ({})", table::or_dash(row.wall_ns.map(Nanos)), row.launch)
        }
        _ => row.err_detail.clone().unwrap_or_else(|| "failed".into()),
    };
    match rows {
        [] => format!("{name}: interrupted"),
        _ => format!("{name}: {}", rows.iter().map(of_row).collect::<Vec<_>>().join("; ")),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    Interrupted,
    Budget,
}
