//! Launches of a testbed on the rig of `profile`: what they are granted and told, and what they have answered.
//!
//! A launch is granted about half a second of work at a time. To be held, paused or saved it is granted no more, and what it was
//! granted it still does, which counts. Ranks answer a command each, and it is done when all have.

mod launch;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use anyhow::Context as _;
use profiler::{
    blocks,
    interrupt::Interrupt,
    plans,
    rig::{LaunchRequest, Leave, Member, Rig, RigEvent},
    sampler::{Sampler, SamplerCost, SamplerError},
};
use schema::{
    FORMAT,
    catalog::{Catalog, Workload},
    checkpoint::Saved,
    device::Device,
    manifest::{Cell, Manifest},
    run_dir::RunDir,
    sharing::Sharing,
    spec::{LaunchEnd, Program},
    units::Nanos,
    wire::{Command, Event},
};

use self::launch::{LOOK_EVERY, Launch, Order};
use super::{
    checkpoints::Checkpoints,
    launcher::{Gone, Launcher, Start, Told},
};
use crate::cluster::{ClusterError, DeviceId, JobId};

/// A look at the interrupt flag and at what is to be saved, at least so often.
const LOOK: Duration = Duration::from_millis(200);

/// What a testbed runs, where, and what watches it.
pub struct Site {
    pub run: RunDir,
    /// Its cells are the jobs, by [`JobId`].
    pub manifest: Manifest,
    pub catalog: Catalog,
    /// By [`DeviceId`].
    pub devices: Vec<Device>,
    /// Steps that each job asks for.
    pub steps: Vec<Option<u64>>,
    /// A launch is saved so long after it began to run or was saved.
    pub checkpoint_every: Option<Nanos>,
    pub checkpoints: Checkpoints,
    pub rig: Rig,
    pub sampler: Sampler,
    pub interrupt: Interrupt,
}

/// Launches as processes.
pub struct Rigged {
    site: Site,
    /// Those that are over, too: their steps are asked for once more.
    launches: BTreeMap<Member, Launch>,
    told: VecDeque<(Member, Told)>,
    /// Launches count up in a run. One that was just asked for has no file yet, so they are counted here.
    next_number: usize,
}

impl Rigged {
    /// # Errors
    /// Where the launches that the run has already cannot be counted.
    pub fn new(site: Site) -> anyhow::Result<Rigged> {
        let next_number = site.run.launches()?.len() + 1;
        // Workers write their checkpoints into a folder that is there.
        std::fs::create_dir_all(site.run.checkpoints_path())
            .with_context(|| site.run.checkpoints_path().display().to_string())?;
        Ok(Rigged { site, launches: BTreeMap::new(), told: VecDeque::new(), next_number })
    }

    /// Ends what is left, saved where that can be, and what watched it; what watching has cost.
    ///
    /// # Errors
    /// Where samples were lost.
    pub fn close(mut self) -> Result<SamplerCost, SamplerError> {
        let left: Vec<Member> =
            self.launches.iter().filter(|(_, launch)| !launch.is_over).map(|(member, _)| *member).collect();
        for member in left {
            if !self.launches[&member].is_leaving && self.stop(member, true).is_err() {
                // What cannot be saved goes on from its last checkpoint, if it has one.
                let _ = self.stop(member, false);
            }
        }
        while self.launches.values().any(|launch| !launch.is_over)
            && let Some(event) = self.site.rig.next(None)
        {
            self.hear(event);
        }
        let Site { rig, sampler, .. } = self.site;
        drop(rig);
        sampler.stop()
    }

    /// What a launch of a job is told.
    fn request(&self, start: &Start) -> anyhow::Result<LaunchRequest> {
        let Site { run, manifest, catalog, .. } = &self.site;
        let cell = self.cell(start)?;
        // The stream of data belongs to the seed: all launches of a job have the same, and no two jobs.
        let mut request =
            blocks::request(run, manifest, catalog, &cell, start.job.0, self.steps_left(start.job))?;
        let spec = &mut request.spec;
        spec.block = start.number;
        spec.launch = blocks::launch_name(self.next_number, &cell);
        spec.sharing = Sharing::TIME_SLICE;
        if let Some(cpus) = start.cpus {
            (spec.threads, spec.threads_named) = (cpus.into(), true);
        }
        if let Program::Training(training) = &mut spec.program {
            training.restore = self.site.checkpoints.place(start.job);
        }
        Ok(request)
    }

    /// The job of a start under its plan, on its devices.
    fn cell(&self, start: &Start) -> anyhow::Result<Cell> {
        let cell = self.site.manifest.cells.get(start.job.0 as usize).context("there is no such job")?;
        let device = |id: &DeviceId| self.site.devices.get(id.0 as usize).cloned();
        let devices =
            start.devices.iter().map(device).collect::<Option<_>>().context("there is no such device")?;
        let plan = start.plan.or(cell.plan);
        let job = match (plan, cell.global_batch) {
            (Some(plan), Some(batch)) => format!("{}@b{batch}@{plan}", cell.workload),
            _ => cell.job.clone(),
        };
        Ok(Cell { devices, plan, job, ..cell.clone() })
    }

