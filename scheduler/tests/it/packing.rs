//! Packing: its questions to a model, and its decisions on the answers.

use engine::{
    Engine,
    cluster::{Action, DeviceId, JobId, Settled},
    job::JobRequest,
    policy::{Decision, Policy},
    topology::Topology,
    view::{Change, View},
};
use formats::{
    decision::{ClusterEvent, Turn},
    rows::Outcome,
};
use launches::simulated::{self, Settings};
use model::{InTurns, PredictRequest, Prediction, Table, Throughput, switch_costs::Named};
use record::rows::ErrorKind;
use schema::{device::Device, sharing::Sharing, units::Nanos};

use crate::{
    actions::{Scripted, arrived, failed, settled},
    policies::{becomes_command, jobs},
    scripts::MS,
    support::{Own, SECOND, asked, built},
};

/// Step times are those of the trace, times `slowdown` beside another job; the intervals have the width
/// `interval`.
pub(crate) struct Packs {
    pub(crate) slowdown: Option<f64>,
    pub(crate) interval: f64,
}

impl Throughput for Packs {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let slowdown = if question.co_runners.is_empty() { 1.0 } else { self.slowdown? };
        let step_ns = question.job.trace_time?.step_ns as f64 * slowdown;
        let step_ns_ci = Some((step_ns * (1.0 - self.interval), step_ns * (1.0 + self.interval)));
        Some(Prediction { step_ns, step_ns_ci })
    }
}

/// Jobs with the true slowdown `slowdown` together, on one node without switching cost.
fn run(devices: u32, asked: &[(u64, u32, u64)], model: &Packs, slowdown: f64) -> (Vec<Turn>, Vec<Outcome>) {
    run_on(&Topology::uniform(devices, devices, "GPU"), &jobs(asked), model, slowdown)
}

fn run_on(
    topology: &Topology,
    jobs: &[JobRequest],
    model: &dyn Throughput,
    slowdown: f64,
) -> (Vec<Turn>, Vec<Outcome>) {
    let costs = Named::constant(Nanos::ZERO);
    let settings = Settings { progress_every: Some(Nanos::SECOND), ..Settings::default() };
    let truth = Box::new(Own { slowdown });
    let mut sim = simulated::cluster(topology, jobs, truth, &costs, settings).expect("all is known");
    let mut engine = Engine::new(topology, jobs, model, engine::Settings::default());
    let mut turns = Vec::new();
    let outcomes =
        engine::run(&mut engine, &mut sim, &mut *built("packing-fifo"), &mut turns).expect("every job ends");
    assert!(turns.iter().all(|turn| turn.refused.is_empty()));
    (turns, outcomes)
}

/// `(job, its devices)` of each start, in order.
fn starts(turns: &[Turn]) -> Vec<(u32, Vec<u32>)> {
    let start = |action: &Action| match action {
        Action::Start { job, devices, .. } => Some((job.0, devices.iter().map(|device| device.0).collect())),
        _ => None,
    };
    turns.iter().flat_map(|turn| &turn.actions).filter_map(start).collect()
}

/// A request for a pack would be refused at every turn.
#[test]
fn nothing_is_packed_if_a_device_takes_one_job() {
    let (topology, jobs) = (Topology::uniform(1, 1, "GPU"), jobs(&[(0, 1, 60), (0, 1, 60)]));
    let model = Packs { slowdown: Some(1.2), interval: 0.01 };
    for (jobs_per_device, expected) in [(1, [60, 120]), (2, [72, 72])] {
        let costs = Named::constant(Nanos::ZERO);
        let truth = Box::new(Own { slowdown: 1.2 });
        let mut sim =
            simulated::cluster(&topology, &jobs, truth, &costs, Settings::default()).expect("all is known");
        let settings = engine::Settings { jobs_per_device, ..engine::Settings::default() };
        let mut engine = Engine::new(&topology, &jobs, &model, settings);
        let mut turns: Vec<Turn> = Vec::new();
        let policy = &mut *built("packing-fifo");
        let outcomes = engine::run(&mut engine, &mut sim, policy, &mut turns).expect("every job ends");
        assert!(turns.iter().all(|turn| turn.refused.is_empty()));
        let ends: Vec<_> = outcomes.iter().filter_map(|row| Some(row.end_ns?.div_ceil(SECOND))).collect();
        assert_eq!(ends, expected, "{jobs_per_device} on a device");
    }
}

