use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

/// Writes an executable script.
///
/// A child process writes the file, because this process may fork in another thread at the same time. The fork would hold the file open
/// for writing until its own `exec`, and the kernel refuses to execute such a file (`ETXTBSY`).
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
