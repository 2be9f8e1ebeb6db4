//! Makes the cells of a run from what the user named: jobs by batches by plans.

use std::{collections::BTreeSet, path::Path, str::FromStr};

use anyhow::{Context as _, bail, ensure};
use record::manifest::Cell;
use rig::StepPattern;
use schema::{
    braces,
    catalog::{Catalog, Workload},
    device::Device,
    job::{Job, command_name},
    plan::Plan,
    sharing::Sharing,
    surroundings::Surroundings,
    values::{self, Values},
};

use crate::{
    catalog_programs,
    plans::{self, Effort, Estimates, Judgement},
    pool, surroundings,
    vary::{self, Varied},
    workload_lookup,
};

/// The axes of a grid. An empty list means the job's own value, or the workload's default.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    pub batches: Vec<u32>,
    pub plans: Plans,
    /// Values for names in the commands of programs.
    pub vary: Varied,
    /// The effort for memory estimates of jobs whose plans the user did not name.
    pub effort: Effort,
}

#[derive(Clone, Debug, Default)]
pub enum Plans {
    #[default]
    Default,
    Named(Vec<Plan>),
    /// All plans that are valid for the job on the pool.
    All,
}

/// The cells of `jobs` over the grid, each alone, on the first devices of the pool or on the job's own device.
///
/// A combination that cannot run is a cell with the reason. With `Plans::All`, combinations that do not fit are left out, but
/// one of them remains for a batch that would have no cell otherwise. Without estimates, it is not checked whether a
/// combination fits.
pub fn alone(
    catalog: &Catalog,
    jobs: &[Job],
    grid: &Grid,
    pool: &[Device],
    mut estimates: Option<&mut Estimates>,
) -> anyhow::Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for job in jobs {
        let pool = pool::of_job(job, pool)?;
        if let Some(program) = catalog.program(&job.workload) {
            cells.extend(catalog_programs::alone(program, job, grid, &pool)?);
            continue;
        }
        for workload in workloads(catalog, job)? {
            cells.extend(of_workload(workload, job, grid, &pool, estimates.as_deref_mut())?);
        }
    }
    Ok(cells)
}

fn of_workload(
    workload: &Workload,
    job: &Job,
    grid: &Grid,
    pool: &[Device],
    mut estimates: Option<&mut Estimates>,
) -> anyhow::Result<Vec<Cell>> {
    let mut cells = Vec::new();
    // A user who names plans compares them, and needs the memory of each.
    let named = job.plan.is_some() || !matches!(grid.plans, Plans::Default);
    let effort = if named { Effort::Measure } else { grid.effort };
    for global_batch in batches(workload.global_batch, job, grid)? {
        let (begin, mut left_out) = (cells.len(), None);
        for (plan, unsupported) in plans_of(workload, job, grid, global_batch, pool)? {
            let ranks = plan.ranks() as usize;
            let devices: Vec<Device> = pool.iter().take(ranks).cloned().collect();
            let judgement = match &mut estimates {
                Some(estimates) if unsupported.is_none() => {
                    estimates.judge(workload, global_batch, &plan, &devices, effort)
                }
                _ => Judgement::default(),
            };
            let fits = judgement.refusal.is_none();
            let spelling = format!("{}@b{global_batch}@{plan}", workload.name);
            let cell = Cell {
                name: format!("{spelling}@on={}", joined(&devices)),
                sharing: Sharing::Alone,
                job: spelling,
                workload: workload.name.clone(),
                command: None,
                all_reduce_bytes: None,
                global_batch: Some(global_batch),
                plan: Some(plan),
                devices,
                memory_estimate_bytes: judgement.memory_bytes,
                unsupported: unsupported.or(judgement.refusal),
                ..Cell::default()
            };
            if fits || !matches!(grid.plans, Plans::All) {
                cells.push(cell);
            } else {
                left_out.get_or_insert(cell);
            }
        }
        if let (Some(mut cell), true) = (left_out, cells.len() == begin) {
            let list = format!("`profile list --plans {}@b{global_batch}`", workload.name);
            let reason = cell.unsupported.unwrap_or_default();
            cell.unsupported = Some(format!("{reason}, and no other plan fits either; see {list}"));
            cells.push(cell);
        }
    }
    Ok(cells)
}

