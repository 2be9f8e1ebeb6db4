//! What the model of the policy learns from a run: the step times of jobs that have their devices for themselves.

use model::PredictRequest;
use schema::units::Nanos;

use super::Engine;
use crate::{
    cluster::{JobId, Share},
    job::{Phase, State},
    topology::DeviceId,
    view::Change,
};

/// The least number of steps of an observation. Reports count whole steps, so that its time may be wrong by one step of so many.
const ENOUGH: u64 = 20;

/// The stretches of jobs from which steps are observed.
pub(super) struct Learning {
    /// The jobs whose processes are on each device and are not paused.
    present: Vec<Vec<JobId>>,
    /// When the jobs on the devices of each job last changed.
    company_since: Vec<Nanos>,
    /// The steps of each job at the end of its last observation, and their time; later ones are observed next.
    from: Vec<Option<(u64, Nanos)>>,
}

impl Learning {
    pub(super) fn new(jobs: usize, devices: u32) -> Learning {
        Learning {
            present: vec![Vec::new(); devices as usize],
            company_since: vec![Nanos::ZERO; jobs],
            from: vec![None; jobs],
        }
    }

    /// Updates the devices of a job whose state has changed.
    pub(super) fn changed(&mut self, id: JobId, before: &State, after: &State, now: Nanos) {
        let (left, came) = (present_on(before), present_on(after));
        if left == came {
            return;
        }
        for device in left {
            self.present[device.0 as usize].retain(|other| *other != id);
            self.touch(*device, now);
        }
        for device in came {
            self.present[device.0 as usize].push(id);
            self.touch(*device, now);
        }
    }

    fn touch(&mut self, device: DeviceId, now: Nanos) {
        for job in &self.present[device.0 as usize] {
            self.company_since[job.0 as usize] = now;
        }
    }

    fn is_alone(&self, id: JobId, devices: &[DeviceId]) -> bool {
        devices.iter().all(|device| self.present[device.0 as usize] == [id])
    }

    /// The time of a step from the first report of a stretch to this one, in nanoseconds; `None` while there are too few steps. `last`
    /// is the report before, and a stretch does not reach back beyond `since`.
    fn observe(&mut self, id: JobId, since: Nanos, last: (u64, Nanos), now: (u64, Nanos)) -> Option<f64> {
        let from = &mut self.from[id.0 as usize];
        let (steps, at) = from.filter(|(_, at)| *at >= since).unwrap_or(last);
        *from = Some((steps, at));
        let (done, passed) = (now.0.saturating_sub(steps), now.1.saturating_sub(at));
        if at < since || done < ENOUGH || passed == Nanos::ZERO {
            return None;
        }
        *from = Some(now);
        Some(passed.0 as f64 / done as f64)
    }
}

impl Engine<'_> {
    /// Lets the model learn from a report of the progress of a job, if it has run alone and at its full rate. `last` has the steps and
    /// the time of the report before.
    pub(super) fn learn(&mut self, id: JobId, last: (u64, Nanos)) {
        let (Some(learning), job) = (&mut self.learning, &self.jobs[id.0 as usize]) else { return };
        let Some(placed) = job.placed() else { return };
        let is_whole = placed.phase == Phase::Running && placed.share == Share::FULL;
        if !is_whole || !learning.is_alone(id, &placed.devices) {
            return;
        }
        let since = placed.since.max(job.rate_since).max(learning.company_since[id.0 as usize]);
        let Some(step_ns) = learning.observe(id, since, last, (job.steps, self.now)) else { return };
        let asked = &self.asked[id.0 as usize];
        let workload = asked.what.workload();
        let device_type = self.topology.type_of(placed.devices[0]);
        let question = PredictRequest {
            job: asked.subject(&workload, placed.plan, self.topology, device_type),
            placement: &self.topology.placement(&placed.devices),
            device_type,
            cpus: placed.cpus,
            co_runners: &[],
            sharing: &self.settings.sharing,
            neighbours: &[],
        };
        if !self.model.observe(&question, step_ns) {
            return;
        }
        let jobs = self.asked.iter().zip(&self.jobs).take(self.arrived);
        let concerned = jobs.filter(|(asked, job)| {
            !matches!(job.state, State::Ended { .. }) && asked.what.workload() == workload
        });
        self.changes.extend(concerned.map(|(asked, _)| Change::Believed(asked.id)));
    }
}

/// The devices on which the processes of a job may run in this state.
fn present_on(state: &State) -> &[DeviceId] {
    match state {
        State::Placed(placed) if placed.phase != Phase::Paused => &placed.devices,
        _ => &[],
    }
}
