use std::sync::Arc;

use engine::{
    cluster::{JobId, Share},
    job::{Ending, Job, JobRequest, Pausing, Payload, Phase, Placed, SharedRequest, State},
    occupancy::Occupancy,
    topology::{DeviceId, Topology},
    view::{PolicyContext, View},
};
use formats::{
    decision::{Action, ClusterEvent, Settled, Turn},
    trace::Class,
};
use model::{PredictRequest, Prediction, Throughput};
use record::{placement::Placement, rows::ErrorKind, suspension::Suspension};
use schema::{sharing::Sharing, units::Nanos};

use super::{panel::panel, turn_text::turn_lines};

struct Unknown;

impl Throughput for Unknown {
    fn predict(&self, _question: &PredictRequest<'_>) -> Option<Prediction> {
        None
    }
}

fn asked(id: u32, steps: Option<u64>) -> JobRequest {
    JobRequest {
        id: JobId(id),
        name: format!("j{id}"),
        arrival: Nanos(u64::from(id) * Nanos::SECOND.0),
        steps,
        part_ns: None,
        submitted_at: None,
        step_ns: None,
        shared: Arc::new(SharedRequest {
            what: Payload::Command(vec!["true".into()]),
            plan: None,
            devices: 1,
            device_type: None,
            cpus: None,
            elastic: false,
            min_devices: None,
            max_devices: None,
            steps_regex: None,
            takes_no_checkpoint: Some("it is a command"),
            steps_in_start: 0,
            pausing: Pausing::HoldsMemory,
            user: String::new(),
            virtual_cluster: String::new(),
            class: Class::Guaranteed,
            priority: 0,
            weight: 1,
            recurring_job: None,
            search: None,
            learning_rate: None,
            loss_curve: None,
        }),
    }
}

fn job(state: State, steps: u64) -> Job {
    Job { state, steps, ..Job::new(Nanos::ZERO) }
}

fn placed(device: u32, phase: Phase) -> State {
    let share = if phase == Phase::Paused { Share::new(0.25).unwrap() } else { Share::FULL };
    State::Placed(Box::new(Placed {
        devices: vec![DeviceId(device)],
        plan: None,
        cpus: None,
        phase,
        since: Nanos::ZERO,
        share,
    }))
}

fn turn(happened: ClusterEvent, actions: Vec<Action>, reason: &str) -> Turn {
    Turn {
        turn: 3,
        at_ns: Nanos(5 * Nanos::SECOND.0),
        model_version: None,
        events: vec![happened],
        actions,
        refused: Vec::new(),
        wake_at_ns: None,
        reason: reason.into(),
        explain: Default::default(),
        view_hash: String::new(),
    }
}

#[test]
fn a_view_says_where_all_jobs_are_and_a_turn_what_changed() {
    let topology = Topology::uniform(3, 3, "GPU");
    let all: Vec<JobRequest> = (0..8).map(|id| asked(id, (id != 1).then_some(200))).collect();
    let ended = |how| State::Ended { at: Nanos(4 * Nanos::SECOND.0), how };
    let waiting = || State::Waiting { since: Nanos::ZERO };
    let jobs = [
        job(placed(0, Phase::Running), 50),
        job(placed(0, Phase::Paused), 7),
        job(ended(Ending::Finished), 200),
        job(ended(Ending::Failed(ErrorKind::Hung, "said nothing".into())), 0),
        job(waiting(), 0),
        job(waiting(), 0),
        job(waiting(), 0),
        job(ended(Ending::ByPolicy), 9),
    ];
    let mut occupancy = Occupancy::new(&topology);
    occupancy.set_lost(DeviceId(2), true);
    let view = View {
        now: Nanos(5 * Nanos::SECOND.0),
        topology: &topology,
        sharing: &Sharing::TIME_SLICE,
        suspension: Suspension::default(),
        jobs_per_device: 2,
        placement: Placement::Consolidated,
        virtual_cluster: None,
        asked: &all,
        jobs: &jobs,
        occupancy: &occupancy,
        changes: &[],
        model: &Unknown,
        known: PolicyContext::default(),
    };
    let expected = [
        "1 of 8 jobs done, 1 failed, 1 ended by the policy, mean JCT 2.00 s",
        "n0/cuda:0    j0 50/200 (25 %) + j1 paused throttled to 0.25 7",
        "n0/cuda:1    free",
        "n0/cuda:2    lost",
        // The last one has not arrived.
        "waiting      j4, j5",
    ];
    assert_eq!(panel(&view), expected);

    let start = Action::Start { job: JobId(4), devices: vec![DeviceId(1)], cpus: None, plan: None };
    for (turn, lines) in [
        (
            turn(ClusterEvent::Finished { job: JobId(2), steps: 200 }, vec![start], "j4 is next"),
            vec![
                "[5.00 s] j2 finished after 3.00 s; 3 of 8 have ended",
                "[5.00 s] start j4 on n0/cuda:1 (j4 is next)",
            ],
        ),
        (
            turn(
                ClusterEvent::Progress { job: JobId(0), steps: 50, loss: None },
                vec![Action::Pause { job: JobId(0) }],
                "",
            ),
            vec!["[5.00 s] pause j0"],
        ),
        (turn(ClusterEvent::Deadline, Vec::new(), ""), Vec::new()),
        (
            turn(
                ClusterEvent::Settled { job: JobId(7), now: Settled::Stopped, steps: 4 },
                vec![
                    Action::End { job: JobId(4) },
                    Action::Throttle { job: JobId(1), share: Share::new(0.25).unwrap() },
                ],
                "",
            ),
            vec![
                "[5.00 s] j7 was ended by the policy after 9 steps",
                "[5.00 s] end j4",
                "[5.00 s] throttle j1 to 0.25",
            ],
        ),
        (
            turn(
                ClusterEvent::Failed {
                    job: JobId(3),
                    steps: 0,
                    kind: ErrorKind::Hung,
                    detail: "said nothing".into(),
                },
                Vec::new(),
                "",
            ),
            vec!["[5.00 s] j3 failed: said nothing"],
        ),
    ] {
        assert_eq!(turn_lines(&turn, &view), lines);
    }
}
