//! Events of launches, and their effects.

use std::io;

use engine::cluster::ClusterEvent;
use launches::machine::{Input, LaunchPhase};
use record::{launch_end::LaunchEnd, rows::ErrorKind};
use rig::{Member, RigEvent, output::note};
use schema::{files::RunError, units::Nanos, wire::Event};

use super::{
    ProcessLauncher,
    launch::{Begins, LaunchState},
    work::LOOK_EVERY,
};

impl ProcessLauncher {
    pub(super) fn receive(&mut self, event: RigEvent) {
        match event {
            RigEvent::Started { member, rank, pid, .. } => {
                let Some(launch) = self.launches.get_mut(&member) else { return };
                launch.pids.push(pid);
                if rank == 0 && launch.is_command {
                    if launch.begins == Begins::Started {
                        self.begin_training(member);
                    } else if self.turns.is_none() && launch.phase() == LaunchPhase::Starting {
                        // Without a grant the program would rest after its first step until the testbed reads the event.
                        self.grant_first(member);
                    }
                }
            }
            RigEvent::Said { member, rank, at, event } => {
                if let Some(launch) = self.launches.get_mut(&member) {
                    launch.on_event(rank, at, &event);
                    self.receive_event(member, rank, event);
                }
            }
            RigEvent::Saved { member, steps, was_ordered } => self.program_saved(member, steps, was_ordered),
            RigEvent::NotSaved { member, why } => {
                if self.launches.get(&member).is_some_and(LaunchState::is_commanded) {
                    self.step(member, Input::Answered(Some(why)));
                } else {
                    self.not_saved(member, &why);
                }
            }
            RigEvent::Ended { member, end, .. } => self.receive_end(member, &end),
        }
    }

    fn receive_event(&mut self, member: Member, rank: u32, event: Event) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        match event {
            Event::Ready(_) => {
                launch.ready += 1;
                if launch.is_command || launch.ready == launch.ranks {
                    self.begin_training(member);
                }
            }
            Event::Hello(_) if launch.begins == Begins::Heard => self.begin_training(member),
            Event::Step(step) => {
                // Its pace is known from now on.
                if launch.work.done() == 0 {
                    launch.work.look = LOOK_EVERY;
                    self.setup.rig.look_every(member, LOOK_EVERY);
                }
                launch.count(rank, &step);
                self.end_what_is_done(member);
                self.supply(member);
            }
            Event::Held { index } => {
                let is_command = launch.is_command;
                if is_command {
                    launch.work.has_done(rank, index);
                }
                self.step(member, Input::CameToRest);
                if is_command {
                    self.end_what_is_done(member);
                    self.supply(member);
                }
            }
            Event::Finished { steps, .. } if launch.is_command => launch.work.has_done(rank, steps),
            Event::Paused { .. } | Event::Resumed { .. } | Event::Checkpointed { .. } => {
                self.step(member, Input::Answered(None))
            }
            Event::Refused { error } => self.step(member, Input::Answered(Some(error))),
            Event::Hello(_) | Event::Memory(_) | Event::Finished { .. } | Event::Failed { .. } => {}
        }
    }

    /// Grants a program its first steps while it starts.
    fn grant_first(&mut self, member: Member) {
        let first = self.launches.get_mut(&member).and_then(|launch| launch.work.grant());
        if let Some(steps) = first {
            self.setup.rig.extend(member, steps);
        }
    }

    /// A launch is ready. It trains, unless it was stopped meanwhile.
    fn begin_training(&mut self, member: Member) {
        let Some(launch) = self.launches.get(&member) else { return };
        if launch.phase() != LaunchPhase::Starting {
            return;
        }
        if let Err(why) = self.backend.verify(launch.job.0 as usize, &launch.pids) {
            let why = format!("does not share its devices as requested: {why}");
            return self.step(member, Input::Failed(ErrorKind::Sharing, why));
        }
        self.plan_to_save(member);
        self.step(member, Input::Ready);
    }

    /// Ends a program that has done its steps and goes on: one of the user's, or that of a job of which steps were skipped.
    fn end_what_is_done(&mut self, member: Member) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        if launch.work.has_to_be_ended() {
            self.step(member, Input::Stop { checkpoint: false });
        }
    }

    /// Extends the grant of a launch before it runs out of work, unless it is to rest.
    pub(super) fn supply(&mut self, member: Member) {
        if self.turns.is_some() {
            return self.take_turns();
        }
        let Some(launch) = self.launches.get_mut(&member) else { return };
        if let Some(steps) = launch.grant() {
            self.setup.rig.extend(member, steps);
        }
    }

    /// Supplies the throttled launches whose next work is due. Returns when the first of the others is.
    pub(super) fn supply_throttled(&mut self) -> Option<Nanos> {
        let now = Nanos::monotonic_now();
        let is_due = |launch: &LaunchState| launch.next_burst_at().is_some_and(|at| at <= now);
        let due = self.launches.iter().filter(|(_, launch)| is_due(launch)).map(|(member, _)| *member);
        due.collect::<Vec<_>>().into_iter().for_each(|member| self.supply(member));
        self.launches.values().filter_map(LaunchState::next_burst_at).min()
    }

    fn receive_end(&mut self, member: Member, end: &LaunchEnd) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        if let Some(grace) = end.killed_after.filter(|_| launch.is_command) {
            let (name, what) = (&launch.name, "and was killed: what it had not saved is lost");
            note(format_args!("warning: {name} did not end within {grace} of SIGTERM, {what}"));
        }
        if launch.is_command && launch.phase() == LaunchPhase::Starting && end.err.is_none() {
            let name = &launch.name;
            note(format_args!(
                "warning: {name} ended, and none of its steps was seen: all of its time counts as its start"
            ));
        }
        let stuck_on = if end.err == Some(ErrorKind::Stuck) { launch.devices.clone() } else { Vec::new() };
        let happened = launch.ended(end, self.setup.checkpoints.steps(launch.job));
        launch.step(Input::Exited);
        // What a job does on a disk that is full says nothing of the job, and costs it no retry. Other files may have left some
        // space since.
        let full = match &happened {
            ClusterEvent::Failed { kind: ErrorKind::DiskFull, detail, .. } => {
                let cause = io::Error::new(io::ErrorKind::StorageFull, detail.clone());
                Some(RunError::Write { file: self.setup.run.path().to_path_buf(), cause })
            }
            ClusterEvent::Failed { .. } => self.setup.run.check_space().err(),
            _ => None,
        };
        if full.is_some() {
            self.broken = full;
            return;
        }
        launch.has_finished = matches!(happened, ClusterEvent::Finished { .. });
        // First, so that the policy does not start another job there when it receives the failure.
        stuck_on.into_iter().for_each(|device| self.lose(device));
        self.events.push_back(happened);
    }
}
