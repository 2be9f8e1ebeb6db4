//! Jobs that the policy ends for good.

use engine::{
    Engine,
    cluster::{Action, DeviceId, JobId, Settled},
    job::{Ending, State},
    journal::Unrecorded,
    topology::Topology,
    view::{Change, View},
};
use formats::decision::ClusterEvent;
use launches::simulated;
use record::rows::{ErrorKind, Status};
use schema::units::Nanos;

use crate::{
    actions::{Scripted, arrived, failed, settled},
    bench::{Bench, Wanted},
    scripts::{self, FromView, MS, Script, end, start},
    support::{Own, SECOND, World, asked},
    switches::Constants,
};

/// One job, at an event a second. The last state and what it holds are those after the last event.
#[test]
fn a_job_is_ended_in_any_state_and_that_is_no_failure() {
    let (running, paused, stopped) = (Settled::Running, Settled::Paused, Settled::Stopped);
    let start = || vec![start(0, &[0])];
    let pause = || vec![Action::Pause { job: JobId(0) }];
    let stop = || vec![Action::Stop { job: JobId(0), checkpoint: true }];
    let finished = ClusterEvent::Finished { job: JobId(0), steps: 9 };
    let progress = || ClusterEvent::Progress { job: JobId(0), steps: 4, loss: None };
    for (script, how, steps, second) in [
        (vec![(arrived(0), vec![end(0)])], Status::EndedByPolicy, 0, 1),
        (
            vec![(arrived(0), [start(), vec![end(0), end(0)]].concat()), (settled(0, stopped), vec![])],
            Status::EndedByPolicy,
            0,
            2,
        ),
        (
            vec![
                (arrived(0), start()),
                (settled(0, running), vec![]),
                (progress(), vec![end(0)]),
                // It has no checkpoint, and its steps are not lost, because no launch repeats them.
                (settled(0, stopped), vec![]),
            ],
            Status::EndedByPolicy,
            4,
            4,
        ),
        (
            vec![
                (arrived(0), start()),
                (settled(0, running), pause()),
                (settled(0, paused), vec![end(0)]),
                (settled(0, stopped), vec![]),
            ],
            Status::EndedByPolicy,
            0,
            4,
        ),
        (
            vec![
                (arrived(0), start()),
                (settled(0, running), [pause(), vec![end(0)]].concat()),
                (settled(0, stopped), vec![]),
            ],
            Status::EndedByPolicy,
            0,
            3,
        ),
        (
            vec![
                (arrived(0), start()),
                (settled(0, running), [stop(), vec![end(0)]].concat()),
                (failed(0, ErrorKind::Crashed), vec![]),
            ],
            Status::EndedByPolicy,
            0,
            3,
        ),
        // It did its last step before it had left.
        (
            vec![(arrived(0), start()), (settled(0, running), vec![end(0)]), (finished, vec![])],
            Status::Ok,
            9,
            3,
        ),
    ] {
        let (topology, jobs) = (Topology::uniform(1, 1, "GPU"), [asked(0, 0, 1, 9, 1)]);
        let (events, actions): (_, Vec<_>) = script.into_iter().unzip();
        let label = format!("{actions:?}");
        let mut cluster = Scripted { now: Nanos::ZERO, events };
        let model = Own { slowdown: 1.0 };
        let mut engine = Engine::new(&topology, &jobs, &model, engine::Settings::default());
        let ended = engine::run(&mut engine, &mut cluster, &mut Script(actions), &mut Unrecorded);
        let row = &ended.unwrap_or_else(|error| panic!("{label}: {error}"))[0];
        assert_eq!((row.status, row.steps, row.steps_lost, row.retries), (how, steps, 0, 0), "{label}");
        assert_eq!((row.err, row.end_ns), (None, Some(second * SECOND)), "{label}");
        assert_eq!(row.jct_ns.is_some(), how == Status::Ok, "{label}");
        assert_eq!(engine.view().occupancy.free(), 1, "{label}");
    }
}

#[test]
fn a_job_is_ended_once_and_only_after_it_has_arrived() {
    let topology = Topology::uniform(1, 1, "GPU");
    let jobs = [asked(0, 0, 1, 9, 1), asked(1, 0, 1, 9, 1)];
    let model = Own { slowdown: 1.0 };
    let events = [arrived(0), settled(0, Settled::Stopped), arrived(1)].into();
    let mut cluster = Scripted { now: Nanos::ZERO, events };
    let mut script = Script(vec![vec![start(0, &[0]), end(1), end(0), end(0)], vec![end(0)]]);
    let (mut engine, mut turns) =
        (Engine::new(&topology, &jobs, &model, engine::Settings::default()), Vec::new());
    engine::run(&mut engine, &mut cluster, &mut script, &mut turns).expect_err("job 1 waits");
    let refused = |turn: usize| turns[turn].refused.iter().map(|it| it.why.as_str()).collect::<Vec<_>>();
    assert_eq!(
        (refused(0), refused(1)),
        (vec!["it has not arrived", "it is ending already"], vec!["it has ended"])
    );
}

