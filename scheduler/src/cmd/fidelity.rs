//! `sched fidelity`: compares a run with its prediction, or two runs with each other.

mod show;
mod sides;

use std::path::PathBuf;

use anyhow::Context as _;
use cli::{agree::Yes, table::TableLayout};
use outcomes::fidelity::{self, Bars};
use record::{rows, run_dir::RunDir};
use rig::{Exit, output};

use self::{
    show::show,
    sides::{as_prediction, devices, is_simulated, outcomes, predictions, with_drawn_totals},
};
use super::consent;
use crate::online;

/// Compare a run with its prediction, job by job.
///
/// With one RUN of `sched run`, its outcomes are compared with the predictions made before it. With two, each a run or an
/// outcomes.csv, the second is compared with the first, as if the first were its prediction.
///
/// If the prediction has intervals (--draws), the jobs inside their intervals are counted. A first RUN of `sched sim --draws` has
/// intervals, too.
///
/// Errors are those of the prediction, positive if it is too long. The error of the average job completion time (JCT) is the sum of
/// five parts: step time, of jobs that were never packed; interference, of jobs that were packed; start-up, from the action that starts
/// a job until the job trains; switch cost, of the other switches; and order, which is all waiting.
///
/// The utilisation is that of `sched sim`: the time in which devices are busy over the makespan of all devices, with a device that
/// jobs share counted once. It is printed for a side that is a run, as a file of outcomes does not name the devices. The rows of
/// older runs lack `busy_share_ns`: if jobs were packed, the journal of the run is replayed, and its prediction is made again.
///
/// With --again, which names a second run of the same trace, the two runs are compared with each other as well, and the prediction
/// is held to limits: an error of 5 % for the average JCT and the makespan, 7 % for the median job and 20 % for nine jobs in ten,
/// or 1.5 times the difference between the runs if that is more. If an error exceeds its limit, or a job did not end well in all
/// of them, the command exits with 1.
///
/// Example: `sched fidelity runs/fifo --again runs/fifo-again`
///
/// Example: `sched fidelity runs/drawn --hindsight`
///
/// Example: `sched fidelity runs/sim/fifo runs/sim/srtf/outcomes.csv --jobs`
#[derive(clap::Args)]
pub(super) struct Args {
    /// Directory of a run, or an outcomes.csv.
    #[arg(value_name = "RUN")]
    first: PathBuf,
    /// A second run or outcomes.csv, compared with the first instead of the first's own predictions.
    #[arg(value_name = "RUN")]
    second: Option<PathBuf>,
    /// A second run of the same trace, which shows how well a run predicts another.
    #[arg(long, value_name = "RUN", conflicts_with = "second")]
    again: Option<PathBuf>,
    /// Also simulate the run with the step times and the costs of switches that were measured in it.
    ///
    /// The error that is left is that of the simulation itself. The drift of these times is gone, with its effect on waiting. If the
    /// policy decides otherwise than in the run, the first decision that differs is shown: two events may be closer to each other than
    /// the times are known, and the policy then sees them in the other order. The speed of the machine is shown as well: the time of a
    /// step over that of the tables, for all jobs together. This needs the journal of the run. A policy that is a program is started, if
    /// the user agrees.
    #[arg(long, conflicts_with = "second")]
    hindsight: bool,
    #[command(flatten)]
    yes: Yes,
    /// Also show each job.
    #[arg(long)]
    jobs: bool,
    /// Print everything as JSON: an object, or with --again a list of two, the prediction first.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    layout: TableLayout,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    if !args.hindsight {
        args.yes.check_absent("--hindsight")?;
    }
    let first = outcomes(&args.first)?;
    let of_first = devices(&args.first)?;
    let found = match &args.second {
        Some(second) => {
            let devices = [of_first, devices(second)?];
            let predicted = match is_simulated(&args.first)? {
                true => predictions(&args.first)?,
                false => as_prediction(&first),
            };
            fidelity::compare(&predicted, &outcomes(second)?, devices)
                .with_context(|| format!("{} and {}", args.first.display(), second.display()))?
        }
        None => {
            let predictions = predictions(&args.first)?;
            let warnings = predictions.iter().map(|row| (&*row.name, row.warnings.clone()));
            if let Some(doubts) = online::doubts(warnings) {
                output::note(doubts);
            }
            fidelity::compare(&predictions, &first, [of_first; 2])
                .with_context(|| format!("predictions.csv and outcomes.csv of {}", args.first.display()))?
        }
    };
    let mut found = with_drawn_totals(found, &args.first)?;
    if args.hindsight {
        let run = RunDir::open(&args.first)?;
        let consent = consent(&args.yes, &run.manifest()?)?;
        let again = online::hindsight(&run, &consent)?;
        let hindsight = fidelity::compare(&as_prediction(&again.outcomes), &first, [of_first; 2])
            .with_context(|| format!("inputs/trace.csv and outcomes.csv of {}", args.first.display()))?;
        let split = fidelity::split_by_hindsight(&found, &hindsight, again.speed, again.first_difference);
        found.hindsight = Some(split);
    }
    let again = args
        .again
        .as_ref()
        .map(|again| {
            fidelity::compare(&as_prediction(&outcomes(again)?), &first, [devices(again)?, of_first])
                .with_context(|| format!("{} and {}", again.display(), args.first.display()))
        })
        .transpose()?;
    let bars = again.as_ref().map(Bars::of);
    match (args.json, &again) {
        (true, None) => output::print(rows::to_json(&found))?,
        (true, Some(again)) => output::print(rows::to_json(&[&found, again]))?,
        (false, _) => show(args, &found, again.as_ref(), bars.as_ref())?,
    }
    for (which, fidelity) in [("", Some(&found)), ("again: ", again.as_ref())] {
        let left_out = fidelity.map_or(&[][..], |fidelity| fidelity.left_out.as_slice());
        if !left_out.is_empty() {
            let names = left_out.join(", ");
            output::note(format_args!(
                "{which}jobs that did not end well on both sides are left out: {names}"
            ));
        }
    }
    if found.ended_by_policy > 0 {
        let count = found.ended_by_policy;
        output::note(format_args!("{count} jobs that the policy ended on both sides are not compared"));
    }
    // Errors of the jobs that ended well say nothing of a run in which others did not.
    let all_ended = again.iter().chain([&found]).all(|fidelity| fidelity.left_out.is_empty());
    Ok(match bars.is_none_or(|bars| all_ended && bars.hold(&found)) {
        true => Exit::Ok,
        false => Exit::SomeFailed,
    })
}
