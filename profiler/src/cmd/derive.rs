//! `profile derive`: rebuilds the tables of a run from its raw files.

use std::path::PathBuf;

use jobs::run;
use record::run_dir::RunDir;
use rig::Exit;

use super::{options::RunFormat, runs};
use crate::derive::Derived;

/// Rebuild the derived files of a run from its raw ones.
///
/// Replaces measurements.csv, summary.csv and trace.json, for a run of groups interference.csv and curves.csv, and operators.csv if
/// operators were recorded, with the statistics of this version. A run that a program is still writing is refused.
///
/// Example: `profile derive runs/20261120T101340Z-single-1a2b3c`
#[derive(clap::Args)]
pub(super) struct Args {
    /// Directory of the run.
    run: PathBuf,
    #[command(flatten)]
    format: RunFormat,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let run = RunDir::open(&args.run)?;
    let _lock = run::lock(&run)?;
    let derived = Derived::of(&run)?;
    derived.write()?;
    runs::show(&run, &derived, &args.format)
}
