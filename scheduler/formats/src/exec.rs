//! The protocol between the scheduler and a user's policy program: one JSON object per line. The program
//! reads what changed on its stdin, and answers each line with one on its stdout. Before its answer it may
//! ask questions. `scheduler/README.md` describes it in prose.

mod ask;
mod line;
mod plans;

use record::{manifest::NodeFacts, placement::Placement, rows::ErrorKind, suspension::Suspension};
use schema::{plan::Plan, sharing::Sharing, units::Nanos, words};
use serde::{Deserialize, Serialize};

use crate::{
    decision::{DeviceId, JobId, Share},
    history::PastJob,
    trace::Class,
};

pub use self::{
    ask::{Answers, Ask, StepAnswer, StepQuestion},
    line::{Answer, Line},
    plans::{ShownPlan, ShownPlans},
};

/// The protocol version in the first line. Since version 2 an answer names its turn. Since version 3 a program may ask questions
/// before its answer, and explain single jobs.
pub const PROTOCOL: u32 = 3;

/// About the length of a job in a line, without its plans.
const JOB_BYTES: usize = 1024;

/// A turn as the program sees it, with the changes since the previous line. The first line contains
/// everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    /// Counts from 0, so that a lost line is detected.
    pub turn: u64,
    /// Time from the start of the run.
    pub now_ns: Nanos,
    /// Only in the first line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<Begin>,
    /// The jobs that changed, each whole, in the order of their numbers.
    pub jobs: Vec<ShownJob>,
    /// The devices with other jobs than before, and those that were lost or came back, in order.
    pub devices: Vec<ShownDevice>,
    /// The free CPUs of the nodes of these devices, as far as the CPUs of nodes are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<ShownCpus>,
    /// Jobs that did not fit on a device together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub do_not_fit: Vec<(JobId, JobId)>,
    /// Jobs that ran out of memory alone under these plans, which they did not ask for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub too_large: Vec<(JobId, Option<Plan>)>,
    /// Jobs of actions in the last answer that were refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<JobId>,
}

/// Settings that are constant in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begin {
    pub protocol: u32,
    /// How packed jobs share a device.
    pub sharing: Sharing,
    /// The maximum number of jobs on a device.
    pub jobs_per_device: u32,
    /// Where the program is to place jobs. It is not checked.
    pub placement: Placement,
    /// How the program is to suspend jobs: with a pause, or with a stop and a start.
    pub suspension: Suspension,
    pub nodes: Vec<ShownNode>,
    /// The jobs of an earlier run, if the user has named one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<PastJob>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShownNode {
    pub name: String,
    pub device_type: String,
    pub devices: Vec<DeviceId>,
    /// Its virtual cluster, if the cluster is divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vc: Option<String>,
    /// What is known of it besides, if the user has described the cluster.
    #[serde(default, skip_serializing_if = "NodeFacts::is_empty")]
    pub facts: NodeFacts,
}

/// The CPUs of a node that no job has been started with. A job that leaves its devices gives its CPUs back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShownCpus {
    pub node: String,
    pub free_cpus: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShownDevice {
    pub device: DeviceId,
    /// Jobs in the order of their arrival on the device, without those that are leaving it.
    pub kept_by: Vec<JobId>,
    pub lost: bool,
}

/// The requests and the state of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShownJob {
    /// Its position in the trace, which is ordered by arrival.
    pub job: JobId,
    pub name: String,
    pub arrival_ns: Nanos,
    pub workload: String,
    pub global_batch: Option<u32>,
    /// The requested plan; `on` has the present devices.
    pub plan: Option<Plan>,
    pub devices: u32,
    /// The type of the devices that it asks for; absent for any.
    pub device_type: Option<String>,
    /// Cores of the host that it asks for, for each rank.
    pub cpus: Option<u16>,
    /// Whether its plan and its number of devices may be changed.
    pub elastic: bool,
    /// The bounds of that number; absent for 1 and for no bound.
    pub min_devices: Option<u32>,
    pub max_devices: Option<u32>,
    /// Absent for a command that runs until it ends.
    pub steps: Option<u64>,
    /// Whether it can be stopped with a checkpoint. If not, a stop loses all of its steps.
    pub takes_checkpoints: bool,
    pub user: String,
    pub vc: String,
    pub class: Class,
    /// A larger number is more important.
    pub priority: i32,
    /// Its part of the time where jobs take turns, beside the weights of the others.
    pub weight: u32,
    /// The recurring job of which it is an instance.
    pub recurring_job: Option<String>,
    /// Date and time of the arrival where the trace was recorded, in UTC (RFC 3339).
    pub submit_utc: Option<String>,
    /// The search over hyper-parameters of which it is a member.
    pub search: Option<String>,
    /// Its learning rate, if the trace has one.
    pub learning_rate: Option<f64>,
    /// Predicted step time for the job alone on the devices and under the plan that it asks for.
    pub step_ns: Option<f64>,
    /// The plans under which it may run, for each type of device. Empty for a job that is not elastic or not of the catalog.
    pub plans: ShownPlans,
    pub state: JobState,
    /// The start of the present state.
    pub since_ns: Nanos,
    /// Devices in the order of ranks.
    pub on: Vec<DeviceId>,
    /// The share of the time for which it may run there; 1 if it is not throttled.
    pub share: Share,
    /// Effective steps, and the time of their report.
    pub steps_done: u64,
    pub steps_at_ns: Nanos,
    /// The whole steps that are done by now, predicted from this report.
    pub steps_now: u64,
    /// When its last step is done if it goes on as it is; absent if it does not run, and for an unknown rate or length.
    pub ends_at_ns: Option<Nanos>,
    /// Step time on the present devices between the last two reports, and the time of the later one.
    pub measured_step_ns: Option<f64>,
    pub measured_at_ns: Option<Nanos>,
    /// Mean training loss of the steps between the last two reports; absent if none had a finite one.
    pub loss: Option<f64>,
    pub first_start_ns: Option<Nanos>,
    /// Running time, and running time times devices, up to now.
    pub running_ns: Nanos,
    pub device_time_ns: Nanos,
    pub starts: u32,
    pub retries: u32,
    /// The reason, if the job has failed.
    pub failed: Option<ErrorKind>,
}

