//! Searches whose members take turns.

use engine::{Engine, cluster::ClusterError, job::JobRequest, view::PolicyContext};
use formats::{decision::Turn, rows::Outcome};
use launches::simulated::{self, Settings};
use model::switch_costs::Named;
use record::{rows::Status, suspension::Suspension};
use schema::units::Nanos;

use super::{HEAVY, Truth, World, job};
use crate::support::{SECOND, built};

/// Eight members whose losses fall to different floors, the lowest of which is that of the sixth.
fn members() -> Vec<JobRequest> {
    let floors = [0.9, 0.8, 0.7, 0.6, 0.5, 0.1, 0.3, 0.4];
    let member = |(id, floor): (u32, f64)| {
        job(id, HEAVY, (0, 1, 80)).with(|request| {
            request.search = Some("rates".into());
            request.loss_curve = Some(format!("0.01/1/{floor}").parse().expect("it is a curve"));
        })
    };
    (0..).zip(floors).map(member).collect()
}

fn run(world: &World, jobs: &[JobRequest], policy: &str) -> Result<Vec<Outcome>, ClusterError> {
    let costs = Named::constant(Nanos::ZERO);
    let settings = Settings { progress_every: Some(Nanos::SECOND), ..Settings::default() };
    let mut sim =
        simulated::cluster(&world.topology, jobs, Box::new(Truth), &costs, settings).expect("all is known");
    let known = PolicyContext { costs: Some(&costs), ..PolicyContext::default() };
    let settings = engine::Settings { suspension: world.suspension, ..engine::Settings::default() };
    let mut engine = Engine::new(&world.topology, jobs, &Truth, settings).knowing(known);
    let mut turns: Vec<Turn> = Vec::new();
    let ended = engine::run(&mut engine, &mut sim, &mut *built(policy), &mut turns);
    assert!(turns.iter().all(|turn| turn.refused.is_empty()), "{turns:?}");
    ended
}

#[test]
fn a_search_ends_all_members_but_the_best() {
    let run = |policy: &str| run(&World::node(2), &members(), policy).expect("every job ends");
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

/// The first member has two processes, which `cuda-checkpoint` does not suspend, and is at the rung 20 s before the other.
#[test]
fn a_member_that_cannot_be_suspended_goes_on_where_others_would_wait() {
    let mut jobs = members()[..2].to_vec();
    (jobs[0].devices, jobs[0].elastic, jobs[1].arrival) = (2, true, Nanos(20 * SECOND));
    let world = World { suspension: Suspension::CudaCheckpoint, ..World::node(3) };
    let outcomes = run(&world, &jobs, "gandiva:quantum=2s:search=halving:rung=200").expect("both end");
    assert_eq!(
        outcomes.iter().map(|row| row.status).collect::<Vec<_>>(),
        [Status::Ok, Status::EndedByPolicy]
    );
    assert_eq!((outcomes[0].end_ns, outcomes[0].paused_ns), (Some(80 * SECOND), Some(0)));
}

/// The first member waits at the rung with its device. The other cannot be suspended, and needs both.
#[test]
fn a_search_that_cannot_go_on_ends_the_run() {
    let mut jobs = members()[..2].to_vec();
    (jobs[1].devices, jobs[1].elastic) = (2, true);
    let world = World { suspension: Suspension::CudaCheckpoint, ..World::node(2) };
    let ended = run(&world, &jobs, "gandiva:quantum=2s:search=halving:rung=200");
    assert!(matches!(ended, Err(ClusterError::Stuck { waiting: 2 })), "{ended:?}");
}
