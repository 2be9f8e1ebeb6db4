//! Gandiva: each of its mechanisms where nothing else explains the schedule.

use jobs::plans::Judgement;
use model::{Prediction, Question, Throughput};
use scheduler::{
    cluster::{Action, Happened, JobId},
    engine::{self, Engine},
    job::{JobRequest, Payload},
    legal_plans::LegalPlans,
    sim::{Named, Settings, Sim},
    topology::Topology,
    view::Known,
};
use schema::{
    catalog::Catalog,
    decision::Turn,
    placement::Placement,
    rows::{Outcome, Status},
    suspension::Suspension,
    units::Nanos,
};

use crate::{
    rubick::EndsAfter,
    scripts::events,
    support::{SECOND, asked, built},
};

/// A step takes the time in the trace. Beside others it takes 1.2 times as long if the batch is `LIGHT`, and 2.5 times if it is not. It
/// takes 1.5 times as long on two nodes, but for a batch of `APART`, which is faster there. Data parallelism divides it, but for a batch
/// of `POOR`, which is slower.
struct Truth;

const LIGHT: u32 = 8;
const HEAVY: u32 = 16;
const APART: u32 = 32;
const POOR: u32 = 64;

impl Throughput for Truth {
    fn predict(&self, question: &Question<'_>) -> Option<Prediction> {
        let batch = question.job.global_batch?;
        let beside: f64 = match batch {
            LIGHT => 1.2,
            _ => 2.5,
        };
        let nodes = match (question.placement.len(), batch) {
            (1, _) => 1.0,
            (_, APART) => 0.8,
            _ => 1.5,
        };
        let devices = f64::from(question.placement.iter().sum::<u32>());
        let parallel = match batch {
            POOR => 1.5 * devices - 0.5,
            _ => 1.0 / devices,
        };
        let step_ns = 0.1 * SECOND as f64 * nodes * beside.powi(question.co_runners.len() as i32);
        let is_elastic = question.job.plan.is_some();
        Some(Prediction { step_ns: step_ns * if is_elastic { parallel } else { 1.0 }, step_ns_ci: None })
    }
}

struct World {
    topology: Topology,
    reports: bool,
    placement: Placement,
    suspension: Suspension,
    cost: Nanos,
}

impl World {
    fn new(topology: Topology) -> World {
        let (placement, suspension) = (Placement::Consolidated, Suspension::Pause);
        World { topology, reports: true, placement, suspension, cost: Nanos::ZERO }
    }

    fn node(devices: u32) -> World {
        World::new(Topology::uniform(devices, devices, "GPU"))
    }

    fn run(&self, policy: &str, jobs: &[JobRequest]) -> (Vec<Turn>, Vec<Outcome>) {
        let costs = Named::constant(self.cost);
        let settings =
            Settings { progress_every: self.reports.then_some(Nanos::SECOND), ..Settings::default() };
        let mut sim =
            Sim::new(&self.topology, jobs, Box::new(Truth), &costs, settings).expect("all is known");
        let fits = |_: &_, _, _: &_, _: (&_, &[_])| Judgement::default();
        let plans = LegalPlans::new(jobs, &Catalog::embedded(), &self.topology, fits);
        let known = Known { costs: Some(&costs), plans: Some(&plans), ..Known::default() };
        let settings = engine::Settings {
            placement: self.placement,
            suspension: self.suspension,
            ..engine::Settings::default()
        };
        let mut engine = Engine::new(&self.topology, jobs, &Truth, settings).knowing(known);
        let mut turns = Vec::new();
        let outcomes = engine::run(&mut engine, &mut sim, &mut *built(policy), &mut turns);
        let outcomes = outcomes.unwrap_or_else(|error| panic!("{error}: {turns:#?}"));
        assert!(turns.iter().all(|turn| turn.refused.is_empty()), "{turns:?}");
        assert!(outcomes.iter().all(|row| row.status == Status::Ok), "{outcomes:?}");
        (turns, outcomes)
    }
}

