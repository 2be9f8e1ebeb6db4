//! The costs of switches: the times that jobs take to start, pause, resume, save and stop, from calibrations.

use std::{collections::BTreeMap, str::FromStr};

use anyhow::Context as _;
use schema::{
    calibration::{Calibration, RestartRow, Switch},
    job::Job,
    manifest::{Scheduling, SwitchCostFrom},
    plan::Plan,
    suspension::Suspension,
    units::Nanos,
};
use statistics::launches::log_deviation;

use crate::JobKey;

/// A source of the costs of switches.
pub trait SwitchCosts: Sync {
    /// The time of a switch of a job on this number of devices. `None` if it is not known. `luck` returns numbers of the standard
    /// normal distribution, one for each part that is drawn. With 0 for all of them, the cost is the middle one.
    fn cost(&self, job: &JobKey<'_>, devices: u32, of: Cost, luck: &mut dyn FnMut() -> f64) -> Option<Nanos>;

    /// The time for which a job goes on with its steps after it is ordered to stop or to pause. If it is not 0, it is at least the
    /// time of one step. The job also completes the step in which this time ends, and all these steps count. It is 0 if no steps
    /// are granted ahead: the job then completes only its present step.
    fn works_on(&self, _job: &JobKey<'_>, _devices: u32) -> Nanos {
        Nanos::ZERO
    }
}

/// A switch of a job, or a checkpoint, that costs time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cost {
    /// The time from the action that starts a job to its first step, plus the time by which the first step is longer than others.
    Start,
    /// The time of a start from a checkpoint, measured like [`Cost::Start`].
    Restart,
    /// The time from the end of the last step until the job is suspended where it is, in the way of the run.
    Pause,
    /// The time from the order to go on until the next step begins.
    Resume,
    Checkpoint,
    /// The time from the order to stop until the launch has ended.
    Stop,
}

impl Cost {
    pub const ALL: [Cost; 6] =
        [Cost::Start, Cost::Restart, Cost::Pause, Cost::Resume, Cost::Checkpoint, Cost::Stop];

    /// The name of the cost in a sentence, such as "a start".
    pub fn noun(self) -> &'static str {
        match self {
            Cost::Start => "a start",
            Cost::Restart => "a start from a checkpoint",
            Cost::Pause => "a pause",
            Cost::Resume => "going on after a pause",
            Cost::Checkpoint => "a checkpoint",
            Cost::Stop => "a stop",
        }
    }

    /// The parts of the cost that a calibration measures, for jobs that are suspended in this way, and those of older calibrations, which
    /// count from worker to worker and not what the harness waits for. Of the first step, only the time beyond that of other steps counts.
    fn parts(self, suspension: Suspension) -> &'static [&'static [Switch]] {
        match (self, suspension) {
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
            (Cost::Stop, _) => &[&[Switch::Stop]],
        }
    }
}

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
        let deviation = log_deviation(ns.ci_lo as f64, ns.ci_hi as f64, row.repeats as usize);
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
        let measured = &self.closest(job, devices)?.parts;
        let is_measured = |parts: &&&[Switch]| parts.iter().all(|part| measured.contains_key(part));
        let mut ns = 0.0;
        for part in *of.parts(self.suspension).iter().find(is_measured)? {
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

/// The cost of a restart and of a resumption by the number of devices, for jobs without a measurement. All other switches cost
/// nothing. The first start also costs nothing, because the lengths in published traces contain it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// By the number of devices from which on it holds. There is one for 1.
    from: BTreeMap<u32, Nanos>,
    /// The cost of a resumption, if it is another one.
    resume: Option<Nanos>,
}

impl Named {
    /// A cost for any number of devices.
    pub fn constant(cost: Nanos) -> Named {
        Named { from: BTreeMap::from([(1, cost)]), resume: None }
    }

    /// The cost in a manifest. `None` if the user gave none.
    pub fn recorded(scheduling: &Scheduling) -> Option<Named> {
        let mut named = Named::constant(Nanos::from_secs_f64(scheduling.switch_cost_s?));
        let more = scheduling.switch_cost_from.iter();
        named.from.extend(more.map(|from| (from.devices, Nanos::from_secs_f64(from.cost_s))));
        named.resume = scheduling.resume_cost_s.map(Nanos::from_secs_f64);
        Some(named)
    }

    /// Writes the cost to a manifest.
    pub fn record(&self, scheduling: &mut Scheduling) {
        scheduling.switch_cost_s = self.from.get(&1).map(|cost| cost.as_secs_f64());
        let more = self.from.iter().filter(|(devices, _)| **devices > 1);
        let from = |(devices, cost): (&u32, &Nanos)| SwitchCostFrom {
            devices: *devices,
            cost_s: cost.as_secs_f64(),
        };
        scheduling.switch_cost_from = more.map(from).collect();
    }
}

impl FromStr for Named {
    type Err = String;

