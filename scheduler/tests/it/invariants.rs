//! Invariants for any policy and any failure: no device is over-used, no job is lost or run twice, service
//! only grows, every account adds up, and every job ends or waits.

use std::collections::BTreeMap;

use engine::{
    cluster::{DeviceId, JobId},
    job::{Account, JobRequest, State},
    journal::Journal,
    replay::replay,
    topology::Topology,
    view::View,
};
use formats::decision::{ClusterEvent, Settled, Turn};
use launches::simulated::{Faults, Settings};
use model::switch_costs::Named;
use proptest::prelude::*;
use record::rows::{ErrorKind, Status};
use schema::units::Nanos;

use crate::{
    restless::Restless,
    scripts::{MS, events},
    support::{Own, World, asked},
};

/// Checks everything after every turn.
#[derive(Default)]
struct Watch {
    turns: Vec<Turn>,
    ended: BTreeMap<JobId, State>,
    accounts: Vec<Account>,
    steps: Vec<u64>,
    arrived: usize,
}

impl Journal for Watch {
    fn record(&mut self, turn: Turn, view: &View<'_>) -> anyhow::Result<()> {
        self.arrived += turn.events.iter().filter(|it| matches!(it, ClusterEvent::Arrived { .. })).count();
        self.check_devices(view);
        self.accounts.resize(view.jobs.len(), Account::default());
        self.steps.resize(view.jobs.len(), 0);
        for place in 0..self.arrived {
            self.check_job(JobId(place as u32), &turn, view);
        }
        self.turns.push(turn);
        Ok(())
    }
}

impl Watch {
    fn check_devices(&self, view: &View<'_>) {
        let mut kept = vec![Vec::new(); view.topology.devices() as usize];
        for (job, place) in view.jobs.iter().zip(0..) {
            if let State::Placed(placed) = &job.state {
                for device in placed.devices.iter().filter(|_| !placed.phase.has_left()) {
                    kept[device.0 as usize].push(JobId(place));
                }
            }
        }
        let mut free = 0;
        for (place, mut expected) in (0..).zip(kept) {
            let device = DeviceId(place);
            let mut found = view.occupancy.kept_by(device).to_vec();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "device {place}");
            assert!(
                found.len() <= 2 && found.windows(2).all(|pair| pair[0] != pair[1]),
                "device {place}: {found:?}"
            );
            assert!(!view.occupancy.is_lost(device) || found.is_empty(), "device {place} is lost");
            free += u32::from(found.is_empty() && !view.occupancy.is_lost(device));
        }
        assert_eq!(view.occupancy.free(), free);
    }

    fn check_job(&mut self, id: JobId, turn: &Turn, view: &View<'_>) {
        let place = id.0 as usize;
        let (asked, job) = (&view.asked[place], &view.jobs[place]);
        if let Some(state) = self.ended.get(&id) {
            assert_eq!(state, &job.state, "what has ended stays so");
            return;
        }
        let until = match job.state {
            State::Ended { at, .. } => at,
            _ => view.now,
        };
        let account = job.account_at(until);
        let sum = account.queued + account.switching + account.running + account.paused;
        assert_eq!(sum, until - asked.arrival, "{id:?}: {account:?}");
        let before = std::mem::replace(&mut self.accounts[place], account.clone());
        let grows = |time: fn(&Account) -> Nanos| time(&before) <= time(&account);
        assert!(
            grows(|a| a.device_time) && grows(|a| a.running) && grows(|a| a.queued) && grows(|a| a.paused)
        );
        assert!(before.starts <= account.starts && before.steps_lost <= account.steps_lost);
        let falls_back = turn.events.iter().any(|happened| match happened {
            ClusterEvent::Failed { job, .. } | ClusterEvent::Settled { job, now: Settled::Stopped, .. } => {
                *job == id
            }
            _ => false,
        });
        assert!(job.steps >= self.steps[place] || falls_back, "{id:?} lost steps at {:?}", turn.events);
        assert!(Some(job.steps) <= asked.steps);
        self.steps[place] = job.steps;
        if matches!(job.state, State::Ended { .. }) {
            self.ended.insert(id, job.state.clone());
        }
    }
}

