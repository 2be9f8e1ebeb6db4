//! A cluster for the tests of policies: switches take no time, whoever shares a device runs as if alone, and a second has a thousand steps.

use model::{Prediction, Question, Throughput};
use schema::{sharing::Sharing, trace::Class, units::Nanos};

use crate::{
    cluster::{Action, JobId},
    job::{Asked, Job, Phase, Placed, State, What},
    occupancy::Occupancy,
    policy::{Decision, Policy},
    topology::{DeviceId, Topology},
    view::{Change, View},
};

pub(crate) const STEPS_PER_S: u64 = 1000;

/// Believes what a job says of its own step.
pub(crate) struct AsAsked;

impl Throughput for AsAsked {
    fn predict(&self, question: &Question<'_>) -> Option<Prediction> {
        question.job.step_ns.map(|step_ns| Prediction { step_ns: step_ns as f64, step_ns_ci: None })
    }
}

pub(crate) struct World {
    pub(crate) now: Nanos,
    pub(crate) topology: Topology,
    pub(crate) sharing: Sharing,
    pub(crate) asked: Vec<Asked>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) occupancy: Occupancy,
    pub(crate) changes: Vec<Change>,
    pub(crate) model: Box<dyn Throughput>,
    arrived: usize,
    shown: Vec<Change>,
}

/// Whole seconds.
pub(crate) fn s(seconds: u64) -> Nanos {
    Nanos(seconds * Nanos::SECOND.0)
}

impl World {
    /// One node; jobs as `(arrival in seconds, devices, length in seconds)`, in order of arrival.
    pub(crate) fn new(devices: u32, jobs: &[(u64, u32, u64)]) -> World {
        World::on(Topology::uniform(devices, devices, "GPU"), jobs)
    }

    pub(crate) fn on(topology: Topology, jobs: &[(u64, u32, u64)]) -> World {
        let ask = |(number, &(arrival, devices, length)): (u32, &(u64, u32, u64))| Asked {
            id: JobId(number),
            name: format!("j{number}"),
            arrival: s(arrival),
            what: What::Training { workload: "gpt2".into(), global_batch: Some(8) },
            plan: None,
            devices,
            elastic: false,
            steps: Some(length * STEPS_PER_S),
            user: String::new(),
            virtual_cluster: String::new(),
            class: Class::Guaranteed,
            step_ns: Some(Nanos::SECOND.0 / STEPS_PER_S),
        };
        World {
            now: Nanos::ZERO,
            occupancy: Occupancy::new(&topology),
            topology,
            sharing: Sharing::TimeSlice,
            asked: (0..).zip(jobs).map(ask).collect(),
            jobs: jobs.iter().map(|(arrival, ..)| Job::new(s(*arrival))).collect(),
            changes: Vec::new(),
            model: Box::new(AsAsked),
            arrived: 0,
            shown: Vec::new(),
        }
    }

