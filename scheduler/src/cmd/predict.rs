//! `sched predict`: asks a fitted model for the time of a step.

use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use cli::table::{self, TableOptions};
use formats::fitted::{FittedWorkload, FormulaFit, ModelFile, PredictedStep};
use jobs::workload_lookup;
use model::{Answer, FittedModel, JobKey, Placement, PredictRequest, Setting, WIDEST_INTERVAL, formula};
use record::rows;
use rig::{Exit, output};
use schema::{
    catalog::{Catalog, CatalogEntry},
    job::Job,
    plan::Plan,
    sharing::Sharing,
    units::Nanos,
};

use crate::{best_plan::nanoseconds, inputs, measured::placement_text};

/// Predict the time of a step with a model of `sched fit`.
///
/// A configuration that was measured has the time of its rows. Any other has that of the first formula that describes it, with a 95 %
/// interval. `extrapolated` means that the configuration lies outside of the rows, or that the time depends on parameters of which the
/// rows say little, so that it is mostly what was assumed before the fit.
///
/// Beside other jobs (--with), the time is multiplied by the slowdown of the tables (--table). If they do not have these jobs together,
/// the slowdown is that of the model, if `sched fit --interference` was part of its fit, and otherwise unknown: the command says so and
/// exits with 4.
///
/// Example: `sched predict --model MODEL.json gpt2-mini@b8@dp2-zero1 --devices 2`
///
/// Example: `sched predict --model MODEL.json gpt2-mini@b8@tp2-pp2`
///
/// Example: `sched predict --model MODEL.json lstm@b8 --devices 1 --with resnet18-mini@b8 --table runs/pairs`
///
/// Example: `sched predict --model MODEL.json lstm@b8 --devices 1 --with vae --sharing step-gate:250ms`
#[derive(clap::Args)]
pub(super) struct Args {
    /// The job as NAME[@bN][@PLAN] [defaults: the batch of the workload, and data parallelism on all devices].
    #[arg(value_name = "JOB")]
    job: Job,
    /// A model of `sched fit`.
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// The devices of the job: their number, or that of each node, such as 4+4 [default: one for each rank of the plan, on one node].
    #[arg(long, value_name = "N", value_parser = nodes)]
    devices: Option<Nodes>,
    /// Cores of the host for each rank [default: those of the rows, if all have the same].
    #[arg(long, value_name = "C", value_parser = clap::value_parser!(u16).range(1..))]
    cpus: Option<u16>,
    /// Another job on the same devices, as JOB. Repeatable.
    #[arg(long, value_name = "OTHER")]
    with: Vec<Job>,
    /// How jobs share a device: time-slice[:SLICE] or step-gate[:QUANTUM].
    #[arg(long, value_name = "MODE", default_value_t = Sharing::TIME_SLICE, requires = "with")]
    sharing: Sharing,
    /// A run of `profile colocate` that measured the jobs together. Repeatable.
    #[arg(long, value_name = "RUN")]
    table: Vec<PathBuf>,
    /// The type of the devices of the job [default: that of the model]. Another type than that of the model is refused.
    #[arg(long, value_name = "NAME")]
    device_type: Option<String>,
    /// Take the times of the model for devices of another type, too.
    #[arg(long, requires = "device_type")]
    any_device: bool,
    /// A file with additional workloads and programs.
    #[arg(long, value_name = "FILE")]
    catalog: Vec<PathBuf>,
    /// Print the prediction as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: TableOptions,
}

