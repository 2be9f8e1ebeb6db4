//! The launcher that starts processes on the rig: what its launches are granted and commanded, and what they answer.
//!
//! A launch is granted about half a second of work at a time. To be held, paused or saved it is granted no more; it still does the
//! work that it was granted, and that work counts. Each rank answers a command, which is done when all ranks have answered. A policy
//! that takes longer than that half second to decide stalls its launches, because they are granted nothing meanwhile. A warning says
//! so. No heartbeat is missed because of it. A throttled launch is granted less work at a time, and rests in between.

mod effects;
mod host_cores;
mod launch;
mod losses;
mod mean_loss;
mod memory;
mod parts;
mod request;
mod skipping;
mod stall;
mod suspend;
mod throttle;
mod turns;
mod updates;
mod work;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anyhow::Context as _;
use colocate::{
    sharing::{Backend, backend},
    turns::Turns,
};
use engine::{
    cluster::{ClusterError, ClusterEvent, DeviceId, JobId, Share},
    job::JobRequest,
};
use jobs::plans::Estimates;
use launches::{
    launcher::{LaunchId, Launcher, StartRequest},
    machine::Input,
};
use record::{manifest::Manifest, run_dir::RunDir, suspension::Suspension};
use rig::{
    EventLoop, Member, Rig,
    interrupt::Interrupt,
    output::note,
    sampler::{Sampler, SamplerCost, SamplerError},
};
use schema::{catalog::Catalog, device::Device, files::RunError, sharing::Sharing, units::Nanos};

pub use self::{host_cores::HostCores, work::WORK_LEFT};
use self::{launch::LaunchState, stall::Stall, throttle::Throttle, work::TESTBED_AHEAD};
use super::checkpoints::Checkpoints;

/// The jobs and devices of a testbed, with the rig and the sampler that it uses.
pub struct TestbedSetup {
    pub run: RunDir,
    /// Its cells are the jobs, by [`JobId`].
    pub manifest: Manifest,
    pub catalog: Catalog,
    /// By [`DeviceId`].
    pub devices: Vec<Device>,
    /// By [`JobId`].
    pub asked: Vec<JobRequest>,
    /// How launches share a device.
    pub sharing: Sharing,
    /// How launches are suspended.
    pub suspension: Suspension,
    /// The interval between checkpoints of a launch.
    pub checkpoint_every: Option<Nanos>,
    /// Whether the times of steps are kept, for a launcher that skips some.
    pub keeps_steps: bool,
    pub checkpoints: Checkpoints,
    pub estimates: Estimates,
    pub rig: Rig,
    pub sampler: Sampler,
    pub interrupt: Interrupt,
}

/// Launches as processes.
pub struct ProcessLauncher {
    setup: TestbedSetup,
    /// What the sharing mode needs of the machine. A job has one launch at a time, so its number is that of its seat.
    backend: Box<dyn Backend>,
    /// The turns of launches, in a mode that gives turns.
    turns: Option<Turns<Member>>,
    /// All launches, including those that have ended until that is written down.
    launches: BTreeMap<Member, LaunchState>,
    lost: BTreeSet<DeviceId>,
    host_cores: HostCores,
    events: VecDeque<ClusterEvent>,
    /// Launches count up in a run. One that was just asked for has no file yet, so they are counted here.
    next_number: usize,
    stall: Stall,
    /// Why files of the run cannot be written any more, which is no failure of a job.
    broken: Option<RunError>,
}

impl ProcessLauncher {
    /// # Errors
    /// Fails if the launches that the run already has cannot be listed, if the kernel does not report cores, and if the machine lacks
    /// what the sharing mode needs.
    pub fn new(setup: TestbedSetup) -> anyhow::Result<ProcessLauncher> {
        let next_number = setup.run.next_number()?;
        let host_cores = HostCores::beside(&setup.devices)?;
        // Workers write their checkpoints into a folder that is there.
        std::fs::create_dir_all(setup.run.checkpoints_path())
            .with_context(|| setup.run.checkpoints_path().display().to_string())?;
        let mut backend = backend(&setup.sharing, &setup.devices);
        backend.set_up(setup.asked.len())?;
        let turns = match setup.sharing {
            Sharing::StepGate { quantum, .. } => Some(Turns::new(quantum, TESTBED_AHEAD)),
            _ => None,
        };
        let (launches, lost, events) = (BTreeMap::new(), BTreeSet::new(), VecDeque::new());
        Ok(ProcessLauncher {
            setup,
            backend,
            turns,
            launches,
            lost,
            host_cores,
            events,
            next_number,
            stall: Stall::default(),
            broken: None,
        })
    }

    /// Ends the launches that are left, with a checkpoint where possible, and the sampler. Returns what sampling has cost.
    ///
    /// # Errors
    /// Where samples were lost.
    pub fn close(mut self) -> Result<SamplerCost, SamplerError> {
        let left: Vec<Member> =
            self.launches.iter().filter(|(_, launch)| !launch.is_over()).map(|(member, _)| *member).collect();
        // Launches whose memory was moved to the host need room on their devices to be saved, and come last.
        let (moved, others): (Vec<Member>, Vec<Member>) =
            left.into_iter().partition(|member| self.launches[member].is_moved());
        for members in [others, moved] {
            for &member in &members {
                if !self.launches[&member].phase().is_leaving() && self.end(member, true).is_err() {
                    // What cannot be saved goes on from its last checkpoint, if it has one.
                    let _ = self.end(member, false);
                }
            }
            while members.iter().any(|member| !self.launches[member].is_over()) {
                let until = self.follow_programs();
                if let Some(event) = self.event_loop().next(until) {
                    self.receive(event);
                }
            }
        }
        let TestbedSetup { rig, sampler, .. } = self.setup;
        drop(rig);
        if let Err(error) = self.backend.tear_down() {
            note(format_args!("warning: {error:#}"));
        }
        sampler.stop()
    }

