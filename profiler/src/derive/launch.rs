//! Makes one row of `measurements.csv` from the raw files of a launch.

use std::{collections::BTreeSet, path::PathBuf};

use anyhow::anyhow;
use record::{
    launch_end::LaunchEnd,
    manifest::{Cell, DeviceFacts, Manifest},
    rows::{Arithmetic, ErrorKind, HostSample, Measurement, Status, Warning},
    run_dir::RunDir,
    steps::{Invalid, JobEvents, JobStep, read_job},
};
use schema::{
    device::Device,
    spec::{LaunchSpec, Program},
    units::Nanos,
    values,
    wire::{Event, EventLine, Timing},
};
use statistics::LaunchSummary;

use super::{devices, gates, memory, mfu, phases, rounded, samples::Samples, whole};
use crate::{
    warnings::Finding,
    window::{Window, sum_of_all, total},
};
use jobs::{cells, command_line};

/// A row and its warnings.
pub(super) struct Row {
    pub(super) measurement: Measurement,
    pub(super) findings: Vec<Finding>,
}

/// The row of a launch that has ended.
pub(super) fn measurement(
    run: &RunDir,
    manifest: &Manifest,
    samples: &Samples,
    launch: &str,
    end: &LaunchEnd,
) -> anyhow::Result<Row> {
    let spec = run.spec(launch)?;
    let (JobEvents { steps, steps_taken, others: ranks }, unreadable) = match read_events(run, &spec, end) {
        Ok(events) => (events, None),
        Err(error) => (JobEvents::default(), Some(error)),
    };
    let mut row = Measurement {
        launch: launch.into(),
        repeat: spec.block,
        part: spec.part,
        job: spec.job.clone(),
        threads: spec.threads,
        steps_total: steps_taken,
        memory_estimate_bytes: estimate(manifest, &spec),
        status: if end.err.is_some() { Status::Failed } else { Status::Ok },
        err: end.err,
        err_detail: end.err_detail.clone(),
        ..blank_of_spec(run, manifest, &spec)
    };
    // A file was changed after the run. The row says so, and the other rows are still derived.
    if let Some(error) = unreadable {
        row.status = Status::Failed;
        row.err = Some(ErrorKind::Garbled);
        row.err_detail = Some(error.to_string());
    }
    row.wall_ns = end.ranks.iter().map(|rank| rank.wall_ns).max().flatten();
    fill_from_events(&mut row, &spec, end, &ranks);
    row.host_rss_peak_bytes = memory::rss_peak_bytes(samples.of_launch(launch), end);
    let launch = LaunchRecord { spec: &spec, ranks: &ranks, samples, manifest, ended: end.mono_ns };
    let mut findings = Vec::new();
    // A failed job has no numbers in the tables. Its raw steps stay on file.
    if row.status == Status::Ok {
        let takes_no_steps = steps.is_empty() && matches!(spec.program, Program::Command(_));
        match &spec.steps_regex {
            pattern if takes_no_steps => match lack_of_steps(pattern.as_deref(), end, manifest) {
                Some(lack) => too_short(&mut row, lack),
                None => launch.fill_from_outside(&mut row, end, &mut findings),
            },
            _ => {
                row.exit_ns = time_of_exit(&steps, end);
                launch.fill_from_steps(&mut row, asked_for(&steps, end), &mut findings);
            }
        }
        launch.find(&mut findings, gates::of_processes(samples.of_launch(&spec.launch), end.mono_ns));
        launch.find(&mut findings, gates::of_cores(&spec, &[]));
        launch.find(&mut findings, gates::of_arithmetic(&ranks));
        launch.find(&mut findings, gates::of_program(&spec, end, steps.len()));
        launch.find(&mut findings, gates::of_end(&spec, end));
    }
    launch.find(&mut findings, gates::of_cleanup(end));
    row.warnings = findings.iter().map(|finding| finding.warning).collect();
    Ok(Row { measurement: row, findings })
}