/// A job with this batch: `(arrival, devices, length alone)` in seconds.
fn job(id: u32, batch: u32, (arrival, devices, length): (u64, u32, u64)) -> JobRequest {
    let what = Payload::Training { workload: "lstm".into(), global_batch: Some(batch) };
    JobRequest { what, ..asked(id, arrival * SECOND, devices, length * 10, SECOND / 10) }
}

/// The same as an elastic job.
fn elastic(id: u32, batch: u32, (arrival, length): (u64, u64)) -> JobRequest {
    let plan = Some("dp1".parse().expect("it is a plan"));
    JobRequest { elastic: true, plan, step_ns: None, ..job(id, batch, (arrival, 1, length)) }
}

fn ends(outcomes: &[Outcome]) -> Vec<f64> {
    outcomes.iter().map(|row| row.end_ns.expect("it ended") as f64 / 1e9).collect()
}

/// `(second, job, devices)` of each start.
fn starts(turns: &[Turn]) -> Vec<(f64, u32, Vec<u32>)> {
    let start = |turn: &Turn, action: &Action| match action {
        Action::Start { job, devices, .. } => {
            Some((turn.at_ns.as_secs_f64(), job.0, devices.iter().map(|device| device.0).collect()))
        }
        _ => None,
    };
    turns.iter().flat_map(|turn| turn.actions.iter().filter_map(|action| start(turn, action))).collect()
}

fn reasons<'a>(turns: &'a [Turn], what: &'a str) -> Vec<&'a str> {
    turns.iter().map(|turn| &*turn.reason).filter(|reason| reason.contains(what)).collect()
}

/// The steps that jobs had done by this second, by the reports up to then.
fn steps_at(turns: &[Turn], second: u64, jobs: usize) -> Vec<u64> {
    let mut done = vec![0; jobs];
    for (at, happened) in events(turns) {
        if at.0 <= second * SECOND
            && let Happened::Progress { job, steps, .. } | Happened::Settled { job, steps, .. } = happened
        {
            done[job.0 as usize] = *steps;
        }
    }
    done
}

#[test]
fn six_jobs_on_two_devices_have_equal_shares() {
    let jobs: Vec<_> = (0..6).map(|id| job(id, HEAVY, (0, 1, 60))).collect();
    let (turns, outcomes) = World::node(2).run("gandiva:quantum=2s:pack=off", &jobs);
    // Three jobs on each device have a third of 90 s each.
    let done = steps_at(&turns, 90, 6);
    assert!(done.iter().all(|done| (280..=320).contains(done)), "{done:?}");
    let ends = ends(&outcomes);
    assert!(ends.iter().all(|end| *end >= 174.0), "the last turns: {ends:?}");
    assert!(ends.iter().copied().fold(0.0, f64::max) <= 180.5, "turns lose nothing: {ends:?}");
}

#[test]
fn shares_are_by_weight() {
    let mut jobs: Vec<_> = (0..2).map(|id| job(id, HEAVY, (0, 1, 60))).collect();
    jobs[0].weight = 2;
    let (_, outcomes) = World::node(1).run("gandiva:quantum=1s:pack=off", &jobs);
    let ends = ends(&outcomes);
    assert!((89.0..=91.0).contains(&ends[0]), "two thirds of the time: {ends:?}");
    assert!((120.0..=120.5).contains(&ends[1]), "{ends:?}");
}

#[test]
fn a_higher_priority_is_never_suspended_for_a_lower_one() {
    let mut jobs = vec![job(0, HEAVY, (0, 1, 30)), job(1, HEAVY, (5, 1, 20)), job(2, HEAVY, (7, 1, 10))];
    jobs[1].priority = 1;
    let (_, outcomes) = World::node(1).run("gandiva:quantum=4s:pack=off", &jobs);
    let ends = ends(&outcomes);
    assert!((ends[1] - 25.0).abs() < 0.3, "it runs at once, to its end: {ends:?}");
    assert!(ends[2] <= 46.0 && ends[0] >= 59.9, "the others take turns: {ends:?}");
}

