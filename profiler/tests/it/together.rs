//! Groups on the rig: members that share a core, turns, and the effect of a member that leaves.
//!
//! The kernel and other load decide the share of a core that a member gets. The harness binds all members to one core, runs them at the
//! same time, and gives each the time slice or the cgroup of the sharing mode. The tests check what the harness does.

mod ends;
mod turns;

use std::{path::Path, thread, time::Duration};

use colocate::{
    sharing::backend,
    visit::{SeatRequest, VisitRequest, visit_group},
};
use front_door::wait_until;
use procfs::process::Process;
use record::{group::Visit, launch_end::LaunchEnd, rows::Appender, run_dir::RunDir};
use rig::{
    Isolation, LaunchRequest, StopRule, Timeouts, device::allowed_cores, interrupt::Interrupt,
    sampler::Sampler, slices,
};
use schema::{
    catalog::{Fault, Synthetic},
    device::Device,
    events::{self, EventReader},
    sharing::Sharing,
    spec::{LaunchSpec, Program, Seat},
    units::{Nanos, Window},
    wire::{self, Event, EventLine},
};
use statistics::warm_up;

use crate::bench::{Bench, PATIENT, spec, synthetic};

/// Burns CPU time for 10 ms per step, and never ends by itself.
const SPIN: Job = Job::new(10, 100);
/// Sleeps for 5 ms per step.
const SLEEP: Job = Job::new(5, 0);

#[derive(Clone, Copy)]
struct Job {
    step_ms: u64,
    busy_percent: u8,
    steps: Option<u64>,
    fault: Option<Fault>,
    /// Runs this program instead, and whether it obeys no grant.
    script: Option<&'static str>,
    outside: bool,
    first_step: Duration,
}

impl Job {
    const fn new(step_ms: u64, busy_percent: u8) -> Job {
        Job {
            step_ms,
            busy_percent,
            steps: None,
            fault: None,
            script: None,
            outside: false,
            first_step: PATIENT.first_step,
        }
    }

    /// The CPU time of a step.
    fn busy_ms(self) -> u64 {
        self.step_ms * u64::from(self.busy_percent) / 100
    }

    fn program(self) -> Program {
        if let Some(script) = self.script {
            return Program::Command(["sh", "-c", script].map(String::from).to_vec());
        }
        let model = Synthetic {
            step_us: 1_000 * self.step_ms,
            busy_percent: self.busy_percent,
            noise_percent: 0.0,
            warmup_steps: 0,
            memory_bytes: 1 << 20,
            fault: self.fault,
        };
        synthetic(model, 1, self.steps)
    }
}

/// A rig with a sampler, as groups need it.
struct Visits {
    bench: Bench,
    sampler: Sampler,
}

impl Visits {
    fn new() -> Visits {
        let bench = Bench::new();
        let host_rows = Appender::open(&bench.run.host_path()).unwrap();
        let device_rows = Appender::open(&bench.run.devices_path()).unwrap();
        Visits { bench, sampler: Sampler::start(Vec::new(), device_rows, host_rows).unwrap() }
    }

