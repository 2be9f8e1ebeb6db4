//! Actions that the engine refuses, and its handling of failures, on a scripted cluster.

use std::collections::{BTreeSet, VecDeque};

use engine::{
    Engine, Settings,
    cluster::{Action, ActionError, Cluster, ClusterError, DeviceId, JobId, Settled},
    job::JobRequest,
    legal_plans::LegalPlan,
    topology::Topology,
    view::{Change, PolicyContext, View},
};
use formats::{
    decision::{ClusterEvent, Turn},
    rows::Outcome,
};
use jobs::plans::Judgement;
use model::switch_costs::{Cost, Named};
use record::rows::{ErrorKind, Status};
use scheduler::legal_plans;
use schema::{catalog::Catalog, device::Device, plan::Plan, units::Nanos};

use crate::{
    policies::becomes_command,
    scripts::{FromView, Script, start},
    support::{Own, SECOND, asked},
};

/// A cluster that reports scripted events, one per second, and obeys every action.
pub(crate) struct Scripted {
    pub(crate) now: Nanos,
    pub(crate) events: VecDeque<ClusterEvent>,
}

impl Cluster for Scripted {
    fn now(&self) -> Nanos {
        self.now
    }

    fn apply(&mut self, _action: &Action) -> Result<(), ActionError> {
        Ok(())
    }

    fn next(&mut self, _deadline: Option<Nanos>) -> Result<Vec<ClusterEvent>, ClusterError> {
        self.now += Nanos::SECOND;
        self.events.pop_front().map(|event| vec![event]).ok_or(ClusterError::Nothing)
    }
}

pub(crate) fn arrived(job: u32) -> ClusterEvent {
    ClusterEvent::Arrived { job: JobId(job) }
}

pub(crate) fn settled(job: u32, now: Settled) -> ClusterEvent {
    ClusterEvent::Settled { job: JobId(job), now, steps: 0 }
}

pub(crate) fn failed(job: u32, kind: ErrorKind) -> ClusterEvent {
    ClusterEvent::Failed { job: JobId(job), steps: 0, kind, detail: "last words".into() }
}

/// Two nodes, with two devices and one; the third device has another type. Each step is an event and the
/// requested actions.
fn run(
    jobs: &[JobRequest],
    script: Vec<(ClusterEvent, Vec<Action>)>,
) -> (Vec<Turn>, Vec<Outcome>, Result<(), ClusterError>) {
    run_with(jobs, script, Settings::default())
}

/// See [`run`].
pub(crate) fn run_with(
    jobs: &[JobRequest],
    script: Vec<(ClusterEvent, Vec<Action>)>,
    settings: Settings,
) -> (Vec<Turn>, Vec<Outcome>, Result<(), ClusterError>) {
    let node = |name: &str, kind: &str, devices| {
        (name.to_owned(), kind.to_owned(), vec![schema::device::Device::Cuda(0); devices])
    };
    let topology = Topology::new([node("a", "large", 2), node("b", "small", 1)]);
    let (events, actions) = script.into_iter().unzip();
    let mut cluster = Scripted { now: Nanos::ZERO, events };
    let model = Own { slowdown: 1.0 };
    let mut engine = Engine::new(&topology, jobs, &model, settings);
    let mut turns = Vec::new();
    let ended = engine::run(&mut engine, &mut cluster, &mut Script(actions), &mut turns);
    (turns, engine.outcomes().collect(), ended.map(drop))
}

