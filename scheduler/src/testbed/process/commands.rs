//! Commands to launches that rest, and their answers.

use std::path::Path;

use rig::{Member, StopMode, output::note};
use schema::{FORMAT, checkpoint::Saved, rows::ErrorKind, units::Nanos, wire::Command};

use super::{ProcessLauncher, launch::LaunchState};
use crate::cluster::{JobId, Settled};

impl ProcessLauncher {
    pub(super) fn command(&mut self, member: Member, command: Command) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        launch.note_command(command.clone());
        self.setup.rig.command(member, command);
    }

    pub(super) fn save(&mut self, member: Member) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        let path = self.setup.run.checkpoint_path(&launch.next_checkpoint());
        self.command(member, Command::Checkpoint { path: path.to_string_lossy().into_owned() });
    }

    /// Saves the launches whose time for that has come, and that have done something since.
    pub(super) fn save_what_is_due(&mut self) {
        let now = Nanos::monotonic_now();
        let is_due = |launch: &LaunchState| launch.save_at.is_some_and(|at| at <= now) && launch.trains();
        let due = self.launches.iter().filter(|(_, launch)| is_due(launch));
        let due: Vec<(Member, JobId)> = due.map(|(member, launch)| (*member, launch.job)).collect();
        for (member, job) in due {
            let saved_steps = self.setup.checkpoints.steps(job);
            let takes_none = self.takes_no_checkpoint(job).is_some();
            let Some(launch) = self.launches.get_mut(&member) else { continue };
            if takes_none {
                launch.save_at = None;
            } else if launch.steps() > saved_steps {
                self.save(member);
            }
        }
    }

    pub(super) fn takes_no_checkpoint(&self, job: JobId) -> Option<&'static str> {
        self.setup.asked.get(job.0 as usize)?.takes_no_checkpoint
    }

    /// A rank has answered the first command of its launch.
    pub(super) fn answered(&mut self, member: Member, refused: Option<String>) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        let Some((command, refused)) = launch.answered(refused) else { return };
        match (command, refused) {
            (Command::Pause {}, None) => self.settled(member, Settled::Paused),
            (Command::Resume {}, None) => {
                launch.is_held = false;
                self.settled(member, Settled::Running);
            }
            (Command::Checkpoint { path }, None) => self.saved(member, Path::new(&path)),
            // The rig gives it, and its answer is the end of the launch.
            (Command::Stop {}, None) => {}
            (Command::Checkpoint { .. }, Some(why)) if !launch.is_leaving => {
                // Not at once again: it has to rest for each attempt.
                launch.save_at = self.setup.checkpoint_every.map(|every| Nanos::monotonic_now() + every);
                note(format_args!("warning: {}: no checkpoint was written: {why}", launch.name));
            }
            // The engine takes its devices for free, so it cannot stay.
            (command, Some(why)) => {
                let what = match command {
                    Command::Checkpoint { .. } => "write a checkpoint",
                    _ => command.name(),
                };
                launch.fails_as(ErrorKind::Internal, format!("did not {what}: {why}"));
                self.setup.rig.remove(member, StopMode::Immediately);
                return;
            }
        }
        self.suspend_what_rests(member);
        self.supply(member);
    }

    /// All ranks have said that the disk has a checkpoint, and rest.
    fn saved(&mut self, member: Member, path: &Path) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (launch_steps, steps) = (launch.done(), launch.steps());
        let saved = Saved { format: FORMAT, name, launch: launch.name.clone(), launch_steps, steps };
        if let Err(error) = self.setup.checkpoints.keep(launch.job, saved) {
            // The job goes on from the one before, and the run not at all.
            self.broken = Some(error);
        }
        launch.save_at = self.setup.checkpoint_every.map(|every| Nanos::monotonic_now() + every);
        // A launch that was being saved when it was stopped is saved twice.
        if launch.is_leaving && launch.commands.is_empty() {
            self.setup.rig.remove(member, StopMode::AtStepBoundary);
        }
    }
}
