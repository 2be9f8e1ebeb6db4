//! The folder and the environment that the user chooses for programs.

use std::{collections::BTreeMap, env, ffi::OsString, path::Path, str::FromStr};

use anyhow::{bail, ensure};
use record::manifest::{Cell, Settings};
use rig::{has_words, programs, who_sets};
use schema::{device::Device, surroundings::Surroundings};

/// A variable of the environment, typed as `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    name: String,
    value: String,
}

impl FromStr for Variable {
    type Err = String;

    fn from_str(text: &str) -> Result<Variable, String> {
        let (name, value) =
            text.split_once('=').ok_or("expected KEY=VALUE; a value may be empty, as in KEY=")?;
        if !is_name(name) {
            return Err("a variable has a name of letters, digits and _, which begins with no digit".into());
        }
        Ok(Variable { name: name.into(), value: value.into() })
    }
}

/// Whether a text is the name of a variable for a shell.
pub(crate) fn is_name(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty() && text.chars().all(is_word) && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// The surroundings that these options describe.
///
/// # Errors
/// A variable is named twice, or there is no such folder.
pub fn make(cwd: Option<&str>, variables: &[Variable]) -> anyhow::Result<Surroundings> {
    let mut environment = BTreeMap::new();
    for Variable { name, value } in variables {
        if environment.insert(name.clone(), value.clone()).is_some() {
            bail!("--env names {name} twice; name it once");
        }
    }
    let surroundings = Surroundings { cwd: cwd.map(str::to_owned), environment, ..Surroundings::default() };
    check_cwd(Some(&surroundings))?;
    Ok(surroundings)
}

/// Checks that the folder exists, unless a word in it is filled in for each launch.
///
/// # Errors
/// There is no such folder.
pub fn check_cwd(surroundings: Option<&Surroundings>) -> anyhow::Result<()> {
    let cwd = surroundings.and_then(|surroundings| surroundings.cwd.as_deref());
    let Some(cwd) = cwd.filter(|cwd| !has_words(cwd)) else { return Ok(()) };
    ensure!(Path::new(cwd).is_dir(), "--cwd {cwd}: there is no such folder; make it, or name another");
    Ok(())
}

/// Checks that the user has chosen no variable which the harness sets for a program on this device.
///
/// # Errors
/// The harness sets a variable of these.
pub fn check_variables(
    surroundings: &Surroundings,
    device: &Device,
    sets: (bool, bool),
) -> anyhow::Result<()> {
    let mut names = surroundings.environment.keys();
    match names.find_map(|name| Some((name, who_sets(name, device, sets)?))) {
        Some((name, who)) => {
            bail!("--env {name}: {who} sets this variable of a program; remove it from --env")
        }
        None => Ok(()),
    }
}

/// The folder to which relative paths in a command refer. `None` if the folder is known only when a launch begins.
pub(crate) fn folder_of_words(surroundings: Option<&Surroundings>) -> Option<&Path> {
    match surroundings.and_then(|surroundings| surroundings.cwd.as_deref()) {
        Some(cwd) if has_words(cwd) => None,
        cwd => Some(Path::new(cwd.unwrap_or_default())),
    }
}

/// The folder that the definition of a cell's program names, unless the user has named another one for all programs.
pub(crate) fn own_folder<'a>(settings: &Settings, cell: &'a Cell) -> Option<&'a str> {
    let named = settings.surroundings.as_ref().and_then(|surroundings| surroundings.cwd.as_ref());
    cell.folder.as_deref().filter(|_| named.is_none())
}

/// The folder to which relative paths in a cell's command refer. `None` if the folder is known only when a launch begins.
pub(crate) fn folder_of_cell<'a>(settings: &'a Settings, cell: &'a Cell) -> Option<&'a Path> {
    match own_folder(settings, cell) {
        Some(own) => Some(Path::new(own)),
        None => folder_of_words(settings.surroundings.as_ref()),
    }
}

/// The value of `PATH` with its relative entries joined to this folder. An unknown folder leaves the entries as they are.
fn seen_from(folder: Option<&Path>, path: &str) -> OsString {
    let entries = env::split_paths(path).map(|entry| folder.unwrap_or(Path::new("")).join(entry));
    env::join_paths(entries).unwrap_or_else(|_| path.into())
}

/// Whether a program can be started in these surroundings, as far as this is known before a launch.
pub(crate) fn has_program(surroundings: &Surroundings, program: &str) -> bool {
    let path = surroundings.environment.get("PATH");
    let folder = folder_of_words(Some(surroundings));
    match folder {
        _ if has_words(program) => true,
        None if program.contains('/') && Path::new(program).is_relative() => true,
        Some(folder) if program.contains('/') => programs::is_there(&folder.join(program).to_string_lossy()),
        _ => match path {
            Some(path) => has_words(path) || programs::is_on(&seen_from(folder, path), program),
            None => programs::is_there(program),
        },
    }
}
