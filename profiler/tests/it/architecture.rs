//! The dependencies between crates in the manifests are exactly those of ARCHITECTURE.md, and modules of `scheduler` keep apart what decides
//! and what happens.

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

/// Modules of `scheduler` with the modules that they never use. Policies and the engine do not know where jobs run, and what runs jobs
/// knows neither.
const NEVER: &[(&str, &[&str])] = &[
    ("policy", &["engine", "launch", "sim", "testbed", "online", "cmd"]),
    ("engine", &["launch", "sim", "testbed", "online", "cmd"]),
    ("launch", &["engine", "policy", "sim", "testbed", "online", "cmd"]),
    ("sim", &["engine", "policy", "testbed", "online", "cmd"]),
    ("testbed", &["engine", "policy", "sim", "online", "cmd"]),
];

/// Those of them that read no files and start no processes, and what they therefore never use.
const PURE: [&str; 3] = ["engine", "launch", "sim"];
const OUTSIDE: [&str; 5] = ["fs", "process", "rig", "jobs", "colocate"];

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
fn what_decides_and_what_runs_jobs_do_not_use_each_other() {
    let source = root().join("scheduler/src");
    for (module, never) in NEVER {
        let mut files = vec![source.join(module).with_extension("rs")];
        files.retain(|file| file.exists());
        add_files(&source.join(module), &mut files);
        assert!(files.len() > 1, "{module} has no files");
        for file in files {
            let text = fs::read_to_string(&file).expect("a file of the checkout");
            let used = used(&text);
            let outside: &[&str] = if PURE.contains(module) { &OUTSIDE } else { &[] };
            let forbidden = never.iter().chain(outside).find(|name| used.contains(**name));
            assert_eq!(forbidden, None, "{}", file.display());
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

/// What the code of a file uses before its tests: modules of its own crate by their names, and crates.
fn used(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().expect("a split has a first part");
    let lines: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = lines.join("\n");
    let mut used = BTreeSet::new();
    for name in OUTSIDE {
        let is_part = |before: char| before.is_alphanumeric() || "_.".contains(before);
        if code.match_indices(&format!("{name}::")).any(|(at, _)| !code[..at].ends_with(is_part)) {
            used.insert(name.to_owned());
        }
    }
    for (at, path) in code.match_indices("crate::") {
        let rest = &code[at + path.len()..];
        match rest.strip_prefix('{') {
            None => used.extend([first_word(rest)]),
            Some(list) => used.extend(first_words(list)),
        }
    }
    used
}

/// The first word of each entry of a list in braces, whose first brace is left out.
fn first_words(list: &str) -> Vec<String> {
    let (mut words, mut depth, mut is_first) = (Vec::new(), 0, true);
    for part in list.split_inclusive([',', '{', '}']) {
        let word = first_word(part.trim_start());
        if depth == 0 && is_first && !word.is_empty() {
            words.push(word);
        }
        is_first = part.ends_with([',', '}']);
        depth += i32::from(part.ends_with('{')) - i32::from(part.ends_with('}'));
        if depth < 0 {
            break;
        }
    }
    words
}

fn first_word(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

#[test]
fn uses_are_found_in_lists_and_paths() {
    let text = "use crate::{\n    job::{Job, engine},\n    sim,\n};\nfn f() { crate::online::g(); rig::note(); }\n// crate::cmd\n";
    assert_eq!(used(text), ["job", "online", "rig", "sim"].map(str::to_owned).into());
    let test = "#[cfg(test)]\nmod tests;\nuse crate::job::Job;\n#[cfg(test)]\nmod tests { use crate::sim; }";
    assert_eq!(used(test), ["job"].map(str::to_owned).into());
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