    fn event_loop(&mut self) -> EventLoop<'_> {
        let TestbedSetup { rig, sampler, interrupt, .. } = &mut self.setup;
        EventLoop::new(rig, Some(sampler), interrupt)
    }

    fn wait(&mut self, deadline: Option<Nanos>) -> Result<Option<ClusterEvent>, ClusterError> {
        loop {
            self.take_turns();
            let programs = self.follow_programs();
            if let Some(error) = self.broken.take() {
                return Err(ClusterError::Other(error.into()));
            }
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if self.event_loop().is_interrupted() {
                return Err(ClusterError::Interrupted);
            }
            if deadline.is_none() && self.launches.values().all(LaunchState::is_over) {
                return Ok(None);
            }
            if self.notice_losses() {
                continue;
            }
            self.save_what_is_due();
            let until = [deadline, programs, self.supply_throttled(), self.look_for_rests()];
            let until = until.into_iter().flatten().min();
            match self.event_loop().next(until) {
                Some(event) => self.receive(event),
                None if deadline.is_some_and(|deadline| deadline <= Nanos::monotonic_now()) => {
                    return Ok(None);
                }
                None => {}
            }
        }
    }

    /// Ends a launch at the end of a step, with a checkpoint or without.
    ///
    /// # Errors
    /// The reason why it cannot be saved. It goes on as before.
    fn end(&mut self, member: Member, checkpoint: bool) -> Result<(), String> {
        let launch = self.launches.get(&member).ok_or("there is no such launch")?;
        if checkpoint
            && (launch.is_command || launch.phase().has_begun())
            && let Some(why) = self.takes_no_checkpoint(launch.job)
        {
            return Err(format!("it takes no checkpoint: {why}"));
        }
        self.step(member, Input::Stop { checkpoint });
        Ok(())
    }
}

/// The launch of the rig.
fn member(launch: LaunchId) -> Member {
    Member(launch.0)
}

impl Launcher for ProcessLauncher {
    fn now(&self) -> Nanos {
        Nanos::monotonic_now()
    }

    fn check(&mut self, start: &StartRequest) -> Result<(), String> {
        let cell = self.cell(start).map_err(|error| format!("{error:#}"))?;
        if let (Some(cpus), Some(Device::Cpu(cores))) = (start.cpus, cell.devices.first())
            && usize::from(cpus) > cores.len()
        {
            return Err(format!("{cpus} cores are more than {} has", cell.devices[0]));
        }
        self.check_memory(start, &cell)
    }

    fn start(&mut self, start: &StartRequest) -> Result<LaunchId, String> {
        let request = self.request(start).map_err(|error| format!("{error:#}"))?;
        self.next_number += 1;
        let before = self.setup.checkpoints.steps(start.job);
        let (suspension, left) = (self.setup.suspension, self.steps_left(start.job));
        let mut launch = LaunchState::new(start, &request.spec, suspension, before, left);
        launch.memory_bytes = self.memory_bytes(start);
        launch.work.parts = self.parts(start.job);
        launch.work.timed = self.setup.keeps_steps.then(Vec::new);
        let member = self.setup.rig.add(request);
        self.setup.rig.look_every(member, launch.work.look);
        self.launches.insert(member, launch);
        Ok(LaunchId(member.0))
    }

    fn pause(&mut self, launch: LaunchId) -> Result<(), String> {
        self.suspend(member(launch))
    }

    fn resume(&mut self, launch: LaunchId) {
        self.step(member(launch), Input::Resume);
    }

    fn stop(&mut self, launch: LaunchId, checkpoint: bool) -> Result<(), String> {
        self.end(member(launch), checkpoint)
    }

    fn throttle(&mut self, launch: LaunchId, share: Share) -> Result<(), String> {
        let member = member(launch);
        let Some(of) = self.launches.get_mut(&member) else { return Err("there is no such launch".into()) };
        of.obeys_grants()?;
        of.work.throttle = Throttle::of(share);
        self.supply(member);
        Ok(())
    }

    fn steps(&mut self, launch: LaunchId) -> u64 {
        self.launches.get(&member(launch)).map_or(0, |launch| launch.work.steps())
    }

    fn take_loss(&mut self, launch: LaunchId) -> Option<f64> {
        self.launches.get_mut(&member(launch))?.work.loss.take()
    }

    fn saved_steps(&self, job: JobId) -> u64 {
        self.setup.checkpoints.steps(job)
    }

    fn next(&mut self, deadline: Option<Nanos>) -> Result<Option<ClusterEvent>, ClusterError> {
        self.stall.decision_ended(self.launches.values().any(LaunchState::trains));
        let event = self.wait(deadline);
        self.stall.decision_began();
        event
    }

    fn forget(&mut self, launch: LaunchId) {
        if let Some(launch) = self.launches.remove(&member(launch))
            && launch.has_finished
        {
            self.setup.checkpoints.forget(launch.job);
        }
    }

    fn discard(&mut self, job: JobId) {
        self.setup.checkpoints.forget(job);
    }
}
