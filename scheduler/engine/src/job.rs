//! Jobs: the requests of a trace, and the state of each job during a run, which only the engine writes.

use std::{
    borrow::Cow,
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
    time::SystemTime,
};

use formats::{loss_curve::LossCurve, trace::Class};
use model::{JobKey, TraceTime};
use record::{rows::ErrorKind, suspension::Suspension};
use schema::{device::Device, job::command_name, plan::Plan, units::Nanos};

use crate::{
    cluster::{JobId, Share},
    topology::{DeviceId, Topology},
};

/// The number of steps after which a user has a first impression of a job: the measure of early feedback of Gandiva (Xiao et al.,
/// OSDI 2018, section 6).
pub const FIRST_STEPS: u64 = 100;

/// The request for a job. It does not change during a run.
///
/// What it has in common with other jobs is in `shared`, and is read as if it were its own.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRequest {
    pub id: JobId,
    /// The name of the job in the trace.
    pub name: String,
    pub arrival: Nanos,
    /// The number of steps of the job. `None` for a command that runs until it ends, and of which no duration is known.
    pub steps: Option<u64>,
    /// The time alone of each of its steps, if they are equal parts of the known duration of a command that has no steps of its own.
    pub part_ns: Option<Nanos>,
    /// The time of a step of the job alone on what it asks for, if the trace gives it. A model is asked with
    /// [`JobRequest::subject`].
    pub step_ns: Option<u64>,
    /// The date and time of the arrival where the trace was recorded.
    pub submitted_at: Option<SystemTime>,
    pub shared: Arc<SharedRequest>,
}

/// The part of a request that jobs have in common. A trace of a million jobs has few different ones, which are in memory once.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedRequest {
    pub what: Payload,
    /// The plan that the job asks for. An elastic job may be given another plan and number of devices.
    pub plan: Option<Plan>,
    pub devices: u32,
    /// The type of the devices that the job asks for. `None` if it runs on any.
    pub device_type: Option<String>,
    /// The number of cores of the host that the job asks for, for each rank. `None` if it asks for none.
    pub cpus: Option<u16>,
    pub elastic: bool,
    /// The smallest number of devices that an elastic job may be given. `None` for 1.
    pub min_devices: Option<u32>,
    /// The largest number of devices that an elastic job may be given. `None` if there is no bound.
    pub max_devices: Option<u32>,
    /// The regular expression that finds the steps of a command in its output.
    pub steps_regex: Option<String>,
    /// The reason why the job takes no checkpoint and loses all its steps when it is stopped. `None` for a job that takes them.
    pub takes_no_checkpoint: Option<&'static str>,
    /// The steps that each launch of the job has done when its start is over. The step hook is ready after the second step of a program,
    /// and a program whose steps are lines of output is heard at its first.
    pub steps_in_start: u64,
    pub pausing: Pausing,
    pub user: String,
    pub virtual_cluster: String,
    pub class: Class,
    /// The priority of the job. A larger number is more important.
    pub priority: i32,
    /// The part of the time that the job has where jobs take turns, beside the weights of the others. It is above 0.
    pub weight: u32,
    /// The recurring job of which this job is an instance, as its user named it.
    pub recurring_job: Option<String>,
    /// The search over hyper-parameters of which the job is a member.
    pub search: Option<String>,
    /// The learning rate of the job. `None` for that of its workload. It does not change the time of a step, so that rows, models and
    /// packs do not ask for it.
    pub learning_rate: Option<f64>,
    /// The losses that the job reports in a simulation. `None` if it reports none.
    pub loss_curve: Option<LossCurve>,
}

impl Deref for JobRequest {
    type Target = SharedRequest;

    #[inline]
    fn deref(&self) -> &SharedRequest {
        &self.shared
    }
}

impl DerefMut for JobRequest {
    /// A job whose request is changed has a request of its own from then on.
    fn deref_mut(&mut self) -> &mut SharedRequest {
        Arc::make_mut(&mut self.shared)
    }
}

/// What a job runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Payload {
    Training {
        workload: String,
        /// The batch. `None` if the workload is in no catalog and the trace does not give the batch.
        global_batch: Option<u32>,
    },
    /// A program and its arguments.
    Command(Vec<String>),
}

/// What a model may answer differently for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kind<'a> {
    workload: Cow<'a, str>,
    global_batch: Option<u32>,
    plan: Option<Plan>,
    devices: u32,
    device_type: Option<&'a str>,
    cpus: Option<u16>,
    step_ns: Option<u64>,
    parts: u32,
}

/// What a pause does to a job, if jobs are suspended by `pause`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pausing {
    /// The job is held, and its tensors are moved to the memory of the host. On a CPU device they are there already.
    FreesMemory,
    /// The job is held, and keeps its memory on the device.
    HoldsMemory,
    /// The processes of the job are stopped wherever they are, and it keeps its memory on the device. It cannot be held between two
    /// steps, for this reason.
    Freezes(&'static str),
}