/// Numbers of devices of nodes, in descending order.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Nodes(Vec<u32>);

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let file = ModelFile::read(&args.model)?;
    let model = FittedModel::new(&file).with_context(|| args.model.display().to_string())?;
    let catalog = Catalog::open(&args.catalog)?;
    let device_type = args.device_type.as_deref().unwrap_or(model.device_type());
    ensure!(
        device_type == model.device_type() || args.any_device,
        "{} is of devices of type '{}', not '{device_type}', whose times are others; fit rows of '{device_type}', or take these \
         times with --any-device",
        args.model.display(),
        model.device_type()
    );
    let devices = devices(args)?;
    let job = spelled_out(&args.job, &devices, &catalog, &file)?;
    let known = file.workloads.iter().find(|known| known.workload == job.workload);
    let Some(known) = known else {
        let names: Vec<&str> = file.workloads.iter().map(|known| known.workload.as_str()).collect();
        let message =
            format!("{} has no '{}'; it has {}", args.model.display(), job.workload, names.join(", "));
        return Err(Exit::NothingMatched.because(message));
    };
    let (global_batch, plan) = (job.global_batch.unwrap_or(1), job.plan.unwrap_or_default());
    let setting = Setting {
        facts: known.facts,
        global_batch,
        plan,
        placement: Placement::of(&devices.0),
        cpus: args.cpus.or_else(|| cpus_of(known)),
        ranks_per_device: ranks_per_device(known, plan, &devices)?,
    };
    let Some(answer) = model.answer(&job.workload, &setting) else {
        let why = match model.covers(&job.workload, &setting) {
            true => why_not(known, &setting),
            false => "the model stays within its rows, and none is of this kind of plan with so many devices and such micro-batches; measure it, or fit \
                      without --within-rows"
                .into(),
        };
        return Err(Exit::NothingMatched.because(format!("{job}: {why}")));
    };
    let others: Vec<Job> = args
        .with
        .iter()
        .map(|other| spelled_out(other, &devices, &catalog, &file))
        .collect::<anyhow::Result<_>>()?;
    let slowdown = match others.is_empty() {
        true => None,
        false => Some(slowdown(args, &model, (&job, &others), (&devices, device_type), setting.cpus)?),
    };
    let row = row(&job, &setting, (&devices, device_type), &answer, &others, slowdown);
    match args.json {
        true => output::print(rows::to_json(&row))?,
        false => show(&row, &args.options)?,
    }
    Ok(Exit::Ok)
}

/// The devices of the job: those that were named, or as many as its plan has ranks.
fn devices(args: &Args) -> anyhow::Result<Nodes> {
    let ranks = || args.job.plan.map(|plan| Nodes(vec![plan.ranks()]));
    args.devices.clone().or_else(ranks).with_context(|| {
        format!(
            "'{}' has no plan, which says how many devices it takes; name their number with --devices",
            args.job
        )
    })
}

/// The job with its batch and its plan.
fn spelled_out(job: &Job, devices: &Nodes, catalog: &Catalog, file: &ModelFile) -> anyhow::Result<Job> {
    ensure!(job.device.is_none(), "'{job}' names a device, and a model is of a type of devices; remove @on=");
    let count: u32 = devices.0.iter().sum();
    let is_of_model = file.workloads.iter().any(|known| known.workload == job.workload);
    let entry = catalog.entry(&job.workload);
    if entry.is_none() && !is_of_model {
        workload_lookup::entry(catalog, &job.workload)?;
    }
    let global_batch = job.global_batch.or(entry.map(CatalogEntry::global_batch));
    let Some(global_batch) = global_batch else {
        bail!("'{job}' has no batch, and the catalog does not have it; write {}@bN", job.workload)
    };
    let data_parallel = || Ok(Plan { dp: u16::try_from(count)?, ..Plan::default() });
    let plan = job.plan.map_or_else(data_parallel, Ok::<_, std::num::TryFromIntError>)?;
    let job = Job { global_batch: Some(global_batch), plan: Some(plan), ..job.clone() };
    // What was measured elsewhere may be a plan that our own worker does not run.
    let measured = |known: &FittedWorkload| {
        known.workload == job.workload
            && known.rows.iter().any(|row| (row.global_batch, row.plan) == (global_batch, plan))
    };
    if let Some(reason) = entry.and_then(|entry| entry.refuses(&plan, global_batch))
        && !file.workloads.iter().any(measured)
    {
        bail!("'{job}': {reason}");
    }
    Ok(job)
}

/// Cores of the host for each rank, if all rows have the same number.
pub(super) fn cpus_of(known: &FittedWorkload) -> Option<u16> {
    let first = known.rows.first()?.cpus;
    first.filter(|_| known.rows.iter().all(|row| row.cpus == first))
}

/// Ranks on each device: more than one only if rows have as many.
fn ranks_per_device(known: &FittedWorkload, plan: Plan, devices: &Nodes) -> anyhow::Result<u32> {
    let count: u32 = devices.0.iter().sum();
    let ranks = plan.ranks();
    let each = ranks / count;
    let was_measured = || known.rows.iter().any(|row| row.ranks_per_device == each);
    let is_possible = ranks.is_multiple_of(count) && (each == 1 || was_measured());
    ensure!(is_possible, "{plan} takes {ranks} devices, and --devices has {count}");
    Ok(each)
}

/// Why no formula answers.
fn why_not(known: &FittedWorkload, setting: &Setting) -> String {
    let why = |fit: &FormulaFit| match formula::applies(fit.formula, setting) {
        Ok(()) => format!("{}: its interval is wider than a factor of {WIDEST_INTERVAL}", fit.formula),
        Err(why) => format!("{}: {why}", fit.formula),
    };
    let reasons: Vec<String> = known.fits.iter().map(why).collect();
    format!("no formula of the model describes it ({}); measure it", reasons.join("; "))
}