    fn workload(&self, job: JobId) -> Option<&Workload> {
        let cell = self.site.manifest.cells.get(job.0 as usize)?;
        self.site.catalog.get(&cell.workload).filter(|_| cell.command.is_none())
    }

    fn steps_left(&self, job: JobId) -> Option<u64> {
        let asked = self.site.steps.get(job.0 as usize).copied().flatten();
        asked.map(|steps| steps.saturating_sub(self.site.checkpoints.steps(job)))
    }

    fn hear(&mut self, event: RigEvent) {
        match event {
            RigEvent::Started { member, rank, pid } => {
                let Some(launch) = self.launches.get_mut(&member) else { return };
                self.site.sampler.watch(&launch.name, rank, pid);
                // Nobody can say of a command when it is ready.
                if launch.is_command && rank == 0 {
                    self.let_go(member);
                }
            }
            RigEvent::Said { member, rank, event, .. } => self.hear_said(member, rank, event),
            RigEvent::Ended { member, end } => self.hear_end(member, &end),
        }
    }

    fn hear_said(&mut self, member: Member, rank: u32, event: Event) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        match event {
            Event::Ready(_) => {
                launch.ready += 1;
                if !launch.is_command && launch.ready == launch.ranks {
                    self.let_go(member);
                }
            }
            Event::Step(step) => {
                launch.count(rank, &step);
                if launch.is_command && launch.has_done_all() && !launch.is_leaving {
                    launch.is_leaving = true;
                    self.site.rig.remove(member, Leave::AtBoundary);
                }
                self.supply(member);
            }
            Event::Held { index } if launch.is_command && rank == 0 => {
                launch.held_at = Some(index);
                if launch.rests_as_asked() {
                    self.told.push_back((member, Told::Paused));
                }
                self.supply(member);
            }
            Event::Paused { .. } | Event::Resumed { .. } | Event::Checkpointed { .. } => {
                self.hear_answer(member, None)
            }
            Event::Refused { error } => self.hear_answer(member, Some(error)),
            Event::Hello(_)
            | Event::Held { .. }
            | Event::Memory(_)
            | Event::Finished { .. }
            | Event::Failed { .. } => {}
        }
    }

    /// A launch is ready: it trains, unless it was told to leave meanwhile.
    fn let_go(&mut self, member: Member) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        launch.is_let_go = true;
        launch.save_at = self.site.checkpoint_every.map(|every| Nanos::monotonic_now() + every);
        self.told.push_back((member, Told::Running));
        self.supply(member);
    }

    /// Grants a launch so much that it does not wait for us, where nothing else was asked of it.
    fn supply(&mut self, member: Member) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        if let Some(steps) = launch.grant() {
            self.site.rig.extend(member, steps);
        }
    }

    /// A rank has answered the first order of its launch.
    fn hear_answer(&mut self, member: Member, refused: Option<String>) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        let Some((order, refused)) = launch.answered(refused) else { return };
        match (order, refused) {
            (Order::Pause, None) => self.told.push_back((member, Told::Paused)),
            (Order::Resume, None) => {
                launch.is_held = false;
                self.told.push_back((member, Told::Resumed));
            }
            (Order::Checkpoint { name }, None) => self.saved(member, name),
            (Order::Checkpoint { .. }, Some(why)) if !launch.is_leaving => {
                eprintln!("warning: {}: no checkpoint was written: {why}", launch.name);
            }
            // It is off its devices as far as others know, so it cannot stay.
            (order, Some(why)) => {
                launch.failure = Some(format!("did not {order}: {why}"));
                self.site.rig.remove(member, Leave::Now);
                return;
            }
        }
        self.supply(member);
    }

    /// All ranks have said that the disk has a checkpoint, and rest.
    fn saved(&mut self, member: Member, name: String) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        let (launch_steps, steps) = (launch.done(), launch.steps());
        let saved = Saved { format: FORMAT, name, launch: launch.name.clone(), launch_steps, steps };
        if let Err(error) = self.site.checkpoints.keep(launch.job, saved) {
            eprintln!("warning: {error}");
        }
        launch.save_at = self.site.checkpoint_every.map(|every| Nanos::monotonic_now() + every);
        // One that was being saved when it was told to leave is saved twice.
        if launch.is_leaving && launch.orders.is_empty() {
            self.site.rig.remove(member, Leave::AtBoundary);
        }
    }

    fn hear_end(&mut self, member: Member, end: &LaunchEnd) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        launch.is_over = true;
        self.site.sampler.unwatch(&launch.name);
        let gone = launch.gone(end);
        if gone == Gone::Finished {
            self.site.checkpoints.forget(launch.job);
        }
        self.told.push_back((member, Told::Gone(gone)));
    }

    fn order(&mut self, member: Member, order: Order) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        let command = match &order {
            Order::Pause => Command::Pause {},
            Order::Resume => Command::Resume {},
            Order::Checkpoint { name } => {
                let path = self.site.run.checkpoint_path(name);
                Command::Checkpoint { path: path.to_string_lossy().into_owned() }
            }
        };
        launch.orders.push_back(order);
        self.site.rig.command(member, command);
    }

    /// Saves the launches whose time for that has come, and that have done something since.
    fn save_what_is_due(&mut self) {
        let now = Nanos::monotonic_now();
        let due = |launch: &&Launch| launch.save_at.is_some_and(|at| at <= now) && launch.trains();
        let due: Vec<JobId> = self.launches.values().filter(due).map(|launch| launch.job).collect();
        for job in due {
            let refuses =
                self.workload(job).is_some_and(|workload| workload.model.refuses_checkpoint().is_some());
            let of_job = |(_, launch): &(&Member, &mut Launch)| launch.job == job && !launch.is_over;
            let Some((&member, launch)) = self.launches.iter_mut().find(of_job) else { continue };
            if refuses || launch.is_command {
                launch.save_at = None;
            } else if launch.steps() > self.site.checkpoints.steps(job) {
                let name = launch.next_checkpoint();
                self.order(member, Order::Checkpoint { name });
            }
        }
    }
}

