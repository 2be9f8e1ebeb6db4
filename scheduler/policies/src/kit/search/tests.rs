//! Searches with planted loss curves, in simulations and member by member.

use std::sync::Arc;

use engine::{
    Engine,
    cluster::Action,
    job::{JobRequest, Pausing, Payload, SharedRequest},
    journal::Journal,
    policy::{Decision, Policy},
    topology::Topology,
};
use formats::{decision::ClusterEvent, rows::Outcome, trace::Class};
use launches::simulated;
use model::{PredictRequest, Prediction, Throughput, switch_costs::Named};
use record::{manifest::AlikeNodes, rows::Status};
use schema::units::Nanos;

use super::*;
use crate::kit::{settings::Values, start};

const SECOND: Nanos = Nanos::SECOND;

/// A member whose loss after `k` steps is `1 / (0.01 k + 1) + floor`. A step takes a second.
fn member(id: u32, floor: f64, steps: u64) -> JobRequest {
    JobRequest {
        id: JobId(id),
        name: format!("m{id}"),
        arrival: Nanos::ZERO,
        steps: Some(steps),
        part_ns: None,
        submitted_at: None,
        step_ns: Some(SECOND.0),
        shared: Arc::new(SharedRequest {
            what: Payload::Training { workload: "lstm".into(), global_batch: Some(20) },
            plan: None,
            devices: 1,
            device_type: None,
            cpus: None,
            elastic: false,
            min_devices: None,
            max_devices: None,
            steps_regex: None,
            takes_no_checkpoint: None,
            steps_in_start: 0,
            pausing: Pausing::FreesMemory,
            user: String::new(),
            virtual_cluster: String::new(),
            class: Class::Guaranteed,
            priority: 0,
            weight: 1,
            recurring_job: None,
            search: Some("s".into()),
            learning_rate: None,
            loss_curve: Some(format!("0.01/1/{floor}").parse().unwrap()),
        }),
    }
}

struct OfTrace;

impl Throughput for OfTrace {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        Some(Prediction { step_ns: question.job.trace_time?.step_ns as f64, step_ns_ci: None })
    }
}

fn rule(text: &str) -> Rule {
    Rule::read(&Values::parse(&[SEARCH, ETA, RUNG, KEEP, TARGET], text).unwrap()).unwrap()
}

/// Starts the jobs that are not held in order of arrival, and stops those that are.
struct Obedient {
    searches: Searches,
    /// The favoured jobs, whenever they are others than before.
    favoured: Vec<(u64, Vec<u32>)>,
}

impl Policy for Obedient {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let ends = self.searches.refresh(view);
        let reasons: Vec<String> = ends.iter().map(|(_, reason)| reason.clone()).collect();
        let mut actions: Vec<Action> = ends.iter().map(|(job, _)| Action::End { job: *job }).collect();
        let ids = || (0..view.jobs.len() as u32).map(JobId);
        let is_ended = |id: JobId| ends.iter().any(|(job, _)| *job == id);
        let of =
            |standing| ids().filter(|id| self.searches.standing(*id) == standing).map(|id| id.0).collect();
        let favoured: Vec<u32> = of(Standing::Favoured);
        if self.favoured.last().is_none_or(|(_, before)| *before != favoured) {
            self.favoured.push((view.now.0 / SECOND.0, favoured));
        }
        let mut draft = view.draft();
        for id in ids() {
            let is_held = self.searches.standing(id) == Standing::Held;
            match &view.job(id).state {
                State::Placed(placed) if placed.phase == Phase::Running && is_held && !is_ended(id) => {
                    actions.push(Action::Stop { job: id, checkpoint: true });
                }
                State::Waiting { .. } if !is_held => {
                    if let Some(devices) = draft.take(1, None) {
                        actions.push(start(view, id, devices));
                    }
                }
                _ => {}
            }
        }
        Decision { actions, wake_at: None, reason: reasons.join("; ") }
    }
}

#[derive(Default)]
struct Reasons(Vec<String>);

impl Journal for Reasons {
    fn record(&mut self, turn: formats::decision::Turn, _view: &View<'_>) -> anyhow::Result<()> {
        let loss = |happened: &ClusterEvent| match happened {
            ClusterEvent::Progress { loss, .. } => loss.is_some(),
            _ => true,
        };
        assert!(turn.events.iter().all(loss) && turn.refused.is_empty(), "{turn}");
        self.0.extend(Some(turn.reason).filter(|reason| !reason.is_empty()));
        Ok(())
    }
}

