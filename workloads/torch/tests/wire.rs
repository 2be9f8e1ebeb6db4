//! This package has a lock file of its own, so it may build another serde than the harness does: what
//! both read and write must be the same lines.

use schema::wire::EventLine;

#[test]
fn every_line_reads_and_writes_to_the_byte() {
    for line in include_str!("../../schema/golden/wire.jsonl").lines() {
        let parsed: EventLine = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&parsed).unwrap(), line);
    }
}
