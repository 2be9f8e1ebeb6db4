//! `sched fidelity`: compares a run with its prediction, or two runs with each other.

use std::path::{Path, PathBuf};

use cli::table;
use rig::{Exit, output};
use schema::{
    rows::{self, Arose, Fidelity, Outcome, Prediction, RowError, Times},
    run_dir::RunDir,
    units::Nanos,
};

use crate::{
    fidelity::{self, Bars},
    online,
};

/// Compare a run with its prediction, job by job.
///
/// With one RUN of `sched run`, its outcomes are compared with the predictions made before it. With two, each a run or an
/// outcomes.csv, the second is compared with the first, as if the first were its prediction.
///
/// Errors are those of the prediction, positive if it is too long. The error of the average job completion time (JCT) is the sum of
/// four parts: step time, of jobs that were never packed; interference, of jobs that were packed; switch cost; and order, which is
/// all waiting.
///
/// The utilisation is that of `sched sim`: the time in which devices are busy over the makespan of all devices, with a device that
/// jobs share counted once. It is printed if both sides are runs, as a file of outcomes does not name the devices, and if their
/// rows have `busy_share_ns` or no job was packed.
///
/// With --again, which names a second run of the same trace, the two runs are compared with each other as well, and the prediction
/// is held to limits: an error of 5 % for the average JCT and the makespan, 7 % for the median job and 20 % for nine jobs in ten,
/// or 1.5 times the difference between the runs if that is more. If an error exceeds its limit, or a job did not end well in all
/// of them, the command exits with 1.
///
/// Example: `sched fidelity runs/fifo --again runs/fifo-again`
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
    /// Also show each job.
    #[arg(long)]
    jobs: bool,
    /// Print everything as JSON: an object, or with --again a list of two, the prediction first.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let first = outcomes(&args.first)?;
    let of_first = devices(&args.first)?;
    let found = match &args.second {
        Some(second) => {
            let devices = [of_first, devices(second)?];
            fidelity::compare(&as_prediction(&first), &outcomes(second)?, devices)?
        }
        None => {
            let predictions = predictions(&args.first)?;
            let warnings = predictions.iter().map(|row| (&*row.name, row.warnings.clone()));
            if let Some(doubts) = online::doubts(warnings) {
                output::note(doubts);
            }
            fidelity::compare(&predictions, &first, [of_first; 2])?
        }
    };
    let again = args
        .again
        .as_ref()
        .map(|again| {
            fidelity::compare(&as_prediction(&outcomes(again)?), &first, [devices(again)?, of_first])
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

/// Reads the outcomes of a run, or a file of outcomes.
///
/// # Errors
/// Fails if the path is neither a run that has ended nor a file of outcomes.
fn outcomes(path: &Path) -> anyhow::Result<Vec<Outcome>> {
    let file = match path.is_dir() {
        true => RunDir::open(path)?.outcomes_path(),
        false => path.to_path_buf(),
    };
    match path.is_dir() {
        _ if file.is_file() => Ok(rows::read(&file)?),
        true => anyhow::bail!("{} has no outcomes; go on with it by `sched run --resume`", path.display()),
        false => anyhow::bail!("{}: there is no such run and no such file", path.display()),
    }
}

/// The number of devices of a run. A file of outcomes alone does not name them.
fn devices(path: &Path) -> anyhow::Result<Option<u32>> {
    match path.is_dir() {
        true => Ok(Some(online::cluster(&RunDir::open(path)?.manifest()?).devices())),
        false => Ok(None),
    }
}

/// Reads the predictions of a run.
///
/// # Errors
/// Fails if the path is no run, or a run without predictions.
fn predictions(path: &Path) -> anyhow::Result<Vec<Prediction>> {
    if !path.is_dir() {
        anyhow::bail!("{} alone has no predictions; name a run, or a second file", path.display());
    }
    let file = RunDir::open(path)?.predictions_path();
    match rows::read(&file) {
        Err(RowError::Io { .. }) if !file.is_file() => {
            anyhow::bail!("{} has no predictions; name a second run to compare it with", path.display())
        }
        other => Ok(other?),
    }
}

fn as_prediction(outcomes: &[Outcome]) -> Vec<Prediction> {
    outcomes.iter().map(Prediction::from).collect()
}

fn show(args: &Args, found: &Fidelity, again: Option<&Fidelity>, bars: Option<&Bars>) -> anyhow::Result<()> {
    let mut header = vec![format!("of {} jobs", found.jobs)];
    let sides = if args.second.is_some() { ["first", "second"] } else { ["predicted", "measured"] };
    header.extend(sides.map(str::to_owned));
    header.push("error".into());
    if again.is_some() {
        header.extend(["between runs".to_owned(), "asked".to_owned()]);
    }
    let mut lines = table::new(&header.iter().map(String::as_str).collect::<Vec<_>>());
    let mut line = |what: &str, sides: [String; 2], error: Error, bar: Option<f64>| {
        let mut cells = vec![what.to_owned()];
        cells.extend(sides);
        cells.push(error.spell(found));
        if let Some(again) = again {
            cells.push(error.spell(again));
            cells.push(bar.map_or("-".into(), |bar| {
                match error.of(found).is_some_and(|error| error.abs() <= bar) {
                    true => format!("{bar:.1} %: holds"),
                    false => format!("{bar:.1} %: missed"),
                }
            }));
        }
        lines.add_row(cells);
    };
    let times = |times: Times| [Nanos(times.predicted_ns), Nanos(times.measured_ns)].map(|ns| ns.to_string());
    let nothing = || ["-".to_owned(), "-".to_owned()];
    let bar = |of: fn(&Bars) -> f64| bars.map(of);
    let busy = found.utilisation.map_or_else(nothing, |of| {
        [of.predicted_percent, of.measured_percent].map(|percent| format!("{percent:.1} %"))
    });
    line(
        "average JCT",
        times(found.average_jct),
        Error::Signed(|of| of.average_jct.error_percent),
        bar(|of| of.average_jct_percent),
    );
    line("p99 JCT", times(found.p99_jct), Error::Signed(|of| of.p99_jct.error_percent), None);
    line(
        "makespan",
        times(found.makespan),
        Error::Signed(|of| of.makespan.error_percent),
        bar(|of| of.makespan_percent),
    );
    line("utilisation", busy, Error::OfUtilisation, None);
    line(
        "JCT of a job, median",
        nothing(),
        Error::OfJobs(|of| of.job_jct.median_percent),
        bar(|of| of.job_median_percent),
    );
    line(
        "JCT of a job, p90",
        nothing(),
        Error::OfJobs(|of| of.job_jct.p90_percent),
        bar(|of| of.job_p90_percent),
    );
    line("JCT of a job, most", nothing(), Error::OfJobs(|of| of.job_jct.max_percent), None);
    table::print(&lines)?;

    output::print("")?;
    let mut parts = table::new(&["where it arose", "of the average JCT", ""]);
    let average = found.average_jct.measured_ns as f64;
    for (name, ns) in named(&found.arose) {
        parts.add_row([name.to_owned(), signed(ns), percent(ns as f64 / average * 100.0)]);
    }
    table::print(&parts)?;
    if args.jobs {
        output::print("")?;
        let mut jobs = table::new(&[
            "job",
            sides[0],
            sides[1],
            "error",
            "step time",
            "interference",
            "switch cost",
            "order",
        ]);
        for job in &found.per_job {
            let mut cells = vec![job.name.clone()];
            cells.extend(times(job.jct));
            cells.push(percent(job.jct.error_percent));
            cells.extend(named(&job.arose).map(|(_, ns)| signed(ns)));
            jobs.add_row(cells);
        }
        table::print(&jobs)?;
    }
    Ok(())
}

/// An error in percent that is printed in a table.
enum Error {
    Signed(fn(&Fidelity) -> f64),
    /// The error of the utilisation, which is not known for every comparison.
    OfUtilisation,
    /// A quantile of the absolute errors of jobs, which is printed without a sign.
    OfJobs(fn(&Fidelity) -> f64),
}

impl Error {
    fn of(&self, fidelity: &Fidelity) -> Option<f64> {
        match self {
            Error::Signed(error) | Error::OfJobs(error) => Some(error(fidelity)),
            Error::OfUtilisation => fidelity.utilisation.map(|of| of.error_percent),
        }
    }

    fn spell(&self, fidelity: &Fidelity) -> String {
        match (self, self.of(fidelity)) {
            (_, None) => "-".into(),
            (Error::OfJobs(_), Some(error)) => format!("{error:.1} %"),
            (Error::Signed(_) | Error::OfUtilisation, Some(error)) => percent(error),
        }
    }
}

fn named(arose: &Arose) -> [(&'static str, i64); 4] {
    [
        ("step time", arose.step_time_ns),
        ("interference", arose.interference_ns),
        ("switch cost", arose.switch_cost_ns),
        ("order", arose.order_ns),
    ]
}

fn percent(percent: f64) -> String {
    format!("{percent:+.1} %")
}

fn signed(ns: i64) -> String {
    format!("{}{}", if ns < 0 { "-" } else { "+" }, Nanos(ns.unsigned_abs()))
}
