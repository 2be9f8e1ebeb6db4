//! Lost devices and crashes at scripted times, and the checkpoints from which jobs go on after them.

use engine::cluster::ClusterEvent;
use launches::launcher::LaunchId;
use record::rows::ErrorKind;
use schema::units::Nanos;

use super::{Doing, Scripted, ScriptedLaunch, whole};

impl Scripted<'_> {
    /// The next fault, if none of the launches does anything before, or at the same time as a loss or a crash.
    pub(super) fn next_fault(
        &mut self,
        first: Option<Nanos>,
        deadline: Option<Nanos>,
    ) -> Option<ClusterEvent> {
        let is_within = |at: Nanos| deadline.is_none_or(|deadline| at <= deadline);
        let is_before = |at: Nanos| is_within(at) && first.is_none_or(|first| at < first);
        if let Some((at, launch)) =
            self.fall.pop_front_if(|(at, _)| is_within(*at) && first.is_none_or(|first| *at <= first))
        {
            return Some(self.fail(at, launch, ErrorKind::DeviceLost, "lost its device"));
        }
        let loss = self.losses.front().map(|(at, _)| *at);
        let is_before_loss = |at: Nanos| loss.is_none_or(|loss| at < loss);
        if let Some((at, job)) = self.crashes.pop_front_if(|(at, _)| is_before(*at) && is_before_loss(*at)) {
            let is_it = |launch: &ScriptedLaunch| launch.job == job && launch.doing != Doing::IsGone;
            let place = self.launches.iter().position(is_it).expect("it has a launch that can crash");
            return Some(self.fail(at, LaunchId(place as u32), ErrorKind::Crashed, "crashed"));
        }
        let (at, device) = self.losses.pop_front_if(|(at, _)| is_before(*at))?;
        self.now = self.now.max(at);
        let is_there =
            |launch: &ScriptedLaunch| launch.doing != Doing::IsGone && launch.devices.contains(&device);
        let there = (0..).zip(&self.launches).filter(|(_, launch)| is_there(launch));
        let ends = (1..).map(|nth| at + Nanos(nth * self.falls_for.0));
        self.fall = ends.zip(there.map(|(place, _)| LaunchId(place))).collect();
        Some(ClusterEvent::DeviceLost { device })
    }

    fn fail(&mut self, at: Nanos, launch: LaunchId, kind: ErrorKind, why: &str) -> ClusterEvent {
        self.now = self.now.max(at);
        let steps = whole(self.steps_at(&self.launches[launch.0 as usize]));
        self.cease(launch, steps);
        self.launch(launch).doing = Doing::IsGone;
        let job = self.launches[launch.0 as usize].job;
        let saved = self.saved.get(&job).copied().unwrap_or(0);
        ClusterEvent::Failed { job, steps: saved, kind, detail: why.into() }
    }

    /// Sets the time of the next checkpoint of a launch that begins to train now, or trains on.
    pub(super) fn plan_to_save(&mut self, launch: LaunchId) {
        let (skipped, every) = (self.skipped, self.checkpoint_every);
        let now = self.now + skipped;
        let of = self.launch(launch);
        let began = *of.began.get_or_insert(now);
        of.saves_at = every.map(|every| {
            let intervals = (now - began).0.div_ceil(every.0).max(1);
            began + Nanos(intervals * every.0) - skipped
        });
    }

    /// Saves a launch that trains. The checkpoint itself takes no time: its cost is part of the steps.
    pub(super) fn save(&mut self, launch: LaunchId) {
        let of = &self.launches[launch.0 as usize];
        let (job, steps) = (of.job, whole(self.steps_at(of)));
        let saved = self.saved.entry(job).or_insert(0);
        *saved = steps.max(*saved);
        let next = self.checkpoint_every.map(|every| self.now + every);
        self.launch(launch).saves_at = next;
    }
}
