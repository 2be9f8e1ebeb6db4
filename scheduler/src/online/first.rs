//! The measurements that a simulation still needs, as commands that the user can copy.

use std::collections::BTreeSet;

use anyhow::bail;
use engine::job::{JobRequest, Payload};
use jobs::{cells, command_line};
use model::switch_costs::{Cost, SwitchCosts as _};
use record::{placement::Placement, suspension::Suspension};
use schema::{device::Device, job::Job};

use super::run_inputs::{RunInputs, scheduling};

impl RunInputs {
    /// Checks that the step times of all jobs that train can be known.
    ///
    /// # Errors
    /// Fails if the user named no table and the trace does not have the step time of a job that trains.
    pub fn check_times(&self) -> anyhow::Result<()> {
        let jobs = self.spelled(|asked| asked.step_ns.is_none());
        let scheduling = scheduling(&self.manifest)?;
        match &jobs[..] {
            [first, ..] if scheduling.tables == 0 && scheduling.fitted_of_truth().is_empty() => bail!(
                "the time of a step of {first} is not known; run `{} --out runs/alone` first, and add --table runs/alone",
                self.command("single", &jobs)
            ),
            _ => {
                self.check_types()?;
                self.check_spread()
            }
        }
    }

    /// Checks that a step time in the trace is of a known type of device.
    fn check_types(&self) -> anyhow::Result<()> {
        let types: BTreeSet<&str> = self.topology.nodes().iter().map(|node| &*node.device_type).collect();
        let has_no_type = |asked: &&JobRequest| asked.step_ns.is_some() && asked.device_type.is_none();
        match self.asked.iter().find(has_no_type).filter(|_| types.len() > 1) {
            Some(asked) => bail!(
                "{} has a step time in column 'step_ns', and the cluster has several types of device, {}; add column 'device_type'",
                asked.name,
                Vec::from_iter(types).join(" and ")
            ),
            None => Ok(()),
        }
    }

    /// Checks that the step times of jobs that a policy may spread over nodes can be known.
    fn check_spread(&self) -> anyhow::Result<()> {
        let scheduling = scheduling(&self.manifest)?;
        let is_known = scheduling.placement == Placement::Consolidated
            || scheduling.spread_slowdown.is_some()
            || !scheduling.fitted_of_truth().is_empty();
        let spread = self.asked.iter().find(|asked| asked.devices > 1);
        match spread.filter(|_| !is_known && self.topology.nodes().len() > 1) {
            Some(asked) => bail!(
                "{} may be spread over nodes, and the time of its steps there is not known; add --spread-slowdown, such as \
                 --spread-slowdown 1.2, or 1 for full speed",
                asked.name
            ),
            None => Ok(()),
        }
    }

    /// Checks that jobs can be suspended in the way of the run, and that it is known what this costs those whose switches were measured.
    ///
    /// # Errors
    /// Fails if `cuda-checkpoint` is to move jobs on cores or of several processes, and if a calibration lacks the parts of this way.
    pub fn check_suspension(&self) -> anyhow::Result<()> {
        let suspension = scheduling(&self.manifest)?.suspension;
        if suspension == Suspension::CudaCheckpoint {
            let mut devices = self.manifest.devices.iter().map(|facts| &facts.device);
            if let Some(cores) = devices.find(|device| !matches!(device, Device::Cuda(_))) {
                bail!(
                    "--suspend {suspension} moves the memory of GPUs, and {cores} is not a GPU; suspend jobs by step-gate, pause or checkpoint"
                );
            }
            let has_ranks = |asked: &&JobRequest| asked.devices > 1 && !asked.elastic;
            if let Some(asked) = self.asked.iter().find(has_ranks) {
                bail!(
                    "{} has {} processes, and --suspend {suspension} moves the memory of one; suspend jobs by step-gate, pause or checkpoint",
                    asked.name,
                    asked.devices
                );
            }
        }
        let lacking = self.spelled(|asked| self.lacks_suspension(asked));
        match &lacking[..] {
            [first, ..] => bail!(
                "the calibration does not have what --suspend {suspension} costs {first}; run `{} --out machine.toml` first, or add \
                 --switch-cost, such as --switch-cost 5s",
                self.command("calibrate", &lacking)
            ),
            [] => Ok(()),
        }
    }

    /// Whether the costs of starts of a job are known, and those of pauses are not.
    fn lacks_suspension(&self, asked: &JobRequest) -> bool {
        let is_paused = match self.manifest.scheduling.as_ref().map(|of| of.suspension) {
            Some(Suspension::StepGate | Suspension::CudaCheckpoint) => true,
            Some(Suspension::Pause | Suspension::Checkpoint) | None => false,
        };
        let Some(costs) = self.costs.as_ref().filter(|_| is_paused) else { return false };
        let workload = asked.what.workload();
        let device_type = self.topology.nodes().first().map_or("", |node| &node.device_type);
        let subject = asked.subject(&workload, asked.plan, &self.topology, device_type);
        let is_known = |of: Cost| costs.cost(&subject, asked.devices, of, &mut || 0.0).is_some();
        is_known(Cost::Start) && !(is_known(Cost::Pause) && is_known(Cost::Resume))
    }

    /// The advice for a user if a simulation ends because the tables lack a job: a command that measures all jobs that they lack.
    /// Empty if the tables have every job and every command that `profile` can measure.
    pub fn measure_first(&self) -> String {
        let mut jobs = self.spelled(|asked| !self.is_known_alone(asked));
        jobs.extend(self.spelled_commands(|asked| !self.is_known_alone(asked)));
        if jobs.is_empty() {
            return String::new();
        }
        let single = self.command("single", &jobs);
        format!("; run `{single} --out runs/more` first, and give --table runs/more as well")
    }

    /// Whether the step time of a job alone is known for some device type of the cluster.
    fn is_known_alone(&self, asked: &JobRequest) -> bool {
        self.ask_alone(asked, |question| self.models.truth.predict(question)).is_some()
    }

    /// The advice for a user if the costs of switches are not known.
    pub fn calibrate_first(&self) -> String {
        let jobs = self.spelled(|_| true);
        if jobs.is_empty() {
            return "add --switch-cost, such as --switch-cost 5s".into();
        }
        let calibrate = self.command("calibrate", &jobs);
        format!(
            "run `{calibrate} --out machine.toml` first, and add --machine machine.toml; or add --switch-cost, such as --switch-cost 5s"
        )
    }

    /// The jobs of the trace that `profile` can train and that `of` selects, each once, as a user types them.
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
            let is_known = self.catalog.entry(workload).is_some();
            if is_known && !jobs.contains(&spelled) {
                jobs.push(spelled);
            }
        }
        jobs
    }

    /// The same for commands of which `profile` finds the steps by itself, as options.
    fn spelled_commands(&self, of: impl Fn(&JobRequest) -> bool) -> Vec<String> {
        let mut commands = Vec::new();
        for asked in self.asked.iter().filter(|asked| asked.steps_regex.is_none() && of(asked)) {
            let Payload::Command(argv) = &asked.what else { continue };
            let command = command_line::quoted(&["--cmd".to_owned(), command_line::quoted(argv)]);
            if !commands.contains(&command) {
                commands.push(command);
            }
        }
        commands
    }

    /// Makes a command line of `profile` for these jobs on the devices of the run.
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
