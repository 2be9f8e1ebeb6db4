//! Whether the numbers of a run of `profile` may be quoted: a verdict over its rows.

use std::{collections::BTreeMap, fmt};

use schema::device::Device;

use super::{
    interference::Interference,
    labels::{Status, Warning},
    summary::Summary,
};

/// The part of a device in percent that other programs may use. With more, a job shares its device with a program that no row names.
const MOST_OF_OTHERS_PERCENT: f64 = 10.0;

/// The largest half-width of an interval, in percent of its value.
const WIDEST_PERCENT: f64 = 50.0;

/// Whether the numbers of a run may be quoted, with the reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Usability {
    Usable,
    WithCare(Vec<String>),
    /// At least one row is no measurement of what it names.
    DoNotQuote(Vec<String>),
}

impl Usability {
    /// The verdict over the rows of a run. `interference` is empty for a run of jobs alone.
    pub fn of_rows(summaries: &[Summary], interference: &[Interference]) -> Usability {
        let reasons =
            [of_others(summaries), of_wide_intervals(summaries), of_lost_numbers(summaries)].concat();
        if !reasons.is_empty() {
            return Usability::DoNotQuote(reasons);
        }
        let reasons = [
            of_failures(summaries, interference),
            of_repeats(summaries),
            of_warnings(summaries, interference),
        ];
        match reasons.concat() {
            reasons if reasons.is_empty() => Usability::Usable,
            reasons => Usability::WithCare(reasons),
        }
    }

    pub fn may_be_quoted(&self) -> bool {
        !matches!(self, Usability::DoNotQuote(_))
    }
}

impl fmt::Display for Usability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Usability::Usable => f.write_str("usable"),
            Usability::WithCare(reasons) => write!(f, "usable with care: {}", reasons.join("; ")),
            Usability::DoNotQuote(reasons) => write!(f, "do not quote: {}", reasons.join("; ")),
        }
    }
}

/// The row beside which other programs used most of the device, if that is much.
fn of_others(summaries: &[Summary]) -> Vec<String> {
    let worst = summaries
        .iter()
        .filter_map(|row| Some((percent_of_others(row, summaries)?, row)))
        .filter(|(percent, _)| *percent > MOST_OF_OTHERS_PERCENT)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    let say = |(percent, row): (f64, &Summary)| {
        let beside = row.group.as_deref().unwrap_or(&row.job);
        format!("other programs had {percent:.0} % of {} beside {beside}", row.device)
    };
    worst.map(say).into_iter().collect()
}

/// The utilisation of a row's device without that of the jobs on it, in percent. The members of a group on the same device share it.
/// `None` if the utilisation is not known, or if a member has only some of the devices of another.
fn percent_of_others(row: &Summary, summaries: &[Summary]) -> Option<f64> {
    let is_member = |other: &&Summary| {
        row.group.is_some()
            && (&other.group, &other.sharing) == (&row.group, &row.sharing)
            && other.seat != row.seat
    };
    let mut own = row.job_util_percent_mean?;
    for other in summaries.iter().filter(is_member) {
        if other.device == row.device {
            own += other.job_util_percent_mean?;
        } else if overlap(&other.device, &row.device) {
            return None;
        }
    }
    Some(row.device_util_percent_mean? - own)
}

/// Whether two lists of devices have cores or a GPU in common.
fn overlap(one: &str, other: &str) -> bool {
    let devices =
        |joined: &str| joined.split(',').filter_map(|name| name.parse().ok()).collect::<Vec<Device>>();
    let others = devices(other);
    devices(one).iter().any(|device| others.iter().any(|other| device.shares_with(other)))
}

fn of_wide_intervals(summaries: &[Summary]) -> Vec<String> {
    let is_wide = |row: &&Summary| row.half_width_percent.is_some_and(|half| half > WIDEST_PERCENT);
    let wide: Vec<&Summary> = summaries.iter().filter(is_wide).collect();
    let Some(first) = wide.first() else { return Vec::new() };
    let half = first.half_width_percent.unwrap_or_default();
    vec![format!(
        "{} of {} intervals are wider than +-{WIDEST_PERCENT:.0} %, as that of {}, +-{half:.0} %",
        wide.len(),
        summaries.len(),
        first.job
    )]
}

/// Rows that have no numbers, if no row has any, and rows whose device was lost.
fn of_lost_numbers(summaries: &[Summary]) -> Vec<String> {
    let mut reasons = Vec::new();
    if summaries.iter().all(|row| row.status != Status::Ok) {
        reasons.push("no row has numbers".to_owned());
    }
    let is_lost = |row: &&Summary| row.warnings.iter().any(|warning| warning == Warning::DeviceLost);
    reasons.extend(summaries.iter().find(is_lost).map(|row| format!("{} stopped answering", row.device)));
    reasons
}

fn of_failures(summaries: &[Summary], interference: &[Interference]) -> Vec<String> {
    let all = summaries.iter().map(|row| row.status).chain(interference.iter().map(|row| row.status));
    let (rows, without): (usize, usize) =
        all.fold((0, 0), |(rows, without), status| (rows + 1, without + usize::from(status != Status::Ok)));
    (without > 0).then(|| format!("{without} of {rows} rows have no numbers")).into_iter().collect()
}