/// Simulates members on devices of which each is enough for one, with reports every ten steps.
fn simulated(members: &[JobRequest], devices: u32, text: &str) -> (Vec<Outcome>, Obedient, Vec<String>) {
    let alike = AlikeNodes {
        nodes: 1,
        devices,
        device_type: "GPU".into(),
        virtual_cluster: None,
        facts: Default::default(),
    };
    let topology = Topology::simulated(&[alike]);
    let costs = Named::constant(Nanos::ZERO);
    let settings =
        simulated::Settings { progress_every: Some(Nanos(10 * SECOND.0)), ..simulated::Settings::default() };
    let mut sim = simulated::cluster(&topology, members, Box::new(OfTrace), &costs, settings).unwrap();
    let mut engine = Engine::new(&topology, members, OfTrace, engine::Settings::default());
    let mut policy = Obedient { searches: Searches::new(rule(text)), favoured: Vec::new() };
    let mut reasons = Reasons::default();
    let outcomes = engine::run(&mut engine, &mut sim, &mut policy, &mut reasons).unwrap();
    (outcomes, policy, reasons.0)
}

/// The best of eight is the sixth. The first rung is at 100 steps.
#[test]
fn halving_ends_four_two_and_one_and_finds_the_best() {
    let floors = [0.8, 0.3, 0.7, 0.6, 0.2, 0.1, 0.5, 0.4];
    let members: Vec<JobRequest> = (0..).zip(floors).map(|(id, floor)| member(id, floor, 1_000)).collect();
    for devices in [1, 3, 8] {
        let (outcomes, _, reasons) = simulated(&members, devices, "search=halving:rung=100");
        let steps: Vec<u64> = outcomes.iter().map(|row| row.steps).collect();
        assert_eq!(steps, [100, 200, 100, 100, 400, 1_000, 100, 200], "on {devices}");
        let is_best = |row: &Outcome| (row.name == "m5") == (row.status == Status::Ok);
        assert!(outcomes.iter().all(is_best), "{outcomes:?}");
        let ended = outcomes.iter().filter(|row| row.status == Status::EndedByPolicy).count();
        // n r for the first rung, n / 2 members more to 2 r, n / 4 from there to 4 r, and the last one to its end.
        let (n, r) = (8, 100);
        assert_eq!((ended, steps.iter().sum()), (7, n * r + n / 2 * r + n / 4 * 2 * r + (1_000 - 4 * r)));
        assert_eq!(reasons.len(), 3, "{reasons:?}");
        let worst = "search 's': m0 with a loss of 1.3116 is number 8 of 8 at 100 steps (kept: 4)";
        assert!(reasons[0].starts_with(worst), "{reasons:?}");
    }
    // The mean of the last ten of 100 steps.
    let curve = members[0].loss_curve.unwrap();
    assert_eq!(format!("{:.4}", curve.mean(90, 100).unwrap()), "1.3116");
    let thirds = simulated(&members, 8, "search=halving:rung=10:eta=3").0;
    let steps: Vec<u64> = thirds.iter().map(|row| row.steps).collect();
    assert_eq!(steps, [10, 10, 10, 10, 30, 1_000, 10, 10]);
}

/// Both searches are decided by themselves, and the job in no search is left alone.
#[test]
fn members_compete_with_those_of_their_search_alone() {
    let mut jobs: Vec<JobRequest> =
        (0..).zip([0.1, 0.2, 0.8, 0.9, 1.0]).map(|(id, floor)| member(id, floor, 50)).collect();
    jobs[2].search = Some("other".into());
    jobs[3].search = Some("other".into());
    jobs[4].search = None;
    let (outcomes, ..) = simulated(&jobs, 2, "search=halving:rung=20");
    assert_eq!(outcomes.iter().map(|row| row.steps).collect::<Vec<_>>(), [50, 20, 50, 20, 50]);
    let (outcomes, _, reasons) = simulated(&jobs, 2, "search=off");
    assert!(outcomes.iter().all(|row| row.steps == 50) && reasons.is_empty(), "{outcomes:?}");
}

/// It arrives when the others are on their way from the first rung to the second, and is compared at the second.
#[test]
fn a_late_member_joins_the_others_at_their_next_rung() {
    let mut members: Vec<JobRequest> =
        (0..).zip([0.1, 0.2, 0.3, 0.4, 0.05]).map(|(id, floor)| member(id, floor, 300)).collect();
    members[4].arrival = Nanos(120 * SECOND.0);
    let (outcomes, _, reasons) = simulated(&members, 5, "search=halving:rung=100");
    assert_eq!(outcomes.iter().map(|row| row.steps).collect::<Vec<_>>(), [200, 200, 100, 100, 300]);
    assert_eq!(outcomes[0].end_ns, Some(320 * SECOND.0), "it has waited for the late one");
    assert_eq!(reasons.len(), 2, "{reasons:?}");
}

