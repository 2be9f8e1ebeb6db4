//! Published step times: the iteration times of Rubick and the step times of Pollux, and the layouts of tables of step times.

use std::{collections::BTreeMap, path::Path};

use record::rows::{Records, RowError};
use schema::plan::Plan;
use serde::{Deserialize, de::DeserializeOwned};

use super::{Found, Source, pollux, rubick, step_times};
use crate::fitted::{FittedRow, Layout, UnfitRow};

/// The step times of a published table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PublishedTimes {
    /// In the order of the file, of source 0.
    pub rows: Vec<FittedRow>,
    /// Configurations whose time of 0 stands for a plan that does not fit, without a workload.
    pub unfit: Vec<UnfitRow>,
    /// The number of lines of the file that are not in `rows`, for each reason.
    pub left_out: BTreeMap<&'static str, usize>,
    /// Lines with an unknown plan, which are left out as well.
    pub unknown: Option<UnknownPlans>,
}

/// Lines whose plan is none of those that the authors of the table name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPlans {
    pub lines: usize,
    /// The number of the first of them, and its plan.
    pub first_line: u64,
    pub first_plan: String,
}

/// What a published table is about, if its name is one that its authors use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The workload of the catalog.
    pub workload: &'static str,
    /// The global batch of all lines, if there is only one.
    pub global_batch: Option<u32>,
}

/// The layout of a table, by the names of its columns.
///
/// # Errors
/// The first line cannot be read, or has the columns of no layout.
pub fn layout(Source { file, text }: Source<'_>) -> Result<Layout, RowError> {
    const EXPORT: [&str; 3] = ["workload", "plan", "step_ns_mean"];
    const RUBICK: [&str; 3] = ["exec_plan", "placement", "iter_time"];
    const POLLUX: [&str; 3] = ["placement", "local_bsz", "step_time"];
    let records = Records::new(file, text)?;
    let header = records.header();
    let has = |columns: &[&str]| columns.iter().all(|column| header.iter().any(|found| found == *column));
    let known = [
        (Layout::Export, EXPORT),
        (Layout::StepTimes, step_times::NEEDED),
        (Layout::Rubick, RUBICK),
        (Layout::Pollux, POLLUX),
    ];
    match known.iter().find(|(_, columns)| has(columns)) {
        Some((layout, _)) => Ok(*layout),
        None => {
            let known = known.map(|(_, columns)| columns.join(","));
            let message =
                format!("is no table of step times; its columns begin with none of: {}", known.join("; "));
            Err(RowError::Row { file: file.into(), line: 1, message })
        }
    }
}

/// The type of the devices that a published table was measured on.
pub fn device_type(layout: Layout) -> Option<&'static str> {
    match layout {
        Layout::Rubick | Layout::RubickParameters => Some("NVIDIA A800-SXM4-80GB"),
        Layout::Pollux => Some("Tesla T4"),
        Layout::Run | Layout::Export | Layout::StepTimes | Layout::Pairs => None,
    }
}

/// The memory of a device that a published table was measured on, in bytes.
pub fn device_memory_bytes(layout: Layout) -> Option<u64> {
    match layout {
        Layout::Rubick => Some(80 << 30),
        Layout::Pollux => Some(16 << 30),
        Layout::Run | Layout::Export | Layout::StepTimes | Layout::Pairs | Layout::RubickParameters => None,
    }
}

/// What a published table of this name is about.
pub fn subject(layout: Layout, file: &Path) -> Option<Subject> {
    let stem = file.file_stem()?.to_str()?;
    match layout {
        Layout::Rubick => {
            let (_, workload, batch) = rubick::APPLICATIONS.iter().find(|(name, ..)| *name == stem)?;
            Some(Subject { workload, global_batch: Some(*batch) })
        }
        Layout::Pollux => {
            let known = pollux::APPLICATIONS.iter().find(|known| known.name == stem)?;
            Some(Subject { workload: known.workload, global_batch: None })
        }
        Layout::Run | Layout::Export | Layout::StepTimes | Layout::Pairs | Layout::RubickParameters => None,
    }
}

