use std::{collections::BTreeMap, time::Duration};

use schema::{
    units::Nanos,
    wire::{Step, Timing},
};

use super::*;

const MS: f64 = 1e6;

/// The shares of time that members with steps of these lengths get over some rounds.
fn shares(mode: &str, step_ms: &[f64], rounds: usize) -> Vec<f64> {
    let schema::sharing::Sharing::StepGate { quantum, weights } = mode.parse().unwrap() else {
        panic!("{mode}")
    };
    let mut accounts = vec![Account::default(); step_ms.len()];
    let mut got_ms = vec![0.0; step_ms.len()];
    for _ in 0..rounds {
        for (seat, account) in accounts.iter_mut().enumerate() {
            let steps = account.next_turn(quantum, weights.of(seat), Some(step_ms[seat] * MS));
            let took_ms = steps as f64 * step_ms[seat];
            account.spend((took_ms * MS) as u64);
            got_ms[seat] += took_ms;
        }
    }
    let all: f64 = got_ms.iter().sum();
    got_ms.iter().map(|ms| ms / all).collect()
}

#[test]
fn time_is_in_the_ratio_of_weights_however_long_the_steps() {
    for (mode, step_ms, expected) in [
        ("step-gate:2/1", &[10.0, 10.0][..], &[2.0 / 3.0, 1.0 / 3.0][..]),
        // 3 steps of 300 ms are 0.9 s of 1 s, and then there are 4 now and then.
        ("step-gate", &[300.0, 7.0], &[0.5, 0.5]),
        ("step-gate:2/1", &[300.0, 700.0], &[2.0 / 3.0, 1.0 / 3.0]),
        // A step that is longer than the turn sits some turns out.
        ("step-gate", &[5_000.0, 10.0], &[0.5, 0.5]),
        ("step-gate:100ms:1/2/1", &[999.0, 3.0, 70.0], &[0.25, 0.5, 0.25]),
        // Steps are steps.
        ("step-gate:8:2/1", &[10.0, 10.0], &[2.0 / 3.0, 1.0 / 3.0]),
        ("step-gate:8:2/1", &[10.0, 20.0], &[0.5, 0.5]),
    ] {
        let found = shares(mode, step_ms, 400);
        let far = found.iter().zip(expected).any(|(found, expected)| (found - expected).abs() > 0.01);
        assert!(!far, "{mode} {step_ms:?}: {found:?}");
    }
}

#[test]
fn what_a_first_part_took_decides_how_long_the_second_is() {
    let mut account = Account::default();
    assert_eq!(account.next_turn(Quantum::Time(Duration::from_secs(1)), 1, Some(10.0 * MS)), 100);
    // 75 of the 100 steps took a fifth more than was expected.
    account.spend(900_000_000);
    assert_eq!(account.steps_at(12.0 * MS), 8);
    account.spend(300_000_000);
    assert_eq!(account.steps_at(12.0 * MS), 0, "it has had more than it was owed");
}

#[test]
fn a_first_turn_of_unknown_length_is_one_step() {
    let mut account = Account::default();
    assert_eq!(account.next_turn(Quantum::Time(Duration::from_secs(1)), 2, None), 1);
    account.spend(500_000_000);
    assert_eq!(
        account.next_turn(Quantum::Time(Duration::from_secs(1)), 2, Some(500.0 * MS)),
        7,
        "and 3 are owed"
    );
}

/// Members with steps of fixed lengths, on a clock that jumps from one rest to the next.
struct Stage {
    turns: Turns<u32>,
    now_ms: u64,
    members: BTreeMap<u32, Scripted>,
    /// The times in which each member ran.
    ran_ms: Vec<(u32, std::ops::Range<u64>)>,
}

struct Scripted {
    step_ms: u64,
    devices: Vec<u32>,
    pace: Pace,
    /// When it rests.
    rests_at: Option<u64>,
}

impl Stage {
    fn new(quantum: Quantum) -> Stage {
        Stage {
            turns: Turns::new(quantum, Duration::MAX),
            now_ms: 0,
            members: BTreeMap::new(),
            ran_ms: Vec::new(),
        }
    }

