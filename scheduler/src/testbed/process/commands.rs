//! Commands to launches that rest, and their answers.

use rig::{Leave, Member, output::note};
use schema::{FORMAT, checkpoint::Saved, rows::ErrorKind, units::Nanos, wire::Command};

use super::{
    super::launcher::LaunchUpdate,
    ProcessLauncher,
    launch::{Launch, LaunchCommand},
};
use crate::cluster::JobId;

impl ProcessLauncher {
    pub(super) fn order(&mut self, member: Member, order: LaunchCommand) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        let command = match &order {
            LaunchCommand::Pause => Command::Pause {},
            LaunchCommand::Resume => Command::Resume {},
            LaunchCommand::Checkpoint { name } => {
                let path = self.setup.run.checkpoint_path(name);
                Command::Checkpoint { path: path.to_string_lossy().into_owned() }
            }
        };
        launch.orders.push_back(order);
        self.setup.rig.command(member, command);
    }

    /// Saves the launches whose time for that has come, and that have done something since.
    pub(super) fn save_what_is_due(&mut self) {
        let now = Nanos::monotonic_now();
        let is_due = |launch: &Launch| launch.save_at.is_some_and(|at| at <= now) && launch.trains();
        let due = self.launches.iter().filter(|(_, launch)| is_due(launch));
        let due: Vec<(Member, JobId)> = due.map(|(member, launch)| (*member, launch.job)).collect();
        for (member, job) in due {
            let saved_steps = self.setup.checkpoints.steps(job);
            let takes_none = self.takes_no_checkpoint(job).is_some();
            let Some(launch) = self.launches.get_mut(&member) else { continue };
            if takes_none {
                launch.save_at = None;
            } else if launch.steps() > saved_steps {
                let name = launch.next_checkpoint();
                self.order(member, LaunchCommand::Checkpoint { name });
            }
        }
    }

    pub(super) fn takes_no_checkpoint(&self, job: JobId) -> Option<&'static str> {
        self.setup.asked.get(job.0 as usize)?.takes_no_checkpoint
    }

    /// A rank has answered the first command of its launch.
    pub(super) fn answered(&mut self, member: Member, refused: Option<String>) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        let Some((order, refused)) = launch.answered(refused) else { return };
        match (order, refused) {
            (LaunchCommand::Pause, None) => self.report(member, LaunchUpdate::Paused),
            (LaunchCommand::Resume, None) => {
                launch.is_held = false;
                self.report(member, LaunchUpdate::Resumed);
            }
            (LaunchCommand::Checkpoint { name }, None) => self.saved(member, name),
            (LaunchCommand::Checkpoint { .. }, Some(why)) if !launch.is_leaving => {
                // Not at once again: it has to rest for each attempt.
                launch.save_at = self.setup.checkpoint_every.map(|every| Nanos::monotonic_now() + every);
                note(format_args!("warning: {}: no checkpoint was written: {why}", launch.name));
            }
            // The engine takes its devices for free, so it cannot stay.
            (order, Some(why)) => {
                launch.failure = Some((ErrorKind::Internal, format!("did not {order}: {why}")));
                self.setup.rig.remove(member, Leave::Now);
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
        if let Err(error) = self.setup.checkpoints.keep(launch.job, saved) {
            // The job goes on from the one before, and the run not at all.
            self.broken = Some(error);
        }
        launch.save_at = self.setup.checkpoint_every.map(|every| Nanos::monotonic_now() + every);
        // A launch that was being saved when it was stopped is saved twice.
        if launch.is_leaving && launch.orders.is_empty() {
            self.setup.rig.remove(member, Leave::AtBoundary);
        }
    }
}
