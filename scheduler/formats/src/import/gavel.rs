//! Gavel: jobs of its models with their steps, and their throughputs, in two files.
//!
//! A job is a line of cells that are separated by tabs, without a header: ten in the traces of its physical cluster, as its
//! `parse_trace` splits them, and seven in those that were made from Philly. The second file, `simulation_throughputs.json`, has the
//! steps in a second of each type of job on each type and number of GPUs, alone (`null`) and beside each other type.

use std::collections::BTreeMap;

use record::rows::RowError;
use schema::job::Job;
use serde_json::Value;

use super::{
    Imported, Jobs, LeftOut, Odd, Source, devices,
    table::{Cells, Table},
};
use crate::trace::TraceRow;

const PHYSICAL_COLUMNS: [&str; 10] = [
    "job_type",
    "command",
    "working_directory",
    "num_steps_arg",
    "needs_data_dir",
    "total_steps",
    "scale_factor",
    "priority_weight",
    "SLO",
    "arrival_time",
];

const PHILLY_COLUMNS: [&str; 7] =
    ["job_type", "command", "num_steps_arg", "needs_data_dir", "total_steps", "arrival_time", "scale_factor"];

/// The type of GPU of the times: that by whose throughputs Gavel's generator turns durations into steps.
const REFERENCE: &str = "v100";

/// Steps in a second of a job alone, by its name in the file.
type Throughputs = BTreeMap<String, f64>;

/// The jobs have a workload that no catalog defines, with the time of a step on V100 GPUs. They have no names and are named after
/// their lines. Weights and deadlines are left out.
pub(super) fn read(
    jobs: Source<'_>,
    throughputs: Source<'_>,
    left_out: LeftOut,
) -> Result<Imported, RowError> {
    let throughputs = alone(throughputs)?;
    let first = jobs.text.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty());
    let tabs = first.unwrap_or_default().iter().filter(|byte| **byte == b'\t').count();
    let columns: &[&str] = if tabs + 1 == PHILLY_COLUMNS.len() { &PHILLY_COLUMNS } else { &PHYSICAL_COLUMNS };
    let table = Table::without_header(jobs, b"\t", columns);
    let row = |cells: &Cells<'_>| job(cells, &throughputs).map(Some);
    Jobs::read(table, ("job_type", "arrival_time"), left_out, row)?.finish(true)
}

/// The throughputs of jobs that are alone on GPUs of the reference type.
fn alone(Source { file, text }: Source<'_>) -> Result<Throughputs, RowError> {
    type Types = BTreeMap<String, BTreeMap<String, BTreeMap<String, Value>>>;
    let refuse = |line, message| RowError::Row { file: file.into(), line, message };
    let mut types: Types = serde_json::from_slice(text).map_err(|error| {
        refuse(
            error.line() as u64,
            format!("this is no file of throughputs as simulation_throughputs.json: {error}"),
        )
    })?;
    let jobs = types.remove(REFERENCE);
    let jobs = jobs.ok_or_else(|| refuse(1, format!("there are no throughputs of '{REFERENCE}'")))?;
    let alone = |(job, throughputs): (String, BTreeMap<String, Value>)| {
        let rate = throughputs.get("null")?.as_f64().filter(|rate| rate.is_finite() && *rate > 0.0);
        Some((job, rate?))
    };
    Ok(jobs.into_iter().filter_map(alone).collect())
}

