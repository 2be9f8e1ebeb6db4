//! Tests that this machine cannot run. Each is recorded here by name, and `scripts/test` counts them at its
//! end.

use std::{fmt::Display, fs::File, io::Write as _, path::Path};

/// The variable that names the file with one line per skipped test: `PACKAGE TEST<tab>LACKS<tab>WHY`.
pub const FILE: &str = "TANDEM_SKIPS";

/// Records that the running test is skipped. `lacks` names what the machine lacks, as `python3` or
/// `cgroups`; the scripts decide by this word whether a machine may lack it.
pub fn skipped(lacks: &str, why: impl Display) {
    println!("skipped: {why}");
    if let Some(file) = std::env::var_os(FILE) {
        let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        note(Path::new(&file), &format!("{package} {test}"), lacks, &why.to_string());
    }
}

/// Makes one write per line, because tests of several processes may write at once. A skip that cannot be
/// recorded fails the test, which would otherwise pass without having run.
fn note(file: &Path, test: &str, lacks: &str, why: &str) {
    let line = format!("{test}\t{lacks}\t{}\n", why.replace(['\t', '\n'], " "));
    let opened = File::options().append(true).create(true).open(file);
    opened
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|e| panic!("{}: {e}", file.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_skip_is_a_line_with_the_name_of_the_test() {
        let file = tempfile::NamedTempFile::new().unwrap();
        note(file.path(), "profiler a::b", "python3", "there is no python3");
        note(file.path(), "scheduler c", "cgroups", "no controller\nat all");
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(
            text,
            "profiler a::b\tpython3\tthere is no python3\nscheduler c\tcgroups\tno controller at all\n"
        );
    }
}
