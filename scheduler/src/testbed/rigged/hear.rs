//! What launches say, and what comes of it.

use rig::{Leave, Member, RigEvent};
use schema::{rows::ErrorKind, spec::LaunchEnd, units::Nanos, wire::Event};

use super::{
    super::launcher::{Gone, Told},
    Rigged,
    launch::LOOK_EVERY,
};

impl Rigged {
    pub(super) fn hear(&mut self, event: RigEvent) {
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
                // Its pace is known from now on.
                if launch.done() == 0 {
                    self.site.rig.look_every(member, LOOK_EVERY);
                }
                launch.count(rank, &step);
                self.end_what_is_done(member);
                self.supply(member);
            }
            Event::Held { index } if launch.is_command => {
                launch.has_done(rank, index);
                if rank == 0 {
                    launch.held_at = Some(index);
                    if launch.rests_as_asked() {
                        self.tell(member, Told::Paused);
                    }
                }
                self.end_what_is_done(member);
                self.supply(member);
            }
            Event::Finished { steps, .. } if launch.is_command => launch.has_done(rank, steps),
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
        self.tell(member, Told::Running);
        self.supply(member);
    }

    /// A program of the user's does not know how many steps it was asked for.
    fn end_what_is_done(&mut self, member: Member) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        if launch.is_command && launch.has_done_all() && !launch.is_leaving {
            launch.is_leaving = true;
            self.site.rig.remove(member, Leave::AtBoundary);
        }
    }

    /// Grants a launch so much that it does not wait for us, where nothing else was asked of it.
    pub(super) fn supply(&mut self, member: Member) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        if let Some(steps) = launch.grant() {
            self.site.rig.extend(member, steps);
        }
    }

    fn hear_end(&mut self, member: Member, end: &LaunchEnd) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        launch.is_over = true;
        let stuck_on = if end.err == Some(ErrorKind::Stuck) { launch.devices.clone() } else { Vec::new() };
        self.site.sampler.unwatch(&launch.name);
        let gone = launch.gone(end);
        // What a job does on a disk that is full says nothing of the job, and costs it no retry.
        if let Gone::Failed(..) = gone
            && let Err(error) = self.site.run.check_space()
        {
            self.broken = Some(error);
            return;
        }
        launch.has_finished = gone == Gone::Finished;
        // Before the policy hears that the job has failed, so that it does not start another there.
        stuck_on.into_iter().for_each(|device| self.lose(device));
        self.tell(member, Told::Gone(gone));
    }
}
