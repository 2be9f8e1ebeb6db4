//! The costs of switches that `profile calibrate` has measured.

use std::collections::BTreeMap;

use anyhow::Context as _;
use record::{
    calibration::{Calibration, RestartRow, Switch},
    suspension::Suspension,
};
use schema::{job::Job, plan::Plan, units::Nanos};
use statistics::{interval::WIDEST_RATIO, launches::log_deviation};

use super::{Cost, SwitchCosts};
use crate::JobKey;

/// The costs that `profile calibrate` has measured, by workload, with the spread between its repeats.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    of: BTreeMap<String, Vec<Restarts>>,
    works_on: Nanos,
    suspension: Suspension,
}

/// The measurements of one job.
#[derive(Clone, Debug, PartialEq)]
struct Restarts {
    global_batch: Option<u32>,
    plan: Option<Plan>,
    devices: u32,
    parts: BTreeMap<Switch, PartCost>,
}

/// The geometric mean of a part over the repeats, and its standard deviation on the log scale.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PartCost {
    ns: f64,
    log_deviation: f64,
}

impl Measured {
    /// Collects the measurements of calibrations. `works_on` is the time for which jobs do the steps granted ahead after they are
    /// ordered to leave. A calibration does not measure it, because its jobs have done these steps before.
    ///
    /// # Errors
    /// Fails if a row does not name a job.
    pub fn new(calibrations: &[Calibration], works_on: Nanos) -> anyhow::Result<Measured> {
        let mut measured = Measured { works_on, ..Measured::default() };
        for row in calibrations.iter().flat_map(|calibration| &calibration.restart) {
            measured.add(row).with_context(|| format!("restart of {}: {}", row.job, row.part))?;
        }
        Ok(measured)
    }

    /// Sets how jobs are suspended, which is by `pause` otherwise.
    pub fn suspended_by(mut self, suspension: Suspension) -> Measured {
        self.suspension = suspension;
        self
    }

    fn add(&mut self, row: &RestartRow) -> anyhow::Result<()> {
        let Job { workload, global_batch, plan, device: _ } = row.job.parse()?;
        let devices = row.devices.len() as u32;
        let of_workload = self.of.entry(workload).or_default();
        let is_same = |of: &Restarts| (of.global_batch, of.plan, of.devices) == (global_batch, plan, devices);
        let place = of_workload.iter().position(is_same).unwrap_or_else(|| {
            of_workload.push(Restarts { global_batch, plan, devices, parts: BTreeMap::new() });
            of_workload.len() - 1
        });
        let ns = &row.ns;
        // Repeats without an interval differ by at least as much as those with the widest.
        let [lo, hi] = ns.interval.map_or([1.0, WIDEST_RATIO], |ends| ends.map(|end| end as f64));
        let deviation = log_deviation(lo, hi, row.repeats as usize);
        let part = PartCost { ns: ns.value as f64, log_deviation: deviation.unwrap_or(0.0) };
        of_workload[place].parts.insert(row.part, part);
        Ok(())
    }

    /// The measurements of the job itself, or else of its workload under another plan or batch, with the closest number of devices.
    fn closest(&self, job: &JobKey<'_>, devices: u32) -> Option<&Restarts> {
        let distance = |of: &&Restarts| {
            (of.devices.abs_diff(devices), of.plan != job.plan, of.global_batch != job.global_batch)
        };
        self.of.get(job.workload)?.iter().min_by_key(distance)
    }
}

impl SwitchCosts for Measured {
    fn cost(&self, job: &JobKey<'_>, devices: u32, of: Cost, luck: &mut dyn FnMut() -> f64) -> Option<Nanos> {
        let Restarts { parts: measured, .. } = self.closest(job, devices)?;
        let is_measured = |parts: &&&[Switch]| parts.iter().all(|part| measured.contains_key(part));
        // The start of a program of the user's includes its first step.
        let is_program = measured.contains_key(&Switch::Start) && !measured.contains_key(&Switch::FirstStep);
        let parts = if is_program { parts_of_program(of) } else { parts(of, self.suspension) };
        let mut ns = 0.0;
        for part in *parts.iter().find(is_measured)? {
            let PartCost { ns: middle, log_deviation } = measured.get(part)?;
            ns += middle * (log_deviation * luck()).exp();
            if *part == Switch::FirstStep {
                ns -= measured.get(&Switch::Step)?.ns;
            }
        }
        Some(Nanos(ns.max(0.0).round() as u64))
    }

    fn works_on(&self, job: &JobKey<'_>, devices: u32) -> Nanos {
        self.closest(job, devices).map_or(Nanos::ZERO, |_| self.works_on)
    }
}

/// The parts of a cost that a calibration measures, for jobs that are suspended in this way, and those of older calibrations, which
/// count from worker to worker and not what the harness waits for. Of the first step, only the time beyond that of other steps counts.
fn parts(cost: Cost, suspension: Suspension) -> &'static [&'static [Switch]] {
    match (cost, suspension) {
        (Cost::Start, _) => &[&[Switch::Start, Switch::FirstStep]],
        (Cost::Restart, _) => &[&[Switch::Start, Switch::Restore, Switch::FirstStep]],
        (Cost::Pause, Suspension::StepGate) => &[&[Switch::Hold]],
        (Cost::Pause, Suspension::Pause | Suspension::Checkpoint) => {
            &[&[Switch::Hold, Switch::PauseAnswer], &[Switch::Pause]]
        }
        (Cost::Pause, Suspension::CudaCheckpoint) => {
            &[&[Switch::Hold, Switch::CudaLock, Switch::CudaCheckpoint]]
        }
        (Cost::Resume, Suspension::StepGate) => &[&[Switch::Release]],
        (Cost::Resume, Suspension::Pause | Suspension::Checkpoint) => {
            &[&[Switch::ResumeAnswer, Switch::Release], &[Switch::Resume]]
        }
        (Cost::Resume, Suspension::CudaCheckpoint) => {
            &[&[Switch::CudaRestore, Switch::CudaUnlock, Switch::Release]]
        }
        (Cost::Checkpoint, _) => &[&[Switch::CheckpointAnswer], &[Switch::Checkpoint]],
        (Cost::Stop | Cost::Exit, _) => &[&[Switch::Stop]],
    }
}