fn job(cells: &Cells<'_>, throughputs: &Throughputs) -> Result<TraceRow, Odd> {
    let job_type = cells.text("job_type")?;
    let devices = devices("scale_factor", cells.whole("scale_factor")?)?;
    let rate = throughputs.get(&format!("('{job_type}', {devices})")).ok_or_else(|| {
        let odd = Odd::job("job_type", "no throughput of this type and number of GPUs in the second file");
        odd.with_message(format!("the second file has no throughput of '{job_type}' on {devices} GPUs"))
    })?;
    let steps: u64 = cells.whole("total_steps")?;
    let length_s = cells.length_of("total_steps", steps as f64 / rate)?;
    Ok(TraceRow {
        name: format!("gavel-{}", cells.line),
        submit_s: cells.seconds("arrival_time")?,
        job: Some(Job { workload: "gavel".into(), global_batch: None, plan: None, device: None }),
        steps: Some(steps),
        step_ns: Some(((length_s * 1e9 / steps as f64).round() as u64).max(1)),
        devices: Some(devices),
        ..TraceRow::default()
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{ImportError, TraceFormat, read};
    use super::*;

    const THROUGHPUTS: &str = r#"{"k80": {}, "v100": {
        "('LM (batch size 5)', 1)": {"null": 4.0, "('A3C', 1)": [1.0, 2.0]},
        "('LM (batch size 5)', 2)": {"null": 8.0},
        "('A3C', 1)": {"null": 0.0}}}"#;

    fn import(trace: &str, throughputs: &str, is_strict: bool) -> Result<Imported, ImportError> {
        let source = |file: &'static str, text| Source { file: Path::new(file), text: str::as_bytes(text) };
        read(TraceFormat::Gavel, &[source("g", trace), source("t.json", throughputs)], None, is_strict)
    }

    #[test]
    fn a_step_takes_what_the_throughputs_say() {
        let physical = "LM (batch size 5)\tpython3 main.py\tlm\t--steps\t1\t400\t2\t1\t-1.000000\t5\n\
                        LM (batch size 5)\tpython3 main.py\tlm\t--steps\t1\t400\t1\t1\t-1.000000\t15.5\n";
        let philly = "LM (batch size 5)\tpython3 main.py\t--steps\t1\t400\t0.000000\t2\n\
                      LM (batch size 5)\tpython3 main.py\t--steps\t1\t400\t10.5\t1\n";
        for trace in [physical, philly] {
            let Imported { rows, left_out } = import(trace, THROUGHPUTS, true).unwrap();
            let jobs: Vec<_> = rows
                .iter()
                .map(|row| (row.name.as_str(), row.submit_s, row.devices(), row.steps, row.step_ns))
                .collect();
            let expected = [
                ("gavel-1", 0.0, 2, Some(400), Some(125_000_000)),
                ("gavel-2", 10.5, 1, Some(400), Some(250_000_000)),
            ];
            assert_eq!((&jobs[..], left_out.len()), (&expected[..], 0));
        }
    }

    #[test]
    fn jobs_without_a_throughput_are_left_out() {
        let job = |job_type: &str, steps: &str, gpus: u32| {
            format!("{job_type}\tc\t--steps\t1\t{steps}\t0\t{gpus}\n")
        };
        for (row, message) in [
            (
                job("LM (batch size 5)", "1", 4),
                "column 'job_type': the second file has no throughput of 'LM (batch size 5)' on 4 GPUs",
            ),
            (job("A3C", "1", 1), "column 'job_type': the second file has no throughput of 'A3C' on 1 GPUs"),
            (job("LM (batch size 5)", "0", 1), "column 'total_steps': a duration of 0"),
            (
                job("LM (batch size 5)", "20000000000", 1),
                "column 'total_steps': '20000000000' is more than a hundred years",
            ),
        ] {
            let trace = job("LM (batch size 5)", "8", 1) + &row;
            let error = import(&trace, THROUGHPUTS, true).unwrap_err().to_string();
            assert!(error.starts_with(&format!("g: line 2: {message}")), "{error}");
            let Imported { rows, left_out } = import(&trace, THROUGHPUTS, false).unwrap();
            assert_eq!((rows.len(), left_out.values().sum::<usize>()), (1, 1), "{message}");
        }
        for (throughputs, message) in [
            ("{\n\"v100\": 3}", "t.json: line 2: this is no file of throughputs"),
            ("{}", "t.json: line 1: there are no throughputs of 'v100'"),
        ] {
            let error = import("", throughputs, false).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
