//! `profile program`: definitions of programs of the user's as workloads.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use anyhow::{Context as _, bail};
use clap::Subcommand;
use rig::{
    Exit,
    leash::die_with_us,
    output,
    programs::{is_there, output_within},
};
use schema::catalog::Catalog;

use crate::definition::{self, Typed};

/// The time limit for the options of a program. An import of PyTorch from a slow disk takes most of it.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Write a first definition of a program of your own as a workload.
///
/// Example: `profile program init --out mine.toml -- torchrun --nproc-per-node 2 train.py --batch-size 8`
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Init(InitArgs),
}

/// Write a first [[program]] definition for --catalog from a command, by its `--help`.
///
/// The command is started once, with --help at its end. A Python is started once more, to look for PyTorch. A command that begins
/// with a launcher, such as torchrun, `accelerate launch` or `python3 -m torch.distributed.run`, is started without the launcher:
/// python3 runs the script. A program that does not know --help may train: it is killed after 120 s, with all processes that it has
/// started. The names of options show the batch, gradient accumulation, the precision, activation checkpointing and stages of ZeRO. The default job of the definition is
/// the command as typed. Comments in the file list the options that were not found, and questions for the user.
///
/// Example: `profile program init --out mine.toml -- python3 train.py --batch-size 8`
///
/// Example: `profile program init -- torchrun --standalone --nproc-per-node 2 train.py --micro-batch 4`
#[derive(clap::Args)]
struct InitArgs {
    /// The file to write. An existing file is refused [default: standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The program and its arguments, as you start it.
    #[arg(last = true, value_name = "COMMAND", required = true)]
    command: Vec<String>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.action {
        Action::Init(args) => init(args),
    }
}

fn init(args: &InitArgs) -> anyhow::Result<Exit> {
    if let Some(out) = args.out.as_deref().filter(|out| out.exists()) {
        bail!("--out {}: there is such a file, and none is overwritten; name another", out.display());
    }
    let typed = definition::take_apart(&args.command);
    if typed.program.is_empty() {
        bail!("the command names no program after its launcher; write it as you start it");
    }
    let asked = typed.asked(&python_of(&typed));
    let help = help(&asked)?;
    let text = definition::write(&typed, &help, &Catalog::embedded())
        .map_err(anyhow::Error::msg)
        .context("no definition can be written for this command")?;
    let text = match finds_torch(&asked[0]) {
        Some(false) => format!(
            "# {} finds no PyTorch: if the program imports it, check which Python the command starts.\n{text}",
            asked[0]
        ),
        Some(true) | None => text,
    };
    match &args.out {
        None => output::print(text.trim_end())?,
        Some(out) => {
            let write = || fs::File::create_new(out)?.write_all(text.as_bytes());
            write().with_context(|| format!("--out {}", out.display()))?;
            let shown = out.display();
            output::note(format_args!(
                "wrote {shown}; read its comments, and then try `profile list --catalog {shown}`"
            ));
        }
    }
    Ok(Exit::Ok)
}

/// The interpreter of the scripts that a launcher starts: the one beside it, or that on the PATH.
fn python_of(typed: &Typed) -> String {
    let launcher = typed.launcher.first().map(String::as_str).unwrap_or_default();
    match Path::new(launcher).file_name().and_then(|name| name.to_str()) {
        Some(name) if name.starts_with("python") => launcher.into(),
        _ => {
            let beside = Path::new(launcher).with_file_name("python3");
            if launcher.contains('/') && beside.exists() {
                beside.display().to_string()
            } else {
                "python3".into()
            }
        }
    }
}

/// What the program says of its options.
fn help(asked: &[String]) -> anyhow::Result<String> {
    let (program, arguments) = asked.split_first().context("expected a program after --")?;
    if !is_there(program) {
        bail!("there is no program '{program}'; check its name and the PATH");
    }
    let mut command = Command::new(program);
    command.args(arguments).env("COLUMNS", "160").env("NO_COLOR", "1");
    die_with_us(&mut command);
    let Some(Output { status, stdout, stderr }) =
        output_within(TIMEOUT, command).with_context(|| program.clone())?
    else {
        output::note(format_args!(
            "warning: the program has not ended {} s after --help, and was killed; its options are not known",
            TIMEOUT.as_secs()
        ));
        return Ok(String::new());
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if !status.success() {
        let last = text(&stderr).lines().last().map(|line| format!(": {line}")).unwrap_or_default();
        output::note(format_args!("warning: the program has failed with --help{last}"));
    }
    Ok(if stdout.is_empty() { text(&stderr) } else { text(&stdout) })
}

/// Whether an interpreter finds PyTorch. It does not import it. `None` if the program is no Python, or does not answer.
fn finds_torch(program: &str) -> Option<bool> {
    let name = Path::new(program).file_name()?.to_str()?;
    if !name.starts_with("python") {
        return None;
    }
    let mut command = Command::new(program);
    command.args(["-c", "import importlib.util; print(importlib.util.find_spec('torch') is not None)"]);
    die_with_us(&mut command);
    let output = output_within(TIMEOUT, command).ok()??;
    match output.stdout.trim_ascii() {
        b"True" => Some(true),
        b"False" => Some(false),
        _ => None,
    }
}