/// The parts of a cost of a user's program. Its start ends with its first steps, and a pause holds it at a step. The start of a program that
/// saves is one from its checkpoint, which counts for its first start, too: what it takes longer is less than starts scatter. A program
/// that saves when it is ended saves during its stop.
fn parts_of_program(cost: Cost) -> &'static [&'static [Switch]] {
    match cost {
        Cost::Start | Cost::Restart => &[&[Switch::Start]],
        Cost::Pause => &[&[Switch::Hold]],
        Cost::Resume => &[&[Switch::Release]],
        Cost::Checkpoint => &[&[Switch::CheckpointAnswer], &[]],
        Cost::Stop | Cost::Exit => &[&[Switch::Stop]],
    }
}

#[cfg(test)]
pub(super) mod tests {
    use record::calibration::Measured as Number;
    use schema::device::Device;

    use super::*;

    fn row(job: &str, devices: u32, part: Switch, ms: [u64; 3]) -> RestartRow {
        let [value, ci_lo, ci_hi] = ms.map(|ms| ms * 1_000_000);
        RestartRow {
            job: job.into(),
            devices: (0..devices).map(Device::Cuda).collect(),
            part,
            ns: Number { value, interval: Some([ci_lo, ci_hi]) },
            bytes: None,
            repeats: 5,
        }
    }

    pub(crate) fn measured() -> Measured {
        let mut measured = Measured::new(&[], Nanos(350_000_000)).unwrap();
        for (part, ms) in [
            (Switch::Start, [100, 50, 200]),
            (Switch::FirstStep, [60, 60, 60]),
            (Switch::Step, [40, 40, 40]),
            (Switch::Restore, [7, 7, 7]),
            (Switch::Stop, [50, 50, 50]),
        ] {
            measured.add(&row("lstm@b20@dp1", 1, part, ms)).unwrap();
        }
        measured.add(&row("lstm@b20@dp2", 2, Switch::Stop, [80, 80, 80])).unwrap();
        measured.add(&row("lstm@b40@dp1", 1, Switch::Stop, [55, 55, 55])).unwrap();
        measured
    }

    #[test]
    fn costs_are_sums_of_what_was_measured_of_the_closest_job() {
        let measured = measured();
        let job =
            |workload, batch, plan: &str| JobKey::new(workload, Some(batch), Some(plan.parse().unwrap()));
        let ms = |job: &JobKey<'_>, devices, of, luck: f64| {
            measured.cost(job, devices, of, &mut || luck).map(|cost| cost.0 as f64 / 1e6)
        };
        let lstm = job("lstm", 20, "dp1");
        assert_eq!(ms(&lstm, 1, Cost::Start, 0.0), Some(120.0), "start, and 20 ms of the first step");
        assert_eq!(ms(&lstm, 1, Cost::Restart, 0.0), Some(127.0));
        assert_eq!(ms(&lstm, 1, Cost::Stop, 3.0), Some(50.0), "without spread there is no luck");
        assert_eq!(ms(&lstm, 1, Cost::Pause, 0.0), None, "it was not measured");
        assert_eq!(ms(&job("lstm", 40, "dp1"), 1, Cost::Stop, 0.0), Some(55.0));
        assert_eq!(ms(&job("lstm", 99, "dp4"), 4, Cost::Stop, 0.0), Some(80.0));
        assert_eq!(ms(&job("gpt2", 20, "dp1"), 1, Cost::Stop, 0.0), None);
        // A program of the user's has no first step apart from its start, and takes no checkpoint.
        let mut measured = measured.clone();
        for (part, ms) in [
            (Switch::Start, 900),
            (Switch::Hold, 3),
            (Switch::Release, 1),
            (Switch::Stop, 40),
            (Switch::Step, 9),
        ] {
            measured.add(&row("cmd-python3-1a2b3c", 1, part, [ms; 3])).unwrap();
            measured.add(&row("mine@b8@dp2", 2, part, [ms; 3])).unwrap();
        }
        let program = JobKey::new("cmd-python3-1a2b3c", None, None);
        let of_catalog = job("mine", 8, "dp2");
        let costs = |program: &JobKey<'_>, devices| {
            Cost::ALL
                .map(|of| measured.cost(program, devices, of, &mut || 0.0).map(|cost| cost.0 / 1_000_000))
        };
        let expected = [
            (Cost::Start, 900),
            (Cost::Restart, 900),
            (Cost::Pause, 3),
            (Cost::Resume, 1),
            (Cost::Checkpoint, 0),
            (Cost::Stop, 40),
            (Cost::Exit, 40),
        ];
        let expected = expected.map(|(of, ms)| (of, Some(ms)));
        for costs in [costs(&program, 1), costs(&of_catalog, 2)] {
            assert_eq!(Cost::ALL.iter().copied().zip(costs).collect::<Vec<_>>(), expected);
        }
        // Half of the log interval is ln 2: five repeats have a deviation of sqrt(5) / 2.7764 of that.
        let unlucky = 100.0 * (2f64.ln() * 5f64.sqrt() / 2.776_445_105).exp() + 20.0;
        let drawn = ms(&lstm, 1, Cost::Start, 1.0).unwrap();
        assert!((drawn - unlucky).abs() < 1e-3, "{drawn} is not {unlucky}");
    }
}