/// The slowdown by other jobs on the same devices, from the tables or from the model.
fn slowdown(
    args: &Args,
    model: &FittedModel,
    (job, others): (&Job, &[Job]),
    (devices, device_type): (&Nodes, &str),
    cpus: Option<u16>,
) -> anyhow::Result<(f64, Option<(f64, f64)>)> {
    let table = inputs::table(&args.table)?;
    let co_runners: Vec<JobKey<'_>> = others.iter().map(subject).collect();
    let question = PredictRequest {
        job: subject(job),
        placement: &devices.0,
        device_type,
        cpus,
        co_runners: &co_runners,
        sharing: &args.sharing,
        neighbours: &[],
    };
    let by_model = || model.slowdown(&question).map(|found| (found.factor, found.interval));
    table.slowdown_by_co_runners(&question).or_else(by_model).ok_or_else(|| {
        let names: Vec<String> = others.iter().map(Job::to_string).collect();
        Exit::NothingMatched.because(format!(
            "how much {job} is slowed down by {} under {} is not known: no row of --table has them together with --devices {} of type \
             '{device_type}', and the model was not fitted to such slowdowns; measure it with `profile colocate`",
            names.join(" and "),
            args.sharing,
            placement_text(&devices.0),
        ))
    })
}

fn subject(job: &Job) -> JobKey<'_> {
    JobKey::new(&job.workload, job.global_batch, job.plan)
}

fn row(
    job: &Job,
    setting: &Setting,
    (devices, device_type): (&Nodes, &str),
    answer: &Answer,
    others: &[Job],
    slowdown: Option<(f64, Option<(f64, f64)>)>,
) -> PredictedStep {
    let (factor, of_factor) = slowdown.unwrap_or((1.0, None));
    let (factor_lo, factor_hi) = of_factor.unwrap_or((factor, factor));
    let (lo, hi) = answer.interval_s;
    let [step_s, lo, hi] = [answer.step_s * factor, lo * factor_lo, hi * factor_hi];
    let rate = |seconds: f64| f64::from(setting.global_batch) / seconds;
    let (basis, formula) = answer.basis.in_rows();
    PredictedStep {
        job: job.to_string(),
        device_type: device_type.into(),
        placement: devices.0.clone(),
        cpus: setting.cpus,
        ranks_per_device: setting.ranks_per_device,
        with: others.iter().map(Job::to_string).collect(),
        slowdown: slowdown.map(|(factor, _)| factor),
        step_ns: nanoseconds(step_s),
        step_ns_ci_lo: nanoseconds(lo),
        step_ns_ci_hi: nanoseconds(hi),
        samples_per_s: rate(step_s),
        samples_per_s_ci_lo: rate(hi),
        samples_per_s_ci_hi: rate(lo),
        basis,
        formula,
    }
}

fn show(row: &PredictedStep, options: &TableOptions) -> anyhow::Result<()> {
    let mut lines =
        table::new(&["job", "step", "95 % interval", "basis", "samples/s", "samples/s 95 %", "devices"]);
    lines.mark_text(&["basis"]);
    let with: String = row.with.iter().map(|other| format!(" + {other}")).collect();
    let formula = row.formula.map_or(String::new(), |formula| format!(" ({formula})"));
    lines.add_row([
        format!("{}{with}", row.job),
        Nanos(row.step_ns).to_string(),
        format!("{} to {}", Nanos(row.step_ns_ci_lo), Nanos(row.step_ns_ci_hi)),
        format!("{}{formula}", row.basis),
        format!("{:.2}", row.samples_per_s),
        format!("{:.2} to {:.2}", row.samples_per_s_ci_lo, row.samples_per_s_ci_hi),
        placement_text(&row.placement),
    ]);
    options.print(&lines)
}

/// `8`, or `4+4`.
fn nodes(text: &str) -> Result<Nodes, String> {
    let nodes: Option<Vec<u32>> =
        text.split('+').map(|devices| devices.parse().ok().filter(|devices| *devices > 0)).collect();
    let mut nodes =
        nodes.ok_or_else(|| format!("'{text}' is no number of devices; write 8, or 4+4 for two nodes"))?;
    nodes.sort_unstable_by(|a, b| b.cmp(a));
    Ok(Nodes(nodes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_typed_as_a_number_or_node_by_node() {
        assert_eq!(nodes("8"), Ok(Nodes(vec![8])));
        assert_eq!(nodes("2+4+4"), Ok(Nodes(vec![4, 4, 2])));
        for wrong in ["", "0", "4+", "4+0", "4x2", "-1"] {
            assert!(nodes(wrong).unwrap_err().contains("write 8, or 4+4"), "{wrong}");
        }
    }
}
