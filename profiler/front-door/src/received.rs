//! Runs that somebody has changed to harm their reader.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{
        fs::{MetadataExt as _, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process::Stdio,
};

use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::{Pid, Signal, kill_process},
};

use crate::{Door, KilledAtTheEnd, Said, executable, get, wait_until};

/// A text that stands outside of the runs, and that no command may show or copy.
const SECRET: &str = "name,submit_s,secret-of-the-reader";

/// Changes a run, with the folder outside of it.
type Make = Box<dyn Fn(&Path, &Path)>;

struct Change {
    /// What is changed, in words.
    about: String,
    make: Make,
    /// Words of the error with which the first command refuses the run. The others are not tried.
    error: Option<&'static str>,
}

/// Entries that no run has, their kinds, and words of the error that names them. A link that leads to a grant page lies in `jobs`.
const BESIDE: [(&str, &str, &str); 7] = [
    ("0001-a.control", "a symbolic link", "run/0001-a.control is a symbolic link"),
    ("events/0001-a.control", "a symbolic link", "run/events/0001-a.control is a symbolic link"),
    ("inputs/table-0/0001-a.control", "a symbolic link", "table-0/0001-a.control is a symbolic link"),
    ("jobs/0001-a.control", "a named pipe", "run/jobs/0001-a.control is a named pipe"),
    (
        "checkpoints/0001-a-1/model-0-0.safetensors",
        "a symbolic link",
        "model-0-0.safetensors is a symbolic link",
    ),
    ("checkpoints/0001-a-1/manifest.toml", "a named pipe", "0001-a-1/manifest.toml is a named pipe"),
    ("checkpoints/0001-a-1/below/it", "a socket", "0001-a-1/below/it is a socket"),
];

/// Runs commands on copies of a run that were changed in more than 25 ways: links out of the run in place of files and folders and
/// beside them, named pipes, sockets and devices, names that lead out of it, programs that it names, escape sequences, and a file without end.
///
/// `commands` are those of the door's program, with the run as `run`. Each must end by itself, or serve its page and its metrics and end by an interrupt, without
/// a panic, start no program of the run, and leave everything outside of the run as it was. What it prints and writes must have nothing of what stands there.
///
/// # Panics
/// A command does otherwise.
pub fn check_received(door: &Door, run: &Path, commands: &[&str]) {
    let outside = door.path("outside");
    fs::create_dir_all(outside.join("folder")).expect("the folder is writable");
    for file in
        ["secret", "folder/secret", "folder/secret.json", "folder/manifest.toml", "folder/summary.csv"]
    {
        fs::write(outside.join(file), SECRET).expect("the folder is writable");
    }
    executable(&outside.join("program"), "#!/bin/sh\n: > ../started\n: > started\n");
    let before = entries(&outside);
    for Change { about, make, error } in changes(run) {
        for command in if error.is_some() { &commands[..1] } else { commands } {
            let copy = door.path("run");
            copy_folder(run, &copy);
            make(&copy, &outside);
            let said = ends(door, command, &about);
            let name = door.program.file_name().expect("it has a name").display();
            let what = format!("{about}: {name} {command}\n{}\n{}", said.out, said.err);
            assert!(!said.err.contains("panicked"), "{what}");
            assert!(error.is_none_or(|error| said.err.contains(error)), "it is not refused: {what}");
            assert!(!said.out.contains('\u{1b}') && !said.err.contains('\u{1b}'), "{what}");
            assert!(!door.path("started").exists(), "a program was started: {what}");
            assert!(entries(&outside) == before, "something outside was changed: {what}");
            assert!(!(said.out + &said.err).contains("secret-of"), "something outside was shown: {what}");
            for written in ["run", "page", "written"].map(|name| door.path(name)) {
                let copied = with_secret(&written);
                assert!(
                    copied.is_none(),
                    "{} has a text from outside: {what}",
                    copied.unwrap_or_default().display()
                );
                let _ = fs::remove_dir_all(&written).or_else(|_| fs::remove_file(&written));
            }
        }
    }
}

