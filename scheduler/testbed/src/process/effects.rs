//! The effects of what happens to launches, on the rig, on checkpoints, and on the events that the cluster receives.

use engine::cluster::{ClusterEvent, JobId, Settled};
use formats::saved::Saved;
use launches::machine::{Effect, Input, Place};
use rig::{Member, SavedSteps, StopMode, cuda_checkpoint, output::note};
use schema::{FORMAT, units::Nanos, wire::Command};

use super::{ProcessLauncher, launch::LaunchState, request::checkpoint_folder};

impl ProcessLauncher {
    /// Gives a launch an input of its life, and carries the effects out.
    pub(super) fn step(&mut self, member: Member, input: Input) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        let effects = launch.step(input);
        effects.into_iter().for_each(|effect| self.carry_out(member, effect));
    }

    fn carry_out(&mut self, member: Member, effect: Effect) {
        match effect {
            Effect::Settled(now) => self.settled(member, now),
            Effect::Grant => self.supply(member),
            Effect::Freeze => self.setup.rig.freeze(member),
            Effect::Thaw => self.thaw(member),
            Effect::Pause => self.command(member, Command::Pause {}),
            Effect::Resume => self.command(member, Command::Resume {}),
            Effect::Save(number) => self.save(member, number),
            Effect::Saved(number) => self.saved(member, number),
            Effect::NotSaved(why) => self.not_saved(member, &why),
            Effect::Move(place) => self.move_memory(member, place),
            Effect::Leave => self.setup.rig.remove(member, StopMode::AtStepBoundary),
            Effect::Kill => self.setup.rig.remove(member, StopMode::Immediately),
        }
    }

    fn settled(&mut self, member: Member, now: Settled) {
        let Some(launch) = self.launches.get(&member) else { return };
        self.events.push_back(ClusterEvent::Settled { job: launch.job, now, steps: launch.work.steps() });
    }

    fn thaw(&mut self, member: Member) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        // The step in which it stood still has no duration of its own.
        launch.work.note_command();
        self.setup.rig.thaw(member);
    }

    fn command(&mut self, member: Member, command: Command) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        launch.work.note_command();
        self.setup.rig.command(member, command);
    }

    fn save(&mut self, member: Member, number: u32) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        if launch.is_command {
            launch.work.note_command();
            return self.setup.rig.save(member);
        }
        let path = self.setup.run.checkpoint_path(&launch.checkpoint(number));
        self.command(member, Command::Checkpoint { path: path.to_string_lossy().into_owned() });
    }

    fn saved(&mut self, member: Member, number: u32) {
        let Some(launch) = self.launches.get(&member) else { return };
        if launch.is_command {
            // Its checkpoint is kept since it was seen.
            return self.plan_to_save(member);
        }
        let (name, job) = (launch.checkpoint(number), launch.job);
        let (launch_steps, steps) = (launch.work.done(), launch.work.steps());
        let saved = Saved { format: FORMAT, name, launch: launch.name.clone(), launch_steps, steps };
        if let Err(error) = self.setup.checkpoints.keep(job, saved) {
            // The job goes on from the one before, and the run not at all.
            self.broken = Some(error);
        }
        self.plan_to_save(member);
    }

    /// A program has saved its work, by itself or on an order. Its job goes on from there.
    pub(super) fn program_saved(&mut self, member: Member, steps: SavedSteps, was_ordered: bool) {
        let Some(launch) = self.launches.get(&member) else { return };
        let before = launch.work.before();
        let steps = match steps {
            SavedSteps::OfJob(steps) => steps,
            SavedSteps::OfLaunch(steps) => before + steps,
        };
        let (job, launch_steps) = (launch.job, steps.saturating_sub(before));
        let (name, launch) = (checkpoint_folder(job), launch.name.clone());
        let saved = Saved { format: FORMAT, name, launch, launch_steps, steps };
        if let Err(error) = self.setup.checkpoints.keep(job, saved) {
            self.broken = Some(error);
        }
        if was_ordered && self.launches.get(&member).is_some_and(LaunchState::is_commanded) {
            self.step(member, Input::Answered(None));
        }
    }

    pub(super) fn not_saved(&mut self, member: Member, why: &str) {
        // Not at once again: it has to rest for each attempt.
        self.plan_to_save(member);
        if let Some(launch) = self.launches.get(&member) {
            note(format_args!("warning: {}: no checkpoint was written: {why}", launch.name));
        }
    }

    fn move_memory(&mut self, member: Member, place: Place) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        match launch.only_process() {
            Ok(pid) => {
                launch.mover = Some(match place {
                    Place::Host => cuda_checkpoint::suspend(pid),
                    Place::Device => cuda_checkpoint::resume(pid),
                });
            }
            Err(why) => self.step(member, Input::Moved(Err(why))),
        }
    }

    /// Sets the time of the next checkpoint of a launch, counted from now.
    pub(super) fn plan_to_save(&mut self, member: Member) {
        let at = self.setup.checkpoint_every.map(|every| Nanos::monotonic_now() + every);
        if let Some(launch) = self.launches.get_mut(&member) {
            launch.save_at = at;
        }
    }

    /// Saves the launches whose time for that has come, and that have done something since.
    pub(super) fn save_what_is_due(&mut self) {
        let now = Nanos::monotonic_now();
        let launches = self.launches.iter();
        let due =
            launches.filter(|(_, launch)| launch.save_at.is_some_and(|at| at <= now) && launch.trains());
        let due: Vec<(Member, JobId)> = due.map(|(member, launch)| (*member, launch.job)).collect();
        for (member, job) in due {
            let saved_steps = self.setup.checkpoints.steps(job);
            let takes_none = self.takes_no_checkpoint(job).is_some();
            let Some(launch) = self.launches.get_mut(&member) else { continue };
            if takes_none || !launch.saves_on_order() {
                launch.save_at = None;
            } else if launch.work.steps() > saved_steps {
                self.step(member, Input::Save);
            }
        }
    }

    pub(super) fn takes_no_checkpoint(&self, job: JobId) -> Option<&'static str> {
        self.setup.asked.get(job.0 as usize)?.takes_no_checkpoint
    }
}