#[test]
fn an_action_that_cannot_be_is_refused_with_the_reason() {
    let plan = |spelling: &str| Some(spelling.parse().unwrap());
    let with_plan = |job: u32, devices: &[u32], spelling: &str| {
        let Action::Start { job, devices, cpus, .. } = start(job, devices) else { unreachable!() };
        Action::Start { job, devices, cpus, plan: plan(spelling) }
    };
    // Job 0 runs on both devices of the first node, and job 1 is paused on the first of them.
    let mut jobs = [1, 1, 2, 1, 1]
        .into_iter()
        .zip(0..)
        .map(|(devices, id)| asked(id, 0, devices, 9, 1))
        .collect::<Vec<_>>();
    (jobs[0].devices, jobs[2].plan, jobs[2].elastic) = (2, plan("dp2"), true);
    becomes_command(&mut jobs[3]);
    let (one, two) = (JobId(0), JobId(1));
    let nothing = Vec::new;
    let cases = [
        (start(4, &[2]), "it has not arrived"),
        (start(9, &[2]), "it has not arrived"),
        (Action::Pause { job: JobId(2) }, "it has no devices"),
        (Action::Pause { job: two }, "it is paused, and only what runs is paused"),
        (Action::Resume { job: one }, "it is running, and only what is paused is resumed"),
        (start(0, &[0, 1]), "it is running already"),
        (start(3, &[0, 1]), "it is rigid, asks for no plan on 1 devices, and would get no plan on 2"),
        (with_plan(3, &[2], "dp1"), "it is rigid, asks for no plan on 1 devices, and would get dp1 on 1"),
        (with_plan(2, &[0], "dp2"), "dp2 takes 2 devices, and would get 1"),
        (start(2, &[0]), "it is given no plan"),
        (start(3, &[7]), "there is no device 7"),
        (with_plan(2, &[1, 1], "dp2"), "a device is named twice"),
        (with_plan(2, &[1, 2], "dp2"), "its devices are of two types: large and small"),
    ];
    let actions = cases.iter().map(|(action, _)| action.clone()).collect();
    let (turns, ..) = run(
        &jobs,
        vec![
            (arrived(0), nothing()),
            (arrived(1), vec![start(1, &[0])]),
            (settled(1, Settled::Running), vec![Action::Pause { job: two }]),
            (settled(1, Settled::Paused), vec![start(0, &[0, 1])]),
            (settled(0, Settled::Running), nothing()),
            (arrived(2), nothing()),
            (arrived(3), actions),
        ],
    );
    assert!(turns[..6].iter().all(|turn| turn.refused.is_empty()), "{turns:?}");
    let refused = &turns[6].refused;
    assert_eq!(turns[6].actions, []);
    for (refused, (action, why)) in refused.iter().zip(&cases) {
        assert_eq!((&refused.action, refused.why.as_str()), (action, *why));
    }
    assert_eq!(refused.len(), cases.len());
}

#[test]
fn a_job_is_given_devices_within_its_bounds_and_of_its_type() {
    let elastic = asked(0, 0, 2, 9, 1).with(|request| {
        request.elastic = true;
        request.min_devices = Some(2);
        request.max_devices = Some(2);
    });
    let large = asked(1, 0, 1, 9, 1).with(|request| request.device_type = Some("large".into()));
    let one_at_most = asked(2, 0, 1, 9, 1).with(|request| {
        request.elastic = true;
        request.max_devices = Some(1);
        request.device_type = Some("small".into());
    });
    let refused = [start(0, &[0]), start(1, &[2]), start(2, &[0, 1]), start(2, &[0])];
    let done = [start(0, &[0, 1]), start(1, &[1]), start(2, &[2])];
    let all = [&refused[..], &done].concat();
    let (turns, ..) = run(
        &[elastic, large, one_at_most],
        vec![(arrived(0), vec![]), (arrived(1), vec![]), (arrived(2), all)],
    );
    let whys: Vec<&str> = turns[2].refused.iter().map(|refused| &*refused.why).collect();
    let expected = [
        "it asks for at least 2 devices, and would get 1",
        "it asks for devices of type large, and would get small",
        "it asks for at most 1 devices, and would get 2",
        "it asks for devices of type small, and would get large",
    ];
    assert_eq!((whys.as_slice(), turns[2].actions.as_slice()), (&expected[..], &done[..]));
}

