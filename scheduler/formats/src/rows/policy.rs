//! `sched policies --json`: one row for each policy.

use serde::{Deserialize, Serialize};

/// A policy as its declaration describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRow {
    pub name: String,
    /// The name and the settings that may follow it.
    pub usage: String,
    pub source: String,
    /// What the policy decides by.
    pub order: String,
    /// What happens to a job that does not fit.
    pub misfit: String,
    pub preemption: String,
    pub packing: String,
    /// The information that the policy needs.
    pub needs: String,
    /// Whether elastic jobs may get another number of devices than they ask for.
    pub resizes: bool,
    pub example: String,
    pub settings: Vec<SettingRow>,
}

/// A setting of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingRow {
    pub key: String,
    /// Whether the value is written without the key and `=`.
    pub is_positional: bool,
    pub default: String,
    pub values: String,
    pub meaning: String,
    /// The setting as it is written in the name of a policy.
    pub example: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_round_trip() {
        let setting = SettingRow {
            key: "every".into(),
            is_positional: false,
            default: "300s".into(),
            values: "a time of 100ms or more".into(),
            meaning: "the length of a round".into(),
            example: "every=300s".into(),
        };
        let row = PolicyRow {
            name: "las".into(),
            usage: "las[:every=TIME]".into(),
            source: "Tiresias, NSDI 2019".into(),
            order: "attained service".into(),
            misfit: "is passed".into(),
            preemption: "stops jobs".into(),
            packing: "no".into(),
            needs: "nothing".into(),
            resizes: false,
            example: "las:every=60s".into(),
            settings: vec![setting],
        };
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(serde_json::from_str::<PolicyRow>(&text).unwrap(), row);
    }
}
