//! Step times of runs of `profile`, from `summary.csv` and `measurements.csv`.

use std::{collections::BTreeMap, path::Path};

use anyhow::Context as _;
use formats::fitted::{FittedRow, Layout};
use model::{Launches, Length};
use record::{
    facts::Facts,
    manifest::{DeviceFacts, Manifest},
    rows::{self, Measurement, Status, Summary},
    run_dir::RunDir,
};
use schema::{
    catalog::Catalog,
    device::Device,
    plan::{Plan, Precision},
};

use super::{Devices, Found, OTHER_VALUES, Row, bytes, devices, facts};

/// The rows of jobs alone of a run.
///
/// # Errors
/// The path is no run, or a table of it cannot be read.
pub(super) fn read(path: &Path, catalog: &Catalog) -> anyhow::Result<Found> {
    let run = RunDir::open(path)?;
    let manifest = run.manifest()?;
    let make = || format!("make its tables with `profile derive {}`", path.display());
    let summaries: Vec<Summary> = rows::read(&run.summary_path()).with_context(make)?;
    let measurements: Vec<Measurement> = rows::read(&run.measurements_path()).with_context(make)?;
    let mut left_out = BTreeMap::new();
    let mut used = Vec::new();
    for summary in summaries.iter().filter(|row| row.group.is_none()) {
        match row(&manifest, summary, &measurements, catalog) {
            Ok(row) => used.push(row),
            Err(why) => *left_out.entry(why.to_owned()).or_default() += 1,
        }
    }
    let bytes = bytes(&run.summary_path())?;
    let launched = launched(&manifest, &measurements);
    Ok(Found {
        path: path.into(),
        layout: Layout::Run,
        bytes,
        rows: used,
        unfit: Vec::new(),
        launched,
        left_out,
    })
}

/// How the jobs of a run were launched: medians over launches of jobs alone. `None` without such launches.
fn launched(manifest: &Manifest, measurements: &[Measurement]) -> Option<Launches> {
    let is_launch = |row: &&Measurement| (row.status, row.group.is_none()) == (Status::Ok, true);
    let (mut steps, mut others, mut stepping) = (Vec::new(), Vec::new(), Vec::new());
    for row in measurements.iter().filter(is_launch) {
        let (Some(wall_ns), Some(step_ns)) = (row.wall_ns, row.step_ns_mean) else { continue };
        let stepped_ns = row.steps_total.saturating_mul(step_ns).min(wall_ns);
        steps.push(row.steps_total as f64);
        others.push((wall_ns - stepped_ns) as f64 / 1e9);
        stepping.push(stepped_ns as f64 / 1e9);
    }
    let length = match manifest.settings.steps {
        Some(_) => Length::Steps(median(&mut steps)?),
        None => Length::Seconds(median(&mut stepping)?),
    };
    Some(Launches { repeats: manifest.settings.repeats, startup_s: median(&mut others)?, length })
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn row(
    manifest: &Manifest,
    summary: &Summary,
    measurements: &[Measurement],
    catalog: &Catalog,
) -> Result<Row, &'static str> {
    if summary.status != Status::Ok {
        return Err("they are not ok");
    }
    let (plan, global_batch) = summary
        .plan
        .zip(summary.global_batch)
        .ok_or("they are of programs, which have no plan and no batch")?;
    if summary.vary.is_some() {
        return Err(OTHER_VALUES);
    }
    // Durations of jobs are sums of mean step times.
    let step_ns = summary.step_ns_mean.or(summary.step_ns_median).ok_or("they have no time of a step")?;
    let known = |device: &Device| manifest.devices.iter().find(|facts| facts.device == *device);
    let type_of = |device: &Device| known(device).map(|facts| facts.device_type());
    let Devices { division, device_type, is_on_cores } = devices(&summary.device, type_of)?;
    let is_of_row = |facts: &&DeviceFacts| {
        summary.device.split(',').any(|name| name.parse() == Ok(facts.device.clone())) && !is_on_cores
    };
    let smallest = manifest.devices.iter().filter(is_of_row).map(|facts| facts.memory_bytes).min().flatten();
    let is_launch = |row: &&Measurement| {
        (row.status, row.group.is_none(), row.threads) == (Status::Ok, true, summary.threads)
            && (&row.job, &row.device) == (&summary.job, &summary.device)
    };
    let launches: Vec<&Measurement> = measurements.iter().filter(is_launch).collect();
    let walls: u64 = launches.iter().filter_map(|row| row.wall_ns).sum();
    Ok(Row {
        workload: summary.workload.clone(),
        facts: measured_facts(summary, &plan),
        defined: facts(catalog.entry(&summary.workload)),
        device_type,
        is_on_cores,
        memory_bytes: smallest,
        warnings: summary.warnings.clone(),
        row: FittedRow {
            source: 0,
            global_batch,
            plan,
            placement: vec![division.devices],
            cpus: u16::try_from(summary.threads).ok(),
            ranks_per_device: division.ranks_per_device,
            step_ns,
            forward_ns: None,
            synchronised_ns: None,
            updated_ns: None,
            peak_memory_bytes: summary.peak_memory_bytes,
            doubtful: false,
            left_out: None,
        },
        launches: launches.iter().filter_map(|row| row.step_ns_mean).collect(),
        device_s: (walls > 0).then(|| walls as f64 / 1e9 * f64::from(division.devices)),
    })
}

/// What a run says of the model of a job. A rank that shares the model with others says nothing of the whole, and under bf16 the bytes
/// of the optimizer may be of numbers of any size.
fn measured_facts(summary: &Summary, plan: &Plan) -> Facts {
    let holds_all = plan.zero == 0 && plan.tp == 1 && plan.pp == 1;
    // A worker of the catalog reports the parameters of the whole model on every rank.
    let parameters = summary.parameters.filter(|_| holds_all || summary.command.is_none());
    let has_state = holds_all && plan.precision == Precision::Fp32;
    let both = summary.optimizer_bytes.zip(parameters).filter(|(_, parameters)| has_state && *parameters > 0);
    // Optimizers also keep single numbers, such as the number of steps.
    let per_parameter =
        both.map(|(bytes, parameters)| (bytes as f64 / (4.0 * parameters as f64)).round() as u32);
    Facts { parameters, state_per_parameter: per_parameter, ..Facts::default() }
}
