//! The folder, the environment and the words that each launch of a program is given.

use std::{fs, path::PathBuf};

use front_door::{Door, Said};
use record::rows::{ErrorKind, Status};

use super::{exits, git, row};

const RUN: &str = "single --device cpu:0 --out r";

/// What each launch of the run `r` printed, in order.
fn printed(door: &Door) -> Vec<String> {
    let print = |launch: String| {
        fs::read_to_string(door.run("r").stdout_path(&launch, 0)).expect("its output is kept")
    };
    door.run("r").launches().expect("they are listed").into_iter().map(print).collect()
}

fn folder(door: &Door, name: &str) -> PathBuf {
    fs::create_dir_all(door.path(name)).expect("the folder is writable");
    door.path(name).canonicalize().expect("it was made")
}

#[test]
fn each_launch_writes_into_a_folder_of_its_own_that_stays() {
    let door = crate::door();
    door.write("refuses.sh", "mkdir \"$1\" || exit 1\necho result > \"$1/file\"\nln -s file \"$1/latest\"\n");
    let program = ["--", "sh", "refuses.sh", "{launch}/out"];
    exits(0, &door, &format!("{RUN} --repeats 2"), &program);
    let launches = door.run("r").launches().expect("a link among the results hinders no reader");
    assert_eq!(launches.len(), 2);
    for launch in &launches {
        let result = door.path("r/outputs").join(launch).join("out/latest");
        assert_eq!(fs::read_to_string(result).expect("it stays"), "result\n");
    }
    let summaries = door.summaries("r");
    assert_eq!((summaries.len(), summaries[0].repeats, summaries[0].repeats_failed), (1, 2, 0));
    assert_eq!(summaries[0].command.as_deref(), Some("sh refuses.sh '{launch}/out'"));
    // Another run has other folders, and the same row.
    exits(0, &door, "single --device cpu:0 --out s --repeats 1", &program);
    assert_eq!(door.summaries("s")[0].job, summaries[0].job);
    for text in [door.run("r").manifest_path(), door.run("r").spec_path(&launches[0])] {
        let text = fs::read_to_string(text).expect("it reads");
        assert!(!text.contains(&*door.path("r").to_string_lossy()), "no path that was not typed: {text}");
    }
}

#[test]
fn three_words_are_filled_in_and_all_other_braces_are_the_programs_own() {
    let door = crate::door();
    let script = r#"printf '%s\n' "$@" "$A""#;
    let words = ["{run}", "x{repeat}{repeat}", "{{launch}}", "{\"a\": {}}", "{print $1}", "{Launch}"];
    let program = [&["--env", "A={repeat}/{x}", "--", "sh", "-c", script, "sh"][..], &words].concat();
    exits(0, &door, &format!("{RUN} --repeats 2"), &program);
    let run = folder(&door, "r");
    let lines = |repeat: u32| {
        let run = run.display();
        format!(
            "{run}\nx{repeat}{repeat}\n{{launch}}\n{{\"a\": {{}}}}\n{{print $1}}\n{{Launch}}\n{repeat}/{{x}}\n"
        )
    };
    assert_eq!(printed(&door), [lines(0), lines(1)]);
    assert!(!door.path("r/outputs").exists(), "no word needs it");
}

#[test]
fn a_program_runs_in_the_folder_of_cwd_and_its_paths_count_from_there() {
    let door = crate::door();
    let sub = folder(&door, "sub");
    front_door::executable(&sub.join("own.sh"), "#!/bin/sh\ncat; pwd -P; echo $A-$B\n");
    door.write("input", "input\n");
    let options = ["--cwd", "sub", "--env", "A=a b", "--env", "B=", "--input", "input", "--", "./own.sh"];
    exits(0, &door, &format!("{RUN} --repeats 1"), &options);
    assert_eq!(printed(&door), [format!("input\n{}\na b-\n", sub.display())]);
    fs::remove_dir_all(door.path("r")).expect("it is ours");

    exits(0, &door, &format!("{RUN} --repeats 1"), &["--cwd", "{launch}", "--", "sh", "-c", "echo x > here"]);
    let launch = row(&door).launch;
    assert!(door.path("r/outputs").join(launch).join("here").exists());
    fs::remove_dir_all(door.path("r")).expect("it is ours");

    exits(1, &door, &format!("{RUN} --repeats 1"), &["--cwd", "{launch}/no", "--", "true"]);
    let row = row(&door);
    assert_eq!((row.status, row.err), (Status::Failed, Some(ErrorKind::Start)));
    let detail = row.err_detail.unwrap_or_default();
    assert!(detail.contains("there is no folder {launch}/no for the program to run in"), "{detail}");
}

#[test]
fn a_module_path_of_the_user_comes_after_the_hook() {
    let Some(door) = super::with_program("import mine\ntrain(40)") else { return };
    folder(&door, "modules");
    door.write("modules/mine.py", "");
    let fake = super::root().join("workloads/python/tests/fake");
    let path = format!("PYTHONPATH={}:modules", fake.display());
    exits(0, &door, &format!("{RUN} --repeats 1"), &["--env", &path, "--", "python3", "train.py"]);
    let row = row(&door);
    assert_eq!((row.timing, row.steps_total), (Some(schema::wire::Timing::Hook), 40));
}

