//! Launches on a rig with real processes: permitted behaviour of members, their ends, and who is notified.

use std::{
    fs,
    time::{Duration, Instant},
};

use front_door::{executable, wait_for, wait_until};
use procfs::process::Process;
use record::{launch_end::RankEnd, rows::ErrorKind, run_dir::RunDir};
use rig::{Member, RigEvent, StopMode, Timeouts};
use rustix::process::{Pid, Signal, kill_process};
use schema::{
    catalog::Fault,
    events::EventReader,
    spec::Program,
    units::Nanos,
    wire::{Command, Event, PROTOCOL},
};

use crate::bench::{Bench, PATIENT, PLENTY, runs, step_indices, training, training_of};

fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

pub(crate) fn wait_for_state(pid: i32, state: char) {
    wait_for("the process is in this state", || {
        let current = Process::new(pid).and_then(|process| process.stat()).unwrap().state;
        if current == state { Ok(()) } else { Err(current) }
    });
}

/// Sends SIGSTOP and waits until the process is stopped.
pub(crate) fn stop(pid: i32) {
    send(pid, Signal::STOP);
    wait_for_state(pid, 'T');
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
    bench.rig.remove(job, StopMode::AtStepBoundary);
    let end = bench.until_ended(job);
    assert_eq!(step_indices(&bench.said(job)), (0..7).collect::<Vec<_>>());
    assert!(matches!(
        bench.said(job).last(),
        Some(Event::Finished { steps: 7, samples: Some(224), loss: Some(_) })
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
        bench.rig.remove(job, StopMode::AtStepBoundary);
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
    let soon_late = Timeouts { startup: Duration::from_secs(1), ..PATIENT };
    let soon_hung = Timeouts { heartbeat: Duration::from_millis(600), ..PATIENT };
    let cases = [
        (Fault::CrashBeforeHello, PATIENT, Kind::NoHello, "exited with code 3 before it said hello; log/"),
        (Fault::WrongProtocol, PATIENT, Kind::Protocol, "synthetic speaks protocol 2, and this program 1"),
        (Fault::NeverReady, soon_late, Kind::Hung, "was not ready for "),
        (Fault::Hang { after_steps }, soon_hung, Kind::Hung, "reported no progress for "),
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
    for (fault, timeouts, kind, words) in cases {
        let job = bench.add_job(Some(fault), 1, timeouts);
        bench.rig.extend(job, PLENTY);
        let end = bench.until_ended(job);
        assert_eq!(end.err, Some(kind), "{fault:?}: {end:?}");
        let detail = end.err_detail.unwrap();
        let said = bench.said(job);
        // The worker's `hello` may come after the start-up time-out of this job.
        let is_greeted = said.iter().any(|event| matches!(event, Event::Hello(_)));
        let is_late = fault == Fault::NeverReady && !is_greeted;
        let words = if is_late { "did not say hello for " } else { words };
        assert!(
            detail.starts_with("job 'test@b32@dp1': rank 0 ") && detail.contains(words),
            "{fault:?}: {detail}"
        );
        // The message names the log relative to the run, and has a remedy.
        assert!(detail.contains(&format!("; log/{:04}-test.0.err ", job.0 + 1)), "{fault:?}: {detail}");
        assert!(!detail.contains(bench.dir.path().to_str().unwrap()), "{fault:?}: {detail}");
        let done = match fault {
            Fault::CrashBeforeHello | Fault::WrongProtocol | Fault::NeverReady => 0,
            // The harness may find the job hung first.
            Fault::Hang { .. } => steps_on_file(&bench.run, job),
            _ => after_steps,
        };
        assert_eq!(step_indices(&said), (0..done).collect::<Vec<_>>(), "{fault:?}: of before it");
    }
    let job = bench.add(training(None, 1, Some(2)), 1, PATIENT);
    bench.rig.extend(job, 2);
    assert_eq!(bench.until_ended(job).err, None);
}

/// The number of steps in a launch's event file.
fn steps_on_file(run: &RunDir, job: Member) -> u64 {
    let mut lines = Vec::new();
    let file = run.events_path(&format!("{:04}-test", job.0 + 1), 0);
    EventReader::open(&file, 0).and_then(|mut reader| reader.poll(&mut lines)).unwrap();
    lines.iter().filter(|line| matches!(line.event, Event::Step(_))).count() as u64
}

#[test]
fn the_detail_quotes_the_last_line_of_stderr() {
    let mut bench = Bench::new();
    let job = bench.add_job(Some(Fault::CrashBeforeHello), 1, PATIENT);
    let detail = bench.until_ended(job).err_detail.unwrap();
    assert_eq!(
        detail,
        "job 'test@b32@dp1': rank 0 exited with code 3 before it said hello; log/0001-test.0.err says \
         \"synthetic: a crash before hello, as asked for\"; see `profile doctor` for what this machine lacks"
    );
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

/// The other ranks are inside steps of an hour, notice nothing, and have no time-out.
#[test]
fn a_rank_that_is_killed_in_a_step_ends_the_launch_at_once() {
    let mut bench = Bench::new();
    let endless = Timeouts { heartbeat: Timeouts::ENDLESS, ..PATIENT };
    let job = bench.add(training_of(Duration::from_secs(3600), None, 3, None), 3, endless);
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
    send(pids[2], Signal::KILL);
    let end = bench.until_ended(job);
    assert_eq!(end.err, Some(ErrorKind::Killed));
    assert!(end.err_detail.unwrap().contains("rank 2 was killed by SIGKILL"));
    assert!(!pids.iter().any(|pid| runs(*pid)), "{pids:?}");
}

#[test]
fn who_ignores_sigterm_is_killed_after_the_grace() {
    let mut bench = Bench::new();
    let grace = Duration::from_millis(200);
    let stubborn = ["sh", "-c", "trap '' TERM; echo up; sleep 1000; true"];
    let job = bench.add_command(&stubborn, Timeouts { grace, ..PATIENT });
    let pid = bench.until_started(job);
    let log = bench.run.stdout_path("0001-test", 0);
    wait_until("the trap is set", || fs::read_to_string(&log).is_ok_and(|text| text == "up\n"));
    let before = Instant::now();
    bench.rig.remove(job, StopMode::AtStepBoundary);
    let end = bench.until_ended(job);
    assert!(before.elapsed() >= grace, "it had its grace");
    assert_eq!((end.err, end.ranks[0].signal), (None, Some(Signal::KILL.as_raw())));
    assert!(!runs(pid));
}

#[test]
fn a_stopped_job_is_hung_and_does_not_stay() {
    let mut bench = Bench::new();
    let hasty =
        Timeouts { heartbeat: Duration::from_millis(300), grace: Duration::from_millis(100), ..PATIENT };
    let job = bench.add_job(None, 1, hasty);
    let pid = bench.until_started(job);
    bench.until_ready(job);
    stop(pid);
    bench.rig.extend(job, PLENTY);
    let end = bench.until_ended(job);
    // It continues as long as it takes to answer the signal.
    assert_eq!((end.err, end.ranks[0].signal), (Some(ErrorKind::Hung), Some(Signal::TERM.as_raw())));
}

/// A process that waits in a driver cannot be made on demand. To the harness it looks like a leash that
/// starts a program and never reports its end, so the test uses such a leash.
#[test]
fn a_process_that_sigkill_does_not_end_ends_its_launch_and_not_the_harness() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("leash");
    // After options, `$2` is the path of the program's log. The script ignores SIGPIPE and so outlives the reader of its reports.
    let script = "#!/bin/sh
trap '' PIPE
while [ \"${2#--}\" != \"$2\" ]; do case $2 in --env) shift 3 ;; *) shift 2 ;; esac; done
echo $$ > $2
echo started $$
case $* in *leaves*) echo exited ;; esac
exec sleep 1000
";
    executable(&own, script);
    let mut bench = Bench::with_own(own);
    let moment = Duration::from_millis(100);
    let brief = Timeouts { grace: moment, death: moment, ..PATIENT };
    let jobs = [
        bench.add_job(None, 1, Timeouts { startup: moment, ..brief }),
        bench.add_command(&["stays"], brief),
        bench.add_command(&["leaves"], Timeouts { death: moment, ..PATIENT }),
    ];
    bench.until_started(jobs[1]);
    bench.rig.remove(jobs[1], StopMode::Immediately);
    let words = [
        "rank 0 did not end within 100 ms of SIGKILL, after rank 0 did not say hello for ",
        "rank 0 did not end within 100 ms of SIGKILL, after rank 0 was ended before it was done; ",
        "rank 0 did not end within 100 ms of SIGKILL; ",
    ];
    while bench.seen.iter().filter(|event| matches!(event, RigEvent::Ended { .. })).count() < 3 {
        bench.next();
    }
    let launches = ["0001-test", "0002-test", "0003-test"];
    for (launch, words) in launches.into_iter().zip(words) {
        let end = bench.run.launch_end(launch).unwrap().unwrap();
        assert_eq!((end.err, &end.ranks[..]), (Some(ErrorKind::Stuck), &[RankEnd::default()][..]));
        let detail = end.err_detail.unwrap();
        assert!(detail.contains(words) && detail.contains("a reset by its owner"), "{detail}");
    }
    let pid_of = |launch: &str| {
        let log = bench.run.stdout_path(launch, 0);
        wait_for("the leash is there", || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            text.strip_suffix('\n').and_then(|pid| pid.parse::<i32>().ok()).ok_or(text)
        })
    };
    let pids = launches.map(pid_of);
    // The rig can be dropped, although all processes are still there.
    drop(bench.rig);
    for pid in pids {
        assert!(runs(pid));
        send(pid, Signal::KILL);
    }
}

#[test]
fn a_job_at_rest_is_not_hung_and_its_time_begins_with_its_grant() {
    let mut bench = Bench::new();
    let heartbeat = Duration::from_millis(200);
    let job = bench.add_job(None, 1, Timeouts { heartbeat, ..PATIENT });
    let pid = bench.until_started(job);
    bench.until_ready(job);
    let rested = bench.rig.next(Some(Nanos::monotonic_now() + Nanos::from(3 * heartbeat)));
    assert_eq!(rested, None, "it rests for longer than its heartbeat");
    stop(pid);
    let granted_at = Nanos::monotonic_now();
    bench.rig.extend(job, PLENTY);
    let end = bench.until_ended(job);
    assert_eq!(end.err, Some(ErrorKind::Hung));
    assert!(end.mono_ns - granted_at >= heartbeat.into(), "{end:?}");
}

#[test]
fn a_job_that_was_paused_goes_on_where_it_was() {
    let mut bench = Bench::new();
    let job = bench.add_job(None, 1, PATIENT);
    bench.rig.extend(job, 2);
    bench.until_held(job, 2);
    bench.rig.command(job, Command::Pause {});
    bench.until(job, |event| matches!(event, Event::Paused { .. }).then_some(()));
    bench.rig.extend(job, 4);
    bench.rig.command(job, Command::Resume {});
    bench.until(job, |event| {
        assert!(!matches!(event, Event::Step(_)), "it is paused");
        matches!(event, Event::Resumed { .. }).then_some(())
    });
    bench.until_held(job, 4);
    bench.rig.remove(job, StopMode::AtStepBoundary);
    assert_eq!(bench.until_ended(job).err, None);
    assert_eq!(step_indices(&bench.said(job)), [0, 1, 2, 3]);
}

#[test]
fn any_program_is_judged_by_its_exit() {
    let mut bench = Bench::new();
    let cases: [(&[&str], Option<ErrorKind>, &str); 5] = [
        (&["sh", "-c", "echo $0 \"$1\" $WORLD_SIZE", "a b", "c  d"], None, ""),
        (
            &["sh", "-c", "echo oh >&2; exit 3"],
            Some(ErrorKind::Crashed),
            "exited with code 3; log/0002-test.0.err says \"oh\"",
        ),
        (&["sh", "-c", "kill -SEGV $$"], Some(ErrorKind::Crashed), "crashed by SIGSEGV"),
        (&["sh", "-c", "kill -TERM $$"], Some(ErrorKind::Killed), "was killed by SIGTERM"),
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
    bench.rig.remove(job, StopMode::Immediately);
    let end = bench.until_ended(job);
    assert_eq!((end.err, end.ranks[0].signal), (Some(ErrorKind::Interrupted), Some(Signal::TERM.as_raw())));
}