#[test]
fn a_pack_must_gain_by_more_than_is_unknown() {
    // The sum is 2 over the slowdown, with the combined uncertainty of its four numbers.
    let too_wide =
        |sum, width| format!("job-1 not beside job-0: {sum} ± {width} times taking turns may be no gain");
    for (slowdown, interval, packed, why) in [
        (Some(1.5), 0.01, true, None),
        (Some(1.97), 0.01, true, None),
        (Some(1.99), 0.01, false, Some(too_wide("1.005", "0.010"))),
        (Some(2.5), 0.01, false, None),
        (Some(1.5), 0.3, false, Some(too_wide("1.333", "0.400"))),
        (None, 0.01, false, None),
    ] {
        let (turns, outcomes) = run(1, &[(0, 1, 60), (0, 1, 60)], &Packs { slowdown, interval }, 1.2);
        assert_eq!(outcomes[1].start_ns < outcomes[0].end_ns, packed, "{slowdown:?} {interval}");
        let reasons = turns.iter().filter(|turn| turn.actions.is_empty()).map(|turn| &*turn.reason);
        let reasons: Vec<&str> = reasons.filter(|reason| !reason.is_empty()).collect();
        assert_eq!(reasons, why.as_slice(), "{slowdown:?} {interval}");
    }
    // A prediction without an interval does not count.
    let (topology, jobs) = (Topology::uniform(1, 1, "GPU"), jobs(&[(0, 1, 60), (0, 1, 60)]));
    let model = Own { slowdown: 1.2 };
    let costs = Named::constant(Nanos::ZERO);
    let mut sim = simulated::cluster(&topology, &jobs, Box::new(model), &costs, Settings::default())
        .expect("all is known");
    let mut engine = Engine::new(&topology, &jobs, &model, engine::Settings::default());
    let mut turns: Vec<Turn> = Vec::new();
    let outcomes =
        engine::run(&mut engine, &mut sim, &mut *built("packing-fifo"), &mut turns).expect("every job ends");
    assert_eq!(outcomes[1].start_ns, outcomes[0].end_ns);
    let reason = "job-1 not beside job-0: the times of their steps have no interval";
    assert_eq!(turns.iter().filter(|turn| turn.reason == reason).count(), 1);
}

#[test]
fn a_free_device_comes_first_and_no_device_has_three_jobs() {
    let model = Packs { slowdown: Some(1.2), interval: 0.01 };
    let trace = [(0, 1, 60), (0, 1, 60), (0, 1, 60), (0, 2, 60), (0, 1, 60)];
    let (turns, outcomes) = run(2, &trace, &model, 1.2);
    // The fourth job wants two devices and blocks the fifth, which has another number of devices and is not packed with it.
    let expected = [(0, vec![0]), (1, vec![1]), (2, vec![0]), (3, vec![0, 1]), (4, vec![0])];
    assert_eq!(starts(&turns), expected);
    let ends: Vec<_> = outcomes.iter().filter_map(|row| row.end_ns).map(|end| end.div_ceil(SECOND)).collect();
    assert_eq!(ends, [72, 60, 72, 132, 192]);
    let packed = turns.iter().find(|turn| starts(std::slice::from_ref(turn)) == [(2, vec![0])]);
    let reason = packed.map(|turn| turn.reason.as_str());
    assert_eq!(reason, Some("job-2 beside job-0: 1.667 ± 0.017 times taking turns"));
}

/// A model of packs on one type of devices only.
struct OnLarge(Packs);

impl Throughput for OnLarge {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let is_known = question.co_runners.is_empty() || question.device_type == "large";
        is_known.then(|| self.0.predict(question)).flatten()
    }
}

