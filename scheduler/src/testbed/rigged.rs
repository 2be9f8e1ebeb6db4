//! Launches of a testbed on the rig of `profile`: what they are granted and told, and what they have answered.
//!
//! A launch is granted about half a second of work at a time. To be held, paused or saved it is granted no more, and what it was
//! granted it still does, which counts. Ranks answer a command each, and it is done when all have. A policy that takes longer to
//! decide than that half second holds launches up: nobody grants them more meanwhile, which is told. No heartbeat is late for it.

mod hear;
mod late;
mod launch;
mod losses;
mod orders;
mod request;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use anyhow::Context as _;
use profiler::plans;
use rig::{
    Leave, Member, Rig,
    interrupt::Interrupt,
    sampler::{Sampler, SamplerCost, SamplerError},
};
use schema::{
    catalog::Catalog,
    device::Device,
    manifest::Manifest,
    run_dir::{RunDir, RunError},
    units::Nanos,
};

pub use self::launch::WORK_LEFT;
use self::{
    late::Away,
    launch::{LOOK_AT_FIRST, LOOK_EVERY, Launch, Order},
};
use super::{
    checkpoints::Checkpoints,
    launcher::{Launcher, News, Start, Told},
};
use crate::{
    cluster::{ClusterError, DeviceId, JobId},
    job::Asked,
};

/// A look at the interrupt flag, at what is to be saved and at lost devices, at least so often.
const LOOK: Duration = Duration::from_millis(200);

/// What a testbed runs, where, and what watches it.
pub struct Site {
    pub run: RunDir,
    /// Its cells are the jobs, by [`JobId`].
    pub manifest: Manifest,
    pub catalog: Catalog,
    /// By [`DeviceId`].
    pub devices: Vec<Device>,
    /// By [`JobId`].
    pub asked: Vec<Asked>,
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
    /// Those that are over, too, until that is written down.
    launches: BTreeMap<Member, Launch>,
    lost: BTreeSet<DeviceId>,
    news: VecDeque<News>,
    /// Launches count up in a run. One that was just asked for has no file yet, so they are counted here.
    next_number: usize,
    away: Away,
    /// Why files of the run cannot be written any more, which is no failure of a job.
    broken: Option<RunError>,
}

impl Rigged {
    /// # Errors
    /// Where the launches that the run has already cannot be counted.
    pub fn new(site: Site) -> anyhow::Result<Rigged> {
        let next_number = site.run.launches()?.len() + 1;
        // Workers write their checkpoints into a folder that is there.
        std::fs::create_dir_all(site.run.checkpoints_path())
            .with_context(|| site.run.checkpoints_path().display().to_string())?;
        let (launches, lost, news) = (BTreeMap::new(), BTreeSet::new(), VecDeque::new());
        Ok(Rigged { site, launches, lost, news, next_number, away: Away::default(), broken: None })
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

    fn wait(&mut self, deadline: Option<Nanos>) -> Result<Option<News>, ClusterError> {
        loop {
            if let Some(error) = self.broken.take() {
                return Err(ClusterError::Other(error.into()));
            }
            if let Some(news) = self.news.pop_front() {
                return Ok(Some(news));
            }
            if self.site.interrupt.asked() {
                return Err(ClusterError::Interrupted);
            }
            if self.notice_losses() {
                continue;
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

    fn tell(&mut self, launch: Member, told: Told) {
        self.news.push_back(News::Launch(launch, told));
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
        let launch = Launch::new(start, &request.spec, before, self.steps_left(start.job));
        let member = self.site.rig.add(request);
        // Of a command nobody knows whether it ever tells of a step.
        self.site.rig.look_every(member, if launch.is_command { LOOK_EVERY } else { LOOK_AT_FIRST });
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
            self.tell(launch, Told::Paused);
        }
        Ok(())
    }

    fn resume(&mut self, launch: Member) {
        let Some(of) = self.launches.get_mut(&launch) else { return };
        if of.is_command {
            of.is_held = false;
            self.tell(launch, Told::Resumed);
            self.supply(launch);
        } else {
            self.order(launch, Order::Resume);
        }
    }

    fn stop(&mut self, launch: Member, checkpoint: bool) -> Result<(), String> {
        let Some(of) = self.launches.get(&launch) else { return Err("there is no such launch".into()) };
        let is_worth_it = checkpoint && of.is_let_go;
        if let Some(why) = self.takes_no_checkpoint(of.job).filter(|_| is_worth_it) {
            return Err(format!("it takes no checkpoint: {why}"));
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

    fn next(&mut self, deadline: Option<Nanos>) -> Result<Option<News>, ClusterError> {
        self.comes_back();
        let news = self.wait(deadline);
        self.goes_away();
        news
    }

    fn forget(&mut self, launch: Member) {
        if let Some(launch) = self.launches.remove(&launch)
            && launch.has_finished
        {
            self.site.checkpoints.forget(launch.job);
        }
    }
}
