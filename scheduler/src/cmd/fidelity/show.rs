//! The tables of a comparison.

use cli::table::{self, TableLayout};
use formats::rows::{
    DecisionDifference, Fairness, Fidelity, FinishTimeFairness, Hindsight, TimedAction, Times, Utilisation,
};
use outcomes::fidelity::Bars;
use rig::output;
use schema::units::Nanos;

use super::Args;

pub(super) fn show(
    args: &Args,
    found: &Fidelity,
    again: Option<&Fidelity>,
    bars: Option<&Bars>,
) -> anyhow::Result<()> {
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
    let Utilisation { predicted_percent, measured_percent, .. } = found.utilisation;
    let busy = [predicted_percent, measured_percent]
        .map(|percent| table::or_dash(percent.map(|percent| format!("{percent:.1} %"))));
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
    line("utilisation", busy, Error::IfKnown(|of| of.utilisation.error_percent), None);
    if let Some(Fairness { predicted, measured }) = found.fairness {
        for (what, of) in FAIRNESS {
            let sides = [predicted, measured].map(|side| match what {
                "unfair jobs" => format!("{:.1} %", of(&side)),
                _ => format!("{:.2}", of(&side)),
            });
            line(what, sides, Error::OfFairness(of), None);
        }
    }
    if let Some(first) = found.first_100 {
        for (what, which, of) in [
            (
                "first 100 steps, average",
                first.average,
                Error::IfKnown(|of| Some(of.first_100?.average.error_percent)),
            ),
            (
                "first 100 steps, median",
                first.median,
                Error::IfKnown(|of| Some(of.first_100?.median.error_percent)),
            ),
        ] {
            line(what, times(which), of, None);
        }
    }
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
    args.layout.print(&lines)?;

    output::print("")?;
    let mut parts = table::new(&["where it arose", "of the average JCT", ""]);
    let average = found.average_jct.measured_ns as f64;
    for (name, ns) in found.arose.parts() {
        let percent = ns.map(|ns| percent(ns as f64 / average * 100.0));
        parts.add_row([name.to_owned(), table::or_dash(ns.map(signed)), table::or_dash(percent)]);
    }
    args.layout.print(&parts)?;
    if let Some(hindsight) = &found.hindsight {
        output::print("")?;
        show_hindsight(hindsight, args.layout)?;
    }
    if let Some(intervals) = &found.intervals {
        output::print("")?;
        output::print(format_args!(
            "{} of {} jobs are inside their 95 % intervals",
            intervals.jobs_inside, intervals.jobs
        ))?;
        let totals = intervals.drawn.map(|of| {
            [("average JCT", of.jct_ns_mean, found.average_jct), ("makespan", of.makespan_ns, found.makespan)]
        });
        for (what, range, times) in totals.into_iter().flatten() {
            let is_inside = if range.contains(times.measured_ns) { "inside" } else { "outside" };
            output::print(format_args!("{what}: {} is {is_inside} {range}", Nanos(times.measured_ns)))?;
        }
    }
    if args.jobs {
        output::print("")?;
        let parts = found.arose.parts().map(|(name, _)| name);
        let drawn: &[&str] = if found.intervals.is_some() { &["95 %"] } else { &[] };
        let mut jobs = table::new(&[&["job", sides[0], sides[1], "error"], drawn, &parts].concat());
        for job in &found.per_job {
            let mut cells = vec![job.name.clone()];
            cells.extend(times(job.jct));
            cells.push(percent(job.jct.error_percent));
            cells.extend(found.intervals.map(|_| table::or_dash(job.drawn)));
            cells.extend(job.arose.parts().map(|(_, ns)| table::or_dash(ns.map(signed))));
            jobs.add_row(cells);
        }
        args.layout.print(&jobs)?;
    }
    Ok(())
}