/// Each action is checked as if the actions before it in the same decision were complete.
#[test]
fn no_more_jobs_are_packed_on_a_device_than_the_settings_say() {
    let jobs: Vec<_> = (0..3).map(|id| asked(id, 0, 1, 9, 1)).collect();
    let all = (0..3).map(|id| start(id, &[0])).collect();
    let (turns, ..) = run(&jobs, vec![(arrived(0), vec![]), (arrived(1), vec![]), (arrived(2), all)]);
    assert_eq!(turns[2].actions.len(), 2);
    assert_eq!(turns[2].refused[0].why, "a/cuda:0 has 2 jobs, and no more are packed on a device");
}

/// If an action that frees a device fails, the job for it is not packed instead.
#[test]
fn nobody_takes_the_place_of_a_job_that_stays() {
    let mut jobs: Vec<_> = (0..3).map(|id| asked(id, 0, 1, 9, 1)).collect();
    becomes_command(&mut jobs[0]);
    let stop = |job, checkpoint| Action::Stop { job: JobId(job), checkpoint };
    let (turns, ..) = run(
        &jobs,
        vec![
            (arrived(0), vec![start(0, &[0])]),
            (arrived(1), vec![start(1, &[1])]),
            (arrived(2), vec![Action::Pause { job: JobId(0) }, start(2, &[0])]),
            (settled(0, Settled::Running), vec![stop(0, true), stop(1, true), start(2, &[0])]),
            (settled(1, Settled::Stopped), vec![stop(0, true), start(1, &[1]), start(2, &[1])]),
            (settled(1, Settled::Running), vec![stop(0, false), start(2, &[0])]),
        ],
    );
    let refused = |turn: usize| turns[turn].refused.iter().map(|it| it.why.as_str()).collect::<Vec<_>>();
    let stays = "job-0 was to leave a/cuda:0 first, and that was refused";
    assert_eq!(refused(2), ["it is starting, and only what runs is paused", stays]);
    assert_eq!(refused(3), ["it takes no checkpoint: it is a command", stays]);
    assert_eq!(turns[3].actions, [stop(1, true)]);
    assert_eq!(refused(4), ["it takes no checkpoint: it is a command"]);
    assert_eq!(turns[4].actions, [start(1, &[1]), start(2, &[1])], "jobs are packed if no job was to leave");
    assert_eq!(refused(5), ["it is starting already"]);
    assert_eq!(turns[5].actions, [stop(0, false)]);
}

#[test]
fn a_paused_job_comes_back_only_where_there_is_room() {
    let jobs: Vec<_> = (0..3).map(|id| asked(id, 0, 1, 9, 1)).collect();
    let one = JobId(0);
    let (turns, ..) = run(
        &jobs,
        vec![
            (arrived(0), vec![start(0, &[0])]),
            (settled(0, Settled::Running), vec![Action::Pause { job: one }]),
            (settled(0, Settled::Paused), vec![]),
            (arrived(1), vec![start(1, &[0])]),
            (arrived(2), vec![start(2, &[0]), Action::Resume { job: one }]),
            (
                settled(1, Settled::Running),
                vec![Action::Stop { job: JobId(1), checkpoint: true }, Action::Resume { job: one }],
            ),
        ],
    );
    assert_eq!(turns[4].refused[0].why, "a/cuda:0 has 2 jobs, and no more are packed on a device");
    assert_eq!((turns[5].actions.len(), turns[5].refused.len()), (2, 0), "{:?}", turns[5]);
}

