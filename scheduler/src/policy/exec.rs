//! A policy that is a program of the user. The program reads the changes and writes its actions, as one JSON object per line
//! (`formats::exec`; `scheduler/README.md` has an example). It is the only policy that does I/O.

mod program;

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use anyhow::{Context as _, anyhow, ensure};
use formats::exec::{
    Answer, Begin, JobState, PROTOCOL, Shown, ShownCpus, ShownDevice, ShownJob, ShownNode, ShownPlan,
};

use engine::{
    cluster::{Action, JobId},
    job::{Ending, Phase, State},
    legal_plans::LegalPlan,
    policy::{Decision, Policy},
    topology::{DeviceId, Node, NodeId, Topology},
    view::{Change, View},
};
use policies::kit::{Watch, belief, progress::Progress};
use program::{Program, beginning};

/// The time without an answer after which the run ends with an error.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

pub(crate) struct Exec {
    program: Program,
    watch: Watch,
    turn: u64,
    /// The devices of each job that the program was shown, as it was last shown.
    shown_on: HashMap<JobId, Vec<DeviceId>>,
    /// The devices that the last answer named. They are shown again, because the program may wrongly regard them as taken.
    asked_for: Vec<DeviceId>,
    failure: Option<anyhow::Error>,
    failed: bool,
}

impl Exec {
    /// Starts the program. The command is split into words as a shell would split it.
    pub(crate) fn start(command: &str) -> anyhow::Result<Exec> {
        let argv =
            shlex::split(command).context("a quote is not closed, or the command ends with a backslash")?;
        let program = Program::start(&argv, ANSWERS_WITHIN)?;
        Ok(Exec {
            program,
            watch: Watch::default(),
            turn: 0,
            shown_on: HashMap::new(),
            asked_for: Vec::new(),
            failure: None,
            failed: false,
        })
    }

    fn ask(&mut self, view: &View<'_>) -> anyhow::Result<Answer> {
        let shown = self.show(view);
        let turn = shown.turn;
        let line = self.program.ask(shown.to_line()).with_context(|| format!("turn {turn}"))?;
        let answer = Answer::from_line(&line)
            .map_err(|error| anyhow!("turn {turn}: answered '{}': {error}", beginning(&line)))?;
        let theirs = answer.turn;
        ensure!(
            theirs == turn,
            "turn {turn}: answered turn {theirs}; answer each line once, with its own turn"
        );
        Ok(answer)
    }

    /// Stores the jobs and devices of an answer, to show them again. An answer may name jobs and devices that do not exist; the
    /// engine refuses such actions.
    fn remember(&mut self, view: &View<'_>, actions: &[Action]) {
        for action in actions {
            if self.shown_on.contains_key(&action.job()) {
                self.watch.add(action.job());
            }
            if let Action::Start { devices, .. } = action {
                let there = devices.iter().filter(|device| device.0 < view.topology.devices());
                self.asked_for.extend(there);
            }
        }
    }

    /// The devices that a job had when it was last shown, and those that it has now.
    fn devices_of(&self, view: &View<'_>, job: JobId) -> Vec<DeviceId> {
        let before = self.shown_on.get(&job).into_iter().flatten();
        let now = view.job(job).placed().into_iter().flat_map(|placed| &placed.devices);
        before.chain(now).copied().collect()
    }

    fn show(&mut self, view: &View<'_>) -> Shown {
        let mut devices: BTreeSet<DeviceId> = match self.turn {
            0 => (0..view.topology.devices()).map(DeviceId).collect(),
            _ => self.asked_for.drain(..).collect(),
        };
        let mut due = self.watch.due(view);
        // Jobs beside which others have come or gone go on at another rate.
        let changed: Vec<DeviceId> = due.iter().flat_map(|job| self.devices_of(view, *job)).collect();
        due.extend(changed.iter().flat_map(|device| view.occupancy.kept_by(*device)));
        for &job in &due {
            let now_on = view.job(job).placed().map(|placed| placed.devices.clone()).unwrap_or_default();
            devices.extend(&now_on);
            devices.extend(self.shown_on.insert(job, now_on).unwrap_or_default());
        }
        let (mut do_not_fit, mut too_large, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for change in view.changes {
            match *change {
                Change::Lost(device) | Change::Back(device) => devices.extend([device]),
                Change::DoNotFit(one, other) => do_not_fit.push((one, other)),
                Change::TooLarge { job, plan } => too_large.push((job, plan)),
                Change::Refused(job) => refused.push(job),
                _ => {}
            }
        }
        let of_devices: BTreeSet<NodeId> =
            devices.iter().map(|device| view.topology.node_of(*device)).collect();
        let show_cpus = |node: NodeId| {
            let name = &view.topology.nodes()[node.0 as usize].name;
            let free_cpus = view.occupancy.free_cpus(node)?;
            Some(ShownCpus { node: name.clone(), free_cpus })
        };
        let shown = Shown {
            turn: self.turn,
            now_ns: view.now,
            begin: (self.turn == 0).then(|| Begin {
                protocol: PROTOCOL,
                sharing: view.sharing.clone(),
                jobs_per_device: view.jobs_per_device,
                placement: view.placement,
                suspension: view.suspension,
                nodes: nodes(view.topology),
                history: view.known.history.to_vec(),
            }),
            jobs: due.into_iter().map(|job| show_job(view, job)).collect(),
            devices: devices.into_iter().map(|device| show_device(view, device)).collect(),
            do_not_fit,
            nodes: of_devices.into_iter().filter_map(show_cpus).collect(),
            too_large,
            refused,
        };
        self.turn += 1;
        shown
    }
}

impl Policy for Exec {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        if self.failed {
            return Decision::default();
        }
        match self.ask(view) {
            Ok(Answer { turn: _, actions, wake_at_ns, reason }) => {
                self.remember(view, &actions);
                Decision { actions, wake_at: wake_at_ns, reason }
            }
            Err(error) => {
                self.failed = true;
                self.failure = Some(error.context(format!("policy '{}'", self.program.name())));
                Decision::default()
            }
        }
    }