    fn join(&mut self, member: u32, step_ms: u64, devices: &[u32]) {
        let (pace, devices) = (Pace::default(), devices.to_vec());
        self.turns.join(member, &devices, 1, true);
        self.members.insert(member, Scripted { step_ms, devices, pace, rests_at: None });
    }

    fn end(&mut self, member: u32) {
        self.turns.remove(member);
        self.members.remove(&member);
    }

    fn run(&mut self, member: u32, steps: u64) {
        let now_ms = self.now_ms;
        let of = self.members.get_mut(&member).expect("it has joined");
        of.pace.grant(steps);
        let end_ms = now_ms + steps * of.step_ms;
        of.rests_at = Some(end_ms);
        self.ran_ms.push((member, now_ms..end_ms));
    }

    /// Lets turns pass until this time.
    fn until(&mut self, until_ms: u64) {
        while self.now_ms < until_ms {
            while let Some((member, steps)) = self.turns.begin(|member| &self.members[&member].pace) {
                self.run(member, steps);
            }
            let first = self.members.iter().filter_map(|(id, of)| Some((of.rests_at?, *id))).min();
            let Some((at, member)) = first else { return };
            self.now_ms = at;
            let of = self.members.get_mut(&member).expect("it is there");
            of.rests_at = None;
            for index in of.pace.done()..of.pace.granted() {
                let (dur_ns, timing) = (Nanos(of.step_ms * 1_000_000), Timing::Host);
                let (samples, loss, phases, sent_bytes) = (None, None, None, None);
                of.pace.count(&Step { index, dur_ns, samples, loss, phases, sent_bytes, timing });
            }
            if let Some(left) = self.turns.rested(member, &of.pace) {
                self.run(member, left);
            }
        }
    }

    /// The time in which a member ran, of the time between these.
    fn share(&self, member: u32, of_ms: std::ops::Range<u64>) -> f64 {
        let within = |range: &std::ops::Range<u64>| {
            range.end.min(of_ms.end).saturating_sub(range.start.max(of_ms.start))
        };
        let ran = self.ran_ms.iter().filter(|(id, _)| *id == member);
        ran.map(|(_, range)| within(range)).sum::<u64>() as f64 / (of_ms.end - of_ms.start) as f64
    }

    #[track_caller]
    fn shares(&self, of_ms: std::ops::Range<u64>, expected: &[(u32, f64)]) {
        for (member, expected) in expected {
            let found = self.share(*member, of_ms.clone());
            assert!((found - expected).abs() < 0.03, "{member}: {found} of {of_ms:?}: {:?}", self.ran_ms);
        }
    }
}

const QUANTUM: Quantum = Quantum::Time(Duration::from_millis(100));

#[test]
fn members_come_and_go_and_no_turn_is_lost() {
    let mut stage = Stage::new(QUANTUM);
    stage.join(0, 10, &[0]);
    stage.until(1_000);
    stage.shares(0..1_000, &[(0, 1.0)]);
    // Two that join have as much as the first from then on, and nothing for the time before.
    stage.join(1, 3, &[0]);
    stage.join(2, 25, &[0]);
    stage.until(7_000);
    stage.shares(1_000..7_000, &[(0, 1.0 / 3.0), (1, 1.0 / 3.0), (2, 1.0 / 3.0)]);
    // One that leaves while it waits, and one that dies.
    let now = stage.now_ms;
    stage.turns.leave(1);
    stage.until(now + 4_000);
    stage.shares(now..now + 4_000, &[(0, 0.5), (1, 0.0), (2, 0.5)]);
    stage.end(0);
    let now = stage.now_ms;
    stage.until(now + 1_000);
    stage.shares(now..now + 1_000, &[(2, 1.0)]);
    // One that comes back is owed nothing.
    stage.turns.join(1, &[0], 1, true);
    let now = stage.now_ms;
    stage.until(now + 4_000);
    stage.shares(now..now + 4_000, &[(1, 0.5), (2, 0.5)]);
    let mut in_order = stage.ran_ms.clone();
    in_order.sort_by_key(|(_, range)| range.start);
    assert!(in_order.windows(2).all(|pair| pair[0].1.end <= pair[1].1.start), "one runs at a time");
}

