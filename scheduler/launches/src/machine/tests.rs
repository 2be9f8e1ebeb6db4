//! The machine explored as a whole, and in random lives of launches whose ranks answer.

use std::collections::{BTreeSet, HashSet, VecDeque};

use formats::decision::Settled;
use proptest::prelude::*;
use record::{rows::ErrorKind, suspension::Suspension};

use super::{Effect, Input, LaunchMachine, LaunchPhase, Place, Traits, phase::Memory};

const README: &str = include_str!("../../../README.md");

const WAYS: [Suspension; 4] =
    [Suspension::StepGate, Suspension::Pause, Suspension::CudaCheckpoint, Suspension::Checkpoint];

/// Every kind of launch that the machine tells apart.
fn all_traits() -> impl Iterator<Item = Traits> {
    let of_way = |suspension| {
        [(1, true, true), (2, true, true), (1, false, true), (1, false, false)]
            .map(|(ranks, answers, saves_on_order)| Traits { ranks, answers, saves_on_order, suspension })
    };
    WAYS.into_iter().flat_map(of_way)
}

fn inputs() -> Vec<Input> {
    vec![
        Input::Ready,
        Input::Suspend,
        Input::Freeze,
        Input::Resume,
        Input::Save,
        Input::Stop { checkpoint: true },
        Input::Stop { checkpoint: false },
        Input::CameToRest,
        Input::Answered(None),
        Input::Answered(Some("no space".into())),
        Input::Moved(Ok(())),
        Input::Moved(Err("it is locked".into())),
        Input::Failed(ErrorKind::DeviceLost, "lost its device".into()),
        Input::Exited,
    ]
}

/// Calls `see` with each state that a launch can reach, each input, and what follows from it.
fn explore(mut see: impl FnMut(&LaunchMachine, &Input, &LaunchMachine, &[Effect])) {
    // Checkpoints are counted for ever, and reasons differ in words alone.
    let key = |machine: &LaunchMachine| {
        let LaunchMachine { traits, phase, memory, pending, answers, refused, failure, .. } = machine;
        let pending: Vec<String> = pending.iter().map(|command| command.what().to_owned()).collect();
        format!(
            "{traits:?} {phase:?} {memory:?} {pending:?} {answers} {} {}",
            refused.is_some(),
            failure.is_some()
        )
    };
    let mut left: Vec<LaunchMachine> = all_traits().map(LaunchMachine::new).collect();
    let mut seen: HashSet<String> = left.iter().map(key).collect();
    while let Some(before) = left.pop() {
        for (input, is_idle) in inputs().into_iter().flat_map(|input| [(input.clone(), false), (input, true)])
        {
            let mut after = before.clone();
            let effects = after.step(input.clone(), is_idle);
            see(&before, &input, &after, &effects);
            if seen.insert(key(&after)) {
                left.push(after);
            }
        }
    }
    assert!(seen.len() > 200, "{} states", seen.len());
}

/// The transitions in the README's table, by the names of phases.
fn written_transitions() -> BTreeSet<(String, String)> {
    let after = README.split("### Phases of a launch of processes").nth(1).expect("it has this part");
    let rows = after.lines().skip_while(|line| !line.starts_with("| ---"));
    let cells = rows.skip(1).map_while(|row| row.strip_prefix("| `")?.split_once("` | "));
    let names = |to: &str| -> Vec<String> {
        let cell = to.split(" | ").next().unwrap_or_default();
        cell.split(", ").map(|name| name.trim_matches('`').to_owned()).collect()
    };
    cells.flat_map(|(from, rest)| names(rest).into_iter().map(move |to| (from.to_owned(), to))).collect()
}

#[test]
fn phases_change_as_the_readme_says() {
    let mut seen = BTreeSet::new();
    explore(|before, _, after, _| {
        if before.phase != after.phase {
            seen.insert((format!("{:?}", before.phase), format!("{:?}", after.phase)));
        }
    });
    assert_eq!(seen, written_transitions());
}