    fn failure(&mut self) -> Option<anyhow::Error> {
        self.failure.take()
    }
}

fn nodes(topology: &Topology) -> Vec<ShownNode> {
    let show = |Node { name, device_type, first, devices, virtual_cluster, facts }: &Node| ShownNode {
        name: name.clone(),
        device_type: device_type.clone(),
        devices: (first.0..first.0 + devices.len() as u32).map(DeviceId).collect(),
        facts: *facts,
        vc: virtual_cluster.map(|of| topology.virtual_clusters()[usize::from(of.0)].name.clone()),
    };
    topology.nodes().iter().map(show).collect()
}

fn show_device(view: &View<'_>, device: DeviceId) -> ShownDevice {
    let (kept_by, lost) = (view.occupancy.kept_by(device).to_vec(), view.occupancy.is_lost(device));
    ShownDevice { device, kept_by, lost }
}

fn show_job(view: &View<'_>, id: JobId) -> ShownJob {
    let (asked, job) = (view.request(id), view.job(id));
    let (account, progress) = (job.account_at(view.now), Progress::new(view, id));
    let (state, since_ns) = match &job.state {
        State::Waiting { since } => (JobState::Waiting, *since),
        State::Ended { at, .. } => (JobState::Ended, *at),
        State::Placed(placed) => (show_phase(placed.phase), placed.since),
    };
    let failed = match &job.state {
        State::Ended { how: Ending::Failed(kind, _), .. } => Some(*kind),
        _ => None,
    };
    ShownJob {
        job: id,
        name: asked.name.clone(),
        arrival_ns: asked.arrival,
        workload: asked.what.workload().into_owned(),
        global_batch: asked.what.global_batch(),
        plan: asked.plan,
        devices: asked.devices,
        device_type: asked.device_type.clone(),
        cpus: asked.cpus,
        elastic: asked.elastic,
        min_devices: asked.min_devices,
        max_devices: asked.max_devices,
        steps: asked.steps,
        takes_checkpoints: asked.takes_no_checkpoint.is_none(),
        user: asked.user.clone(),
        vc: asked.virtual_cluster.clone(),
        class: asked.class,
        priority: asked.priority,
        weight: asked.weight,
        recurring_job: asked.recurring_job.clone(),
        submit_utc: asked.submit_utc(),
        search: asked.search.clone(),
        learning_rate: asked.learning_rate,
        step_ns: belief::step(view, id).map(|step| step.step_ns),
        plans: view.plans(id).map(|legal| show_plan(view, id, legal)).collect(),
        state,
        since_ns,
        on: job.placed().map(|placed| placed.devices.clone()).unwrap_or_default(),
        share: job.placed().map(|placed| placed.share).unwrap_or_default(),
        steps_done: job.steps,
        steps_at_ns: job.steps_at,
        steps_now: progress.steps(view.now),
        ends_at_ns: progress.ends_at(view.now),
        measured_step_ns: job.measured.map(|measured| measured.step_ns),
        measured_at_ns: job.measured.map(|measured| measured.at),
        loss: job.loss,
        first_start_ns: account.first_start,
        running_ns: account.running,
        device_time_ns: account.device_time,
        starts: account.starts,
        retries: job.retries,
        failed,
    }
}

fn show_plan(view: &View<'_>, job: JobId, legal: LegalPlan<'_>) -> ShownPlan {
    let LegalPlan { plan, device_type, memory_bytes } = legal;
    let step_ns = belief::step_under(view, job, plan, device_type).map(|step| step.step_ns);
    ShownPlan { plan, devices: plan.ranks(), device_type: device_type.into(), memory_bytes, step_ns }
}

fn show_phase(phase: Phase) -> JobState {
    match phase {
        Phase::Starting => JobState::Starting,
        Phase::Running => JobState::Running,
        Phase::Pausing => JobState::Pausing,
        Phase::Paused => JobState::Paused,
        Phase::Resuming => JobState::Resuming,
        Phase::Stopping => JobState::Stopping,
        Phase::Ending => JobState::Ending,
    }
}

#[cfg(test)]
mod tests {
    use record::manifest::{AlikeNodes, NodeFacts};

    use super::*;

    #[test]
    fn nodes_are_shown_with_what_the_user_has_described() {
        let facts = NodeFacts { cpus: Some(48), memory_bytes: Some(1 << 38), ..NodeFacts::default() };
        let alike = AlikeNodes {
            nodes: 2,
            devices: 1,
            device_type: "V100".into(),
            virtual_cluster: Some("a".into()),
            facts,
        };
        let shown = nodes(&Topology::simulated(&[alike]));
        let expected = ShownNode {
            name: "n1".into(),
            device_type: "V100".into(),
            devices: vec![DeviceId(1)],
            vc: Some("a".into()),
            facts,
        };
        assert_eq!((shown.len(), &shown[1]), (2, &expected));
    }
}
