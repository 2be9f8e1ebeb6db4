//! Orders a program of the user's to save its work, and finds what it has saved.
//!
//! What a program writes is its own. The harness reads lines of its output, or looks at the time of one file.

use std::{
    collections::VecDeque,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    time::SystemTime,
};

use record::run_dir::RunDir;
use rustix::process::Signal;
use schema::{
    catalog::{SaveOrder, SaveSignal, SavedSign},
    spec::{JobCheckpoint, LaunchSpec},
    units::Nanos,
    wire::Step,
};

use super::{Ending, Launch, Order, StopMode, listener::Listener, tail::Tail, words::Values};
use crate::{
    event::{RigEvent, SavedSteps},
    processes::{self, ProcessId},
};

/// The number of steps whose ends are kept, to find those before a file was written.
const STEPS_KEPT: usize = 4096;

/// See the [module](self).
pub(super) struct Saves {
    sign: Sign,
    order: Option<FilledOrder>,
    /// The ends of the last steps of the first rank, each with the number of steps until then.
    ends: VecDeque<(u64, Nanos)>,
    /// Whether an order to save waits until the program rests.
    is_due: bool,
    /// The time of an order to save that has no answer yet.
    ordered_at: Option<Nanos>,
    /// Why the output cannot be searched any more.
    unreadable: Option<String>,
}

/// What is known of the saves of a program.
#[derive(Clone, Debug, PartialEq)]
enum Finding {
    Saved { steps: SavedSteps, was_ordered: bool },
    NotSaved { why: String },
}

enum Sign {
    /// The logs of stdout and stderr.
    Line { sign: SavedSign, logs: [Tail; 2] },
    /// The file, and its version when it was last seen.
    File { path: PathBuf, seen: Option<Version> },
}

enum FilledOrder {
    Signal(SaveSignal),
    Touch(PathBuf),
}

/// A version of a file: a file that is replaced has another number, and one that is written again another time.
#[derive(Clone, Copy, PartialEq)]
struct Version {
    inode: u64,
    modified: SystemTime,
}

impl Saves {
    /// Creates the logs, and looks which file is there. `None` for a program that defines no checkpoint.
    pub(super) fn open(run: &RunDir, spec: &LaunchSpec) -> io::Result<Option<Saves>> {
        let Some(JobCheckpoint { definition, .. }) = &spec.checkpoint else { return Ok(None) };
        let values = Values::for_launch(run, spec)?;
        let sign = match &definition.saved {
            SavedSign::Line(_) => {
                let open = |log: PathBuf| {
                    File::create(&log)?;
                    Tail::open(&log)
                };
                let launch = &spec.launch;
                let logs = [open(run.stdout_path(launch, 0))?, open(run.stderr_path(launch, 0))?];
                Sign::Line { sign: definition.saved.clone(), logs }
            }
            SavedSign::File { file } => {
                let path = PathBuf::from(values.fill(file));
                let seen = version(&path);
                Sign::File { path, seen }
            }
        };
        let order = definition.save.as_ref().map(|order| match order {
            SaveOrder::Signal(signal) => FilledOrder::Signal(*signal),
            SaveOrder::Touch { touch } => FilledOrder::Touch(values.fill(touch).into()),
        });
        Ok(Some(Saves {
            sign,
            order,
            ends: VecDeque::new(),
            is_due: false,
            ordered_at: None,
            unreadable: None,
        }))
    }

    /// Notes a step of the first rank.
    pub(super) fn note(&mut self, step: &Step, end: Nanos) {
        self.ends.push_back((step.index + 1, end));
        if self.ends.len() > STEPS_KEPT {
            self.ends.pop_front();
        }
    }

    /// How far a log was read. `stream` is 0 for stdout and 1 for stderr.
    pub(super) fn read_to(&self, stream: usize) -> u64 {
        match &self.sign {
            Sign::Line { logs, .. } if self.unreadable.is_none() => logs[stream].read_bytes(),
            Sign::Line { .. } | Sign::File { .. } => u64::MAX,
        }
    }

