//! `profile doctor --overhead`: the cost of the harness to the job that it watches.

use std::time::Duration;

use jobs::run::{self, Observed};
use record::rows::{self, OverheadRow};
use rig::{Exit, Rig, interrupt::Interrupt, output, programs};

use super::{Args, trial};
use crate::overhead::{self, Plan};

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let observed = Observed::from_now();
    let trial = trial::begin(args.job.as_ref(), args.device.as_ref(), args.out.as_deref())?;
    let sampler = run::start_sampler(&trial.run, &trial.manifest)?;
    let mut rig = Rig::new(programs::all()?)?;
    let plan = Plan {
        blocks: args.blocks,
        stretch: Duration::from_secs(1),
        fast_period: args.fast_hz.map(|hz| Duration::from_secs_f64(1.0 / hz)),
    };
    let row = overhead::measure(&mut rig, &sampler, trial.request, plan, &Interrupt::listen()?)?;
    drop(rig);
    run::write_end(&trial.run, Exit::Ok, Vec::new(), observed, sampler.stop()?)?;
    if args.json {
        output::print(rows::to_json(&row))?;
    } else {
        output::print(format_args!(
            "{} on {}, read {} times a second: watched / not watched {:.4} ({:.4} to {:.4}, 95 %, {} blocks{}){}; \
             the harness uses {:.2} ms of CPU time a second",
            row.job,
            row.device,
            row.fast_reads_per_s,
            row.step_ratio,
            row.step_ratio_ci_lo,
            row.step_ratio_ci_hi,
            row.blocks,
            left_out(&row),
            finding(&row),
            row.harness_cpu_us_per_s as f64 / 1e3,
        ))?;
    }
    output::news(format_args!("run: {}", trial.run.path().display()));
    Ok(Exit::Ok)
}

/// Says how many blocks the ratio leaves out, if any.
fn left_out(row: &OverheadRow) -> String {
    match row.blocks_left_out {
        0 => String::new(),
        count => format!("; {count} without a whole step in a stretch are left out"),
    }
}

/// The remark for an interval that contains 1, and nothing otherwise.
fn finding(row: &OverheadRow) -> &'static str {
    let has_no_cost = row.step_ratio_ci_lo <= 1.0 && 1.0 <= row.step_ratio_ci_hi;
    if has_no_cost {
        ": the cost cannot be told from zero; more --blocks make the interval narrower"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_with_1_in_it_tells_no_cost() {
        for (lo, hi, can_tell) in
            [(1.002, 1.01, true), (0.98, 0.99, true), (0.99, 1.02, false), (1.0, 1.1, false)]
        {
            let row = OverheadRow {
                job: String::new(),
                device: String::new(),
                blocks: 20,
                blocks_left_out: 0,
                stretch_s: 1.0,
                step_ratio: f64::midpoint(lo, hi),
                step_ratio_ci_lo: lo,
                step_ratio_ci_hi: hi,
                fast_reads_per_s: 10.0,
                harness_cpu_us_per_s: 0,
            };
            assert_eq!(finding(&row).is_empty(), can_tell, "{lo} to {hi}");
        }
    }
}
