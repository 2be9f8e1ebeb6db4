//! The cost of the harness to the job that it watches, measured on one job within one launch.
//!
//! The job trains all the time. The harness watches it in stretches of a second, in the order watched, not watched, not
//! watched, watched. Differences between launches cancel, and so does a drift within a block of four. Without watching, there
//! is no sampling, and events are read once per second.

use std::{collections::BTreeSet, time::Duration};

use anyhow::Context as _;
use jobs::run::own_cpu;
use record::rows::{self, DeviceSample, OverheadRow, Tier};
use rig::{Exit, LaunchRequest, POLL_TRAINING, Rig, interrupt::Interrupt, sampler::Sampler};
use schema::units::Nanos;
use statistics::{
    launches::{abba, ratio_paired},
    median,
};

use crate::{
    follow::{Follower, WARM_UP},
    progress::Progress,
    window::Window,
};

/// Whether the harness watches, in each stretch of a block.
const BLOCK: [bool; 4] = [true, false, false, true];
/// The first part of a stretch, which is left out because the stretch before still affects it.
const SETTLE: Duration = Duration::from_millis(100);

/// The interval between reads of events while the harness does not watch; the end of the job is noticed this late.
const AWAY: Duration = Duration::from_secs(1);

/// A stretch, and whether the harness watched in it.
struct Stretch {
    watched: bool,
    window: Window,
    harness_cpu: Duration,
}

/// The parameters of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Blocks of four stretches.
    pub blocks: u32,
    pub stretch: Duration,
    /// The interval between readings of the fast tier while the device is watched; `None` for the rate that the device
    /// requires.
    pub fast_period: Option<Duration>,
}

/// Measures the cost on one launch.
pub fn measure(
    rig: &mut Rig,
    sampler: &Sampler,
    request: LaunchRequest,
    plan: Plan,
    interrupt: &Interrupt,
) -> anyhow::Result<OverheadRow> {
    let run = request.run.clone();
    let (job, device) = (request.spec.job.clone(), jobs::cells::joined(&request.spec.devices));
    if let Some(period) = plan.fast_period {
        sampler.read_fast_every(period);
    }
    let mut follower = Follower::start(rig, Some(sampler), request, interrupt)?;
    follower.follow(WARM_UP)?;
    let progress = Progress::new(u64::from(plan.blocks));
    let mut stretches = Vec::new();
    for block in 0..plan.blocks {
        progress.begin("watched and not");
        for watched in BLOCK {
            if interrupt.asked() {
                return Err(Exit::Interrupted.because("interrupted"));
            }
            sampler.set_active(watched);
            follower.look_every(if watched { POLL_TRAINING } else { AWAY });
            follower.follow(SETTLE)?;
            let (start, cpu) = (Nanos::monotonic_now(), own_cpu());
            follower.follow(plan.stretch)?;
            let window = Window { start, end: Nanos::monotonic_now() };
            stretches.push(Stretch { watched, window, harness_cpu: own_cpu().saturating_sub(cpu) });
        }
        progress.end(&format!("block {} of {}", block + 1, plan.blocks));
    }
    progress.finish();
    sampler.set_active(true);
    follower.look_every(POLL_TRAINING);
    let ends = follower.dismiss();
    sampler.flush()?;
    let samples: Vec<DeviceSample> = rows::read_appended(&run.devices_path())?;
    row(job, device, plan, &stretches, &ends, &samples)
}