/// A line of Rubick. Parts of a step are in ms or in s, and 0 where they were not measured.
#[derive(Deserialize)]
struct RubickTime {
    exec_plan: String,
    placement: String,
    /// In seconds; 0 if the plan does not fit.
    iter_time: f64,
    #[serde(default)]
    forward: f64,
    /// Backward passes with what is exposed of synchronisation.
    #[serde(default)]
    overlap_sync: f64,
    #[serde(default)]
    optimize: f64,
}

/// A line of Pollux. The time of synchronisation is left out, because it is not that of a part of the step.
#[derive(Deserialize)]
struct PolluxTime {
    placement: String,
    local_bsz: u32,
    /// In seconds.
    step_time: f64,
}

/// Parameters of Rubick's formulas for a model, as published: times in ms, parameters counted in 2^20.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct RubickParameters {
    /// Their name of the model.
    model: String,
    pub k_bwd: f64,
    pub k_sync: f64,
    pub k_opt: f64,
    pub k_os_offload: f64,
    pub k_const: f64,
    pub k_off: f64,
    pub k_swap: f64,
}

impl RubickParameters {
    /// The workload of the catalog. In this file, names of models may end with the unit of their size, as `llama7B` does.
    fn workload(&self) -> Option<&'static str> {
        let name = self.model.trim_end_matches('B');
        rubick::APPLICATIONS.iter().find(|(known, ..)| *known == name).map(|(_, workload, _)| *workload)
    }
}

/// Reads published parameters, each with the workload of the catalog that they are of.
///
/// # Errors
/// The first line that does not fit the layout, with its column.
pub fn rubick_parameters(
    Source { file, text }: Source<'_>,
) -> Result<Vec<(&'static str, RubickParameters)>, RowError> {
    let mut found = Vec::new();
    let mut records = Records::new(file, text)?;
    while records.advance()? {
        let row: RubickParameters = records.row().map_err(|error| records.refuse(error))?;
        let line = records.line();
        let refuse = |message: String| RowError::Row { file: file.into(), line, message };
        let numbers = [
            ("k_opt", row.k_opt),
            ("k_os_offload", row.k_os_offload),
            ("k_const", row.k_const),
            ("k_off", row.k_off),
            ("k_swap", row.k_swap),
        ];
        let wrong = numbers.into_iter().find(|(_, value)| !(value.is_finite() && *value > 0.0));
        if let Some((column, value)) = wrong {
            return Err(refuse(format!(
                "column '{column}': is {value}, and a parameter is a number above 0"
            )));
        }
        for (column, value) in [("k_bwd", row.k_bwd), ("k_sync", row.k_sync)] {
            if !(value.is_finite() && value >= 1.0) {
                return Err(refuse(format!(
                    "column '{column}': is {value}, and it is a number of 1 or more"
                )));
            }
        }
        let workload = row.workload().ok_or_else(|| {
            let known = rubick::APPLICATIONS.map(|(name, ..)| name).join(", ");
            refuse(format!("column 'model': '{}' is not one of: {known}", row.model))
        })?;
        found.push((workload, row));
    }
    Ok(found)
}

