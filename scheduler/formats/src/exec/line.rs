//! The lines that a program writes: questions, and after them its answer.

use std::collections::BTreeMap;

use schema::units::Nanos;
use serde::{Deserialize, Serialize};

use super::{Ask, StepQuestion};
use crate::decision::{Action, JobId};

/// A line that the program writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    Ask(Ask),
    Answer(Answer),
}

/// The program's answer. Only `turn` and `actions` are required.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Answer {
    /// The turn that is answered, so that a surplus answer is detected and not taken for the next one.
    pub turn: u64,
    pub actions: Vec<Action>,
    /// When to ask again if no event happens before, as time from the start of the run.
    pub wake_at_ns: Option<Nanos>,
    /// The reason, for readers of the journal.
    pub reason: String,
    /// Why single jobs wait, or have their devices, for readers of the journal.
    pub explain: BTreeMap<JobId, String>,
}

/// The fields of a line. A line of questions has `ask`, and an answer has `actions`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    turn: u64,
    actions: Option<Vec<Action>>,
    ask: Option<Vec<StepQuestion>>,
    #[serde(default)]
    wake_at_ns: Option<Nanos>,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    explain: BTreeMap<JobId, String>,
}

impl Line {
    /// # Errors
    /// Returns why the line is neither an answer nor a line of questions, and where.
    pub fn read(line: &str) -> Result<Line, String> {
        let Fields { turn, actions, ask, wake_at_ns, reason, explain } =
            serde_json::from_str(line).map_err(|error| error.to_string())?;
        match (actions, ask) {
            (Some(actions), None) => {
                Ok(Line::Answer(Answer { turn, actions, wake_at_ns, reason, explain }))
            }
            (None, Some(ask)) if wake_at_ns.is_none() && reason.is_empty() && explain.is_empty() => {
                Ok(Line::Ask(Ask { turn, ask }))
            }
            (None, None) => Err("missing field `actions`; a line of questions has `ask` instead".into()),
            (_, Some(_)) => {
                Err("a line with `ask` has `turn` and nothing else; write the answer after it, as a line of its own".into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{DeviceId, Share};

    #[test]
    fn answers_and_what_is_none() {
        let start = Action::Start { job: JobId(3), devices: vec![DeviceId(0)], cpus: None, plan: None };
        let stop = Action::Stop { job: JobId(1), checkpoint: true };
        for (line, answer) in [
            (r#"{"turn":0,"actions":[]}"#, Answer::default()),
            (
                r#"{"turn":2,"actions":[{"end":{"job":3}},{"throttle":{"job":1,"share":0.25}}]}"#,
                Answer {
                    turn: 2,
                    actions: vec![
                        Action::End { job: JobId(3) },
                        Action::Throttle { job: JobId(1), share: Share::new(0.25).unwrap() },
                    ],
                    ..Answer::default()
                },
            ),
            (
                r#"{"turn":7,"actions":[{"stop":{"job":1,"checkpoint":true}},{"start":{"job":3,"devices":[0]}}],"wake_at_ns":9,"reason":"x"}"#,
                Answer {
                    turn: 7,
                    actions: vec![stop, start],
                    wake_at_ns: Some(Nanos(9)),
                    reason: "x".into(),
                    ..Answer::default()
                },
            ),
            (
                r#"{"turn":8,"actions":[],"explain":{"3":"waits for two devices","10":""}}"#,
                Answer {
                    turn: 8,
                    explain: [(3, "waits for two devices"), (10, "")]
                        .map(|(job, text)| (JobId(job), text.into()))
                        .into(),
                    ..Answer::default()
                },
            ),
        ] {
            assert_eq!(Line::read(line), Ok(Line::Answer(answer.clone())));
            let again = serde_json::to_string(&answer).unwrap();
            assert_eq!(Line::read(&again), Ok(Line::Answer(answer)));
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
            (
                r#"{"turn":0,"actions":[{"throttle":{"job":1,"share":0}}]}"#,
                "0 is no share of the time; write a number above 0 and at most 1",
            ),
            (r#"{"turn":0,"actions":[],"wake_at":3}"#, "unknown field `wake_at`"),
            (r#"{"turn":0,"actions":[],"explain":{"a":"x"}}"#, "invalid value"),
        ] {
            let message = Line::read(line).unwrap_err();
            assert!(message.starts_with(error), "{message}");
        }
    }
}
