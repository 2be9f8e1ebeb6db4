//! Launches that take turns on devices that they share, under `step-gate`.
//!
//! A launch takes part from the time at which it is ready to that at which it is to leave, and not while it is paused or saved. It is
//! granted steps as if it were alone while no other takes part, or still runs, on its devices. A launch that is silent during its turn
//! is ended by the rig, so that the others go on. A program that is ended by SIGTERM has no turns and may take steps until it has ended, so
//! that it can save: for at most the grace period of a launch.
//!
//! The events of a launch for whose rest others wait, because it has a turn or is to be held, are read more often.

use schema::units::Nanos;

use super::ProcessLauncher;

impl ProcessLauncher {
    /// Lets launches join and leave, and grants steps to the launches that have a turn. Does nothing in a mode without turns.
    pub(super) fn take_turns(&mut self) {
        let Some(turns) = &mut self.turns else { return };
        for (&member, launch) in &mut self.launches {
            let rests = launch.work.rests();
            if launch.is_over() {
                turns.remove(member);
            } else if launch.takes_part() {
                let devices: Vec<u32> = launch.devices.iter().map(|device| device.0).collect();
                turns.join(member, &devices, 1, rests);
            } else {
                turns.leave(member);
            }
            let left = if rests { turns.rested(member, launch.work.pace()) } else { None };
            if let Some(steps) = left {
                self.setup.rig.extend(member, launch.work.grant_turn(steps));
            }
        }
        for (&member, launch) in &mut self.launches {
            if !turns.contends(member)
                && let Some(steps) = launch.grant()
            {
                turns.run_freely(member);
                self.setup.rig.extend(member, steps);
            }
        }
        while let Some((member, steps)) = turns.begin(|member| self.launches[&member].work.pace()) {
            if let Some(launch) = self.launches.get_mut(&member) {
                self.setup.rig.extend(member, launch.work.grant_turn(steps));
            }
        }
    }

    /// Reads the events of a launch for whose rest others wait more often towards the expected end of its grant. Returns when to
    /// call this again.
    pub(super) fn look_for_rests(&mut self) -> Option<Nanos> {
        let turns = self.turns.as_ref();
        let now = Nanos::monotonic_now();
        let mut again = None;
        for (&member, launch) in self.launches.iter_mut().filter(|(_, launch)| launch.work.done() > 0) {
            let before = launch.work.look;
            let has_rivals = turns.is_some_and(|turns| turns.contends(member));
            again = [again, launch.choose_look(now, has_rivals)].into_iter().flatten().min();
            if launch.work.look != before {
                self.setup.rig.look_every(member, launch.work.look);
            }
        }
        again
    }
}
