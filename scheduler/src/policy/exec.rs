//! A policy that is a program of the user. The program reads the changes and writes its actions, as one JSON object per line
//! (`formats::exec`; `scheduler/README.md` has an example). Before its actions it may ask the model of the view. It is the only policy
//! that does I/O.

mod plans;
mod program;
mod questions;
mod show;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use anyhow::{Context as _, anyhow, ensure};
use formats::exec::{Answer, Answers, Begin, Line, PROTOCOL, Shown, ShownCpus};

use engine::{
    cluster::{Action, JobId},
    policy::{Decision, Policy},
    topology::{DeviceId, NodeId},
    view::{Change, View},
};
use plans::Plans;
use policies::kit::Watch;
use program::{Program, beginning};
use show::{nodes, show_device, show_job};

/// The time without an answer after which the run ends with an error. It includes all questions before the answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

pub(crate) struct Exec {
    program: Program,
    watch: Watch,
    plans: Plans,
    turn: u64,
    /// The devices of each job that the program was shown, as it was last shown.
    shown_on: HashMap<JobId, Vec<DeviceId>>,
    /// The devices that the last answer named. They are shown again, because the program may wrongly regard them as taken.
    asked_for: Vec<DeviceId>,
    /// What the last answer says of single jobs.
    explanations: BTreeMap<JobId, String>,
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
            plans: Plans::default(),
            turn: 0,
            shown_on: HashMap::new(),
            asked_for: Vec::new(),
            explanations: BTreeMap::new(),
            failure: None,
            failed: false,
        })
    }

    fn ask(&mut self, view: &View<'_>) -> anyhow::Result<Answer> {
        let shown = self.show(view);
        let turn = shown.turn;
        self.answer(view, turn, shown.to_line()).with_context(|| format!("turn {turn}"))
    }

    /// Shows the program a turn, answers its questions, and returns its answer.
    fn answer(&mut self, view: &View<'_>, turn: u64, shown: String) -> anyhow::Result<Answer> {
        let mut line = self.program.begin_turn(shown)?;
        loop {
            let quoted = |verb: &str| format!("{verb} '{}'", beginning(&line));
            match Line::read(&line).map_err(|error| anyhow!("{}: {error}", quoted("answered")))? {
                Line::Ask(questions) => {
                    let named = questions.turn;
                    ensure!(named == turn, "asked in turn {named}; ask with the turn of the last line");
                    let answers = questions::answer(view, &questions.ask).with_context(|| quoted("asked"))?;
                    line = self.program.reply(Answers { turn, answers }.to_line())?;
                }
                Line::Answer(answer) => {
                    let named = answer.turn;
                    ensure!(named == turn, "answered turn {named}; answer each line once, with its own turn");
                    let explained = answer.explain.keys();
                    let mut checked = explained.map(|job| questions::check_job(view, "explain", *job));
                    checked
                        .try_for_each(|checked| checked)
                        .map_err(|error| anyhow!("{}: {error}", quoted("answered")))?;
                    return Ok(answer);
                }
            }
        }
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
            jobs: due.into_iter().map(|job| show_job(view, job, self.plans.show(view, job))).collect(),
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
            Ok(Answer { turn: _, actions, wake_at_ns, reason, explain }) => {
                self.remember(view, &actions);
                self.explanations = explain;
                Decision { actions, wake_at: wake_at_ns, reason }
            }
            Err(error) => {
                self.failed = true;
                self.failure = Some(error.context(format!("policy '{}'", self.program.name())));
                Decision::default()
            }
        }
    }

    fn explanations(&mut self) -> BTreeMap<JobId, String> {
        std::mem::take(&mut self.explanations)
    }

    fn failure(&mut self) -> Option<anyhow::Error> {
        self.failure.take()
    }
}