/// What is wrong with a launch of a user's program without a step; `None` if its duration is a measurement.
///
/// A duration counts only if the program ended by itself. Steps were to be seen in a program with a pattern for them, and in a
/// program with PyTorch of which an amount of steps was to be measured alone. `colocate` compares programs without steps by their
/// durations.
fn lack_of_steps(pattern: Option<&str>, end: &LaunchEnd, manifest: &Manifest) -> Option<String> {
    let option = match (manifest.settings.steps, manifest.settings.seconds) {
        (Some(_), _) => Some("--steps"),
        (None, seconds) => seconds.map(|_| "--seconds"),
    };
    match (pattern, option) {
        (Some(pattern), _) => {
            Some(format!("fewer than two lines of its output match '{pattern}', given by --steps-regex"))
        }
        (None, _) if gates::is_cut(end) => Some(without_a_step(end)),
        (None, Some(option)) if end.notes.has_pytorch && manifest.groups.is_empty() => Some(format!(
            "it imported PyTorch and ended without an optimizer step, and {option} measures steps; match lines of its \
             output with --steps-regex, or leave out {option} to measure its duration"
        )),
        (None, _) => None,
    }
}

/// Why a program that was ended at the time limit for its first step is no measurement.
pub(super) fn without_a_step(end: &LaunchEnd) -> String {
    format!("it took no step in {}, and was ended; raise --first-step-timeout", gates::ran(end))
}

/// The steps up to the decision that there are enough of them. Later steps were granted before it, and would change the steady
/// state by chance.
fn asked_for<'a>(steps: &'a [JobStep], end: &LaunchEnd) -> &'a [JobStep] {
    let enough = end.enough_mono_ns.unwrap_or(Nanos(u64::MAX));
    &steps[..steps.partition_point(|step| step.end <= enough)]
}

/// The time from the last step of a launch, or from the order to stop if that came later, until its last process had ended.
fn time_of_exit(steps: &[JobStep], end: &LaunchEnd) -> Option<u64> {
    let last = steps.last()?.end.max(end.enough_mono_ns.unwrap_or_default());
    Some(end.mono_ns.saturating_sub(last).0)
}

/// A row with what was to be measured, without numbers.
pub(super) fn blank(run: &RunDir, cell: &Cell) -> Measurement {
    let micro_batch = match (cell.global_batch, cell.plan) {
        (Some(batch), Some(plan)) if batch.is_multiple_of(plan.batch_divisor()) => {
            Some(batch / plan.batch_divisor())
        }
        _ => None,
    };
    Measurement {
        run: run.name(),
        job: cell.job.clone(),
        workload: cell.workload.clone(),
        command: cell.command.as_deref().map(command_line::quoted),
        vary: values::text(&cell.vary),
        plan: cell.plan,
        device: cells::joined(&cell.devices),
        sharing: cell.sharing.clone(),
        global_batch: cell.global_batch,
        micro_batch,
        memory_estimate_bytes: cell.memory_estimate_bytes,
        ..Measurement::default()
    }
}

/// The memory that was estimated for a launch's cell before the run began.
pub(super) fn estimate(manifest: &Manifest, spec: &LaunchSpec) -> Option<u64> {
    cell_of(manifest, spec)?.memory_estimate_bytes
}

fn cell_of<'a>(manifest: &'a Manifest, spec: &LaunchSpec) -> Option<&'a Cell> {
    manifest.cells.iter().find(|cell| cell.name == spec.cell)
}

pub(super) fn blank_of_spec(run: &RunDir, manifest: &Manifest, spec: &LaunchSpec) -> Measurement {
    let (workload, global_batch, plan) = match &spec.program {
        Program::Training(t) => (t.workload.name.clone(), Some(t.global_batch), Some(t.plan)),
        Program::AllReduce(_) => (spec.job.clone(), None, None),
        Program::Command(_) => {
            let cell = cell_of(manifest, spec);
            let workload = cell.map_or_else(|| spec.job.clone(), |cell| cell.workload.clone());
            (workload, cell.and_then(|cell| cell.global_batch), cell.and_then(|cell| cell.plan))
        }
    };
    let command = match &spec.program {
        Program::Command(argv) => Some(argv.clone()),
        Program::Training(_) | Program::AllReduce(_) => None,
    };
    let cell = Cell {
        name: spec.cell.clone(),
        sharing: spec.sharing.clone(),
        job: spec.job.clone(),
        workload,
        command,
        all_reduce_bytes: None,
        global_batch,
        plan,
        devices: spec.devices.clone(),
        vary: cell_of(manifest, spec).map(|cell| cell.vary.clone()).unwrap_or_default(),
        memory_estimate_bytes: None,
        unsupported: None,
        ..Cell::default()
    };
    let mut row = blank(run, &cell);
    if let Program::Training(training) = &spec.program {
        let per_sample = training.workload.flops_per_sample;
        row.flops_per_step = per_sample.and_then(|flops| flops.checked_mul(training.global_batch.into()));
    }
    row
}