/// Reads the iteration times of Rubick. All lines have this global batch. Lines with an unknown plan are left out.
///
/// # Errors
/// The first line that does not fit the layout, with its column, or the plan of the first line if all plans are unknown.
pub fn rubick(source: Source<'_>, global_batch: u32) -> Result<PublishedTimes, RowError> {
    rows_of(source, |row: RubickTime| {
        if !rubick::is_plan(&row.exec_plan) {
            return Ok(Line::UnknownPlan(row.exec_plan));
        }
        let placement = placement(&row.placement)?;
        let plan = rubick::plan(&row.exec_plan, "placement", placement.iter().sum())?;
        let parts =
            [("forward", row.forward), ("overlap_sync", row.overlap_sync), ("optimize", row.optimize)];
        let step_ns = nanoseconds("iter_time", row.iter_time)?;
        for (column, value) in parts {
            nanoseconds(column, value)?;
        }
        if step_ns == 0 {
            let workload = String::new();
            let memory_bytes = device_memory_bytes(Layout::Rubick);
            let row = UnfitRow { source: 0, workload, global_batch, plan, placement, memory_bytes };
            return Ok(Line::Unfit(row));
        }
        // Parts of a step are about as long as the step if both are in seconds, and a thousand times as long if they are in ms.
        let is_in_ms = parts.iter().map(|(_, value)| value).sum::<f64>() > 30.0 * row.iter_time;
        let [forward_ns, synchronised_ns, updated_ns] = parts.map(|(_, value)| {
            let ns = (value * if is_in_ms { 1e6 } else { 1e9 }).round() as u64;
            Some(ns).filter(|ns| *ns > 0)
        });
        let row = FittedRow {
            forward_ns,
            synchronised_ns,
            updated_ns,
            ..row_of(global_batch, plan, placement, step_ns)
        };
        Ok(Line::Row(row))
    })
}

/// Reads the step times of Pollux: data parallelism, with batches of every size.
///
/// # Errors
/// The first line that does not fit the layout, with its column.
pub fn pollux(source: Source<'_>) -> Result<PublishedTimes, RowError> {
    rows_of(source, |row: PolluxTime| {
        let placement = placement(&row.placement)?;
        let devices: u32 = placement.iter().sum();
        let dp = u16::try_from(devices);
        let dp = dp.map_err(|_| ("placement", format!("{devices} GPUs are too many; drop the line")))?;
        let global_batch = row.local_bsz.checked_mul(devices).filter(|batch| *batch > 0);
        let global_batch = global_batch
            .ok_or_else(|| ("local_bsz", format!("{} is no batch of a GPU; drop the line", row.local_bsz)))?;
        let step_ns = nanoseconds("step_time", row.step_time)?;
        let plan = Plan { dp, ..Plan::default() };
        Ok(match step_ns {
            0 => Line::NoTime,
            _ => Line::Row(row_of(global_batch, plan, placement, step_ns)),
        })
    })
}

fn row_of(global_batch: u32, plan: Plan, placement: Vec<u32>, step_ns: u64) -> FittedRow {
    FittedRow {
        source: 0,
        global_batch,
        plan,
        placement,
        cpus: None,
        ranks_per_device: 1,
        step_ns,
        forward_ns: None,
        synchronised_ns: None,
        updated_ns: None,
        peak_memory_bytes: None,
        doubtful: false,
        left_out: None,
    }
}

/// What a line of a table says.
enum Line {
    Row(FittedRow),
    Unfit(UnfitRow),
    /// It has a time of 0.
    NoTime,
    UnknownPlan(String),
}

/// The lines of a table.
fn rows_of<T: DeserializeOwned>(
    Source { file, text }: Source<'_>,
    mut line: impl FnMut(T) -> Found<Line>,
) -> Result<PublishedTimes, RowError> {
    let mut records = Records::new(file, text)?;
    let mut times = PublishedTimes::default();
    while records.advance()? {
        let theirs = records.row().map_err(|error| records.refuse(error))?;
        let found = line(theirs).map_err(|(column, message)| RowError::Field {
            file: file.into(),
            line: records.line(),
            column: column.into(),
            message,
        })?;
        match found {
            Line::Row(row) => times.rows.push(row),
            Line::Unfit(row) => times.unfit.push(row),
            Line::UnknownPlan(plan) => match &mut times.unknown {
                Some(unknown) => unknown.lines += 1,
                None => {
                    let first_line = records.line();
                    times.unknown = Some(UnknownPlans { lines: 1, first_line, first_plan: plan });
                }
            },
            Line::NoTime => {
                *times
                    .left_out
                    .entry("their time is 0, which stands for a plan that does not fit")
                    .or_default() += 1
            }
        }
    }
    let is_empty = times.rows.is_empty() && times.unfit.is_empty() && times.left_out.is_empty();
    match &times.unknown {
        Some(UnknownPlans { first_line, first_plan, .. }) if is_empty => Err(RowError::Field {
            file: file.into(),
            line: *first_line,
            column: "exec_plan".into(),
            message: rubick::not_known(first_plan),
        }),
        _ => Ok(times),
    }
}

