//! The metrics of runs, in the text format of OpenMetrics, which Prometheus reads.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use super::{
    REST,
    growth::{GrowingRun, Growth, Held, Trained},
};
use crate::{page::without_controls, report::runs_in};

pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics of some runs, and how far each run has been read.
pub(super) struct Metrics {
    registry: Registry,
    runs: BTreeMap<PathBuf, GrowingRun>,
    families: Families,
    read_at: Option<Instant>,
    took: Duration,
}

#[derive(Clone)]
struct Families {
    steps: Family<JobLabels, Histogram, fn() -> Histogram>,
    memory: Family<JobLabels, Gauge<u64, AtomicU64>>,
    device_memory: Family<JobLabels, Gauge<u64, AtomicU64>>,
    jobs: Family<QueueLabels, Gauge<u64, AtomicU64>>,
    turns: Family<RunLabels, Counter>,
    ended: Family<RunLabels, Gauge<u64, AtomicU64>>,
    unreadable: Family<RunLabels, Gauge<u64, AtomicU64>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunLabels {
    run: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct JobLabels {
    run: String,
    cell: String,
    /// Prometheus has a label `job` of its own.
    training_job: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    run: String,
    state: &'static str,
}

/// Bounds from 1 ms to 65 s, each twice the one before.
fn step_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 17))
}

impl Default for Metrics {
    fn default() -> Metrics {
        let families = Families {
            steps: Family::new_with_constructor(step_seconds),
            memory: Family::default(),
            device_memory: Family::default(),
            jobs: Family::default(),
            turns: Family::default(),
            ended: Family::default(),
            unreadable: Family::default(),
        };
        let mut registry = Registry::with_prefix("tandem");
        let registered = families.clone();
        registry.register("step_seconds", "Durations of the steps of rank 0", registered.steps);
        registry.register("memory_bytes", "Resident memory of the processes of the job", registered.memory);
        let text = "Device memory of the processes of the job, as the driver reports it";
        registry.register("device_memory_bytes", text, registered.device_memory);
        registry.register("jobs", "Jobs that have arrived, by their state", registered.jobs);
        registry.register("turns", "Turns of the scheduler", registered.turns);
        registry.register("run_ended", "1 if the run has ended", registered.ended);
        let text = "Files of the run that cannot be read, and are missing from its metrics";
        registry.register("unreadable_files", text, registered.unreadable);
        Metrics { registry, runs: BTreeMap::new(), families, read_at: None, took: Duration::ZERO }
    }
}

impl Metrics {
    /// Reads what the runs have gained, and returns the text of all metrics. While the server rests after the last reading, the text has the
    /// values of that reading.
    pub(super) fn renewed(&mut self, paths: &[PathBuf]) -> String {
        if self.read_at.is_none_or(|at| at.elapsed() >= self.took * REST) {
            let begin = Instant::now();
            self.families.clear();
            for run in paths.iter().filter_map(|path| runs_in(path).ok()).flatten() {
                self.read(&run);
            }
            (self.read_at, self.took) = (Some(Instant::now()), begin.elapsed());
        }
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        without_controls(&text)
    }

    /// Reads a run on. One that cannot be read has an unreadable file, its manifest or a file that it may not have.
    fn read(&mut self, path: &Path) {
        let run = path.display().to_string();
        if !self.runs.contains_key(path)
            && let Ok(growing) = GrowingRun::open(path)
        {
            self.runs.insert(path.into(), growing);
        }
        match self.runs.get_mut(path).map(GrowingRun::read_on) {
            Some(Ok(growth)) => self.families.add(&run, growth),
            Some(Err(_)) | None => {
                _ = self.families.unreadable.get_or_create_owned(&RunLabels { run }).set(1)
            }
        }
    }
}

impl Families {
    /// Removes what describes a moment, so that jobs that have ended hold no memory. Steps are counted from the first on.
    fn clear(&self) {
        self.memory.clear();
        self.device_memory.clear();
        self.jobs.clear();
        self.turns.clear();
        self.ended.clear();
        self.unreadable.clear();
    }

    /// Adds what a run has gained.
    fn add(&self, run: &str, growth: Growth) {
        let labels = |trained: Trained| JobLabels {
            run: run.into(),
            cell: trained.cell,
            training_job: trained.training_job,
        };
        for (trained, dur_ns) in growth.steps {
            self.steps.get_or_create(&labels(trained)).observe(dur_ns.0 as f64 / 1e9);
        }
        for (trained, Held { host_bytes, device_bytes }) in growth.memory {
            let labels = labels(trained);
            let gauges = [(&self.memory, host_bytes), (&self.device_memory, device_bytes)];
            for (gauge, bytes) in gauges {
                bytes.map(|bytes| gauge.get_or_create(&labels).set(bytes));
            }
        }
        let labels = RunLabels { run: run.into() };
        if let Some(queue) = growth.queue {
            self.turns.get_or_create(&labels).inner().store(queue.turns, Ordering::Relaxed);
            for (state, jobs) in queue.jobs {
                let labels = QueueLabels { run: run.into(), state: state.name() };
                self.jobs.get_or_create(&labels).set(jobs);
            }
        }
        self.ended.get_or_create(&labels).set(u64::from(growth.has_ended));
        self.unreadable.get_or_create(&labels).set(growth.unreadable as u64);
    }
}
