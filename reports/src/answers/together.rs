//! Jobs that share devices: which groups gain throughput over taking turns, which lose, and which the numbers leave open.

use statistics::{holm, welch::Launches};

use super::quotable;
use crate::{
    figures::{
        group_throughput::throughput,
        together::{self, GroupsOfFigure, Together},
    },
    phrases::counted,
    run::Run,
};

/// The level of a verdict after the correction for the number of groups.
const LEVEL: f64 = 0.05;

/// A group with its throughput over that of turns without loss.
struct Rated<'a> {
    group: &'a Together<'a>,
    value: f64,
    ci: (f64, f64),
    /// Of a throughput that differs from that of turns, corrected for the number of groups.
    p: f64,
}

pub(super) fn answer(run: &Run) -> Option<String> {
    let parts = together::parts(run);
    let mut sentences: Vec<String> = parts.iter().map(of_part).collect();
    if sentences.is_empty() {
        return None;
    }
    sentences.push(quotable(run));
    Some(sentences.join(" "))
}

fn of_part(part: &GroupsOfFigure) -> String {
    let (doubtful, clear): (Vec<&Together>, Vec<&Together>) =
        part.groups.iter().partition(|group| !group.doubt().is_empty());
    let rated = rated(&clear);
    let is_shown = |of: &&Rated| of.p < LEVEL;
    let gains: Vec<&Rated> = rated.iter().filter(|of| of.ci.0 > 1.0).filter(is_shown).collect();
    let losses: Vec<&Rated> = rated.iter().filter(|of| of.ci.1 < 1.0).filter(is_shown).collect();
    let most = gains.iter().max_by(|one, other| one.value.total_cmp(&other.value));
    let least = losses.iter().min_by(|one, other| one.value.total_cmp(&other.value));
    let named = |rated: Option<&&Rated>| {
        rated.map_or(String::new(), |of| {
            format!(" (most: {}, {} times)", of.group.name(), together::shown(of.value, Some(of.ci)))
        })
    };
    let without = clear.len() - rated.len();
    let kind = if part.groups.iter().all(|group| group.rows.len() == 2) { "pair" } else { "group" };
    let counts = [
        (gains.len(), format!("gaining throughput over turns{}", named(most))),
        (losses.len(), format!("losing throughput{}", named(least))),
        (rated.len() - gains.len() - losses.len(), "within noise of turns".into()),
        (without, "not judged for want of an interval".into()),
        (doubtful.len(), "doubtful or failed".into()),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
    let none = match gains.len() + losses.len() {
        0 => format!("; no {kind} is shown to gain or to lose"),
        _ => String::new(),
    };
    let correction = match rated.len() {
        0 | 1 => String::new(),
        judged => format!(" Verdicts are corrected for the {judged} {kind}s with an interval."),
    };
    format!(
        "Under {}, of {}: {}{none}.{correction}",
        part.name,
        counted(part.groups.len(), kind),
        counts.join(", ")
    )
}

/// The groups that have an interval.
fn rated<'a>(groups: &[&'a Together<'a>]) -> Vec<Rated<'a>> {
    let of_group = |group: &&'a Together<'a>| {
        let (value, ci) = throughput(group)?;
        let ci = ci?;
        let blocks = group.rows.iter().map(|row| row.blocks).min()?;
        let launches = Launches::published(value, ci.0, ci.1, blocks as usize);
        Some(Rated { group, value, ci, p: launches.map_or(1.0, |of| of.p_against(1.0)) })
    };
    let mut rated: Vec<Rated> = groups.iter().filter_map(of_group).collect();
    let corrected = holm::adjusted(&rated.iter().map(|of| of.p).collect::<Vec<_>>());
    for (of, p) in rated.iter_mut().zip(corrected) {
        of.p = p;
    }
    rated
}