    /// What happened since the last view is in no other.
    pub(crate) fn view(&mut self) -> View<'_> {
        self.shown = std::mem::take(&mut self.changes);
        View {
            now: self.now,
            topology: &self.topology,
            sharing: &self.sharing,
            asked: &self.asked,
            jobs: &self.jobs,
            occupancy: &self.occupancy,
            changes: &self.shown,
            model: &*self.model,
        }
    }

    /// Runs all jobs to their ends, an event a turn, and gives the ends in seconds. `look` sees the world after each turn.
    pub(crate) fn run(&mut self, policy: &mut dyn Policy, mut look: impl FnMut(&World)) -> Vec<u64> {
        let mut wake_at = None;
        while self.jobs.iter().any(|job| !matches!(job.state, State::Ended { .. })) {
            let ends = (0..)
                .zip(&self.jobs)
                .filter_map(|(number, job)| Some((self.ends_at(JobId(number), job)?, 0, number)));
            let arrives = self.asked.get(self.arrived).map(|asked| (asked.arrival, 1, asked.id.0));
            let wakes = wake_at.map(|at| (at, 2, 0));
            let next = ends.chain(arrives).chain(wakes).min();
            let (at, what, number) = next.expect("the policy lets a job wait for ever");
            assert!(at >= self.now, "{at:?} is over");
            self.now = at;
            match what {
                0 => self.end(JobId(number)),
                1 => self.arrive_one(),
                _ => {}
            }
            let Decision { actions, wake_at: next, .. } = policy.decide(&self.view());
            wake_at = next;
            for action in &actions {
                self.apply(action);
                // The switch is over at once, and that is an event, too.
                self.changes.push(Change::Settled(action.job()));
                wake_at = Some(self.now);
            }
            look(self);
        }
        self.jobs.iter().map(|job| job.steps_at.0 / Nanos::SECOND.0).collect()
    }

    /// Goes to the next arrival; all jobs of that instant arrive.
    pub(crate) fn arrive(&mut self) {
        self.now = self.asked[self.arrived].arrival;
        while self.asked.get(self.arrived).is_some_and(|asked| asked.arrival == self.now) {
            self.arrive_one();
        }
    }

    pub(crate) fn arrived(&self) -> impl Iterator<Item = (&Asked, &Job)> {
        self.asked.iter().zip(&self.jobs).take(self.arrived)
    }

    pub(crate) fn apply(&mut self, action: &Action) {
        match action {
            Action::Start { job, devices, .. } => {
                self.start(*job, &devices.iter().map(|device| device.0).collect::<Vec<_>>());
            }
            Action::Stop { job, checkpoint: true } => self.stop(*job),
            other => panic!("no policy here asks for {other:?}"),
        }
    }

    pub(crate) fn start(&mut self, job: JobId, devices: &[u32]) {
        let devices: Vec<DeviceId> = devices.iter().copied().map(DeviceId).collect();
        let (now, state) = (self.now, &mut self.jobs[job.0 as usize]);
        assert!(matches!(state.state, State::Waiting { .. }), "{job:?} does not wait");
        assert_eq!(devices.len(), self.asked[job.0 as usize].devices as usize);
        state.account = state.account_at(now);
        state.account.first_start.get_or_insert(now);
        state.steps_at = now;
        let (phase, kept) = (Phase::Running, devices.clone());
        state.state = State::Placed(Placed { devices, plan: None, phase, since: now });
        self.occupancy.keep(job, &kept);
        self.changes.push(Change::Placed(job));
    }

    pub(crate) fn stop(&mut self, job: JobId) {
        self.leave(job);
        self.jobs[job.0 as usize].state = State::Waiting { since: self.now };
        self.changes.push(Change::Waits(job));
    }

    /// The job is known to have done so many steps by now.
    pub(crate) fn progress(&mut self, job: JobId, steps: u64) {
        let now = self.now;
        let job_state = &mut self.jobs[job.0 as usize];
        (job_state.steps, job_state.steps_at) = (steps, now);
        self.changes.push(Change::Progressed(job));
    }

    pub(crate) fn end(&mut self, job: JobId) {
        self.leave(job);
        self.jobs[job.0 as usize].state = State::Ended { at: self.now, failed: None };
        self.changes.push(Change::Ended(job));
    }

    fn arrive_one(&mut self) {
        self.changes.push(Change::Waits(self.asked[self.arrived].id));
        self.arrived += 1;
    }

    fn ends_at(&self, id: JobId, job: &Job) -> Option<Nanos> {
        let placed = job.placed()?;
        let asked = &self.asked[id.0 as usize];
        let left = asked.steps?.saturating_sub(job.steps);
        Some(placed.since + Nanos(left * asked.step_ns?))
    }

    fn leave(&mut self, id: JobId) {
        let (now, job) = (self.now, &mut self.jobs[id.0 as usize]);
        job.account = job.account_at(now);
        let State::Placed(placed) = &job.state else { panic!("{id:?} has no devices") };
        let ran_ns = now.saturating_sub(placed.since).0;
        job.steps += ran_ns * STEPS_PER_S / Nanos::SECOND.0;
        job.steps_at = now;
        let devices = placed.devices.clone();
        self.occupancy.leave(id, &devices);
    }
}