impl Launcher for Rigged {
    fn now(&self) -> Nanos {
        Nanos::monotonic_now()
    }

    fn check(&self, start: &Start) -> Result<(), String> {
        let cell = self.cell(start).map_err(|error| format!("{error:#}"))?;
        if let (Some(cpus), Some(Device::Cpu(cores))) = (start.cpus, cell.devices.first())
            && usize::from(cpus) > cores.len()
        {
            return Err(format!("{cpus} cores are more than {} has", cell.devices[0]));
        }
        let refusal = match (self.workload(start.job), cell.plan, cell.global_batch) {
            (Some(workload), Some(plan), Some(batch)) => {
                plans::refusal(workload, batch, &plan, &cell.devices)
            }
            _ => None,
        };
        refusal.map_or(Ok(()), Err)
    }

    fn start(&mut self, start: &Start) -> Result<Member, String> {
        let request = self.request(start).map_err(|error| format!("{error:#}"))?;
        self.next_number += 1;
        let before = self.site.checkpoints.steps(start.job);
        let launch = Launch::new(start.job, &request.spec, before, self.steps_left(start.job));
        let member = self.site.rig.add(request);
        self.site.rig.look_every(member, LOOK_EVERY);
        self.launches.insert(member, launch);
        Ok(member)
    }

    fn pause(&mut self, launch: Member) -> Result<(), String> {
        let Some(of) = self.launches.get_mut(&launch) else { return Err("there is no such launch".into()) };
        if !of.is_command {
            of.is_held = true;
            self.order(launch, Order::Pause);
            return Ok(());
        }
        if of.ready == 0 {
            return Err("it is a program that obeys no grant, so nothing can hold it".into());
        }
        of.is_held = true;
        if of.rests_as_asked() {
            self.told.push_back((launch, Told::Paused));
        }
        Ok(())
    }

    fn resume(&mut self, launch: Member) {
        let Some(of) = self.launches.get_mut(&launch) else { return };
        if of.is_command {
            of.is_held = false;
            self.told.push_back((launch, Told::Resumed));
            self.supply(launch);
        } else {
            self.order(launch, Order::Resume);
        }
    }

    fn stop(&mut self, launch: Member, checkpoint: bool) -> Result<(), String> {
        let Some(of) = self.launches.get(&launch) else { return Err("there is no such launch".into()) };
        let is_worth_it = checkpoint && of.is_let_go;
        if is_worth_it {
            if of.is_command {
                return Err("it is a program of the user's, which takes no checkpoint".into());
            }
            let refuses = self.workload(of.job).and_then(|workload| workload.model.refuses_checkpoint());
            refuses.map_or(Ok(()), |why| Err(why.to_owned()))?;
        }
        let Some(of) = self.launches.get_mut(&launch) else { return Ok(()) };
        of.is_leaving = true;
        if is_worth_it {
            let name = of.next_checkpoint();
            self.order(launch, Order::Checkpoint { name });
        } else {
            // Before it is ready nothing is lost, and to wait for that may take long.
            let leave = if of.is_let_go { Leave::AtBoundary } else { Leave::Now };
            self.site.rig.remove(launch, leave);
        }
        Ok(())
    }

    fn steps(&self, launch: Member) -> u64 {
        self.launches.get(&launch).map_or(0, Launch::steps)
    }

    fn saved_steps(&self, job: JobId) -> u64 {
        self.site.checkpoints.steps(job)
    }

    fn next(&mut self, deadline: Option<Nanos>) -> Result<Option<(Member, Told)>, ClusterError> {
        loop {
            if let Some(told) = self.told.pop_front() {
                return Ok(Some(told));
            }
            if self.site.interrupt.asked() {
                return Err(ClusterError::Interrupted);
            }
            self.save_what_is_due();
            let look = Nanos::monotonic_now() + LOOK.into();
            match self.site.rig.next(Some(deadline.map_or(look, |deadline| deadline.min(look)))) {
                Some(event) => self.hear(event),
                None if deadline.is_some_and(|deadline| deadline <= Nanos::monotonic_now()) => {
                    return Ok(None);
                }
                None => {}
            }
        }
    }
}
