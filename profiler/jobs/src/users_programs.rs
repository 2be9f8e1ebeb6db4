//! Programs that users name by their commands, each as the cell of a run.

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use record::manifest::Cell;
use schema::{
    braces,
    catalog::Catalog,
    device::Device,
    job::command_name,
    sharing::Sharing,
    surroundings::Surroundings,
    values::{self, Values},
};

use crate::{
    surroundings,
    vary::{self, Varied},
};

/// A program of the user's, and its name in rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsersProgram {
    pub name: String,
    pub argv: Vec<String>,
    /// The values of names in braces, which `argv` has in place of the names.
    pub values: Values,
    /// The number of samples in a step, over all of its ranks; `None` if the user has not said it.
    pub global_batch: Option<u32>,
}

impl UsersProgram {
    /// One program for each combination of the values of names that are in its command.
    fn varied(&self, vary: &Varied) -> Vec<UsersProgram> {
        let has =
            |name: &str| self.argv.iter().flat_map(|word| braces::names(word)).any(|other| other == name);
        let with = |values: Values| {
            let argv = self.argv.iter().map(|word| values::filled(word, &values)).collect();
            UsersProgram { argv, values, ..self.clone() }
        };
        vary.combinations(has).into_iter().map(with).collect()
    }

    /// A program that is named after its words as typed.
    pub fn unnamed(argv: &[String]) -> UsersProgram {
        UsersProgram {
            name: command_name(argv),
            argv: argv.to_vec(),
            values: Values::new(),
            global_batch: None,
        }
    }
}

/// The programs of a command line, each once for every combination of the values in its command. The user gives a name to each
/// program, in their order, or to no program.
///
/// # Errors
/// A name is no plain word or is that of a workload, there are too many or too few, or two programs have one.
pub fn programs<'a>(
    catalog: &Catalog,
    commands: impl Iterator<Item = &'a [String]>,
    names: &[String],
    global_batch: Option<u32>,
    vary: &Varied,
) -> anyhow::Result<Vec<UsersProgram>> {
    let program = |argv| UsersProgram { global_batch, ..UsersProgram::unnamed(argv) };
    let mut programs: Vec<UsersProgram> = commands.map(program).collect();
    if !names.is_empty() {
        give_names(&mut programs, names, catalog)?;
    }
    Ok(programs.iter().flat_map(|program| program.varied(vary)).collect())
}

fn give_names(programs: &mut [UsersProgram], names: &[String], catalog: &Catalog) -> anyhow::Result<()> {
    ensure!(
        names.len() == programs.len(),
        "--name: the numbers of names and of programs differ, {} and {}; name each program in the order of --cmd, or none",
        names.len(),
        programs.len()
    );
    for (index, name) in names.iter().enumerate() {
        check_name(catalog, name)?;
        if programs[..index].iter().any(|other| other.name == *name && other.argv != programs[index].argv) {
            bail!("--name {name} is the name of two programs; name them apart");
        }
        programs[index].name.clone_from(name);
    }
    Ok(())
}

/// The length of a name that fits into tables and names of files.
const LONGEST_NAME_CHARS: usize = 40;

fn check_name(catalog: &Catalog, name: &str) -> anyhow::Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !begins || !name.chars().all(is_plain) || name.len() > LONGEST_NAME_CHARS {
        let shown: String = name.chars().take(80).collect();
        bail!(
            "--name '{shown}': expected up to {LONGEST_NAME_CHARS} letters, digits and any of -_. that begin with a letter"
        );
    }
    ensure!(
        !name.starts_with("cmd-"),
        "--name {name}: names that begin with cmd- are made from commands; choose another"
    );
    let is_taken = catalog.entry(name).is_some();
    ensure!(!is_taken, "--name {name} is the name of a workload; choose another");
    Ok(())
}

/// The only cell of a program of the user's, which runs in these surroundings.
///
/// # Errors
/// There is no such program.
pub fn cell(program: &UsersProgram, device: &Device, surroundings: &Surroundings) -> anyhow::Result<Cell> {
    let UsersProgram { name, argv, values, global_batch } = program;
    check_program_exists(argv, surroundings)?;
    let job = vary::spelled(name, values);
    Ok(Cell {
        name: format!("{job}@on={device}"),
        sharing: Sharing::Alone,
        job,
        workload: name.clone(),
        command: Some(argv.clone()),
        all_reduce_bytes: None,
        global_batch: *global_batch,
        plan: None,
        devices: vec![device.clone()],
        vary: values.clone(),
        memory_estimate_bytes: None,
        unsupported: None,
        ..Cell::default()
    })
}

/// Checks that the program of a command is there.
///
/// # Errors
/// There is no such program in these surroundings.
pub(crate) fn check_program_exists(argv: &[String], surroundings: &Surroundings) -> anyhow::Result<()> {
    let program = argv.first().context("expected a program after --")?;
    ensure!(surroundings::has_program(surroundings, program), "{}", not_there(program, surroundings));
    Ok(())
}

/// Returns why a program cannot be started. It names the current folder, which is not on the PATH.
fn not_there(program: &str, surroundings: &Surroundings) -> String {
    let folder = surroundings::folder_of_words(Some(surroundings)).unwrap_or(Path::new(""));
    match (program.contains('/'), folder.join(program).is_file()) {
        (false, true) => {
            let named = surroundings.cwd.as_deref().unwrap_or("this folder");
            format!(
                "there is no program '{program}' on the PATH; to run the file in {named}, write ./{program}"
            )
        }
        (true, true) => format!(
            "the file '{program}' is not executable; run `chmod +x {}` first, or name its interpreter before it",
            folder.join(program).display()
        ),
        (_, false) => match &surroundings.cwd {
            Some(cwd) => format!("there is no program '{program}' in {cwd}; check its name and the PATH"),
            None => format!("there is no program '{program}'; check its name and the PATH"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_named_after_its_program() {
        let argv = |args: &[&str]| {
            UsersProgram::unnamed(&args.iter().map(|arg| arg.to_string()).collect::<Vec<_>>())
        };
        let (device, none) = (Device::Cpu(vec![0]), Surroundings::default());
        let first = cell(&argv(&["/usr/bin/python3", "train.py"]), &device, &none).expect("a cell");
        assert!(first.job.starts_with("cmd-python3-") && first.job.len() == 18, "{}", first.job);
        let other = cell(&argv(&["/usr/bin/python3", "other.py"]), &device, &none).expect("a cell");
        assert_ne!(first.job, other.job);
    }
}
