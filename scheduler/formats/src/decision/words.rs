//! Turns and their parts in words for people.

use std::fmt;

use super::{Action, ClusterEvent, DeviceId, Turn};

/// The action without the job: `start on devices 0, 1 under dp2`.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Start { devices, plan, .. } => {
                let several = if devices.len() == 1 { "" } else { "s" };
                let numbers: Vec<String> =
                    devices.iter().map(|DeviceId(number)| number.to_string()).collect();
                write!(f, "start on device{several} {}", numbers.join(", "))?;
                plan.map_or(Ok(()), |plan| write!(f, " under {plan}"))
            }
            Action::Pause { .. } => f.write_str("pause"),
            Action::Resume { .. } => f.write_str("resume"),
            Action::Stop { checkpoint: true, .. } => f.write_str("stop with a checkpoint"),
            Action::Stop { checkpoint: false, .. } => f.write_str("stop without a checkpoint"),
            Action::End { .. } => f.write_str("end"),
            Action::Throttle { share, .. } => write!(f, "throttle to {share}"),
        }
    }
}

/// The event as spelled in `decisions.jsonl`.
impl fmt::Display for ClusterEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// The turn as a line of `decisions.jsonl`.
impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{JobId, Share};

    #[test]
    fn actions_read_as_words() {
        let start = |devices: &[u32], plan: Option<&str>| Action::Start {
            job: JobId(7),
            devices: devices.iter().copied().map(DeviceId).collect(),
            cpus: None,
            plan: plan.map(|plan| plan.parse().unwrap()),
        };
        for (action, words) in [
            (start(&[3], None), "start on device 3"),
            (start(&[0, 1], Some("dp2")), "start on devices 0, 1 under dp2"),
            (Action::Pause { job: JobId(7) }, "pause"),
            (Action::Stop { job: JobId(7), checkpoint: false }, "stop without a checkpoint"),
            (Action::End { job: JobId(7) }, "end"),
            (Action::Throttle { job: JobId(7), share: Share::new(0.25).unwrap() }, "throttle to 0.25"),
        ] {
            assert_eq!(action.to_string(), words);
        }
        let arrived = ClusterEvent::Arrived { job: JobId(7) };
        assert_eq!(arrived.to_string(), r#"{"arrived":{"job":7}}"#);
        // A line of a version without losses is the same as one without a loss, and so is its hash.
        let progress = |loss| ClusterEvent::Progress { job: JobId(7), steps: 3, loss }.to_string();
        assert_eq!(progress(None), r#"{"progress":{"job":7,"steps":3}}"#);
        assert_eq!(
            progress(Some(0.1 + 0.2)),
            r#"{"progress":{"job":7,"steps":3,"loss":0.30000000000000004}}"#
        );
        for loss in [None, Some(0.1 + 0.2), Some(-1e-300)] {
            let event = ClusterEvent::Progress { job: JobId(7), steps: 3, loss };
            assert_eq!(serde_json::from_str::<ClusterEvent>(&event.to_string()).unwrap(), event);
        }
    }
}