    fn try_visit(
        &mut self,
        mode: &str,
        jobs: &[Job],
        rule: StopRule,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<Visit>> {
        let sharing: Sharing = mode.parse().unwrap();
        let mut launches = 0;
        let run = self.bench.run.clone();
        let mut request = |seat: usize| {
            launches += 1;
            let request = request(&run, launches, seat, jobs[seat].program(), &sharing);
            LaunchRequest { timeouts: Timeouts { first_step: jobs[seat].first_step, ..PATIENT }, ..request }
        };
        let seat = |number: usize| SeatRequest { request: request(number), outside: jobs[number].outside };
        let seats = (0..jobs.len()).map(seat).collect();
        let again = &mut |seat: u32| Ok(request(seat as usize));
        let visit = visit_group(
            &mut self.bench.rig,
            &self.sampler,
            VisitRequest { sharing: &sharing, seats, again, rule },
            interrupt,
        );
        assert_eq!(self.bench.rig.next(None), None, "nothing is left");
        self.sampler.flush().unwrap();
        visit
    }

    fn visit(&mut self, mode: &str, jobs: &[Job], rule: StopRule) -> Visit {
        let visit = self.try_visit(mode, jobs, rule, &Interrupt::default()).unwrap().unwrap();
        assert_eq!(
            (visit.group.as_str(), visit.block, visit.sharing.to_string()),
            ("test+test", 4, mode.into())
        );
        assert_eq!(visit.launches.len(), jobs.len());
        visit
    }

    fn end(&self, launch: &str) -> LaunchEnd {
        assert!(!self.bench.run.control_path(launch).exists());
        self.bench.run.launch_end(launch).unwrap().expect("it has ended")
    }

    fn assert_all_ended_well(&self, visit: &Visit) {
        for launch in visit.launches.iter().flatten() {
            assert_eq!(self.end(launch).err, None, "{launch}");
        }
    }

    /// The step events of a launch, each with the time at which the step ended.
    fn said_of_steps(&self, launch: &str) -> Vec<(Nanos, wire::Step)> {
        let lines = events::read(&self.bench.run.events_path(launch, 0), 0).unwrap();
        let step = |line: EventLine| match line.event {
            Event::Step(step) => Some((line.mono_ns, step)),
            _ => None,
        };
        lines.into_iter().filter_map(step).collect()
    }

    /// Ends and durations of a launch's steps that began after the barrier.
    fn steps(&self, visit: &Visit, launch: &str) -> Vec<Step> {
        let all = self.said_of_steps(launch).into_iter().map(|(end, step)| (end, step.dur_ns));
        all.filter(|(end, dur)| *end - *dur >= visit.barrier_mono_ns.unwrap()).collect()
    }

    /// Asserts that the steps of two members overlap and that their CPU times add up to at most one core.
    fn assert_on_one_core_at_once(&self, visit: &Visit, jobs: [Job; 2]) {
        let of_seats = [0, 1].map(|seat| self.steps(visit, &visit.launches[seat][0]));
        let windows = of_seats.each_ref().map(|steps| -> Vec<Window> {
            steps.iter().map(|(end, dur)| Window { start: *end - *dur, end: *end }).collect()
        });
        let meets = |a: &Window| windows[1].iter().any(|b| a.start < b.end && b.start < a.end);
        assert!(windows[0].iter().any(meets), "they take turns: {windows:?}");
        let burnt_ms = |seat: usize| of_seats[seat].len() as u64 * jobs[seat].busy_ms();
        let all = || windows.iter().flatten();
        let (first, last) = (all().map(|step| step.start).min(), all().map(|step| step.end).max());
        let had_ms = (last.unwrap() - first.unwrap()).0 as f64 / 1e6;
        // The two clocks may run at slightly different rates.
        let burnt_ms = (burnt_ms(0) + burnt_ms(1)) as f64;
        assert!(burnt_ms <= 1.01 * had_ms, "{burnt_ms} ms of CPU time in {had_ms} ms");
    }

    /// Calls `look` with the process id of each of two endless members, in the order of their seats, and then interrupts the visit.
    fn look_at<T: Send>(&mut self, mode: &str, jobs: [Job; 2], look: impl Fn(i32) -> T + Sync) -> [T; 2] {
        let interrupt = Interrupt::default();
        let run = self.bench.run.clone();
        let last = run.events_path("0002-test", 0);
        thread::scope(|scope| {
            let looks = scope.spawn(|| {
                let _interrupts = AsksAtItsEnd(&interrupt);
                wait_until("both have taken steps", || steps_so_far(&last) > 0);
                ["0001-test", "0002-test"].map(|launch| look(process_of(&run, launch)))
            });
            let visit = self.try_visit(mode, &jobs, StopRule::Seconds(600.0), &interrupt).unwrap();
            assert_eq!(visit, None, "it was interrupted");
            looks.join().unwrap()
        })
    }
}

/// Interrupts a visit when it is dropped.
struct AsksAtItsEnd<'a>(&'a Interrupt);

impl Drop for AsksAtItsEnd<'_> {
    fn drop(&mut self) {
        self.0.ask();
    }
}

/// The number of steps that a launch has reported so far.
fn steps_so_far(file: &Path) -> usize {
    let mut lines = Vec::new();
    let _ = EventReader::open(file, 0).and_then(|mut reader| reader.poll(&mut lines));
    lines.iter().filter(|line| matches!(line.event, Event::Step(_))).count()
}

/// The process id of a launch with one rank.
fn process_of(run: &RunDir, launch: &str) -> i32 {
    let mut lines = Vec::new();
    EventReader::open(&run.events_path(launch, 0), 0).and_then(|mut reader| reader.poll(&mut lines)).unwrap();
    let Event::Hello(hello) = &lines[0].event else { panic!("hello comes first: {lines:?}") };
    hello.pid as i32
}

fn request(run: &RunDir, launch: u32, seat: usize, program: Program, sharing: &Sharing) -> LaunchRequest {
    let spec = LaunchSpec {
        block: 4,
        sharing: sharing.clone(),
        seat: Some(Seat { group: "test+test".into(), visit: "0001".into(), number: seat as u32 }),
        ..spec(launch, program, vec![core()])
    };
    LaunchRequest { run: run.clone(), spec, timeouts: PATIENT, isolation: Isolation::default() }
}