#[test]
fn the_best_are_favoured_and_the_target_ends_the_search() {
    let floors = [0.4, 0.1, 0.3, 0.2];
    let members: Vec<JobRequest> = (0..).zip(floors).map(|(id, floor)| member(id, floor, 100)).collect();
    let (outcomes, policy, reasons) = simulated(&members, 4, "search=keep:keep=2");
    assert!(outcomes.iter().all(|row| row.status == Status::Ok) && reasons.is_empty());
    assert_eq!(policy.favoured, [(0, vec![]), (10, vec![1, 3]), (100, vec![])]);
    // On one device, each has its turn to the end, and those that have not run have no loss.
    let (_, policy, _) = simulated(&members, 1, "search=keep:keep=1");
    let of = |at, jobs: &[u32]| (at, jobs.to_vec());
    let turns = [of(0, &[]), of(10, &[0]), of(100, &[]), of(110, &[1]), of(200, &[]), of(210, &[2])];
    assert_eq!(policy.favoured[..6], turns);

    // 1 / (0.01 k + 1) + 0.1 is 0.7 for k = 66.7; the mean of steps 61 to 70 is above that, and that of 71 to 80 is not.
    let (outcomes, policy, reasons) = simulated(&members, 4, "search=keep:target=0.7");
    assert_eq!(outcomes.iter().map(|row| row.steps).collect::<Vec<_>>(), [80, 100, 80, 80]);
    let (ended, losses): (Vec<_>, Vec<_>) =
        outcomes.iter().map(|row| (row.status, row.loss.unwrap())).unzip();
    assert_eq!(ended.iter().filter(|status| **status == Status::EndedByPolicy).count(), 3);
    assert_eq!(losses[1], members[1].loss_curve.unwrap().mean(80, 90).unwrap());
    let reason = "search 's': m1 has reached a loss of 0.6700 after 80 steps";
    assert_eq!(reasons, [[reason; 3].join("; ")]);
    assert_eq!(policy.favoured.last(), Some(&(80, vec![])));
}

/// The members at a rung of 10 steps, by their steps, losses and states; those that are out, and those that are held.
fn at_rung(members: &[(u64, Option<f64>, MemberState)]) -> (Vec<u32>, Vec<u32>) {
    let mut halving = Halving::new(2, 10);
    let member = |(id, &(steps, loss, state)): (u32, &(u64, Option<f64>, MemberState))| {
        (JobId(id), Member { name: format!("m{id}"), steps, loss, state, out: None })
    };
    let mut members: BTreeMap<JobId, Member> = (0..).zip(members).map(member).collect();
    members.keys().for_each(|job| halving.add(*job));
    halving.decide("s", &mut members);
    let out = members.iter().filter(|(_, member)| member.out.is_some()).map(|(job, _)| job.0).collect();
    let held = members.iter().filter(|(job, member)| halving.holds(**job, member.steps));
    (out, held.map(|(job, _)| job.0).collect())
}

#[test]
fn failures_missing_losses_and_ties_do_not_hold_up_a_rung() {
    use MemberState::{Finished, Gone, Live};
    for (members, out, held) in [
        // One has not reached the rung.
        (vec![(10, Some(1.0), Live), (12, Some(2.0), Live), (9, Some(3.0), Live)], vec![], vec![0, 1]),
        // The one that failed is the worst, though its loss was the best.
        (
            vec![(10, Some(3.0), Live), (4, Some(0.1), Gone), (10, Some(2.0), Live), (10, Some(1.0), Live)],
            vec![0],
            vec![],
        ),
        // All but one have failed: it goes on.
        (vec![(3, None, Gone), (10, None, Live), (5, Some(1.0), Gone)], vec![], vec![]),
        (vec![(3, None, Gone), (5, Some(1.0), Gone)], vec![], vec![]),
        // A loss is better than none, and the lower number is better of two.
        (vec![(10, None, Live), (10, Some(9e9), Live)], vec![0], vec![]),
        (vec![(10, None, Live), (10, None, Live)], vec![1], vec![]),
        (vec![(10, Some(1.0), Live), (10, Some(1.0), Live), (10, Some(1.0), Live)], vec![1, 2], vec![]),
        // One that has finished is compared, and not ended.
        (vec![(10, Some(1.0), Finished), (10, Some(2.0), Live)], vec![1], vec![]),
        (vec![(10, Some(3.0), Finished), (10, Some(2.0), Live)], vec![], vec![]),
        // Reports may skip rungs: two of four at 10 steps, and one of them at 20.
        (
            vec![(40, Some(1.0), Live), (40, Some(2.0), Live), (40, Some(3.0), Live), (40, Some(4.0), Live)],
            vec![1, 2, 3],
            vec![],
        ),
        // The two that go on from 10 steps are held at 20 until both are there.
        (
            vec![(25, Some(1.0), Live), (10, Some(2.0), Live), (10, Some(3.0), Live), (10, Some(4.0), Live)],
            vec![2, 3],
            vec![0],
        ),
    ] {
        assert_eq!(at_rung(&members), (out, held), "{:?}", members);
    }
}
