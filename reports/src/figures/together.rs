//! The groups of a run of `profile colocate`, as its figures name and divide them.

use std::collections::BTreeSet;

use record::rows::{Interference, Status};
use schema::{device::Device, sharing::Sharing};

use crate::{doubt, run::Run};

/// A measured group.
#[derive(Clone, Copy)]
pub(crate) struct Together<'a> {
    /// One row per member.
    pub rows: &'a [Interference],
}

/// Groups that can be compared with each other: of one sharing mode, and on the same devices.
pub(crate) struct GroupsOfFigure<'a> {
    /// `time-slice`, or `time-slice apart` if no two members are on the same device. The devices follow if there
    /// are several parts of that name.
    pub name: String,
    pub sharing: &'a Sharing,
    pub is_apart: bool,
    pub groups: Vec<Together<'a>>,
    devices: String,
}

/// All groups, in the order of the table.
pub(super) fn groups(run: &Run) -> Vec<Together<'_>> {
    let is_same = |a: &Interference, b: &Interference| (&a.group, &a.sharing) == (&b.group, &b.sharing);
    run.interference.chunk_by(is_same).map(|rows| Together { rows }).collect()
}

/// The values in order of their appearance, each once.
pub(super) fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

/// The groups by sharing mode and devices, in order of their appearance.
pub(crate) fn parts(run: &Run) -> Vec<GroupsOfFigure<'_>> {
    let mut parts: Vec<GroupsOfFigure> = Vec::new();
    for group in groups(run) {
        let Some(Interference { sharing, .. }) = group.rows.first() else { continue };
        let (is_apart, devices) = (group.is_apart(), group.devices());
        let is_same = |part: &GroupsOfFigure| {
            (part.sharing, part.is_apart, &part.devices) == (sharing, is_apart, &devices)
        };
        match parts.iter_mut().find(|part| is_same(part)) {
            Some(part) => part.groups.push(group),
            None => {
                let name = if is_apart { format!("{sharing} apart") } else { sharing.to_string() };
                parts.push(GroupsOfFigure { name, sharing, is_apart, devices, groups: vec![group] });
            }
        }
    }
    let names: Vec<String> = parts.iter().map(|part| part.name.clone()).collect();
    for part in &mut parts {
        if names.iter().filter(|name| **name == part.name).count() > 1 {
            part.name = format!("{} on {}", part.name, part.devices);
        }
    }
    parts
}

impl Together<'_> {
    /// The jobs, as `lstm@b20@dp1 + vae@b128@dp1`.
    pub(crate) fn name(&self) -> String {
        self.rows.iter().map(|row| row.job.as_str()).collect::<Vec<_>>().join(" + ")
    }

    /// The jobs beside the member at this place.
    pub(super) fn beside(&self, place: usize) -> String {
        let others = self.rows.iter().enumerate().filter(|(at, _)| *at != place);
        others.map(|(_, row)| row.job.as_str()).collect::<Vec<_>>().join(" + ")
    }

    /// The devices of all members.
    pub(super) fn devices(&self) -> String {
        let names: BTreeSet<&str> = self.rows.iter().flat_map(|row| row.device.split(',')).collect();
        names.into_iter().collect::<Vec<_>>().join(",")
    }

    /// Whether no two members have a device in common.
    fn is_apart(&self) -> bool {
        let of = |row: &Interference| row.device.split(',').filter_map(|name| name.parse().ok()).collect();
        let devices: Vec<Vec<Device>> = self.rows.iter().map(of).collect();
        let share = |a: &[Device], b: &[Device]| a.iter().any(|a| b.iter().any(|b| a.shares_with(b)));
        let later = |place: usize| devices.iter().skip(place + 1);
        !devices.iter().enumerate().any(|(place, own)| later(place).any(|other| share(own, other)))
    }

    /// Why the numbers of the group are doubtful or absent: what is said of its members, each once.
    pub(crate) fn doubt(&self) -> String {
        let joined = |of: fn(&Interference) -> String| {
            distinct(self.rows.iter().map(of).filter(|one| !one.is_empty())).join("; ")
        };
        let own = joined(|row| failure(row).unwrap_or_else(|| doubt::own_of_member(row)));
        if own.is_empty() { joined(doubt) } else { own }
    }
}