#[test]
fn a_launch_that_leaves_only_leaves() {
    explore(|before, input, after, effects| {
        let context = format!("{before:?} {input:?} {effects:?}");
        if before.phase.is_leaving() {
            assert!(after.phase.is_leaving(), "{context}");
            let goes_on =
                |effect: &Effect| matches!(effect, Effect::Settled(_) | Effect::Grant | Effect::Pause);
            assert!(!effects.iter().any(goes_on), "{context}");
        }
        if before.phase == LaunchPhase::Gone {
            assert!(effects.is_empty() && after.phase == LaunchPhase::Gone, "{context}");
        }
        // A launch that begins to leave has exactly one of the effects `Leave` and `Kill`.
        let orders = effects.iter().filter(|effect| matches!(effect, Effect::Leave | Effect::Kill)).count();
        if before.phase != LaunchPhase::Leaving {
            assert_eq!(orders == 1, after.phase == LaunchPhase::Leaving, "{context}");
        }
        assert!(orders <= 1, "{context}");
    });
}

#[test]
fn a_launch_fails_for_the_first_reason() {
    explore(|before, input, after, _| {
        if before.failure.is_some() {
            assert_eq!(before.failure, after.failure, "{input:?}");
        } else if let (Input::Failed(kind, why), false) = (input, before.phase == LaunchPhase::Gone) {
            assert_eq!(after.failure, Some((*kind, why.clone())));
        }
    });
}

#[test]
fn memory_that_is_away_is_not_saved_and_a_locked_process_is_not_asked_to_leave() {
    explore(|before, input, after, effects| {
        let context = format!("{before:?} {input:?} {effects:?}");
        if effects.iter().any(|effect| matches!(effect, Effect::Save(_) | Effect::Leave)) {
            assert_eq!(after.memory, Memory::OnDevice, "{context}");
        }
        if after.trains() {
            assert_eq!(after.memory, Memory::OnDevice, "{context}");
        }
        // One move at a time.
        if effects.iter().any(|effect| matches!(effect, Effect::Move(_))) {
            let is_moving = matches!(before.memory, Memory::Moving(_));
            assert!(!is_moving || matches!(input, Input::Moved(Ok(()))), "{context}");
        }
    });
}

/// A launch whose ranks answer every command, whose memory moves succeed, and whose processes exit after `Leave` or `Kill`.
struct World {
    machine: LaunchMachine,
    /// Ranks that will answer, for each command.
    commands: VecDeque<usize>,
    moves: VecDeque<Place>,
    is_told_to_leave: bool,
    is_frozen: bool,
    has_work: bool,
    settled: Vec<Settled>,
    saved: Vec<u32>,
    ends: usize,
}

impl World {
    fn new(traits: Traits) -> World {
        World {
            machine: LaunchMachine::new(traits),
            commands: VecDeque::new(),
            moves: VecDeque::new(),
            is_told_to_leave: false,
            is_frozen: false,
            has_work: false,
            settled: Vec::new(),
            saved: Vec::new(),
            ends: 0,
        }
    }

    fn give(&mut self, input: Input) {
        let is_exit = input == Input::Exited;
        for effect in self.machine.step(input, !self.has_work) {
            match effect {
                Effect::Settled(now) => self.settled.push(now),
                Effect::Grant => self.has_work = true,
                Effect::Freeze => self.is_frozen = true,
                Effect::Thaw => self.is_frozen = false,
                Effect::Pause | Effect::Resume | Effect::Save(_) => {
                    self.commands.push_back(self.machine.traits.ranks);
                }
                Effect::Saved(number) => self.saved.push(number),
                Effect::NotSaved(why) => panic!("{why}"),
                Effect::Move(place) => self.moves.push_back(place),
                Effect::Leave | Effect::Kill => self.is_told_to_leave = true,
            }
        }
        self.ends += usize::from(is_exit);
    }

