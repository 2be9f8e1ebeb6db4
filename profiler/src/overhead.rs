//! What the harness costs the job it watches, measured on one job within one launch.
//!
//! The job trains on; the harness watches it in stretches of a second and looks away in others, in
//! the order watched, away, away, watched. What differs between launches cancels, and so does a drift
//! within a block of four. Looking away means no sampling and events looked at once a second.

use std::time::Duration;

use anyhow::{Context as _, bail};
use schema::{rows::OverheadRow, units::Nanos, wire::Event};
use statistics::{
    launches::{abba, ratio_paired},
    median,
};

use crate::{
    cmd::Exit,
    interrupt::Interrupt,
    launch::POLL_TRAINING,
    progress::Progress,
    rig::{LaunchRequest, Leave, Member, Rig, RigEvent},
    run::own_cpu,
    sampler::Sampler,
    window::Window,
};

/// Whether the harness watches, in each stretch of a block.
const BLOCK: [bool; 4] = [true, false, false, true];
/// The first part of a stretch still feels the one before it.
const SETTLE: Duration = Duration::from_millis(100);
/// Steps before the first stretch, and at least so much time.
const WARM_UP: Duration = Duration::from_secs(5);

/// A harness that looks away still sees, so late, that the job has ended.
const AWAY: Duration = Duration::from_secs(1);

/// A stretch and what the harness did in it.
struct Stretch {
    watched: bool,
    window: Window,
    harness_cpu: Duration,
}

/// Measures `blocks` blocks of four stretches on one launch.
pub fn measure(
    rig: &mut Rig,
    sampler: &Sampler,
    request: LaunchRequest,
    blocks: u32,
    stretch: Duration,
    interrupt: &Interrupt,
) -> anyhow::Result<OverheadRow> {
    let (launch, job) = (request.spec.launch.clone(), request.spec.job.clone());
    let device = crate::cells::joined(&request.spec.devices);
    let member = rig.add(request);
    let mut job_steps = Steps { member, done: 0, last_ns: 0, ends: Vec::new() };
    job_steps.follow_until_ready(rig, sampler, &launch, interrupt)?;
    job_steps.follow(rig, WARM_UP)?;
    let progress = Progress::new(u64::from(blocks));
    let mut stretches = Vec::new();
    for block in 0..blocks {
        progress.begin("watched and not");
        for watched in BLOCK {
            if interrupt.asked() {
                return Err(Exit::Interrupted.because("interrupted"));
            }
            sampler.set_active(watched);
            rig.look_every(member, if watched { POLL_TRAINING } else { AWAY });
            job_steps.follow(rig, SETTLE)?;
            let (start, cpu) = (Nanos::monotonic_now(), own_cpu());
            job_steps.follow(rig, stretch)?;
            let window = Window { start, end: Nanos::monotonic_now() };
            stretches.push(Stretch { watched, window, harness_cpu: own_cpu().saturating_sub(cpu) });
        }
        progress.end(&format!("block {} of {blocks}", block + 1));
    }
    progress.finish();
    sampler.set_active(true);
    rig.look_every(member, POLL_TRAINING);
    rig.remove(member, Leave::AtBoundary);
    job_steps.follow_to_the_end(rig)?;
    sampler.unwatch(&launch);
    row(job, device, blocks, stretch, &stretches, &job_steps.ends)
}

fn row(
    job: String,
    device: String,
    blocks: u32,
    stretch: Duration,
    stretches: &[Stretch],
    ends: &[(Nanos, u64)],
) -> anyhow::Result<OverheadRow> {
    let medians: Vec<f64> = stretches
        .iter()
        .map(|stretch| {
            let inside = ends.iter().filter(|(end, dur_ns)| {
                stretch.window.contains(*end) && stretch.window.contains(end.saturating_sub(Nanos(*dur_ns)))
            });
            median(&inside.map(|(_, dur_ns)| *dur_ns).collect::<Vec<u64>>())
        })
        .collect::<Option<_>>()
        .context("a stretch has no whole step; take a job of shorter steps")?;
    let pairs: Vec<(f64, f64)> = medians
        .chunks_exact(BLOCK.len())
        .map(|block| abba([block[1], block[0], block[3], block[2]]))
        .collect();
    let ratio = ratio_paired(&pairs).context("two blocks at least are needed")?;
    let watched = stretches.iter().filter(|stretch| stretch.watched);
    let (cpu_us, watched_s) = watched.fold((0.0, 0.0), |(cpu, time), stretch| {
        let cpu = cpu + stretch.harness_cpu.as_secs_f64() * 1e6;
        (cpu, time + stretch.window.length().as_secs_f64())
    });
    Ok(OverheadRow {
        job,
        device,
        blocks,
        stretch_s: stretch.as_secs_f64(),
        step_ratio: ratio.estimate,
        step_ratio_ci_lo: ratio.lo,
        step_ratio_ci_hi: ratio.hi,
        fast_reads_per_s: 0.0,
        harness_cpu_us_per_s: (cpu_us / watched_s).round() as u64,
    })
}

/// The steps of the job, and its grant.
struct Steps {
    member: Member,
    done: u64,
    last_ns: u64,
    /// End and length of each.
    ends: Vec<(Nanos, u64)>,
}

impl Steps {
    fn follow_until_ready(
        &mut self,
        rig: &mut Rig,
        sampler: &Sampler,
        launch: &str,
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        loop {
            if interrupt.asked() {
                return Err(Exit::Interrupted.because("interrupted"));
            }
            match rig.next(Some(Nanos::monotonic_now() + Nanos::from(SETTLE))) {
                Some(RigEvent::Started { rank, pid, .. }) => sampler.watch(launch, rank, pid),
                Some(RigEvent::Said { event: Event::Ready(_), .. }) => {
                    rig.extend(self.member, 2);
                    return Ok(());
                }
                Some(RigEvent::Ended { end, .. }) => bail!("{}", end.err_detail.unwrap_or_default()),
                Some(RigEvent::Said { .. }) | None => {}
            }
        }
    }

    /// Follows the job for so long, and keeps it supplied well beyond the next look.
    fn follow(&mut self, rig: &mut Rig, time: Duration) -> anyhow::Result<()> {
        /// Longer than two looks of a harness that looks away.
        const AHEAD_NS: u64 = 3_000_000_000;
        let until = Nanos::monotonic_now() + Nanos::from(time);
        while Nanos::monotonic_now() < until {
            match rig.next(Some(until)) {
                Some(RigEvent::Said { at, event: Event::Step(step), .. }) => {
                    self.done = step.index + 1;
                    self.last_ns = step.dur_ns.0.max(1);
                    self.ends.push((at, step.dur_ns.0));
                    rig.extend(self.member, self.done + AHEAD_NS / self.last_ns + 2);
                }
                Some(RigEvent::Ended { end, .. }) => {
                    bail!("the job ended early: {}", end.err_detail.unwrap_or_default())
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn follow_to_the_end(&mut self, rig: &mut Rig) -> anyhow::Result<()> {
        loop {
            match rig.next(None) {
                Some(RigEvent::Said { at, event: Event::Step(step), .. }) => {
                    self.ends.push((at, step.dur_ns.0))
                }
                Some(RigEvent::Ended { .. }) | None => return Ok(()),
                Some(_) => {}
            }
        }
    }
}