#[test]
fn the_manifest_has_the_revision_of_the_programs_source_tree() {
    let door = crate::door();
    folder(&door, "sub");
    door.write("sub/t.sh", "true\n");
    let git = |arguments: &str| git(&door.path("sub"), arguments);
    if git("init -q").is_none() {
        schema::skips::skipped("git", "there is no git");
        return;
    }
    let source_tree = |out: &str| {
        exits(
            0,
            &door,
            "single --device cpu:0 --repeats 1",
            &["--cwd", "sub", "--out", out, "--", "sh", "t.sh"],
        );
        door.run(out).manifest().expect("it reads").folder.expect("it has programs").source_tree
    };
    assert_eq!(source_tree("none"), None, "no revision");
    git("add t.sh").and_then(|_| git("commit -qm x")).expect("git commits");
    let head = git("rev-parse HEAD").expect("there is a revision").stdout;
    let clean = source_tree("clean").expect("git is there");
    assert_eq!((clean.revision.as_bytes(), clean.dirty), (head.trim_ascii(), false));
    door.write("sub/t.sh", "true again\n");
    let dirty = source_tree("dirty").expect("git is there");
    assert_eq!((dirty.revision, dirty.dirty), (clean.revision, true));

    let begin = ["--budget", "1ns", "--cwd", "sub", "--out", "resumed", "--", "sh", "t.sh"];
    exits(1, &door, "single --device cpu:0 --repeats 1", &begin);
    git("commit -qam y").expect("git commits");
    let said = door.exits(0, "single --resume resumed --budget 1h --yes");
    assert!(said.err.contains("the source tree of its programs has changed"), "{}", said.err);
    assert!(!door.path("sub/.git/index.lock").exists());
}

#[test]
fn a_message_names_the_folder_as_typed() {
    let door = crate::door();
    let script = "echo cannot write \"$1\" >&2; exit 3";
    exits(1, &door, &format!("{RUN} --repeats 1"), &["--", "sh", "-c", script, "sh", "{launch}/x"]);
    let detail = row(&door).err_detail.unwrap_or_default();
    assert!(detail.contains("says \"cannot write {launch}/x\""), "{detail}");
}

#[test]
fn a_run_goes_on_with_its_folder_and_its_variables() {
    let door = crate::door();
    folder(&door, "sub");
    door.write("sub/t.sh", "echo $A; touch {launch} started\n");
    let begin = format!("{RUN} --repeats 1 --budget 1ns --cwd sub --env A=x");
    exits(1, &door, &begin, &["--", "sh", "t.sh", "{launch}"]);
    let mut command = door.command("single --resume r --budget 1h");
    let said = Said::of(&command.stdin(std::process::Stdio::null()).output().expect("profile starts"));
    assert!(
        said.err.contains("  sh t.sh {launch}, in sub, with A=x") && said.err.contains("--yes"),
        "{}",
        said.err
    );
    assert!(!door.path("sub/started").exists());
    let resume = "single --resume r --budget 1h --yes";

    fs::rename(door.path("sub"), door.path("other")).expect("it is ours");
    let said = door.exits(2, resume);
    assert!(said.err.contains("t.sh\" has changed") || said.err.contains("--cwd sub"), "{}", said.err);
    fs::rename(door.path("other"), door.path("sub")).expect("it is ours");
    door.write("sub/t.sh", "echo $A other\n");
    let said = door.exits(2, resume);
    assert!(said.err.contains("the program \"sub/t.sh\" has changed"), "{}", said.err);
    door.write("sub/t.sh", "echo $A; touch {launch} started\n");
    door.exits(0, resume);
    assert_eq!(printed(&door), ["x\n"]);
    assert!(door.path("sub/started").exists());
}

#[test]
fn programs_of_groups_are_given_the_same() {
    let door = crate::door();
    folder(&door, "sub");
    let run =
        "colocate synthetic-sleep --device cpu:0 --repeats 1 --seconds 0.2 --out r --cwd sub --env A=x --cmd";
    exits(0, &door, run, &["sh -c 'mkdir $1/out && echo $A >> log && exec sleep 0.3' sh {launch}"]);
    let log = fs::read_to_string(door.path("sub/log")).expect("it was written in the folder");
    let made = fs::read_dir(door.path("r/outputs")).expect("each launch has one").count();
    assert!(made >= 3 && log.lines().count() >= 3 && log.lines().all(|line| line == "x"), "{made}: {log}");
}

#[test]
fn what_a_program_cannot_be_given_is_refused_before_anything_starts() {
    let door = crate::door();
    folder(&door, "sub");
    for (arguments, words) in [
        ("--cwd none -- true", "--cwd none: there is no such folder"),
        ("--cwd sub -- ./none", "there is no program './none' in sub"),
        ("--env A -- true", "expected KEY=VALUE"),
        ("--env =b -- true", "a variable has a name of letters"),
        ("--env 1A=b -- true", "a variable has a name of letters"),
        ("--env A=1 --env A=2 -- true", "--env names A twice"),
        ("--env TANDEM_EVENTS=x -- true", "--env TANDEM_EVENTS: the harness sets this variable"),
        ("--env CUDA_MPS_PIPE_DIRECTORY=x -- true", "--env CUDA_MPS_PIPE_DIRECTORY: --sharing sets"),
        ("--threads 2 --env OMP_NUM_THREADS=1 -- true", "--env OMP_NUM_THREADS: --threads sets"),
        ("--steps-regex x --env PYTHONUNBUFFERED=0 -- true", "PYTHONUNBUFFERED: --steps-regex sets"),
        ("--env PATH=sub -- true", "there is no program 'true'"),
        ("synthetic-sleep --cwd sub", "--cwd applies to programs only"),
        ("synthetic-sleep --env A=b", "--env applies to programs only"),
    ] {
        let said = exits(2, &door, &format!("{RUN} {arguments}"), &[]);
        assert!(said.err.contains(words), "{arguments}: {}", said.err);
        assert!(!door.path("r").exists(), "{arguments}");
    }
}