words! {
    /// The state of a job.
    JobState {
        Waiting = "waiting",
        Starting = "starting",
        Running = "running",
        Pausing = "pausing",
        Paused = "paused",
        Resuming = "resuming",
        Stopping = "stopping",
        /// It leaves its devices, and does not run again.
        Ending = "ending",
        Ended = "ended",
    }
}

impl Shown {
    /// The line, including its line break.
    pub fn to_line(&self) -> String {
        let mut line = Vec::with_capacity(JOB_BYTES * (1 + self.jobs.len()));
        serde_json::to_writer(&mut line, self).expect("fields are plain, and numbers finite or none");
        let line = String::from_utf8(line).expect("JSON is UTF-8");
        let mut line = plans::insert(&line, self.jobs.iter().map(|job| &job.plans));
        line.push('\n');
        line
    }

    /// # Errors
    /// Returns what is wrong with the line, and where.
    pub fn from_line(line: &str) -> Result<Shown, String> {
        serde_json::from_str(line).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample line, because a change of it breaks users' programs.
    const LINE: &str = concat!(
        r#"{"turn":0,"now_ns":5,"begin":{"protocol":3,"sharing":"time-slice","jobs_per_device":2,"placement":"spread","suspension":"pause","nodes":[{"name":"n0","device_type":"GPU","#,
        r#""devices":[0,1]}],"history":[{"name":"b","user":"u","vc":"v","recurring_job":null,"workload":"gpt2","global_batch":8,"#,
        r#""plan":"dp2","devices":2,"submit_utc":"2020-08-01T08:00:00Z","duration_ns":7}]},"jobs":[{"job":3,"name":"a","arrival_ns":5,"workload":"gpt2","global_batch":8,"#,
        r#""plan":"dp2","devices":2,"device_type":"GPU","cpus":4,"elastic":true,"min_devices":1,"max_devices":null,"#,
        r#""steps":100,"takes_checkpoints":true,"user":"u","vc":"v","class":"guaranteed","priority":-1,"weight":1,"#,
        r#""recurring_job":"nightly","submit_utc":"2020-09-01T08:00:00Z","search":"rates","learning_rate":0.1,"step_ns":2500000.0,"plans":[{"plan":"dp2","devices":2,"device_type":"GPU","memory_bytes":7,"step_ns":2500000.0}],"state":"waiting","since_ns":5,"on":[],"share":1.0,"steps_done":0,"steps_at_ns":5,"steps_now":0,"ends_at_ns":null,"measured_step_ns":null,"measured_at_ns":null,"loss":2.5,"#,
        r#""first_start_ns":null,"running_ns":0,"device_time_ns":0,"starts":0,"retries":0,"failed":null}],"#,
        r#""devices":[{"device":0,"kept_by":[],"lost":false}],"nodes":[{"node":"n0","free_cpus":44}],"do_not_fit":[[1,2]],"too_large":[[3,"gc"]],"refused":[3]}"#,
        "\n"
    );

    #[test]
    fn a_line_that_is_shown_is_spelled_as_written_down() {
        let shown: Shown = Shown::from_line(LINE).unwrap();
        assert_eq!(shown.to_line(), LINE);
        assert_eq!((shown.jobs[0].job, shown.jobs[0].plan), (JobId(3), "dp2".parse().ok()));
    }
}
