//! Migration.

use engine::{Engine, cluster::DeviceId, topology::Topology, view::PolicyContext};
use formats::decision::Turn;
use launches::{LaunchCluster, ResumePoint};
use model::switch_costs::Named;
use record::{placement::Placement, rows::Status};
use schema::units::Nanos;

use super::{APART, HEAVY, World, ends, job, reasons, starts};
use crate::{
    scripted::Scripted,
    support::{Own, SECOND, asked, built},
};

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
    for (per_node, starts_of_all) in [(2, 7), (1, 3)] {
        let world = World::new(Topology::uniform(2, per_node, "GPU"));
        let (turns, _) = world.run("gandiva:quantum=4s:pack=off:migrate=off", &jobs);
        assert_eq!(starts(&turns).len(), starts_of_all, "{per_node}");
    }
}

/// A restart of 6 s is longer than a quantum, and is 3 % of the time 200 s after the first start.
#[test]
fn a_job_moves_to_free_devices_with_a_long_restart_when_it_has_run_for_long() {
    let jobs = [job(0, HEAVY, (0, 1, 300)), job(1, HEAVY, (0, 1, 20)), job(2, HEAVY, (0, 1, 300))];
    let world = World { cost: Nanos(6 * SECOND), ..World::node(2) };
    let (turns, _) = world.run("gandiva:quantum=4s:pack=off", &jobs);
    let moved: Vec<f64> = starts(&turns).into_iter().skip(3).map(|(at, ..)| at).collect();
    assert!(moved.len() == 1 && (200.0..212.0).contains(&moved[0]), "{moved:?}");
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

/// Two pairs trade devices at the first turn after the single jobs have left, when the rates of both are known. A pair that is faster on two nodes makes both go back.
#[test]
fn two_spread_pairs_trade_devices_and_go_back_together_if_one_is_slower() {
    let world = World { placement: Placement::Spread, ..World::new(Topology::uniform(4, 2, "GPU")) };
    // The pair that is faster on two nodes ends first. Then the other one has room on a node.
    for (batch, starts_of_each) in [(HEAVY, [2, 2]), (APART, [4, 3])] {
        let jobs = [
            job(0, HEAVY, (0, 1, 10)),
            job(1, HEAVY, (0, 1, 32)),
            job(2, HEAVY, (0, 1, 32)),
            job(3, HEAVY, (5, 2, 200)),
            job(4, batch, (12, 2, 200)),
        ];
        let (turns, _) = world.run("gandiva:quantum=20s:moves=1:grow=off", &jobs);
        for (pair, starts_of_pair) in [3, 4].into_iter().zip(starts_of_each) {
            let of_pair: Vec<Vec<u32>> = starts(&turns)
                .into_iter()
                .filter(|(_, job, _)| *job == pair)
                .map(|(_, _, devices)| devices.iter().map(|device| device / 2).collect())
                .collect();
            assert_eq!(of_pair.len(), starts_of_pair, "{batch}: {pair}: {of_pair:?}");
            assert_eq!((&of_pair[0][..], of_pair[1][0]), (&[0, 1][..], of_pair[1][1]), "{of_pair:?}");
            assert!(of_pair.get(2).is_none_or(|nodes| *nodes == [0, 1]), "{of_pair:?}");
        }
        assert_eq!(reasons(&turns, "goes back").len(), usize::from(batch == APART), "it is not tried again");
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

/// The first job is being paused when the second one ends, and is to move there. The device is lost before it has rested.
#[test]
fn a_job_goes_on_where_it_is_if_the_devices_of_its_move_are_lost() {
    let topology = Topology::uniform(2, 1, "GPU");
    let (truth, costs) = (Own { slowdown: 1.0 }, Named::constant(Nanos::ZERO));
    let (quarter, step) = (SECOND / 4, 3 * SECOND);
    let jobs = [asked(0, 0, 1, 10, step), asked(1, 0, 1, 42, quarter), asked(2, 0, 1, 10, step)];
    let mut scripted = Scripted::new(&topology, &jobs, &truth, &costs);
    scripted.losses.push_back((Nanos(11 * SECOND), DeviceId(1)));
    let mut testbed = LaunchCluster::new(scripted, &jobs, None, ResumePoint::default());
    let known = PolicyContext { costs: Some(&costs), ..PolicyContext::default() };
    let mut engine = Engine::new(&topology, &jobs, &truth, engine::Settings::default()).knowing(known);
    let mut turns: Vec<Turn> = Vec::new();
    let policy = &mut *built("gandiva:quantum=10s:pack=off");
    let outcomes = engine::run(&mut engine, &mut testbed, policy, &mut turns);
    let outcomes = outcomes.unwrap_or_else(|error| panic!("{error}: {turns:#?}"));
    assert_eq!(reasons(&turns, "job-0 moves to n1/cuda:0").len(), 1, "{turns:#?}");
    assert!(outcomes.iter().all(|row| row.status == Status::Ok), "{outcomes:?}");
}