/// Numbers of GPUs of the nodes, in descending order, from one digit for each node.
fn placement(digits: &str) -> Found<Vec<u32>> {
    let nodes: Option<Vec<u32>> =
        digits.chars().map(|digit| digit.to_digit(10).filter(|gpus| *gpus > 0)).collect();
    let mut nodes = nodes.filter(|nodes| !nodes.is_empty()).ok_or_else(|| {
        ("placement", format!("'{digits}' is no placement; write a digit for each node, as in 44"))
    })?;
    nodes.sort_unstable_by(|a, b| b.cmp(a));
    Ok(nodes)
}

/// A time in seconds, at least 0.
fn nanoseconds(column: &'static str, seconds: f64) -> Found<u64> {
    match seconds.is_finite() && seconds >= 0.0 {
        true => Ok((seconds * 1e9).round() as u64),
        false => Err((column, format!("{seconds} is no length of time; drop the line"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source<'a>(file: &'a str, text: &'a str) -> Source<'a> {
        Source { file: Path::new(file), text: text.as_bytes() }
    }

    const RUBICK: &str = "exec_plan,placement,iter_time,forward,overlap_sync,optimize\n";
    const POLLUX: &str = "placement,local_bsz,step_time,sync_time\n";

    #[test]
    fn parameters_of_rubick_have_the_workloads_of_the_catalog() {
        let header = "model,k_bwd,k_sync,k_opt,k_os_offload,k_const,k_off,k_swap\n";
        let read = |rows: &str| rubick_parameters(source("p.csv", &format!("{header}{rows}")));
        let found =
            read("gpt2,2.3,71.2,0.05,4.9,1.8,0.03,51.5\nllama30B,2,10,0.03,4,1.05,1.12,1000\n").unwrap();
        let names: Vec<&str> = found.iter().map(|(workload, _)| *workload).collect();
        assert_eq!(names, ["gpt2-xl", "llama-30b"]);
        assert_eq!((found[0].1.k_sync, found[1].1.k_swap), (71.2, 1000.0));
        for (row, message) in [
            ("gpt3,2,2,1,1,1,1,1", "line 2: column 'model': 'gpt3' is not one of: vit"),
            ("gpt2,0.5,2,1,1,1,1,1", "line 2: column 'k_bwd': is 0.5, and it is a number of 1 or more"),
            ("gpt2,2,2,0,1,1,1,1", "line 2: column 'k_opt': is 0, and a parameter is a number above 0"),
            ("gpt2,2,2,x,1,1,1,1", "line 2"),
        ] {
            let error = read(&format!("{row}\n")).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn times_of_rubick_are_in_nanoseconds_whatever_the_unit_of_their_parts() {
        let text = format!(
            "{RUBICK}ga,21,0.5,100.5,300,25\nzero-offload,2,0.5,0.1,0,0.25\n224,88,1.25,0,1000,40\nzero-dp,1,0,0,0,0\n"
        );
        let file = source("bert.csv", &text);
        assert_eq!(layout(file).unwrap(), Layout::Rubick);
        let PublishedTimes { rows, unfit, left_out, unknown } = rubick(file, 32).unwrap();
        let found: Vec<_> = rows
            .iter()
            .map(|row| {
                (row.plan.to_string(), &row.placement[..], row.step_ns, row.forward_ns, row.updated_ns)
            })
            .collect();
        assert_eq!(
            found,
            [
                ("dp3".into(), &[2, 1][..], 500_000_000, Some(100_500_000), Some(25_000_000)),
                ("dp2-zero2-offload".into(), &[2], 500_000_000, Some(100_000_000), Some(250_000_000)),
                ("dp4-tp2-pp2".into(), &[8, 8], 1_250_000_000, None, Some(40_000_000)),
            ]
        );
        assert_eq!(
            rows.iter().map(|row| row.synchronised_ns).collect::<Vec<_>>(),
            [Some(300_000_000), None, Some(1_000_000_000)]
        );
        assert!(rows.iter().all(|row| (row.global_batch, row.ranks_per_device, row.cpus) == (32, 1, None)));
        let unfit: Vec<_> =
            unfit.iter().map(|row| (row.plan.to_string(), row.global_batch, &row.placement[..])).collect();
        assert_eq!(unfit, [("dp1".into(), 32, &[1][..])]);
        assert!(left_out.is_empty(), "{left_out:?}");
        assert_eq!(unknown, None);
        let about = subject(Layout::Rubick, Path::new("a/bert.csv"));
        assert_eq!(about, Some(Subject { workload: "bert-large", global_batch: Some(32) }));
        assert_eq!(subject(Layout::Rubick, Path::new("a/mine.csv")), None);
    }

    #[test]
    fn a_batch_of_pollux_is_that_of_each_gpu() {
        let text = format!("{POLLUX}12,8,0.25,0.125\n4,6,0.5,0\n");
        let file = source("bert.csv", &text);
        assert_eq!(layout(file).unwrap(), Layout::Pollux);
        let rows = pollux(file).unwrap().rows;
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row.plan.to_string(), &row.placement[..], row.global_batch, row.step_ns))
            .collect();
        assert_eq!(
            found,
            [("dp3".into(), &[2, 1][..], 24, 250_000_000), ("dp4".into(), &[4], 24, 500_000_000)]
        );
        let about = subject(Layout::Pollux, Path::new("bert.csv"));
        assert_eq!(about, Some(Subject { workload: "bert-base-squad", global_batch: None }));
    }

    #[test]
    fn lines_that_do_not_fit_are_refused_with_line_and_column() {
        for (row, message) in [
            ("ga,1,nan,0,0,0\n", "line 2: column 'iter_time': NaN is no length of time"),
            ("ga,1,-1,0,0,0\n", "line 2: column 'iter_time': -1 is no length of time"),
            ("ga,1,1,0,inf,0\n", "line 2: column 'overlap_sync': inf is no length of time"),
            ("ga,1,one,0,0,0\n", "line 2: column 'iter_time': 'one' is no number"),
            (
                "ga,0,1,0,0,0\n",
                "line 2: column 'placement': '0' is no placement; write a digit for each node",
            ),
            ("dp,1,1,0,0,0\n", "line 2: column 'exec_plan': 'dp' is not one of: ga, gc"),
            (
                "ga,1,1,0,0,0\n244,8,1,0,0,0\n",
                "line 3: column 'exec_plan': '244' takes 32 GPUs, and placement is 8",
            ),
            ("ga,1,1,0,0,0\ngc,1,1", "line 3: "),
        ] {
            let error = rubick(source("b.csv", &format!("{RUBICK}{row}")), 32).unwrap_err().to_string();
            assert!(error.starts_with("b.csv: ") && error.contains(message), "{error}");
        }
        for (row, message) in [
            ("1,0,1,0\n", "line 2: column 'local_bsz': 0 is no batch of a GPU"),
            ("x,1,1,0\n", "line 2: column 'placement': 'x' is no placement"),
            ("1,1,-0.5,0\n", "line 2: column 'step_time': -0.5 is no length of time"),
        ] {
            let error = pollux(source("p.csv", &format!("{POLLUX}{row}"))).unwrap_err().to_string();
            assert!(error.starts_with("p.csv: ") && error.contains(message), "{error}");
        }
        let error = layout(source("x.csv", "a,b\n1,2\n")).unwrap_err().to_string();
        assert!(
            error.starts_with("x.csv: line 1: is no table of step times") && error.contains("exec_plan"),
            "{error}"
        );
    }
}
