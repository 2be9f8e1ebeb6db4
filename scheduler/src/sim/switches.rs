//! What it costs to take a job's devices away and to give it devices again, from what was measured.

use std::collections::BTreeMap;

use anyhow::Context as _;
use model::Subject;
use schema::{
    calibration::{Calibration, RestartRow, Switch},
    job::Job,
    plan::Plan,
    units::Nanos,
};
use statistics::launches::log_deviation;

/// Where the simulated cluster has its costs from.
pub trait SwitchCosts {
    /// The time that a job on this number of devices takes for it; `None` where that is unknown. `luck` gives numbers of the standard normal
    /// distribution, one for each part that is drawn; where it gives 0, the cost is the middle one.
    fn cost(&self, job: &Subject<'_>, devices: u32, of: Cost, luck: &mut dyn FnMut() -> f64)
    -> Option<Nanos>;

    /// The time that a job works on after it is stopped or paused, at least one step; then it ends the one that it is in. That
    /// work counts. Zero where jobs are granted none ahead: they end the present step.
    fn works_on(&self, _job: &Subject<'_>, _devices: u32) -> Nanos {
        Nanos::ZERO
    }
}

/// What a job may be made to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cost {
    /// From the order to start it to its first step, and what that takes longer than others.
    Start,
    /// The same, from a checkpoint.
    Restart,
    /// From the end of a step to having its tensors off the device.
    Pause,
    Resume,
    Checkpoint,
    /// From being told to leave to being gone.
    Stop,
}

impl Cost {
    pub const ALL: [Cost; 6] =
        [Cost::Start, Cost::Restart, Cost::Pause, Cost::Resume, Cost::Checkpoint, Cost::Stop];

    pub(super) fn noun(self) -> &'static str {
        match self {
            Cost::Start => "a start",
            Cost::Restart => "a start from a checkpoint",
            Cost::Pause => "a pause",
            Cost::Resume => "going on after a pause",
            Cost::Checkpoint => "a checkpoint",
            Cost::Stop => "a stop",
        }
    }

    /// The parts that a calibration has measured of it. What a first step takes longer is its time less that of another.
    fn parts(self) -> &'static [Switch] {
        match self {
            Cost::Start => &[Switch::Start, Switch::FirstStep],
            Cost::Restart => &[Switch::Start, Switch::Restore, Switch::FirstStep],
            Cost::Pause => &[Switch::Pause],
            Cost::Resume => &[Switch::Resume],
            Cost::Checkpoint => &[Switch::Checkpoint],
            Cost::Stop => &[Switch::Stop],
        }
    }
}

/// As `profile calibrate` has measured them, per workload, with the spread between its repeats.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    of: BTreeMap<String, Vec<Restarts>>,
    works_on: Nanos,
}

/// What was measured of one job.
#[derive(Clone, Debug, PartialEq)]
struct Restarts {
    global_batch: Option<u32>,
    plan: Option<Plan>,
    devices: u32,
    parts: BTreeMap<Switch, Part>,
}

/// The geometric mean over repeats, and their standard deviation on the log scale.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    ns: f64,
    log_deviation: f64,
}

impl Measured {
    /// `works_on` is how long jobs do what they were granted, once they are told to leave: a calibration has them rest before.
    ///
    /// # Errors
    /// A row that names no job.
    pub fn new(calibrations: &[Calibration], works_on: Nanos) -> anyhow::Result<Measured> {
        let mut measured = Measured { works_on, ..Measured::default() };
        for row in calibrations.iter().flat_map(|calibration| &calibration.restart) {
            measured.add(row).with_context(|| format!("restart of {}: {}", row.job, row.part))?;
        }
        Ok(measured)
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
        let deviation = log_deviation(ns.ci_lo as f64, ns.ci_hi as f64, row.repeats as usize);
        let part = Part { ns: ns.value as f64, log_deviation: deviation.unwrap_or(0.0) };
        of_workload[place].parts.insert(row.part, part);
        Ok(())
    }

    /// What was measured of the job itself; else of its workload under another plan or batch, on as many devices where there is a
    /// choice.
    fn closest(&self, job: &Subject<'_>, devices: u32) -> Option<&Restarts> {
        let distance = |of: &&Restarts| {
            (of.devices.abs_diff(devices), of.plan != job.plan, of.global_batch != job.global_batch)
        };
        self.of.get(job.workload)?.iter().min_by_key(distance)
    }
}

