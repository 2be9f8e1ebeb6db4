//! Rows of a group: one for each seat of a visit, over the window that all members share.

use colocate::window::{self, SteadyPart, Step, Used};
use jobs::cells;
use record::{
    group::{Group, Visit},
    launch_end::LaunchEnd,
    manifest::Manifest,
    rows::{ErrorKind, Measurement, Status, Warning},
    run_dir::RunDir,
    steps::{JobEvents, JobStep},
};
use schema::{
    device::Device,
    spec::LaunchSpec,
    units::{Nanos, Window},
    wire::Timing,
};
use statistics::{LaunchSummary, Steady};

use super::{
    LaunchSteps, gates,
    launch::{self, LaunchRecord, Row},
    memory,
    samples::Samples,
};
use crate::window::total;

/// The rows of a visit that is over, in the order of its seats.
pub(super) fn measurements(
    run: &RunDir,
    manifest: &Manifest,
    samples: &Samples,
    visit: &Visit,
) -> anyhow::Result<Vec<Row>> {
    let seats = read(run, visit)?;
    let (failed, parts) = (failed_launch(&seats), common_window(visit, &seats));
    let together = Together { run, manifest, samples, visit, seats: &seats };
    let row = |seat: usize| together.row(seat, parts.as_ref().map(|parts| &parts[seat]), failed);
    Ok((0..seats.len()).filter_map(row).collect())
}

/// The steps of each launch of a seat, and which of them its row is made from.
pub(super) fn steps(run: &RunDir, visit: &Visit, seat: usize) -> anyhow::Result<Vec<LaunchSteps>> {
    let seats = read(run, visit)?;
    let parts = common_window(visit, &seats);
    let part = parts.as_ref().and_then(|parts| parts.get(seat));
    let launches = seats.into_iter().nth(seat).unwrap_or_default();
    let steps = launches.into_iter().enumerate().map(|(at, told)| {
        let of_launch = |part: &SteadyPart| {
            part.steps.iter().filter(|used| used.launch == at).map(|used| used.step).collect()
        };
        LaunchSteps { launch: told.spec.launch, steps: told.events.steps, used: part.map(of_launch) }
    });
    Ok(steps.collect())
}

/// The launches of each seat, with what they left on file.
fn read(run: &RunDir, visit: &Visit) -> anyhow::Result<Vec<Vec<Told>>> {
    let of_seat = |launches: &Vec<String>| launches.iter().map(|launch| Told::read(run, launch)).collect();
    let mut seats: Vec<Vec<Told>> = visit.launches.iter().map(of_seat).collect::<anyhow::Result<_>>()?;
    if visit.barrier_mono_ns.is_none() {
        seats.iter_mut().flatten().for_each(Told::fail_without_a_step);
    }
    Ok(seats)
}

/// The launch that failed by itself, which contaminated the others.
fn failed_launch(seats: &[Vec<Told>]) -> Option<&Told> {
    let by_itself = |err: ErrorKind| err != ErrorKind::Contaminated;
    let mut all = seats.iter().flatten();
    all.find(|told| told.failure.as_ref().is_some_and(|(err, _)| by_itself(*err)))
}

/// The part of each seat that counts; `None` if a launch failed.
fn common_window(visit: &Visit, seats: &[Vec<Told>]) -> Option<Vec<SteadyPart>> {
    if failed_launch(seats).is_some() {
        return None;
    }
    let members: Vec<Vec<window::LaunchActivity>> =
        seats.iter().map(|launches| launches.iter().map(Told::launch).collect()).collect();
    // A group of programs that obey no grant has no barrier: its members count from their start.
    let start = visit.barrier_mono_ns.unwrap_or(Nanos::ZERO);
    let end = visit.end_mono_ns.unwrap_or(Nanos(u64::MAX));
    window::common(&members, Window { start, end }, &visit.turns)
}

/// The raw data of one launch of a member.
struct Told {
    spec: LaunchSpec,
    end: LaunchEnd,
    /// Why it did not do what was requested.
    failure: Option<Failure>,
    events: JobEvents,
}

type Failure = (ErrorKind, Option<String>);

impl Told {
    fn read(run: &RunDir, launch: &str) -> anyhow::Result<Told> {
        let spec = run.spec(launch)?;
        let end = run
            .launch_end(launch)?
            .ok_or_else(|| anyhow::anyhow!("{launch} is part of a visit that is over, but has no end"))?;
        let (events, garbled) = match launch::read_events(run, &spec, &end) {
            Ok(events) => (events, None),
            Err(error) => (JobEvents::default(), Some((ErrorKind::Garbled, Some(error.to_string())))),
        };
        let failure = end.err.map(|err| (err, end.err_detail.clone())).or(garbled);
        Ok(Told { spec, end, failure, events })
    }

