//! The testbed of a run, with any launcher.

use schema::units::Nanos;

use crate::{
    cluster::ClusterError,
    engine::Engine,
    job::JobRequest,
    journal::Journal,
    launch::{LaunchCluster, ResumePoint, launcher::Launcher},
    policy::Policy,
};

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
