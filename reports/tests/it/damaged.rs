//! Runs that are incomplete, damaged or of a later version: a page that says so, or one clear error.

use std::{
    fs,
    path::{Path, PathBuf},
};

use front_door::Door;

fn door() -> Door {
    Door::new(env!("CARGO_BIN_EXE_report"))
}

fn record(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("record").join(name)
}

/// A copy of the files of a record, with one of them changed, or removed if there is no text.
fn copy(door: &Door, name: &str, from: &str, file: &str, change: impl Fn(String) -> Option<String>) {
    let folder = door.path(name);
    fs::create_dir_all(&folder).expect("the folder is writable");
    for entry in fs::read_dir(record(from)).expect("a record").filter_map(Result::ok) {
        if entry.path().is_file() {
            fs::copy(entry.path(), folder.join(entry.file_name())).expect("the folder is writable");
        }
    }
    match change(fs::read_to_string(folder.join(file)).expect("it is a file of the record")) {
        Some(text) => fs::write(folder.join(file), text).expect("the folder is writable"),
        None => fs::remove_file(folder.join(file)).expect("the folder is writable"),
    }
}

const SINGLE: &str = "20261121-epyc";
const PAIRS: &str = "20261123-epyc/colocate/all-pairs-1";
const TRACE: &str = "20261124-epyc/testbed/tiresias";

#[test]
fn a_table_that_cannot_be_read_is_named_on_the_page_and_on_the_terminal() {
    let door = door();
    // The file ends within its first row.
    let half = |text: String| Some(text[..text.find('\n').expect("a header") + 40].to_owned());
    let emptied = |_: String| Some(String::new());
    let garbled = |text: String| Some(text.replacen(",ok,", ",fine,", 1));
    for (number, (from, file, change)) in [
        (SINGLE, "summary.csv", &half as &dyn Fn(String) -> Option<String>),
        (SINGLE, "measurements.csv", &emptied),
        (PAIRS, "interference.csv", &half),
        (PAIRS, "summary.csv", &garbled),
        (TRACE, "outcomes.csv", &half),
        (TRACE, "predictions.csv", &garbled),
        (TRACE, "draws.csv", &emptied),
        (TRACE, "end.toml", &|_| Some("exit = \"".into())),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("run-{number}");
        copy(&door, &name, from, file, change);
        let said = door.exits(0, &format!("{name} --out page-{number}"));
        assert!(said.err.contains(file), "{file}: {}", said.err);
        let page = fs::read_to_string(door.path(&format!("page-{number}/index.html"))).expect("a page");
        assert!(page.contains("Not readable") && page.contains(file), "{from} {file}");
        assert!(!page.contains(&door.path("").display().to_string()), "paths are relative to the run");
    }
}

#[test]
fn a_journal_is_drawn_up_to_the_line_that_cannot_be_read() {
    let door = door();
    let torn = |text: String| Some(text[..text.len() * 2 / 3].to_owned());
    copy(&door, "torn", TRACE, "decisions.jsonl", torn);
    let garbled = |text: String| {
        let lines: Vec<&str> = text.lines().collect();
        let middle = lines.len() / 2;
        Some(format!("{}\nno turn\n{}\n", lines[..middle].join("\n"), lines[middle..].join("\n")))
    };
    copy(&door, "garbled", TRACE, "decisions.jsonl", garbled);
    let spans = |run: &str| door.exits(0, &format!("table gantt {run} --csv")).out.lines().count();
    let whole = spans(&record(TRACE).display().to_string());
    for run in ["torn", "garbled"] {
        let found = spans(run);
        assert!(found > 3 && found < whole, "{run}: {found} of {whole}");
    }
    let said = door.exits(0, "table gantt garbled");
    assert!(said.err.contains("decisions.jsonl") && said.err.contains("not a turn"), "{}", said.err);
}

#[test]
fn files_that_are_missing_are_no_error() {
    let door = door();
    for (number, (from, file)) in [
        (SINGLE, "measurements.csv"),
        (SINGLE, "summary.csv"),
        (SINGLE, "end.toml"),
        (PAIRS, "interference.csv"),
        (TRACE, "decisions.jsonl"),
        (TRACE, "outcomes.csv"),
        (TRACE, "predictions.csv"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("run-{number}");
        copy(&door, &name, from, file, |_| None);
        let said = door.exits(0, &format!("{name} --out page-{number}"));
        assert_eq!(said.err, "", "{from} {file}");
    }
    let said = door.exits(4, "table fidelity run-0");
    assert!(said.err.contains("the runs have no data for the figure 'fidelity'"), "{}", said.err);
}

#[test]
fn what_is_no_run_is_one_clear_error() {
    let door = door();
    copy(&door, "later", SINGLE, "manifest.toml", |text| Some(text.replacen("format = 1", "format = 99", 1)));
    copy(&door, "no-toml", SINGLE, "manifest.toml", |_| Some("format = [".into()));
    fs::create_dir(door.path("empty")).expect("the folder is writable");
    door.write("file", "text");
    for (code, arguments, message) in [
        (2, "later", "later/manifest.toml: format 99 is newer than this program"),
        (2, "no-toml", "no-toml/manifest.toml: "),
        (2, "absent", "absent is no run, and no folder of runs"),
        (2, "file", "file is no run, and no folder of runs"),
        (4, "empty", "no run is below the directories that were named"),
        (2, "table nothing later", "there is no figure 'nothing'; `report table` lists them"),
        (2, "table summary", "name the runs, as in `report table summary runs/RUN`"),
        (2, "compare later later", "format 99 is newer"),
        (2, "serve absent", "absent is no run"),
        (2, "splice absent.md empty", "absent.md"),
    ] {
        let said = door.exits(code, arguments);
        assert!(said.err.contains(message), "{arguments}: {}", said.err);
        assert_eq!(said.err.matches("error: ").count(), 1, "{arguments}: {}", said.err);
    }
}

#[test]
fn a_folder_that_is_no_report_is_left_alone() {
    let door = door();
    let run = record(SINGLE).display().to_string();
    fs::create_dir(door.path("mine")).expect("the folder is writable");
    door.write("mine/index.html", "my own page");
    let said = door.exits(2, &format!("{run} --out mine"));
    assert!(
        said.err.contains("mine exists and is no report; remove it, or name another folder"),
        "{}",
        said.err
    );
    assert_eq!(fs::read_to_string(door.path("mine/index.html")).expect("it is there"), "my own page");
    // An older report is replaced, with all of its files.
    door.exits(0, &format!("{run} --out page"));
    door.write("page/figures/older.csv", "a\n1\n");
    door.exits(0, &format!("{run} --out page"));
    assert!(!door.path("page/figures/older.csv").exists());
}