/// The events of all ranks. If the launch failed, the events may end at the line that made it fail.
pub(super) fn read_events(run: &RunDir, spec: &LaunchSpec, end: &LaunchEnd) -> anyhow::Result<JobEvents> {
    let files: Vec<PathBuf> = (0..run.ranks(spec)).map(|rank| run.events_path(&spec.launch, rank)).collect();
    // `LaunchEnd` already has the error of a launch that failed.
    let invalid = if end.err.is_none() { Invalid::IsAnError } else { Invalid::EndsTheFile };
    let read = read_job(&files, spec.program.stages(), invalid);
    read.map_err(|(path, error)| anyhow!(run.relative(&error.to_string(), &path)))
}

pub(super) fn fill_from_events(
    row: &mut Measurement,
    spec: &LaunchSpec,
    end: &LaunchEnd,
    ranks: &[Vec<EventLine>],
) {
    let mut peaks = Vec::new();
    for rank in ranks {
        let mut peak = None;
        for line in rank {
            match &line.event {
                Event::Ready(ready) => {
                    row.parameters = row.parameters.max(ready.parameters);
                    row.optimizer_bytes = row.optimizer_bytes.max(ready.optimizer_bytes);
                    row.startup_ns = row.startup_ns.max(Some(ready.startup_ns.0));
                    row.statistics = ready.statistics;
                    peak = peak.max(ready.peak_bytes);
                }
                Event::Memory(memory) => peak = peak.max(Some(memory.peak_bytes)),
                _ => {}
            }
        }
        peaks.push(peak);
    }
    row.peak_memory_bytes = peaks.iter().copied().max().flatten();
    row.peak_memory_sum_bytes = sum_of_all(peaks.into_iter());
    let began = end.ranks.iter().filter_map(|rank| rank.began_mono_ns).min();
    if let (Program::Command(_), Some(began)) = (&spec.program, began) {
        row.startup_ns = startup_of_command(spec, Nanos(began), ranks);
    }
}

/// The time from the start of the first process of a command until the last of its ranks trains. A rank measures a shorter time if
/// another program, such as torchrun, starts the ranks. `None` if no rank sent an event.
fn startup_of_command(spec: &LaunchSpec, began: Nanos, ranks: &[Vec<EventLine>]) -> Option<u64> {
    let trains = |line: &&EventLine| match line.event {
        // The first line of output that shows a step.
        Event::Hello(_) => spec.steps_regex.is_some(),
        Event::Ready(_) => true,
        _ => false,
    };
    let times = ranks.iter().filter_map(|rank| rank.iter().find(trains));
    Some(times.map(|line| line.mono_ns).max()?.saturating_sub(began).0)
}

/// The sources of a launch's numbers.
pub(super) struct LaunchRecord<'a> {
    pub(super) spec: &'a LaunchSpec,
    /// The events of each rank that are no steps.
    pub(super) ranks: &'a [Vec<EventLine>],
    pub(super) samples: &'a Samples,
    pub(super) manifest: &'a Manifest,
    pub(super) ended: Nanos,
}

