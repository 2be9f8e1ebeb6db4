//! The policies of a simulation, as they are typed.

use std::collections::BTreeSet;

use anyhow::bail;

use crate::policy;

/// One policy a name, in the order in which they were typed. Each can be built.
///
/// # Errors
/// A policy that cannot be built, and two whose runs would have one folder.
pub(super) fn named(typed: &[String]) -> anyhow::Result<Vec<String>> {
    let split = |text: &String| match text.starts_with("exec:") {
        // A command may hold commas.
        true => vec![text.clone()],
        false => text.split(',').map(str::to_owned).collect(),
    };
    let names: Vec<String> = typed.iter().flat_map(split).collect();
    let mut folders = BTreeSet::new();
    for name in &names {
        if !folders.insert(folder(name)) {
            bail!(
                "policy '{name}' is asked for twice, or is named as another but for its signs; leave one out"
            );
        }
        policy::build(name)?;
    }
    Ok(names)
}

/// A name for a folder: letters, digits and hyphens of the policy's.
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
            (&["fifo", "fifo"][..], "'fifo' is asked for twice"),
            (&["fifo,lifo"], "there is no policy 'lifo'"),
            (&["fifo,"], "there is no policy ''"),
        ] {
            let error = read(typed).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