impl Pausing {
    /// Whether a pause frees memory of this device, if jobs are suspended in this way.
    pub fn frees(self, device: &Device, suspension: Suspension) -> bool {
        let moves_memory = match suspension {
            Suspension::StepGate | Suspension::Checkpoint => false,
            Suspension::Pause => self == Pausing::FreesMemory,
            Suspension::CudaCheckpoint => !matches!(self, Pausing::Freezes(_)),
        };
        moves_memory && matches!(device, Device::Cuda(_))
    }
}

impl Payload {
    /// The name of the workload in rows: that of the catalog, or the name of the command.
    pub fn workload(&self) -> Cow<'_, str> {
        match self {
            Payload::Training { workload, .. } => Cow::Borrowed(workload),
            Payload::Command(argv) => Cow::Owned(command_name(argv)),
        }
    }

    pub fn global_batch(&self) -> Option<u32> {
        match self {
            Payload::Training { global_batch, .. } => *global_batch,
            Payload::Command(_) => None,
        }
    }
}

impl JobRequest {
    /// The request with a change.
    pub fn with(mut self, change: impl FnOnce(&mut JobRequest)) -> JobRequest {
        change(&mut self);
        self
    }

    /// The subject of a question to a model about this job under a plan, on devices of a type. `workload` is the name that
    /// [`Payload::workload`] returns.
    pub fn subject<'a>(
        &'a self,
        workload: &'a str,
        plan: Option<Plan>,
        topology: &Topology,
        device_type: &str,
    ) -> JobKey<'a> {
        let trace_time = self.step_ns.map(|step_ns| TraceTime {
            step_ns,
            plan: self.plan,
            devices: self.devices,
            nodes: topology.fewest_nodes(&self.virtual_cluster, device_type, self.devices),
            device_type: self.device_type.as_deref(),
        });
        JobKey { trace_time, parts: self.parts(), ..JobKey::new(workload, self.what.global_batch(), plan) }
    }

    /// See [`JobKey::parts`].
    fn parts(&self) -> u32 {
        let parts = self.part_ns.and(self.steps).map(u32::try_from);
        parts.map_or(1, |parts| parts.unwrap_or(u32::MAX))
    }

    /// What jobs have in common for which a model has the same answers.
    pub fn kind(&self) -> Kind<'_> {
        Kind {
            workload: self.what.workload(),
            global_batch: self.what.global_batch(),
            plan: self.plan,
            devices: self.devices,
            device_type: self.device_type.as_deref(),
            cpus: self.cpus,
            step_ns: self.step_ns,
            parts: self.parts(),
        }
    }

    /// The date and time of the arrival where the trace was recorded, in UTC (RFC 3339).
    pub fn submit_utc(&self) -> Option<String> {
        self.submitted_at.map(|at| humantime::format_rfc3339(at).to_string())
    }
}

/// The state and the history of a job.
///
/// What few jobs of a large simulation have is in `rare`, and is read as if it were the job's own.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub state: State,
    /// The number of steps that count, as last reported.
    pub steps: u64,
    /// The time of that report.
    pub steps_at: Nanos,
    /// When it had done its first [`FIRST_STEPS`] steps.
    pub first_steps: Option<Nanos>,
    pub account: Account,
    /// `None` until the job reports its progress, is throttled, is stopped or fails.
    pub rare: Option<Box<RareState>>,
}

/// The part of the state of a job that a job which runs to its end without reports does not have.
#[derive(Clone, Debug, PartialEq)]
pub struct RareState {
    /// The step time on the present devices between the last two reports.
    pub measured: Option<MeasuredStep>,
    /// The time of the last throttle, and 0 before. A step time is not measured from an earlier report, because the job had another rate
    /// then.
    pub rate_since: Nanos,
    /// The last report of a training loss: the mean of the steps since the report before, `None` if none of them had a finite one. A
    /// report without a new step leaves it as it was.
    pub loss: Option<f64>,
    /// The devices that it left at a stop, since its last launch. Empty if that has not been stopped.
    pub stopped_on: Vec<DeviceId>,
    /// The number of failures after which the job was put back into the queue and that count as retries.
    pub retries: u32,
}

impl RareState {
    const NONE: RareState =
        RareState { measured: None, rate_since: Nanos::ZERO, loss: None, stopped_on: Vec::new(), retries: 0 };
}

impl Deref for Job {
    type Target = RareState;

    #[inline]
    fn deref(&self) -> &RareState {
        static NONE: RareState = RareState::NONE;
        self.rare.as_deref().unwrap_or(&NONE)
    }
}

impl DerefMut for Job {
    fn deref_mut(&mut self) -> &mut RareState {
        self.rare.get_or_insert_with(|| Box::new(RareState::NONE))
    }
}

/// A step time that was measured while a job ran. Reports count whole steps, so that it may be wrong by one step over their number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredStep {
    pub step_ns: f64,
    /// The time of the later report.
    pub at: Nanos,
}

impl Job {
    /// Creates a job that has not been started.
    pub fn new(arrival: Nanos) -> Job {
        Job {
            state: State::Waiting { since: arrival },
            steps: 0,
            steps_at: arrival,
            first_steps: None,
            account: Account::default(),
            rare: None,
        }
    }

