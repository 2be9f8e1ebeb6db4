//! Pairs of jobs that shared a device, of any origin: a table with a line for each pair.

use std::collections::BTreeMap;

use csv::StringRecord;
use record::rows::{Records, RowError, shown};
use schema::{job::Job, plan::Plan, sharing::Sharing};
use serde::Deserialize;

use super::{Found, Source};

/// The columns that every table has.
const NEEDED: [&str; 3] = ["mode", "job_a", "job_b"];
/// The columns of times in seconds, and those of speeds beside the other job over the speeds alone. A table has one of the two.
const TIMES: [&str; 4] = ["alone_a", "alone_b", "together_a", "together_b"];
const SPEEDS: [&str; 2] = ["speed_a", "speed_b"];
/// The columns that a table may have.
const OPTIONAL: [&str; 9] = [
    "device_type",
    "family_a",
    "family_b",
    "device_util_percent_a",
    "device_util_percent_b",
    "dram_util_percent_a",
    "dram_util_percent_b",
    "peak_memory_bytes_a",
    "peak_memory_bytes_b",
];

/// The range of times in seconds and of speeds.
const LEAST: f64 = 1e-9;
const MOST: f64 = 1e9;

/// The largest slowdown, and the largest gain. What lies beyond them has times of two units.
const LARGEST_FACTOR: f64 = 1000.0;

/// Two jobs that shared a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    pub sharing: Sharing,
    pub device_type: Option<String>,
    pub members: [PairMember; 2],
}

/// A job of a pair, with what the table says of the job alone.
#[derive(Clone, Debug, PartialEq)]
pub struct PairMember {
    /// Without a device. A job with a batch and without a plan is of `dp1`.
    pub job: Job,
    /// The name of the model that several workloads are variants of.
    pub family: Option<String>,
    /// The time of its steps beside the other job over the time alone.
    pub slowdown: f64,
    pub alone_s: Option<f64>,
    /// The share of time in which its device is busy, from 0 to 1.
    pub busy: Option<f64>,
    /// The share of time in which its device's memory transfers data, from 0 to 1.
    pub traffic: Option<f64>,
    pub peak_memory_bytes: Option<u64>,
}

/// The cells of a line that both members share.
#[derive(Deserialize)]
struct Shared {
    mode: Sharing,
    #[serde(default)]
    device_type: Option<String>,
}

/// The cells of a member, whose columns end in the name of its seat.
#[derive(Deserialize)]
struct Side {
    job: Job,
    #[serde(default)]
    family: Option<String>,
    #[serde(default)]
    alone: Option<f64>,
    #[serde(default)]
    together: Option<f64>,
    #[serde(default)]
    speed: Option<f64>,
    #[serde(default)]
    device_util_percent: Option<f64>,
    #[serde(default)]
    dram_util_percent: Option<f64>,
    #[serde(default)]
    peak_memory_bytes: Option<u64>,
}

/// One of the two places in a line.
struct Seat {
    /// What the names of its columns end in.
    suffix: &'static str,
    /// The names of the columns of the table, without the suffix where they have it.
    names: StringRecord,
}

/// Whether a table is one of pairs, by the names of its columns.
///
/// # Errors
/// Its first line cannot be read.
pub fn is_table(Source { file, text }: Source<'_>) -> Result<bool, RowError> {
    Ok(Records::new(file, text)?.header().iter().any(|name| name == "job_a"))
}

/// Reads the lines of a table, in order.
///
/// # Errors
/// Fails at a column that is missing or that the layout does not have, and at the first invalid value, which the error names by line and
/// column.
pub fn read(Source { file, text }: Source<'_>) -> Result<Vec<Pair>, RowError> {
    let mut records = Records::new(file, text)?;
    let has_speeds = check_columns(&records.header().iter().collect::<Vec<_>>())
        .map_err(|message| RowError::Row { file: file.into(), line: 1, message })?;
    let seats = ["_a", "_b"].map(|suffix| Seat::new(suffix, records.header()));
    let mut families: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut member = |records: &mut Records<'_>, Seat { suffix, names }: &Seat| {
        let side: Side = records.row_under(names).map_err(|error| records.refuse(error))?;
        let member = member(side, has_speeds).and_then(|member| check_family(&mut families, member));
        member.map_err(|(column, message)| RowError::Field {
            file: file.into(),
            line: records.line(),
            column: format!("{column}{suffix}"),
            message,
        })
    };
    let mut pairs = Vec::new();
    while records.advance()? {
        let Shared { mode, device_type } = records.row().map_err(|error| records.refuse(error))?;
        if let Some(message) = check_mode(&mode) {
            let (file, line, column) = (file.into(), records.line(), "mode".into());
            return Err(RowError::Field { file, line, column, message });
        }
        let [a, b] = &seats;
        let members = [member(&mut records, a)?, member(&mut records, b)?];
        pairs.push(Pair { sharing: mode, device_type, members });
    }
    Ok(pairs)
}

