//! The dependencies between crates in the manifests are exactly those of ARCHITECTURE.md, and what decides and simulates does no I/O.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Every crate with the crates that it may use. Those for tests only follow a `+`.
const ARROWS: &[(&str, &[&str])] = &[
    ("workloads/schema", &[]),
    ("workloads/builtin-worker", &["schema"]),
    ("workloads/torch", &["schema", "+front-door"]),
    ("profiler/statistics", &[]),
    ("profiler/fake-driver", &[]),
    ("profiler/record", &["schema"]),
    ("profiler/revision", &[]),
    ("profiler/front-door", &["record", "schema"]),
    ("profiler/rig", &["record", "schema", "statistics", "+fake-driver", "+front-door"]),
    ("colocate", &["record", "rig", "schema", "statistics"]),
    ("scheduler/formats", &["record", "schema"]),
    ("scheduler/model", &["formats", "record", "schema", "statistics"]),
    ("scheduler/outcomes", &["formats", "record", "statistics", "+schema"]),
    ("scheduler/engine", &["formats", "model", "record", "schema"]),
    ("scheduler/policies", &["engine", "formats", "model", "record", "schema", "statistics", "+launches"]),
    ("scheduler/launches", &["engine", "formats", "model", "record", "schema", "statistics"]),
    ("scheduler/testbed", &["colocate", "engine", "formats", "jobs", "launches", "record", "rig", "schema"]),
    ("profiler/jobs", &["record", "revision", "rig", "schema", "builtin-worker"]),
    ("profiler/cli", &["record", "rig", "schema"]),
    (
        "scheduler",
        &[
            "cli",
            "colocate",
            "engine",
            "formats",
            "jobs",
            "launches",
            "model",
            "outcomes",
            "policies",
            "record",
            "revision",
            "rig",
            "schema",
            "statistics",
            "testbed",
            "builtin-worker",
            "+fake-driver",
            "+front-door",
        ],
    ),
    (
        "reports",
        &["cli", "formats", "outcomes", "record", "revision", "rig", "schema", "statistics", "+front-door"],
    ),
    (
        "profiler",
        &[
            "cli",
            "colocate",
            "jobs",
            "record",
            "revision",
            "rig",
            "schema",
            "statistics",
            "builtin-worker",
            "+fake-driver",
            "+front-door",
        ],
    ),
];

/// The crates that define formats: of workers, of runs, and of the scheduler.
const FORMATS: [&str; 3] = ["workloads/schema", "profiler/record", "scheduler/formats"];

/// Crates of `scheduler` that decide and simulate. They do no I/O, and their time is not that of the machine.
const PURE: [&str; 3] = ["scheduler/engine", "scheduler/policies", "scheduler/launches"];
const OUTSIDE: [&str; 6] =
    ["fs::", "File::", "process::", "Instant::now", "SystemTime::now", "monotonic_now"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn manifest(folder: &str) -> toml::Table {
    let path = root().join(folder).join("Cargo.toml");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
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

#[test]
fn what_decides_and_simulates_does_no_io() {
    for folder in PURE {
        let mut files = Vec::new();
        add_files(&root().join(folder).join("src"), &mut files);
        assert!(files.len() > 10, "{folder}: {} files", files.len());
        for file in files {
            let text = fs::read_to_string(&file).expect("a file of the checkout");
            let used = OUTSIDE.into_iter().find(|name| uses(&text, name));
            assert_eq!(used, None, "{}", file.display());
        }
    }
}

fn add_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("a folder of the checkout").path();
        match path.extension() {
            None => add_files(&path, files),
            Some(_) if path.ends_with("tests.rs") => {}
            Some(_) => files.push(path),
        }
    }
}

/// Whether the code of a file names this before its tests.
fn uses(text: &str, name: &str) -> bool {
    let code = text.split("#[cfg(test)]\nmod tests {").next().expect("a split has a first part");
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let is_part = |before: char| before.is_alphanumeric() || before == '_';
    lines
        .flat_map(|line| line.match_indices(name).map(move |(at, _)| &line[..at]))
        .any(|before| !before.ends_with(is_part))
}

#[test]
fn uses_are_found_in_code_alone() {
    let text =
        "use std::fs::File;\n// Instant::now()\nlet offs::x;\n#[cfg(test)]\nmod tests { process::f(); }";
    let used = OUTSIDE.map(|name| uses(text, name));
    assert_eq!(used, [true, false, false, false, false, false]);
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

/// Building torch-worker changes no feature of a dependency of the crates of formats. Otherwise cargo would build them, and with them
/// the whole harness, a second time. A package that only a build script of torch-worker needs may have others.
#[test]
fn one_set_of_features() {
    let features = |edges: &str, scope: &[&str]| -> BTreeSet<String> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["tree", "--locked", "--offline", "--edges", edges]);
        cargo.args(["-p", "tandem-schema", "-p", "tandem-record", "-p", "tandem-formats"]);
        let of_formats = lines(cargo.args(["--prefix", "none", "--format", "{p}"]).current_dir(root()));
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["tree", "--locked", "--offline", "--edges", edges]).args(scope);
        let all = lines(cargo.args(["--prefix", "none", "--format", "{p} {f}"]).current_dir(root()));
        let is_below = |line: &String| of_formats.iter().any(|package| line.starts_with(package.as_str()));
        all.into_iter().filter(is_below).collect()
    };
    assert_eq!(features("normal", &[]), features("normal", &["--workspace"]));
    let with_build_scripts = features("normal,build", &[]);
    let of_workspace = features("normal,build", &["--workspace"]);
    assert!(with_build_scripts.is_subset(&of_workspace), "{with_build_scripts:?}\n{of_workspace:?}");
}

/// The lines of a command's output. `cargo tree` marks repeated packages with `(*)`, which is removed, and writes an empty line between
/// the trees of packages.
fn lines(command: &mut Command) -> BTreeSet<String> {
    let output = command.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| line.trim_end_matches(" (*)").to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}

/// Formats are defined in three crates, one for each audience.
#[test]
fn only_formats_serialise() {
    for (folder, _) in ARROWS.iter().filter(|(folder, _)| !FORMATS.contains(folder)) {
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