/// The changes of which the run has the files.
fn changes(run: &Path) -> Vec<Change> {
    let mut changes = Vec::new();
    for (entry, kind, error) in BESIDE {
        let make = move |run: &Path, outside: &Path| {
            replace(run, entry, |at| match kind {
                "a symbolic link" => symlink(outside.join("secret"), at),
                "a named pipe" => Ok(mknodat(CWD, at, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?),
                _ => UnixListener::bind(at).map(drop),
            });
        };
        let about = format!("{entry} is {kind}");
        changes.push(Change { about, make: Box::new(make), error: Some(error) });
    }
    let mut add = |about: String, make: Make| changes.push(Change { about, make, error: None });
    let mut files = vec!["jobs/space.new".into(), "measurements.csv.new".into(), "summary.csv.new".into()];
    files.extend(files_of(run, ""));
    for file in files {
        let path = file.clone();
        add(
            format!("{file} is a link"),
            Box::new(move |run, outside| replace(run, &path, |at| symlink(outside.join("secret"), at))),
        );
    }
    for folder in ["jobs", "events", "log", "groups", "checkpoints", "inputs", "inputs/table-0"] {
        let make =
            move |run: &Path, outside: &Path| replace(run, folder, |at| symlink(outside.join("folder"), at));
        add(format!("{folder} is a link"), Box::new(make));
    }
    for file in [
        "manifest.toml",
        "summary.csv",
        "measurements.csv",
        "outcomes.csv",
        "decisions.jsonl",
        "end.toml",
        "host.csv",
    ] {
        let pipe = move |at: &Path| Ok(mknodat(CWD, at, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?);
        add(format!("{file} is a named pipe"), Box::new(move |run, _| replace(run, file, pipe)));
    }
    add(
        "summary.csv is a socket".into(),
        Box::new(|run, _| replace(run, "summary.csv", |at| UnixListener::bind(at).map(drop))),
    );
    add(
        "summary.csv is a device".into(),
        Box::new(|run, _| {
            // Without the right to make a device, the file stays as it is.
            let at = run.join("summary.csv");
            let zero = rustix::fs::makedev(1, 5);
            let other = run.join("other");
            if mknodat(CWD, &other, FileType::CharacterDevice, Mode::RUSR | Mode::WUSR, zero).is_ok() {
                fs::rename(other, at).expect("the run is writable");
            }
        }),
    );
    add(
        "summary.csv has no end".into(),
        Box::new(|run, _| {
            replace(run, "summary.csv", |at| fs::File::create(at)?.set_len(1 << 40));
        }),
    );
    for (about, from, to) in [
        ("a policy is a program", "policy = \"", "policy = \"exec:../outside/program;"),
        ("a command is a program", "command = [\"", "command = [\"outside/program\", \""),
        ("a catalog lies outside", "catalogs = []", "catalogs = [\"outside/secret\", \"/dev/zero\"]"),
        ("a device is another", "device = \"", "device = \"../outside/secret"),
        ("a cell has escape sequences", "name = \"", "name = \"\\u001b[31m"),
    ] {
        add(about.into(), Box::new(move |run, _| edit(&run.join("manifest.toml"), from, to)));
    }
    for (about, to) in [
        ("names lead out of the run", "../../outside/secret"),
        ("names are absolute", "/etc/hostname"),
        ("names have escape sequences", "a\u{1b}]0;title\u{7}b"),
    ] {
        add(
            about.into(),
            Box::new(move |run, _| {
                for table in ["measurements.csv", "summary.csv", "outcomes.csv", "predictions.csv"] {
                    rename_cells(&run.join(table), to);
                }
            }),
        );
    }
    changes
}

/// The files below a folder whose names a run of the kind has, without copies of tables.
fn files_of(run: &Path, below: &str) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(run.join(below)).into_iter().flatten().flatten() {
        let name = Path::new(below).join(entry.file_name()).to_string_lossy().into_owned();
        match entry.path().is_dir() {
            true if below.is_empty() => files.extend(files_of(run, &name)),
            true => {}
            false => files.push(name),
        }
    }
    files.sort();
    files
}

fn replace(run: &Path, file: &str, with: impl Fn(&Path) -> std::io::Result<()>) {
    let at = run.join(file);
    let _ = fs::remove_dir_all(&at).or_else(|_| fs::remove_file(&at));
    fs::create_dir_all(at.parent().expect("it lies in the run")).expect("the run is writable");
    with(&at).expect("the run is writable");
}

fn edit(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).expect("it is a text");
    fs::write(file, text.replace(from, to)).expect("the run is writable");
}

