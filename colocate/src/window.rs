//! The part of a visit in which all members are steady, which is the only part that counts.
//!
//! Members do not warm up, pause and end at the same time, and the numbers of one while another does something else are not
//! about the two together. The steady part of each member is found in its own steps, and only the time that all of them share
//! is kept. If members take turns, this is a whole number of rounds: a window from one member's turn into the other's would
//! give one of them an additional turn.

use record::group::Turn;
use schema::units::{Nanos, Window};
use statistics::{
    Steady,
    steady::{self, Class},
};

/// The data of one launch of a member.
#[derive(Clone, Debug, PartialEq)]
pub enum LaunchActivity {
    /// Its steps, in order.
    Steps(Vec<Step>),
    /// The launch has no known steps; it was present from its start to its end.
    Outside(Window),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub end: Nanos,
    /// The length from boundary to boundary, without time in which the job was held.
    pub dur_ns: u64,
}

/// The part of a member that counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SteadyPart {
    /// Its steps that lie completely within the common window, in order; empty for a program without steps.
    pub steps: Vec<Used>,
    /// The windows of these steps, by launch. They do not overlap.
    pub windows: Vec<(usize, Window)>,
    /// The time of these steps with all time between them. Divided by their number, it is the time of a step.
    pub window_ns: u64,
    /// The least certain steady state of the launches that count.
    pub class: Class,
}

/// A step that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    pub launch: usize,
    /// The position of the step in its launch, from 0.
    pub step: usize,
    /// The length from the end of the step before, so that time in which the job was held is included.
    pub length_ns: u64,
}

/// Finds the part of each member that counts. `members` has the launches of each seat in order. `visit` extends from the
/// barrier to the first order to leave. `turns` is empty if all members run at once.
///
/// Returns `None` if there is no time in which all members were steady, or one of them has no complete step in it.
pub fn common(members: &[Vec<LaunchActivity>], visit: Window, turns: &[Turn]) -> Option<Vec<SteadyPart>> {
    let members: Vec<Vec<Lane>> = members
        .iter()
        .map(|launches| launches.iter().enumerate().filter_map(|(i, l)| Lane::of(i, l, visit)).collect())
        .collect();
    let parts =
        if turns.is_empty() { at_once(&members) } else { in_turns(&members, &rounds(turns, members.len())?) };
    (!parts.is_empty() && parts.iter().all(|part| !part.windows.is_empty())).then_some(parts)
}

/// A launch, limited to the visit.
enum Lane {
    Steps { launch: usize, first: usize, steps: Vec<Span>, steady: Steady },
    Outside { launch: usize, window: Window },
}

/// A step on the clock.
#[derive(Clone, Copy)]
struct Span {
    start: Nanos,
    end: Nanos,
}

impl Lane {
    fn of(launch: usize, what: &LaunchActivity, visit: Window) -> Option<Lane> {
        match what {
            LaunchActivity::Outside(window) => {
                let window = overlap(*window, visit)?;
                Some(Lane::Outside { launch, window })
            }
            LaunchActivity::Steps(steps) => {
                let began = |step: &Step| step.end.saturating_sub(Nanos(step.dur_ns));
                let first = steps.iter().position(|step| began(step) >= visit.start)?;
                let inside: Vec<&Step> =
                    steps[first..].iter().take_while(|step| step.end <= visit.end).collect();
                // Time in which the job was held before its first step is left out, because no member was to run then.
                let starts = inside.first().map(|step| began(step)).into_iter();
                let starts = starts.chain(inside.iter().map(|step| step.end));
                let spans: Vec<Span> =
                    starts.zip(&inside).map(|(start, step)| Span { start, end: step.end }).collect();
                let durations: Vec<u64> = inside.iter().map(|step| step.dur_ns).collect();
                let steady = steady::detect(&durations);
                (!spans.is_empty()).then_some(Lane::Steps { launch, first, steps: spans, steady })
            }
        }
    }

    /// The time from the start of its first steady step to the end of its last.
    fn steady_window(&self) -> Option<Window> {
        match self {
            Lane::Outside { window, .. } => Some(*window),
            Lane::Steps { steps, steady, .. } => {
                let steps = &steps[steady.start..steady.end];
                Some(Window { start: steps.first()?.start, end: steps.last()?.end })
            }
        }
    }

    fn class(&self) -> Class {
        match self {
            Lane::Outside { .. } => Class::Flat,
            Lane::Steps { steady, .. } => steady.class,
        }
    }
}

/// The parts of members that run at once: the intersection of their steady parts.
fn at_once(members: &[Vec<Lane>]) -> Vec<SteadyPart> {
    let mut common = vec![Window { start: Nanos::ZERO, end: Nanos(u64::MAX) }];
    for lanes in members {
        let steady: Vec<Window> = lanes.iter().filter_map(Lane::steady_window).collect();
        common = common.iter().flat_map(|a| steady.iter().filter_map(|b| overlap(*a, *b))).collect();
    }
    members.iter().map(|lanes| part_at_once(lanes, &common)).collect()
}

