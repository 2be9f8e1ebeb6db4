//! The plans of a job as a program is shown them.

use std::sync::Arc;

use schema::plan::Plan;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A plan under which a job may run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShownPlan {
    pub plan: Plan,
    pub devices: u32,
    /// The type of the devices for which memory and step time hold.
    pub device_type: String,
    /// Estimated peak of tensor memory of its largest rank, if it is known.
    pub memory_bytes: Option<u64>,
    /// Predicted step time for the job alone under the plan on this type.
    pub step_ns: Option<f64>,
}

/// The plans of a job as JSON. A job may have hundreds, and is shown again whenever something happens to it, so that the text is made
/// once. A clone shares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownPlans(Arc<str>);

/// What [`ShownPlans`] stands for in a line until [`insert`] puts the plans there. No other text of a line has it: in a string, quotes
/// are escaped.
const EMPTY: &str = r#""plans":[]"#;

impl ShownPlans {
    pub fn new(plans: &[ShownPlan]) -> ShownPlans {
        let text = serde_json::to_string(plans).expect("fields are plain, and numbers finite or none");
        ShownPlans(text.into())
    }

    pub fn none() -> ShownPlans {
        ShownPlans("[]".into())
    }

    pub fn read(&self) -> Vec<ShownPlan> {
        serde_json::from_str(&self.0).expect("it was written by this type")
    }

    pub fn bytes(&self) -> usize {
        self.0.len()
    }
}

/// Writes an empty list.
impl Serialize for ShownPlans {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        [(); 0].serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ShownPlans {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ShownPlans, D::Error> {
        Vec::deserialize(deserializer).map(|plans| ShownPlans::new(&plans))
    }
}

/// The line with the plans of its jobs, which are in the order of the jobs.
pub(super) fn insert<'a>(line: &str, plans: impl Iterator<Item = &'a ShownPlans> + Clone) -> String {
    let mut whole =
        String::with_capacity(1 + line.len() + plans.clone().map(ShownPlans::bytes).sum::<usize>());
    let mut rest = line;
    for ShownPlans(text) in plans {
        let (before, after) = rest.split_once(EMPTY).expect("each job has a list");
        whole.push_str(before);
        whole.push_str(&EMPTY[..EMPTY.len() - 2]);
        whole.push_str(text);
        rest = after;
    }
    whole.push_str(rest);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_inserted_into_the_jobs_that_have_them() {
        let plan = |plan: &str| ShownPlan {
            plan: plan.parse().unwrap(),
            devices: 2,
            device_type: "\"plans\":[]".into(),
            memory_bytes: Some(7),
            step_ns: None,
        };
        let plans = [vec![plan("dp2"), plan("tp2")], vec![], vec![plan("pp2")]];
        let shown: Vec<ShownPlans> = plans.iter().map(|plans| ShownPlans::new(plans)).collect();
        assert_eq!(shown[1], ShownPlans::none());
        let line = r#"[{"name":"\"plans\":[]","plans":[],"on":[]},{"plans":[]},{"plans":[]}]"#;
        let texts = plans.map(|plans| serde_json::to_string(&plans).unwrap());
        let expected = format!(
            r#"[{{"name":"\"plans\":[]","plans":{},"on":[]}},{{"plans":{}}},{{"plans":{}}}]"#,
            texts[0], texts[1], texts[2]
        );
        assert_eq!(insert(line, shown.iter()), expected);
    }
}
