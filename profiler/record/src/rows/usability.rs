//! Whether the numbers of a run of `profile` may be quoted: a verdict over its rows.

use std::{cmp::Reverse, collections::BTreeMap, fmt};

use schema::device::Device;

use super::{
    interference::Interference,
    labels::{Status, Warning, Warnings},
    summary::Summary,
};

/// The part of a device in percent that other programs may use. With more, a job shares its device with a program that no row names.
const MOST_OF_OTHERS_PERCENT: f64 = 10.0;

/// Whether the numbers of a run may be quoted, with the reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Usability {
    Usable,
    WithCare(Vec<String>),
    /// At least one row is no measurement of what it names.
    DoNotQuote(Vec<String>),
}

impl Usability {
    /// The largest half-width of an interval that may be quoted, in percent of its value.
    pub const WIDEST_PERCENT: f64 = 50.0;

    /// The verdict over the rows of a run, which has this many launches still to do. `interference` is empty for a run of jobs alone.
    /// `None` for a run without rows.
    pub fn of_run(summaries: &[Summary], interference: &[Interference], missing: usize) -> Option<Usability> {
        if summaries.is_empty() {
            return None;
        }
        let reasons =
            [other_programs(summaries), wide_intervals(summaries, interference), lost_numbers(summaries)]
                .concat();
        if !reasons.is_empty() {
            return Some(Usability::DoNotQuote(reasons));
        }
        let reasons = [
            failures(summaries, interference),
            missing_launches(missing),
            unknown_programs(summaries),
            single_launches(summaries, interference),
            warnings(summaries, interference),
        ]
        .concat();
        Some(if reasons.is_empty() { Usability::Usable } else { Usability::WithCare(reasons) })
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

/// The row beside which other programs used most of its cores, if they used much, and the first row on a GPU that others used, too.
fn other_programs(summaries: &[Summary]) -> Vec<String> {
    let worst = summaries
        .iter()
        .filter_map(|row| Some((percent_of_others(row, summaries)?, row)))
        .filter(|(percent, _)| *percent > MOST_OF_OTHERS_PERCENT)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    let on_cores = worst.map(|(percent, row)| {
        format!("other programs had {percent:.0} % of {} beside {}", row.device, name(row))
    });
    let is_shared_gpu =
        |row: &&Summary| !is_on_cores(row) && row.warnings.iter().any(|warning| warning == Warning::Foreign);
    let shared = summaries.iter().find(is_shared_gpu);
    let on_gpu = shared.map(|row| format!("other programs used {} beside {}", row.device, name(row)));
    on_cores.into_iter().chain(on_gpu).collect()
}

/// The job of a row alone, or the group of a row together.
fn name(row: &Summary) -> &str {
    row.group.as_deref().unwrap_or(&row.job)
}

/// The utilisation of a row's cores without that of the jobs on them, in percent. The members of a group on the same cores share them.
/// `None` on GPUs, whose utilisation by a process is no part of the utilisation of the device, and if a member has only some of the
/// cores of another.
fn percent_of_others(row: &Summary, summaries: &[Summary]) -> Option<f64> {
    let is_member = |other: &&Summary| {
        row.group.is_some()
            && (&other.group, &other.sharing) == (&row.group, &row.sharing)
            && other.seat != row.seat
    };
    let mut own = row.job_util_percent_mean.filter(|_| is_on_cores(row))?;
    for other in summaries.iter().filter(is_member) {
        if other.device == row.device {
            own += other.job_util_percent_mean?;
        } else if overlap(&other.device, &row.device) {
            return None;
        }
    }
    Some(row.device_util_percent_mean? - own)
}

fn is_on_cores(row: &Summary) -> bool {
    devices(&row.device).all(|device| matches!(device, Device::Cpu(_)))
}

/// Whether two lists of devices have cores or a GPU in common.
fn overlap(one: &str, other: &str) -> bool {
    devices(one).any(|device| devices(other).any(|other| device.shares_with(&other)))
}

fn devices(joined: &str) -> impl Iterator<Item = Device> {
    joined.split(',').filter_map(|name| name.parse().ok())
}

fn wide_intervals(summaries: &[Summary], interference: &[Interference]) -> Vec<String> {
    let steps = summaries.iter().filter_map(|row| Some((row.half_width_percent?, &row.job)));
    let slowdowns = interference.iter().filter_map(|row| {
        let half = (row.slowdown_ci_hi? - row.slowdown_ci_lo?) / 2.0;
        Some((100.0 * half / row.slowdown?, &row.job))
    });
    let all: Vec<(f64, &String)> = steps.chain(slowdowns).collect();
    let wide: Vec<&(f64, &String)> =
        all.iter().filter(|(half, _)| *half > Usability::WIDEST_PERCENT).collect();
    let Some((half, job)) = wide.iter().max_by(|one, other| one.0.total_cmp(&other.0)) else {
        return Vec::new();
    };
    let (wide, all) = (wide.len(), all.len());
    vec![format!(
        "{wide} of {all} intervals are wider than +-{:.0} %, the widest of {job} with +-{half:.0} %",
        Usability::WIDEST_PERCENT
    )]
}

/// Says whether all rows lack numbers, and names the first device that was lost.
fn lost_numbers(summaries: &[Summary]) -> Vec<String> {
    let mut reasons = Vec::new();
    if summaries.iter().all(|row| row.status != Status::Ok) {
        reasons.push("no row has numbers".to_owned());
    }
    let is_lost = |row: &&Summary| row.warnings.iter().any(|warning| warning == Warning::DeviceLost);
    reasons.extend(summaries.iter().find(is_lost).map(|row| format!("{} stopped answering", row.device)));
    reasons
}

fn failures(summaries: &[Summary], interference: &[Interference]) -> Vec<String> {
    let all = summaries.iter().map(|row| row.status).chain(interference.iter().map(|row| row.status));
    let (rows, without): (usize, usize) =
        all.fold((0, 0), |(rows, without), status| (rows + 1, without + usize::from(status != Status::Ok)));
    let rows = (without > 0).then(|| format!("{without} of {rows} rows have no numbers"));
    let ok = summaries.iter().filter(|row| row.status == Status::Ok);
    let failed: u32 = ok.map(|row| row.repeats_failed).sum();
    let launches = (failed > 0).then(|| format!("{failed} launches of the other rows failed"));
    rows.into_iter().chain(launches).collect()
}

fn missing_launches(missing: usize) -> Vec<String> {
    (missing > 0).then(|| format!("{missing} launches are missing")).into_iter().collect()
}

/// Counts the rows on cores whose readings do not show the CPU time of other programs.
fn unknown_programs(summaries: &[Summary]) -> Vec<String> {
    let ok = || summaries.iter().filter(|row| row.status == Status::Ok);
    let is_unknown = |row: &&Summary| is_on_cores(row) && percent_of_others(row, summaries).is_none();
    let unknown = ok().filter(is_unknown).count();
    let say = || format!("what other programs used is not known for {unknown} of {} rows", ok().count());
    (unknown > 0).then(say).into_iter().collect()
}

fn single_launches(summaries: &[Summary], interference: &[Interference]) -> Vec<String> {
    let alone = summaries.iter().filter(|row| row.status == Status::Ok).map(|row| row.repeats);
    let together = interference.iter().filter(|row| row.status == Status::Ok).map(|row| row.blocks);
    let (rows, single) = alone
        .chain(together)
        .fold((0, 0), |(rows, single), times| (rows + 1, single + u32::from(times == 1)));
    let say = || format!("{single} of {rows} rows were measured once, and have no interval");
    (single > 0).then(say).into_iter().collect()
}

/// The warnings of rows, the most frequent first.
fn warnings(summaries: &[Summary], interference: &[Interference]) -> Vec<String> {
    let rows: Vec<&Warnings> = summaries
        .iter()
        .map(|row| &row.warnings)
        .chain(interference.iter().map(|row| &row.warnings))
        .collect();
    let doubtful = rows.iter().filter(|warnings| !warnings.is_empty()).count();
    let mut counts: BTreeMap<Warning, usize> = BTreeMap::new();
    rows.iter()
        .flat_map(|warnings| warnings.iter())
        .for_each(|warning| *counts.entry(warning).or_default() += 1);
    let mut counts: Vec<(Warning, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    let words: Vec<String> = counts.iter().map(|(warning, count)| format!("{warning} {count}")).collect();
    let say = || format!("{doubtful} of {} rows have warnings ({})", rows.len(), words.join(", "));
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
        Usability::of_run(rows, &[], 0).map_or("-".into(), |usability| usability.to_string())
    }

    #[test]
    fn a_run_is_as_usable_as_its_worst_row() {
        let good = || alone("a", OWN, 2.0, "");
        assert_eq!(said(&[good(), alone("b", OWN, 3.0, "")]), "usable");
        assert_eq!(
            said(&[good(), alone("b", "", 3.0, "")]),
            "usable with care: what other programs used is not known for 1 of 2 rows"
        );
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
            "do not quote: 1 of 2 intervals are wider than +-50 %, the widest of b with +-72 %"
        );
        let failed = || {
            row(r#""job": "c", "device": "cpu:0", "sharing": "alone", "repeats": 0, "warnings": "",
                "status": "failed", "err": "crashed""#)
        };
        assert_eq!(said(&[good(), failed()]), "usable with care: 1 of 2 rows have no numbers");
        assert_eq!(said(&[failed()]), "do not quote: no row has numbers");
        assert_eq!(said(&[]), "-", "a run without rows has no verdict");
        let some_failed = Summary { repeats_failed: 2, ..good() };
        assert_eq!(said(&[some_failed]), "usable with care: 2 launches of the other rows failed");
        let interrupted = Usability::of_run(&[good()], &[], 7).map(|usability| usability.to_string());
        assert_eq!(interrupted.as_deref(), Some("usable with care: 7 launches are missing"));
        assert!(said(&[alone("a", OWN, 2.0, "device-lost")]).contains("cpu:0 stopped answering"));
        let once =
            row(r#""job": "a", "device": "cpu:0", "sharing": "alone", "repeats": 1, "step_ns_median": 1,
            "device_util_percent_mean": 9.0, "job_util_percent_mean": 8.0, "warnings": "", "status": "ok""#);
        assert_eq!(said(&[once]), "usable with care: 1 of 1 rows were measured once, and have no interval");
    }

    /// The utilisation of a GPU is the time with any kernel, of which that of a process is no part.
    #[test]
    fn a_gpu_is_shared_if_another_process_uses_it() {
        let on_gpu = |warnings: &str| {
            let device = r#""device": "cuda:0","#;
            row(&format!(
                r#""job": "a", {device} "sharing": "alone", "repeats": 3, "step_ns_median": 1, "device_util_percent_mean": 95.69,
                "job_util_percent_mean": 53.0, "half_width_percent": 1.0, "warnings": "{warnings}", "status": "ok""#
            ))
        };
        assert_eq!(said(&[on_gpu("")]), "usable");
        assert_eq!(said(&[on_gpu("foreign")]), "do not quote: other programs used cuda:0 beside a");
    }

    #[test]
    fn slowdowns_have_intervals_and_blocks_of_their_own() {
        let of_pair = |low: f64, high: f64, blocks: u32| -> Interference {
            crate::rows::from_json(&format!(
                r#"{{"run": "r", "job": "a", "workload": "a", "device": "cpu:0", "sharing": "time-slice", "group": "a+b",
                "group_size": 2, "seat": 0, "blocks": {blocks}, "blocks_failed": 0, "slowdown": 1.5, "slowdown_ci_lo": {low},
                "slowdown_ci_hi": {high}, "valid": true, "warnings": "", "status": "ok"}}"#
            ))
            .expect("a row of a group")
        };
        let alone = [alone("a", OWN, 2.0, "")];
        let said = |row| {
            Usability::of_run(&alone, &[row], 0).map(|usability| usability.to_string()).expect("it has rows")
        };
        assert_eq!(said(of_pair(1.4, 1.6, 3)), "usable");
        assert_eq!(
            said(of_pair(0.7, 3.2, 3)),
            "do not quote: 1 of 2 intervals are wider than +-50 %, the widest of a with +-83 %"
        );
        assert_eq!(
            said(of_pair(1.4, 1.6, 1)),
            "usable with care: 1 of 2 rows were measured once, and have no interval"
        );
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
        let unknown = "usable with care: what other programs used is not known for 2 of 2 rows";
        assert_eq!(said(&[member(0, 10.0), wider]), unknown, "the other has a part of its time on cpu:0");
    }
}
