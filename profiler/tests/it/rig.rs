//! Launches on a rig, through real processes: what members may do, how they end, and who notices.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command as Process, Stdio},
    thread,
    time::{Duration, Instant},
};

use profiler::{
    processes::{descendants, strays},
    rig::{LaunchRequest, Leave, Member, Patience, Programs, Rig, RigEvent},
};
use rustix::process::{Pid, Signal, kill_process};
use schema::{
    FORMAT,
    catalog::{Catalog, Fault, Model, Synthetic, Workload},
    device::Device,
    rows::ErrorKind,
    run_dir::RunDir,
    sharing::Sharing,
    spec::{LaunchEnd, LaunchSpec, Program, Training},
    units::Nanos,
    wire::{Command, Event, PROTOCOL},
};
use tempfile::TempDir;

/// Far beyond what anything here takes, also on a machine that does other things.
const PATIENT: Patience = Patience {
    heartbeat: Duration::from_secs(60),
    startup: Duration::from_secs(60),
    grace: Duration::from_secs(60),
};

/// What is waited for in vain takes no longer than this.
const AT_MOST: Duration = Duration::from_secs(60);

const PLENTY: u64 = 1_000_000;

struct Bench {
    dir: TempDir,
    run: RunDir,
    rig: Rig,
    /// Everything that happened, in the order it was heard of.
    seen: Vec<RigEvent>,
    launches: u32,
}

impl Bench {
    fn new() -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::create(&dir.path().join("run")).unwrap();
        let own = PathBuf::from(env!("CARGO_BIN_EXE_profile"));
        let rig = Rig::new(Programs { own, torch_worker: None }).unwrap();
        Bench { dir, run, rig, seen: Vec::new(), launches: 0 }
    }

    fn add(&mut self, program: Program, ranks: usize, patience: Patience) -> Member {
        self.launches += 1;
        let spec = LaunchSpec {
            format: FORMAT,
            launch: format!("{:04}-test", self.launches),
            job: "test@b32@dp1".into(),
            cell: "test".into(),
            block: 0,
            program,
            steps_regex: None,
            devices: vec![Device::AllCores; ranks],
            sharing: Sharing::Alone,
            seat: None,
            threads: 1,
            threads_named: false,
            memory_bytes: None,
            seed: 7,
        };
        self.rig.add(LaunchRequest { run: self.run.clone(), spec, patience })
    }

    /// A synthetic job of steps of 1 ms that leaves when told to.
    fn add_job(&mut self, fault: Option<Fault>, ranks: usize, patience: Patience) -> Member {
        self.add(training(fault, ranks, None), ranks, patience)
    }

    fn add_command(&mut self, argv: &[&str], patience: Patience) -> Member {
        self.add(Program::Command(argv.iter().map(|a| a.to_string()).collect()), 1, patience)
    }

    fn next(&mut self) -> RigEvent {
        let deadline = Nanos::monotonic_now() + AT_MOST.into();
        let event = self.rig.next(Some(deadline)).unwrap_or_else(|| panic!("nothing came: {:?}", self.seen));
        self.seen.push(event.clone());
        event
    }

    /// Waits for a member to say what `wanted` looks for.
    fn until<T>(&mut self, of: Member, wanted: impl Fn(&Event) -> Option<T>) -> T {
        loop {
            match self.next() {
                RigEvent::Said { member, event, .. } if member == of => {
                    if let Some(found) = wanted(&event) {
                        return found;
                    }
                }
                RigEvent::Ended { member, end } if member == of => panic!("it ended: {end:?}"),
                _ => {}
            }
        }
    }

    fn until_ready(&mut self, member: Member) {
        self.until(member, |event| matches!(event, Event::Ready(_)).then_some(()));
    }

    fn until_held(&mut self, member: Member, at: u64) {
        self.until(member, |event| matches!(event, Event::Held { index } if *index == at).then_some(()));
    }

    fn until_started(&mut self, of: Member) -> i32 {
        let [pid] = self.until_all_started([of]);
        pid
    }

    /// Waits for launches of one rank, whichever starts first; gives process ids in order of members.
    fn until_all_started<const N: usize>(&mut self, members: [Member; N]) -> [i32; N] {
        let pid_of = |seen: &[RigEvent], of: Member| {
            seen.iter().find_map(|event| match event {
                RigEvent::Started { member, pid, .. } if *member == of => Some(*pid as i32),
                _ => None,
            })
        };
        while members.iter().any(|member| pid_of(&self.seen, *member).is_none()) {
            self.next();
        }
        members.map(|member| pid_of(&self.seen, member).expect("just waited for"))
    }

    /// Waits for a member's end, and checks that it is the one on file with nothing beside it.
    fn until_ended(&mut self, of: Member) -> LaunchEnd {
        let end = loop {
            if let RigEvent::Ended { member, end } = self.next()
                && member == of
            {
                break end;
            }
        };
        let launch = format!("{:04}-test", of.0 + 1);
        assert_eq!(self.run.launch_end(&launch).unwrap().as_ref(), Some(&end));
        assert!(!self.run.control_path(&launch).exists() && !self.run.rendezvous_path(&launch).exists());
        end
    }

    fn said(&self, of: Member) -> Vec<&Event> {
        let mut said = Vec::new();
        for event in &self.seen {
            match event {
                RigEvent::Said { member, event, .. } if *member == of => said.push(event),
                _ => {}
            }
        }
        said
    }
}

