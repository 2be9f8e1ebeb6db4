//! `sched replay`: makes every decision of a run again.

use std::path::PathBuf;

use super::{busy, consent, not_repeated, recorded};
use crate::{online, policy};
use cli::agree::Yes;
use engine::{
    cluster::ClusterError,
    replay::{self, Difference},
};
use formats::rows::Replayed;
use record::rows;
use rig::{Exit, output};

/// Make the decisions of a run again, and compare each turn.
///
/// The events come from decisions.jsonl of the run, simulated or not. The same policy with the same tables decides on them again.
/// If a turn differs in more than the words of its reason, the first such turn is shown and the command exits with 1. No job is started; a policy that is a program is.
///
/// Example: `sched replay runs/sim/srtf`
#[derive(clap::Args)]
pub(super) struct Args {
    /// Directory of a run of `sched run`, or of `sched sim --out`.
    run: PathBuf,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    yes: Yes,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let (inputs, turns) = recorded(&args.run)?;
    let name = &online::scheduling(&inputs.manifest)?.policy;
    let consent = consent(&args.yes, &inputs.manifest)?;
    let mut policy = policy::build(name, &consent)?;
    let busy = busy(format!("deciding {} turns again", turns.len()));
    let compared = replay::replay(&mut inputs.engine(), &mut *policy, &turns);
    drop(busy);
    let first_difference = match compared {
        Ok(()) => None,
        Err(ClusterError::Other(error)) if error.is::<Difference>() => Some(error.to_string()),
        Err(error) => return Err(anyhow::Error::from(error).context(not_repeated(&args.run))),
    };
    let exit = if first_difference.is_none() { Exit::Ok } else { Exit::SomeFailed };
    if args.json {
        let replayed = Replayed { policy: name.clone(), turns: turns.len() as u64, first_difference };
        output::print(rows::to_json(&replayed))?;
    } else {
        let same = || format!("{} turns, every decision as it was recorded", turns.len());
        output::print(format_args!("{name}: {}", first_difference.unwrap_or_else(same)))?;
    }
    Ok(exit)
}
