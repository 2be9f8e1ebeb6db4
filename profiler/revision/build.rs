//! Bakes the git revision of the source tree into the programs, if it is one.

use std::{env, process::Command};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let version = env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    // Sources that were unpacked within another repository have no revision of their own.
    let is_ours = git(&["ls-files", "--error-unmatch", "build.rs"]).is_some();
    let commit = is_ours.then(|| git(&["show", "--no-patch", "--format=%H %cs", "HEAD"])).flatten();
    let known = commit.as_deref().and_then(|commit| commit.split_once(' '));
    let origin = match known {
        Some((hash, date)) => {
            let revision = &hash[..hash.len().min(12)];
            println!("cargo:rustc-env=TANDEM_REVISION={revision}");
            format!("{revision} {date}")
        }
        None => "unknown revision".into(),
    };
    println!("cargo:rustc-env=TANDEM_LONG_VERSION={version} ({origin})");
    // A commit appends to this file, whatever branch is checked out.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|_| is_ours) {
        println!("cargo:rerun-if-changed={log}");
    }
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_string())
}
