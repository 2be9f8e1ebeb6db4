//! The dependencies between crates in the manifests are exactly those of ARCHITECTURE.md.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::Command,
};

/// Every crate with the crates that it may use. Those for tests only follow a `+`.
const ARROWS: &[(&str, &[&str])] = &[
    ("workloads/schema", &[]),
    ("workloads/builtin-worker", &["schema"]),
    ("workloads/torch", &["schema", "+front-door"]),
    ("profiler/statistics", &[]),
    ("profiler/fake-driver", &[]),
    ("profiler/front-door", &["schema"]),
    ("profiler/rig", &["schema", "statistics", "+fake-driver", "+front-door"]),
    ("colocate", &["rig", "schema", "statistics"]),
    ("scheduler/model", &["schema", "statistics"]),
    ("scheduler/outcomes", &["schema", "statistics"]),
    ("profiler/jobs", &["rig", "schema", "builtin-worker"]),
    ("profiler/cli", &["rig", "schema"]),
    (
        "scheduler",
        &[
            "cli",
            "colocate",
            "jobs",
            "model",
            "outcomes",
            "rig",
            "schema",
            "statistics",
            "builtin-worker",
            "+fake-driver",
            "+front-door",
        ],
    ),
    ("reports", &["cli", "outcomes", "rig", "schema", "statistics", "+front-door"]),
    (
        "profiler",
        &[
            "cli",
            "colocate",
            "jobs",
            "rig",
            "schema",
            "statistics",
            "builtin-worker",
            "+fake-driver",
            "+front-door",
        ],
    ),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn manifest(folder: &str) -> toml::Table {
    let path = root().join(folder).join("Cargo.toml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.parse().expect("cargo reads it, so it is TOML")
}

fn names(manifest: &toml::Table, section: &str) -> Vec<String> {
    manifest
        .get(section)
        .and_then(toml::Value::as_table)
        .into_iter()
        .flatten()
        .map(|(name, _)| name.clone())
        .collect()
}

#[test]
fn arrows_are_those_that_are_written_down() {
    let ours: BTreeMap<String, &str> = ARROWS
        .iter()
        .map(|(folder, _)| {
            let manifest = manifest(folder);
            let package = manifest["package"]["name"].as_str().expect("a package has a name");
            // Published crates have the short names.
            let name = package.strip_prefix("tandem-").expect("a package has the prefix of the project");
            (name.to_owned(), *folder)
        })
        .collect();
    for (folder, allowed) in ARROWS {
        let manifest = manifest(folder);
        let own = |section: &str, mark: &str| -> Vec<String> {
            let all = names(&manifest, section).into_iter().filter(|name| ours.contains_key(name));
            all.map(|name| format!("{mark}{name}")).collect()
        };
        let mut found = own("dependencies", "");
        found.extend(own("build-dependencies", ""));
        found.extend(own("dev-dependencies", "+"));
        for arrow in found {
            assert!(allowed.contains(&arrow.as_str()), "{folder} -> {arrow} is no arrow of ARCHITECTURE.md");
        }
    }
}

#[test]
fn every_member_of_the_workspace_has_its_arrows_written_down() {
    let members = manifest("")["workspace"]["members"].clone();
    for member in members.as_array().expect("a list") {
        let member = member.as_str().expect("a folder");
        assert!(ARROWS.iter().any(|(folder, _)| *folder == member), "{member} is missing in this test");
    }
}

/// Only torch-worker links libtorch, and torch-worker is no default member.
#[test]
fn libtorch_stays_outside() {
    for (folder, _) in ARROWS.iter().filter(|(folder, _)| *folder != "workloads/torch") {
        let manifest = manifest(folder);
        for section in ["dependencies", "build-dependencies", "dev-dependencies"] {
            let linking = names(&manifest, section)
                .into_iter()
                .find(|name| ["tch", "torch-sys", "torch-shim", "torch-worker"].contains(&name.as_str()));
            assert_eq!(linking, None, "{folder}");
        }
    }
    let workspace = manifest("")["workspace"].clone();
    let list = |key: &str| -> Vec<String> {
        let all = workspace[key].as_array().expect("a list").iter();
        all.map(|folder| folder.as_str().expect("a folder").to_owned()).collect()
    };
    let mut members = list("members");
    members.retain(|folder| folder != "workloads/torch");
    assert_eq!(list("default-members"), members);
}

/// Building torch-worker changes no feature of a dependency of `schema`. Otherwise cargo would build `schema`, and with it the whole
/// harness, a second time. A package that only a build script of torch-worker needs may have others.
#[test]
fn one_set_of_features() {
    let features = |edges: &str, scope: &[&str]| -> BTreeSet<String> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["tree", "--locked", "--offline", "-p", "tandem-schema", "--edges", edges]);
        let of_schema = lines(cargo.args(["--prefix", "none", "--format", "{p}"]).current_dir(root()));
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["tree", "--locked", "--offline", "--edges", edges]).args(scope);
        let all = lines(cargo.args(["--prefix", "none", "--format", "{p} {f}"]).current_dir(root()));
        let is_below = |line: &String| of_schema.iter().any(|package| line.starts_with(package.as_str()));
        all.into_iter().filter(is_below).collect()
    };
    assert_eq!(features("normal", &[]), features("normal", &["--workspace"]));
    let with_build_scripts = features("normal,build", &[]);
    let of_workspace = features("normal,build", &["--workspace"]);
    assert!(with_build_scripts.is_subset(&of_workspace), "{with_build_scripts:?}\n{of_workspace:?}");
}

/// The lines of a command's output. `cargo tree` marks repeated packages with `(*)`, which is removed.
fn lines(command: &mut Command) -> BTreeSet<String> {
    let output = command.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| line.trim_end_matches(" (*)").to_owned())
        .collect()
}

/// Formats are defined in one crate.
#[test]
fn only_schema_serialises() {
    for (folder, _) in ARROWS.iter().filter(|(folder, _)| *folder != "workloads/schema") {
        let manifest = manifest(folder);
        // The fake library reads its own script, which no other program reads.
        if *folder == "profiler/fake-driver" {
            continue;
        }
        let serde =
            names(&manifest, "dependencies").into_iter().find(|name| name == "serde" || name == "csv");
        assert_eq!(serde, None, "{folder}");
    }
}
