//! `report --version`.

#[test]
fn the_version_names_the_revision() {
    let said = crate::compared::door().exits(0, "--version").out;
    assert_eq!(said, format!("report {}\n", revision::LONG_VERSION));
}
