//! Lucid: jobs are profiled for a short time, ordered by an estimate of how long they run, and packed if they suffer little (Hu et al.,
//! "Lucid: A non-intrusive, scalable and interpretable scheduler for deep learning training jobs", ASPLOS 2023; artifact
//! S-Lab-System-Group/Lucid).
//!
//! * A job of up to `profile-devices` 8 first runs on the nodes of the profiler stage, for up to `profile` 200 s (`stage.rs`). Without
//!   such nodes there is no stage.
//! * Jobs then wait in their virtual cluster (`part.rs`), in order of the time for which they are estimated to run times their devices
//!   (`estimates.rs`). The estimate is that of an additive model with pairs, or with `estimates=rolling` that of QSSF.
//! * While the predicted load is above `busy` 2 jobs in each bin of 10 minutes (`sharing.rs`), a job that would have to wait joins a
//!   running job on as many devices (`hosts.rs`), if the classes of both allow it. With `share-first=on` it also joins one if devices
//!   are free, as in the artifact, which leaves them to later jobs.
//! * A job of which nothing is known has no class and is not packed: its class is known when it has been profiled, or at once if there is
//!   no stage. The artifact reads classes from a table, and takes large models that it has not measured to lose nothing.
//! * A pack is undone when reports show that it loses throughput, and jobs like these are not packed again (`kit/packs.rs`). The artifact
//!   never separates a pack.
//! * A job that has waited for `bound` a week comes first and holds up others. The artifact has no bound.
//!
//! Neither the search for profiling nodes among those of virtual clusters nor the weekly update are here: the nodes of the stage are those
//! that the file of the cluster marks, and the model of durations is fitted again as jobs end.
//!
//! Two defects of the artifact are options, to tell their worth apart. `backfill=sharing`: a job that does not fit is passed only while
//! jobs share. `free-profiling=on`: profiling costs the jobs that outlive it nothing, as in the artifact, which lets them arrive a second
//! time; here, jobs that the model says end within `profile` go to the stage, and all others have their class at once. Jobs that outlive
//! the stage then take none of its devices, which they do in the artifact. A third is not offered: when the first job of a pack ends, the
//! artifact restores the wrong one, and the other keeps the shared rate to its end.

mod bounds;
mod estimates;
mod explain;
mod hosts;
mod part;
mod room;
mod settings;
mod sharing;
mod stage;

use std::collections::{BTreeSet, HashMap};

use engine::{
    cluster::{Action, JobId},
    job::State,
    policy::{Decision, Policy},
    topology::{DeviceId, VirtualClusterId},
    view::{Change, View},
};
use model::PackingClass;

use self::{estimates::Estimates, part::Part, settings::Settings, sharing::Switch, stage::Stage};
use crate::{
    declaration::{Declaration, Uses},
    kit::{Watch, belief, divided, gain::SEATS, kinds::Kind, packs::Packs},
};

pub(super) const LUCID: Declaration = Declaration {
    name: "lucid",
    source: "Lucid, ASPLOS 2023",
    order: "estimated service, the least first",
    misfit: "is passed, until it has waited for the bound",
    preemption: "stops jobs at the end of their profiling, and to undo a pack",
    packing: "two jobs whose classes are light, under a high load",
    needs: "jobs that have ended, classes of jobs; times alone and together, if known",
    uses: &[Uses::History, Uses::Classes, Uses::Packs],
    example: "lucid:sharing=on:bound=12h",
    settings: settings::SETTINGS,
    build: |values| Ok(Box::new(Lucid::new(Settings::read(values)))),
};

struct Lucid {
    common: Common,
    watch: Watch,
    switch: Switch,
    /// By virtual cluster. Empty before the first view.
    parts: Vec<Part>,
}

/// What the parts have in common.
struct Common {
    settings: Settings,
    estimates: Estimates,
    packs: Packs,
    stage: Stage,
    /// The kinds of the jobs that have arrived and not ended.
    kinds: HashMap<JobId, Kind>,
    /// The classes of kinds. `None` if they are not known.
    classes: HashMap<Kind, Option<PackingClass>>,
}

impl Common {
    fn kind_of(&self, job: JobId) -> Kind {
        self.kinds[&job]
    }

    /// The class of a job, if it may be packed.
    fn class_of(&self, job: JobId) -> Option<PackingClass> {
        let class = self.classes.get(self.kinds.get(&job)?)?;
        class.filter(|_| self.stage.knows(&self.settings, job))
    }

    /// Finds the kind of a job and its class.
    fn meet(&mut self, view: &View<'_>, job: JobId) {
        if !self.kinds.contains_key(&job) {
            let kind = self.packs.kind(view, job);
            self.kinds.insert(job, kind);
            self.classes.entry(kind).or_insert_with(|| Some(belief::classified(view, job)?.class));
        }
    }

    fn forget(&mut self, job: JobId) {
        self.kinds.remove(&job);
    }
}