/// Steps of 1 s, and the costs of switches of [`Constants`].
#[test]
fn a_simulated_job_that_is_ended_leaves_at_a_boundary_and_its_devices_go_on() {
    let topology = Topology::uniform(1, 1, "GPU");
    let jobs: Vec<_> = [0, 12_500 * MS, 12_500 * MS].into_iter().zip(0..).collect();
    let jobs: Vec<_> = jobs.iter().map(|(at, id)| asked(*id, *at, 1, 10, SECOND)).collect();
    let world = World {
        topology: &topology,
        asked: &jobs,
        truth: Own { slowdown: 1.0 },
        costs: &Constants(Nanos::ZERO),
        settings: simulated::Settings::default(),
    };
    let mut turn = 0;
    let mut heard = Vec::new();
    let mut policy = FromView(|view: &View<'_>| {
        turn += 1;
        heard.push(view.changes.to_vec());
        match turn {
            1 => vec![start(0, &[0])],
            3 => vec![end(0), end(2), start(1, &[0])],
            4 => {
                let state = |job: u32| view.job(JobId(job)).state.clone();
                assert_eq!(state(2), State::Ended { at: Nanos(12_500 * MS), how: Ending::ByPolicy });
                assert_eq!(view.occupancy.kept_by(DeviceId(0)), [JobId(1)], "at once");
                vec![]
            }
            _ => vec![],
        }
    });
    let (turns, outcomes, error) = scripts::turns(&world, &mut policy);
    assert!(error.is_none(), "{error:?}");
    let story: Vec<(f64, ClusterEvent)> =
        scripts::events(&turns).skip(4).map(|(at, it)| (at.as_secs_f64(), it.clone())).collect();
    // Its third step ends at 13 s, and to stop takes 5 s. The next job starts in 10 s.
    let expected = [
        (18.0, ClusterEvent::Progress { job: JobId(0), steps: 3, loss: None }),
        (18.0, settled(0, Settled::Stopped)),
        (28.0, settled(1, Settled::Running)),
        (38.0, ClusterEvent::Finished { job: JobId(1), steps: 10 }),
    ];
    assert_eq!(story, expected);
    assert_eq!(
        heard[3],
        [
            Change::Ended(JobId(2)),
            Change::Placed(JobId(1)),
            Change::Progressed(JobId(0)),
            Change::Ended(JobId(0))
        ]
    );
    let (first, last) = (&outcomes[0], &outcomes[2]);
    assert_eq!((first.status, first.steps, first.steps_lost), (Status::EndedByPolicy, 3, 0));
    assert_eq!(
        (first.end_ns, first.jct_ns, first.device_time_ns),
        (Some(18 * SECOND), None, Some(2_500 * MS))
    );
    assert_eq!((last.status, last.starts, last.queued_ns), (Status::EndedByPolicy, 0, Some(0)));
}

#[test]
fn a_real_job_that_is_ended_leaves_and_its_checkpoint_goes_when_that_is_written_down() {
    let mut bench = Bench::new(&[Wanted::Training("short", 5_000), Wanted::Training("short", 5_000)], None);
    let files = |bench: &Bench| std::fs::read_dir(bench.run.checkpoints_path()).unwrap().count();
    let saved = [0, 1].map(|job| {
        bench.start(job, &[0], "dp1");
        bench.until_settled(job, Settled::Running);
        bench.stop(job, true);
        bench.until_settled(job, Settled::Stopped)
    });
    assert_eq!(files(&bench), 4, "the checkpoint of each, and that it is the last one");
    // A job that waits has nothing to leave.
    bench.apply(end(0)).unwrap();
    assert_eq!(files(&bench), 4);
    bench.testbed.all_is_written();
    assert_eq!(files(&bench), 2);
    bench.start(1, &[0], "dp1");
    bench.until_trains_from(1, saved[1]);
    bench.pause(1);
    bench.apply(end(1)).unwrap();
    assert_eq!(bench.until_settled(1, Settled::Stopped), saved[1]);
    // The job did the steps that it was granted. The scheduler reported them at the start of training or before the job left.
    let told = bench.told.iter().filter_map(|happened| match *happened {
        ClusterEvent::Progress { job: JobId(1), steps, .. }
        | ClusterEvent::Settled { job: JobId(1), now: Settled::Running, steps } => Some(steps),
        _ => None,
    });
    let done = saved[1] + bench.steps_said(&bench.launches_of(1)[1], 0);
    assert!(done > saved[1] && told.max() == Some(done), "{done} {:?}", bench.told);
    assert_eq!(files(&bench), 2);
    bench.testbed.all_is_written();
    assert_eq!(files(&bench), 0);
}