#[test]
fn light_jobs_are_packed_after_they_were_measured_and_stay_packed() {
    let jobs: Vec<_> = (0..2).map(|id| job(id, LIGHT, (0, 1, 100))).collect();
    let (turns, outcomes) = World::node(1).run("gandiva:quantum=10s:reports=3", &jobs);
    assert_eq!(reasons(&turns, "tries").len(), 1);
    let kept = reasons(&turns, "stays beside");
    assert_eq!(kept.len(), 1, "{kept:?}");
    let sum: f64 = kept[0].split(' ').nth(4).expect("it names the sum").parse().expect("it is a number");
    assert!((sum - 2.0 / 1.2).abs() < 0.02, "two jobs at 1 / 1.2 of their speed alone: {kept:?}");
    let last = ends(&outcomes).into_iter().fold(0.0, f64::max);
    assert!(last < 135.0, "in turns they would take 200 s: {last}");
    let (_, outcomes) = World::node(1).run("gandiva:quantum=10s:reports=3:pack=off", &jobs);
    assert!(ends(&outcomes).into_iter().fold(0.0, f64::max) >= 200.0);
}

#[test]
fn a_pack_that_loses_is_tried_once_and_undone() {
    let jobs: Vec<_> = (0..3).map(|id| job(id, HEAVY, (0, 1, 100))).collect();
    let (turns, outcomes) = World::node(1).run("gandiva:quantum=10s:reports=3", &jobs);
    assert_eq!(reasons(&turns, "tries").len(), 1, "jobs like these are not tried again");
    let undone = reasons(&turns, "no longer beside");
    assert_eq!(undone.len(), 1);
    assert!(undone[0].contains("0.800 ± "), "two jobs at 1 / 2.5: {undone:?}");
    let last = ends(&outcomes).into_iter().fold(0.0, f64::max);
    assert!(last < 304.0, "the trial costs a few seconds: {last}");
}

#[test]
fn without_reports_jobs_take_turns_and_are_not_packed() {
    let jobs: Vec<_> = (0..2).map(|id| job(id, LIGHT, (0, 1, 50))).collect();
    let world = World { reports: false, ..World::node(1) };
    let (turns, outcomes) = world.run("gandiva:quantum=5s", &jobs);
    assert_eq!(reasons(&turns, "tries").len(), 0);
    assert!(ends(&outcomes).into_iter().fold(0.0, f64::max) >= 100.0);
}

#[test]
fn a_suspended_job_moves_to_devices_that_become_free() {
    // The first two jobs are on the first device and the second; the third shares that of the first.
    let jobs = [job(0, HEAVY, (0, 1, 60)), job(1, HEAVY, (0, 1, 20)), job(2, HEAVY, (1, 1, 60))];
    let (turns, outcomes) = World::node(2).run("gandiva:quantum=4s:pack=off", &jobs);
    let moved: Vec<_> = starts(&turns).into_iter().filter(|(at, job, _)| *job == 2 && *at > 19.0).collect();
    assert_eq!(moved.iter().map(|(_, _, devices)| devices.clone()).collect::<Vec<_>>(), [vec![1]]);
    let ends = ends(&outcomes);
    // From 20 s on each of the two has a device; by then they have shared the first for 19 s.
    assert!(ends[0] < 71.5 && ends[2] < 72.5, "{ends:?}");
    // Without migration, it moves within its node only.
    for (per_node, starts_of_all) in [(2, 4), (1, 3)] {
        let world = World::new(Topology::uniform(2, per_node, "GPU"));
        let (turns, _) = world.run("gandiva:quantum=4s:pack=off:migrate=off", &jobs);
        assert_eq!(starts(&turns).len(), starts_of_all, "{per_node}");
    }
}

