//! Runs that somebody has changed, read by `report`.

use std::path::Path;

use front_door::{Door, check_received};

#[test]
fn nothing_of_a_received_run_is_started_or_leads_out_of_it() {
    for (record, command) in [
        ("20261124-epyc/testbed/tiresias", "run --out page"),
        ("20261123-epyc/colocate/all-pairs-1", "table summary run"),
    ] {
        let door = Door::new(env!("CARGO_BIN_EXE_report"));
        let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("record").join(record);
        check_received(&door, &run, &[command]);
    }
}