fn show_hindsight(of: &Hindsight, layout: TableLayout) -> anyhow::Result<()> {
    let average = of.average_jct.measured_ns as f64;
    let mut parts = table::new(&["by hindsight", "of the average JCT", ""]);
    for (name, ns) in [("drift of times", of.drift_ns), ("simulation", of.simulation_ns)] {
        parts.add_row([name.to_owned(), signed(ns), percent(ns as f64 / average * 100.0)]);
    }
    layout.print(&parts)?;
    output::print(format_args!(
        "simulated with the measured times: average JCT {} off, makespan {}, job median {:.1} %, p90 {:.1} %, most {:.1} %",
        percent(of.average_jct.error_percent),
        percent(of.makespan.error_percent),
        of.job_jct.median_percent,
        of.job_jct.p90_percent,
        of.job_jct.max_percent
    ))?;
    output::print(match &of.first_difference {
        None => "all decisions about each job were those of the run".to_owned(),
        Some(difference) => first_difference(difference),
    })?;
    if of.speed.is_empty() {
        return Ok(());
    }
    output::print("")?;
    let mut lines = table::new(&["from", "jobs", "step over tables", "0.5 to 1.5"]);
    for row in &of.speed {
        let length = ((row.step_ratio - 0.5).clamp(0.0, 1.0) * 40.0).round() as usize;
        lines.add_row([
            Nanos(row.from_ns).to_string(),
            row.jobs.to_string(),
            format!("{:.2} ({:.2} to {:.2})", row.step_ratio, row.step_ratio_min, row.step_ratio_max),
            format!("{}{}", "#".repeat(length), ".".repeat(40 - length)),
        ]);
    }
    layout.print(&lines)
}

/// Two times of the same action may be equal in three digits, so that their difference is printed.
fn first_difference(difference: &DecisionDifference) -> String {
    let DecisionDifference { job, run, simulation } = difference;
    let what = match (run, simulation) {
        (Some(run), Some(simulated)) if run.action == simulated.action => {
            let when = if simulated.at_ns < run.at_ns { "earlier" } else { "later" };
            let by = Nanos(run.at_ns.0.abs_diff(simulated.at_ns.0));
            format!("{} at {} in the run comes {by} {when} in the simulation", run.action, run.at_ns)
        }
        _ => format!(
            "in the run {}, in the simulation {}",
            described(run.as_ref()),
            described(simulation.as_ref())
        ),
    };
    format!("the first decision that differs is about {job}: {what}")
}

fn described(timed: Option<&TimedAction>) -> String {
    timed.map_or("none".to_owned(), |timed| format!("{} at {}", timed.action, timed.at_ns))
}

/// A statistic of the finish-time fairness.
type OfFairness = fn(&FinishTimeFairness) -> f64;

/// What is printed of the finish-time fairness.
const FAIRNESS: [(&str, OfFairness); 5] = [
    ("rho, mean", |of| of.rho_mean),
    ("rho, median", |of| of.rho_median),
    ("rho, p99", |of| of.rho_p99),
    ("rho, most", |of| of.rho_max),
    ("unfair jobs", |of| of.unfair_percent),
];

/// An error in percent that is printed in a table.
enum Error {
    Signed(fn(&Fidelity) -> f64),
    /// The error of a value that is not known for every comparison.
    IfKnown(fn(&Fidelity) -> Option<f64>),
    /// The error of a statistic of the finish-time fairness, which is not known for every comparison.
    OfFairness(OfFairness),
    /// A quantile of the absolute errors of jobs, which is printed without a sign.
    OfJobs(fn(&Fidelity) -> f64),
}

impl Error {
    fn of(&self, fidelity: &Fidelity) -> Option<f64> {
        match self {
            Error::Signed(error) | Error::OfJobs(error) => Some(error(fidelity)),
            Error::IfKnown(error) => error(fidelity),
            Error::OfFairness(of) => {
                let Fairness { predicted, measured } = fidelity.fairness?;
                let [predicted, measured] = [predicted, measured].map(|side| of(&side));
                // The share of unfair jobs may be 0 on both sides, or on one.
                match predicted == measured {
                    true => Some(0.0),
                    false => Some((predicted / measured - 1.0) * 100.0).filter(|error| error.is_finite()),
                }
            }
        }
    }

    fn spell(&self, fidelity: &Fidelity) -> String {
        match (self, self.of(fidelity)) {
            (_, None) => "-".into(),
            (Error::OfJobs(_), Some(error)) => format!("{error:.1} %"),
            (Error::Signed(_) | Error::IfKnown(_) | Error::OfFairness(_), Some(error)) => percent(error),
        }
    }
}

fn percent(percent: f64) -> String {
    format!("{percent:+.1} %")
}

fn signed(ns: i64) -> String {
    format!("{}{}", if ns < 0 { "-" } else { "+" }, Nanos(ns.unsigned_abs()))
}
