//! Workloads by the names that a user gives: `NAME` for one, `set:NAME` for those of a set.

use anyhow::Context as _;
use rig::{Exit, programs};
use schema::catalog::{Catalog, CatalogEntry, Workload};

/// The prefix of the name of a set; no workload's name has a colon.
const SET: &str = "set:";

/// Whether `name` is the name of a set, known or not.
pub fn is_set(name: &str) -> bool {
    name.starts_with(SET)
}

/// The workloads that `name` stands for, never none; those of a set in the order of their names.
///
/// # Errors
/// The catalog does not have the name.
pub fn workloads<'a>(catalog: &'a Catalog, name: &str) -> anyhow::Result<Vec<&'a Workload>> {
    let Some(set) = name.strip_prefix(SET) else { return Ok(vec![workload(catalog, name)?]) };
    let members: Vec<_> = catalog.set(set).collect();
    if members.is_empty() {
        let sets: Vec<_> = catalog.sets().into_iter().collect();
        let message = format!("there is no set '{set}'; the catalog has {}", sets.join(", "));
        return Err(Exit::NothingMatched.because(message));
    }
    Ok(members)
}

/// The workloads that `name` stands for, or the program with this name.
///
/// # Errors
/// The catalog does not have the name.
pub fn entries<'a>(catalog: &'a Catalog, name: &str) -> anyhow::Result<Vec<CatalogEntry<'a>>> {
    match catalog.entry(name) {
        Some(entry) => Ok(vec![entry]),
        None => Ok(workloads(catalog, name)?.into_iter().map(CatalogEntry::Workload).collect()),
    }
}

/// The workload or the program with this name.
///
/// # Errors
/// The catalog does not have the name; the error suggests a similar one.
pub fn entry<'a>(catalog: &'a Catalog, name: &str) -> anyhow::Result<CatalogEntry<'a>> {
    catalog.entry(name).with_context(|| unknown(catalog, name))
}

/// The workload with this name.
///
/// # Errors
/// The catalog does not have the name; the error suggests a similar one.
pub fn workload<'a>(catalog: &'a Catalog, name: &str) -> anyhow::Result<&'a Workload> {
    catalog.get(name).with_context(|| unknown(catalog, name))
}

fn unknown(catalog: &Catalog, name: &str) -> String {
    if programs::is_there(name) {
        return format!(
            "there is no workload '{name}'; to run a program, write it after --, as in `profile single -- {name} ..`, \
             or give it with --cmd"
        );
    }
    if catalog.program(name).is_some() {
        return format!(
            "'{name}' is a program of the catalog, and this takes workloads that Tandem trains itself; `profile list` shows them"
        );
    }
    if is_script(name) {
        return format!(
            "there is no workload '{name}'; to run a program, give its command: after --, as in `profile single -- python3 train.py`, \
             with --cmd, or in the column 'command' of a trace"
        );
    }
    let names = catalog.iter().map(|w| w.name.as_str()).chain(catalog.programs().map(|p| p.name.as_str()));
    let hint = nearest(names, name).map(|known| format!("did you mean '{known}'? ")).unwrap_or_default();
    format!("there is no workload '{name}'; {hint}`profile list` shows them all")
}

/// Whether a name is that of a script or a path, and none that a workload could have.
fn is_script(name: &str) -> bool {
    name.contains('/') || name.ends_with(".py") || name.ends_with(".sh")
}

/// The known name that is most like a typed one. `None` if more than half of its letters differ.
fn nearest<'a>(known: impl Iterator<Item = &'a str>, typed: &str) -> Option<&'a str> {
    let distance = |known: &str| match known.starts_with(typed) {
        true => 1,
        false => strsim::levenshtein(known, typed),
    };
    let (distance, known) = known.map(|known| (distance(known), known)).min()?;
    (distance <= typed.chars().count().div_ceil(2)).then_some(known)
}
