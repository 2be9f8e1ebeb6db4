//! What a run has gained since it was last read: steps, the memory of its processes, and turns.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use record::{
    rows::{Follower, HostSample},
    run_dir::RunDir,
};
use schema::{events::EventReader, files::RunError, units::Nanos, wire::Event};

use crate::activity::{Activity, JobState};

/// A run that is read again and again. Files that grow are read on from where the last reading ended.
pub(super) struct GrowingRun {
    dir: RunDir,
    launches: BTreeMap<String, Launch>,
    host: Follower<HostSample>,
    /// The size of the journal when it was last read.
    journal_bytes: u64,
    queue: Option<Queue>,
    /// Files that cannot be read, and are left from then on.
    unreadable: BTreeSet<PathBuf>,
}

/// What a launch trains, by two names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Trained {
    /// The cell, or the job of a trace.
    pub cell: String,
    /// The workload with its batch and plan.
    pub training_job: String,
}

struct Launch {
    trained: Trained,
    /// Absent before its file is there, and after its end.
    events: Option<EventReader>,
    has_ended: bool,
    /// The last reading of each rank.
    memory: BTreeMap<u32, Held>,
}

/// Memory that processes hold. Absent if it was not read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Held {
    pub host_bytes: Option<u64>,
    pub device_bytes: Option<u64>,
}

/// The jobs of a run of `sched` after its last turn.
#[derive(Clone)]
pub(super) struct Queue {
    pub turns: u64,
    pub jobs: BTreeMap<JobState, u64>,
}

/// What a reading of a run found.
pub(super) struct Growth {
    /// The durations of the new steps of rank 0 of each launch.
    pub steps: Vec<(Trained, Nanos)>,
    /// The memory of the launches that live, summed over ranks.
    pub memory: BTreeMap<Trained, Held>,
    /// Absent without a journal.
    pub queue: Option<Queue>,
    pub has_ended: bool,
    pub unreadable: usize,
}

impl GrowingRun {
    /// # Errors
    /// The folder is no run.
    pub(super) fn open(path: &Path) -> Result<GrowingRun, RunError> {
        let dir = RunDir::open(path)?;
        Ok(GrowingRun {
            host: Follower::new(&dir.host_path()),
            dir,
            launches: BTreeMap::new(),
            journal_bytes: 0,
            queue: None,
            unreadable: BTreeSet::new(),
        })
    }

    /// Reads what is new.
    ///
    /// # Errors
    /// The folder is no longer a run.
    pub(super) fn read_on(&mut self) -> Result<Growth, RunError> {
        // The files are checked again: a run that was received may have got a link, or a pipe, since.
        self.dir = RunDir::open(self.dir.path())?;
        let has_ended = self.dir.end_path().exists();
        for name in self.dir.launches()? {
            if !self.launches.contains_key(&name) {
                self.begin(name);
            }
        }
        let steps = self.new_steps();
        self.read_memory();
        self.read_journal();
        Ok(Growth {
            steps,
            memory: self.memory(),
            queue: self.queue.clone(),
            has_ended,
            unreadable: self.unreadable.len(),
        })
    }

    fn begin(&mut self, name: String) {
        match self.dir.spec(&name) {
            Ok(spec) => {
                let trained = Trained { cell: spec.cell, training_job: spec.job };
                let launch = Launch { trained, events: None, has_ended: false, memory: BTreeMap::new() };
                self.launches.insert(name, launch);
            }
            Err(_) => _ = self.unreadable.insert(self.dir.spec_path(&name)),
        }
    }

    fn new_steps(&mut self) -> Vec<(Trained, Nanos)> {
        let mut steps = Vec::new();
        for (name, launch) in self.launches.iter_mut().filter(|(_, launch)| !launch.has_ended) {
            // Looked for before the events are read: none are written after the end.
            launch.has_ended = self.dir.launch_end_path(name).exists();
            let path = self.dir.events_path(name, 0);
            if self.unreadable.contains(&path) || !path.exists() {
                continue;
            }
            let mut lines = Vec::new();
            let read = match &mut launch.events {
                Some(reader) => reader.poll(&mut lines),
                none => EventReader::open(&path, 0).and_then(|reader| none.insert(reader).poll(&mut lines)),
            };
            steps.extend(lines.into_iter().filter_map(|line| match line.event {
                Event::Step(step) => Some((launch.trained.clone(), step.dur_ns)),
                _ => None,
            }));
            if read.is_err() {
                self.unreadable.insert(path);
            }
            if read.is_err() || launch.has_ended {
                launch.events = None;
            }
        }
        steps
    }

    fn read_memory(&mut self) {
        let path = self.dir.host_path();
        if self.unreadable.contains(&path) {
            return;
        }
        let Ok(rows) = self.host.read_on() else {
            self.launches.values_mut().for_each(|launch| launch.memory.clear());
            self.unreadable.insert(path);
            return;
        };
        for row in rows {
            if let Some(launch) = self.launches.get_mut(&row.launch) {
                let held = Held { host_bytes: row.rss_bytes, device_bytes: row.device_memory_bytes };
                launch.memory.insert(row.rank, held);
            }
        }
    }

    fn memory(&self) -> BTreeMap<Trained, Held> {
        let mut sums: BTreeMap<Trained, Held> = BTreeMap::new();
        let live = self.launches.values().filter(|launch| !launch.has_ended);
        for (trained, held) in
            live.flat_map(|launch| launch.memory.values().map(|held| (&launch.trained, held)))
        {
            let none = Held { host_bytes: Some(0), device_bytes: Some(0) };
            let sum = sums.entry(trained.clone()).or_insert(none);
            sum.host_bytes = added(sum.host_bytes, held.host_bytes);
            sum.device_bytes = added(sum.device_bytes, held.device_bytes);
        }
        sums
    }

    /// Reads the journal as a whole if it has grown: what a turn does to a job depends on the turns before.
    fn read_journal(&mut self) {
        let path = self.dir.decisions_path();
        let Ok(facts) = path.metadata() else { return };
        if facts.len() == self.journal_bytes || self.unreadable.contains(&path) {
            return;
        }
        self.journal_bytes = facts.len();
        let activity = Activity::read(&path);
        if activity.problem.is_some() {
            self.unreadable.insert(path);
            self.queue = None;
            return;
        }
        let mut jobs: BTreeMap<JobState, u64> = JobState::ALL.map(|state| (state, 0)).into();
        for state in activity.states().into_values() {
            *jobs.entry(state).or_default() += 1;
        }
        self.queue = Some(Queue { turns: activity.turns, jobs });
    }
}

/// A sum is known if both parts are.
fn added(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a?.checked_add(b?)
}