impl LaunchRecord<'_> {
    fn fill_from_steps(&self, row: &mut Measurement, steps: &[JobStep], findings: &mut Vec<Finding>) {
        let step_ns: Vec<u64> = steps.iter().map(|step| step.dur_ns).collect();
        let summary = LaunchSummary::of(&step_ns);
        let used = summary.map_or(&[][..], |found| &steps[found.steady.start..found.steady.end]);
        let (Some(summary), Some(first), Some(last)) = (summary, used.first(), used.last()) else {
            return too_short(row, "it ended without a complete step; give it more with --seconds".into());
        };
        let window = Window { start: first.start(), end: last.end };
        row.warmup_steps = Some(summary.steady.start as u64);
        let launch = &*self.spec.launch;
        let parts: Vec<(&str, Window)> = self.unheld(used).map(|window| (launch, window)).collect();
        let length: Nanos = parts.iter().map(|(_, window)| window.length()).sum();
        self.fill_from_used(row, used, &summary, length);
        self.fill_from_samples(row, &parts, Some, findings);

        self.find(
            findings,
            gates::of_steps(steps, used.len(), summary.steady.class, self.spec.steps_regex.as_deref()),
        );
        let steady_ns = &step_ns[summary.steady.start..summary.steady.end];
        self.find(findings, gates::of_pace(self.spec, steady_ns));
        self.find(findings, gates::of_lines(self.spec, row.device_util_percent_mean, steady_ns));
        self.find(findings, gates::of_allocator(self.ranks, window));
    }

    /// The windows in which these steps were done. Time in which the job was held between two steps is left out, for example
    /// while it waits for its first grants because the time of a step is not known yet. So is the time of steps without a
    /// length.
    fn unheld<'b>(&self, steps: &'b [JobStep]) -> impl Iterator<Item = Window> + use<'b> {
        let held_before: BTreeSet<u64> = self.ranks.iter().flatten().filter_map(held_before).collect();
        steps
            .chunk_by(move |step, next| next.index == step.index + 1 && !held_before.contains(&next.index))
            .filter_map(|stretch| Some(Window { start: stretch.first()?.start(), end: stretch.last()?.end }))
    }

    /// Fills in the numbers of the steps that count, of which there is at least one. Rates are over the `window` in which they
    /// were done: time in which the job was held between two of them, or after the last, belongs to the window but to no step.
    pub(super) fn fill_from_used(
        &self,
        row: &mut Measurement,
        used: &[JobStep],
        summary: &LaunchSummary,
        window: Nanos,
    ) {
        let ns = |value: f64| Some(whole(value));
        row.window_ns = Some(window.0);
        row.steps_used = used.len() as u64;
        row.steady = Some(summary.steady.is_steady());
        row.timing = used.first().map(|step| step.timing);
        row.step_ns_median = ns(summary.step_ns_median);
        row.step_ns_median_ci_lo = summary.median_interval.and_then(|i| ns(i.lo));
        row.step_ns_median_ci_hi = summary.median_interval.and_then(|i| ns(i.hi));
        row.step_ns_mean = ns(window.0 as f64 / used.len() as f64);
        row.step_ns_p90 = summary.tail.p90;
        row.step_ns_p99 = summary.tail.p99;
        // A program whose steps do not report their samples has as many as the user says.
        let of_batch = row.global_batch.filter(|_| !self.spec.program.speaks());
        let samples = total(used.iter().map(|step| step.samples))
            .or(of_batch.map(|batch| u64::from(batch) * used.len() as u64));
        row.samples_per_s = samples
            .filter(|samples| window > Nanos::ZERO && *samples > 0)
            .map(|samples| rounded(samples as f64 / window.as_secs_f64(), 3));
        row.sent_bytes = total(used.iter().map(|step| step.sent_bytes));
        phases::fill(row, used);
        (row.mfu_arithmetic, row.mfu_percent) = self.mfu(row, window).unzip();
    }

    pub(super) fn find(
        &self,
        findings: &mut Vec<Finding>,
        found: impl IntoIterator<Item = (Warning, String)>,
    ) {
        let subject = &self.spec.launch;
        findings.extend(found.into_iter().map(|(warning, found)| Finding {
            subject: subject.clone(),
            warning,
            found,
        }));
    }

    /// Fills in the numbers of a program without steps: from its first reading to its end.
    fn fill_from_outside(&self, row: &mut Measurement, end: &LaunchEnd, findings: &mut Vec<Finding>) {
        row.timing = Some(Timing::Outside);
        let Some(first) = self.samples.of_launch(&self.spec.launch).first() else { return };
        let window = Window { start: first.mono_ns, end: end.mono_ns };
        row.window_ns = Some(window.length().0);
        self.fill_from_samples(row, &[(&self.spec.launch, window)], Some, findings);
        // The kernel's account of a process that has ended includes its last moments.
        row.cpu_ns = sum_of_all(end.ranks.iter().map(|rank| rank.cpu_ns)).or(row.cpu_ns);
    }

    fn mfu(&self, row: &Measurement, window: Nanos) -> Option<(Arithmetic, f64)> {
        let Program::Training(training) = &self.spec.program else { return None };
        let (precision, model) = (training.plan.precision, &training.workload.model);
        let peaks = self.devices().map(|facts| mfu::peak(facts, &self.manifest.machine, precision, model));
        let flops = row.flops_per_step? as f64 * row.steps_used as f64;
        let (arithmetic, percent) = mfu::percent(peaks, flops / window.as_secs_f64())?;
        percent.is_finite().then(|| (arithmetic, rounded(percent, 2)))
    }

    fn devices(&self) -> impl Iterator<Item = &DeviceFacts> {
        self.manifest.devices.iter().filter(|facts| self.spec.devices.contains(&facts.device))
    }

    /// Fills in the readings in the windows that count. Each window has the launch of the job that it lies in.
    ///
    /// `known_cpu` converts CPU time of the job into that of all jobs of the run on its devices, if it is known.
    pub(super) fn fill_from_samples(
        &self,
        row: &mut Measurement,
        parts: &[(&str, Window)],
        known_cpu: impl Fn(u64) -> Option<u64>,
        findings: &mut Vec<Finding>,
    ) {
        let windows: Vec<Window> = parts.iter().map(|(_, window)| *window).collect();
        self.fill_from_host(row, parts, &windows);
        self.find(findings, gates::of_quota(self.throttled_periods(parts)));
        let mut read = Vec::new();
        for device in self.distinct_devices() {
            let name = device.to_string();
            let rows = self.samples.of_device(&name, &windows, self.ended);
            self.find(findings, gates::of_device(&name, &rows, &windows));
            read.push((name, rows));
        }
        if let Some(own_cpu_ns) = row.cpu_ns.and_then(known_cpu) {
            self.find(findings, gates::of_others(&read, own_cpu_ns, &windows));
        }
        let read: Vec<_> = read.into_iter().map(|(_, rows)| rows).collect();
        devices::fill(row, &read, &windows);
    }

    fn fill_from_host(&self, row: &mut Measurement, parts: &[(&str, Window)], windows: &[Window]) {
        let ranks = self.spec.processes();
        let launches: BTreeSet<&str> = parts.iter().map(|(launch, _)| *launch).collect();
        let grown = |value: fn(&HostSample) -> Option<u64>| -> Option<u64> {
            let of_one = |launch: &&str| self.samples.grown(launch, ranks, value, &windows_of(parts, launch));
            total(launches.iter().map(of_one))
        };
        row.cpu_ns = grown(|row| row.cpu_ns);
        row.run_queue_wait_ns = grown(|row| row.run_queue_wait_ns);
        let host: Vec<&HostSample> =
            launches.into_iter().flat_map(|launch| self.samples.of_launch(launch)).collect();
        row.device_memory_bytes = host.iter().filter_map(|row| row.device_memory_bytes).max();
        let devices = self.distinct_devices();
        row.job_util_percent_mean = devices::job_util_percent(&host, ranks, devices.len(), windows)
            .or_else(|| devices::job_util_of_cores(devices, row.cpu_ns?, windows));
    }

    /// The periods in the windows in which a CPU quota stopped processes: of the rank with the most of them, because ranks have a
    /// cgroup in common as a rule.
    fn throttled_periods(&self, parts: &[(&str, Window)]) -> Option<u64> {
        let launches: BTreeSet<&str> = parts.iter().map(|(launch, _)| *launch).collect();
        let of_launch = |launch: &str| {
            let windows = windows_of(parts, launch);
            let of_rank =
                |rank| self.samples.grown_of_rank(launch, rank, |row| row.throttled_periods, &windows);
            (0..self.spec.processes()).filter_map(of_rank).max()
        };
        launches.into_iter().filter_map(of_launch).max()
    }

    /// The devices without duplicates, because readings of a device that ranks share count once.
    fn distinct_devices(&self) -> BTreeSet<&Device> {
        self.spec.devices.iter().collect()
    }
}

/// The windows that lie in a launch.
fn windows_of(parts: &[(&str, Window)], launch: &str) -> Vec<Window> {
    parts.iter().filter(|(name, _)| *name == launch).map(|(_, window)| *window).collect()
}

/// The step before which a rank waited for a grant.
fn held_before(line: &EventLine) -> Option<u64> {
    match line.event {
        Event::Held { index } => Some(index),
        _ => None,
    }
}

fn too_short(row: &mut Measurement, detail: String) {
    row.status = Status::Failed;
    row.err = Some(ErrorKind::TooShort);
    row.err_detail = Some(detail);
}
