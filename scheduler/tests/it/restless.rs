//! A policy with random requests, possible or not.

use engine::{
    cluster::{Action, DeviceId, JobId, Share},
    job::{JobRequest, Phase, State},
    policy::{Decision, Policy},
    topology::Node,
    view::View,
};
use fastrand::Rng;
use schema::{plan::Plan, units::Nanos};

use crate::support::SECOND;

/// The number of turns with random requests.
const RANDOM: u32 = 150;
/// The number of turns after which no job waits for devices that are lost.
const PATIENT: u32 = 1_000;

/// After a number of turns with random requests it lets every job run to its end.
pub(crate) struct Restless {
    rng: Rng,
    turns: u32,
}

impl Restless {
    pub(crate) fn new(seed: u64) -> Restless {
        Restless { rng: Rng::with_seed(seed), turns: 0 }
    }

    fn anything(&mut self, view: &View<'_>) -> Action {
        // One that has not arrived among them.
        let job = JobId(self.rng.u32(..view.asked.len() as u32 + 1));
        match self.rng.u8(..80) {
            0..10 => Action::Pause { job },
            10..20 => Action::Resume { job },
            20..30 => Action::Stop { job, checkpoint: self.rng.bool() },
            30 => Action::End { job },
            31..38 => {
                let share = Share::new(f64::from(self.rng.u8(1..=4)) / 4.0).expect("it is a share");
                Action::Throttle { job, share }
            }
            _ => self.start(view, job),
        }
    }

    /// Gives an elastic job any number of devices under any plan, within its bounds or not.
    fn start(&mut self, view: &View<'_>, job: JobId) -> Action {
        let Some(asked) = view.asked.get(job.0 as usize) else {
            return Action::Start { job, devices: vec![DeviceId(0)], cpus: None, plan: None };
        };
        let count = if asked.elastic { self.rng.u32(1..=4) } else { asked.devices };
        let plan = match asked.plan {
            Some(_) if asked.elastic => Some(self.plan(count)),
            plan => plan,
        };
        let cpus = match self.rng.u8(..4) {
            0 => Some(self.rng.u16(1..5)),
            1 => None,
            _ => asked.cpus,
        };
        Action::Start { job, devices: self.devices(view, asked, count), cpus, plan }
    }

    fn plan(&mut self, ranks: u32) -> Plan {
        let is_tensor_parallel = self.rng.bool();
        let zero = if self.rng.bool() { "-zero1" } else { "" };
        let spelling = match ranks {
            1 => "gc".into(),
            2 if is_tensor_parallel => "tp2".into(),
            4 if is_tensor_parallel => "dp2-tp2".into(),
            _ => format!("dp{ranks}{zero}"),
        };
        spelling.parse().expect("it is a plan")
    }

    /// Usually devices that the job may have, and sometimes the same device twice or an unknown one.
    fn devices(&mut self, view: &View<'_>, asked: &JobRequest, count: u32) -> Vec<DeviceId> {
        let nodes: Vec<&Node> = view.topology.nodes_for(&asked.virtual_cluster).collect();
        if nodes.is_empty() || self.rng.u8(..4) == 0 {
            return (0..count).map(|_| DeviceId(self.rng.u32(..view.topology.devices() + 1))).collect();
        }
        let any = &nodes[self.rng.usize(..nodes.len())].device_type;
        let wanted = asked.device_type.as_ref().unwrap_or(any);
        let mut devices: Vec<DeviceId> =
            nodes.into_iter().filter(|node| node.device_type == *wanted).flat_map(devices_of).collect();
        self.rng.shuffle(&mut devices);
        devices.truncate(count as usize);
        devices
    }

    /// Gives one job at a time its devices, the first that can have them.
    fn something(&self, view: &View<'_>) -> Option<Action> {
        (0..view.asked.len()).find_map(|place| {
            let (job, asked) = (JobId(place as u32), &view.asked[place]);
            match &view.jobs[place].state {
                State::Waiting { .. } if asked.arrival <= view.now => {
                    let is_free = |device: DeviceId| {
                        view.occupancy.kept_by(device).is_empty() && !view.occupancy.is_lost(device)
                    };
                    if let Some(devices) = first_devices(view, asked, is_free) {
                        return Some(Action::Start { job, devices, cpus: None, plan: asked.plan });
                    }
                    let is_there = |device: DeviceId| !view.occupancy.is_lost(device);
                    let is_hopeless = self.turns > PATIENT && first_devices(view, asked, is_there).is_none();
                    is_hopeless.then_some(Action::End { job })
                }
                State::Placed(placed) if placed.phase == Phase::Paused => {
                    let has_room = |device: &DeviceId| view.occupancy.kept_by(*device).is_empty();
                    placed.devices.iter().all(has_room).then_some(Action::Resume { job })
                }
                _ => None,
            }
        })
    }
}

/// The first devices of one type that the job may have and that meet a condition.
fn first_devices(
    view: &View<'_>,
    asked: &JobRequest,
    is_met: impl Fn(DeviceId) -> bool,
) -> Option<Vec<DeviceId>> {
    let is_wanted = |name: &&str| asked.device_type.as_ref().is_none_or(|wanted| wanted == name);
    let types = view.topology.by_type().into_iter().map(|(name, _)| name).filter(is_wanted);
    types.into_iter().find_map(|name| {
        let nodes = view.topology.nodes_for(&asked.virtual_cluster).filter(|node| node.device_type == name);
        let devices: Vec<DeviceId> = nodes
            .flat_map(devices_of)
            .filter(|device| is_met(*device))
            .take(asked.devices as usize)
            .collect();
        (devices.len() == asked.devices as usize).then_some(devices)
    })
}

fn devices_of(node: &Node) -> impl Iterator<Item = DeviceId> + use<> {
    (node.first.0..node.first.0 + node.devices.len() as u32).map(DeviceId)
}

impl Policy for Restless {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        self.turns += 1;
        if self.turns > RANDOM {
            // A device may be down before the loss is reported, so the request is repeated.
            let wake_at = Some(view.now + Nanos(7 * SECOND));
            return Decision {
                actions: self.something(view).into_iter().collect(),
                wake_at,
                ..Decision::default()
            };
        }
        let actions = (0..self.rng.u8(..5)).map(|_| self.anything(view)).collect();
        let wake_at = Some(view.now + Nanos(self.rng.u64(1..5 * SECOND)));
        Decision { actions, wake_at, reason: String::new() }
    }
}
