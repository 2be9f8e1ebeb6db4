//! Between the scheduler and a policy that is a program of the user's: one JSON object a line. It is shown what changed on its stdin,
//! and answers each line with one on its stdout. `scheduler/README.md` tells it in prose.

use serde::{Deserialize, Serialize};

use crate::{
    decision::{Action, DeviceId, JobId},
    plan::Plan,
    rows::{ErrorKind, words},
    sharing::Sharing,
    trace::Class,
    units::Nanos,
};

/// Stands in the first line. Since 2 an answer names its turn.
pub const PROTOCOL: u32 = 2;

/// A turn, as the program is shown it: what is new since the line before. The first line has everything there is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    /// Rises by one from 0, so that a lost line is seen.
    pub turn: u64,
    /// From the start of the run.
    pub now_ns: Nanos,
    /// In the first line alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin: Option<Begin>,
    /// Those that something happened to, whole, in order of their numbers.
    pub jobs: Vec<ShownJob>,
    /// Those that other jobs keep now than before, or that were lost or came back; in order.
    pub devices: Vec<ShownDevice>,
    /// Jobs that did not fit on a device together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub do_not_fit: Vec<(JobId, JobId)>,
}

/// What does not change in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begin {
    pub protocol: u32,
    /// How jobs share a device that are packed on it.
    pub sharing: Sharing,
    pub nodes: Vec<ShownNode>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShownNode {
    pub name: String,
    pub device_type: String,
    pub devices: Vec<DeviceId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShownDevice {
    pub device: DeviceId,
    /// In the order in which they came. Who is on its way off a device does not keep it.
    pub kept_by: Vec<JobId>,
    pub lost: bool,
}

/// What a job asked for, and what has become of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShownJob {
    /// Its place in the trace, which is ordered by arrival.
    pub job: JobId,
    pub name: String,
    pub arrival_ns: Nanos,
    pub workload: String,
    pub global_batch: Option<u32>,
    /// What it asks for; where it is placed now stands in `on`.
    pub plan: Option<Plan>,
    pub devices: u32,
    /// Whether it may be given another plan and number of devices.
    pub elastic: bool,
    /// Absent for a command that runs until it ends.
    pub steps: Option<u64>,
    /// One that does not loses all that it has done where it is stopped, and is not stopped with a checkpoint.
    pub takes_checkpoints: bool,
    pub user: String,
    pub vc: String,
    pub class: Class,
    /// Time of a step alone on what it asks for, as the scheduler's model predicts it.
    pub step_ns: Option<f64>,
    pub state: JobState,
    /// When the state began.
    pub since_ns: Nanos,
    /// In the order of ranks.
    pub on: Vec<DeviceId>,
    /// Steps that count, and when they were told.
    pub steps_done: u64,
    pub steps_at_ns: Nanos,
    pub first_start_ns: Option<Nanos>,
    /// Running time, and running time times devices, up to now.
    pub running_ns: Nanos,
    pub device_time_ns: Nanos,
    pub starts: u32,
    pub retries: u32,
    /// Why, where it ended in failure.
    pub failed: Option<ErrorKind>,
}

words! {
    /// What a job does.
    JobState {
        Waiting = "waiting",
        Starting = "starting",
        Running = "running",
        Pausing = "pausing",
        Paused = "paused",
        Resuming = "resuming",
        Stopping = "stopping",
        Ended = "ended",
    }
}

/// What the program wants done. Only `turn` and `actions` must be there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// That of the line which is answered, so that an answer too many is seen, and not taken for the next one.
    pub turn: u64,
    pub actions: Vec<Action>,
    /// When to be asked again if nothing happens before, from the start of the run.
    #[serde(default)]
    pub wake_at_ns: Option<Nanos>,
    /// The reason, for readers of the journal.
    #[serde(default)]
    pub reason: String,
}

impl Shown {
    /// One line with its end.
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_string(self).expect("fields are plain, and numbers finite or none");
        line.push('\n');
        line
    }

    /// # Errors
    /// Says what of the line is not as it should be, and where in it.
    pub fn from_line(line: &str) -> Result<Shown, String> {
        serde_json::from_str(line).map_err(|error| error.to_string())
    }
}

impl Answer {
    /// # Errors
    /// Says what of the line is no answer, and where in it.
    pub fn from_line(line: &str) -> Result<Answer, String> {
        serde_json::from_str(line).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs of users read this: what changes here breaks them.
    const LINE: &str = concat!(
        r#"{"turn":0,"now_ns":5,"begin":{"protocol":2,"sharing":"time-slice","nodes":[{"name":"n0","device_type":"GPU","#,
        r#""devices":[0,1]}]},"jobs":[{"job":3,"name":"a","arrival_ns":5,"workload":"gpt2","global_batch":8,"#,
        r#""plan":"dp2","devices":2,"elastic":false,"steps":100,"takes_checkpoints":true,"user":"u","vc":"v","class":"guaranteed","#,
        r#""step_ns":2500000.0,"state":"waiting","since_ns":5,"on":[],"steps_done":0,"steps_at_ns":5,"#,
        r#""first_start_ns":null,"running_ns":0,"device_time_ns":0,"starts":0,"retries":0,"failed":null}],"#,
        r#""devices":[{"device":0,"kept_by":[],"lost":false}],"do_not_fit":[[1,2]]}"#,
        "\n"
    );

    #[test]
    fn a_line_that_is_shown_is_spelled_as_written_down() {
        let shown: Shown = Shown::from_line(LINE).unwrap();
        assert_eq!(shown.to_line(), LINE);
        assert_eq!((shown.jobs[0].job, shown.jobs[0].plan), (JobId(3), "dp2".parse().ok()));
    }

    #[test]
    fn answers_and_what_is_none() {
        let start = Action::Start { job: JobId(3), devices: vec![DeviceId(0)], cpus: None, plan: None };
        let stop = Action::Stop { job: JobId(1), checkpoint: true };
        for (line, answer) in [
            (r#"{"turn":0,"actions":[]}"#, Answer::default()),
            (
                r#"{"turn":7,"actions":[{"stop":{"job":1,"checkpoint":true}},{"start":{"job":3,"devices":[0]}}],"wake_at_ns":9,"reason":"x"}"#,
                Answer {
                    turn: 7,
                    actions: vec![stop, start],
                    wake_at_ns: Some(Nanos(9)),
                    reason: "x".into(),
                },
            ),
        ] {
            assert_eq!(Answer::from_line(line), Ok(answer.clone()));
            let again = serde_json::to_string(&answer).unwrap();
            assert_eq!(Answer::from_line(&again), Ok(answer));
        }
        for (line, error) in [
            ("", "EOF while parsing"),
            ("{}", "missing field `turn`"),
            (r#"{"turn":0}"#, "missing field `actions`"),
            (
                r#"{"turn":0,"actions":[{"begin":{"job":1}}]}"#,
                "unknown variant `begin`, expected one of `start`, `pause`",
            ),
            (r#"{"turn":0,"actions":[{"stop":{"job":1}}]}"#, "missing field `checkpoint`"),
            (r#"{"turn":0,"actions":[],"wake_at":3}"#, "unknown field `wake_at`"),
        ] {
            let found = Answer::from_line(line).unwrap_err();
            assert!(found.starts_with(error), "{found}");
        }
    }
}
