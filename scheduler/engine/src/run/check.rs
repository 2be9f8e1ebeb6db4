//! Checks the conditions that an action must meet before the cluster receives it.

use std::collections::{BTreeMap, BTreeSet};

use record::suspension::Suspension;
use schema::plan::Plan;

use super::Engine;
use crate::{
    cluster::{Action, JobId},
    job::{Pausing, Payload, Phase, Placed, State},
    topology::{DeviceId, Node},
};

impl Engine<'_> {
    /// Checks an action. The error is the reason for which it is refused; "it" in the reason is the job.
    pub(super) fn check(&self, action: &Action) -> Result<(), String> {
        let id = action.job();
        if id.0 as usize >= self.arrived {
            return Err("it has not arrived".into());
        }
        match action {
            Action::Start { devices, cpus, plan, .. } => {
                self.check_start(id, devices, *plan)?;
                self.check_cpus(devices, *cpus)
            }
            Action::Pause { .. } => self.check_pause(id),
            Action::Resume { .. } => {
                let placed = self.placed(id)?;
                match placed.phase {
                    Phase::Paused => {
                        self.check_room(id, &placed.devices)?;
                        self.check_cpus(&placed.devices, placed.cpus)
                    }
                    phase => Err(format!("it is {phase}, and only what is paused is resumed")),
                }
            }
            // A job that has not run yet has nothing to save. A job that takes no checkpoint may train before its first event arrives.
            Action::Stop { checkpoint, .. } => {
                let why = self.asked[id.0 as usize].takes_no_checkpoint.filter(|_| *checkpoint);
                match (self.placed(id)?.phase, why) {
                    (Phase::Starting | Phase::Running | Phase::Paused | Phase::Resuming, Some(why)) => {
                        Err(format!("it takes no checkpoint: {why}"))
                    }
                    (Phase::Paused, None) if *checkpoint => self.check_return(id),
                    (Phase::Starting | Phase::Running | Phase::Paused | Phase::Resuming, _) => Ok(()),
                    (phase, _) => Err(format!("it is {phase} already")),
                }
            }
            Action::Throttle { .. } if self.settings.sharing.takes_turns() => {
                Err(format!("jobs take turns by {}, which throttles none of them", self.settings.sharing))
            }
            Action::Throttle { .. } => {
                let asked = &self.asked[id.0 as usize];
                match (self.placed(id)?.phase, asked.takes_no_checkpoint, asked.pausing) {
                    (_, _, Pausing::Freezes(why)) => Err(format!("it cannot be throttled: {why}")),
                    (Phase::Starting, Some(_), _) => {
                        Err("it is starting, and a program is throttled only while it runs".into())
                    }
                    (Phase::Starting | Phase::Running | Phase::Paused | Phase::Resuming, ..) => Ok(()),
                    (phase, ..) => Err(format!("it is {phase}, and only what stays is throttled")),
                }
            }
            Action::End { .. } => match &self.jobs[id.0 as usize].state {
                State::Waiting { .. } => Ok(()),
                State::Placed(placed) if placed.phase != Phase::Ending => Ok(()),
                State::Placed(_) => Err("it is ending already".into()),
                State::Ended { .. } => Err("it has ended".into()),
            },
        }
    }

    fn check_pause(&self, id: JobId) -> Result<(), String> {
        let placed = self.placed(id)?;
        let ranks = placed.devices.len();
        match (placed.phase, self.asked[id.0 as usize].pausing, self.settings.suspension) {
            (Phase::Running, _, Suspension::Checkpoint) => {
                Err("jobs of this run are suspended by a stop with a checkpoint, and not by a pause".into())
            }
            (Phase::Running, Pausing::Freezes(why), Suspension::CudaCheckpoint) => {
                Err(format!("cuda-checkpoint moves the memory of what is held between two steps: {why}"))
            }
            (Phase::Running, _, Suspension::CudaCheckpoint) if ranks > 1 => {
                Err(format!("cuda-checkpoint moves the memory of one process, and it has {ranks}"))
            }
            (Phase::Running, ..) => Ok(()),
            (phase, ..) => Err(format!("it is {phase}, and only what runs is paused")),
        }
    }

    /// Refuses to save a paused job that has to come back to its devices for this, if others have memory there.
    fn check_return(&self, id: JobId) -> Result<(), String> {
        let devices = &self.placed(id)?.devices;
        match self.settings.suspension {
            Suspension::CudaCheckpoint if !self.others_in_memory(id, devices).is_empty() => {
                Err("cuda-checkpoint has moved it to the host, and it is saved from its devices, which others use".into())
            }
            _ => Ok(()),
        }
    }

    /// Refuses to place a job on a device in `stays`: one whose job should have left by an earlier action of the same decision that
    /// was refused. Otherwise a job that was meant to replace another would be packed with it.
    pub(super) fn check_left(
        &self,
        action: &Action,
        stays: &BTreeMap<DeviceId, JobId>,
    ) -> Result<(), String> {
        let devices = match action {
            Action::Start { devices, .. } => devices,
            Action::Resume { job } => &self.placed(*job)?.devices,
            Action::Pause { .. } | Action::Stop { .. } | Action::End { .. } | Action::Throttle { .. } => {
                return Ok(());
            }
        };
        match devices.iter().find_map(|device| Some((device, stays.get(device)?))) {
            Some((device, stays)) => {
                let (job, device) = (&self.asked[stays.0 as usize].name, self.topology.name_of(*device));
                Err(format!("{job} was to leave {device} first, and that was refused"))
            }
            None => Ok(()),
        }
    }

    fn placed(&self, id: JobId) -> Result<&Placed, String> {
        match &self.jobs[id.0 as usize].state {
            State::Placed(placed) => Ok(placed),
            State::Waiting { .. } => Err("it has no devices".into()),
            State::Ended { .. } => Err("it has ended".into()),
        }
    }

    fn check_start(&self, id: JobId, devices: &[DeviceId], plan: Option<Plan>) -> Result<(), String> {
        if let Ok(placed) = self.placed(id) {
            return Err(format!("it is {} already", placed.phase));
        }
        if !matches!(self.jobs[id.0 as usize].state, State::Waiting { .. }) {
            return Err("it has ended".into());
        }
        let asked = &self.asked[id.0 as usize];
        let count = devices.len() as u32;
        let named = |plan: Option<Plan>| plan.map_or_else(|| "no plan".into(), |plan| plan.to_string());
        if !asked.elastic && (plan != asked.plan || count != asked.devices) {
            return Err(format!(
                "it is rigid, asks for {} on {} devices, and would get {} on {count}",
                named(asked.plan),
                asked.devices,
                named(plan)
            ));
        }
        let (min, max) = (asked.min_devices.unwrap_or(1), asked.max_devices.unwrap_or(u32::MAX));
        if count > 0 && count < min {
            return Err(format!("it asks for at least {min} devices, and would get {count}"));
        }
        if count > max {
            return Err(format!("it asks for at most {max} devices, and would get {count}"));
        }
        match (&asked.what, plan) {
            (_, Some(plan)) if plan.ranks() != count => {
                return Err(format!("{plan} takes {} devices, and would get {count}", plan.ranks()));
            }
            (Payload::Command(_), Some(_)) => return Err("it is a command, which brings its own plan".into()),
            (Payload::Training { .. }, None) if asked.plan.is_some() => {
                return Err("it is given no plan".into());
            }
            _ => {}
        }
        if count == 0 {
            return Err("it is given no device".into());
        }
        if let Some(unknown) = devices.iter().find(|device| device.0 >= self.topology.devices()) {
            return Err(format!("there is no device {}", unknown.0));
        }
        let is_ascending = devices.is_sorted_by(|one, next| one < next);
        if !is_ascending && devices.iter().collect::<BTreeSet<_>>().len() < devices.len() {
            return Err("a device is named twice".into());
        }
        let kind = |device: &DeviceId| self.topology.type_of(*device);
        if let Some(other) = devices.iter().find(|device| kind(device) != kind(&devices[0])) {
            return Err(format!("its devices are of two types: {} and {}", kind(&devices[0]), kind(other)));
        }
        if self.too_large.contains(&(id, plan, self.occupancy.pool_of(devices[0]))) {
            return Err(format!("it ran out of memory under {} on {}", named(plan), kind(&devices[0])));
        }
        let mut nodes =
            devices.iter().map(|device| &self.topology.nodes()[self.topology.node_of(*device).0 as usize]);
        let virtual_cluster = self.topology.virtual_cluster(&asked.virtual_cluster);
        let is_open = |node: &&Node| node.facts.profiling || node.virtual_cluster == virtual_cluster;
        if let Some(node) = nodes.find(|node| !is_open(node)) {
            let (node, its) = (&node.name, &asked.virtual_cluster);
            return Err(format!("{node} is not of '{its}', the virtual cluster of the job"));
        }
        if let Some(wanted) = &asked.device_type
            && wanted != kind(&devices[0])
        {
            return Err(format!("it asks for devices of type {wanted}, and would get {}", kind(&devices[0])));
        }
        self.check_room(id, devices)
    }

    /// Checks that the jobs on the nodes of these devices leave as many CPUs for each rank, where the CPUs of a node are known.
    fn check_cpus(&self, devices: &[DeviceId], cpus: Option<u16>) -> Result<(), String> {
        let Some((node, needed, free)) = self.occupancy.lacking_cpus(devices, cpus) else { return Ok(()) };
        let name = &self.topology.nodes()[node.0 as usize].name;
        Err(format!("{name} has {free} free CPUs, and it would get {needed}"))
    }

    /// Checks that the devices are not lost and have room for the job beside the jobs that hold them.
    fn check_room(&self, id: JobId, devices: &[DeviceId]) -> Result<(), String> {
        let name = |device: DeviceId| self.topology.name_of(device);
        if let Some(lost) = devices.iter().find(|device| self.occupancy.is_lost(**device)) {
            return Err(format!("{} is lost", name(*lost)));
        }
        let most = self.settings.most_on_a_device() as usize;
        if let Some(full) = devices.iter().find(|device| self.occupancy.kept_by(**device).len() >= most) {
            return Err(format!("{} has {most} jobs, and no more are packed on a device", name(*full)));
        }
        match self.others_in_memory(id, devices).into_iter().find(|other| !self.fit(id, *other)) {
            Some(other) => {
                Err(format!("it did not fit on a device with {}", self.asked[other.0 as usize].name))
            }
            None => Ok(()),
        }
    }
}