#[test]
fn a_job_on_two_nodes_moves_to_one_that_has_room_and_back_if_it_is_slower() {
    let world = World { placement: Placement::Spread, ..World::new(Topology::uniform(4, 2, "GPU")) };
    for (batch, moves) in [(HEAVY, 1), (APART, 2)] {
        // The pair has one device of each node until the second job leaves the first node.
        let jobs = [
            job(0, HEAVY, (0, 1, 10)),
            job(1, HEAVY, (0, 1, 30)),
            job(2, HEAVY, (0, 1, 200)),
            job(3, batch, (12, 2, 100)),
        ];
        let (turns, outcomes) = world.run("gandiva:quantum=5s:moves=1:grow=off", &jobs);
        let of_pair: Vec<Vec<u32>> = starts(&turns)
            .into_iter()
            .filter(|(_, job, _)| *job == 3)
            .map(|(_, _, devices)| devices)
            .collect();
        assert_eq!(of_pair.len(), 1 + moves, "{batch}: {of_pair:?}");
        assert_eq!(of_pair[1].iter().map(|device| device / 2).collect::<Vec<_>>(), [0, 0], "{of_pair:?}");
        let end = ends(&outcomes)[3];
        if batch == HEAVY {
            // 18 s at 1 / 1.5 of the speed, and the rest at full speed.
            assert!((117.5..=119.0).contains(&end), "{end}");
        } else {
            assert_eq!(of_pair[2], of_pair[0]);
            assert_eq!(reasons(&turns, "goes back").len(), 1, "it is not tried again");
        }
    }
}

#[test]
fn a_node_that_is_mostly_free_is_emptied() {
    let world = World::new(Topology::uniform(8, 4, "GPU"));
    // Four jobs fill the first node, and the fifth is alone on the second. When one of the four ends, the fifth takes its device.
    let mut jobs: Vec<_> = (0..5).map(|id| job(id, HEAVY, (0, 1, if id == 2 { 10 } else { 100 }))).collect();
    jobs.push(job(5, HEAVY, (30, 4, 10)));
    let (turns, outcomes) = world.run("gandiva:quantum=5s:moves=1", &jobs);
    let of = |job: u32| -> Vec<Vec<u32>> {
        starts(&turns).into_iter().filter(|(_, of, _)| *of == job).map(|(_, _, devices)| devices).collect()
    };
    assert_eq!(of(4), [vec![4], vec![2]]);
    assert_eq!(of(5), [vec![4, 5, 6, 7]], "the second node is whole again");
    assert!((ends(&outcomes)[5] - 40.0).abs() < 0.1);
    // A move costs 2 s, which is 3 % of the time when the job has run for 67 s.
    let world = World { cost: Nanos(2 * SECOND), ..world };
    let (turns, _) = world.run("gandiva:quantum=5s", &jobs[..5]);
    let of_last: Vec<f64> =
        starts(&turns).into_iter().filter(|(_, job, _)| *job == 4).map(|(at, _, _)| at).collect();
    assert!(of_last.len() == 2 && (67.0..76.0).contains(&of_last[1]), "{of_last:?}");
}