fn row(
    job: String,
    device: String,
    plan: Plan,
    stretches: &[Stretch],
    ends: &[(Nanos, u64)],
    samples: &[DeviceSample],
) -> anyhow::Result<OverheadRow> {
    let median_step = |stretch: &Stretch| {
        let inside = ends.iter().filter(|(end, dur_ns)| {
            stretch.window.contains(*end) && stretch.window.contains(end.saturating_sub(Nanos(*dur_ns)))
        });
        median(&inside.map(|(_, dur_ns)| *dur_ns).collect::<Vec<u64>>())
    };
    // None if the job finished no whole step in a stretch. The row counts these blocks.
    let pair_of_block = |block: &[Stretch]| {
        let medians = block.iter().map(median_step).collect::<Option<Vec<f64>>>()?;
        Some(abba([medians[1], medians[0], medians[3], medians[2]]))
    };
    let pairs: Vec<(f64, f64)> = stretches.chunks_exact(BLOCK.len()).filter_map(pair_of_block).collect();
    let ratio = ratio_paired(&pairs).context(
        "fewer than two blocks have a whole step in each stretch; choose a job with shorter steps, or more blocks with --blocks",
    )?;
    let watched = || stretches.iter().filter(|stretch| stretch.watched);
    let watched_s: f64 = watched().map(|stretch| stretch.window.length().as_secs_f64()).sum();
    let cpu_us: f64 = watched().map(|stretch| stretch.harness_cpu.as_secs_f64() * 1e6).sum();
    let was_watched = |at| watched().any(|stretch| stretch.window.contains(at));
    let is_fast = |row: &&DeviceSample| row.tier == Tier::Fast && was_watched(row.mono_ns);
    let fast: Vec<&str> = samples.iter().filter(is_fast).map(|row| row.device.as_str()).collect();
    let devices = fast.iter().collect::<BTreeSet<_>>().len().max(1);
    let fast_reads_per_s = fast.len() as f64 / devices as f64 / watched_s;
    Ok(OverheadRow {
        job,
        device,
        blocks: pairs.len() as u32,
        blocks_left_out: plan.blocks - pairs.len() as u32,
        stretch_s: plan.stretch.as_secs_f64(),
        step_ratio: ratio.estimate,
        step_ratio_ci_lo: ratio.lo,
        step_ratio_ci_hi: ratio.hi,
        fast_reads_per_s: (10.0 * fast_reads_per_s).round() / 10.0,
        harness_cpu_us_per_s: (cpu_us / watched_s).round() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The row of a job whose steps take `watched_ms` while the harness watches and 10 ms otherwise. Stretches last one second. The job is
    /// stopped during the stretch with the index `stopped`.
    fn measured(blocks: u32, watched_ms: u64, stopped: Option<usize>) -> anyhow::Result<OverheadRow> {
        let (mut stretches, mut ends) = (Vec::new(), Vec::new());
        for (number, &watched) in (0..blocks).flat_map(|_| &BLOCK).enumerate() {
            let start = Nanos((number as u64 + 1) * 1_000 * MS);
            let window = Window { start, end: start + Nanos(1_000 * MS) };
            stretches.push(Stretch { watched, window, harness_cpu: Duration::from_millis(2) });
            let step = Nanos(if watched { watched_ms * MS } else { 10 * MS });
            let mut at = start + step;
            while stopped != Some(number) && at <= window.end {
                ends.push((at, step.0));
                at += step;
            }
        }
        let plan = Plan { blocks, stretch: Duration::from_secs(1), fast_period: None };
        row("a".into(), "cpu:0".into(), plan, &stretches, &ends, &[])
    }

    #[test]
    fn a_block_without_a_whole_step_in_a_stretch_is_left_out() {
        for (stopped, blocks) in [(None, 3), (Some(0), 2), (Some(6), 2)] {
            let row = measured(3, 11, stopped).expect("two blocks are enough");
            assert_eq!((row.blocks, row.blocks_left_out), (blocks, 3 - blocks), "{stopped:?}");
            assert_eq!(row.harness_cpu_us_per_s, 2_000, "{stopped:?}");
            assert!((row.step_ratio - 1.1).abs() < 1e-9, "{stopped:?}: {row:?}");
        }
        let error = measured(2, 11, Some(5)).expect_err("one is left").to_string();
        assert!(error.contains("choose a job with shorter steps"), "{error}");
    }
}