#[test]
fn what_a_pack_gains_is_asked_of_the_devices_that_it_would_have() {
    let node = |device_type: &str| (device_type.to_owned(), device_type.to_owned(), vec![Device::Cuda(0)]);
    let topology = Topology::new(["small", "large"].map(node));
    let model = OnLarge(Packs { slowdown: Some(1.2), interval: 0.01 });
    let (turns, _) = run_on(&topology, &jobs(&[(0, 1, 60), (0, 1, 60), (0, 1, 60)]), &model, 1.2);
    assert_eq!(starts(&turns)[..3], [(0, vec![0]), (1, vec![1]), (2, vec![1])]);
}

/// If neither took checkpoints, undoing a bad pack would lose the work of one of them.
#[test]
fn of_two_that_are_packed_one_takes_checkpoints_and_is_the_one_to_leave() {
    let topology = Topology::uniform(1, 1, "GPU");
    let model = Packs { slowdown: Some(1.2), interval: 0.01 };
    let mut jobs = jobs(&[(0, 1, 100), (0, 1, 100)]);
    becomes_command(&mut jobs[1]);
    let (turns, _) = run_on(&topology, &jobs, &model, 2.5);
    assert_eq!(starts(&turns).iter().map(|(job, _)| *job).collect::<Vec<_>>(), [0, 1, 0]);
    assert!(turns.iter().any(|turn| turn.reason == "job-0 no longer beside job-1: measured 0.802 at most"));
    becomes_command(&mut jobs[0]);
    let (_, outcomes) = run_on(&topology, &jobs, &model, 2.5);
    assert_eq!(outcomes[1].start_ns, outcomes[0].end_ns);
}

#[test]
fn what_is_measured_undoes_a_pack_and_is_remembered() {
    let model = Packs { slowdown: Some(1.2), interval: 0.01 };
    let trace = [(0, 1, 100), (0, 1, 100), (0, 1, 100)];
    let (turns, outcomes) = run(1, &trace, &model, 2.5);
    let stops: Vec<_> =
        turns.iter().filter(|turn| turn.actions.iter().any(|a| matches!(a, Action::Stop { .. }))).collect();
    let [stop] = *stops else { panic!("{stops:?}") };
    // Reported after one second and after two: 400 steps of a millisecond each, and one that may be almost
    // complete.
    assert_eq!(
        (stop.at_ns, &*stop.actions),
        (Nanos(2 * SECOND), &[Action::Stop { job: JobId(1), checkpoint: true }][..])
    );
    assert_eq!(stop.reason, "job-1 no longer beside job-0: measured 0.802 at most");
    // All three are alike, and none is packed again.
    assert_eq!(starts(&turns).iter().map(|(job, _)| *job).collect::<Vec<_>>(), [0, 1, 1, 2]);
    let ends: Vec<_> = outcomes.iter().filter_map(|row| row.end_ns).map(|end| end / (100 * MS)).collect();
    assert_eq!(ends, [1_012, 2_004, 3_004]);

    let (turns, _) = run(1, &trace, &model, 1.9);
    assert!(
        !turns.iter().any(|turn| turn.actions.iter().any(|a| matches!(a, Action::Stop { .. }))),
        "it still gains"
    );
}

/// Jobs on one core gain nothing together, and jobs on two cores do.
struct ByCores;

impl Throughput for ByCores {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        let slowdown = if question.cpus == Some(2) { 1.2 } else { 2.2 };
        Packs { slowdown: Some(slowdown), interval: 0.01 }.predict(question)
    }
}

/// The job on one core is asked about first. Its answer is not that of the job on two cores.
#[test]
fn jobs_with_other_numbers_of_cores_are_of_another_kind() {
    let mut jobs = jobs(&[(0, 1, 60), (0, 1, 60), (1, 1, 60)]);
    jobs.iter_mut().zip([1, 2, 2]).for_each(|(job, cpus)| job.cpus = Some(cpus));
    let (turns, _) = run_on(&Topology::uniform(2, 2, "GPU"), &jobs, &ByCores, 1.2);
    assert_eq!(starts(&turns), [(0, vec![0]), (1, vec![1]), (2, vec![1])]);
}