#[test]
fn an_elastic_job_grows_when_devices_are_free_and_shrinks_at_once() {
    let jobs = [elastic(0, LIGHT, (0, 400)), job(1, HEAVY, (0, 1, 10)), job(2, HEAVY, (60, 2, 10))];
    let (turns, _) = World::node(4).run("gandiva:quantum=5s:reports=3", &jobs);
    let sizes: Vec<(f64, usize)> = starts(&turns)
        .into_iter()
        .filter(|(_, job, _)| *job == 0)
        .map(|(at, _, devices)| (at, devices.len()))
        .collect();
    assert_eq!(
        sizes.iter().map(|(_, size)| *size).collect::<Vec<_>>(),
        [1, 2, 4, 1, 2, 4][..sizes.len()],
        "{sizes:?}"
    );
    assert!(sizes.len() >= 4 && sizes[1].0 >= 5.0 && sizes[2].0 < 40.0, "{sizes:?}");
    assert!(sizes[3].0 < 61.5, "it shrinks when the job comes: {sizes:?}");
    let others: Vec<(f64, u32, Vec<u32>)> =
        starts(&turns).into_iter().filter(|(_, job, _)| *job == 2).collect();
    assert!(others[0].0 < 61.5, "{others:?}");
    let (turns, _) = World::node(4).run("gandiva:quantum=5s:reports=3:grow=off", &jobs);
    assert_eq!(starts(&turns).len(), 3);
}

#[test]
fn growth_that_makes_a_job_slower_is_undone_and_not_tried_again() {
    let jobs = [elastic(0, POOR, (0, 100))];
    let (turns, outcomes) = World::node(2).run("gandiva:quantum=5s:reports=3", &jobs);
    let sizes: Vec<usize> = starts(&turns).into_iter().map(|(_, _, devices)| devices.len()).collect();
    assert_eq!(sizes, [1, 2, 1]);
    let undone = reasons(&turns, "goes back");
    assert!(undone[0].contains("0.400 ± "), "{undone:?}");
    assert!(ends(&outcomes)[0] < 110.0);
}

#[test]
fn under_the_tier_of_checkpoints_jobs_are_stopped_and_started_again() {
    let jobs: Vec<_> = (0..2).map(|id| job(id, HEAVY, (0, 1, 20))).collect();
    let world = World { suspension: Suspension::Checkpoint, ..World::node(1) };
    let (turns, outcomes) = world.run("gandiva:quantum=4s:pack=off", &jobs);
    let actions: Vec<&Action> = turns.iter().flat_map(|turn| &turn.actions).collect();
    assert!(
        actions.iter().all(|action| matches!(action, Action::Start { .. } | Action::Stop { .. })),
        "{actions:?}"
    );
    assert!(actions.len() >= 14, "{actions:?}");
    assert!(ends(&outcomes).iter().all(|end| (35.0..=40.5).contains(end)), "{outcomes:?}");
    assert!(outcomes.iter().all(|row| row.steps_lost == 0));
}

#[test]
fn a_job_of_two_devices_takes_turns_with_jobs_of_one() {
    let jobs = [job(0, HEAVY, (0, 1, 60)), job(1, HEAVY, (0, 1, 60)), job(2, HEAVY, (0, 2, 60))];
    let (turns, outcomes) = World::node(2).run("gandiva:quantum=3s:pack=off:relax=1s", &jobs);
    let done = steps_at(&turns, 60, 3);
    assert!(done.iter().all(|done| (260..=340).contains(done)), "{done:?}");
    assert!(ends(&outcomes).iter().all(|end| *end <= 121.0), "{outcomes:?}");
}

/// A node of another affinity is shared only when a job has waited.
#[test]
fn jobs_of_one_size_are_kept_together() {
    let world = World::new(Topology::uniform(4, 2, "GPU"));
    let jobs = [
        job(0, HEAVY, (0, 1, 100)),
        job(1, HEAVY, (0, 2, 100)),
        job(2, HEAVY, (1, 1, 100)),
        job(3, HEAVY, (2, 2, 100)),
        job(4, HEAVY, (3, 1, 100)),
    ];
    let (turns, _) = world.run("gandiva:quantum=5s:pack=off:migrate=off", &jobs);
    let devices: Vec<_> = starts(&turns).into_iter().map(|(_, job, devices)| (job, devices)).collect();
    assert_eq!(devices[..5], [(0, vec![0]), (1, vec![2, 3]), (2, vec![1]), (3, vec![2, 3]), (4, vec![0])]);
    let jobs = [job(0, HEAVY, (0, 1, 300)), job(1, HEAVY, (0, 1, 300)), job(2, HEAVY, (1, 2, 10))];
    let (turns, _) = World::node(2).run("gandiva:quantum=5s:pack=off:relax=20s", &jobs);
    let of_pair: Vec<_> = starts(&turns).into_iter().filter(|(_, job, _)| *job == 2).collect();
    assert!(of_pair[0].0 >= 21.0 && of_pair[0].0 <= 30.0, "{of_pair:?}");
}

