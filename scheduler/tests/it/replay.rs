//! Repeats the decisions of a run from its journal.

use std::collections::VecDeque;

use engine::{
    cluster::{Action, ActionError, Cluster, ClusterError, JobId, Settled},
    job::{JobRequest, State},
    replay::{self, Difference, replay},
    topology::Topology,
    view::View,
};
use formats::decision::{self, ClusterEvent, Turn};
use launches::simulated::{Faults, Settings};
use model::switch_costs::Named;
use record::rows::{ErrorKind, Status};
use scheduler::decisions::Decisions;
use schema::units::Nanos;

use crate::{
    restless::Restless,
    scripts,
    support::{Own, SECOND, World, asked, built},
};

fn with_world(check: impl FnOnce(&World<'_>)) {
    let topology = Topology::uniform(4, 2, "GPU");
    let job = |id: u32| asked(id, u64::from(id) * 3 * SECOND, 1 + id % 3, 5 + u64::from(id % 7), SECOND);
    let jobs: Vec<_> = (0..40).map(job).collect();
    let costs = Named::constant(Nanos(SECOND));
    // Half of the launches fail, so that jobs are restarted.
    let faults = Faults { launch_mtbf_ns: Some(20e9), ..Faults::default() };
    let settings = Settings { seed: 3, faults, ..Settings::default() };
    check(&World {
        topology: &topology,
        asked: &jobs,
        truth: Own { slowdown: 1.0 },
        costs: &costs,
        settings,
    });
}

#[test]
fn every_decision_is_derived_again() {
    with_world(|world| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decisions.jsonl");
        let outcomes = world.run(&mut *built("fifo"), &mut Decisions::open(&path).unwrap()).unwrap();
        assert!(outcomes.iter().any(|row| row.retries > 0));
        let turns = decision::read(&path).unwrap();
        let mut engine = world.engine();
        replay(&mut engine, &mut *built("fifo"), &turns).unwrap();
        assert_eq!(engine.outcomes().collect::<Vec<_>>(), outcomes);
    });
}

/// The journal has all that outcomes are made of, also where jobs were packed and actions were refused.
#[test]
fn outcomes_follow_from_a_journal_without_its_policy() {
    with_world(|world| {
        let (mut packed, mut refused) = (0, 0);
        for seed in 0..20 {
            let (turns, outcomes, _) = scripts::turns(world, &mut Restless::new(seed));
            packed += outcomes.iter().filter(|row| row.packed_ns > Some(0)).count();
            refused += turns.iter().map(|turn| turn.refused.len()).sum::<usize>();
            assert_eq!(replay::outcomes(&mut world.engine(), &turns).unwrap(), outcomes, "seed {seed}");
        }
        assert!(packed > 20 && refused > 20, "{packed} jobs were packed, and {refused} actions refused");
    });
}

#[test]
fn the_first_turn_that_is_decided_otherwise_is_shown_beside_the_recorded_one() {
    with_world(|world| {
        let (mut turns, ..) = scripts::turns(world, &mut *built("fifo"));
        turns[0].reason = "in the words of another version".into();
        replay(&mut world.engine(), &mut *built("fifo"), &turns).unwrap();
        let place = turns.iter().position(|turn| turn.turn > 20 && !turn.actions.is_empty()).unwrap();
        let Action::Start { devices, .. } = &mut turns[place].actions[0] else { panic!("all are started") };
        devices[0].0 ^= 1;
        let error = replay(&mut world.engine(), &mut *built("fifo"), &turns).unwrap_err();
        let ClusterError::Other(error) = error else { panic!("{error}") };
        let difference: Difference = error.downcast().unwrap();
        assert_eq!(*difference.recorded, turns[place]);
        assert_eq!(difference.decided.turn, turns[place].turn);
        assert_ne!(difference.decided.actions, turns[place].actions);
        assert!(
            difference.to_string().starts_with(&format!("turn {place} was decided otherwise\nrecorded: "))
        );
    });
}

/// A run that was killed at any point continues, on a cluster without launches and without a retry for any
/// job.
#[test]
fn a_run_goes_on_from_where_its_journal_ends() {
    with_world(|world| {
        let (turns, ..) = scripts::turns(world, &mut *built("fifo"));
        for torn in [0, 1, 17, turns.len() / 2, turns.len() - 1, turns.len()] {
            let (mut engine, mut policy) = (world.engine(), built("fifo"));
            replay(&mut engine, &mut *policy, &turns[..torn]).unwrap();
            let retries: Vec<u32> = engine.outcomes().map(|row| row.retries).collect();
            let mut cluster = Prompt::after(&turns[..torn], world.asked, &engine.view());
            let mut more = Vec::new();
            let outcomes = engine::run(&mut engine, &mut cluster, &mut *policy, &mut more).unwrap();
            assert!(more.iter().map(|turn| turn.turn).eq(torn as u64..(torn + more.len()) as u64));
            for (row, retries) in outcomes.iter().zip(retries) {
                assert_eq!(row.retries, retries, "{}", row.name);
                assert!(
                    row.status == Status::Ok && Some(row.steps) == row.steps_asked || row.retries == 2,
                    "{row:?}"
                );
            }
        }
    });
}

/// A cluster in which every started job ends a second later.
struct Prompt<'a> {
    now: Nanos,
    events: VecDeque<ClusterEvent>,
    to_come: &'a [JobRequest],
}

impl<'a> Prompt<'a> {
    fn after(turns: &[Turn], asked: &'a [JobRequest], view: &View<'_>) -> Prompt<'a> {
        let is_placed = |id: &JobId| matches!(view.jobs[id.0 as usize].state, State::Placed(_));
        let gone = |job| ClusterEvent::Failed {
            job,
            steps: 0,
            kind: ErrorKind::Interrupted,
            detail: "the scheduler died".into(),
        };
        let is_arrival =
            |(_, happened): &(Nanos, &ClusterEvent)| matches!(happened, ClusterEvent::Arrived { .. });
        let arrived = scripts::events(turns).filter(is_arrival).count();
        Prompt {
            now: turns.last().map_or(Nanos::ZERO, |turn| turn.at_ns),
            events: asked.iter().map(|asked| asked.id).filter(is_placed).map(gone).collect(),
            to_come: &asked[arrived..],
        }
    }
}

impl Cluster for Prompt<'_> {
    fn now(&self) -> Nanos {
        self.now
    }

    fn apply(&mut self, action: &Action) -> Result<(), ActionError> {
        let job = action.job();
        self.events.push_back(ClusterEvent::Settled { job, now: Settled::Running, steps: 0 });
        let steps = 5 + u64::from(job.0 % 7);
        self.events.push_back(ClusterEvent::Finished { job, steps });
        Ok(())
    }

    fn next(&mut self, _deadline: Option<Nanos>) -> Result<Vec<ClusterEvent>, ClusterError> {
        self.now += Nanos::SECOND;
        if let Some(event) = self.events.pop_front() {
            return Ok(vec![event]);
        }
        let (first, rest) = self.to_come.split_first().ok_or(ClusterError::Nothing)?;
        self.to_come = rest;
        self.now = self.now.max(first.arrival);
        Ok(vec![ClusterEvent::Arrived { job: first.id }])
    }
}