    /// Parses `COST[,DEVICES:COST..]`, such as `40s,9:60s`: 40 s, and 60 s from 9 devices on.
    fn from_str(text: &str) -> Result<Named, String> {
        let cost =
            |time: &str| humantime::parse_duration(time).map(Nanos::from).map_err(|error| error.to_string());
        let (first, more) = text.split_once(',').map_or((text, None), |(first, more)| (first, Some(more)));
        let mut named = Named::constant(cost(first)?);
        for part in more.into_iter().flat_map(|more| more.split(',')) {
            let wrong = || format!("'{part}' is not DEVICES:COST, such as 9:60s for 9 devices and more");
            let (devices, time) = part.split_once(':').ok_or_else(wrong)?;
            let devices = devices.parse().ok().filter(|devices| *devices > 1).ok_or_else(wrong)?;
            if named.from.insert(devices, cost(time)?).is_some() {
                return Err(format!("'{part}': {devices} devices are named twice"));
            }
        }
        Ok(named)
    }
}

impl SwitchCosts for Named {
    fn cost(&self, _: &JobKey<'_>, devices: u32, of: Cost, _: &mut dyn FnMut() -> f64) -> Option<Nanos> {
        Some(match of {
            Cost::Resume if self.resume.is_some() => self.resume?,
            Cost::Restart | Cost::Resume => *self.from.range(..=devices.max(1)).next_back()?.1,
            Cost::Start | Cost::Pause | Cost::Checkpoint | Cost::Stop => Nanos::ZERO,
        })
    }
}

/// The measured cost of a switch if there is one, and else the named cost.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredElseNamed(pub Measured, pub Named);

impl SwitchCosts for MeasuredElseNamed {
    fn cost(&self, job: &JobKey<'_>, devices: u32, of: Cost, luck: &mut dyn FnMut() -> f64) -> Option<Nanos> {
        self.0.cost(job, devices, of, luck).or_else(|| self.1.cost(job, devices, of, luck))
    }

    fn works_on(&self, job: &JobKey<'_>, devices: u32) -> Nanos {
        self.0.works_on(job, devices)
    }
}

#[cfg(test)]
mod tests {
    use schema::{calibration::Measured as Number, device::Device};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

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
        let job = |workload, batch, plan: &str| JobKey {
            workload,
            global_batch: Some(batch),
            plan: Some(plan.parse().unwrap()),
            trace_time: None,
        };
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
        // Half of the log interval is ln 2: five repeats have a deviation of sqrt(5) / 2.7764 of that.
        let unlucky = 100.0 * (2f64.ln() * 5f64.sqrt() / 2.776_445_105).exp() + 20.0;
        let found = ms(&lstm, 1, Cost::Start, 1.0).unwrap();
        assert!((found - unlucky).abs() < 1e-3, "{found} is not {unlucky}");
    }

    #[test]
    fn a_named_cost_is_for_going_on_alone() {
        let both = MeasuredElseNamed(measured(), Named::constant(Nanos(62_000_000_000)));
        let job = |workload| JobKey { workload, global_batch: None, plan: None, trace_time: None };
        let cost = |workload, of| both.cost(&job(workload), 1, of, &mut || 0.0).map(|cost| cost.0);
        assert_eq!(cost("philly", Cost::Restart), Some(62_000_000_000));
        assert_eq!(cost("philly", Cost::Start), Some(0));
        assert_eq!(cost("lstm", Cost::Restart), Some(127_000_000));
        let works_on = ["lstm", "philly"].map(|workload| both.works_on(&job(workload), 1).0);
        assert_eq!(works_on, [350_000_000, 0], "a job without a measurement is none of this testbed");
    }

    #[test]
    fn a_named_cost_may_depend_on_the_number_of_devices() {
        let job = JobKey { workload: "philly", global_batch: None, plan: None, trace_time: None };
        let cost =
            |named: &Named, devices| named.cost(&job, devices, Cost::Restart, &mut || 0.0).map(|cost| cost.0);
        let named: Named = "40s,9:60s,17:2m".parse().unwrap();
        let seconds =
            [1, 8, 9, 16, 17, 400].map(|devices| cost(&named, devices).map(|ns| ns / 1_000_000_000));
        assert_eq!(seconds, [40, 40, 60, 60, 120, 120].map(Some));
        assert_eq!("62s".parse(), Ok(Named::constant(Nanos(62_000_000_000))));
        let both = Named { resume: Some(Nanos(SECOND)), ..named.clone() };
        let resume = |named: &Named| named.cost(&job, 9, Cost::Resume, &mut || 0.0);
        assert_eq!((resume(&named), resume(&both)), (Some(Nanos(60 * SECOND)), Some(Nanos(SECOND))));
        assert_eq!(cost(&both, 9), Some(60 * SECOND));
        for (text, message) in [
            ("40s,60s", "'60s' is not DEVICES:COST, such as 9:60s for 9 devices and more"),
            ("40s,1:60s", "'1:60s' is not DEVICES:COST"),
            ("40s,9:60s,9:70s", "'9:70s': 9 devices are named twice"),
            ("40s,9:", "value was empty"),
            ("9:60s", "invalid character"),
        ] {
            let error = text.parse::<Named>().unwrap_err();
            assert!(error.starts_with(message), "{text}: {error}");
        }
    }
}
