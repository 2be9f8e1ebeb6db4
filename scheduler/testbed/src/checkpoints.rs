//! Which checkpoint each job goes on from. There is one a job, and it is replaced when the next is whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use engine::cluster::JobId;
use formats::saved::Saved;
use record::run_dir::RunDir;
use rig::output::note;
use schema::files::RunError;

pub struct Checkpoints {
    run: RunDir,
    last: BTreeMap<JobId, Saved>,
}

impl Checkpoints {
    /// The checkpoints of a run of `jobs` jobs. Those that no job goes on from, which a kill leaves, are removed.
    ///
    /// # Errors
    /// The folder of the checkpoints is a link, or the records or the names of the launches cannot be read.
    pub fn open(run: &RunDir, jobs: u32) -> Result<Checkpoints, RunError> {
        let mut last = BTreeMap::new();
        for job in (0..jobs).map(JobId) {
            last.extend(Saved::read(run, job)?.map(|saved| (job, saved)));
        }
        let checkpoints = Checkpoints { run: run.clone(), last };
        checkpoints.sweep()?;
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
        saved.write(&self.run, job)?;
        if let Some(before) = self.last.insert(job, saved) {
            self.remove(&before);
        }
        Ok(())
    }

    /// Removes the checkpoint of a job that has ended, which may be large.
    pub fn forget(&mut self, job: JobId) {
        if let Some(saved) = self.last.remove(&job) {
            remove(&self.run.saved_path(job.0));
            self.remove(&saved);
        }
    }

    /// Removes a checkpoint if its launch wrote it. A record of another name was not written by this program.
    fn remove(&self, saved: &Saved) {
        if launch_of(&saved.name) == Some(&saved.launch) {
            remove(&self.run.checkpoint_path(&saved.name));
        }
    }

    /// Removes checkpoints that launches of this run wrote and no record names: incomplete ones, and those that were not yet or no
    /// longer the last of their job. The folder may hold files of the user, which stay.
    fn sweep(&self) -> Result<(), RunError> {
        let folder = self.run.checkpoints_path();
        let Ok(entries) = fs::read_dir(&folder) else { return Ok(()) };
        let launches: BTreeSet<String> = self.run.launches()?.into_iter().collect();
        let kept: BTreeSet<&str> = self.last.values().map(|saved| &*saved.name).collect();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let launch = name.to_str().filter(|name| !kept.contains(name)).and_then(launch_of);
            if launch.is_some_and(|launch| launches.contains(launch)) {
                remove(&entry.path());
            }
        }
        Ok(())
    }
}

/// The launch that wrote the checkpoint of this name, complete or not: `0007-lstm` for `0007-lstm-2` and `0007-lstm-2.unfinished`.
/// `None` if no checkpoint has such a name.
fn launch_of(name: &str) -> Option<&str> {
    let (launch, save) = name.strip_suffix(".unfinished").unwrap_or(name).rsplit_once('-')?;
    save.parse::<u64>().is_ok().then_some(launch)
}

/// Removes a checkpoint, which is a folder or, of a worker with little to save, a file. One that stays costs room alone.
fn remove(path: &Path) {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    let removed = if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            note(format_args!("warning: {}: {error}", path.display()));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

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
        for launch in ["0001-a", "0002-b"] {
            fs::write(run.spec_path(launch), "").unwrap();
        }
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

    #[test]
    fn files_of_the_user_stay() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::create(&dir.path().join("r")).unwrap();
        fs::write(run.spec_path("0001-a"), "").unwrap();
        written(&run, "0001-a-1", 7);
        // The last one has the form of a checkpoint, of a launch that the run does not have.
        let users = ["best.pt", "epoch-3", "0001-a", "0001-a-1.bak", "0009-z-1"];
        for name in users {
            written(&run, name, 0);
        }
        let outside = dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("best.pt"), "weights").unwrap();
        symlink(&outside, run.checkpoint_path("0001-a-2")).unwrap();

        let mut checkpoints = Checkpoints::open(&run, 1).unwrap();
        let mut expected = users.to_vec();
        expected.sort_unstable();
        assert_eq!(names(&run), expected);
        // The record of a received run names a file that no launch wrote.
        let saved = Saved {
            format: FORMAT,
            name: "best.pt".into(),
            launch: "0001-a".into(),
            launch_steps: 1,
            steps: 1,
        };
        checkpoints.keep(JobId(0), saved).unwrap();
        checkpoints.forget(JobId(0));
        assert_eq!(names(&run), expected);
        assert_eq!(fs::read_to_string(outside.join("best.pt")).unwrap(), "weights");
    }
}
