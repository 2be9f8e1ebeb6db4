//! Programs that start a user's program somewhere else: on other nodes, in containers, or through a daemon.

use std::path::Path;

/// Their names.
const STARTERS: [&str; 11] = [
    "srun",
    "mpirun",
    "mpiexec",
    "ssh",
    "docker",
    "podman",
    "kubectl",
    "flux",
    "singularity",
    "apptainer",
    "enroot",
];

/// The one that begins a command.
pub(super) fn starter(argv: &[String]) -> Option<&str> {
    let name = Path::new(argv.first()?).file_name()?.to_str()?;
    STARTERS.contains(&name).then_some(name)
}

/// What to tell the user about a command that begins with one of them.
pub(super) fn hint(argv: &[String]) -> Option<String> {
    starter(argv).map(|name| {
        format!(
            "what {name} starts on other nodes, in containers or through a daemon is seen only in part: its memory and CPU time \
             are not read, its steps only where the step hook reaches this run, and {name} alone ends it; start this command \
             there instead, within {name}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_of_a_command_decides() {
        for (command, name) in [
            ("srun -n 2 python3 train.py", Some("srun")),
            ("/usr/bin/docker run image", Some("docker")),
            ("python3 srun", None),
            ("srun-wrapper.sh", None),
            ("", None),
        ] {
            let argv: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
            let hint = hint(&argv);
            let begins = name.map(|name| format!("what {name} starts on other nodes"));
            assert_eq!(hint.is_some(), begins.is_some(), "{command}");
            assert!(hint.zip(begins).is_none_or(|(hint, begins)| hint.starts_with(&begins)), "{command}");
        }
    }
}
