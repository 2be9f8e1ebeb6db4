//! The state of the source tree of the user's programs, if git has it.

use std::{path::Path, process::Command, time::Duration};

use record::folder::SourceTree;
use rig::{leash::die_with_us, programs::output_within};

/// The time limit for an answer of git. After it the manifest has no source tree, as on a slow disk.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Variables that would make git look at another tree.
const OF_ANOTHER_TREE: [&str; 3] = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"];

/// Asks git for the state of the source tree around this folder. Returns `None` if the folder is in no source tree, if the tree has no
/// commit yet, or if git is not installed. Git writes nothing to the tree.
pub(crate) fn source_tree(folder: &Path) -> Option<SourceTree> {
    let revision = answer(folder, &["rev-parse", "--verify", "HEAD"])?;
    let changes = answer(folder, &["status", "--porcelain", "--untracked-files=no"])?;
    Some(SourceTree { revision: revision.trim().into(), dirty: !changes.is_empty() })
}

fn answer(folder: &Path, arguments: &[&str]) -> Option<String> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut command = Command::new("git");
    // A file system monitor is a program that the tree names.
    command.args(["--no-optional-locks", "-c", "core.fsmonitor=false", "-C"]).arg(folder).args(arguments);
    for name in OF_ANOTHER_TREE {
        command.env_remove(name);
    }
    die_with_us(&mut command);
    let output = output_within(TIMEOUT, command).ok()??;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