    /// What the program has saved since the last call, and why orders to save have failed. An error of its output is a finding in the
    /// call in which it occurs, and fails all later orders.
    fn findings(&mut self, has_ended: bool, limit: Nanos) -> Vec<Finding> {
        if let Some(why) = self.unreadable.clone() {
            return vec![Finding::NotSaved { why }; self.take_orders()];
        }
        match self.poll(has_ended) {
            Ok(Some(steps)) => {
                vec![Finding::Saved { steps, was_ordered: self.ordered_at.take().is_some() }]
            }
            Ok(None) => {
                let since = self.ordered_at.map(|at| Nanos::monotonic_now().saturating_sub(at));
                let Some(since) = since.filter(|since| *since > limit) else { return Vec::new() };
                self.ordered_at = None;
                vec![Finding::NotSaved { why: format!("it did not show a checkpoint within {since}") }]
            }
            Err(error) => {
                let why = format!("its output cannot be read: {error}");
                self.unreadable = Some(why.clone());
                vec![Finding::NotSaved { why }; self.take_orders().max(1)]
            }
        }
    }

    /// The number of orders without an answer, which are given up.
    fn take_orders(&mut self) -> usize {
        usize::from(self.ordered_at.take().is_some()) + usize::from(std::mem::take(&mut self.is_due))
    }

    /// The steps that were saved last since the last call. `has_ended` says whether the program writes no more.
    fn poll(&mut self, has_ended: bool) -> io::Result<Option<SavedSteps>> {
        let mut saved = None;
        match &mut self.sign {
            Sign::Line { sign, logs } => {
                for log in logs {
                    let mut each = |line: &[u8]| {
                        let steps = sign.steps_in(&String::from_utf8_lossy(line));
                        saved = steps.map(SavedSteps::OfJob).or(saved);
                    };
                    if has_ended {
                        log.finish(&mut each)?;
                    } else {
                        log.poll(&mut each)?;
                    }
                }
            }
            Sign::File { path, seen } => {
                let now = version(path);
                if let Some(version) = now.filter(|_| now != *seen) {
                    saved = Some(SavedSteps::OfLaunch(steps_until(&self.ends, monotonic(version.modified))));
                }
                *seen = now;
            }
        }
        Ok(saved)
    }
}

impl Launch {
    /// Lets the program save when it rests, or at once if nothing holds it.
    pub(super) fn order_save(&mut self) {
        let Some(saves) = &mut self.saves else { return };
        saves.is_due = true;
    }

    /// Orders a program that rests to save, if an order waits. A program often saves at the end of a step, so that it is granted one step
    /// after another until it has saved. Its checkpoint then has all of its steps.
    pub(super) fn let_save(&mut self) {
        let granted = self.granted();
        let mut listeners = self.ranks.iter().flat_map(|rank| &rank.listeners);
        let is_held = self.grant.is_some() && listeners.clone().any(Listener::obeys_grant);
        let moves = is_held && !listeners.all(|listener| listener.rests(granted));
        let goes_on = !moves && !self.leaving && self.ending == Ending::No;
        let Some(saves) = self.saves.as_mut().filter(|_| goes_on) else { return };
        // A program that receives two orders may save once, so that the second order waits for the first save.
        if saves.ordered_at.is_none() && std::mem::take(&mut saves.is_due) {
            self.send_save_order();
        }
        if self.is_saving() && is_held {
            self.obey(Order::Extend(granted + 1));
        }
    }