impl GroupsOfFigure<'_> {
    /// The groups whose numbers nothing makes doubtful.
    pub(super) fn without_doubts(&self) -> impl Iterator<Item = &Together<'_>> {
        self.groups.iter().filter(|group| group.doubt().is_empty())
    }
}

/// The failure of a row; `None` if it has none.
pub(super) fn failure(row: &Interference) -> Option<String> {
    let words = [row.err.map(|err| err.to_string()), row.err_detail.clone()];
    let said: Vec<String> = [row.status.to_string()].into_iter().chain(words.into_iter().flatten()).collect();
    (row.status != Status::Ok).then(|| said.join(": "))
}

/// The failure of a row, or why it is doubtful; empty if there is nothing to doubt.
pub(super) fn doubt(row: &Interference) -> String {
    failure(row).unwrap_or_else(|| doubt::of_member(row))
}

/// The doubts of these groups, as a figure lists them.
pub(super) fn doubts<'a>(groups: impl IntoIterator<Item = &'a Together<'a>>) -> Vec<String> {
    listed(groups, |row| Some(doubt::own_of_member(row)).filter(|doubt| !doubt.is_empty()))
}

/// The failures of these groups, as a figure lists them.
pub(super) fn failures<'a>(groups: impl IntoIterator<Item = &'a Together<'a>>) -> Vec<String> {
    listed(groups, failure)
}

fn listed<'a>(
    groups: impl IntoIterator<Item = &'a Together<'a>>,
    say: fn(&Interference) -> Option<String>,
) -> Vec<String> {
    let of_group = |group: &'a Together<'a>| {
        let of_row = move |(place, row): (usize, &Interference)| {
            Some(format!("{} beside {} ({}): {}", row.job, group.beside(place), row.sharing, say(row)?))
        };
        group.rows.iter().enumerate().filter_map(of_row)
    };
    groups.into_iter().flat_map(of_group).collect()
}

/// The number of groups and of blocks behind them, in words: `21 groups, 3 blocks each`.
pub(super) fn repeats<'a>(groups: impl IntoIterator<Item = &'a Together<'a>>) -> String {
    let groups: Vec<&Together> = groups.into_iter().collect();
    let blocks =
        || groups.iter().flat_map(|group| group.rows).map(|row| row.blocks).filter(|&blocks| blocks > 0);
    let of_blocks = match (blocks().min(), blocks().max()) {
        (Some(1), Some(1)) => "one block each, so that there are no intervals".into(),
        (Some(least), Some(most)) if least == most => format!("{most} blocks each"),
        (Some(least), Some(most)) => format!("{least} to {most} blocks each"),
        _ => "no block with numbers".into(),
    };
    format!("{} {}, {of_blocks}", groups.len(), if groups.len() == 1 { "group" } else { "groups" })
}

/// A ratio with its interval: `1.95 (1.80 to 2.10)`.
pub(crate) fn shown(value: f64, ci: Option<(f64, f64)>) -> String {
    ci.map_or_else(
        || format!("{value:.2} without an interval"),
        |(lo, hi)| format!("{value:.2} ({lo:.2} to {hi:.2})"),
    )
}

/// The ends of an interval, if both are numbers.
pub(super) fn ends(lo: Option<f64>, hi: Option<f64>) -> Option<(f64, f64)> {
    lo.zip(hi).filter(|(lo, hi)| lo.is_finite() && hi.is_finite())
}

/// A number of a table, if it is one.
pub(super) fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

