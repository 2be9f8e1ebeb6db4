//! `--version` names the revision that manifests have.

#[test]
fn the_version_names_the_revision_of_the_manifest() {
    let door = crate::door();
    let said = door.exits(0, "--version").out;
    assert_eq!(said, format!("profile {}\n", revision::LONG_VERSION));
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 3 --repeats 1 --out r");
    let manifest = door.run("r").manifest().expect("it was written");
    let (version, origin) = said.trim_end().split_once(" (").expect("the origin is in parentheses");
    assert_eq!(version, format!("profile {}", manifest.version));
    match &manifest.git_revision {
        Some(revision) => {
            let date = origin.strip_prefix(&format!("{revision} ")).and_then(|date| date.strip_suffix(')'));
            let digits: Vec<usize> = date.expect("a date").split('-').map(str::len).collect();
            assert_eq!((revision.len(), &digits[..]), (12, &[4, 2, 2][..]), "{said}");
        }
        None => assert_eq!(origin, "unknown revision)"),
    }
}
