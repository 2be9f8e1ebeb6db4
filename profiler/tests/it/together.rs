//! Groups on the rig: shares of a core, turns, and the effect of a member that leaves.
//!
//! Shares are CPU time over the CPU time of all members. They are also valid on a machine with other load,
//! because all members wait for the core alike.

mod ends;
mod turns;

use std::time::Duration;

use colocate::{
    sharing::backend,
    visit::{SeatRequest, VisitRequest, visit_group},
};
use profiler::window::growth_in;
use rig::{
    Joins, LaunchRequest, Patience, StopRule, device::allowed_cores, interrupt::Interrupt, sampler::Sampler,
};
use schema::{
    catalog::{Fault, Synthetic},
    device::Device,
    events,
    group::Visit,
    rows::{self, Appender, HostSample},
    run_dir::RunDir,
    sharing::Sharing,
    spec::{LaunchEnd, LaunchSpec, Program, Seat},
    units::{Nanos, Window},
    wire::Event,
};

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
    startup: Duration,
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
            startup: PATIENT.startup,
        }
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
            LaunchRequest { patience: Patience { startup: jobs[seat].startup, ..PATIENT }, ..request }
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

    /// Ends and durations of a launch's steps that began after the barrier.
    fn steps(&self, visit: &Visit, launch: &str) -> Vec<Step> {
        let lines = events::read(&self.bench.run.events_path(launch, 0), 0).unwrap();
        let step = |event: &Event| if let Event::Step(step) = event { Some(step.dur_ns) } else { None };
        let all = lines.iter().filter_map(|line| Some((line.mono_ns, step(&line.event)?)));
        all.filter(|(end, dur)| *end - *dur >= visit.barrier_mono_ns.unwrap()).collect()
    }

    /// CPU time of a seat's first launch within a window, ns.
    fn cpu_ns(&self, visit: &Visit, seat: usize, window: Window) -> f64 {
        let rows: Vec<HostSample> = rows::read(&self.bench.run.host_path()).unwrap();
        let of_launch = rows.iter().filter(|row| row.launch == visit.launches[seat][0]);
        let readings = of_launch.filter_map(|row| Some((row.mono_ns, row.cpu_ns?)));
        growth_in(readings, Nanos::ZERO, &[window]).expect("it was watched all the time") as f64
    }
}

fn request(run: &RunDir, launch: u32, seat: usize, program: Program, sharing: &Sharing) -> LaunchRequest {
    let spec = LaunchSpec {
        block: 4,
        sharing: sharing.clone(),
        seat: Some(Seat { group: "test+test".into(), visit: "0001".into(), number: seat as u32 }),
        ..spec(launch, program, vec![core()])
    };
    LaunchRequest { run: run.clone(), spec, patience: PATIENT, joins: Joins::default() }
}

/// End and duration of a step.
type Step = (Nanos, Nanos);

/// The tolerance of a share of a core. Another sharing mode exceeds it, and other load on the machine does
/// not: on an idle machine shares are within 0.01.
const TURNED: f64 = 0.1;

/// All jobs are on one core.
fn core() -> Device {
    Device::Cpu(vec![*allowed_cores().unwrap().last().unwrap()])
}

fn shared(visit: &Visit) -> Window {
    Window { start: visit.barrier_mono_ns.unwrap(), end: visit.end_mono_ns.unwrap() }
}

#[test]
fn two_saturating_jobs_get_half_a_core_each() {
    let mut visits = Visits::new();
    let visit = visits.visit("time-slice", &[SPIN, SPIN], StopRule::Seconds(2.0));
    visits.assert_all_ended_well(&visit);
    let [a, b] = [0, 1].map(|seat| visits.cpu_ns(&visit, seat, shared(&visit)));
    let share = a / (a + b);
    assert!((share - 0.5).abs() <= TURNED, "{share}");
    assert!(visit.turns.is_empty());
    for launch in visit.launches.iter().flatten() {
        assert!(visits.steps(&visit, launch).len() >= 30, "there is enough for an interval");
    }
}

#[test]
fn slices_that_were_chosen_are_as_fair() {
    let mode = "time-slice:20ms";
    if let Err(reason) = backend(&mode.parse().unwrap(), &[core()]).probe() {
        return schema::skips::skipped("slices", reason);
    }
    let mut visits = Visits::new();
    let visit = visits.visit(mode, &[SPIN, SPIN], StopRule::Seconds(2.0));
    visits.assert_all_ended_well(&visit);
    let [a, b] = [0, 1].map(|seat| visits.cpu_ns(&visit, seat, shared(&visit)));
    let share = a / (a + b);
    assert!((share - 0.5).abs() <= TURNED, "{share}");
}

#[test]
fn a_job_that_sleeps_half_its_time_gets_a_third_beside_one_that_never_does() {
    let mut visits = Visits::new();
    // Awake it shares the core with the other and so takes twice as long: 50 ms of 50 + 100.
    let visit = visits.visit("time-slice", &[Job::new(100, 50), SPIN], StopRule::Seconds(4.0));
    visits.assert_all_ended_well(&visit);
    let steps = visits.steps(&visit, &visit.launches[0][0]);
    let inside: Vec<Nanos> =
        steps.iter().map(|(end, _)| *end).filter(|end| *end <= visit.end_mono_ns.unwrap()).collect();
    let cycles = Window { start: inside[0], end: inside[inside.len() - 1] };
    let [sleeper, other] = [0, 1].map(|seat| visits.cpu_ns(&visit, seat, cycles));
    let share = sleeper / (sleeper + other);
    // Core time of other programs during the sleep is missing from the other member's time alone.
    let others = (1.0 - (sleeper + other) / cycles.length().0 as f64).max(0.0);
    let law = 1.0 / 3.0;
    assert!(share >= law - TURNED && share <= law + TURNED + others, "{share}, and others had {others}");
}

#[test]
fn weights_share_out_a_core() {
    let mode = "cpu-shares:3/1";
    if let Err(reason) = backend(&mode.parse().unwrap(), &[core()]).probe() {
        return schema::skips::skipped("cgroups", reason);
    }
    let mut visits = Visits::new();
    let visit = visits.visit(mode, &[SPIN, SPIN], StopRule::Seconds(2.0));
    visits.assert_all_ended_well(&visit);
    let [heavy, light] = [0, 1].map(|seat| visits.cpu_ns(&visit, seat, shared(&visit)));
    let share = heavy / (heavy + light);
    assert!((share - 0.75).abs() <= TURNED, "{share}");
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
            let lines = events::read(&visits.bench.run.events_path(&launches[0], 0), 0).unwrap();
            let steps = lines.iter().filter(|line| matches!(line.event, Event::Step(_)));
            let before: Vec<Nanos> = steps.map(|line| line.mono_ns).filter(|at| *at < barrier).collect();
            assert!(before.len() >= 3);
            Window { start: before[0], end: before[before.len() - 1] }
        })
        .collect();
    assert!(warm[0].end < warm[1].start, "one after the other: {warm:?}");
    assert!(warm.iter().all(|window| window.length() >= Nanos(900_000_000)), "{warm:?}");
}