fn training(fault: Option<Fault>, ranks: usize, steps: Option<u64>) -> Program {
    training_of(Duration::from_millis(1), fault, ranks, steps)
}

/// A synthetic job whose steps sleep for so long.
fn training_of(step: Duration, fault: Option<Fault>, ranks: usize, steps: Option<u64>) -> Program {
    let catalog = Catalog::embedded();
    let sleep = catalog.get("synthetic-sleep").unwrap();
    let model = Synthetic {
        step_us: step.as_micros() as u64,
        busy_percent: 0,
        noise_percent: 0.0,
        warmup_steps: 0,
        memory_bytes: 1 << 20,
        fault,
    };
    Program::Training(Box::new(Training {
        workload: Workload { model: Model::Synthetic(model), ..sleep.clone() },
        global_batch: 32,
        plan: format!("dp{ranks}").parse().unwrap(),
        steps,
        data: None,
        loaders: 0,
        restore: None,
        offload_threads: None,
        collectives: None,
        exact: false,
        rendezvous: None,
    }))
}

fn step_indices(events: &[&Event]) -> Vec<u64> {
    let index = |event: &&Event| if let Event::Step(step) = event { Some(step.index) } else { None };
    events.iter().filter_map(index).collect()
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < AT_MOST, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A process that is a zombie has ended, and waits for whoever adopted it.
fn runs(pid: i32) -> bool {
    let stat = procfs::process::Process::new(pid).and_then(|process| process.stat());
    stat.is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

fn leash_of(pid: i32) -> i32 {
    procfs::process::Process::new(pid).unwrap().stat().unwrap().ppid
}

#[test]
fn a_job_does_the_steps_it_is_granted_and_leaves_at_a_boundary() {
    let mut bench = Bench::new();
    let job = bench.add_job(None, 1, PATIENT);
    let pid = bench.until_started(job);
    let hello =
        bench.until(job, |event| if let Event::Hello(hello) = event { Some(hello.clone()) } else { None });
    assert_eq!((hello.protocol, hello.pid as i32), (PROTOCOL, pid));
    bench.until_ready(job);
    let quiet = bench.rig.next(Some(Nanos::monotonic_now() + Nanos(120_000_000)));
    assert_eq!(quiet, None, "nothing was granted yet");
    bench.rig.extend(job, 5);
    bench.until_held(job, 5);
    bench.rig.extend(job, 3);
    bench.rig.extend(job, 7);
    bench.rig.remove(job, Leave::AtBoundary);
    let end = bench.until_ended(job);
    assert_eq!(step_indices(&bench.said(job)), (0..7).collect::<Vec<_>>());
    assert!(matches!(
        bench.said(job).last(),
        Some(Event::Finished { steps: 7, samples: 224, loss: Some(_) })
    ));
    assert_eq!((end.err, end.err_detail), (None, None));
    assert_eq!(end.ranks[0].exit_code, Some(0));
    assert!(end.ranks[0].rss_peak_bytes.unwrap() > 1 << 20);
    assert_eq!(bench.rig.next(None), None, "nothing is left that could happen");
}

#[test]
fn a_job_with_a_number_of_steps_leaves_by_itself() {
    let mut bench = Bench::new();
    let job = bench.add(training(None, 1, Some(3)), 1, PATIENT);
    bench.rig.extend(job, PLENTY);
    assert_eq!(bench.until_ended(job).err, None);
    let losses: Vec<f64> = bench
        .said(job)
        .iter()
        .filter_map(|event| if let Event::Step(step) = event { step.loss } else { None })
        .collect();
    assert!(losses.len() == 3 && losses.is_sorted_by(|a, b| a > b), "{losses:?}");
}

#[test]
fn commands_wait_until_the_job_rests() {
    let mut bench = Bench::new();
    let job = bench.add_job(None, 1, PATIENT);
    let checkpoint = bench.dir.path().join("checkpoint");
    bench.rig.extend(job, 20);
    bench.rig.command(job, Command::Pause {});
    bench.rig.command(job, Command::Checkpoint { path: checkpoint.to_str().unwrap().into() });
    bench.rig.command(job, Command::Resume {});
    bench.until(job, |event| matches!(event, Event::Resumed { .. }).then_some(()));
    bench.rig.extend(job, 25);
    bench.until_held(job, 25);
    bench.rig.command(job, Command::Stop {});
    assert_eq!(bench.until_ended(job).err, None);
    let order: Vec<String> = bench
        .said(job)
        .iter()
        .filter_map(|event| match event {
            Event::Held { index } => Some(format!("held {index}")),
            Event::Paused { bytes_freed, .. } => Some(format!("paused {bytes_freed}")),
            Event::Checkpointed { bytes, .. } => Some(format!("checkpointed {bytes}")),
            Event::Resumed { .. } => Some("resumed".into()),
            Event::Finished { steps, .. } => Some(format!("finished {steps}")),
            _ => None,
        })
        .collect();
    let expected = ["held 20", "paused 1048576", "checkpointed 10", "resumed", "held 25", "finished 25"];
    assert_eq!(order, expected);
    assert_eq!(fs::read_to_string(checkpoint).unwrap(), "step = 20\n");
}

/// What each of two ranks answers to commands, with the time that it says it took.
fn answers(bench: &Bench, job: Member) -> [Vec<(&'static str, Nanos, Nanos)>; 2] {
    [0, 1].map(|rank| {
        let of_rank = |event: &RigEvent| match event {
            RigEvent::Said { member, rank: of, at, event } if *member == job && *of == rank => match event {
                Event::Paused { dur_ns, .. } => Some(("paused", *at, *dur_ns)),
                Event::Resumed { dur_ns } => Some(("resumed", *at, *dur_ns)),
                Event::Checkpointed { dur_ns, .. } => Some(("checkpointed", *at, *dur_ns)),
                _ => None,
            },
            _ => None,
        };
        bench.seen.iter().filter_map(of_rank).collect()
    })
}

#[test]
fn every_rank_answers_each_command_before_the_next_is_given() {
    let mut bench = Bench::new();
    let job = bench.add_job(None, 2, PATIENT);
    let checkpoint = bench.dir.path().join("checkpoint");
    bench.rig.extend(job, 3);
    bench.rig.command(job, Command::Pause {});
    bench.rig.command(job, Command::Checkpoint { path: checkpoint.to_str().unwrap().into() });
    bench.rig.command(job, Command::Resume {});
    while answers(&bench, job).iter().any(|answers| answers.len() < 3) {
        bench.next();
    }
    bench.rig.remove(job, Leave::AtBoundary);
    assert_eq!(bench.until_ended(job).err, None);
    let [zero, one] = answers(&bench, job);
    for (i, name) in ["paused", "checkpointed", "resumed"].into_iter().enumerate() {
        for (answer, at, dur) in [zero[i], one[i]] {
            assert_eq!(answer, name);
            assert!(dur > Nanos::ZERO && dur < at, "what it took is passed on: {zero:?}, {one:?}");
        }
        if i > 0 {
            let begun = [zero[i], one[i]].map(|(_, at, dur)| at - dur).into_iter().min().unwrap();
            let answered = zero[i - 1].1.max(one[i - 1].1);
            assert!(answered <= begun, "no rank is told before both have answered: {zero:?}, {one:?}");
        }
    }
    assert_eq!(fs::read_to_string(checkpoint).unwrap(), "step = 3\n", "one rank writes it");
}

#[test]
fn a_launch_goes_on_from_a_checkpoint_or_says_why_it_cannot() {
    let mut bench = Bench::new();
    let [first, second, missing] = ["first", "second", "missing"].map(|name| bench.dir.path().join(name));
    let restoring = |from: &Path| {
        let mut program = training(None, 1, None);
        let Program::Training(training) = &mut program else { unreachable!("it is one") };
        training.restore = Some(from.to_path_buf());
        program
    };
    let write = |bench: &mut Bench, job, steps, to: &Path| {
        bench.rig.extend(job, steps);
        bench.rig.command(job, Command::Checkpoint { path: to.to_str().unwrap().into() });
        bench.until(job, |event| matches!(event, Event::Checkpointed { .. }).then_some(()));
        bench.rig.remove(job, Leave::AtBoundary);
        assert_eq!(bench.until_ended(job).err, None);
    };
    let job = bench.add_job(None, 1, PATIENT);
    write(&mut bench, job, 4, &first);
    let job = bench.add(restoring(&first), 1, PATIENT);
    let restore = bench.until(job, |event| match event {
        Event::Ready(ready) => Some((ready.restore_ns, ready.startup_ns)),
        _ => None,
    });
    assert!(restore.0 > Some(Nanos::ZERO) && restore.0 < Some(restore.1), "{restore:?}");
    write(&mut bench, job, 3, &second);
    assert_eq!(step_indices(&bench.said(job)), [0, 1, 2], "steps are counted from 0 in each launch");
    assert_eq!(fs::read_to_string(second).unwrap(), "step = 7\n");

    let job = bench.add(restoring(&missing), 1, PATIENT);
    let end = bench.until_ended(job);
    assert_eq!(end.err, Some(ErrorKind::Data));
    assert!(end.err_detail.unwrap().contains("missing: No such file"));
}

#[test]
fn a_refused_command_is_an_answer_and_a_checkpoint_starts_another_launch() {
    let mut bench = Bench::new();
    let (taken, free) = (bench.dir.path().join("taken"), bench.dir.path().join("free"));
    fs::write(&taken, "").unwrap();
    let job = bench.add_job(None, 1, PATIENT);
    bench.rig.extend(job, 20);
    for place in [&taken, &free] {
        bench.rig.command(job, Command::Checkpoint { path: place.to_str().unwrap().into() });
    }
    bench.rig.remove(job, Leave::AtBoundary);
    assert_eq!(bench.until_ended(job).err, None);
    let answers: Vec<_> = bench
        .said(job)
        .into_iter()
        .filter(|event| matches!(event, Event::Refused { .. } | Event::Checkpointed { .. }))
        .collect();
    let [Event::Refused { error }, Event::Checkpointed { .. }] = &answers[..] else { panic!("{answers:?}") };
    assert!(error.contains("taken: File exists"), "{error}");

    let Program::Training(mut told) = training(None, 1, Some(1)) else { panic!() };
    told.restore = Some(free);
    let job = bench.add(Program::Training(told), 1, PATIENT);
    bench.rig.extend(job, 1);
    assert_eq!(bench.until_ended(job).err, None);
    let losses = bench.said(job).into_iter().filter_map(|event| match event {
        Event::Step(step) => Some((step.index, step.loss)),
        _ => None,
    });
    assert_eq!(
        losses.collect::<Vec<_>>(),
        [(0, Some(1.5))],
        "its loss is that of step 20, its index its own"
    );
}

#[test]
fn members_that_are_granted_together_run_together() {
    let mut bench = Bench::new();
    let jobs = [bench.add_job(None, 1, PATIENT), bench.add_job(None, 1, PATIENT)];
    let ready = |event: &&RigEvent| matches!(event, RigEvent::Said { event: Event::Ready(_), .. });
    while bench.seen.iter().filter(ready).count() < 2 {
        bench.next();
    }
    let barrier = Nanos::monotonic_now();
    for job in jobs {
        bench.rig.extend(job, 10);
        bench.rig.remove(job, Leave::AtBoundary);
    }
    while bench.seen.iter().filter(|event| matches!(event, RigEvent::Ended { .. })).count() < 2 {
        bench.next();
    }
    for job in jobs {
        assert_eq!(step_indices(&bench.said(job)), (0..10).collect::<Vec<_>>());
    }
    let early =
        |event: &RigEvent| matches!(event, RigEvent::Said { at, event: Event::Step(_), .. } if *at < barrier);
    assert!(!bench.seen.iter().any(early), "no step ends before both may begin");
}

#[test]
fn every_fault_has_its_kind_and_the_rig_goes_on() {
    use ErrorKind as Kind;
    let after_steps = 3;
    let hasty =
        Patience { heartbeat: Duration::from_millis(600), startup: Duration::from_secs(1), ..PATIENT };
    let cases = [
        (Fault::CrashBeforeHello, PATIENT, Kind::NoHello, "exited with code 3 before it said hello; log/"),
        (Fault::WrongProtocol, PATIENT, Kind::Protocol, "synthetic speaks protocol 2, and this program 1"),
        (Fault::NeverReady, hasty, Kind::Hung, "was not ready for "),
        (Fault::Hang { after_steps }, hasty, Kind::Hung, "said nothing for "),
        (
            Fault::OutOfMemory { after_steps },
            PATIENT,
            Kind::OutOfMemory,
            "failed: out of memory, as asked for",
        ),
        (Fault::GarbageLine { after_steps }, PATIENT, Kind::Garbled, "line 7: not an event"),
        (
            Fault::LostLine { after_steps },
            PATIENT,
            Kind::Lost,
            "events were lost: expected seq 6, found 1000000",
        ),
        (Fault::ExitWithoutFinished { after_steps }, PATIENT, Kind::NoFinish, "did not say finished"),
        (Fault::RankDies { rank: 0, after_steps }, PATIENT, Kind::Killed, "was killed by SIGKILL"),
    ];
    let mut bench = Bench::new();
    for (fault, patience, kind, words) in cases {
        let job = bench.add_job(Some(fault), 1, patience);
        bench.rig.extend(job, PLENTY);
        let end = bench.until_ended(job);
        assert_eq!(end.err, Some(kind), "{fault:?}: {end:?}");
        let detail = end.err_detail.unwrap();
        assert!(
            detail.starts_with("job 'test@b32@dp1': rank 0 ") && detail.contains(words),
            "{fault:?}: {detail}"
        );
        // Names the log relative to the run, and says what to try next.
        assert!(detail.contains(&format!("; log/{:04}-test.0.err ", job.0 + 1)), "{fault:?}: {detail}");
        assert!(!detail.contains(bench.dir.path().to_str().unwrap()), "{fault:?}: {detail}");
        let strikes_in_training = !step_indices(&bench.said(job)).is_empty();
        let struck = [Kind::NoHello, Kind::Protocol].contains(&kind) || fault == Fault::NeverReady;
        assert_eq!(strikes_in_training, !struck, "{fault:?}: what was done before is reported");
    }
    let job = bench.add(training(None, 1, Some(2)), 1, PATIENT);
    bench.rig.extend(job, 2);
    assert_eq!(bench.until_ended(job).err, None);
}

#[test]
fn the_detail_quotes_the_last_line_of_stderr() {
    let mut bench = Bench::new();
    let job = bench.add_job(Some(Fault::CrashBeforeHello), 1, PATIENT);
    let detail = bench.until_ended(job).err_detail.unwrap();
    assert_eq!(
        detail,
        "job 'test@b32@dp1': rank 0 exited with code 3 before it said hello; log/0001-test.0.err ends in \
         \"synthetic: a crash before hello, as asked for\"; see `profile doctor` for what this machine lacks"
    );
}

#[test]
fn a_child_that_is_left_behind_goes_with_the_launch() {
    let mut bench = Bench::new();
    let job = bench.add_job(Some(Fault::LeaveChild { after_steps: 3 }), 1, PATIENT);
    let pid = bench.until_started(job);
    let mark = format!("TANDEM_LEASH={}", leash_of(pid));
    bench.rig.extend(job, 10);
    bench.until_held(job, 10);
    let left: Vec<_> = strays(-1, &mark).into_iter().filter(|process| process.pid != pid).collect();
    assert!(!left.is_empty());
    bench.rig.remove(job, Leave::AtBoundary);
    assert_eq!(bench.until_ended(job).err, None);
    assert!(!left.iter().any(|process| runs(process.pid)), "{left:?}");
}

#[test]
fn a_rank_that_dies_ends_the_others() {
    let mut bench = Bench::new();
    let job = bench.add_job(Some(Fault::RankDies { rank: 1, after_steps: 3 }), 2, PATIENT);
    bench.rig.extend(job, PLENTY);
    let end = bench.until_ended(job);
    assert_eq!(end.err, Some(ErrorKind::Killed));
    assert!(end.err_detail.unwrap().contains("rank 1 was killed by SIGKILL"));
    assert_eq!(end.ranks[1].signal, Some(Signal::KILL.as_raw()));
    assert_eq!(end.ranks[0].signal, Some(Signal::TERM.as_raw()), "it was ended in order");
    let Program::Training(told) = bench.run.spec("0001-test").unwrap().program else { panic!() };
    assert_eq!(told.rendezvous, Some(bench.run.rendezvous_path("0001-test")));
}

/// The others are in steps of an hour, and would not notice by themselves.
#[test]
fn a_rank_that_is_killed_in_a_step_ends_the_launch_at_once() {
    let mut bench = Bench::new();
    let job = bench.add(training_of(Duration::from_secs(3600), None, 3, None), 3, PATIENT);
    let ready = |event: &&RigEvent| matches!(event, RigEvent::Said { event: Event::Ready(_), .. });
    while bench.seen.iter().filter(ready).count() < 3 {
        bench.next();
    }
    let pid_of = |rank: u32| {
        let started = bench.seen.iter().find_map(|event| match event {
            RigEvent::Started { rank: of, pid, .. } if *of == rank => Some(*pid as i32),
            _ => None,
        });
        started.expect("a rank that is ready was started")
    };
    let pids = [0, 1, 2].map(pid_of);
    bench.rig.extend(job, PLENTY);
    let killed_at = Nanos::monotonic_now();
    kill_process(Pid::from_raw(pids[2]).unwrap(), Signal::KILL).unwrap();
    let end = bench.until_ended(job);
    assert!(end.mono_ns.saturating_sub(killed_at) < Nanos(5 * Nanos::SECOND.0), "{end:?}");
    assert_eq!(end.err, Some(ErrorKind::Killed));
    assert!(end.err_detail.unwrap().contains("rank 2 was killed by SIGKILL"));
    assert!(!pids.iter().any(|pid| runs(*pid)), "{pids:?}");
}

#[test]
fn who_ignores_sigterm_is_killed_after_the_grace() {
    let mut bench = Bench::new();
    let grace = Duration::from_millis(200);
    let stubborn = ["sh", "-c", "trap '' TERM; echo up; sleep 1000; true"];
    let job = bench.add_command(&stubborn, Patience { grace, ..PATIENT });
    let pid = bench.until_started(job);
    let log = bench.run.stdout_path("0001-test", 0);
    wait_until("the trap is set", || fs::read_to_string(&log).is_ok_and(|text| text == "up\n"));
    let before = Instant::now();
    bench.rig.remove(job, Leave::AtBoundary);
    let end = bench.until_ended(job);
    assert!(before.elapsed() >= grace, "it had its grace");
    assert_eq!((end.err, end.ranks[0].signal), (None, Some(Signal::KILL.as_raw())));
    assert!(!runs(pid));
}

#[test]
fn a_stopped_job_is_hung_and_does_not_stay() {
    let mut bench = Bench::new();
    let hasty =
        Patience { heartbeat: Duration::from_millis(300), grace: Duration::from_millis(100), ..PATIENT };
    let job = bench.add_job(None, 1, hasty);
    let pid = bench.until_started(job);
    bench.rig.extend(job, PLENTY);
    bench.until(job, |event| matches!(event, Event::Step(_)).then_some(()));
    kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
    let end = bench.until_ended(job);
    assert_eq!((end.err, end.ranks[0].signal), (Some(ErrorKind::Hung), Some(Signal::KILL.as_raw())));
}

#[test]
fn a_job_at_rest_is_not_hung() {
    let mut bench = Bench::new();
    let hasty = Patience { heartbeat: Duration::from_millis(500), ..PATIENT };
    let job = bench.add_job(None, 1, hasty);
    bench.rig.extend(job, 2);
    bench.until_held(job, 2);
    thread::sleep(Duration::from_millis(800));
    bench.rig.command(job, Command::Pause {});
    bench.rig.extend(job, 4);
    thread::sleep(Duration::from_millis(800));
    bench.rig.command(job, Command::Resume {});
    bench.until_held(job, 4);
    bench.rig.remove(job, Leave::AtBoundary);
    assert_eq!(bench.until_ended(job).err, None);
}

#[test]
fn any_program_is_judged_by_its_exit() {
    let mut bench = Bench::new();
    let cases: [(&[&str], Option<ErrorKind>, &str); 4] = [
        (&["sh", "-c", "echo $0 \"$1\" $WORLD_SIZE", "a b", "c  d"], None, ""),
        (
            &["sh", "-c", "echo oh >&2; exit 3"],
            Some(ErrorKind::Crashed),
            "exited with code 3; log/0002-test.0.err ends in \"oh\"",
        ),
        (&["sh", "-c", "kill -SEGV $$"], Some(ErrorKind::Killed), "was killed by SIGSEGV"),
        (&["/no/such/program"], Some(ErrorKind::Start), "cannot start /no/such/program: No such file"),
    ];
    for (argv, kind, words) in cases {
        let job = bench.add_command(argv, PATIENT);
        let end = bench.until_ended(job);
        assert_eq!(end.err, kind, "{argv:?}");
        assert!(end.err_detail.unwrap_or_default().contains(words), "{argv:?}");
    }
    let output = fs::read_to_string(bench.run.stdout_path("0001-test", 0)).unwrap();
    assert_eq!(output, "a b c  d\n", "no shell of ours reads the arguments, no name of torchrun is set");
}

#[test]
fn a_program_of_the_users_takes_no_commands() {
    let mut bench = Bench::new();
    let job = bench.add_command(&["sleep", "1000"], PATIENT);
    bench.until_started(job);
    bench.rig.command(job, Command::Pause {});
    let end = bench.until_ended(job);
    assert_eq!(end.err, Some(ErrorKind::Unsupported));
    assert!(end.err_detail.unwrap().contains("take no commands"));
}

#[test]
fn an_interrupted_launch_says_so() {
    let mut bench = Bench::new();
    let job = bench.add_job(None, 1, PATIENT);
    bench.rig.extend(job, PLENTY);
    bench.until(job, |event| matches!(event, Event::Step(_)).then_some(()));
    bench.rig.remove(job, Leave::Now);
    let end = bench.until_ended(job);
    assert_eq!((end.err, end.ranks[0].signal), (Some(ErrorKind::Interrupted), Some(Signal::TERM.as_raw())));
}

#[test]
fn dropping_the_rig_ends_everything() {
    let mut bench = Bench::new();
    let jobs = [bench.add_job(None, 1, PATIENT), bench.add_command(&["sleep", "1000"], PATIENT)];
    let pids = bench.until_all_started(jobs);
    let Bench { rig, run, .. } = bench;
    drop(rig);
    assert!(!pids.iter().any(|pid| runs(*pid)));
    for launch in ["0001-test", "0002-test"] {
        assert_eq!(run.launch_end(launch).unwrap().unwrap().err, Some(ErrorKind::Interrupted));
    }
}

/// A shell with background sleeps, and a daemon in a session of its own that ignores SIGTERM.
const FAMILY: &str = "sleep 1000 & sleep 1000 & setsid --fork sh -c 'trap \"\" TERM; sleep 1000; true'; wait";
const FAMILY_SIZE: usize = 5;

#[test]
fn a_leash_that_is_killed_leaves_nothing_behind() {
    let mut bench = Bench::new();
    let job = bench.add_command(&["sh", "-c", FAMILY], PATIENT);
    let leash = leash_of(bench.until_started(job));
    wait_until("the family is there", || descendants(leash).len() == FAMILY_SIZE);
    let family = descendants(leash);
    kill_process(Pid::from_raw(leash).unwrap(), Signal::KILL).unwrap();
    let end = bench.until_ended(job);
    assert_eq!(end.err, Some(ErrorKind::Killed));
    assert!(end.err_detail.unwrap().contains("lost its leash"));
    // The harness adopted them, so not even a zombie is left.
    let left = |pid: i32| Path::new(&format!("/proc/{pid}")).exists();
    assert!(!family.iter().any(|process| left(process.pid)), "{family:?}");
    let job = bench.add_command(&["true"], PATIENT);
    assert_eq!(bench.until_ended(job).err, None);
}

/// Not a test: what the next one starts in a process of its own, to kill it.
#[test]
fn hold_a_rig_until_killed() {
    if env::var_os("HOLD_A_RIG").is_none() {
        return;
    }
    let mut bench = Bench::new();
    let jobs = [bench.add_command(&["sh", "-c", FAMILY], PATIENT), bench.add_job(None, 1, PATIENT)];
    bench.rig.extend(jobs[1], PLENTY);
    for pid in bench.until_all_started(jobs) {
        println!("leash {}", leash_of(pid));
    }
    loop {
        bench.next();
    }
}

#[test]
fn a_harness_that_is_killed_leaves_nothing_behind() {
    let mut harness = Process::new(env::current_exe().unwrap())
        .args(["--exact", "rig::hold_a_rig_until_killed", "--nocapture"])
        .env("HOLD_A_RIG", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(harness.stdout.take().unwrap());
    let leashes: Vec<i32> = output
        .lines()
        .filter_map(|line| line.unwrap().strip_prefix("leash ").map(|pid| pid.parse().unwrap()))
        .take(2)
        .collect();
    wait_until("the family is there", || descendants(leashes[0]).len() == FAMILY_SIZE);
    let mut family: Vec<i32> = descendants(harness.id() as i32).iter().map(|process| process.pid).collect();
    assert_eq!(family.len(), 2 + FAMILY_SIZE + 1, "two leashes, the family, the synthetic worker");
    family.extend(leashes);
    harness.kill().unwrap();
    harness.wait().unwrap();
    let begin = Instant::now();
    while family.iter().any(|pid| runs(*pid)) {
        assert!(begin.elapsed() < Duration::from_secs(2), "{family:?}");
        thread::sleep(Duration::from_millis(5));
    }
}