#[test]
fn two_jobs_share_a_switch_cost_that_is_small_beside_the_quantum() {
    let jobs: Vec<_> = (0..2).map(|id| job(id, HEAVY, (0, 1, 120))).collect();
    let world = World { cost: Nanos(SECOND / 5), ..World::node(1) };
    let (_, outcomes) = world.run("gandiva:quantum=20s:pack=off", &jobs);
    let last = ends(&outcomes).into_iter().fold(0.0, f64::max);
    // A resumption every 20 s costs 0.2 s.
    assert!((242.0..=243.5).contains(&last), "{last}");
}

/// Eight members whose losses fall to different floors, the lowest of which is that of the sixth.
fn members() -> Vec<JobRequest> {
    let floors = [0.9, 0.8, 0.7, 0.6, 0.5, 0.1, 0.3, 0.4];
    let member = |(id, floor): (u32, f64)| JobRequest {
        search: Some("rates".into()),
        loss_curve: Some(format!("0.01/1/{floor}").parse().expect("it is a curve")),
        ..job(id, HEAVY, (0, 1, 80))
    };
    (0..).zip(floors).map(member).collect()
}

#[test]
fn a_search_ends_all_members_but_the_best() {
    let world = World::node(2);
    let run = |policy: &str| {
        let costs = Named::constant(Nanos::ZERO);
        let settings = Settings { progress_every: Some(Nanos::SECOND), ..Settings::default() };
        let jobs = members();
        let mut sim =
            Sim::new(&world.topology, &jobs, Box::new(Truth), &costs, settings).expect("all is known");
        let known = Known { costs: Some(&costs), ..Known::default() };
        let mut engine =
            Engine::new(&world.topology, &jobs, &Truth, engine::Settings::default()).knowing(known);
        let mut turns: Vec<Turn> = Vec::new();
        engine::run(&mut engine, &mut sim, &mut *built(policy), &mut turns).expect("every job ends")
    };
    let outcomes = run("gandiva:quantum=2s:pack=off:search=halving:eta=2:rung=100");
    let finished: Vec<u32> =
        outcomes.iter().filter(|row| row.status == Status::Ok).map(|row| row.job.0).collect();
    assert_eq!(finished, [5]);
    let ended = outcomes.iter().filter(|row| row.status == Status::EndedByPolicy).count();
    assert_eq!(ended, 7);
    // 8 members do 100 steps, 4 of them 100 more, 2 of these 200 more, and the last one 400 more: 200 s at 100 ms. All of them to
    // their ends would take 640 s. A member goes on for up to a quantum after it has reached a rung.
    let device_s: f64 = outcomes.iter().filter_map(|row| row.device_time_ns).sum::<u64>() as f64 / 1e9;
    assert!((200.0..230.0).contains(&device_s), "{device_s}");

    let outcomes = run("gandiva:quantum=2s:pack=off:search=keep:keep=1:target=0.25");
    let reached = outcomes.iter().filter(|row| row.status == Status::EndedByPolicy).count();
    assert!(reached >= 7, "the search is over when one has a loss of 0.25: {outcomes:?}");
    let device_s: f64 = outcomes.iter().filter_map(|row| row.device_time_ns).sum::<u64>() as f64 / 1e9;
    assert!(device_s < 320.0, "{device_s}");
}