    /// Sets the steps that count, as reported at `now`. The time of the first [`FIRST_STEPS`] is interpolated from the last report,
    /// which is exact if the job ran at one rate since then.
    pub fn report(&mut self, steps: u64, now: Nanos) {
        if self.first_steps.is_none() && steps >= FIRST_STEPS {
            let (left, done) =
                (FIRST_STEPS.saturating_sub(self.steps), steps.saturating_sub(self.steps).max(1));
            let passed = u128::from((now - self.steps_at).0) * u128::from(left) / u128::from(done);
            self.first_steps = Some(self.steps_at + Nanos(passed as u64));
        }
        (self.steps, self.steps_at) = (steps, now);
    }

    /// The placement of the job, if it has devices or is leaving them.
    pub fn placed(&self) -> Option<&Placed> {
        match &self.state {
            State::Placed(placed) => Some(placed),
            State::Waiting { .. } | State::Ended { .. } => None,
        }
    }

    /// The account of the job up to `now`, which is not before the present state began.
    pub fn account_at(&self, now: Nanos) -> Account {
        let mut account = self.account.clone();
        match &self.state {
            State::Waiting { since } => account.queued += now - *since,
            State::Placed(placed) => {
                let passed = now - placed.since;
                match placed.phase {
                    Phase::Running => {
                        account.running += passed;
                        let device_time = passed.0.saturating_mul(placed.devices.len() as u64);
                        account.device_time = Nanos(account.device_time.0.saturating_add(device_time));
                    }
                    Phase::Paused => account.paused += passed,
                    Phase::Starting | Phase::Pausing | Phase::Resuming | Phase::Stopping | Phase::Ending => {
                        account.switching += passed;
                        if placed.phase == Phase::Starting {
                            account.starting += passed;
                        }
                    }
                }
            }
            State::Ended { .. } => {}
        }
        account
    }
}

/// The state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The job needs devices and has none, since its arrival, its last stop or its last failure.
    Waiting {
        since: Nanos,
    },
    /// In a box, so that jobs that have no devices take less memory.
    Placed(Box<Placed>),
    Ended {
        at: Nanos,
        how: Ending,
    },
}

/// How a job has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It has done all its steps, or its command exited with success.
    Finished,
    ByPolicy,
    Failed(ErrorKind, Box<str>),
}

/// The devices of a job and its phase on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The devices in the order of ranks.
    pub devices: Vec<DeviceId>,
    pub plan: Option<Plan>,
    /// Cores of the host for each rank, if the policy chose a number.
    pub cpus: Option<u16>,
    pub phase: Phase,
    /// The time at which the phase began.
    pub since: Nanos,
    /// The share of the time for which the job may run. A launch begins without a limit.
    pub share: Share,
}

/// What a job does on its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    Starting,
    Running,
    Pausing,
    Paused,
    Resuming,
    Stopping,
    /// It leaves its devices, and does not run again.
    Ending,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Starting => "starting",
            Phase::Running => "running",
            Phase::Pausing => "pausing",
            Phase::Paused => "paused",
            Phase::Resuming => "resuming",
            Phase::Stopping => "stopping",
            Phase::Ending => "ending",
        })
    }
}

impl Phase {
    /// Whether the job is leaving its devices or has left them. A job that is started there now does not share them with it.
    pub fn has_left(self) -> bool {
        matches!(self, Phase::Pausing | Phase::Paused | Phase::Stopping | Phase::Ending)
    }
}

/// The times and counts of a job up to the start of its present state; [`Job::account_at`] adds the time since then. The times add
/// up to the time since arrival: `queued + switching + running + paused`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub first_start: Option<Nanos>,
    pub queued: Nanos,
    pub switching: Nanos,
    /// The part of `switching` in which the job started.
    pub starting: Nanos,
    pub running: Nanos,
    pub paused: Nanos,
    /// The sum of running time times devices: the attained service of Tiresias.
    pub device_time: Nanos,
    pub starts: u32,
    pub pauses: u32,
    pub stops: u32,
    /// The number of starts after a stop on other devices than before.
    pub migrations: u32,
    /// The number of steps lost by failures and by stops without a checkpoint.
    pub steps_lost: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its reports, in seconds and steps, and when it had done 100 of them.
    #[test]
    fn first_steps_are_interpolated_and_stay() {
        for (reports, expected) in [
            (&[(10, 0), (20, 99)][..], None),
            (&[(10, 0), (20, 100)], Some(20)),
            (&[(10, 0), (20, 200), (30, 300)], Some(15)),
            (&[(10, 80), (20, 80), (40, 120)], Some(30)),
            // The steps are lost, and done again.
            (&[(10, 0), (20, 200), (30, 0), (40, 500)], Some(15)),
            (&[(10, 100)], Some(10)),
        ] {
            let s = |seconds: u64| Nanos(seconds * 1_000_000_000);
            let mut job = Job::new(s(10));
            reports.iter().for_each(|(at, steps)| job.report(*steps, s(*at)));
            assert_eq!(job.first_steps, expected.map(s), "{reports:?}");
        }
    }
}
