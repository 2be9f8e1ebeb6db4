//! Which checkpoint each job goes on from. There is one a job, and it is replaced when the next is whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use rig::output::note;
use schema::{
    checkpoint::Saved,
    run_dir::{RunDir, RunError},
};

use crate::cluster::JobId;

pub struct Checkpoints {
    run: RunDir,
    last: BTreeMap<JobId, Saved>,
}

impl Checkpoints {
    /// The checkpoints of a run of `jobs` jobs. Incomplete ones that a kill has left are removed.
    ///
    /// # Errors
    /// Where the records cannot be read.
    pub fn open(run: &RunDir, jobs: u32) -> Result<Checkpoints, RunError> {
        let mut last = BTreeMap::new();
        for job in (0..jobs).map(JobId) {
            last.extend(run.saved(job)?.map(|saved| (job, saved)));
        }
        let checkpoints = Checkpoints { run: run.clone(), last };
        checkpoints.sweep();
        Ok(checkpoints)
    }

    /// The last one of a job.
    pub fn last(&self, job: JobId) -> Option<&Saved> {
        self.last.get(&job)
    }

    /// Where a job goes on from.
    pub fn place(&self, job: JobId) -> Option<PathBuf> {
        self.last(job).map(|saved| self.run.checkpoint_path(&saved.name))
    }

    /// Steps that the last one of a job holds; 0 where there is none.
    pub fn steps(&self, job: JobId) -> u64 {
        self.last(job).map_or(0, |saved| saved.steps)
    }

    /// From now on a job goes on from this one, which is whole. The one before is removed.
    ///
    /// # Errors
    /// Where that cannot be written down. Then the job goes on from the one before.
    pub fn keep(&mut self, job: JobId, saved: Saved) -> Result<(), RunError> {
        self.run.write_saved(job, &saved)?;
        if let Some(before) = self.last.insert(job, saved) {
            remove(&self.run.checkpoint_path(&before.name));
        }
        Ok(())
    }

    /// Removes the checkpoint of a job that has ended, which may be large.
    pub fn forget(&mut self, job: JobId) {
        if let Some(saved) = self.last.remove(&job) {
            remove(&self.run.saved_path(job));
            remove(&self.run.checkpoint_path(&saved.name));
        }
    }

    /// Removes what no record names: a checkpoint that was not whole, or was not yet or no longer the last one.
    fn sweep(&self) {
        let named = |saved: &Saved| self.run.checkpoint_path(&saved.name);
        let records = self.last.keys().map(|job| self.run.saved_path(*job));
        let kept: BTreeSet<PathBuf> = self.last.values().map(named).chain(records).collect();
        let Ok(entries) = fs::read_dir(self.run.checkpoints_path()) else { return };
        let others = entries.flatten().map(|entry| entry.path()).filter(|path| !kept.contains(path));
        others.for_each(|path| remove(&path));
    }
}

/// Removes a checkpoint, which is a folder or, of a worker with little to save, a file. One that stays costs room alone.
fn remove(path: &Path) {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            note(format_args!("warning: {}: {error}", path.display()));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use schema::FORMAT;

    use super::*;

    fn names(run: &RunDir) -> Vec<String> {
        let entries = fs::read_dir(run.checkpoints_path()).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    fn written(run: &RunDir, name: &str, steps: u64) -> Saved {
        fs::create_dir_all(run.checkpoint_path(name)).unwrap();
        fs::write(run.checkpoint_path(name).join("manifest.toml"), "").unwrap();
        let (name, launch) = (name.to_owned(), "0001-a".to_owned());
        Saved { format: FORMAT, name, launch, launch_steps: steps, steps }
    }

    #[test]
    fn a_job_has_one_checkpoint_and_what_a_kill_leaves_beside_it_goes() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::create(&dir.path().join("r")).unwrap();
        let (job, other) = (JobId(3), JobId(0));
        let mut checkpoints = Checkpoints::open(&run, 4).unwrap();
        assert_eq!((checkpoints.steps(job), checkpoints.place(job)), (0, None));

        checkpoints.keep(job, written(&run, "0001-a-1", 7)).unwrap();
        checkpoints.keep(job, written(&run, "0001-a-2", 9)).unwrap();
        checkpoints.keep(other, written(&run, "0002-b-1", 1)).unwrap();
        assert_eq!(names(&run), ["0001-a-2", "0002-b-1", "job-0000.json", "job-0003.json"]);

        // Killed after the checkpoint was whole and before it was written down; and within another.
        written(&run, "0001-a-3", 11);
        written(&run, "0002-b-2.unfinished", 3);
        let mut checkpoints = Checkpoints::open(&run, 4).unwrap();
        assert_eq!(checkpoints.steps(job), 9);
        assert_eq!(checkpoints.place(job), Some(run.checkpoint_path("0001-a-2")));
        assert_eq!(names(&run), ["0001-a-2", "0002-b-1", "job-0000.json", "job-0003.json"]);
        checkpoints.forget(job);
        checkpoints.forget(job);
        assert_eq!(
            (names(&run), checkpoints.steps(job)),
            (vec!["0002-b-1".into(), "job-0000.json".into()], 0)
        );
    }
}