    /// Notes that it was waited for, and was ended at the time limit for its first step, if this is so. Its visit has no barrier.
    fn fail_without_a_step(&mut self) {
        if self.failure.is_none() && self.is_outside() && gates::is_cut(&self.end) {
            self.failure = Some((ErrorKind::TooShort, Some(launch::without_a_step(&self.end))));
        }
    }

    /// Whether it is a program without known steps.
    fn is_outside(&self) -> bool {
        !self.spec.program.speaks() && self.events.steps.is_empty()
    }

    /// The time from the start of its first process to its end.
    fn life(&self) -> Window {
        let wall_ns = self.end.ranks.iter().filter_map(|rank| rank.wall_ns).max().unwrap_or(0);
        Window { start: self.end.mono_ns.saturating_sub(Nanos(wall_ns)), end: self.end.mono_ns }
    }

    fn launch(&self) -> window::LaunchActivity {
        if self.is_outside() {
            return window::LaunchActivity::Outside(self.life());
        }
        let step = |step: &JobStep| Step { end: step.end, dur_ns: step.dur_ns };
        window::LaunchActivity::Steps(self.events.steps.iter().map(step).collect())
    }
}

struct Together<'a> {
    run: &'a RunDir,
    manifest: &'a Manifest,
    samples: &'a Samples,
    visit: &'a Visit,
    seats: &'a [Vec<Told>],
}

