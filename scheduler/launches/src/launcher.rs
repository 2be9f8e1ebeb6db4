//! The trait between a cluster and what launches its jobs: processes, or simulated launches on a clock that jumps.

use engine::cluster::{ClusterError, ClusterEvent, DeviceId, JobId, Share};
use schema::{plan::Plan, units::Nanos};

/// One launch of a launcher, which chooses the number. No two launches that have not ended have the same. A launcher that gives a number
/// a second time lets [`Launcher::forget`] do nothing, because the number of an ended launch may be in use again by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaunchId(pub u32);

/// Starts launches of jobs and reports what becomes of them. Steps are those of the job in all its launches together.
pub trait Launcher {
    /// On a clock that only goes forward.
    fn now(&self) -> Nanos;

    /// Whether a job could be launched so.
    ///
    /// # Errors
    /// Returns the reason why it cannot.
    fn check(&mut self, start: &StartRequest) -> Result<(), String>;

    /// Whether a start and the jobs that stay on its devices could train beside each other. `staying` lists the jobs that stay beside a
    /// start: those that train on its devices or will train there, in the order of their numbers. Processes can always train beside each
    /// other; a simulation has to know how fast they are.
    ///
    /// # Errors
    /// Returns the reason why they cannot.
    fn check_company(&self, _start: &StartRequest, _staying: &Staying<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Launches a job from its last checkpoint, or anew; it trains as soon as it is ready, and has settled then.
    ///
    /// # Errors
    /// Returns the reason why there is no launch.
    fn start(&mut self, start: &StartRequest) -> Result<LaunchId, String>;

    /// Suspends a launch at the end of a step, in the way of the run. Then it has settled.
    ///
    /// # Errors
    /// Returns the reason why it cannot be held. It trains on.
    fn pause(&mut self, launch: LaunchId) -> Result<(), String>;

    /// Lets a launch train on that was paused. When it does, it has settled.
    fn resume(&mut self, launch: LaunchId);

    /// Ends a launch at the end of a step, with all that it has done saved or not. Then it has settled, finished or failed.
    ///
    /// # Errors
    /// Returns the reason why it cannot be saved. It goes on as before.
    fn stop(&mut self, launch: LaunchId, checkpoint: bool) -> Result<(), String>;

    /// Lets a launch train for this share of the time from now on.
    ///
    /// # Errors
    /// Returns the reason why it cannot be held. It trains on as before.
    fn throttle(&mut self, launch: LaunchId, share: Share) -> Result<(), String>;

    /// Steps that its job has done, as far as is known.
    fn steps(&mut self, launch: LaunchId) -> u64;

    /// The mean training loss of the steps that all ranks of a launch have done since it was last taken. `None` if none of them had a
    /// finite one.
    fn take_loss(&mut self, launch: LaunchId) -> Option<f64>;

    /// Steps that a job's last checkpoint holds; 0 where it has none.
    fn saved_steps(&self, job: JobId) -> u64;

    /// Waits for the next event of a launch or a device, at most to `deadline`. Returns `None` if there was none, and at once if there
    /// is no deadline and no event can come. A device is lost when it has stopped answering; the launches that have it are being
    /// ended, each with an event of its own.
    ///
    /// # Errors
    /// The user wants to stop, or files of the run cannot be written any more.
    fn next(&mut self, deadline: Option<Nanos>) -> Result<Option<ClusterEvent>, ClusterError>;

    /// The end of a launch is written down: it is not asked for any more, nor is the checkpoint of a job that has finished.
    fn forget(&mut self, launch: LaunchId);

    /// It is written down that the policy ended a job. The job is not started again, so that its checkpoint is not needed.
    fn discard(&mut self, job: JobId);
}

/// The jobs that stay beside a start.
pub type Staying<'a> = dyn Fn(&StartRequest) -> Vec<&'a StartRequest> + 'a;

/// One start of a job on devices of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartRequest {
    pub job: JobId,
    /// The number of earlier starts of the job, including those that waited for devices in vain.
    pub number: u32,
    /// In the order of ranks.
    pub devices: Vec<DeviceId>,
    /// Cores of the host for each rank, if the policy chose a number.
    pub cpus: Option<u16>,
    pub plan: Option<Plan>,
    /// The share of the time for which the launch may run.
    pub share: Share,
}

/// Why a program of the user's that ended by itself has not done its steps. A program whose steps are not seen counts as done.
pub fn came_short(done: u64, asked: Option<u64>) -> Option<String> {
    let asked = asked.filter(|asked| (1..*asked).contains(&done))?;
    Some(format!(
        "the program came to its end after {done} of {asked} steps; let the trace name as many as it takes"
    ))
}