#[test]
fn a_failed_job_has_two_more_chances_and_then_its_last_words_stand_in_its_row() {
    for (kind, chances) in [
        (ErrorKind::Killed, 2),
        (ErrorKind::Hung, 2),
        (ErrorKind::Internal, 2),
        (ErrorKind::OutOfMemory, 0),
        (ErrorKind::Unsupported, 0),
    ] {
        let jobs = [asked(0, 0, 1, 9, 1)];
        let mut script = vec![(arrived(0), vec![start(0, &[0])])];
        script.extend((0..3).map(|_| (failed(0, kind), vec![start(0, &[0])])));
        let (turns, outcomes, ended) = run(&jobs, script);
        assert!(ended.is_ok(), "{ended:?}");
        assert_eq!(turns.len(), 2 + chances, "{kind}");
        let row = &outcomes[0];
        assert_eq!((row.err, row.err_detail.as_deref()), (Some(kind), Some("last words")));
        assert_eq!((row.retries, row.starts), (chances as u32, chances as u32 + 1));
        assert_eq!((row.jct_ns, row.end_ns), (None, Some((chances as u64 + 2) * SECOND)));
    }
    // An interruption by the user does not count as a retry.
    let jobs = [asked(0, 0, 1, 9, 1)];
    let again = || (failed(0, ErrorKind::Interrupted), vec![start(0, &[0])]);
    let script = vec![(arrived(0), vec![start(0, &[0])]), again(), again(), again(), again()];
    let (turns, outcomes, ended) = run(&jobs, script);
    assert!(matches!(ended, Err(ClusterError::Stuck { waiting: 1 })), "{ended:?}");
    assert_eq!((turns.len(), outcomes[0].retries, outcomes[0].starts), (5, 0, 5));
}

/// Out of memory beside another job is no fault of either job, and does not happen twice.
#[test]
fn jobs_that_did_not_fit_together_are_not_packed_again() {
    let jobs: Vec<_> = (0..2).map(|id| asked(id, 0, 1, 9, 1)).collect();
    let (turns, outcomes, _) = run(
        &jobs,
        vec![
            (arrived(0), vec![start(0, &[0])]),
            (arrived(1), vec![start(1, &[0])]),
            (failed(1, ErrorKind::OutOfMemory), vec![start(1, &[0]), start(1, &[1])]),
        ],
    );
    assert_eq!(turns[2].refused[0].why, "it did not fit on a device with job-0");
    assert_eq!(turns[2].actions, [start(1, &[1])]);
    assert_eq!((outcomes[1].retries, outcomes[1].status), (0, Status::Failed));
}

/// Two jobs that do not fit together may both run out of memory before either has left. Neither is at
/// fault.
#[test]
fn both_of_two_that_ran_out_of_memory_together_have_another_chance() {
    let jobs: Vec<_> = (0..2).map(|id| asked(id, 0, 1, 9, 1)).collect();
    let out_of_memory = |job| failed(job, ErrorKind::OutOfMemory);
    let (turns, outcomes, _) = run(
        &jobs,
        vec![
            (arrived(0), vec![start(0, &[0])]),
            (arrived(1), vec![start(1, &[0])]),
            (out_of_memory(0), vec![]),
            (out_of_memory(1), vec![start(0, &[0]), start(1, &[1])]),
            // From now on each has a device for itself, and failures count.
            (out_of_memory(0), vec![start(0, &[0])]),
            (settled(1, Settled::Running), vec![]),
        ],
    );
    assert_eq!(turns[3].actions, [start(0, &[0]), start(1, &[1])]);
    assert_eq!(turns[4].refused[0].why, "it has ended");
    assert_eq!((outcomes[0].err, outcomes[0].retries), (Some(ErrorKind::OutOfMemory), 0));
    assert_eq!((outcomes[1].err, outcomes[1].retries), (Some(ErrorKind::Interrupted), 0), "it runs");
}

/// The job waits for another plan, and its own plan is the last.
#[test]
fn a_plan_that_the_policy_chose_and_that_is_too_large_does_not_end_the_job() {
    let mut jobs = [asked(0, 0, 1, 9, 1)];
    (jobs[0].plan, jobs[0].elastic) = (Some("gc".parse().unwrap()), true);
    let under = |device: u32, plan: &str| {
        let Action::Start { job, devices, cpus, .. } = start(0, &[device]) else { unreachable!() };
        Action::Start { job, devices, cpus, plan: Some(plan.parse().unwrap()) }
    };
    let out_of_memory = || failed(0, ErrorKind::OutOfMemory);
    let (turns, outcomes, _) = run(
        &jobs,
        vec![
            (arrived(0), vec![under(0, "dp1")]),
            // Devices of another type may hold it.
            (out_of_memory(), vec![under(1, "dp1"), under(2, "dp1")]),
            (out_of_memory(), vec![under(0, "gc")]),
            (out_of_memory(), vec![]),
        ],
    );
    assert_eq!(turns[1].refused[0].why, "it ran out of memory under dp1 on large");
    assert_eq!(turns.iter().map(|turn| turn.actions.len()).collect::<Vec<_>>(), [1, 1, 1, 0]);
    assert_eq!((outcomes[0].err, outcomes[0].retries), (Some(ErrorKind::OutOfMemory), 0));
    assert_eq!((outcomes[0].starts, outcomes[0].end_ns), (3, Some(4 * SECOND)));
}

