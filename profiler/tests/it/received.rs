//! Runs that somebody has changed, read by `profile`.

use front_door::{Door, check_received};

#[test]
fn nothing_of_a_received_run_is_started_or_leads_out_of_it() {
    let maker = crate::door();
    maker.exits(
        0,
        "colocate synthetic-sleep synthetic-sleep --device cpu:0 --steps 25 --repeats 1 --out made",
    );
    let door = Door::new(env!("CARGO_BIN_EXE_profile"));
    let commands = [
        "derive run",
        "export run --out written",
        "compare run run",
        "colocate --resume run",
        "export run --steps --out written",
    ];
    check_received(&door, &maker.path("made"), &commands);
}

#[test]
fn a_received_run_of_jobs_alone_goes_on_without_leading_out_of_it() {
    let maker = crate::door();
    maker.exits(0, "single synthetic-sleep --device cpu:0 --steps 25 --repeats 1 --out alone");
    let door = Door::new(env!("CARGO_BIN_EXE_profile"));
    check_received(&door, &maker.path("alone"), &["single --resume run"]);
}