impl Lucid {
    pub(super) fn new(settings: Settings) -> Lucid {
        Lucid {
            watch: Watch::default(),
            switch: Switch::new(&settings),
            parts: Vec::new(),
            common: Common {
                estimates: Estimates::new(settings.estimates),
                packs: Packs::default(),
                stage: Stage::default(),
                kinds: HashMap::new(),
                classes: HashMap::new(),
                settings,
            },
        }
    }

    /// Updates all that is kept of jobs. Returns the parts that are to decide.
    fn refresh(&mut self, view: &View<'_>) -> BTreeSet<usize> {
        if self.parts.is_empty() {
            let count = view.topology.virtual_clusters().len().max(1);
            self.parts = (0..count).map(|_| Part::default()).collect();
            self.common.stage = Stage::new(view);
        }
        let is_refitted = self.common.estimates.refresh(view);
        let is_turned = self.switch.refresh(view);
        let mut due = self.watch.due(view);
        for pack in self.common.packs.refresh(view) {
            due.extend(pack.jobs());
        }
        due.extend(self.common.stage.take_over(view));
        let mut parts = BTreeSet::new();
        for change in view.changes {
            match change {
                // Its jobs may no longer fit into the stage.
                Change::Lost(_) => due.extend(self.common.stage.jobs()),
                Change::Believed(_) => self.parts.iter_mut().for_each(Part::forget_gains),
                _ => {}
            }
            parts.extend(divided::of_change(view, *change).map(|of| usize::from(of.0)));
        }
        for job in due {
            parts.insert(part_of(view, job));
            self.examine(view, job);
        }
        if is_refitted {
            self.estimate_again(view);
        }
        if is_refitted || is_turned || view.topology.virtual_clusters().is_empty() {
            parts.extend(0..self.parts.len());
        }
        parts
    }

    /// Updates what is kept of a job.
    fn examine(&mut self, view: &View<'_>, job: JobId) {
        let part = &mut self.parts[part_of(view, job)];
        self.common.meet(view, job);
        let is_of_stage = self.common.stage.examine(view, &self.common.settings, job);
        let is_waiting = matches!(view.job(job).state, State::Waiting { .. });
        if is_waiting {
            self.common.estimates.make(view, job);
        }
        if is_waiting && !is_of_stage {
            part.put(view, &self.common, job);
        } else {
            part.remove(job);
        }
        match view.job(job).state {
            State::Placed(_) if !is_of_stage => part.look_at(view, &self.common, job),
            State::Placed(_) | State::Waiting { .. } => part.no_host(job),
            State::Ended { .. } => {
                part.no_host(job);
                self.common.forget(job);
            }
        }
    }

    /// Estimates the jobs that wait again, after the model was fitted.
    fn estimate_again(&mut self, view: &View<'_>) {
        for part in &mut self.parts {
            for job in part.waiting_jobs() {
                self.common.estimates.make(view, job);
                part.put(view, &self.common, job);
            }
        }
    }

    fn is_sharing(&self, view: &View<'_>) -> bool {
        self.switch.is_on() && view.jobs_per_device as usize >= SEATS
    }
}

impl Policy for Lucid {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let parts = self.refresh(view);
        let mut reasons = Vec::new();
        let mut actions = self.common.packs.undo(view, &mut reasons);
        let is_sharing = self.is_sharing(view);
        for number in parts {
            let name = view.topology.virtual_clusters().get(number).map(|of| &of.name);
            let virtual_cluster = name.map(|_| VirtualClusterId(number as u16));
            let mut own = Vec::new();
            let view = &View { virtual_cluster, ..*view };
            actions.extend(self.parts[number].decide(view, &mut self.common, is_sharing, &mut own));
            reasons.extend(own.into_iter().map(|reason| match name {
                Some(name) => format!("{name}: {reason}"),
                None => reason,
            }));
        }
        let taken = |action: &Action| match action {
            Action::Start { devices, .. } => devices.clone(),
            _ => Vec::new(),
        };
        let Common { stage, settings, .. } = &mut self.common;
        let taken: BTreeSet<DeviceId> =
            if stage.nodes().is_empty() { BTreeSet::new() } else { actions.iter().flat_map(taken).collect() };
        let is_closed = self.parts.iter().any(Part::needs_stage);
        actions.extend(stage.decide(view, settings, (&taken, is_closed), &mut reasons));
        self.watch.decided(&actions);
        // The load matters while a job waits that might join one that runs.
        let is_load_of_interest = !self.switch.is_on()
            && view.occupancy.free() < view.occupancy.present()
            && self.parts.iter().any(Part::has_waiting);
        let load = self.switch.looks_again_at().filter(|_| is_load_of_interest);
        let next_end = self.common.stage.next_end(view, &self.common.settings);
        let wake_at = load.into_iter().chain(next_end).min();
        Decision { actions, wake_at, reason: reasons.join("; ") }
    }

    fn explain(&self, view: &View<'_>, job: JobId) -> String {
        explain::text(self, view, job)
    }
}

/// The part of a job.
fn part_of(view: &View<'_>, job: JobId) -> usize {
    let virtual_cluster = view.topology.virtual_cluster(&view.request(job).virtual_cluster);
    virtual_cluster.map_or(0, |of| usize::from(of.0))
}
