//! `report splice`: renews tables and pictures of a Markdown file.

use std::{fs, path::PathBuf};

use anyhow::Context as _;
use rig::{Exit, output};

use crate::{report::Report, splice::spliced};

/// Renew the tables and pictures of a Markdown file from runs.
///
/// Between these lines, the content is replaced by the numbers of a figure:
///
/// `<!-- report table FIGURE -->` and `<!-- end of report -->`
///
/// Options of a marker are `run=NAME` and `part=NAME`, which choose one of several figures, `columns=a,b` (names in CSV), `rows=a,b`
/// (rows whose first cell begins so) and `first=N`. `<!-- report picture FIGURE FILE.svg -->` writes the picture to a file below the
/// folder of the Markdown file, and shows it.
///
/// Example: `report splice README.md reports/record/20261121-epyc`
///
/// Example: `report splice --check README.md reports/record/20261121-epyc`
#[derive(clap::Args)]
pub(super) struct Args {
    /// The Markdown file.
    file: PathBuf,
    /// Directories of runs, or of folders that have runs below them, or the table of `sched fit --duration`.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Change nothing, and exit with 1 if something would change.
    #[arg(long)]
    check: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let text = fs::read_to_string(&args.file).with_context(|| args.file.display().to_string())?;
    let report = Report::of(&args.runs, |_| true)?;
    let renewed = spliced(&text, &args.file, &report)?;
    if renewed.renewed == 0 {
        let nothing = format!("{} has no line <!-- report table FIGURE -->", args.file.display());
        return Err(Exit::NothingMatched.because(nothing));
    }
    let folder = args.file.parent().unwrap_or(std::path::Path::new(""));
    let pictures = renewed.pictures.into_iter().map(|(path, svg)| (folder.join(path), svg));
    let mut changed = 0;
    for (path, new) in pictures.chain([(args.file.clone(), renewed.text)]) {
        if fs::read_to_string(&path).is_ok_and(|old| old == new) {
            continue;
        }
        changed += 1;
        if args.check {
            output::note(format_args!(
                "{} is not as the runs have it; renew it without --check",
                path.display()
            ));
            continue;
        }
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, new));
        written.map_err(|error| {
            Exit::InputOutput.because(format!("{} cannot be written: {error}", path.display()))
        })?;
        output::news(format_args!("renewed: {}", path.display()));
    }
    Ok(if args.check && changed > 0 { Exit::SomeFailed } else { Exit::Ok })
}
