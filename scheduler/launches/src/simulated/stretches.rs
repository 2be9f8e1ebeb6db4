//! Stretches: as long as a job's co-runners and neighbours stay the same, so does the time of its steps. When they change, what is
//! left of it is planned anew. A throttle begins a new stretch, too.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use engine::job::JobRequest;
use formats::decision::{JobId, Share};
use model::{Neighbour, PredictRequest, switch_costs::Cost};
use schema::units::Nanos;

use super::{
    LONGEST, SimulatedLauncher,
    chance::{Draw, exponential, numbers},
    events::Event,
    state::{LaunchPhase, whole},
};
use crate::{
    launcher::{StartRequest, Staying},
    take_off,
};

impl SimulatedLauncher<'_> {
    /// Begins a stretch of training, and new ones of all whom it slows down.
    pub(super) fn train(&mut self, id: JobId) -> anyhow::Result<()> {
        let now = self.now;
        let launch = &mut self.launches[id];
        launch.phase = LaunchPhase::Training;
        (launch.stretch.since, launch.trains_since) = (now, now);
        launch.trains_from = whole(launch.stretch.steps);
        launch.stint += 1;
        for device in &launch.start.devices {
            self.devices[device.0 as usize].trains.push(id);
        }
        self.set_pace(id)?;
        self.change_pace(&self.disturbed(id))?;
        self.plan_to_crash(id);
        Ok(())
    }

    /// Ends the stretch, with its steps as of now.
    pub(super) fn cease_training(&mut self, id: JobId) -> anyhow::Result<()> {
        self.end_stretch(id);
        let disturbed = self.disturbed(id);
        let launch = &mut self.launches[id];
        launch.stint += 1;
        for device in &launch.start.devices {
            take_off(&mut self.devices[device.0 as usize].trains, id);
        }
        self.change_pace(&disturbed)
    }

    /// The steps that a job reports now. They never fall below its last report and the steps with which it began to train.
    pub(super) fn done(&mut self, id: JobId) -> u64 {
        let launch = &self.launches[id];
        if !launch.trains() {
            return whole(launch.stretch.steps);
        }
        if launch.trains_since == self.now {
            return launch.trains_from;
        }
        let steps = self.course.reported_at(id, &launch.stretch, self.now);
        steps.max(launch.reported).max(launch.trains_from)
    }

    /// The steps that a job that trains has done by a time of its stretch, with a fraction.
    pub(super) fn steps_at(&mut self, id: JobId, at: Nanos) -> f64 {
        self.course.steps_at(id, &self.launches[id].stretch, at)
    }

    /// Plans the end of the steps that are left, or the boundary at which it leaves.
    pub(super) fn plan_goal(&mut self, id: JobId) {
        let all = self.asked[id.0 as usize].steps.unwrap_or_default();
        let now = self.now;
        let launch = &mut self.launches[id];
        launch.number += 1;
        let goal = match launch.phase {
            LaunchPhase::Leaving { at, .. } => at.min(all),
            _ => all,
        };
        let event = if goal == all { Event::Finish } else { Event::Boundary };
        let (planned, stretch) = (event(id, launch.number), launch.stretch);
        let leaves_at_once =
            goal < all && matches!(launch.phase, LaunchPhase::Leaving { by_record: true, .. });
        let at = if leaves_at_once { now } else { self.course.time_of(id, &stretch, goal as f64) };
        self.queue.plan(now.max(at), planned);
    }

    /// Whether the model knows how fast a job would be among those that stay beside it, and they beside the job.
    pub(super) fn knows_company(&self, start: &StartRequest, staying: &Staying<'_>) -> anyhow::Result<()> {
        let others = staying(start);
        self.step_ns(start, &others, &[])?;
        for other in others {
            // The job itself does not stay anywhere before it starts or resumes.
            let mut company = staying(other);
            company.push(start);
            company.sort_unstable_by_key(|beside| beside.job);
            self.step_ns(other, &company, &[])?;
        }
        Ok(())
    }

    /// Who else trains on its devices, in the order of their numbers.
    fn company(&self, id: JobId) -> Vec<JobId> {
        let devices = &self.launches[id].start.devices;
        let trains = devices.iter().flat_map(|device| &self.devices[device.0 as usize].trains);
        let mut company: Vec<JobId> = trains.copied().filter(|other| *other != id).collect();
        company.sort_unstable();
        company.dedup();
        company
    }

    /// Who trains on other devices of its nodes, and on none of its own, and how many take turns there; nobody where it makes no
    /// difference.
    fn neighbours(&self, id: JobId) -> BTreeMap<JobId, usize> {
        let mut neighbours = BTreeMap::new();
        if !self.truth.minds_neighbours() {
            return neighbours;
        }
        let devices = &self.launches[id].start.devices;
        for device in self.topology.around(devices) {
            let trains = &self.devices[device.0 as usize].trains;
            for other in trains {
                let crowd: &mut usize = neighbours.entry(*other).or_default();
                *crowd = trains.len().max(*crowd);
            }
        }
        neighbours.retain(|other, _| {
            self.launches[*other].start.devices.iter().all(|device| !devices.contains(device))
        });
        neighbours
    }

    /// Whose steps take another time when it begins or ends to train.
    fn disturbed(&self, id: JobId) -> Vec<JobId> {
        let mut disturbed = self.company(id);
        disturbed.extend(self.neighbours(id).into_keys());
        disturbed.sort_unstable();
        disturbed
    }

    fn change_pace(&mut self, jobs: &[JobId]) -> anyhow::Result<()> {
        jobs.iter().try_for_each(|job| {
            self.end_stretch(*job);
            self.set_pace(*job)
        })
    }

    /// Changes the rate of a job from now on.
    pub(super) fn change_share(&mut self, id: JobId, share: Share) -> anyhow::Result<()> {
        let trains = self.launches[id].phase == LaunchPhase::Training;
        if trains {
            self.end_stretch(id);
        }
        self.launches[id].start.share = share;
        if !trains {
            return Ok(());
        }
        self.set_pace(id)?;
        self.change_pace(&self.company(id))
    }

    /// Sets the time of the steps of the job from now on, and plans its end.
    ///
    /// # Errors
    /// The time is not known, or the job would not end within the longest time of a simulation, and endless jobs are refused.
    fn set_pace(&mut self, id: JobId) -> anyhow::Result<()> {
        let neighbours: Vec<Neighbour<'_>> = self
            .neighbours(id)
            .into_iter()
            .map(|(other, crowd)| Neighbour {
                job: self.subject(&self.launches[other].start),
                share: 1.0 / crowd as f64,
            })
            .collect();
        let step_ns = self.step_ns_beside(&self.launches[id].start, &self.company(id), &neighbours)?;
        let JobRequest { name, steps, .. } = &self.asked[id.0 as usize];
        let left = steps.unwrap_or_default() as f64 - self.launches[id].stretch.steps;
        ensure!(
            left * step_ns < LONGEST.0 as f64 || !self.settings.refuses_endless,
            "job '{name}': {} steps of {} would take more than 100 years; check its steps and step time",
            left.ceil() as u64,
            Nanos(step_ns as u64)
        );
        let launch = &mut self.launches[id];
        launch.stretch.step_ns = step_ns * launch.speed / launch.start.share.get();
        self.plan_goal(id);
        Ok(())
    }

    /// Counts the steps of the stretch that ends now, and what of them is in a checkpoint.
    pub(super) fn end_stretch(&mut self, id: JobId) {
        let (now, every) = (self.now, self.settings.checkpoint_every);
        let launch = &self.launches[id];
        if let (Some(every), Some(began)) = (every, launch.began) {
            let last = Nanos((now - began).0 / every.0 * every.0) + began;
            if last > began && last >= launch.stretch.since {
                let saved = whole(self.steps_at(id, last));
                let launch = &mut self.launches[id];
                launch.saved = launch.saved.max(Some(saved));
            }
        }
        let steps = self.steps_at(id, now);
        let launch = &mut self.launches[id];
        (launch.stretch.steps, launch.stretch.since) = (steps, now);
    }

    /// The time of a step beside jobs of which some may be throttled. A throttled job slows it down for its share of the time only.
    /// Several throttled jobs rest at the same times, as far as their shares allow. Where the model does not know the time beside
    /// those that do not rest, it is that beside all.
    fn step_ns_beside(
        &self,
        start: &StartRequest,
        company: &[JobId],
        neighbours: &[Neighbour<'_>],
    ) -> anyhow::Result<f64> {
        let company: Vec<&StartRequest> = company.iter().map(|other| &self.launches[*other].start).collect();
        let beside_all = self.step_ns(start, &company, neighbours)?;
        let mut shares: Vec<f64> =
            company.iter().map(|other| other.share.get()).filter(|share| *share < 1.0).collect();
        if shares.is_empty() {
            return Ok(beside_all);
        }
        shares.push(1.0);
        shares.sort_unstable_by(f64::total_cmp);
        shares.dedup();
        let (mut rate, mut before) = (0.0, 0.0);
        for until in shares {
            let works: Vec<&StartRequest> =
                company.iter().copied().filter(|other| other.share.get() >= until).collect();
            let step_ns = self.step_ns(start, &works, neighbours).unwrap_or(beside_all);
            rate += (until - before) / step_ns;
            before = until;
        }
        Ok(1.0 / rate)
    }

    /// Time of a step by the model, with what checkpoints take. `company` is in the order of the numbers of jobs.
    pub(super) fn step_ns(
        &self,
        start: &StartRequest,
        company: &[&StartRequest],
        neighbours: &[Neighbour<'_>],
    ) -> anyhow::Result<f64> {
        let co_runners: Vec<_> = company.iter().map(|other| self.subject(other)).collect();
        let question = PredictRequest {
            job: self.subject(start),
            placement: &self.topology.placement(&start.devices),
            device_type: self.topology.type_of(start.devices[0]),
            cpus: start.cpus,
            co_runners: &co_runners,
            sharing: &self.settings.sharing,
            neighbours,
        };
        let predicted = self.truth.predict(&question).with_context(|| {
            let beside: Vec<&str> = co_runners.iter().map(|other| other.workload).collect();
            let beside =
                if beside.is_empty() { "alone".into() } else { format!("beside {} under {}", beside.join(", "), question.sharing) };
            let devices = start.devices.len();
            let several = if devices == 1 { "" } else { "s" };
            let under = start.plan.map(|plan| format!(" under {plan}")).unwrap_or_default();
            let (workload, nodes) = (question.job.workload, question.placement.len());
            let spread = if nodes == 1 { String::new() } else { format!(" of {nodes} nodes") };
            format!("the time of a step of {workload}{under} on {devices} device{several}{spread} {beside} is not known")
        })?;
        let checkpoints = match self.settings.checkpoint_every {
            Some(every) => {
                let devices = start.devices.len() as u32;
                let takes = self.costs.cost(&question.job, devices, Cost::Checkpoint, &mut || 0.0);
                takes.context("what a checkpoint costs was not measured")?.0 as f64 / every.0 as f64
            }
            None => 0.0,
        };
        Ok(predicted.step_ns * (1.0 + checkpoints))
    }

    fn plan_to_crash(&mut self, id: JobId) {
        let launch = &self.launches[id];
        if let Some(mean) = self.settings.faults.launch_mtbf_ns {
            let mut chance = numbers(self.settings.seed, Draw::Crash, id.0, launch.stint);
            let at = self.after(Nanos(exponential(&mut chance, mean) as u64));
            self.queue.plan(at, Event::Crash(id, launch.stint));
        }
    }
}
