//! `sched trace import`: imports published traces.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use rig::{Exit, output};
use schema::{
    import::{self, Imported, TraceFormat},
    lines,
};

use super::Shaped;

/// Convert a published trace.
///
/// helios: the jobs of a cluster of SenseTime, with arrival, GPUs, cores, duration, user and virtual cluster; they can be simulated,
/// but not run. Files of the artifact of Lucid have the names of recurring jobs, too.
/// philly: the 82,247 jobs of a cluster of Microsoft, with arrival, GPUs and duration; they can be simulated, but not run.
/// rubick: the 406 jobs of seven models of Rubick's artifact, with their plans and steps; the times of their steps come from
/// --table of `sched sim`, so that --load does not apply.
///
/// Example: `sched trace import --format rubick workload-mt.csv --time-scale 0.1 --out mt.csv`
#[derive(clap::Args)]
pub(super) struct Args {
    /// The file, or - for standard input.
    file: PathBuf,
    /// The format of the file: helios, philly or rubick.
    #[arg(long)]
    format: TraceFormat,
    #[command(flatten)]
    shaped: Shaped,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let is_stdin = args.file == Path::new("-");
    let file = if is_stdin { Path::new("standard input") } else { &args.file };
    let text = match is_stdin {
        true => lines::read_to_end(file, std::io::stdin(), 0)?,
        false => lines::read_to_end(file, File::open(file).with_context(|| file.display().to_string())?, 0)?,
    };
    let Imported { rows, left_out } = import::read(args.format, file, &text)?;
    for (why, jobs) in left_out {
        output::note(format_args!("trace: {jobs} jobs of {} are left out: {why}", file.display()));
    }
    if rows.is_empty() {
        return Err(Exit::NothingMatched.because(format!("{} has no jobs", file.display())));
    }
    args.shaped.finish(rows, |row| {
        let known = row.step_ns.map(|ns| ns as f64);
        known.with_context(|| {
            format!(
                "{}: --format {} has no time of a step, so that its load is not known; remove --load, or scale the trace with \
                 --time-scale",
                row.name, args.format
            )
        })
    })
}
