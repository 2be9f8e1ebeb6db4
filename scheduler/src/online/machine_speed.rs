//! The speed of the machine over a run: the factor by which the steps of all jobs took longer than their tables say.

use std::collections::BTreeMap;

use engine::{journal::Journal, view::View};
use formats::{
    decision::{JobId, Turn},
    rows::{MachineSpeed, Skip},
};
use launches::recorded::{Recorded, RecordedStretch};
use model::PredictRequest;
use rig::output;
use schema::units::Nanos;

use super::{
    forward::{SharedSkips, executed},
    run_inputs::RunInputs,
};

/// The length of a window of `speed.csv`.
const WINDOW: Nanos = Nanos(30 * Nanos::SECOND.0);
/// The time over which the speed is averaged to find a change.
const LATELY: Nanos = Nanos(60 * Nanos::SECOND.0);
/// The least training time of jobs that shows a change.
const ENOUGH: Nanos = Nanos(10 * Nanos::SECOND.0);

/// The speed of the machine in each window of a run. Only stretches whose step time the model knows count, and windows without any
/// are left out. The effect of neighbours is part of the speed. Of a stretch with skipped steps, the window before them counts.
pub fn machine_speed(inputs: &RunInputs, recorded: &Recorded, skips: &[Skip]) -> Vec<MachineSpeed> {
    let executed = recorded.stretches.iter().filter_map(|of| executed(of, skips));
    let known: Vec<Known> = executed.filter_map(|of| Known::new(inputs, recorded, of)).collect();
    let last = known.iter().map(|known| known.of.until).max().unwrap_or_default();
    let windows =
        (0..last.0.div_ceil(WINDOW.0)).map(|nth| (Nanos(nth * WINDOW.0), Nanos((nth + 1) * WINDOW.0)));
    windows.filter_map(|(from, until)| in_window(&known, from, until)).map(|(row, _)| row).collect()
}

/// The factor between two runs of the tables from which on predictions are doubtful.
const UNSTEADY: f64 = 1.1;

impl RunInputs {
    /// A warning about tables whose runs differ much in the speed of the machine. `None` if they agree.
    pub fn unsteady_tables(&self) -> Option<String> {
        let factor = self.models.drift.range.exp();
        (factor >= UNSTEADY).then(|| {
            format!(
                "warning: steps of the same jobs took {factor:.2} times as long in one run of the tables as in another; --draws \
                 gives predictions with intervals"
            )
        })
    }
}

/// A journal that watches the speed of the machine during a run, and passes each turn on.
pub(super) struct SpeedWatch<'a, J> {
    pub(super) inputs: &'a RunInputs,
    pub(super) recorded: Recorded,
    pub(super) skips: SharedSkips,
    pub(super) has_warned: bool,
    pub(super) journal: J,
}

impl<J: Journal> Journal for SpeedWatch<'_, J> {
    fn record(&mut self, turn: Turn, view: &View<'_>) -> anyhow::Result<()> {
        let before = self.recorded.stretches.len();
        self.recorded.add(&turn);
        if self.recorded.stretches.len() > before {
            self.watch(turn.at_ns);
        }
        self.journal.record(turn, view)
    }
}

impl<J> SpeedWatch<'_, J> {
    /// Warns when the machine becomes slower or faster than predictions expect, once until it is as expected again.
    fn watch(&mut self, now: Nanos) {
        let from = Nanos(now.0.saturating_sub(LATELY.0));
        let lately = self.recorded.stretches.iter().rev().take_while(|of| of.until > from);
        let skips = self.skips.borrow();
        let executed = lately.filter_map(|of| executed(of, &skips));
        let known: Vec<Known> =
            executed.filter_map(|of| Known::new(self.inputs, &self.recorded, of)).collect();
        let found = in_window(&known, from, now).filter(|(_, trained)| *trained >= ENOUGH);
        let Some((MachineSpeed { step_ratio, jobs, .. }, trained)) = found else { return };
        let most = self.inputs.models.drift.expected();
        let is_expected = (1.0 / most..=most).contains(&step_ratio);
        if !is_expected && !self.has_warned {
            output::note(format_args!(
                "warning: in the last {trained} of training, steps of {jobs} jobs took {step_ratio:.2} times as long as the \
                 tables say, and the prediction expects {:.2} to {most:.2} times",
                1.0 / most
            ));
        }
        self.has_warned = !is_expected;
    }
}

/// A stretch whose step time the model knows.
struct Known {
    of: RecordedStretch,
    /// The measured time of a step over the predicted one, on the log scale.
    log_ratio: f64,
}

impl Known {
    fn new(inputs: &RunInputs, recorded: &Recorded, of: RecordedStretch) -> Option<Known> {
        let launch = recorded.job(of.job)?.launches.get(of.launch)?;
        let device_type = inputs.topology.type_of(*launch.devices.first()?);
        let workload = |job: JobId| inputs.asked[job.0 as usize].what.workload();
        let others: Vec<_> = of.with.iter().map(|other| (*other, workload(*other))).collect();
        let own = workload(of.job);
        let co_runners: Vec<_> = others
            .iter()
            .map(|(other, workload)| {
                let plan = recorded.job(*other).and_then(|job| job.launches.last()?.plan);
                inputs.asked[other.0 as usize].subject(workload, plan, &inputs.topology, device_type)
            })
            .collect();
        let predicted = inputs.models.truth.predict(&PredictRequest {
            job: inputs.asked[of.job.0 as usize].subject(&own, launch.plan, &inputs.topology, device_type),
            placement: &inputs.topology.placement(&launch.devices),
            device_type,
            cpus: launch.cpus,
            co_runners: &co_runners,
            sharing: &inputs.manifest.scheduling.as_ref()?.sharing,
            neighbours: &[],
        })?;
        let step_ns = (of.until - of.from).0 as f64 / of.steps as f64;
        Some(Known { of, log_ratio: (step_ns / predicted.step_ns).ln() })
    }
}

/// The row of a window, and the time of training in it. `None` if no job trained in it.
fn in_window(known: &[Known], from: Nanos, until: Nanos) -> Option<(MachineSpeed, Nanos)> {
    let mut of_jobs: BTreeMap<JobId, (f64, f64)> = BTreeMap::new();
    for Known { of, log_ratio } in known {
        let overlap = of.until.min(until).0.saturating_sub(of.from.max(from).0) as f64;
        if overlap > 0.0 {
            let (ns, sum) = of_jobs.entry(of.job).or_default();
            *ns += overlap;
            *sum += overlap * log_ratio;
        }
    }
    let (ns, sum) = of_jobs.values().fold((0.0, 0.0), |(ns, sum), of| (ns + of.0, sum + of.1));
    let ratios = of_jobs.values().map(|(ns, sum)| (sum / ns).exp());
    let row = MachineSpeed {
        from_ns: from.0,
        until_ns: until.0,
        jobs: of_jobs.len() as u32,
        step_ratio: (sum / ns).exp(),
        step_ratio_min: ratios.clone().fold(f64::INFINITY, f64::min),
        step_ratio_max: ratios.fold(0.0, f64::max),
    };
    (ns > 0.0).then_some((row, Nanos(ns as u64)))
}
