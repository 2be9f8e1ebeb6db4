//! What was read of a run: its manifest and its tables. A table that is absent is empty. A table that cannot be read is empty, too,
//! and the reason is a problem that the page shows.

use std::{path::Path, sync::OnceLock};

use formats::rows::{Draw, MachineSpeed, Outcome, Prediction};
use record::{
    manifest::{End, Manifest},
    rows::{self, Curve, Interference, Measurement, OperatorTime, Row, RowError, Summary},
    run_dir::RunDir,
};

use crate::{activity::Activity, steps::RunSteps};

/// The largest number of devices that are named. A manifest that claims more is no cluster.
const MOST_DEVICES: usize = 1 << 20;

/// One run of a report.
pub struct Run {
    pub dir: RunDir,
    /// The name of its directory, made unique among the runs of the report.
    pub name: String,
    /// The number of runs in the report.
    pub among: usize,
    pub manifest: Manifest,
    /// Absent while the run goes on, and if it was killed.
    pub end: Option<End>,
    pub measurements: Vec<Measurement>,
    pub summaries: Vec<Summary>,
    pub interference: Vec<Interference>,
    pub curves: Vec<Curve>,
    pub operators: Vec<OperatorTime>,
    pub outcomes: Vec<Outcome>,
    pub predictions: Vec<Prediction>,
    pub draws: Vec<Draw>,
    pub speed: Vec<MachineSpeed>,
    /// Files that cannot be read, each with the reason. Paths are relative to the run.
    pub problems: Vec<String>,
    activity: OnceLock<Option<Activity>>,
    /// Read when a figure needs it, because it can be long.
    steps: OnceLock<RunSteps>,
}

/// What a run measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunKind {
    /// `profile single`, and the run beside a calibration.
    Single,
    Colocate,
    /// `sched run`, on devices.
    Scheduled,
    /// `sched sim`.
    Simulated,
}

impl Run {
    /// Reads a run.
    ///
    /// # Errors
    /// The directory is no run, or its manifest cannot be read.
    pub fn open(path: &Path) -> anyhow::Result<Run> {
        let dir = RunDir::open(path)?;
        let manifest = dir.manifest()?;
        let mut problems = Vec::new();
        let end = dir.end().unwrap_or_else(|error| {
            problems.push(dir.relative(&error.to_string(), &dir.end_path()));
            None
        });
        Ok(Run {
            name: dir.name(),
            among: 1,
            measurements: table(&dir, &dir.measurements_path(), &mut problems),
            summaries: table(&dir, &dir.summary_path(), &mut problems),
            interference: table(&dir, &dir.interference_path(), &mut problems),
            curves: table(&dir, &dir.curves_path(), &mut problems),
            operators: table(&dir, &dir.operators_path(), &mut problems),
            outcomes: table(&dir, &dir.outcomes_path(), &mut problems),
            predictions: table(&dir, &dir.predictions_path(), &mut problems),
            draws: table(&dir, &dir.draws_path(), &mut problems),
            speed: table(&dir, &dir.speed_path(), &mut problems),
            dir,
            manifest,
            end,
            problems,
            activity: OnceLock::new(),
            steps: OnceLock::new(),
        })
    }

    /// What its jobs did on its devices, read when it is first asked for. `None` without a journal.
    pub fn activity(&self) -> Option<&Activity> {
        let read = || {
            let path = self.dir.decisions_path();
            let mut activity = path.exists().then(|| Activity::read(&path))?;
            activity.problem = activity.problem.map(|problem| self.dir.relative(&problem, &path));
            Some(activity)
        };
        self.activity.get_or_init(read).as_ref()
    }

    /// The policy of a run of `sched`, as typed.
    pub fn policy(&self) -> Option<&str> {
        self.manifest.scheduling.as_ref().map(|of| of.policy.as_str())
    }

    /// The names of its devices in the order of their numbers. Those of a simulated cluster are named by node.
    pub fn device_names(&self) -> Vec<String> {
        let simulated = self.manifest.scheduling.as_ref().and_then(|of| of.simulated.as_ref());
        match simulated.filter(|simulated| !simulated.nodes.is_empty()) {
            None => self.manifest.devices.iter().map(|facts| facts.device.to_string()).collect(),
            Some(simulated) => {
                let nodes = simulated.nodes.iter().flat_map(|of| (0..of.nodes).map(|_| of.devices));
                let nodes = nodes.take(MOST_DEVICES);
                let of_node = |(node, devices)| (0..devices).map(move |device| format!("n{node}/{device}"));
                nodes.enumerate().flat_map(of_node).take(MOST_DEVICES).collect()
            }
        }
    }

    pub fn kind(&self) -> RunKind {
        match &self.manifest.scheduling {
            Some(scheduling) if scheduling.simulated.is_some() => RunKind::Simulated,
            Some(_) => RunKind::Scheduled,
            None if self.manifest.groups.is_empty() => RunKind::Single,
            None => RunKind::Colocate,
        }
    }

    /// The devices of the run in words: `cpu:0 and cpu:1 (AMD EPYC)`, or the nodes of a simulated cluster.
    pub fn devices(&self) -> String {
        let simulated = self.manifest.scheduling.as_ref().and_then(|of| of.simulated.as_ref());
        if let Some(simulated) = simulated.filter(|simulated| !simulated.nodes.is_empty()) {
            let nodes = simulated.nodes.iter().map(|alike| {
                let of_type = if alike.device_type.is_empty() {
                    String::new()
                } else {
                    format!(" {}", alike.device_type)
                };
                format!("{} x {}{of_type}", alike.nodes, alike.devices)
            });
            return format!("simulated nodes x devices: {}", nodes.collect::<Vec<_>>().join(", "));
        }
        let mut names: Vec<&str> = self.manifest.devices.iter().map(|facts| facts.name.as_str()).collect();
        names.dedup();
        let devices: Vec<String> =
            self.manifest.devices.iter().map(|facts| facts.device.to_string()).collect();
        format!("{} ({})", devices.join(", "), names.join(", "))
    }

    /// The steps of the launches that measured a job alone, which are read at the first call.
    pub fn steps(&self) -> &RunSteps {
        self.steps.get_or_init(|| RunSteps::read(&self.dir, &self.measurements))
    }

    /// The names of all workloads of the run, in order of their appearance.
    pub fn workloads(&self) -> impl Iterator<Item = &str> {
        let cells = self.manifest.cells.iter().map(|cell| cell.workload.as_str());
        cells.chain(self.outcomes.iter().map(|row| row.workload.as_str()))
    }
}

fn table<T: Row>(dir: &RunDir, path: &Path, problems: &mut Vec<String>) -> Vec<T> {
    let read: Result<Vec<T>, RowError> = if path.exists() { rows::read(path) } else { return Vec::new() };
    read.unwrap_or_else(|error| {
        problems.push(dir.relative(&error.to_string(), path));
        Vec::new()
    })
}