#[test]
fn members_on_several_devices_wait_for_no_cycle_and_have_equal_turns() {
    // Each shares a device with the next one, and the first with the last.
    for devices in
        [&[&[0, 1][..], &[1, 2], &[2, 0]][..], &[&[0], &[0, 1], &[1]], &[&[0, 1], &[2, 3], &[1, 2], &[0, 3]]]
    {
        let mut stage = Stage::new(QUANTUM);
        (0..).zip(devices).for_each(|(member, devices)| stage.join(member, 10, devices));
        stage.until(10_000);
        let at_once = if devices.len() == 3 && devices[0].len() == 2 { 3.0 } else { 2.0 };
        (0..devices.len() as u32).for_each(|member| stage.shares(0..10_000, &[(member, 1.0 / at_once)]));
        for (index, (member, range)) in stage.ran_ms.iter().enumerate() {
            for (other, of_other) in &stage.ran_ms[..index] {
                let apart = range.start >= of_other.end || of_other.start >= range.end;
                let shares =
                    stage.members[member].devices.iter().any(|id| stage.members[other].devices.contains(id));
                assert!(apart || !shares, "{member} and {other} at {range:?}");
            }
        }
    }
}

/// Two groups of members have had very different numbers of turns when a member joins both.
#[test]
fn a_member_that_joins_two_groups_waits_for_neither_to_catch_up() {
    let mut stage = Stage::new(QUANTUM);
    stage.join(0, 10, &[0]);
    stage.join(1, 10, &[0]);
    stage.until(20_000);
    stage.join(2, 10, &[1]);
    stage.join(3, 10, &[1]);
    stage.until(20_500);
    stage.join(4, 10, &[0, 1]);
    let now = stage.now_ms;
    stage.until(now + 6_000);
    let third = 1.0 / 3.0;
    stage.shares(now..now + 6_000, &[(0, third), (1, third), (2, third), (3, third), (4, third)]);
}

#[test]
fn a_member_that_runs_freely_rests_before_others_have_turns() {
    let mut turns = Turns::new(QUANTUM, Duration::MAX);
    let pace = Pace::default();
    turns.join(0, &[0], 1, true);
    assert!(!turns.contends(0));
    turns.run_freely(0);
    turns.join(1, &[0], 1, true);
    assert!(turns.contends(0) && turns.begin(|_| &pace).is_none(), "the first one still runs");
    assert_eq!(turns.rested(0, &pace), None);
    assert_eq!(turns.begin(|_| &pace), Some((1, 1)), "the first one has just run");
    // A member that leaves while it runs holds up others until it rests, and then has no second part.
    turns.leave(1);
    assert!(turns.contends(0) && turns.begin(|_| &pace).is_none());
    assert_eq!(turns.rested(1, &pace), None);
    assert!(!turns.contends(0));
    assert_eq!(turns.begin(|_| &pace), Some((0, 1)));
}

#[test]
fn a_long_turn_has_parts_between_which_its_member_can_leave() {
    for (quantum, steps) in [(Quantum::Time(Duration::from_secs(60)), 6_000), (Quantum::Steps(700), 700)] {
        let mut stage = Stage::new(quantum);
        stage.turns = Turns::new(quantum, Duration::from_millis(500));
        (0..2).for_each(|member| stage.join(member, 10, &[0]));
        stage.until(3 * 10 * steps);
        let in_a_row = stage.ran_ms.chunk_by(|a, b| a.0 == b.0);
        let turns: Vec<u64> = in_a_row
            .map(|parts| parts.iter().map(|(_, range)| (range.end - range.start) / 10).sum())
            .collect();
        assert!(turns.iter().filter(|found| **found == steps).count() >= 2, "{turns:?}");
        let longest = stage.ran_ms.iter().map(|(_, range)| range.end - range.start).max();
        assert_eq!(longest, Some(500));
    }
}
