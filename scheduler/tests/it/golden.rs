//! Files of digests of simulated runs. A change of the scheduler that is to change no decision leaves them as they are.

use std::{collections::BTreeMap, env, fmt, fs, path::Path};

use formats::{decision::Turn, rows::Outcome};

/// A digest of journals and outcomes, one run after another.
#[derive(Default)]
pub(crate) struct Digest(blake3::Hasher);

impl Digest {
    pub(crate) fn add(&mut self, (turns, outcomes): &(Vec<Turn>, Vec<Outcome>)) {
        for turn in turns {
            self.add_line(record::rows::to_json(turn));
        }
        for outcome in outcomes {
            self.add_line(record::rows::to_json(outcome));
        }
    }

    fn add_line(&mut self, line: String) {
        self.0.update(line.as_bytes()).update(b"\n");
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.finalize().to_hex()[..32].fmt(f)
    }
}

/// Compares digests with those of the file `tests/it/golden/NAME.txt`, one a line. With `TANDEM_GOLDEN=write` the file is written.
pub(crate) fn compare(name: &str, digests: &BTreeMap<String, Digest>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/golden/{name}.txt"));
    let made: String = digests.iter().map(|(of, digest)| format!("{digest} {of}\n")).collect();
    if env::var("TANDEM_GOLDEN").is_ok_and(|value| value == "write") {
        fs::create_dir_all(path.parent().expect("it is in a folder")).unwrap();
        fs::write(&path, &made).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    let changed: Vec<&str> =
        made.lines().filter(|line| !golden.lines().any(|other| other == *line)).collect();
    assert!(
        changed.is_empty() && made.lines().count() == golden.lines().count(),
        "runs differ from those of {}: {changed:#?}; if they should, run this test with TANDEM_GOLDEN=write",
        path.display()
    );
}
