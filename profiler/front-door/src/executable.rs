use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

/// Writes a script that can be started at once.
///
/// Another process writes it. A process that another thread of this one is just starting has a copy of all files that are open here
/// until its program runs, and the kernel starts no program that somebody may write to.
///
/// # Panics
/// The folder is not writable.
pub fn executable(path: &Path, script: &str) {
    let mut writer = Command::new("sh");
    writer.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut writer = writer.spawn().expect("every system has sh");
    let mut stdin = writer.stdin.take().expect("it was piped");
    stdin.write_all(script.as_bytes()).expect("it reads");
    drop(stdin);
    assert!(writer.wait().expect("it is ours").success(), "{} cannot be written", path.display());
}
