//! Files of a run that are read and written whole: TOML and JSON, each with the version of its format.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    path::{Component, Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    FORMAT,
    unfinished::{self, Unfinished},
    units::HumanBytes,
};

/// A file of a run that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{}: {cause}", file.display())]
    Io { file: PathBuf, cause: io::Error },
    #[error("{} cannot be written: {cause}", file.display())]
    Write { file: PathBuf, cause: io::Error },
    #[error("{} is no run: it has no manifest.toml", dir.display())]
    NoRun { dir: PathBuf },
    #[error("{} already holds a run; name another directory", dir.display())]
    Exists { dir: PathBuf },
    #[error(
        "{} already holds {}; a new run begins in a new or an empty directory, so that no file of yours is replaced; name another",
        dir.display(),
        entry.display()
    )]
    NotEmpty { dir: PathBuf, entry: PathBuf },
    #[error(
        "{} holds the beginning of a run that was killed before it had a manifest, or that begins right now; name another directory, or \
         remove this one if it has no file of yours",
        dir.display()
    )]
    Begun { dir: PathBuf },
    #[error("{} is {kind}, and a run has files and folders alone; put the file itself there, or remove it", path.display())]
    Kind { path: PathBuf, kind: &'static str },
    #[error("{}: {message}", file.display())]
    Parse { file: PathBuf, message: String },
    #[error("{}: {name:?} is no name of a file of the run; the run was changed, so take another copy of it", file.display())]
    Name { file: PathBuf, name: String },
    #[error("{}: format {found} is newer than this program, which reads up to {known}; update Tandem", file.display())]
    Newer { file: PathBuf, found: u32, known: u32 },
}

/// Replaces a file atomically: also after a kill or a power cut, a reader finds the old or the new one.
pub fn replace(path: &Path, text: &str) -> Result<(), RunError> {
    let io = |cause| RunError::Write { file: path.into(), cause };
    begin(path, text).and_then(Unfinished::put).map_err(io)
}

pub fn begin(path: &Path, text: &str) -> io::Result<Unfinished> {
    let (mut file, unfinished) = unfinished::begin(path)?;
    file.write_all(text.as_bytes())?;
    Ok(unfinished)
}

pub fn read(path: &Path) -> Result<String, RunError> {
    read_text(path).map_err(|cause| RunError::Io { file: path.into(), cause })
}

/// Reads a whole file that is no table, up to a limit of its length.
pub fn read_text(path: &Path) -> io::Result<String> {
    const LONGEST_BYTES: u64 = 256 << 20;
    let mut text = String::new();
    fs::File::open(path)?.take(LONGEST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST_BYTES {
        let why = format!("it is longer than {}, the longest that is read", HumanBytes(LONGEST_BYTES));
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(text)
}

/// Refuses a newer format before another difference of it can cause a misleading error.
pub fn check_format(path: &Path, found: Option<u64>, known: u32) -> Result<(), RunError> {
    match found {
        Some(found) if found > u64::from(known) => {
            let found = u32::try_from(found).unwrap_or(u32::MAX);
            Err(RunError::Newer { file: path.into(), found, known })
        }
        Some(_) => Ok(()),
        None => Err(RunError::Parse { file: path.into(), message: "has no 'format'".into() }),
    }
}

pub fn write_toml(path: &Path, value: &impl Serialize) -> Result<(), RunError> {
    replace(path, &to_toml(path, value)?)
}

/// The text of the file at `path`.
pub fn to_toml(path: &Path, value: &impl Serialize) -> Result<String, RunError> {
    toml::to_string(value).map_err(|e| RunError::Parse { file: path.into(), message: e.to_string() })
}

pub fn read_toml<T: DeserializeOwned>(path: &Path) -> Result<T, RunError> {
    let text = read(path)?;
    let parse = |e: toml::de::Error| {
        let line = e.span().map_or(1, |s| text[..s.start.min(text.len())].matches('\n').count() + 1);
        RunError::Parse { file: path.into(), message: format!("line {line}: {}", e.message()) }
    };
    let table: toml::Table = text.parse().map_err(parse)?;
    check_format(path, table.get("format").and_then(toml::Value::as_integer).map(|n| n as u64), FORMAT)?;
    toml::from_str(&text).map_err(parse)
}

pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), RunError> {
    let mut text = serde_json::to_string_pretty(value)
        .map_err(|e| RunError::Parse { file: path.into(), message: e.to_string() })?;
    text.push('\n');
    replace(path, &text)
}

pub fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, RunError> {
    let (text, _) = read_checked(path, FORMAT)?;
    parse_json(path, &text)
}

/// As [`read_json`], of a file with a format of its own, of which `known` is the newest; `None` if it is an older one.
pub fn read_json_of<T: DeserializeOwned>(path: &Path, known: u32) -> Result<Option<T>, RunError> {
    let (text, format) = read_checked(path, known)?;
    if format < u64::from(known) { Ok(None) } else { parse_json(path, &text).map(Some) }
}

/// The text of a JSON file, and its format, which is not newer than `known`.
fn read_checked(path: &Path, known: u32) -> Result<(String, u64), RunError> {
    let text = read(path)?;
    let value: serde_json::Value = parse_json(path, &text)?;
    let format = value.get("format").and_then(serde_json::Value::as_u64);
    check_format(path, format, known)?;
    Ok((text, format.unwrap_or_default()))
}

fn parse_json<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, RunError> {
    // Messages of serde_json end with line and column.
    let parse = |e: serde_json::Error| RunError::Parse { file: path.into(), message: e.to_string() };
    serde_json::from_str(text).map_err(parse)
}

/// Refuses a name that leads out of its folder.
pub fn check_name(file: &Path, name: &str) -> Result<(), RunError> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(()),
        _ => Err(RunError::Name { file: file.into(), name: name.into() }),
    }
}