/// The workload of a job, or the workloads of its set.
fn workloads<'a>(catalog: &'a Catalog, job: &Job) -> anyhow::Result<Vec<&'a Workload>> {
    if workload_lookup::is_set(&job.workload) && job.to_string() != job.workload {
        bail!(
            "job '{job}': a set takes neither batch, plan nor device; write {} and use --batch, --plan and --device",
            job.workload
        );
    }
    workload_lookup::workloads(catalog, &job.workload)
}

/// A program of the user's with its arguments, typed as one argument. It is split as a shell splits it, but no shell runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine(pub Vec<String>);

impl FromStr for CommandLine {
    type Err = String;

    fn from_str(text: &str) -> Result<CommandLine, String> {
        let argv = shlex::split(text).ok_or("a quote is not closed, or a backslash is at the end")?;
        let first = argv.first().ok_or("expected a program")?;
        if let Some((variable, _)) = first.split_once('=').filter(|(name, _)| surroundings::is_name(name)) {
            return Err(format!("no shell runs this command, so {variable} is not set; write env {text}"));
        }
        let is_of_shell = |word: &&String| first == "cd" || OF_SHELL.contains(&word.as_str());
        if let Some(word) = argv.iter().find(is_of_shell) {
            let quoted = shlex::try_quote(text).map_err(|error| error.to_string())?;
            return Err(format!(
                "no shell runs this command, so '{word}' has no effect; write sh -c {quoted}"
            ));
        }
        Ok(CommandLine(argv))
    }
}

/// Words that have a meaning only to a shell, if they are words of their own.
const OF_SHELL: [&str; 11] = ["&&", "||", "|", ";", "&", ">", ">>", "<", "2>", "2>&1", "&>"];

/// A program with its arguments in the form that [`CommandLine`] reads.
pub fn command_line(argv: &[String]) -> String {
    // Only a zero byte cannot be quoted, and no program can be started with one.
    shlex::try_join(argv.iter().map(String::as_str)).unwrap_or_else(|_| argv.join(" "))
}

/// Checks the regular expression of `--steps-regex`.
///
/// # Errors
/// The text is no regular expression, or one of its groups has no meaning.
pub fn steps_regex(text: &str) -> Result<String, String> {
    StepPattern::parse(text).map(|_| text.to_owned())
}

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
    for (place, name) in names.iter().enumerate() {
        check_name(catalog, name)?;
        if programs[..place].iter().any(|other| other.name == *name && other.argv != programs[place].argv) {
            bail!("--name {name} is the name of two programs; name them apart");
        }
        programs[place].name.clone_from(name);
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
    let is_taken = catalog.get(name).is_some() || catalog.program(name).is_some();
    ensure!(!is_taken, "--name {name} is the name of a workload; choose another");
    Ok(())
}

