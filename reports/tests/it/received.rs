//! Runs that somebody has changed, read by `report`.

use std::path::Path;

use front_door::{Door, check_received};

#[test]
fn nothing_of_a_received_run_is_started_or_leads_out_of_its_page() {
    check("20261124-epyc/testbed/tiresias", &["run --out page", "serve run"]);
}

#[test]
fn nothing_of_a_received_run_leads_out_of_its_tables() {
    check("20261123-epyc/colocate/all-pairs-1", &["table summary run", "compare run run"]);
}

fn check(record: &str, commands: &[&str]) {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("record").join(record);
    check_received(&door, &run, commands);
}