impl Together<'_> {
    fn row(&self, seat: usize, part: Option<&SteadyPart>, failed: Option<&Told>) -> Option<Row> {
        let launches = &self.seats[seat];
        let not_shared = self.visit.not_shared.clone().map(|why| (ErrorKind::Sharing, Some(why)));
        let of_group = not_shared.clone().or_else(|| failed.map(contaminated));
        let (Some(first), Some(last)) = (launches.first(), launches.last()) else {
            let measurement = self.never_started(seat, of_group?)?;
            return Some(Row { measurement, findings: Vec::new() });
        };
        let mut row = Measurement {
            launch: first.spec.launch.clone(),
            repeat: self.visit.block,
            part: self.visit.part,
            job: first.spec.job.clone(),
            threads: first.spec.threads,
            sharing: self.visit.sharing.clone(),
            group: Some(self.visit.group.clone()),
            seat: Some(seat as u32),
            steps_total: launches.iter().map(|told| told.events.steps_taken).sum(),
            memory_estimate_bytes: launch::estimate(self.manifest, &first.spec),
            ..launch::blank_of_spec(self.run, self.manifest, &first.spec)
        };
        launch::fill_from_events(&mut row, &first.spec, &first.end, &first.events.others);
        let resident =
            |told: &Told| memory::rss_peak_bytes(self.samples.of_launch(&told.spec.launch), &told.end);
        let resident: Option<Vec<u64>> = launches.iter().map(resident).collect();
        row.host_rss_peak_bytes = resident.and_then(|peaks| peaks.into_iter().max());
        row.wall_ns = Some(last.life().end.saturating_sub(first.life().start).0);
        let mut findings = Vec::new();
        let own = launches.iter().find_map(|told| told.failure.clone());
        let failure = match (not_shared.or(own).or(of_group), part) {
            (Some(failure), _) => Some(failure),
            (None, None) => Some(too_short("no time in which all members were steady")),
            (None, Some(part)) => self.fill(&mut row, launches, part, &mut findings),
        };
        if let Some((err, detail)) = failure {
            (row.status, row.err, row.err_detail) = (Status::Failed, Some(err), detail);
            findings.clear();
        }
        row.warnings = findings.iter().map(|finding| finding.warning).collect();
        Some(Row { measurement: row, findings })
    }

    /// The row of a seat whose member was not started, because the visit failed before its warm-up.
    fn never_started(&self, seat: usize, (err, err_detail): Failure) -> Option<Measurement> {
        let (visit, manifest) = (self.visit, self.manifest);
        let is_visited = |group: &&Group| group.name == visit.group && group.sharing == visit.sharing;
        let member = manifest.groups.iter().find(is_visited)?.members.get(seat)?;
        let cell = manifest.cells.iter().find(|cell| cell.name == *member)?;
        Some(Measurement {
            repeat: visit.block,
            part: visit.part,
            sharing: visit.sharing.clone(),
            group: Some(visit.group.clone()),
            seat: Some(seat as u32),
            status: Status::Failed,
            err: Some(err),
            err_detail,
            ..launch::blank(self.run, cell)
        })
    }

    /// Fills in the numbers of a seat; returns what went wrong if it has none.
    fn fill(
        &self,
        row: &mut Measurement,
        launches: &[Told],
        part: &SteadyPart,
        findings: &mut Vec<crate::warnings::Finding>,
    ) -> Option<Failure> {
        let first = launches.first()?;
        let ended = self.seats.iter().flatten().map(|told| told.end.mono_ns).max()?;
        let (samples, manifest) = (self.samples, self.manifest);
        let launch =
            LaunchRecord { spec: &first.spec, ranks: &first.events.others, samples, manifest, ended };
        let parts: Vec<(&str, Window)> =
            part.windows.iter().map(|(at, window)| (&*launches[*at].spec.launch, *window)).collect();
        let windows: Vec<Window> = part.windows.iter().map(|(_, window)| *window).collect();
        launch.fill_from_samples(row, &parts, |_| self.cpu_of_all(&first.spec.devices, &windows), findings);
        if launches.len() > 1 {
            let found = format!("it ended by itself, and was started again {} times", launches.len() - 1);
            launch.find(findings, [(Warning::Looped, found)]);
        }
        let others = self.seats.iter().flatten().filter(|other| other.spec.seat != first.spec.seat);
        let others: Vec<&LaunchSpec> = others.map(|other| &other.spec).collect();
        launch.find(findings, gates::of_cores(&first.spec, &others));
        let of_processes =
            |told: &Told| gates::of_processes(samples.of_launch(&told.spec.launch), told.end.mono_ns);
        launch.find(findings, launches.iter().find_map(of_processes));
        launch.find(findings, gates::of_arithmetic(&first.events.others));
        launch.find(findings, gates::of_program(&first.spec, &first.end, first.events.steps.len()));
        launch.find(findings, launches.iter().find_map(|told| gates::of_end(&told.spec, &told.end)));
        if first.is_outside() {
            row.timing = Some(Timing::Outside);
            row.window_ns = Some(part.window_ns);
            row.wall_ns = self.wall_ns(launches);
            let beside = "it did not run to its end beside the others";
            return row.wall_ns.is_none().then(|| too_short(beside));
        }
        let raw = |step: &Used| &launches[step.launch].events.steps[step.step];
        let working_ns: u64 = part.steps.iter().map(|step| raw(step).dur_ns).sum();
        // A member that ended and was started again has starts in its window.
        row.held_ns = (launches.len() == 1).then(|| part.window_ns.saturating_sub(working_ns));
        let used: Vec<JobStep> =
            part.steps.iter().map(|step| JobStep { dur_ns: step.length_ns, ..raw(step).clone() }).collect();
        let step_ns: Vec<u64> = used.iter().map(|step| step.dur_ns).collect();
        let steady = Steady { class: part.class, start: 0, end: step_ns.len() };
        let summary = LaunchSummary::within(&step_ns, steady)?;
        launch.fill_from_used(row, &used, &summary, Nanos(part.window_ns));
        if self.visit.sharing.takes_turns() {
            // A step in which the job was held is longer by the turns of the others. The share of such steps depends on the
            // quantum and is no property of the job.
            (row.step_ns_p90, row.step_ns_p99) = (None, None);
        }
        row.warmup_steps = part.steps.first().map(|step| step.step as u64);
        let steps: Vec<JobStep> =
            launches.iter().flat_map(|told| told.events.steps.iter().cloned()).collect();
        launch.find(
            findings,
            gates::of_steps(&steps, used.len(), part.class, first.spec.steps_regex.as_deref()),
        );
        for window in &windows {
            launch.find(findings, gates::of_allocator(&first.events.others, *window));
        }
        None
    }

    /// The run time of a program beside the others: the mean of the runs that ended by themselves.
    fn wall_ns(&self, launches: &[Told]) -> Option<u64> {
        let left = self.visit.end_mono_ns.unwrap_or(Nanos(u64::MAX));
        let whole: Vec<u64> = launches
            .iter()
            .map(Told::life)
            .filter(|life| life.end < left)
            .map(|life| life.length().0)
            .collect();
        let sum = total(whole.iter().copied().map(Some))?;
        sum.checked_div(whole.len() as u64)
    }

    /// CPU time of all members on these cores; `None` if a member has other devices as well, or was not present all the time.
    fn cpu_of_all(&self, devices: &[Device], windows: &[Window]) -> Option<u64> {
        let device = cells::joined(devices);
        let mut sum: u64 = 0;
        for told in self.seats.iter().flatten() {
            if cells::joined(&told.spec.devices) != device {
                if told.spec.devices.iter().any(|other| devices.iter().any(|own| other.shares_with(own))) {
                    return None;
                }
                continue;
            }
            let ranks = told.spec.processes();
            sum += self.samples.grown(&told.spec.launch, ranks, |row| row.cpu_ns, windows)?;
        }
        Some(sum)
    }
}

fn contaminated(by: &Told) -> Failure {
    (ErrorKind::Contaminated, Some(format!("{}, of the same group, had failed", by.spec.launch)))
}

fn too_short(what: &str) -> Failure {
    (ErrorKind::TooShort, Some(format!("{what}; give the group more with --seconds")))
}