/// Whether the others can be told from the largest value: how many of them have an interval that reaches the lower end of its
/// own, or none. It is the end of a sentence.
pub(super) fn rivals(largest: Option<(f64, f64)>, others: &[Option<(f64, f64)>]) -> String {
    let Some((lo, _)) = largest else { return "; it cannot be told from others".into() };
    let reach = others.iter().filter(|other| other.is_none_or(|(_, hi)| hi >= lo)).count();
    match reach {
        _ if others.is_empty() => String::new(),
        0 => "; its interval overlaps no other".into(),
        1 => "; within noise of one other".into(),
        _ => format!("; within noise of {reach} others"),
    }
}

#[cfg(test)]
pub(super) mod testing {
    //! Runs for the tests of figures of groups.

    use std::path::Path;

    use record::rows::ErrorKind;

    use super::*;

    pub(crate) fn record(name: &str) -> Run {
        Run::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("record").join(name)).expect("a record")
    }

    /// A run of all pairs with these rows in the place of its own.
    pub(crate) fn run(rows: Vec<Interference>) -> Run {
        let mut run = record("20261122-epyc/colocate/all-pairs-1");
        run.interference = rows;
        run
    }

    /// A row of a pair on one core, with an interval of a tenth to each side.
    pub(crate) fn row(job: &str, beside: &str, seat: u32, slowdown: f64) -> Interference {
        let mut names = [job, beside];
        if seat == 1 {
            names.reverse();
        }
        Interference {
            job: job.into(),
            workload: job.into(),
            device: "cpu:0".into(),
            sharing: Sharing::TIME_SLICE,
            group: names.join("+"),
            group_size: 2,
            seat,
            blocks: 3,
            slowdown: Some(slowdown),
            slowdown_ci_lo: Some(slowdown - 0.1),
            slowdown_ci_hi: Some(slowdown + 0.1),
            valid: true,
            ..Interference::default()
        }
    }

    pub(crate) fn pair(first: &str, second: &str, slowdowns: [f64; 2]) -> Vec<Interference> {
        vec![row(first, second, 0, slowdowns[0]), row(second, first, 1, slowdowns[1])]
    }

    pub(crate) fn failed(job: &str, beside: &str) -> Interference {
        Interference {
            group: "a group".into(),
            blocks: 0,
            slowdown: None,
            slowdown_ci_lo: None,
            slowdown_ci_hi: None,
            valid: false,
            status: Status::Failed,
            err: Some(ErrorKind::Crashed),
            err_detail: Some("it died".into()),
            ..row(job, beside, 0, 1.0)
        }
    }

    #[test]
    fn groups_are_divided_by_sharing_mode_and_devices() {
        let names = |run: &Run| parts(run).into_iter().map(|part| part.name).collect::<Vec<_>>();
        let modes = record("20261122-epyc/colocate/sharing-bert-espcn");
        assert_eq!(names(&modes), ["time-slice", "step-gate:2/1", "sequential"]);
        assert_eq!(names(&record("20261122-epyc/colocate/two-cores")), ["time-slice apart"]);
        let elsewhere =
            |row: Interference| Interference { device: "cpu:1".into(), group: "other".into(), ..row };
        let mut rows = pair("a", "b", [1.0, 1.0]);
        rows.extend(pair("a", "b", [1.0, 1.0]).into_iter().map(elsewhere));
        assert_eq!(names(&run(rows)), ["time-slice on cpu:0", "time-slice on cpu:1"]);
    }

    #[test]
    fn overlaps_are_counted_and_never_claimed_away() {
        assert_eq!(rivals(Some((2.0, 2.2)), &[Some((1.0, 1.5))]), "; its interval overlaps no other");
        assert_eq!(rivals(Some((2.0, 2.2)), &[Some((1.0, 2.1)), None]), "; within noise of 2 others");
        assert_eq!(rivals(None, &[]), "; it cannot be told from others");
        assert_eq!(rivals(Some((2.0, 2.2)), &[]), "");
    }
}