/// Puts a text before the first cell of each row but the header.
fn rename_cells(table: &Path, to: &str) {
    let Ok(text) = fs::read_to_string(table) else { return };
    let mut lines = text.lines().map(str::to_owned);
    let header = lines.next().unwrap_or_default();
    let renamed = lines.map(|line| {
        let cells = line.splitn(3, ',').collect::<Vec<_>>();
        [&[to, to], &cells[cells.len().min(2)..]].concat().join(",")
    });
    let all: Vec<String> = std::iter::once(header).chain(renamed).collect();
    fs::write(table, all.join("\n") + "\n").expect("the run is writable");
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the folder is writable");
    for entry in fs::read_dir(from).expect("it is a folder").flatten() {
        let at = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &at);
        } else if entry.path().is_file() {
            fs::copy(entry.path(), at).expect("the folder is writable");
        }
    }
}

/// Every entry below a folder, with the time of its last change and its size.
fn entries(folder: &Path) -> BTreeMap<PathBuf, (i64, i64, u64)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("it is a folder").flatten() {
        let metadata = entry.path().symlink_metadata().expect("it is there");
        all.insert(entry.path(), (metadata.mtime(), metadata.mtime_nsec(), metadata.size()));
        if metadata.is_dir() {
            all.extend(entries(&entry.path()));
        }
    }
    all
}

/// A file, below a path, that has the text from outside. Links are what the change has made, and are not followed.
fn with_secret(path: &Path) -> Option<PathBuf> {
    let metadata = path.symlink_metadata().ok()?;
    if metadata.is_dir() {
        return fs::read_dir(path).ok()?.flatten().find_map(|entry| with_secret(&entry.path()));
    }
    let is_short_file = metadata.is_file() && metadata.size() < 1 << 30;
    let has = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
    (is_short_file && fs::read(path).is_ok_and(|bytes| has(&bytes))).then(|| path.into())
}

/// Runs a command, which has to end by itself. A server is asked for its page and its metrics, which count as its output, and is then interrupted.
fn ends(door: &Door, arguments: &str, about: &str) -> Said {
    let mut command = door.command(arguments);
    let [out, err] = ["said.out", "said.err"].map(|name| door.path(name));
    let to = |path: &Path| Stdio::from(fs::File::create(path).expect("the folder is writable"));
    let child = command.stdin(Stdio::null()).stdout(to(&out)).stderr(to(&err)).spawn().expect("it starts");
    let mut child = KilledAtTheEnd(child);
    let text = |path: &Path| String::from_utf8_lossy(&fs::read(path).expect("it was written")).into_owned();
    let mut served = String::new();
    wait_until(&format!("`{arguments}` ends, where {about}"), || {
        if child.0.try_wait().expect("it is a child").is_some() {
            return true;
        }
        let said = text(&out);
        if let Some((address, _)) = said.strip_prefix("http://").and_then(|said| said.split_once("/\n"))
            && served.is_empty()
        {
            for target in ["/", "/metrics"] {
                let answer = get(address, target).expect("it answers");
                assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
                served += &answer;
            }
            kill_process(Pid::from_child(&child.0), Signal::INT).expect("it is not waited for");
        }
        false
    });
    Said { out: text(&out) + &served, err: text(&err) }
}