impl Seat {
    fn new(suffix: &'static str, header: &StringRecord) -> Seat {
        let names = header.iter().map(|name| name.strip_suffix(suffix).unwrap_or(name));
        Seat { suffix, names: names.collect() }
    }
}

/// Whether a table has speeds in place of times, or what is wrong with its columns.
fn check_columns(names: &[&str]) -> Result<bool, String> {
    let has_all = |wanted: &[&str]| wanted.iter().all(|name| names.contains(name));
    if let Some(missing) = NEEDED.iter().find(|name| !names.contains(name)) {
        return Err(format!("there is no column '{missing}'; a table of pairs has {}", NEEDED.join(",")));
    }
    let is_known =
        |name: &str| [&NEEDED[..], &TIMES, &SPEEDS, &OPTIONAL].iter().any(|columns| columns.contains(&name));
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        let known = [&NEEDED[..], &TIMES, &SPEEDS, &OPTIONAL].concat().join(", ");
        return Err(format!(
            "'{}' is no column of a table of pairs, which are {known}; drop or rename it",
            shown(unknown)
        ));
    }
    let has_any = |wanted: &[&str]| wanted.iter().any(|name| names.contains(name));
    match (has_all(&TIMES) && !has_any(&SPEEDS), has_all(&SPEEDS) && !has_any(&TIMES)) {
        (true, _) => Ok(false),
        (_, true) => Ok(true),
        _ => Err(format!(
            "a table of pairs has either {} in seconds, or {}, the speeds beside the other job over the speeds alone",
            TIMES.join(","),
            SPEEDS.join(",")
        )),
    }
}

/// Why the jobs of a mode are no pair that shares a device; `None` if they are.
fn check_mode(mode: &Sharing) -> Option<String> {
    let is_weighted = mode.seats().is_some();
    let is_unequal =
        is_weighted || matches!(mode, Sharing::Alone | Sharing::Sequential | Sharing::CpuShares { .. });
    is_unequal.then(|| format!("under '{mode}' a pair does not share its device equally; drop the line"))
}

fn member(side: Side, has_speeds: bool) -> Found<PairMember> {
    let Side { job, family, alone, together, speed, .. } = side;
    if job.device.is_some() {
        return Err(("job", format!("'{job}' names a device; leave @on= out")));
    }
    let (column, slowdown) = match has_speeds {
        true => ("speed", 1.0 / measured(("speed", speed))?),
        false => ("together", measured(("together", together))? / measured(("alone", alone))?),
    };
    if !(1.0 / LARGEST_FACTOR..=LARGEST_FACTOR).contains(&slowdown) {
        let message = format!(
            "makes a slowdown of {slowdown}, which is not from {} to {LARGEST_FACTOR}; write all times in one unit",
            1.0 / LARGEST_FACTOR
        );
        return Err((column, message));
    }
    Ok(PairMember {
        job: Job { plan: job.plan.or(job.global_batch.map(|_| Plan::default())), ..job },
        family,
        slowdown,
        alone_s: alone,
        busy: share(("device_util_percent", side.device_util_percent))?,
        traffic: share(("dram_util_percent", side.dram_util_percent))?,
        peak_memory_bytes: side.peak_memory_bytes,
    })
}

