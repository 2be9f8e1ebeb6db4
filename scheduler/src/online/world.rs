//! The testbed of a run, with any launcher.

use engine::{Engine, cluster::ClusterError, job::JobRequest, journal::Journal, policy::Policy};
use launches::{LaunchCluster, ResumePoint, launcher::Launcher};
use schema::units::Nanos;

/// What a run on a testbed needs beside a launcher.
pub(super) struct World<'a, 'b> {
    pub(super) engine: &'a mut Engine<'b>,
    pub(super) policy: &'a mut dyn Policy,
    pub(super) journal: &'a mut dyn Journal,
    pub(super) asked: &'a [JobRequest],
    pub(super) progress_every: Option<Nanos>,
    pub(super) resume: ResumePoint,
}

impl World<'_, '_> {
    /// Runs until every job has ended, or the run cannot go on. Returns the launcher with the launches that are left.
    pub(super) fn run<L: Launcher>(self, launcher: L) -> (L, Result<(), ClusterError>) {
        let mut testbed = LaunchCluster::new(launcher, self.asked, self.progress_every, self.resume);
        let ended = self.engine.run(&mut testbed, self.policy, self.journal);
        if ended.is_ok() {
            testbed.all_is_written();
        }
        (testbed.into_launcher(), ended)
    }
}
