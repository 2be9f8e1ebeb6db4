//! Searches whose members take turns.

use scheduler::{
    engine::{self, Engine},
    job::JobRequest,
    sim::{Named, Settings, Sim},
    view::Known,
};
use schema::{decision::Turn, rows::Status, units::Nanos};

use super::{HEAVY, Truth, World, job};
use crate::support::built;

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
