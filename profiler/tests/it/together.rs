//! Groups on the rig: who gets how much of a core, who runs when, and what becomes of the others when one leaves.
//!
//! What they get is counted in CPU time, as shares of what they get together: also on a machine that does other
//! things, both wait for the core alike.

use std::{fs, process::Command, thread, time::Duration};

use crate::bench::{Bench, PATIENT, spec, synthetic};
use profiler::{
    device::allowed_cores,
    interrupt::Interrupt,
    measure::Enough,
    rig::{LaunchRequest, Patience},
    sampler::Sampler,
    sharing::{Joins, backend},
    together::{SeatRequest, Together, together},
    window::growth,
};
use schema::{
    catalog::{Fault, Synthetic},
    device::Device,
    events,
    group::{Turn, Visit},
    rows::{self, Appender, ErrorKind, HostSample},
    run_dir::RunDir,
    sharing::Sharing,
    spec::{LaunchEnd, LaunchSpec, Program, Seat},
    units::{Nanos, Window},
    wire::Event,
};

/// Burns CPU time for 10 ms a step, and never leaves by itself.
const SPIN: Job = Job::new(10, 100);
/// Sleeps for 5 ms a step.
const SLEEP: Job = Job::new(5, 0);

#[derive(Clone, Copy)]
struct Job {
    step_ms: u64,
    busy_percent: u8,
    steps: Option<u64>,
    fault: Option<Fault>,
    /// Run this instead, and whether it obeys no grant.
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

/// A rig that is watched, as groups need it.
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
        enough: Enough,
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
        let visit = together(
            &mut self.bench.rig,
            &self.sampler,
            Together { sharing: &sharing, seats, again, enough },
            interrupt,
        );
        assert_eq!(self.bench.rig.next(None), None, "nothing is left");
        self.sampler.flush().unwrap();
        visit
    }

    fn visit(&mut self, mode: &str, jobs: &[Job], enough: Enough) -> Visit {
        let visit = self.try_visit(mode, jobs, enough, &Interrupt::default()).unwrap().unwrap();
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

    /// Ends and lengths of a launch's steps that began after the barrier.
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
        growth(readings, window).expect("it was watched all the time") as f64
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
    let visit = visits.visit("time-slice", &[SPIN, SPIN], Enough::Seconds(3.0));
    visits.assert_all_ended_well(&visit);
    let [a, b] = [0, 1].map(|seat| visits.cpu_ns(&visit, seat, shared(&visit)));
    let share = a / (a + b);
    assert!((share - 0.5).abs() <= 0.01, "{share}");
    assert!(visit.turns.is_empty());
    for launch in visit.launches.iter().flatten() {
        assert!(visits.steps(&visit, launch).len() >= 30, "there is enough for an interval");
    }
}

#[test]
fn a_job_that_sleeps_half_its_time_gets_a_third_beside_one_that_never_does() {
    let mut visits = Visits::new();
    // Awake it shares the core with the other and so takes twice as long: 50 ms of 50 + 100.
    let visit = visits.visit("time-slice", &[Job::new(100, 50), SPIN], Enough::Seconds(4.0));
    visits.assert_all_ended_well(&visit);
    let steps = visits.steps(&visit, &visit.launches[0][0]);
    let inside: Vec<Nanos> =
        steps.iter().map(|(end, _)| *end).filter(|end| *end <= visit.end_mono_ns.unwrap()).collect();
    let cycles = Window { start: inside[0], end: inside[inside.len() - 1] };
    let [sleeper, other] = [0, 1].map(|seat| visits.cpu_ns(&visit, seat, cycles));
    let share = sleeper / (sleeper + other);
    // What others take of the core while the sleeper sleeps is missing from the other's time alone.
    let others = (1.0 - (sleeper + other) / cycles.length().0 as f64).max(0.0);
    let law = 1.0 / 3.0;
    assert!(share >= law - 0.02 && share <= law + 0.02 + others, "{share}, and others had {others}");
}

#[test]
fn weights_share_out_a_core() {
    let mode = "cpu-shares:3/1";
    if let Err(reason) = backend(&mode.parse().unwrap(), &[core()]).probe() {
        return eprintln!("skipped: {reason}");
    }
    let mut visits = Visits::new();
    let visit = visits.visit(mode, &[SPIN, SPIN], Enough::Seconds(3.0));
    visits.assert_all_ended_well(&visit);
    let [heavy, light] = [0, 1].map(|seat| visits.cpu_ns(&visit, seat, shared(&visit)));
    let share = heavy / (heavy + light);
    assert!((share - 0.75).abs() <= 0.02, "{share}");
}

#[test]
fn a_rank_that_cannot_join_what_it_should_is_not_started() {
    let mut visits = Visits::new();
    let request = LaunchRequest {
        joins: Joins { cgroup: Some("/no/such/cgroup".into()) },
        ..request(&visits.bench.run, 1, 0, SPIN.program(), &Sharing::TimeSlice)
    };
    visits.bench.rig.add(request);
    while visits.bench.rig.next(None).is_some() {}
    let end = visits.end("0001-test");
    assert_eq!(end.err, Some(ErrorKind::Start));
    assert!(end.err_detail.unwrap().contains("cannot join /no/such/cgroup: No such file"));
}