    fn send_save_order(&mut self) {
        let Some(saves) = &mut self.saves else { return };
        match &saves.order {
            // The program saves and then ends.
            Some(FilledOrder::Signal(SaveSignal::Term)) => {
                return self.obey(Order::Stop(StopMode::AtStepBoundary));
            }
            Some(FilledOrder::Signal(signal)) => {
                let signal = match signal {
                    SaveSignal::Usr1 => Signal::USR1,
                    SaveSignal::Usr2 => Signal::USR2,
                    SaveSignal::Hup => Signal::HUP,
                    SaveSignal::Int => Signal::INT,
                    SaveSignal::Term => Signal::TERM,
                };
                let Some(first) = self.pid else {
                    let why = "it has no process yet".into();
                    return self.reports.push(RigEvent::NotSaved { member: self.member, why });
                };
                let family = processes::family(first as i32);
                let trainers: Vec<u32> =
                    self.ranks.iter().flat_map(|rank| &rank.listeners).filter_map(|one| one.pid()).collect();
                // A launcher such as torchrun would end on the signal.
                let receives = |process: &ProcessId| match trainers.is_empty() {
                    true => process.pid == first as i32,
                    false => trainers.contains(&(process.pid as u32)),
                };
                family.into_iter().filter(receives).for_each(|process| process.signal(signal));
            }
            Some(FilledOrder::Touch(path)) => {
                let touched = File::options().create(true).append(true).open(path);
                if let Err(error) = touched.and_then(|file| file.set_modified(SystemTime::now())) {
                    let why = format!("checkpoint.save: {}: {error}", path.display());
                    return self.reports.push(RigEvent::NotSaved { member: self.member, why });
                }
            }
            None => return,
        }
        saves.ordered_at = Some(Nanos::monotonic_now());
    }

    /// Whether an order to save has no answer yet.
    pub(super) fn is_saving(&self) -> bool {
        self.saves.as_ref().is_some_and(|saves| saves.ordered_at.is_some())
    }

    /// Whether an order to save waits until the program rests.
    pub(super) fn is_to_save(&self) -> bool {
        self.saves.as_ref().is_some_and(|saves| saves.is_due)
    }

    /// Reports what the program has saved, or that it has not within the time limit.
    pub(super) fn look_for_saves(&mut self, has_ended: bool) {
        let (member, limit) = (self.member, Nanos::from(self.timeouts.save));
        let Some(saves) = &mut self.saves else { return };
        self.reports.extend(saves.findings(has_ended, limit).into_iter().map(|finding| match finding {
            Finding::Saved { steps, was_ordered } => RigEvent::Saved { member, steps, was_ordered },
            Finding::NotSaved { why } => RigEvent::NotSaved { member, why },
        }));
    }
}

/// The version of a file that is there.
fn version(path: &PathBuf) -> Option<Version> {
    let metadata = fs::metadata(path).ok()?;
    Some(Version { inode: metadata.ino(), modified: metadata.modified().ok()? })
}

/// A time of files on the clock of events.
fn monotonic(time: SystemTime) -> Nanos {
    let age = SystemTime::now().duration_since(time).unwrap_or_default();
    Nanos::monotonic_now().saturating_sub(age.into())
}

/// The number of steps that have ended by this time.
fn steps_until(ends: &VecDeque<(u64, Nanos)>, time: Nanos) -> u64 {
    match ends.iter().rev().find(|(_, end)| *end <= time) {
        Some((steps, _)) => *steps,
        None => ends.front().map_or(0, |(steps, _)| steps - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_output_answers_each_order_once() {
        let folder = tempfile::tempdir().expect("a folder");
        // A folder can be opened and cannot be read.
        let logs = [0, 1].map(|_| Tail::open(folder.path()).expect("it is there"));
        let mut saves = Saves {
            sign: Sign::Line { sign: SavedSign::Line("saved {step}".into()), logs },
            order: None,
            ends: VecDeque::new(),
            is_due: true,
            ordered_at: Some(Nanos(1)),
            unreadable: None,
        };
        let mut answers = || saves.findings(false, Nanos(u64::MAX)).len();
        assert_eq!([answers(), answers()], [2, 0], "one order was sent and one waits");
        saves.is_due = true;
        let answer = saves.findings(false, Nanos(u64::MAX));
        assert!(
            matches!(&answer[..], [Finding::NotSaved { why }] if why.contains("cannot be read")),
            "{answer:?}"
        );
    }

    #[test]
    fn a_file_holds_the_steps_that_ended_before_it_was_written() {
        let ends: VecDeque<(u64, Nanos)> = (3..=6).map(|steps| (steps, Nanos(steps * 10))).collect();
        let steps = [0, 29, 30, 45, 60, 99].map(|time| steps_until(&ends, Nanos(time)));
        assert_eq!(steps, [2, 2, 3, 4, 6, 6]);
        assert_eq!(steps_until(&VecDeque::new(), Nanos(5)), 0);
    }
}