impl SwitchCosts for Measured {
    fn cost(
        &self,
        job: &Subject<'_>,
        devices: u32,
        of: Cost,
        luck: &mut dyn FnMut() -> f64,
    ) -> Option<Nanos> {
        let measured = &self.closest(job, devices)?.parts;
        let mut ns = 0.0;
        for part in of.parts() {
            let Part { ns: middle, log_deviation } = measured.get(part)?;
            ns += middle * (log_deviation * luck()).exp();
            if *part == Switch::FirstStep {
                ns -= measured.get(&Switch::Step)?.ns;
            }
        }
        Some(Nanos(ns.max(0.0).round() as u64))
    }

    fn works_on(&self, job: &Subject<'_>, devices: u32) -> Nanos {
        self.closest(job, devices).map_or(Nanos::ZERO, |_| self.works_on)
    }
}

/// A constant that somebody named, for jobs of which nothing was measured: what a job takes to go on after it was stopped or paused.
/// All else is free, the first start as well, as the lengths of traces from elsewhere hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named(pub Nanos);

impl SwitchCosts for Named {
    fn cost(&self, _: &Subject<'_>, _: u32, of: Cost, _: &mut dyn FnMut() -> f64) -> Option<Nanos> {
        Some(match of {
            Cost::Restart | Cost::Resume => self.0,
            Cost::Start | Cost::Pause | Cost::Checkpoint | Cost::Stop => Nanos::ZERO,
        })
    }
}

/// What was measured where it was, and else what was named.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredElseNamed(pub Measured, pub Named);

impl SwitchCosts for MeasuredElseNamed {
    fn cost(
        &self,
        job: &Subject<'_>,
        devices: u32,
        of: Cost,
        luck: &mut dyn FnMut() -> f64,
    ) -> Option<Nanos> {
        self.0.cost(job, devices, of, luck).or_else(|| self.1.cost(job, devices, of, luck))
    }

    fn works_on(&self, job: &Subject<'_>, devices: u32) -> Nanos {
        self.0.works_on(job, devices)
    }
}

#[cfg(test)]
mod tests {
    use schema::{calibration::Measured as Number, device::Device};

    use super::*;

    fn row(job: &str, devices: u32, part: Switch, ms: [u64; 3]) -> RestartRow {
        let [value, ci_lo, ci_hi] = ms.map(|ms| ms * 1_000_000);
        RestartRow {
            job: job.into(),
            devices: (0..devices).map(Device::Cuda).collect(),
            part,
            ns: Number { value, ci_lo, ci_hi },
            bytes: None,
            repeats: 5,
        }
    }

    fn measured() -> Measured {
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
        let job = |workload, batch, plan: &str| Subject {
            workload,
            global_batch: Some(batch),
            plan: Some(plan.parse().unwrap()),
            step_ns: None,
        };
        let ms = |job: &Subject<'_>, devices, of, luck: f64| {
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
        // Half of the log interval is ln 2: five repeats have a deviation of sqrt(5) / 2.7764 of that.
        let unlucky = 100.0 * (2f64.ln() * 5f64.sqrt() / 2.776_445_105).exp() + 20.0;
        let found = ms(&lstm, 1, Cost::Start, 1.0).unwrap();
        assert!((found - unlucky).abs() < 1e-3, "{found} is not {unlucky}");
    }

    #[test]
    fn a_named_cost_is_for_going_on_alone() {
        let both = MeasuredElseNamed(measured(), Named(Nanos(62_000_000_000)));
        let job = |workload| Subject { workload, global_batch: None, plan: None, step_ns: None };
        let cost = |workload, of| both.cost(&job(workload), 1, of, &mut || 0.0).map(|cost| cost.0);
        assert_eq!(cost("philly", Cost::Restart), Some(62_000_000_000));
        assert_eq!(cost("philly", Cost::Start), Some(0));
        assert_eq!(cost("lstm", Cost::Restart), Some(127_000_000));
        let works_on = ["lstm", "philly"].map(|workload| both.works_on(&job(workload), 1).0);
        assert_eq!(works_on, [350_000_000, 0], "what was not measured is no job of this testbed");
    }
}
