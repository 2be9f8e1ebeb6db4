//! Jobs that share devices: which groups gain throughput over taking turns, which lose, and which cannot be told.

use super::{counted, quotable};
use crate::{
    figures::{
        group_throughput::throughput,
        together::{self, GroupsOfFigure, Together},
    },
    run::Run,
};

/// A group with its throughput over that of turns without loss.
type Rated<'a> = (&'a Together<'a>, f64, (f64, f64));

pub(super) fn answer(run: &Run) -> Option<String> {
    let parts = together::parts(run);
    let mut said: Vec<String> = parts.iter().map(of_part).collect();
    if said.is_empty() {
        return None;
    }
    said.push(quotable(run));
    Some(said.join(" "))
}

fn of_part(part: &GroupsOfFigure) -> String {
    let (doubtful, clear): (Vec<&Together>, Vec<&Together>) =
        part.groups.iter().partition(|group| !group.doubt().is_empty());
    let rated: Vec<Rated> = clear
        .iter()
        .filter_map(|group| throughput(group).and_then(|(value, ci)| Some((*group, value, ci?))))
        .collect();
    let gains: Vec<&Rated> = rated.iter().filter(|(.., (lo, _))| *lo > 1.0).collect();
    let losses: Vec<&Rated> = rated.iter().filter(|(.., (_, hi))| *hi < 1.0).collect();
    let most = gains.iter().max_by(|one, other| one.1.total_cmp(&other.1));
    let least = losses.iter().min_by(|one, other| one.1.total_cmp(&other.1));
    let named = |of: Option<&&Rated>| {
        of.map_or(String::new(), |(group, value, ci)| {
            format!(" (most: {}, {} times)", group.name(), together::shown(*value, Some(*ci)))
        })
    };
    let without = clear.len() - rated.len();
    let kind = if part.groups.iter().all(|group| group.rows.len() == 2) { "pair" } else { "group" };
    let counts = [
        (gains.len(), format!("gaining throughput over turns{}", named(most))),
        (losses.len(), format!("losing throughput{}", named(least))),
        (rated.len() - gains.len() - losses.len(), "not told from turns".into()),
        (without, "not judged for want of an interval".into()),
        (doubtful.len(), "doubtful or failed".into()),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
    let none = if gains.len() + losses.len() == 0 { ", so that no gain and no loss is shown" } else { "" };
    format!("Under {}, of {}: {}{none}.", part.name, counted(part.groups.len(), kind), counts.join(", "))
}
