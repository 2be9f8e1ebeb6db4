//! Programs of the catalog that run in the folder that their definition names.

use std::fs;

use front_door::Door;
use record::{calibration::Calibration, folder::SourceTree, rows::Status};

use super::{exits, git, with_program};

const DEFINITION: &str = r#"[[program]]
name = "mine"
command = "python3 train.py"
folder = "project"
batches = [8]
"#;

const RUN: &str = "single mine --catalog mine.toml --device cpu:0 --repeats 1 --steps 20";

/// A door with a project, which holds the program, and its definition. The program prints its folder.
fn with_project() -> Option<Door> {
    let door = with_program("print(os.getcwd(), flush=True)\ntrain()")?;
    for folder in ["project", "copy"] {
        fs::create_dir(door.path(folder)).expect("the folder is writable");
        fs::copy(door.path("train.py"), door.path(folder).join("train.py")).expect("it is copied");
    }
    fs::remove_file(door.path("train.py")).expect("it is ours");
    door.write("mine.toml", DEFINITION);
    Some(door)
}

/// The folder, in the folder of the test, that the only launch of a run has printed.
fn printed(door: &Door, run: &str) -> String {
    let launch = &door.measurements(run)[0].launch;
    let text = fs::read_to_string(door.run(run).stdout_path(launch, 0)).expect("its output is kept");
    let here = door.path("").canonicalize().expect("it is there");
    let first = text.lines().next().unwrap_or_default();
    first.strip_prefix(&*here.to_string_lossy()).unwrap_or(first).trim_matches('/').to_owned()
}

#[test]
fn a_program_runs_in_its_folder_and_cwd_comes_first() {
    let Some(door) = with_project() else { return };
    exits(0, &door, &format!("{RUN} --out r"), &[]);
    assert_eq!(printed(&door, "r"), "project");
    let manifest = door.run("r").manifest().expect("it reads");
    assert_eq!(manifest.cells[0].folder.as_deref(), Some("project"));
    let programs = manifest.folder.expect("it has programs").programs;
    assert_eq!(programs.keys().collect::<Vec<_>>(), ["project/train.py"]);
    assert_eq!(door.measurements("r")[0].status, Status::Ok);

    exits(0, &door, &format!("{RUN} --cwd copy --out other"), &[]);
    assert_eq!(printed(&door, "other"), "copy");
    let programs = door.run("other").manifest().expect("it reads").folder.expect("it has programs").programs;
    assert_eq!(programs.keys().collect::<Vec<_>>(), ["copy/train.py"]);
}

#[test]
fn members_of_groups_and_programs_that_are_calibrated_run_in_their_folder() {
    let Some(door) = with_project() else { return };
    let common = "--catalog mine.toml --device cpu:0";
    let group = "colocate mine synthetic-sleep --repeats 1 --seconds 1 --out g";
    exits(0, &door, &format!("{group} {common}"), &[]);
    let rows = door.measurements("g");
    assert!(rows.iter().all(|row| row.status == Status::Ok), "{rows:?}");
    exits(0, &door, &format!("calibrate mine --parts restart --repeats 2 {common} --out m.toml"), &[]);
    let calibrated = Calibration::read(&door.path("m.toml")).expect("it reads back");
    assert!(calibrated.restart.iter().all(|row| row.job == "mine@b8@dp1"), "{:?}", calibrated.restart);
    assert!(!calibrated.restart.is_empty());
}

#[test]
fn a_folder_that_is_not_there_is_refused_by_line_before_anything_starts() {
    let Some(door) = with_project() else { return };
    door.write("other.toml", &format!("# Two lines\n\n{}", DEFINITION.replace("project", "projekt")));
    door.write("empty.toml", &DEFINITION.replace("\"project\"", "\"\""));
    door.write("braces.toml", &DEFINITION.replace("\"project\"", "\"run-{lr}\""));
    let gone = "other.toml: line 3: program 'mine': folder: there is no folder 'projekt' here; make it, or name another";
    for (file, words) in [
        ("other.toml", gone),
        ("empty.toml", "empty.toml: line 1: program 'mine': folder: expected a path"),
        ("braces.toml", "braces.toml: line 1: program 'mine': folder: {lr} is not filled in here"),
    ] {
        for command in [
            "single mine --device cpu:0 --out r",
            "colocate mine mine --device cpu:0 --out r",
            "calibrate mine --parts restart --device cpu:0 --out r",
        ] {
            let said = exits(2, &door, &format!("{command} --catalog {file}"), &[]);
            assert!(said.err.contains(words), "{command} {file}: {}", said.err);
            assert!(!door.path("r").exists(), "{command} {file}");
        }
    }
    exits(
        0,
        &door,
        "single mine --device cpu:0 --catalog other.toml --cwd copy --steps 5 --repeats 1 --out r",
        &[],
    );
    // Its program is looked for in its folder.
    door.write("absent.toml", &DEFINITION.replace("python3 train.py", "./train.sh"));
    let said = exits(2, &door, "single mine --device cpu:0 --catalog absent.toml --out s", &[]);
    assert!(said.err.contains("there is no program './train.sh' in project"), "{}", said.err);
}

#[test]
fn the_manifest_has_the_revision_of_the_folder_and_a_resumed_run_compares_it() {
    let Some(door) = with_project() else { return };
    let git = |arguments: &str| git(&door.path("project"), arguments);
    if git("init -q").is_none() {
        schema::skips::skipped("git", "there is no git");
        return;
    }
    door.write("project/notes", "one\n");
    git("add train.py notes").and_then(|_| git("commit -qm x")).expect("git commits");
    door.write("project/notes", "two\n");
    exits(1, &door, &format!("{RUN} --budget 1ns --out r"), &[]);
    let folder = door.run("r").manifest().expect("it reads").folder.expect("it has programs");
    let head = git("rev-parse HEAD").expect("there is a revision").stdout;
    let head = String::from_utf8_lossy(&head).trim().to_owned();
    assert_eq!(folder.source_tree, None, "no program runs in the folder of the test");
    let tree = SourceTree { revision: head, dirty: true };
    assert_eq!(folder.source_trees.into_iter().collect::<Vec<_>>(), [("project".to_owned(), tree)]);

    git("commit -qam y").expect("git commits");
    let said = exits(2, &door, "single --resume r --budget 1h", &[]);
    assert!(said.err.contains("the run would start 'python3 train.py, in project'"), "{}", said.err);
    let said = exits(0, &door, "single --resume r --budget 1h --yes", &[]);
    assert!(said.err.contains("the source tree of its programs in 'project' has changed"), "{}", said.err);
    assert_eq!(printed(&door, "r"), "project");

    exits(1, &door, &format!("{RUN} --budget 1ns --out s"), &[]);
    fs::rename(door.path("project"), door.path("moved")).expect("it is ours");
    let said = exits(2, &door, "single --resume s --budget 1h --yes", &[]);
    assert!(said.err.contains("the folder 'project' of its programs is not there any more"), "{}", said.err);
}