/// When a step ended, and how long it was.
type Step = (Nanos, Nanos);

/// Asserts that each step after the barrier lies in a turn of its seat, and that turns do not overlap; gives the
/// steps of each seat.
fn assert_one_at_a_time(visits: &Visits, visit: &Visit) -> Vec<Vec<Step>> {
    let turns = &visit.turns;
    assert!(turns.is_sorted_by(|a, b| a.end_mono_ns <= b.start_mono_ns), "{turns:?}");
    let of_seats = visit.launches.iter().enumerate().map(|(seat, launches)| {
        let steps = visits.steps(visit, &launches[0]);
        for (end, dur) in &steps {
            let holds = |turn: &&Turn| turn.start_mono_ns <= *end - *dur && *end <= turn.end_mono_ns;
            let turn = turns.iter().find(holds).unwrap_or_else(|| panic!("{end} is in no turn: {turns:?}"));
            assert_eq!(turn.seat as usize, seat);
        }
        steps
    });
    of_seats.collect()
}

/// Time of the first seat's steps over that of the second's, in the middle of what it was after each turn in the
/// second half of a visit: the last turn may be longer than anybody could know.
fn ratio_of_times(visit: &Visit, seats: &[Vec<Step>]) -> f64 {
    let time_until = |steps: &[Step], at: Nanos| -> f64 {
        steps.iter().filter(|(end, _)| *end <= at).map(|(_, dur)| dur.0 as f64).sum()
    };
    let ends: Vec<Nanos> =
        visit.turns.iter().filter(|turn| turn.seat == 1).map(|turn| turn.end_mono_ns).collect();
    let after = |at: &Nanos| time_until(&seats[0], *at) / time_until(&seats[1], *at);
    let mut ratios: Vec<f64> = ends[ends.len() / 2..].iter().map(after).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

#[test]
fn members_take_turns_as_long_as_their_weights_say() {
    let long = Job::new(30, 100);
    // By steps, and by time that is no whole number of steps.
    for (mode, jobs, by_time) in
        [("step-gate:8:2/1", [SPIN, SPIN], false), ("step-gate:50ms:2/1", [SPIN, long], true)]
    {
        let mut visits = Visits::new();
        let visit = visits.visit(mode, &jobs, Enough::Seconds(if by_time { 3.0 } else { 1.0 }));
        visits.assert_all_ended_well(&visit);
        let seats = assert_one_at_a_time(&visits, &visit);
        if by_time {
            let ratio = ratio_of_times(&visit, &seats);
            assert!((ratio - 2.0).abs() <= 0.1, "{ratio}");
        } else {
            assert_eq!(seats[0].len(), 2 * seats[1].len());
        }
        // A step has the CPU time that it should, whoever else wants the core.
        for (launch, job) in visit.launches.iter().flatten().zip(jobs) {
            let all = events::read(&visits.bench.run.events_path(launch, 0), 0).unwrap();
            let steps = all.iter().filter(|line| matches!(line.event, Event::Step(_))).count() as f64;
            let cpu_ms = visits.end(launch).ranks[0].cpu_ns.unwrap() as f64 / 1e6;
            let of_steps_ms = steps * job.step_ms as f64;
            assert!(
                cpu_ms >= of_steps_ms && cpu_ms <= 1.1 * of_steps_ms + 50.0,
                "{cpu_ms} for {of_steps_ms}"
            );
        }
    }
}

/// Takes a step of 5 ms with a PyTorch of a hundred lines, again and again.
const HOOKED: &str = "PYTHONPATH=$PYTHONPATH:../workloads/python/tests/fake exec python3 -c '
import time, torch
optimizer = torch.optim.SGD([torch.Parameter(8)])
while True:
    time.sleep(0.005)
    optimizer.step()'";

#[test]
fn a_program_with_the_hook_takes_its_turns() {
    if !Command::new("python3").arg("-V").output().is_ok_and(|output| output.status.success()) {
        return println!("skipped: there is no python3");
    }
    let mut visits = Visits::new();
    let jobs = [SLEEP, Job { script: Some(HOOKED), ..SLEEP }];
    let visit = visits.visit("step-gate:20", &jobs, Enough::Seconds(1.0));
    visits.assert_all_ended_well(&visit);
    let seats = assert_one_at_a_time(&visits, &visit);
    assert_eq!(seats[0].len(), seats[1].len());
}

#[test]
fn one_after_the_other_has_one_turn_each() {
    let mut visits = Visits::new();
    let visit = visits.visit("sequential", &[SLEEP, SLEEP, SLEEP], Enough::Steps(40));
    visits.assert_all_ended_well(&visit);
    assert_one_at_a_time(&visits, &visit);
    assert_eq!(visit.turns.iter().map(|turn| turn.seat).collect::<Vec<_>>(), [0, 1, 2]);
    for launch in visit.launches.iter().flatten() {
        assert!(visits.steps(&visit, launch).len() >= 40);
    }
}

#[test]
fn members_warm_up_alone_and_share_the_barrier() {
    let mut visits = Visits::new();
    let visit = visits.visit("time-slice", &[SLEEP, SLEEP], Enough::Steps(30));
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

#[test]
fn a_member_that_comes_to_its_end_is_started_again() {
    let mut visits = Visits::new();
    let [short, longer] = [250, 700].map(|steps| Job { steps: Some(steps), ..SLEEP });
    let visit = visits.visit("time-slice", &[short, longer], Enough::End);
    visits.assert_all_ended_well(&visit);
    assert!(visit.launches[0].len() >= 2, "{:?}", visit.launches);
    assert_eq!(visit.launches[1].len(), 1, "its end is the end: {:?}", visit.launches);
}

#[test]
fn a_program_that_obeys_no_grant_is_there_from_the_barrier_on() {
    let mut visits = Visits::new();
    let jobs = [SLEEP, Job { script: Some("sleep 0.3"), outside: true, ..SLEEP }];
    let visit = visits.visit("time-slice", &jobs, Enough::Seconds(1.0));
    visits.assert_all_ended_well(&visit);
    assert!(visit.launches[1].len() >= 3, "{:?}", visit.launches);
    let error = visits.try_visit("step-gate", &jobs, Enough::End, &Interrupt::default()).unwrap_err();
    assert_eq!(error.to_string(), "step-gate holds members, and one of them obeys no grant");
}

#[test]
fn a_member_that_dies_contaminates_the_others() {
    let dies = Job { fault: Some(Fault::RankDies { rank: 0, after_steps: 300 }), ..SLEEP };
    let never = Job { fault: Some(Fault::CrashBeforeHello), ..SLEEP };
    for mode in ["time-slice", "step-gate:100ms"] {
        let mut visits = Visits::new();
        let visit = visits.visit(mode, &[SLEEP, dies], Enough::Seconds(60.0));
        let [alive, dead] = [0, 1].map(|seat| visits.end(&visit.launches[seat][0]));
        assert_eq!((alive.err, dead.err), (Some(ErrorKind::Contaminated), Some(ErrorKind::Killed)), "{mode}");
        let detail = alive.err_detail.unwrap();
        assert!(detail.contains("0002-test, of the same group, had failed"), "{detail}");
        assert!(visit.barrier_mono_ns.is_some());
    }
    let mut visits = Visits::new();
    let visit = visits.visit("time-slice", &[SLEEP, never, SLEEP], Enough::Seconds(60.0));
    assert_eq!(visit.launches, [vec!["0001-test".to_owned()], vec!["0002-test".into()], vec![]]);
    assert_eq!(visit.barrier_mono_ns, None, "nothing was shared");
    let ends = [0, 1].map(|seat| visits.end(&visit.launches[seat][0]).err);
    assert_eq!(ends, [Some(ErrorKind::Contaminated), Some(ErrorKind::NoHello)]);
}

#[test]
fn a_program_that_takes_no_step_as_it_did_alone_is_not_waited_for_without_end() {
    let mut visits = Visits::new();
    let silent = Job { script: Some("sleep 1000"), startup: Duration::from_secs(1), ..SLEEP };
    let visit = visits.visit("step-gate", &[SLEEP, silent], Enough::Seconds(60.0));
    let ends = [0, 1].map(|seat| visits.end(&visit.launches[seat][0]).err);
    assert_eq!(ends, [Some(ErrorKind::Contaminated), None], "it has done nothing wrong, and nothing else");
    assert_eq!(visit.barrier_mono_ns, None);
}

#[test]
fn an_interrupted_visit_leaves_nothing_behind() {
    // While members warm up, and while they share: a launch has then taken so many steps.
    for (mode, launch, steps, launches) in [
        ("time-slice", "0001-test", 1, 1),
        ("time-slice", "0002-test", 400, 2),
        ("step-gate:100ms", "0002-test", 400, 2),
        ("sequential", "0001-test", 400, 2),
    ] {
        let mut visits = Visits::new();
        let interrupt = Interrupt::default();
        let (events, user) = (visits.bench.run.events_path(launch, 0), interrupt.clone());
        let asks = thread::spawn(move || {
            let step = format!("\"step\":{{\"index\":{steps},");
            while !fs::read_to_string(&events).unwrap_or_default().contains(&step) {
                thread::sleep(Duration::from_millis(20));
            }
            user.ask();
        });
        let visit = visits.try_visit(mode, &[SLEEP, SLEEP], Enough::Seconds(60.0), &interrupt).unwrap();
        asks.join().unwrap();
        assert_eq!(visit, None, "{mode}");
        let begun = visits.bench.run.launches().unwrap();
        assert!(begun.len() >= launches);
        for launch in begun {
            assert_eq!(visits.end(&launch).err, Some(ErrorKind::Interrupted), "{mode}");
        }
    }
}
