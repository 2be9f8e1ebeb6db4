//! Launches that are suspended where they are, in the way of the run: held, held with their tensors off the device, or held and moved
//! off the device as a whole.
//!
//! A launch that is to be held is granted no more steps. When it has done those that it was granted, it rests. Its events are then read
//! more often, so that the device does not wait for the harness. How its memory leaves the device is the way of the run:
//!
//! | way | done when it rests | to go on |
//! | --- | --- | --- |
//! | `step-gate` | nothing | a grant |
//! | `pause` | the command to move its tensors; for a command nothing | the command to move them back; a grant |
//! | `cuda-checkpoint` | the program locks its process and moves its memory | the program moves it back; a grant |

use std::time::Duration;

use rig::{
    Member, StopMode,
    cuda_checkpoint::{self, Switching},
};
use schema::{rows::ErrorKind, suspension::Suspension, units::Nanos, wire::Command};

use super::ProcessLauncher;
use crate::cluster::Settled;

/// The interval between looks whether `cuda-checkpoint` has ended.
const LOOK_AT_PROGRAM: Duration = Duration::from_millis(20);

/// Where the memory of a process is that `cuda-checkpoint` can move.
#[derive(Debug, Default)]
pub(super) enum ProcessMemory {
    #[default]
    OnDevice,
    Leaving(Switching),
    OnHost,
    Returning(Switching),
}

impl ProcessLauncher {
    /// Holds a launch at the end of the steps that it was granted.
    pub(super) fn suspend(&mut self, member: Member) -> Result<(), String> {
        let suspension = self.setup.suspension;
        let Some(launch) = self.launches.get_mut(&member) else {
            return Err("there is no such launch".into());
        };
        launch.obeys_grants()?;
        match suspension {
            Suspension::Checkpoint => return Err("jobs of this run are stopped and not paused".into()),
            Suspension::CudaCheckpoint => launch.only_process().map(drop)?,
            Suspension::StepGate | Suspension::Pause => {}
        }
        launch.is_held = true;
        if suspension == Suspension::Pause && !launch.is_command {
            self.command(member, Command::Pause {});
        } else {
            launch.is_coming_to_rest = true;
            self.suspend_what_rests(member);
        }
        Ok(())
    }

    /// Goes on with the suspension of a launch that is to be held, if it rests.
    pub(super) fn suspend_what_rests(&mut self, member: Member) {
        let suspension = self.setup.suspension;
        let Some(launch) = self.launches.get_mut(&member) else { return };
        if !launch.is_coming_to_rest || !launch.has_come_to_rest() {
            return;
        }
        launch.is_coming_to_rest = false;
        if suspension != Suspension::CudaCheckpoint {
            return self.settled(member, Settled::Paused);
        }
        match launch.only_process() {
            Ok(pid) => launch.memory = ProcessMemory::Leaving(cuda_checkpoint::suspend(pid)),
            Err(why) => self.is_unusable(member, why),
        }
    }

    /// Lets a suspended launch train on.
    pub(super) fn go_on(&mut self, member: Member) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        match self.setup.suspension {
            Suspension::Pause if !launch.is_command => self.command(member, Command::Resume {}),
            Suspension::CudaCheckpoint => self.bring_back(member),
            Suspension::StepGate | Suspension::Pause | Suspension::Checkpoint => self.trains_on(member),
        }
    }

    fn trains_on(&mut self, member: Member) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        launch.is_held = false;
        self.settled(member, Settled::Running);
        self.supply(member);
    }

    fn bring_back(&mut self, member: Member) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        match launch.only_process() {
            Ok(pid) => launch.memory = ProcessMemory::Returning(cuda_checkpoint::resume(pid)),
            Err(why) => self.is_unusable(member, why),
        }
    }

    /// Brings the memory of a launch back that is to be saved before it leaves. Returns whether that was needed.
    pub(super) fn bring_back_to_save(&mut self, member: Member) -> bool {
        match self.launches.get(&member).map(|launch| &launch.memory) {
            None | Some(ProcessMemory::OnDevice) => return false,
            Some(ProcessMemory::OnHost) => self.bring_back(member),
            // It goes on when the program has ended.
            Some(ProcessMemory::Leaving(_) | ProcessMemory::Returning(_)) => {}
        }
        true
    }

    /// Goes on with launches for which `cuda-checkpoint` has ended. Returns when to look again, if it runs for one.
    pub(super) fn follow_programs(&mut self) -> Option<Nanos> {
        let mut is_under_way = false;
        let members: Vec<Member> = self.launches.keys().copied().collect();
        for member in members {
            let Some(launch) = self.launches.get_mut(&member).filter(|launch| !launch.is_over) else {
                continue;
            };
            let (switched, is_back) = match &launch.memory {
                ProcessMemory::Leaving(program) => (program.poll(), false),
                ProcessMemory::Returning(program) => (program.poll(), true),
                ProcessMemory::OnDevice | ProcessMemory::OnHost => continue,
            };
            match switched {
                None => is_under_way = true,
                Some(Err(why)) => self.is_unusable(member, why),
                Some(Ok(_)) => {
                    launch.memory = if is_back { ProcessMemory::OnDevice } else { ProcessMemory::OnHost };
                    match (launch.is_leaving, is_back) {
                        // It is saved first, or it would have been ended at once.
                        (true, true) => self.save(member),
                        (true, false) => {
                            self.bring_back(member);
                            is_under_way = true;
                        }
                        (false, true) => self.trains_on(member),
                        (false, false) => self.settled(member, Settled::Paused),
                    }
                }
            }
        }
        is_under_way.then(|| Nanos::monotonic_now() + LOOK_AT_PROGRAM.into())
    }

    /// Ends a launch of which the driver may have lost the memory.
    fn is_unusable(&mut self, member: Member, why: String) {
        let Some(launch) = self.launches.get_mut(&member) else { return };
        launch.memory = ProcessMemory::OnDevice;
        launch.fails_as(ErrorKind::Suspension, format!("could not be suspended or go on: {why}"));
        self.setup.rig.remove(member, StopMode::Immediately);
    }
}