    /// Lets one thing happen that is due. Returns whether there was one.
    fn happen(&mut self, choice: usize) -> bool {
        let due = [
            self.machine.phase == LaunchPhase::Starting && !self.is_told_to_leave,
            !self.commands.is_empty() && !self.has_work,
            !self.moves.is_empty(),
            self.has_work && !self.is_frozen,
            self.is_told_to_leave && self.ends == 0,
        ];
        let due: Vec<usize> = (0..due.len()).filter(|index| due[*index]).collect();
        let Some(which) = due.get(choice % due.len().max(1)) else { return false };
        match which {
            0 => self.give(Input::Ready),
            1 => {
                self.commands[0] -= 1;
                if self.commands[0] == 0 {
                    self.commands.pop_front();
                }
                self.give(Input::Answered(None));
            }
            2 => {
                self.moves.pop_front();
                self.give(Input::Moved(Ok(())));
            }
            3 => {
                self.has_work = false;
                self.give(Input::CameToRest);
            }
            _ => {
                self.has_work = false;
                self.commands.clear();
                self.moves.clear();
                self.give(Input::Exited);
            }
        }
        true
    }
}

/// What a cluster orders in this phase of a launch, or nothing.
fn order(choice: usize, phase: LaunchPhase) -> Option<Input> {
    let orders: &[Input] = match phase {
        LaunchPhase::Running => {
            &[Input::Suspend, Input::Freeze, Input::Save, Input::Stop { checkpoint: true }]
        }
        LaunchPhase::Suspended | LaunchPhase::Frozen => &[Input::Resume, Input::Stop { checkpoint: true }],
        LaunchPhase::Starting | LaunchPhase::Draining | LaunchPhase::Suspending | LaunchPhase::Resuming => {
            &[Input::Stop { checkpoint: true }, Input::Stop { checkpoint: false }]
        }
        LaunchPhase::Saving | LaunchPhase::Leaving | LaunchPhase::Gone => &[],
    };
    orders.get(choice % 6).cloned()
}

proptest! {
    #[test]
    fn every_order_is_answered_where_ranks_answer(
        kind in 0..all_traits().count(),
        choices in prop::collection::vec((any::<bool>(), 0..60_usize), 0..80),
    ) {
        let traits = all_traits().nth(kind).expect("it is one of them");
        let mut world = World::new(traits);
        let mut is_stopped = false;
        let mut last = Settled::Running;
        for (is_order, choice) in choices {
            match order(choice, world.machine.phase()).filter(|_| is_order) {
                Some(Input::Save) if !traits.saves_on_order => {}
                Some(Input::Freeze) if traits.answers => {}
                Some(input) => {
                    is_stopped |= matches!(input, Input::Stop { .. });
                    let suspends = matches!(input, Input::Suspend | Input::Freeze);
                    last = if suspends { Settled::Paused } else { last };
                    last = if input == Input::Resume { Settled::Running } else { last };
                    world.give(input);
                }
                None => {
                    world.happen(choice);
                }
            }
        }
        let mut rounds = 0;
        while world.happen(0) {
            rounds += 1;
            prop_assert!(rounds < 100, "{:?}", world.machine);
        }
        prop_assert_eq!(world.ends, usize::from(is_stopped), "{:?}", world.machine);
        if is_stopped {
            prop_assert_eq!(world.machine.phase(), LaunchPhase::Gone);
        } else {
            let phase = match last {
                Settled::Paused if world.is_frozen => LaunchPhase::Frozen,
                Settled::Paused => LaunchPhase::Suspended,
                _ => LaunchPhase::Running,
            };
            prop_assert_eq!(world.machine.phase(), phase);
            prop_assert_eq!(world.settled.last(), Some(&last));
        }
        prop_assert!(world.machine.failure().is_none());
        // Settled states alternate, and checkpoints count up.
        prop_assert!(world.settled.windows(2).all(|pair| pair[0] != pair[1]), "{:?}", world.settled);
        prop_assert!(world.saved.is_sorted_by(|one, next| one < next), "{:?}", world.saved);
    }
}
