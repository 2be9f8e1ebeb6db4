//! The protocol in prose and in types change together or not at all.

use schema::wire::EventLine;
use sha2::{Digest as _, Sha256};

#[test]
fn every_golden_line_reads_and_writes_to_the_byte() {
    for line in include_str!("../golden/wire.jsonl").lines() {
        let parsed: EventLine = serde_json::from_str(line).expect("it is of this protocol");
        assert_eq!(serde_json::to_string(&parsed).expect("it serialises"), line);
    }
}

#[test]
fn the_readme_is_of_this_wire() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let wire = std::fs::read(format!("{folder}/schema/src/wire.rs")).expect("the types are there");
    let readme = std::fs::read_to_string(format!("{folder}/README.md")).expect("the prose is there");
    let hash: String = Sha256::digest(&wire).iter().map(|byte| format!("{byte:02x}")).collect();
    let line = format!("wire.rs sha256: {hash}");
    assert!(
        readme.contains(&line),
        "wire.rs changed: bring workloads/README.md up to date, then write there: {line}"
    );
}