/// Tensors of a paused job are in the memory of the host, and a paused command keeps its memory.
#[test]
fn two_jobs_that_do_not_fit_together_may_take_turns() {
    let mut jobs: Vec<_> = (0..3).map(|id| asked(id, 0, 1, 9, 1)).collect();
    becomes_command(&mut jobs[1]);
    let pause = |job| Action::Pause { job: JobId(job) };
    let (turns, ..) = run(
        &jobs,
        vec![
            (arrived(0), vec![start(0, &[0])]),
            (arrived(1), vec![start(1, &[0])]),
            (failed(1, ErrorKind::OutOfMemory), vec![]),
            (settled(0, Settled::Running), vec![pause(0), start(1, &[0])]),
            (settled(0, Settled::Paused), vec![Action::Resume { job: JobId(0) }]),
            (settled(1, Settled::Running), vec![pause(1), Action::Resume { job: JobId(0) }]),
        ],
    );
    let why = |turn: usize| turns[turn].refused.iter().map(|it| it.why.as_str()).collect::<Vec<_>>();
    assert_eq!((turns[3].actions.len(), why(3)), (2, vec![]));
    assert_eq!(why(4), ["it did not fit on a device with job-1"]);
    assert_eq!((turns[5].actions.len(), why(5)), (1, vec!["it did not fit on a device with job-1"]));
}

#[test]
fn a_policy_is_told_all_that_changed() {
    let topology = Topology::uniform(2, 2, "GPU");
    let jobs = [asked(0, 0, 1, 9, 1)];
    let id = JobId(0);
    let steps = 3;
    let events = [
        arrived(0),
        settled(0, Settled::Running),
        ClusterEvent::Progress { job: id, steps, loss: None },
        ClusterEvent::DeviceLost { device: DeviceId(1) },
        ClusterEvent::DeviceBack { device: DeviceId(1) },
        ClusterEvent::Finished { job: id, steps: 9 },
    ];
    let mut cluster = Scripted { now: Nanos::ZERO, events: events.into() };
    let model = Own { slowdown: 1.0 };
    let mut heard = Vec::new();
    let mut listener = FromView(|view: &View<'_>| {
        heard.push(view.changes.to_vec());
        // The job cannot be started twice, and there is no second one.
        if heard.len() == 1 { vec![start(0, &[0]), start(0, &[0]), start(1, &[0])] } else { vec![] }
    });
    let mut engine = Engine::new(&topology, &jobs, &model, Settings::default());
    engine::run(&mut engine, &mut cluster, &mut listener, &mut engine::journal::Unrecorded).unwrap();
    let expected = [
        vec![Change::Waits(id)],
        vec![Change::Placed(id), Change::Refused(id), Change::Settled(id)],
        vec![Change::Progressed(id)],
        vec![Change::Lost(DeviceId(1))],
        vec![Change::Back(DeviceId(1))],
        vec![Change::Ended(id)],
    ];
    assert_eq!(heard, expected);
}

