//! `sched trace curves`: the trace of a run with the curves of its losses.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use anyhow::{Context as _, ensure};
use formats::{
    decision::{self, ClusterEvent, JobId, Settled, Turn},
    trace::Trace,
};
use model::loss_fit::{self, FEWEST_REPORTS, LossFit, ReportedLoss};
use record::run_dir::RunDir;
use rig::{Exit, output};

use super::{Clock, Shaped};

/// Write the trace of a run again, with the loss curves of its jobs.
///
/// A curve is 1/(B0 k + B1) + B2 after k steps, fitted by least squares to the losses in the reports of progress in decisions.jsonl. A
/// simulation of the written trace reports losses like those of the run, for policies that decide by them. A job with fewer than four
/// reports of a loss, or with a loss that is not above 0, has no curve. The other columns stay as they are. A fast-forwarded run is
/// refused, because skipped steps train no model.
///
/// Example: `sched trace curves runs/search --out search-trace.csv`
#[derive(clap::Args)]
pub(super) struct Args {
    /// Directory of a run of `sched run`, or of `sched sim --out`.
    run: PathBuf,
    #[command(flatten)]
    shaped: Shaped,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let run = RunDir::open(&args.run)?;
    let is_forwarded = run.manifest()?.scheduling.is_some_and(|of| of.fast_forward.is_some());
    ensure!(
        !is_forwarded,
        "{}: its jobs skipped steps, which train no model, so that its losses do not belong to the numbers of steps in its reports; \
         name a run without --fast-forward",
        args.run.display()
    );
    let mut rows = Trace::read(&run.arrivals_path())?.rows;
    let reports = reports(&decision::read(&run.decisions_path())?);
    let (mut fitted, mut largest) = (0, None::<(f64, String)>);
    for (row, job) in rows.iter_mut().zip((0..).map(JobId)) {
        let fit = reports.get(&job).and_then(|reports| loss_fit::fit(reports));
        row.loss_curve = fit.map(|fit| fit.curve);
        if let Some(LossFit { rms_error, .. }) = fit {
            fitted += 1;
            if largest.as_ref().is_none_or(|(most, _)| rms_error > *most) {
                largest = Some((rms_error, row.name.clone()));
            }
        }
    }
    let Some((rms_error, name)) = largest else {
        let why = format!("no job of {} has {FEWEST_REPORTS} reports of a loss above 0", args.run.display());
        return Err(Exit::NothingMatched.because(why));
    };
    output::news(format_args!(
        "trace: {fitted} of {} jobs have a loss curve; the largest root mean square error is {rms_error:.4}, of {name}",
        rows.len()
    ));
    let shaped = args.shaped.shape(
        || rows.iter().cloned(),
        Clock::default(),
        |row| match row.step_ns {
            Some(step_ns) => Ok(step_ns as f64),
            None => anyhow::bail!(
                "{}: the trace has no time of a step, so that its load is not known; remove --load",
                row.name
            ),
        },
    );
    args.shaped.write(shaped.with_context(|| run.arrivals_path().display().to_string())?, Vec::new())
}

/// The reports of a loss of each job, each with the steps whose mean it is.
fn reports(turns: &[Turn]) -> BTreeMap<JobId, Vec<ReportedLoss>> {
    let mut reports: BTreeMap<JobId, Vec<ReportedLoss>> = BTreeMap::new();
    // Steps of the present launch whose losses were reported. A launch that is resumed goes on with those before.
    let mut reported: BTreeMap<JobId, u64> = BTreeMap::new();
    let mut there = BTreeSet::new();
    for happened in turns.iter().flat_map(|turn| &turn.events) {
        match *happened {
            ClusterEvent::Settled { job, now: Settled::Running, steps } if there.insert(job) => {
                reported.insert(job, steps);
            }
            ClusterEvent::Settled { job, now: Settled::Stopped, .. }
            | ClusterEvent::Failed { job, .. }
            | ClusterEvent::Finished { job, .. } => {
                there.remove(&job);
            }
            ClusterEvent::Progress { job, steps, loss } => {
                let before = reported.insert(job, steps).unwrap_or_default();
                let report = loss.map(|loss| ReportedLoss { before, until: steps, loss });
                reports.entry(job).or_default().extend(report);
            }
            _ => {}
        }
    }
    reports
}

#[cfg(test)]
mod tests {
    use schema::units::Nanos;

    use super::*;

    #[test]
    fn a_report_is_of_the_steps_of_its_launch_since_the_one_before() {
        let job = JobId(0);
        let settled = |now, steps| ClusterEvent::Settled { job, now, steps };
        let progress = |steps, loss| ClusterEvent::Progress { job, steps, loss };
        let events = vec![
            settled(Settled::Running, 0),
            progress(10, Some(4.0)),
            progress(20, None),
            settled(Settled::Paused, 25),
            settled(Settled::Running, 25),
            progress(30, Some(3.0)),
            settled(Settled::Stopped, 35),
            settled(Settled::Running, 35),
            progress(40, Some(2.0)),
        ];
        let turn = Turn {
            turn: 0,
            at_ns: Nanos::ZERO,
            model_version: None,
            events,
            actions: Vec::new(),
            refused: Vec::new(),
            wake_at_ns: None,
            reason: String::new(),
            explain: BTreeMap::new(),
            view_hash: String::new(),
        };
        let report = |before, until, loss| ReportedLoss { before, until, loss };
        let expected = vec![report(0, 10, 4.0), report(20, 30, 3.0), report(35, 40, 2.0)];
        assert_eq!(reports(&[turn]), BTreeMap::from([(job, expected)]));
    }
}
