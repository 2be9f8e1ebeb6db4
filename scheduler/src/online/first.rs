//! What a user has to measure before jobs can be simulated, as commands to copy.

use anyhow::bail;
use profiler::cells;
use schema::{device::Device, job::Job};

use super::{RunInputs, scheduling};
use crate::job::{JobRequest, Payload};

impl RunInputs {
    /// # Errors
    /// No table was named, and of a job that trains the trace does not say how long a step takes.
    pub fn check_times(&self) -> anyhow::Result<()> {
        let jobs = self.spelled(|asked| asked.step_ns.is_none());
        match &jobs[..] {
            [first, ..] if scheduling(&self.manifest)?.tables == 0 => bail!(
                "how long a step of {first} takes is not known; run `{} --out runs/alone` first, and give --table runs/alone",
                self.command("single", &jobs)
            ),
            _ => Ok(()),
        }
    }

    /// What to do where it is not known what switches cost.
    pub fn calibrate_first(&self) -> String {
        let jobs = self.spelled(|_| true);
        if jobs.is_empty() {
            return "name it with --switch-cost, as 5s".into();
        }
        let calibrate = self.command("calibrate", &jobs);
        format!(
            "run `{calibrate} --out machine.toml` first, and give --machine machine.toml; or name it with --switch-cost, as 5s"
        )
    }

    /// Those jobs of the trace that `profile` can train, each once.
    fn spelled(&self, of: impl Fn(&JobRequest) -> bool) -> Vec<String> {
        let mut jobs = Vec::new();
        for asked in self.asked.iter().filter(|asked| of(asked)) {
            let Payload::Training { workload, global_batch } = &asked.what else { continue };
            let job = Job {
                workload: workload.clone(),
                global_batch: *global_batch,
                plan: asked.plan,
                device: None,
            };
            let spelled = job.to_string();
            if self.catalog.get(workload).is_some() && !jobs.contains(&spelled) {
                jobs.push(spelled);
            }
        }
        jobs
    }

    /// A command of `profile` for these jobs on the devices of the run.
    fn command(&self, name: &str, jobs: &[String]) -> String {
        let mut line = format!("profile {name} {}", jobs.join(" "));
        let devices: Vec<Device> = self.manifest.devices.iter().map(|facts| facts.device.clone()).collect();
        if !devices.is_empty() {
            line += &format!(" --device {}", cells::joined(&devices));
        }
        for catalog in &self.manifest.settings.catalogs {
            line += &format!(" --catalog {}", catalog.display());
        }
        line
    }
}