#[test]
fn jobs_that_did_not_fit_together_stay_apart() {
    let (topology, jobs) = (Topology::uniform(1, 1, "GPU"), jobs(&[(0, 1, 60), (0, 1, 60)]));
    let events = [
        arrived(0),
        settled(0, Settled::Running),
        arrived(1),
        failed(1, ErrorKind::OutOfMemory),
        ClusterEvent::Progress { job: JobId(0), steps: 9, loss: None },
    ];
    let mut cluster = Scripted { now: Nanos::ZERO, events: events.into() };
    let model = Packs { slowdown: Some(1.2), interval: 0.01 };
    let mut engine = Engine::new(&topology, &jobs, &model, engine::Settings::default());
    let mut turns = Vec::new();
    let ended = engine::run(&mut engine, &mut cluster, &mut *built("packing-fifo"), &mut turns);
    assert!(ended.is_err(), "the script ends before the jobs");
    assert_eq!(starts(&turns), [(0, vec![0]), (1, vec![0])]);
    assert!(turns.iter().all(|turn| turn.refused.is_empty()), "it is not even asked for");
}

/// A policy that starts each job on device 0 as soon as it arrives.
struct OnFirst;

impl Policy for OnFirst {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let arrives = |change: &Change| match *change {
            Change::Waits(job) => Some(job),
            _ => None,
        };
        let start = |job| Action::Start { job, devices: vec![DeviceId(0)], cpus: None, plan: None };
        let actions = view.changes.iter().filter_map(arrives).map(start).collect();
        Decision { actions, wake_at: None, reason: String::new() }
    }
}

/// Two jobs of 60 s and of steps of 100 and 300 ms, of which the second comes after 20 s, with nothing known of them together.
#[test]
fn jobs_that_take_turns_take_as_long_as_turns_say() {
    let topology = Topology::uniform(1, 1, "GPU");
    let jobs = [asked(0, 0, 1, 600, 100 * MS), asked(1, 20 * SECOND, 1, 200, 300 * MS)];
    for (sharing, expected) in [
        // After 20 s alone, the first needs 40 s more, at half the pace. The other has 20 s left then.
        ("step-gate", Some([100, 120])),
        // A step of the one and then of the other take 400 ms together. The second has had 200 after 80 s, and the first as many.
        ("step-gate:1", Some([120, 100])),
        ("time-slice", None),
        // The second is refused.
        ("alone", None),
    ] {
        let sharing: Sharing = sharing.parse().unwrap();
        let model = InTurns { model: Box::new(Table::default()) };
        let costs = Named::constant(Nanos::ZERO);
        let settings = Settings { sharing: sharing.clone(), ..Settings::default() };
        let mut sim =
            simulated::cluster(&topology, &jobs, Box::new(&model), &costs, settings).expect("all is known");
        let settings = engine::Settings { sharing: sharing.clone(), ..engine::Settings::default() };
        let mut engine = Engine::new(&topology, &jobs, &model, settings);
        let mut turns: Vec<Turn> = Vec::new();
        let ended = engine::run(&mut engine, &mut sim, &mut OnFirst, &mut turns).ok();
        let ends = ended.map(|rows| [0, 1].map(|job| rows[job].end_ns.unwrap_or(0).div_ceil(SECOND)));
        assert_eq!(ends, expected, "{sharing}: {turns:?}");
        let refused: Vec<&str> = turns.iter().flat_map(|turn| &turn.refused).map(|of| &*of.why).collect();
        match (&sharing, &refused[..]) {
            (Sharing::StepGate { .. }, []) => {}
            (Sharing::TimeSlice { .. }, [why]) => {
                assert!(why.ends_with("beside lstm under time-slice is not known"), "{why}")
            }
            (Sharing::Alone, [why]) => {
                assert!(why.ends_with("has 1 jobs, and no more are packed on a device"), "{why}")
            }
            _ => panic!("{sharing}: {refused:?}"),
        }
    }
}
