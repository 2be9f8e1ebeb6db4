//! Which checkpoint a job of the scheduler continues from.

use std::fs;

use record::run_dir::RunDir;
use schema::files::{RunError, check_name, read_json, write_json};
use serde::{Deserialize, Serialize};

use crate::decision::JobId;

/// The checkpoint that a job of the scheduler continues from: `checkpoints/job-<number>.json` of its run.
/// It is written when every rank has reported its part to be on disk. After that, the previous checkpoint
/// is deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    pub format: u32,
    /// Path within `checkpoints/`.
    pub name: String,
    /// The launch that wrote it, and the number of its own steps by then.
    pub launch: String,
    pub launch_steps: u64,
    /// Steps of the job, in all launches that led to this checkpoint.
    pub steps: u64,
}

impl Saved {
    /// The record of a job; absent if the job has no checkpoint.
    ///
    /// # Errors
    /// The record cannot be read, or names something outside of its run.
    pub fn read(run: &RunDir, job: JobId) -> Result<Option<Saved>, RunError> {
        let path = run.saved_path(job.0);
        let Some(saved) = path.exists().then(|| read_json::<Saved>(&path)).transpose()? else {
            return Ok(None);
        };
        check_name(&path, &saved.name)?;
        check_name(&path, &saved.launch)?;
        Ok(Some(saved))
    }

    /// Replaces the previous record of a job.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn write(&self, run: &RunDir, job: JobId) -> Result<(), RunError> {
        let folder = run.checkpoints_path();
        fs::create_dir_all(&folder).map_err(|cause| RunError::Write { file: folder, cause })?;
        write_json(&run.saved_path(job.0), self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use schema::FORMAT;

    use super::*;

    proptest! {
        #[test]
        fn a_record_round_trips(steps in any::<u64>()) {
            let dir = tempfile::tempdir().unwrap();
            let run = RunDir::create(&dir.path().join("r")).unwrap();
            prop_assert_eq!(Saved::read(&run, JobId(7)).unwrap(), None);
            let (name, launch) = ("0001-a-2".to_owned(), "0001-a".to_owned());
            let saved = Saved { format: FORMAT, name, launch, launch_steps: steps, steps };
            saved.write(&run, JobId(7)).unwrap();
            prop_assert_eq!(Saved::read(&run, JobId(7)).unwrap(), Some(saved));
        }
    }
}
