//! The policies that a user can choose: the policies of the crate `policies`, and programs.

use formats::rows::{PolicyRow, SettingRow};
use policies::{Declaration, POLICIES, Setting};

use super::EXEC;

/// The most names that an error suggests.
const SUGGESTED: usize = 3;

/// The names of all policies, without their settings.
pub fn names() -> impl Iterator<Item = &'static str> {
    POLICIES.iter().map(|policy| policy.name).chain([EXEC])
}

/// A row for each policy.
pub fn rows() -> Vec<PolicyRow> {
    POLICIES.iter().map(|policy| row(policy)).chain([program()]).collect()
}

/// An error for a name that no policy has: the nearest names, and all.
pub fn no_policy(kind: &str) -> String {
    let typed: String = kind.chars().take(80).collect();
    let near = match nearest(kind).join(" or ") {
        near if near.is_empty() => String::new(),
        near => format!("did you mean {near}? "),
    };
    let all: Vec<&str> = names().collect();
    let there = if near.is_empty() { "there are" } else { "There are" };
    format!(
        "there is no policy '{typed}'; {near}{there} {}; `sched policies NAME` shows the settings of one",
        all.join(", ")
    )
}

/// The names that differ from a text by a few letters, or have it as a part, the nearest first.
fn nearest(kind: &str) -> Vec<&'static str> {
    let typed = kind.to_ascii_lowercase();
    let has_part = |name: &str| name.contains(&typed) || typed.contains(name);
    let mut near: Vec<(usize, &str)> = POLICIES
        .iter()
        .map(|policy| (strsim::levenshtein(policy.name, &typed), policy.name))
        .filter(|(letters, name)| !typed.is_empty() && (*letters <= 1 + typed.len() / 5 || has_part(name)))
        .collect();
    near.sort();
    near.into_iter().take(SUGGESTED).map(|(_, name)| name).collect()
}

fn row(policy: &Declaration) -> PolicyRow {
    PolicyRow {
        name: policy.name.into(),
        usage: policy.usage(),
        source: policy.source.into(),
        order: policy.order.into(),
        misfit: policy.misfit.into(),
        preemption: policy.preemption.into(),
        packing: policy.packing.into(),
        needs: policy.needs.into(),
        resizes: policy.resizes(),
        example: policy.example.into(),
        settings: policy.settings.iter().map(setting_row).collect(),
    }
}

fn setting_row(setting: &Setting) -> SettingRow {
    SettingRow {
        key: setting.key.into(),
        is_positional: setting.is_positional(),
        default: setting.default.into(),
        values: setting.values(),
        meaning: setting.meaning.into(),
        example: setting.example(),
    }
}

/// The row of policies that are programs.
fn program() -> PolicyRow {
    let yours = || "as your program decides".to_owned();
    PolicyRow {
        name: "exec".into(),
        usage: EXEC.into(),
        source: "your program".into(),
        order: yours(),
        misfit: yours(),
        preemption: yours(),
        packing: yours(),
        needs: "all inputs, of which your program chooses".into(),
        resizes: true,
        example: "\"exec:python3 my_policy.py\"".into(),
        settings: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_are_suggested() {
        for (typed, near) in [
            ("lifo", &["fifo"][..]),
            ("FIFO", &["fifo", "elastic-fifo", "packing-fifo"]),
            ("tiresas", &["tiresias"]),
            ("pollux", &["pollux-fixed-batch"]),
            ("gandiva-2", &["gandiva"]),
            ("quincy", &[]),
            ("", &[]),
        ] {
            assert_eq!(nearest(typed), near, "{typed}");
        }
    }
}