fn measured((column, value): (&'static str, Option<f64>)) -> Found<f64> {
    match value {
        Some(value) if (LEAST..=MOST).contains(&value) => Ok(value),
        Some(value) => {
            Err((column, format!("{value} is not from {LEAST} to {MOST}; drop lines that were not measured")))
        }
        None => Err((column, "is empty; drop lines that were not measured".into())),
    }
}

/// A share from 0 to 1.
fn share((column, percent): (&'static str, Option<f64>)) -> Found<Option<f64>> {
    match percent {
        Some(percent) if !(0.0..=100.0).contains(&percent) => {
            let message = format!("{percent} is not from 0 to 100; leave the cell empty if it is not known");
            Err((column, message))
        }
        percent => Ok(percent.map(|percent| percent / 100.0)),
    }
}

/// Refuses a job whose workload has another family than in an earlier line.
fn check_family(families: &mut BTreeMap<String, Option<String>>, member: PairMember) -> Found<PairMember> {
    let PairMember { job, family, .. } = &member;
    let first = families.entry(job.workload.clone()).or_insert_with(|| family.clone());
    if first == family {
        return Ok(member);
    }
    let name = |family: &Option<String>| {
        family.as_ref().map_or("no family".into(), |name| format!("the family '{}'", shown(name)))
    };
    let message = format!(
        "workload '{}' has {} in this line and {} in an earlier line; write one family for each workload",
        shown(&job.workload),
        name(family),
        name(first)
    );
    Err(("family", message))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const COLUMNS: &str = "mode,job_a,job_b,alone_a,alone_b,together_a,together_b";

    fn read_text(text: &str) -> Result<Vec<Pair>, RowError> {
        read(Source { file: Path::new("p.csv"), text: text.as_bytes() })
    }

    #[test]
    fn lines_are_pairs_with_what_is_known_of_the_jobs_alone() {
        let text = format!(
            "{COLUMNS},family_a,device_util_percent_a,dram_util_percent_b,peak_memory_bytes_b,device_type\n\
             time-slice,resnet-amp@b32,lm,0.1,0.2,0.15,0.21,resnet,45.5,12.5,1048576.0,My GPU\n\
             step-gate:250ms,lm,lm@b8@dp2,1,2,2,4,,,,,\n"
        );
        let pairs = read_text(&text).unwrap();
        let [first, second] = &pairs[..] else { panic!("{pairs:?}") };
        let [a, b] = &first.members;
        assert_eq!(
            (first.sharing.to_string(), first.device_type.as_deref()),
            ("time-slice".into(), Some("My GPU"))
        );
        assert_eq!((a.job.to_string(), a.family.as_deref()), ("resnet-amp@b32@dp1".into(), Some("resnet")));
        assert!((a.slowdown - 1.5).abs() < 1e-12 && (b.slowdown - 1.05).abs() < 1e-12, "{pairs:?}");
        assert_eq!((a.alone_s, a.busy, a.traffic, a.peak_memory_bytes), (Some(0.1), Some(0.455), None, None));
        assert_eq!((b.alone_s, b.busy, b.traffic), (Some(0.2), None, Some(0.125)));
        assert_eq!((b.peak_memory_bytes, &b.family), (Some(1 << 20), &None));
        assert_eq!((second.sharing.to_string(), &second.device_type), ("step-gate:250ms".into(), &None));
        assert_eq!(second.members.each_ref().map(|of| of.job.to_string()), ["lm", "lm@b8@dp2"]);
    }

    #[test]
    fn speeds_are_those_beside_the_other_job_over_those_alone() {
        let pairs = read_text("job_b,mode,job_a,speed_b,speed_a\nb,time-slice,a,0.8,0.5\n").unwrap();
        let [a, b] = &pairs[0].members;
        assert_eq!((a.slowdown, b.slowdown, a.alone_s), (2.0, 1.25, None));
    }

    #[test]
    fn lines_that_cannot_be_are_refused_with_their_column() {
        let columns = format!("{COLUMNS},family_a,device_util_percent_a");
        let good = "time-slice,a,b,1,1,2,2,x,50";
        for (line, message) in [
            ("alone,a,b,1,1,2,2,x,", "column 'mode': under 'alone' a pair does not share its device equally"),
            ("step-gate:2/1,a,b,1,1,2,2,x,", "column 'mode': under 'step-gate:2/1' a pair"),
            ("slices,a,b,1,1,2,2,x,", "line 3: 'slices' is no sharing mode"),
            ("time-slice,a@b0,b,1,1,2,2,x,", "line 3: job 'a@b0': 'b0' is no batch"),
            (
                "time-slice,a@on=cuda:0,b,1,1,2,2,x,",
                "column 'job_a': 'a@on=cuda:0' names a device; leave @on= out",
            ),
            ("time-slice,a,b,0,1,2,2,x,", "column 'alone_a': 0 is not from 0.000000001 to 1000000000"),
            ("time-slice,a,b,1,inf,2,2,x,", "column 'alone_b': inf is not from"),
            ("time-slice,a,b,1,1,2,,x,", "column 'together_b': is empty; drop lines"),
            (
                "time-slice,a,b,1,1,2,2000,x,",
                "column 'together_b': makes a slowdown of 2000, which is not from 0.001",
            ),
            ("time-slice,a,b,1,1,2,2,x,101", "column 'device_util_percent_a': 101 is not from 0 to 100"),
            (
                "time-slice,a,b,1,1,2,2,y,",
                "column 'family_a': workload 'a' has the family 'y' in this line and the family 'x' in an earlier line",
            ),
            (
                "time-slice,a,b,1,1,2,2,,",
                "column 'family_a': workload 'a' has no family in this line and the family 'x' in an earlier line",
            ),
        ] {
            let error = read_text(&format!("{columns}\n{good}\n{line}\n")).unwrap_err().to_string();
            assert!(error.contains("p.csv: line 3") && error.contains(message), "{error}");
        }
    }

    #[test]
    fn tables_of_other_columns_are_refused() {
        for (columns, message) in [
            (
                "job_a,job_b,speed_a,speed_b",
                "line 1: there is no column 'mode'; a table of pairs has mode,job_a,job_b",
            ),
            (
                "mode,job_a,job_b,speed_a",
                "line 1: a table of pairs has either alone_a,alone_b,together_a,together_b",
            ),
            ("mode,job_a,job_b,speed_a,speed_b,alone_a", "line 1: a table of pairs has either"),
            ("mode,job_a,job_b,speed_a,speed_b,util_a", "line 1: 'util_a' is no column of a table of pairs"),
        ] {
            let error = read_text(&format!("{columns}\n")).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