fn part_at_once(lanes: &[Lane], common: &[Window]) -> SteadyPart {
    let mut part = SteadyPart::default();
    for lane in lanes {
        for window in
            common.iter().filter(|w| lane.steady_window().is_some_and(|s| overlap(s, **w).is_some()))
        {
            let (launch, window) = match lane {
                Lane::Outside { launch, .. } => (*launch, *window),
                Lane::Steps { launch, first, steps, .. } => {
                    let inside = |span: &Span| span.start >= window.start && span.end <= window.end;
                    let used: Vec<(usize, &Span)> =
                        steps.iter().enumerate().filter(|(_, span)| inside(span)).collect();
                    let (Some((_, head)), Some((_, tail))) = (used.first(), used.last()) else { continue };
                    part.steps.extend(used.iter().map(|(i, span)| Used {
                        launch: *launch,
                        step: first + i,
                        length_ns: (span.end - span.start).0,
                    }));
                    (*launch, Window { start: head.start, end: tail.end })
                }
            };
            part.window_ns += window.length().0;
            part.windows.push((launch, window));
            part.class = part.class.max(lane.class());
        }
    }
    part
}

/// Divides turns into complete rounds, in which each of `seats` members had a turn; `None` if there are none.
fn rounds(turns: &[Turn], seats: usize) -> Option<Vec<&[Turn]>> {
    let mut rounds = Vec::new();
    let mut left = turns;
    let all_seats =
        |turns: &[Turn]| (0..seats).all(|seat| turns.iter().any(|turn| turn.seat as usize == seat));
    while let Some(length) = (1..=left.len()).find(|&length| all_seats(&left[..length])) {
        let (round, rest) = left.split_at(length);
        rounds.push(round);
        left = rest;
    }
    (!rounds.is_empty()).then_some(rounds)
}

/// The parts of members that take turns: the rounds from the first in which every turn began when its member was steady.
///
/// If there is no such round, for example because each member warms up in one long turn, all rounds count.
fn in_turns(members: &[Vec<Lane>], rounds: &[&[Turn]]) -> Vec<SteadyPart> {
    let settled: Vec<Nanos> = members.iter().map(|lanes| settled_at(lanes)).collect();
    let is_settled = |round: &&[Turn]| {
        round.iter().all(|turn| settled.get(turn.seat as usize).is_some_and(|at| turn.start_mono_ns >= *at))
    };
    let kept = rounds.iter().position(is_settled).unwrap_or(0);
    let (Some(first), Some(last)) = (rounds[kept].first(), rounds[rounds.len() - 1].last()) else {
        return Vec::new();
    };
    let window = Window { start: first.start_mono_ns, end: last.end_mono_ns };
    members.iter().map(|lanes| part_in_turns(lanes, window)).collect()
}

/// The time at which a member's first launch became steady; zero if it was steady from its first step on.
fn settled_at(lanes: &[Lane]) -> Nanos {
    match lanes.first() {
        Some(Lane::Steps { steps, steady, .. }) if steady.start > 0 => {
            steps.get(steady.start).map_or(Nanos(u64::MAX), |span| span.start)
        }
        _ => Nanos::ZERO,
    }
}

fn part_in_turns(lanes: &[Lane], window: Window) -> SteadyPart {
    let mut part = SteadyPart { window_ns: window.length().0, ..SteadyPart::default() };
    let mut before = window.start;
    for lane in lanes {
        let Lane::Steps { launch, first, steps, .. } = lane else { return SteadyPart::default() };
        let began = part.steps.len();
        for (i, span) in steps.iter().enumerate() {
            if span.end > window.start && span.end <= window.end {
                let length_ns = span.end.saturating_sub(before).0;
                part.steps.push(Used { launch: *launch, step: first + i, length_ns });
                before = span.end;
            }
        }
        if part.steps.len() > began {
            let (Some(head), Some(tail)) = (steps.first(), steps.last()) else { continue };
            let of_launch = Window { start: head.start.max(window.start), end: tail.end.min(window.end) };
            part.windows.push((*launch, of_launch));
            part.class = part.class.max(lane.class());
        }
    }
    // A single launch was present all the time, held or not.
    if let [(_, only)] = &mut part.windows[..] {
        *only = window;
    }
    part
}

fn overlap(a: Window, b: Window) -> Option<Window> {
    let both = Window { start: a.start.max(b.start), end: a.end.min(b.end) };
    (both.start < both.end).then_some(both)
}

#[cfg(test)]
mod tests;
