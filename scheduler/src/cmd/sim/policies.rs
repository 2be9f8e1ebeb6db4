//! Parses the policies of a simulation.

use std::collections::BTreeSet;

use anyhow::bail;

use crate::policy;

/// Splits the arguments into names of policies, in order, and checks that each can be built.
///
/// # Errors
/// Fails if a policy cannot be built, or if two policies would have the same folder.
pub(super) fn named(typed: &[String]) -> anyhow::Result<Vec<String>> {
    let split = |text: &String| match text.starts_with("exec:") {
        // A command may contain commas.
        true => vec![text.clone()],
        false => text.split(',').map(str::to_owned).collect(),
    };
    let names: Vec<String> = typed.iter().flat_map(split).collect();
    let mut folders = BTreeSet::new();
    for name in &names {
        if !folders.insert(folder(name)) {
            bail!(
                "policy '{name}' is named twice, or differs from another only in punctuation; leave one out"
            );
        }
        policy::build(name, &policy::typed([&**name]))?;
    }
    Ok(names)
}

/// The folder of a policy: the letters and digits of its name, with hyphens for all else.
pub(super) fn folder(policy: &str) -> String {
    let parts = policy.split(|sign: char| !sign.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_as_they_are_typed() {
        let read = |typed: &[&str]| named(&typed.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        assert_eq!(read(&["fifo,srtf", "tiresias:1h"]).unwrap(), ["fifo", "srtf", "tiresias:1h"]);
        assert_eq!(folder("tiresias:1h/2h"), "tiresias-1h-2h");
        for (typed, message) in [
            (&["fifo", "fifo"][..], "'fifo' is named twice"),
            (&["fifo,lifo"], "there is no policy 'lifo'"),
            (&["fifo,"], "there is no policy ''"),
        ] {
            let error = read(typed).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
