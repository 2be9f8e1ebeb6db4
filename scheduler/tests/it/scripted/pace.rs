//! How fast launches train beside others, and what their switches cost.

use std::collections::BTreeMap;

use engine::{
    cluster::{DeviceId, JobId},
    job::Payload,
};
use launches::launcher::LaunchId;
use model::{JobKey, Neighbour, PredictRequest, switch_costs::Cost};
use schema::units::Nanos;

use super::{Scripted, ScriptedLaunch};

impl Scripted<'_> {
    fn subject(&self, launch: &ScriptedLaunch) -> JobKey<'_> {
        let asked = &self.asked[launch.job.0 as usize];
        let workload = match &asked.what {
            Payload::Training { workload, .. } => workload,
            Payload::Command(_) => "",
        };
        let device_type = self.topology.type_of(launch.devices[0]);
        asked.subject(workload, launch.plan, self.topology, device_type)
    }

    pub(super) fn cost(&self, launch: &ScriptedLaunch, of: Cost) -> Nanos {
        let devices = launch.devices.len() as u32;
        self.costs.cost(&self.subject(launch), devices, of, &mut || 0.0).expect("all costs are known")
    }

    pub(super) fn steps_at(&self, launch: &ScriptedLaunch) -> f64 {
        match launch.trains() {
            true => launch.steps + (self.now - launch.since).0 as f64 / launch.step_ns,
            false => launch.steps,
        }
    }

    /// A launch has begun or ceased to train. Starts a new stretch for it and for all whose pace depends on it.
    pub(super) fn change_pace(&mut self, launch: LaunchId) {
        let of = &self.launches[launch.0 as usize];
        let is_slowed = |other: &ScriptedLaunch| {
            shares_device(other, of) || self.truth.minds_neighbours() && self.shares_node(other, of)
        };
        let slowed: Vec<usize> = (0..self.launches.len())
            .filter(|place| self.launches[*place].trains() && is_slowed(&self.launches[*place]))
            .collect();
        slowed.into_iter().for_each(|place| self.set_pace(place));
    }

    /// A launch has another share. Starts a new stretch for it and for those on its devices.
    pub(super) fn change_pace_beside(&mut self, launch: LaunchId) {
        let of = &self.launches[launch.0 as usize];
        let beside: Vec<usize> = (0..self.launches.len())
            .filter(|place| self.launches[*place].trains() && shares_device(&self.launches[*place], of))
            .collect();
        beside.into_iter().for_each(|place| self.set_pace(place));
    }

    fn set_pace(&mut self, place: usize) {
        let launch = &self.launches[place];
        // By number of the job, so that sums over them have one order.
        let others: BTreeMap<JobId, &ScriptedLaunch> = self
            .launches
            .iter()
            .filter(|other| other.job != launch.job && other.trains())
            .map(|other| (other.job, other))
            .collect();
        let beside: Vec<&&ScriptedLaunch> =
            others.values().filter(|other| shares_device(other, launch)).collect();
        let is_neighbour =
            |other: &&&ScriptedLaunch| !shares_device(other, launch) && self.shares_node(other, launch);
        let neighbours: Vec<Neighbour<'_>> = others
            .values()
            .filter(|_| self.truth.minds_neighbours())
            .filter(is_neighbour)
            .map(|other| Neighbour { job: self.subject(other), share: self.share_of_time(other, launch) })
            .collect();
        // The time of a step while the launches work that may do so for this share of the time.
        let step_ns = |share: f64| {
            let works = beside.iter().filter(|other| other.share.get() >= share);
            let co_runners: Vec<JobKey<'_>> = works.map(|other| self.subject(other)).collect();
            let predicted = self.truth.predict(&PredictRequest {
                job: self.subject(launch),
                placement: &self.topology.placement(&launch.devices),
                device_type: self.topology.type_of(launch.devices[0]),
                cpus: launch.cpus,
                co_runners: &co_runners,
                sharing: &self.sharing,
                neighbours: &neighbours,
            });
            predicted.expect("all step times are known").step_ns
        };
        let mut shares: Vec<f64> = beside.iter().map(|other| other.share.get()).collect();
        shares.push(1.0);
        shares.sort_unstable_by(f64::total_cmp);
        shares.dedup();
        let saving = match self.checkpoint_every {
            Some(every) => self.cost(launch, Cost::Checkpoint).0 as f64 / every.0 as f64,
            None => 0.0,
        };
        let step_ns = match shares[..] {
            [_] => step_ns(1.0) * (1.0 + saving),
            _ => {
                let parts = shares.iter().zip([0.0].iter().chain(&shares));
                let part = |(until, from): (&f64, &f64)| (until - from) / (step_ns(*until) * (1.0 + saving));
                1.0 / parts.map(part).sum::<f64>()
            }
        };
        self.time_steps(place);
        let (steps, now) = (self.steps_at(&self.launches[place]), self.now);
        let launch = &mut self.launches[place];
        (launch.steps, launch.since) = (steps, now);
        launch.step_ns = step_ns / launch.share.get();
    }

    fn shares_node(&self, one: &ScriptedLaunch, other: &ScriptedLaunch) -> bool {
        one.devices.iter().any(|device| self.is_on_node_of(*device, other))
    }

    fn is_on_node_of(&self, device: DeviceId, launch: &ScriptedLaunch) -> bool {
        let node = self.topology.node_of(device);
        launch.devices.iter().any(|its| self.topology.node_of(*its) == node)
    }

    /// The share of the time in which a neighbour runs: it takes turns on the most crowded of its devices on the nodes of the launch.
    fn share_of_time(&self, neighbour: &ScriptedLaunch, launch: &ScriptedLaunch) -> f64 {
        let crowd = |device: &DeviceId| {
            self.launches.iter().filter(|other| other.trains() && other.devices.contains(device)).count()
        };
        let near = neighbour.devices.iter().filter(|device| self.is_on_node_of(**device, launch));
        1.0 / near.map(crowd).max().expect("it is on such a node") as f64
    }
}

fn shares_device(one: &ScriptedLaunch, other: &ScriptedLaunch) -> bool {
    one.devices.iter().any(|device| other.devices.contains(device))
}
