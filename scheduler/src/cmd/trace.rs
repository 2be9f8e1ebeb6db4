//! `sched trace`: makes traces, imports published ones, and adds the loss curves of a run to its own.

mod curves;
mod import;
mod make;
mod step_times;

use std::{
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use clap::Subcommand;
use formats::{
    rows::WrittenTrace,
    trace::{self, Trace, TraceRow},
};
use record::rows;
use rig::{Exit, output};

use super::positive;
use crate::trace_generator::{LoadScale, TimeScale, set_date, set_nights};

/// Make a trace, import a published one, or add the loss curves of a run to its own.
///
/// A trace is a CSV file with one line for each job: name, submit_s, job or command, steps, and further columns. Each command
/// prints it, or writes it to --out.
///
/// Example: `sched trace make lstm gpt2-mini=0.5 --jobs 40 --every 20s --length exponential:500 --out trace.csv`
///
/// Example: `sched trace import --format philly philly.csv.gz --out philly-trace.csv`
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Make(Box<make::Args>),
    Import(import::Args),
    Curves(curves::Args),
}

/// The start of a trace, and what follows from the time of day.
#[derive(Clone, Copy, Default)]
struct Clock {
    start: Option<SystemTime>,
    /// The rate of arrivals at night over that of the rest of the day.
    nights: Option<f64>,
}

/// The options that change any trace, and the output.
#[derive(clap::Args)]
struct Shaped {
    /// A factor for all times: the arrivals of jobs and their lengths. Numbers of steps are rounded to at least 1; if the trace has
    /// the time of a step, it is adapted, so that the length is right.
    #[arg(long, value_name = "FACTOR", value_parser = positive)]
    time_scale: Option<f64>,
    /// Scale the arrivals until the work of all jobs, each alone, arrives at this multiple of the capacity of --devices.
    #[arg(long, value_name = "LOAD", value_parser = positive, requires = "devices")]
    load: Option<f64>,
    /// The number of devices to whose capacity --load refers.
    #[arg(long, value_name = "N", requires = "load", value_parser = clap::value_parser!(u32).range(1..))]
    devices: Option<u32>,
    /// The file to write; an existing file is replaced [default: standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the file and its number of jobs as JSON.
    #[arg(long, requires = "out")]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Make(args) => make::run(args),
        Command::Import(args) => import::run(args),
        Command::Curves(args) => curves::run(args),
    }
}

impl Shaped {
    /// Changes the rows as the options and the clock say. `rows` gives the rows anew each time.
    fn shape<R: Iterator<Item = TraceRow>>(
        &self,
        rows: impl Fn() -> R,
        Clock { start, nights }: Clock,
        step_ns: impl Fn(&TraceRow) -> anyhow::Result<f64>,
    ) -> anyhow::Result<impl Iterator<Item = TraceRow>> {
        let time_scale = self.time_scale.map(|factor| TimeScale::new(rows(), factor)).transpose()?;
        if let Some(TimeScale { jobs, too_long: too_long @ 1.., .. }) = time_scale {
            output::note(format_args!(
                "trace: {too_long} of {jobs} jobs are shorter than half a step by --time-scale, and have one step: the trace has no time \
                 of a step to shorten"
            ));
        }
        let scaled = move |mut row: TraceRow| {
            if let Some(scale) = time_scale {
                scale.scale(&mut row);
            }
            row
        };
        let load = self.load.zip(self.devices);
        let load = load.map(|(load, devices)| LoadScale::new(rows().map(scaled), load, devices, step_ns));
        let load = load.transpose()?;
        let since = start.and_then(|start| start.duration_since(UNIX_EPOCH).ok());
        // A day of this clock has as many seconds as any other.
        let time_of_day_s = since.map_or(0.0, |since| (since.as_secs() % 86_400) as f64);
        Ok(rows().map(scaled).map(move |mut row| {
            if let Some(load) = load {
                load.scale(&mut row);
            }
            if let Some(rate) = nights {
                set_nights(&mut row, rate, time_of_day_s);
            }
            if let Some(start) = start {
                set_date(&mut row, start);
            }
            row
        }))
    }

    /// Writes the rows. `left_out` has the reasons why rows of the imported files are left out.
    fn write(&self, rows: impl Iterator<Item = TraceRow>, left_out: Vec<String>) -> anyhow::Result<Exit> {
        let mut text = Vec::new();
        trace::write(&mut text, rows)?;
        let mut jobs = 0;
        // With a large factor, a job may arrive later or take longer than a trace can say. The file does not exist yet.
        Trace::parse_each(Path::new("the trace that would be written"), &text, |_, _| {
            jobs += 1;
            Ok(())
        })?;
        match &self.out {
            Some(path) => {
                trace::replace(path, &text)?;
                let trace = path.display();
                if self.json {
                    let written = WrittenTrace { trace: trace.to_string(), jobs, left_out };
                    output::print(rows::to_json(&written))?;
                } else {
                    output::news(format_args!("trace: {trace}: {jobs} jobs"));
                }
            }
            None => output::print_with(|stdout| stdout.write_all(&text))?,
        }
        Ok(Exit::Ok)
    }
}