/// The simulated cluster has no time of the wider plan, so that its start is refused.
#[test]
fn growth_that_is_refused_is_taken_back() {
    struct OneDevice;
    impl Throughput for OneDevice {
        fn predict(&self, question: &Question<'_>) -> Option<Prediction> {
            (question.placement == [1]).then_some(Prediction { step_ns: 1e8, step_ns_ci: None })
        }
    }
    let (topology, jobs) = (Topology::uniform(2, 2, "GPU"), [elastic(0, LIGHT, (0, 60))]);
    let costs = Named::constant(Nanos::ZERO);
    let settings = Settings { progress_every: Some(Nanos::SECOND), ..Settings::default() };
    let mut sim = Sim::new(&topology, &jobs, Box::new(OneDevice), &costs, settings).expect("all is known");
    let fits = |_: &_, _, _: &_, _: (&_, &[_])| Judgement::default();
    let plans = LegalPlans::new(&jobs, &Catalog::embedded(), &topology, fits);
    let known = Known { costs: Some(&costs), plans: Some(&plans), ..Known::default() };
    let mut engine = Engine::new(&topology, &jobs, &OneDevice, engine::Settings::default()).knowing(known);
    let mut turns: Vec<Turn> = Vec::new();
    let outcomes =
        engine::run(&mut engine, &mut sim, &mut *built("gandiva:quantum=5s:reports=3"), &mut turns);
    let outcomes = outcomes.unwrap_or_else(|error| panic!("{error}: {turns:?}"));
    let refused: Vec<_> = turns.iter().flat_map(|turn| &turn.refused).collect();
    assert_eq!(refused.len(), 1, "it is tried once: {refused:?}");
    assert!((60.0..66.0).contains(&ends(&outcomes)[0]), "it starts again at the next turn: {outcomes:?}");
}

/// What the policy says of a job at a second.
fn said(policy: &str, jobs: &[JobRequest], second: u64, job: u32) -> String {
    let topology = Topology::uniform(1, 1, "GPU");
    let costs = Named::constant(Nanos::ZERO);
    let settings = Settings { progress_every: Some(Nanos::SECOND), ..Settings::default() };
    let sim = Sim::new(&topology, jobs, Box::new(Truth), &costs, settings).expect("all is known");
    let mut engine = Engine::new(&topology, jobs, &Truth, engine::Settings::default());
    let mut policy = built(policy);
    let mut turns: Vec<Turn> = Vec::new();
    let mut until = EndsAfter { sim, at: Nanos(second * SECOND) };
    engine::run(&mut engine, &mut until, &mut *policy, &mut turns).expect_err("it ends before the jobs");
    policy.explain(&engine.view(), JobId(job))
}

#[test]
fn a_job_is_explained_by_its_devices_and_the_jobs_there() {
    let heavy: Vec<_> = (0..2).map(|id| job(id, HEAVY, (0, 1, 100))).collect();
    let policy = "gandiva:quantum=10s:reports=3";
    let text = said(policy, &heavy[..1], 5, 0);
    assert_eq!(text, "it takes turns with no other job on n0/cuda:0");
    let text = said(policy, &heavy, 5, 1);
    assert_eq!(
        text,
        "it takes turns on n0/cuda:0 with job-0; with weight 1 it has had 0.0 s there by its weight"
    );
    let text = said(policy, &heavy, 80, 1);
    assert!(
        text.contains("it is not packed with job-0, because such jobs lost or did not fit together"),
        "{text}"
    );
    let light: Vec<_> = (0..2).map(|id| job(id, LIGHT, (0, 1, 100))).collect();
    let text = said(policy, &light, 60, 0);
    assert!(
        text.starts_with("it takes turns with no other job on n0/cuda:0; it is packed with job-1, 1.6"),
        "{text}"
    );
    let text = said("gandiva:slice=off:pack=off", &heavy, 5, 1);
    assert_eq!(text, "it is number 1 of 1 in the queue; no node of its affinity has room for it");
}