/// End and duration of a step.
type Step = (Nanos, Nanos);

/// All jobs are on one core.
fn core() -> Device {
    Device::Cpu(vec![*allowed_cores().unwrap().last().unwrap()])
}

#[test]
fn two_saturating_jobs_run_at_once_on_one_core() {
    let mut visits = Visits::new();
    let visit = visits.visit("time-slice", &[SPIN, SPIN], StopRule::Steps(30));
    visits.assert_all_ended_well(&visit);
    visits.assert_on_one_core_at_once(&visit, [SPIN, SPIN]);
    assert!(visit.turns.is_empty());
    for launch in visit.launches.iter().flatten() {
        assert!(visits.steps(&visit, launch).len() >= 30, "there is enough for an interval");
    }
}

#[test]
fn slices_that_were_chosen_are_those_of_both_members() {
    let mode = "time-slice:20ms";
    if let Err(reason) = backend(&mode.parse().unwrap(), &[core()]).probe() {
        return schema::skips::skipped("slices", reason);
    }
    let slices = Visits::new().look_at(mode, [SPIN, SPIN], |pid| slices::of(pid as u32).unwrap());
    assert_eq!(slices, [Duration::from_millis(20); 2]);
    let mut visits = Visits::new();
    let visit = visits.visit(mode, &[SPIN, SPIN], StopRule::Steps(30));
    visits.assert_all_ended_well(&visit);
    visits.assert_on_one_core_at_once(&visit, [SPIN, SPIN]);
}

#[test]
fn a_job_has_the_core_while_another_sleeps() {
    let sleeper = Job::new(100, 50);
    let mut visits = Visits::new();
    let visit = visits.visit("time-slice", &[sleeper, SPIN], StopRule::Steps(30));
    visits.assert_all_ended_well(&visit);
    visits.assert_on_one_core_at_once(&visit, [sleeper, SPIN]);
    let other = visits.steps(&visit, &visit.launches[1][0]);
    // A step begins with the sleep.
    let sleeps = visits.said_of_steps(&visit.launches[0][0]).into_iter().map(|(end, step)| {
        let start = end - step.dur_ns;
        Window { start, end: start + step.phases.unwrap().data_ns.unwrap() }
    });
    assert!(sleeps.into_iter().any(|sleep| other.iter().any(|(end, _)| sleep.contains(*end))), "{other:?}");
}

#[test]
fn each_member_is_in_the_cgroup_of_its_weight() {
    let mode = "cpu-shares:3/1";
    if let Err(reason) = backend(&mode.parse().unwrap(), &[core()]).probe() {
        return schema::skips::skipped("cgroups", reason);
    }
    let groups_of = |pid: i32| {
        let groups = Process::new(pid).and_then(|process| process.cgroups()).unwrap();
        groups.0.into_iter().map(|group| group.pathname).collect::<Vec<_>>()
    };
    let cgroups = Visits::new().look_at(mode, [SPIN, SPIN], groups_of);
    let of_harness = format!("/tandem-{}-", std::process::id());
    for (seat, groups) in cgroups.iter().enumerate() {
        let is_of_seat = |group: &String| group.contains(&of_harness) && group.ends_with(&format!("/{seat}"));
        assert!(groups.iter().any(is_of_seat), "{seat}: {groups:?}");
    }
    let mut visits = Visits::new();
    let visit = visits.visit(mode, &[SPIN, SPIN], StopRule::Steps(30));
    visits.assert_all_ended_well(&visit);
    visits.assert_on_one_core_at_once(&visit, [SPIN, SPIN]);
}

#[test]
fn members_warm_up_alone_and_share_the_barrier() {
    let mut visits = Visits::new();
    let visit = visits.visit("time-slice", &[SLEEP, SLEEP], StopRule::Steps(30));
    let barrier = visit.barrier_mono_ns.unwrap();
    let warm: Vec<Window> = visit
        .launches
        .iter()
        .map(|launches| {
            let steps = visits.said_of_steps(&launches[0]);
            let before = &steps[..steps.partition_point(|(end, _)| *end < barrier)];
            let worked_ns = before.iter().map(|(_, step)| step.dur_ns.0).sum();
            assert!(warm_up::is_over(before.len(), worked_ns), "{worked_ns} ns: {before:?}");
            Window { start: before[0].0, end: before[before.len() - 1].0 }
        })
        .collect();
    assert!(warm[0].end < warm[1].start, "one after the other: {warm:?}");
}