/// The only cell of a program of the user's, which runs in these surroundings.
pub fn command(program: &UsersProgram, device: &Device, surroundings: &Surroundings) -> anyhow::Result<Cell> {
    let UsersProgram { name, argv, values, global_batch } = program;
    check_program(argv, surroundings)?;
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
pub(crate) fn check_program(argv: &[String], surroundings: &Surroundings) -> anyhow::Result<()> {
    let program = argv.first().context("expected a program after --")?;
    ensure!(surroundings::has_program(surroundings, program), "{}", not_there(program, surroundings));
    Ok(())
}

/// Returns why a program cannot be started. It names the current folder, which is not on the PATH.
fn not_there(program: &str, surroundings: &Surroundings) -> String {
    let folder = surroundings::folder_of_words(Some(surroundings)).unwrap_or(Path::new(""));
    match (program.contains('/'), folder.join(program).is_file()) {
        (false, true) => {
            let place = surroundings.cwd.as_deref().unwrap_or("this folder");
            format!(
                "there is no program '{program}' on the PATH; to run the file in {place}, write ./{program}"
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

/// The devices of one job in the form that rows have: `cpu:0`, `cpu:0,cpu:1`.
pub fn joined(devices: &[Device]) -> String {
    devices.iter().map(Device::to_string).collect::<Vec<_>>().join(",")
}

/// The batches of a job, of which `default` is the one for a job without.
pub(crate) fn batches(default: u32, job: &Job, grid: &Grid) -> anyhow::Result<Vec<u32>> {
    match (job.global_batch, grid.batches.is_empty()) {
        (Some(batch), true) => Ok(vec![batch]),
        (None, true) => Ok(vec![default]),
        (None, false) => Ok(grid.batches.clone()),
        (Some(_), false) => bail!("job '{job}' names its batch, and so does --batch; remove one of them"),
    }
}

fn plans_of(
    workload: &Workload,
    job: &Job,
    grid: &Grid,
    global_batch: u32,
    pool: &[Device],
) -> anyhow::Result<Vec<(Plan, Option<String>)>> {
    let with_refusal = |plan| (plan, plans::refusal(workload, global_batch, &plan, pool));
    refuse_two_plans(job, grid)?;
    Ok(match (job.plan, &grid.plans) {
        (Some(plan), _) => vec![with_refusal(plan)],
        (None, Plans::Default) => vec![with_refusal(workload.plan)],
        (None, Plans::Named(plans)) => plans.iter().copied().map(with_refusal).collect(),
        (None, Plans::All) => plans::enumerate(workload, global_batch, pool)
            .into_iter()
            .filter(|candidate| candidate.refusal.is_none())
            .map(|candidate| (candidate.plan, None))
            .collect(),
    })
}

/// Checks that a job that names its plan is not crossed with others.
pub(crate) fn refuse_two_plans(job: &Job, grid: &Grid) -> anyhow::Result<()> {
    let is_twice = job.plan.is_some() && !matches!(grid.plans, Plans::Default);
    ensure!(!is_twice, "job '{job}' names its plan, and so does --plan; remove one of them");
    Ok(())
}

/// Checks that no cell occurs twice, because its rows could not be told apart.
pub fn distinct(cells: &[Cell]) -> anyhow::Result<()> {
    let mut names = BTreeSet::new();
    match cells.iter().find(|cell| !names.insert(&cell.name)) {
        Some(twice) => {
            bail!("'{}' is named twice; name it once, and set --repeats for more launches", twice.name)
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(jobs: &[&str], grid: &Grid) -> anyhow::Result<Vec<Cell>> {
        let jobs: Vec<Job> = jobs.iter().map(|job| job.parse().expect("a job")).collect();
        let cells = alone(&Catalog::embedded(), &jobs, grid, &[Device::Cpu(vec![0])], None)?;
        distinct(&cells)?;
        Ok(cells)
    }

    fn names(jobs: &[&str], grid: &Grid) -> Vec<String> {
        cells(jobs, grid).expect("a grid").into_iter().map(|cell| cell.name).collect()
    }

    #[test]
    fn a_grid_is_jobs_by_batches_by_plans() {
        assert_eq!(names(&["lstm"], &Grid::default()), ["lstm@b20@dp1@on=cpu:0"]);
        assert_eq!(names(&["lstm@b8@ga2@on=cpu:1"], &Grid::default()), ["lstm@b8@ga2@on=cpu:1"]);
        let plans = Plans::Named(vec!["dp1".parse().expect("plan"), "bf16".parse().expect("plan")]);
        let grid = Grid { batches: vec![8, 16], plans, ..Grid::default() };
        assert_eq!(names(&["lstm", "neumf"], &grid).len(), 8);
        let all = Grid { batches: vec![4], plans: Plans::All, ..Grid::default() };
        assert_eq!(names(&["lstm"], &all).len(), 12);
    }

    #[test]
    fn a_set_is_its_workloads_at_their_own_batches_and_plans() {
        let catalog = Catalog::embedded();
        let quick: Vec<_> = catalog.set("quick").map(|workload| workload.name.clone()).collect();
        let all = cells(&["set:quick", "synthetic-spin"], &Grid::default()).expect("a grid");
        let workloads: Vec<_> = all.iter().map(|cell| cell.workload.clone()).collect();
        assert_eq!(workloads, [quick.clone(), vec!["synthetic-spin".into()]].concat());
        assert!(
            all.iter()
                .all(|cell| cell.global_batch
                    == Some(catalog.get(&cell.workload).expect("there").global_batch))
        );
        let grid = Grid { batches: vec![4, 8], ..Grid::default() };
        assert_eq!(cells(&["set:quick"], &grid).expect("a grid").len(), 2 * quick.len());
    }

    #[test]
    fn what_cannot_run_is_a_cell_with_its_reason() {
        let plans = Plans::Named(vec!["dp1".parse().expect("plan"), "tp2".parse().expect("plan")]);
        let cells = cells(&["lstm"], &Grid { plans, ..Grid::default() }).expect("a grid");
        assert_eq!(cells[0].unsupported, None);
        let reason = cells[1].unsupported.as_deref().expect("refused");
        assert!(reason.starts_with("lstm runs no plans with tp because only attention "), "{reason}");
    }

    #[test]
    fn slips_are_named_with_the_remedy() {
        let error = |jobs: &[&str], grid: &Grid| cells(jobs, grid).expect_err("refused").to_string();
        let batches = Grid { batches: vec![8], ..Grid::default() };
        assert!(error(&["resnet81"], &Grid::default()).contains("did you mean 'resnet18'?"));
        assert!(error(&["lstm", "lstm"], &Grid::default()).contains("named twice"));
        assert!(error(&["set:quick", "lstm"], &Grid::default()).contains("named twice"));
        assert!(error(&["set:quick@b4"], &Grid::default()).contains("write set:quick and use --batch"));
        assert!(
            error(&["set:slow"], &Grid::default()).contains("there is no set 'slow'; the catalog has quick")
        );
        assert!(error(&["lstm@b4"], &batches).contains("remove one of them"));
    }

    #[test]
    fn a_command_is_named_after_its_program() {
        let argv = |args: &[&str]| {
            UsersProgram::unnamed(&args.iter().map(|arg| arg.to_string()).collect::<Vec<_>>())
        };
        let (device, none) = (Device::Cpu(vec![0]), Surroundings::default());
        let cell = command(&argv(&["/usr/bin/python3", "train.py"]), &device, &none).expect("a cell");
        assert!(cell.job.starts_with("cmd-python3-") && cell.job.len() == 18, "{}", cell.job);
        let other = command(&argv(&["/usr/bin/python3", "other.py"]), &device, &none).expect("a cell");
        assert_ne!(cell.job, other.job);
    }

    #[test]
    fn a_command_line_is_split_as_a_shell_would_and_means_nothing_else() {
        let split = |text: &str| text.parse::<CommandLine>().map(|CommandLine(argv)| argv);
        for (text, argv) in [
            ("python3 train.py --epochs 1", &["python3", "train.py", "--epochs", "1"][..]),
            (r#"sh -c 'echo "$HOME"; exit' a\ b"#, &["sh", "-c", r#"echo "$HOME"; exit"#, "a b"]),
            ("a $d * x=1", &["a", "$d", "*", "x=1"]),
            ("a 'b && c'", &["a", "b && c"]),
            ("a ''", &["a", ""]),
        ] {
            assert_eq!(split(text).expect("a command"), argv, "{text}");
        }
        for (text, why) in [
            ("", "expected a program"),
            ("  ", "expected a program"),
            ("python3 'train.py", "a quote is not closed, or a backslash is at the end"),
            ("a \\", "a quote is not closed, or a backslash is at the end"),
            (
                "SEED=1 python3 a.py",
                "no shell runs this command, so SEED is not set; write env SEED=1 python3 a.py",
            ),
            (
                "cd x && python3 a.py",
                "no shell runs this command, so 'cd' has no effect; write sh -c 'cd x && python3 a.py'",
            ),
            ("a > log", "no shell runs this command, so '>' has no effect; write sh -c 'a > log'"),
        ] {
            assert_eq!(split(text), Err(why.to_owned()), "{text:?}");
        }
    }
}
