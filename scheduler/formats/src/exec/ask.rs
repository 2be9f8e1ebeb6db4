//! The questions that a program may ask before its answer, and what the harness answers.

use schema::plan::Plan;
use serde::{Deserialize, Serialize};

use crate::decision::{DeviceId, JobId, Share};

/// A line of questions. The program may write any number of them before its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// The turn that is to be decided, so that a late question is detected.
    pub turn: u64,
    pub ask: Vec<StepQuestion>,
}

/// Asks how long a step of a job takes on these devices, and how much memory it needs there.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepQuestion {
    pub job: JobId,
    /// Devices in the order of ranks. The job need not have them, and others may hold them.
    pub devices: Vec<DeviceId>,
    /// Absent for the plan under which the job has its devices now, or if it has none, for which it asks.
    #[serde(default)]
    pub plan: Option<Plan>,
    /// The share of the time for which the job may run; 1 if it is absent.
    #[serde(default)]
    pub share: Share,
    /// The jobs beside it; absent for those that hold these devices now.
    #[serde(default)]
    pub beside: Option<Vec<JobId>>,
}

/// The answers to a line of questions, in the order of the questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answers {
    pub turn: u64,
    pub answers: Vec<StepAnswer>,
}

/// The answer of the model to a question. A field is `null` if the model does not know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepAnswer {
    pub step_ns: Option<f64>,
    /// The 95 % interval of the step time.
    pub step_ns_ci: Option<(f64, f64)>,
    /// The largest peak of memory of a device that the job was measured to need there alone.
    pub memory_bytes: Option<u64>,
}

impl Answers {
    /// The line, including its line break.
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_string(self).expect("fields are plain, and numbers finite or none");
        line.push('\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::{Answer, Line};

    #[test]
    fn questions_and_answers_are_spelled_as_written_down() {
        let line = r#"{"turn":4,"ask":[{"job":3,"devices":[0,1],"plan":"dp2","share":0.5,"beside":[1]},{"job":3,"devices":[2]}]}"#;
        let whole = StepQuestion {
            job: JobId(3),
            devices: vec![DeviceId(0), DeviceId(1)],
            plan: "dp2".parse().ok(),
            share: Share::new(0.5).unwrap(),
            beside: Some(vec![JobId(1)]),
        };
        let short = StepQuestion {
            job: JobId(3),
            devices: vec![DeviceId(2)],
            plan: None,
            share: Share::FULL,
            beside: None,
        };
        assert_eq!(Line::read(line), Ok(Line::Ask(Ask { turn: 4, ask: vec![whole, short] })));
        assert_eq!(Line::read(r#"{"turn":0,"actions":[]}"#), Ok(Line::Answer(Answer::default())));
        let known =
            StepAnswer { step_ns: Some(2.5), step_ns_ci: Some((2.0, 3.0)), memory_bytes: Some(1 << 30) };
        let answers = Answers { turn: 4, answers: vec![known, StepAnswer::default()] };
        let line = concat!(
            r#"{"turn":4,"answers":[{"step_ns":2.5,"step_ns_ci":[2.0,3.0],"memory_bytes":1073741824},"#,
            r#"{"step_ns":null,"step_ns_ci":null,"memory_bytes":null}]}"#,
            "\n"
        );
        assert_eq!(answers.to_line(), line);
    }

    #[test]
    fn a_line_that_is_no_question_is_refused_with_its_field() {
        for (question, error) in [
            (r#"{"devices":[0]}"#, "missing field `job`"),
            (r#"{"job":0}"#, "missing field `devices`"),
            (r#"{"job":-1,"devices":[0]}"#, "invalid value: integer `-1`, expected u32"),
            (r#"{"job":0,"devices":[0],"on":[1]}"#, "unknown field `on`, expected one of `job`, `devices`"),
            (r#"{"job":0,"devices":[0],"share":2}"#, "2 is no share of the time; write a number above 0"),
            (r#"{"job":0,"devices":[0],"plan":"dp0"}"#, "plan 'dp0'"),
        ] {
            let message = Line::read(&format!(r#"{{"turn":0,"ask":[{question}]}}"#)).unwrap_err();
            assert!(message.starts_with(error), "{question}: {message}");
        }
        for also in [r#""actions":[]"#, r#""reason":"x""#, r#""wake_at_ns":3"#, r#""explain":{"0":"x"}"#] {
            let message = Line::read(&format!(r#"{{"turn":0,"ask":[],{also}}}"#)).unwrap_err();
            assert!(
                message.starts_with("a line with `ask` has `turn` and nothing else"),
                "{also}: {message}"
            );
        }
    }
}
