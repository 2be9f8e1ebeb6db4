//! Launches that are suspended where they are, in the way of the run: held, held with their tensors off the device, or held and moved
//! off the device as a whole. A program of the user's that obeys no grant is frozen instead: all its processes are stopped.
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

use launches::machine::Input;
use record::suspension::Suspension;
use rig::Member;
use schema::units::Nanos;

use super::ProcessLauncher;

/// The interval between looks whether `cuda-checkpoint` has ended.
const LOOK_AT_PROGRAM: Duration = Duration::from_millis(20);

impl ProcessLauncher {
    /// Holds a launch at the end of the steps that it was granted, or freezes it.
    ///
    /// # Errors
    /// The reason why it cannot be held in the way of the run. It trains on.
    pub(super) fn suspend(&mut self, member: Member) -> Result<(), String> {
        let launch = self.launches.get(&member).ok_or("there is no such launch")?;
        let obeys_grants = launch.obeys_grants();
        let input = match self.setup.suspension {
            Suspension::Checkpoint => return Err("jobs of this run are stopped and not paused".into()),
            Suspension::CudaCheckpoint => {
                obeys_grants?;
                launch.only_process()?;
                Input::Suspend
            }
            Suspension::StepGate | Suspension::Pause if obeys_grants.is_err() => Input::Freeze,
            Suspension::StepGate | Suspension::Pause => Input::Suspend,
        };
        self.step(member, input);
        Ok(())
    }

    /// Goes on with launches for which `cuda-checkpoint` has ended. Returns when to look again, if it runs for one.
    pub(super) fn follow_programs(&mut self) -> Option<Nanos> {
        let ended = self.launches.iter_mut().filter_map(|(member, launch)| {
            let ended = launch.mover.as_ref()?.poll()?;
            launch.mover = None;
            Some((*member, ended.map(drop)))
        });
        let ended: Vec<(Member, Result<(), String>)> = ended.collect();
        ended.into_iter().for_each(|(member, ended)| self.step(member, Input::Moved(ended)));
        let is_under_way = self.launches.values().any(|launch| launch.mover.is_some());
        is_under_way.then(|| Nanos::monotonic_now() + LOOK_AT_PROGRAM.into())
    }
}