/// Reports come a second apart. The time of a pause does not count.
#[test]
fn the_step_time_of_a_job_is_measured_between_its_reports() {
    let topology = Topology::uniform(2, 2, "GPU");
    let jobs = [asked(0, 0, 1, 99, 1)];
    let progress = |steps| ClusterEvent::Progress { job: JobId(0), steps, loss: None };
    let stopped = |now, steps| ClusterEvent::Settled { job: JobId(0), now, steps };
    let pause = Action::Pause { job: JobId(0) };
    let script = [
        (arrived(0), vec![start(0, &[0])], None),
        (settled(0, Settled::Running), vec![], None),
        (progress(4), vec![], Some((0.25, 3))),
        (progress(6), vec![pause], Some((0.5, 4))),
        (stopped(Settled::Paused, 7), vec![Action::Resume { job: JobId(0) }], Some((0.5, 4))),
        (stopped(Settled::Running, 7), vec![], Some((0.5, 4))),
        (progress(8), vec![Action::Stop { job: JobId(0), checkpoint: true }], Some((1.0, 7))),
        (stopped(Settled::Stopped, 8), vec![start(0, &[1])], Some((1.0, 7))),
        (stopped(Settled::Running, 8), vec![], None),
    ];
    let mut heard = Vec::new();
    let mut actions = script.iter().map(|(_, actions, _)| actions.clone());
    let mut listener = FromView(|view: &View<'_>| {
        let measured = view.job(JobId(0)).measured;
        heard.push(measured.map(|measured| (measured.step_ns / 1e9, measured.at.0 / SECOND)));
        actions.next().unwrap_or_default()
    });
    let events = script.iter().map(|(event, ..)| event.clone()).collect();
    let mut cluster = Scripted { now: Nanos::ZERO, events };
    let model = Own { slowdown: 1.0 };
    let mut engine = Engine::new(&topology, &jobs, &model, Settings::default());
    let ended = engine::run(&mut engine, &mut cluster, &mut listener, &mut engine::journal::Unrecorded);
    assert!(ended.is_err(), "the script ends before the job");
    assert_eq!(heard, script.map(|(.., expected)| expected));
}

#[test]
fn a_policy_knows_nothing_of_jobs_that_have_not_arrived() {
    let topology = Topology::uniform(2, 2, "GPU");
    let jobs: Vec<_> = (0..3).map(|id| asked(id, 0, 1, 9, 1)).collect();
    let mut cluster = Scripted { now: Nanos::ZERO, events: (0..3).map(arrived).collect() };
    let model = Own { slowdown: 1.0 };
    let mut heard = Vec::new();
    let mut listener = FromView(|view: &View<'_>| {
        heard.push((view.asked.len(), view.jobs.len()));
        vec![]
    });
    let mut engine = Engine::new(&topology, &jobs, &model, Settings::default());
    let ended = engine::run(&mut engine, &mut cluster, &mut listener, &mut engine::journal::Unrecorded);
    assert!(ended.is_err(), "the jobs wait for ever");
    assert_eq!(heard, [(1, 1), (2, 2), (3, 3)]);
    assert_eq!(engine.view().jobs.len(), 3);
}