fn of_repeats(summaries: &[Summary]) -> Vec<String> {
    let single = summaries.iter().filter(|row| row.status == Status::Ok && row.repeats == 1).count();
    let say = || format!("{single} of {} rows are of one launch, and have no interval", summaries.len());
    (single > 0).then(say).into_iter().collect()
}

/// The warnings of rows, the most frequent first.
fn of_warnings(summaries: &[Summary], interference: &[Interference]) -> Vec<String> {
    let all = summaries.iter().map(|row| &row.warnings).chain(interference.iter().map(|row| &row.warnings));
    let (mut rows, mut doubtful) = (0, 0);
    let mut counts: BTreeMap<Warning, usize> = BTreeMap::new();
    for warnings in all {
        rows += 1;
        doubtful += usize::from(!warnings.is_empty());
        warnings.iter().for_each(|warning| *counts.entry(warning).or_default() += 1);
    }
    let mut counts: Vec<(Warning, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let words: Vec<String> = counts.iter().map(|(warning, count)| format!("{warning} {count}")).collect();
    let say = || format!("{doubtful} of {rows} rows have warnings ({})", words.join(", "));
    (doubtful > 0).then(say).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(more: &str) -> Summary {
        crate::rows::from_json(&format!(
            r#"{{"run": "r", "workload": "a", "threads": 1, "repeats_failed": 0, {more}}}"#
        ))
        .expect("a summary")
    }

    fn alone(job: &str, util: &str, half: f64, warnings: &str) -> Summary {
        row(&format!(
            r#""job": "{job}", "device": "cpu:0", "sharing": "alone", "repeats": 3, "step_ns_median": 1, {util}
            "half_width_percent": {half}, "warnings": "{warnings}", "status": "ok""#
        ))
    }

    const OWN: &str = r#""device_util_percent_mean": 99.0, "job_util_percent_mean": 97.5,"#;
    const SHARED: &str = r#""device_util_percent_mean": 99.0, "job_util_percent_mean": 14.0,"#;

    fn said(rows: &[Summary]) -> String {
        Usability::of_rows(rows, &[]).to_string()
    }

    #[test]
    fn a_run_is_as_usable_as_its_worst_row() {
        let good = || alone("a", OWN, 2.0, "");
        assert_eq!(said(&[good(), alone("b", "", 3.0, "")]), "usable");
        assert_eq!(
            said(&[good(), alone("b", OWN, 3.0, "steal;spread"), alone("c", OWN, 3.0, "spread")]),
            "usable with care: 2 of 3 rows have warnings (spread 2, steal 1)"
        );
        assert_eq!(
            said(&[good(), alone("b", SHARED, 3.0, "foreign")]),
            "do not quote: other programs had 85 % of cpu:0 beside b"
        );
        assert_eq!(
            said(&[good(), alone("b", OWN, 72.0, "few-steps")]),
            "do not quote: 1 of 2 intervals are wider than +-50 %, as that of b, +-72 %"
        );
        let failed = || {
            row(r#""job": "c", "device": "cpu:0", "sharing": "alone", "repeats": 0, "warnings": "",
                "status": "failed", "err": "crashed""#)
        };
        assert_eq!(said(&[good(), failed()]), "usable with care: 1 of 2 rows have no numbers");
        assert_eq!(said(&[failed()]), "do not quote: no row has numbers");
        assert!(said(&[alone("a", OWN, 2.0, "device-lost")]).contains("cpu:0 stopped answering"));
        let once =
            row(r#""job": "a", "device": "cpu:0", "sharing": "alone", "repeats": 1, "step_ns_median": 1,
            "warnings": "", "status": "ok""#);
        assert_eq!(said(&[once]), "usable with care: 1 of 1 rows are of one launch, and have no interval");
    }

    /// Both members have half of the device, and the rest of a member's device is the other member.
    #[test]
    fn members_of_a_group_are_no_other_programs() {
        let member = |seat: u32, own: f64| {
            row(&format!(
                r#""job": "m{seat}", "device": "cpu:0", "sharing": "time-slice", "group": "m0+m1", "seat": {seat}, "repeats": 3,
                "step_ns_median": 1, "device_util_percent_mean": 98.0, "job_util_percent_mean": {own},
                "half_width_percent": 2.0, "warnings": "", "status": "ok""#
            ))
        };
        assert_eq!(said(&[member(0, 48.0), member(1, 49.0)]), "usable");
        assert_eq!(
            said(&[member(0, 18.0), member(1, 19.0)]),
            "do not quote: other programs had 61 % of cpu:0 beside m0+m1"
        );
        let mut wider = member(1, 49.0);
        wider.device = "cpu:0,cpu:1".into();
        assert_eq!(
            said(&[member(0, 10.0), wider]),
            "usable",
            "which part the other has on cpu:0 is not known"
        );
    }
}