fn jobs() -> impl Strategy<Value = Vec<JobRequest>> {
    let job = (0..20_000 * MS, 1..4u32, 1..40u64, 1..2_000 * MS);
    prop::collection::vec(job, 1..12).prop_map(|mut jobs| {
        jobs.sort_by_key(|(arrival, ..)| *arrival);
        let job = |(id, (arrival, devices, steps, step_ns))| asked(id, arrival, devices, steps, step_ns);
        (0..).zip(jobs).map(job).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_policy_and_no_fault_breaks_what_must_hold(
        jobs in jobs(),
        seed in any::<u64>(),
        has_faults in any::<bool>(),
        progress_ms in prop::option::of(100..5_000u64),
        checkpoint_ms in prop::option::of(500..5_000u64),
    ) {
        let topology = Topology::uniform(4, 3, "GPU");
        let costs = Named::constant(Nanos(300 * MS));
        let faults = Faults { device_mtbf_ns: Some(60e9), device_repair_ns: 5e9, launch_mtbf_ns: Some(60e9) };
        let settings = Settings {
            seed,
            noise: 0.1,
            progress_every: progress_ms.map(|ms| Nanos(ms * MS)),
            checkpoint_every: checkpoint_ms.map(|ms| Nanos(ms * MS)),
            faults: if has_faults { faults } else { Faults::default() },
            ..Settings::default()
        };
        let world = World { topology: &topology, asked: &jobs, truth: Own { slowdown: 1.7 }, costs: &costs, settings };
        let mut watch = Watch::default();
        let outcomes = world.run(&mut Restless::new(seed), &mut watch).expect("every job ends");

        for (row, job) in outcomes.iter().zip(&jobs) {
            prop_assert_eq!(row.job, job.id);
            match row.status {
                Status::Ok => prop_assert_eq!(Some(row.steps), job.steps),
                Status::EndedByPolicy => prop_assert!(row.err.is_none() && row.jct_ns.is_none()),
                _ => prop_assert!(has_faults && row.retries == 2 && row.err.is_some(), "{:?}", row),
            }
            let again = row.retries + stops(&watch.turns, job.id) + losses(&watch.turns, job.id);
            prop_assert!(row.starts <= 1 + again, "{:?}", row);
        }
        let ends = |happened: &ClusterEvent| matches!(happened, ClusterEvent::Finished { .. });
        let well = outcomes.iter().filter(|row| row.status == Status::Ok).count();
        prop_assert_eq!(count(&watch.turns, ends), well as u32, "each finishes once");

        // Run again with equal bytes, and once more from the journal.
        let mut again = Vec::new();
        let twice = world.run(&mut Restless::new(seed), &mut again).expect("every job ends");
        prop_assert_eq!(&twice, &outcomes);
        prop_assert_eq!(&again, &watch.turns);
        let mut engine = world.engine();
        replay(&mut engine, &mut Restless::new(seed), &again).expect("it is decided as before");
        prop_assert_eq!(engine.outcomes().collect::<Vec<_>>(), outcomes);
    }
}

/// The number of times that a job failed because its device was lost.
fn losses(turns: &[Turn], id: JobId) -> u32 {
    count(
        turns,
        |happened| matches!(*happened, ClusterEvent::Failed { job, kind: ErrorKind::DeviceLost, .. } if job == id),
    )
}

/// The number of stops of a job by the policy.
fn stops(turns: &[Turn], id: JobId) -> u32 {
    count(
        turns,
        |happened| matches!(*happened, ClusterEvent::Settled { job, now: Settled::Stopped, .. } if job == id),
    )
}

fn count(turns: &[Turn], of: impl Fn(&ClusterEvent) -> bool) -> u32 {
    events(turns).filter(|(_, happened)| of(happened)).count() as u32
}