/// The legal plans of a job are on the numbers of devices that it allows, and fit in memory.
#[test]
fn a_policy_knows_what_switches_cost_and_which_plans_are_legal() {
    let node =
        |name: &str, kind: &str, devices: &[Device]| (name.to_owned(), kind.to_owned(), devices.to_vec());
    let small = Device::Cuda(2);
    let topology = Topology::new([
        node("a", "GPU", &[Device::Cuda(0), Device::Cuda(1)]),
        node("b", "small", std::slice::from_ref(&small)),
    ]);
    let mut jobs = [0, 1, 2].map(|id| asked(id, 0, 1, 9, 1));
    (jobs[0].elastic, jobs[0].max_devices) = (true, Some(1));
    (jobs[1].elastic, jobs[1].device_type) = (true, Some("small".into()));
    let judge = |plan: &Plan, devices: &[Device]| Judgement {
        memory_bytes: Some(u64::from(plan.ga)),
        refusal: (plan.ga > if devices[0] == small { 1 } else { 2 }).then(|| "too large".into()),
        ..Judgement::default()
    };
    let plans = legal_plans::enumerate(&jobs, &Catalog::embedded(), &topology, |_, _, plan, (_, devices)| {
        judge(plan, devices)
    });
    let costs = Named::constant(Nanos(62 * SECOND));
    let model = Own { slowdown: 1.0 };
    let known = PolicyContext { costs: Some(&costs), plans: Some(&plans), history: &[], classes: None };
    let mut engine = Engine::new(&topology, &jobs, &model, Settings::default()).knowing(known);
    let mut heard = Vec::new();
    let mut listener = FromView(|view: &View<'_>| {
        let last = JobId(view.asked.len() as u32 - 1);
        let spelled = |legal: LegalPlan<'_>| {
            assert_eq!(legal.memory_bytes, Some(u64::from(legal.plan.ga)));
            (legal.device_type.to_owned(), legal.plan.ranks(), legal.plan.ga)
        };
        let spelled = |job| view.plans(job).map(spelled).collect::<BTreeSet<_>>();
        let cost = |of| view.cost(JobId(0), None, (1, "GPU"), of);
        heard.push((spelled(last), [Cost::Start, Cost::Restart].map(cost)));
        vec![start(0, &[0])]
    });
    let mut cluster = Scripted { now: Nanos::ZERO, events: [arrived(0), arrived(1), arrived(2)].into() };
    let ended = engine::run(&mut engine, &mut cluster, &mut listener, &mut engine::journal::Unrecorded);
    assert!(ended.is_err(), "the script ends before the jobs");
    let plans = |on: &[(&str, u32, u16)]| {
        on.iter().map(|(kind, ranks, ga)| ((*kind).to_owned(), *ranks, *ga)).collect()
    };
    let on_any = plans(&[("GPU", 1, 1), ("GPU", 1, 2), ("small", 1, 1)]);
    let costs = [Some(Nanos::ZERO), Some(Nanos(62 * SECOND))];
    assert_eq!(heard, [(on_any, costs), (plans(&[("small", 1, 1)]), costs), (BTreeSet::new(), costs)]);
}

/// Impossible reports of a cluster are refused.
#[test]
fn an_event_that_cannot_follow_ends_the_run() {
    let cases = [
        (arrived(1), "0 jobs have arrived before it"),
        (ClusterEvent::Finished { job: JobId(0), steps: 9 }, "the job has no devices"),
        (ClusterEvent::Deadline, "the policy did not ask to be woken"),
        (ClusterEvent::DeviceBack { device: DeviceId(0) }, "it was not lost"),
        (ClusterEvent::DeviceLost { device: DeviceId(3) }, "there is no such device"),
        (settled(7, Settled::Running), "there is no such job"),
    ];
    for (event, message) in cases {
        let jobs = [asked(0, 0, 1, 9, 1), asked(1, 0, 1, 9, 1)];
        let (.., ended) = run(&jobs, vec![(event.clone(), vec![])]);
        let error = format!("{:#}", anyhow::Error::from(ended.unwrap_err()));
        assert!(error.contains("the cluster reported") && error.contains(message), "{error}");
    }
    let jobs = [asked(0, 0, 1, 9, 1)];
    for event in [
        settled(0, Settled::Paused),
        settled(0, Settled::Stopped),
        ClusterEvent::DeviceLost { device: DeviceId(0) },
    ] {
        let (.., ended) = run(&jobs, vec![(arrived(0), vec![start(0, &[0])]), (event.clone(), vec![])]);
        assert!(matches!(ended, Err(ClusterError::Other(_))), "{event:?}");
    }
}

#[test]
fn a_run_in_which_nothing_can_happen_any_more_ends_and_says_who_waits() {
    let jobs: Vec<_> = (0..3).map(|id| asked(id, 0, 1, 9, 1)).collect();
    let (turns, outcomes, ended) = run(&jobs, (0..3).map(|id| (arrived(id), vec![])).collect());
    assert_eq!(turns.len(), 3);
    let error = ended.unwrap_err();
    assert_eq!(error.to_string(), "no event is left, jobs wait (3), and the policy starts none of them");
    assert!(outcomes.iter().all(|row| row.err == Some(ErrorKind::Interrupted)));
}
