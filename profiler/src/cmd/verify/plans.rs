//! `profile verify --plans`: whether all plans of a job compute the same.

use anyhow::{Context as _, bail};
use cli::table::{self, TableLayout, or_dash};
use jobs::{
    cells::{self, Grid, Plans},
    launch,
    plans::{self, Effort, Estimates},
    pool, workload_lookup,
};
use record::{
    launch_end::LaunchEnd,
    manifest::{Cell, Settings},
    rows::{Status, VerifyPlanRow},
    run_dir::RunDir,
    steps::job_steps,
};
use rig::{Exit, sampler::SamplerCost};
use schema::{
    catalog::{Catalog, Workload},
    device::Device,
    events,
    job::Job,
    plan::Plan,
    spec::{Collectives, Program},
};

use super::{SEED, bench::Bench, verdict};

/// The number of steps of each launch.
const STEPS: u64 = 20;
/// The largest relative difference between two losses. In fp64, sums in another order differ by about 1e-16, and the difference
/// grows over twenty steps.
const TOLERANCE: f64 = 1e-9;

/// A cell for each job and valid plan, `dp1` first. It includes plans that `--plan all` leaves out, because their cost does not
/// matter here.
pub(super) fn cells(
    catalog: &Catalog,
    names: &[String],
    named: &[Device],
    collectives: Option<Collectives>,
) -> anyhow::Result<Vec<Cell>> {
    let jobs: Vec<Job> = names.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
    if let Some(job) = jobs.iter().find(|job| job.plan.is_some()) {
        bail!("job '{job}' names its plan, and --plans takes all plans; remove one of them");
    }
    let shared = pool::of_jobs(&jobs, named, collectives)?;
    let mut all = Vec::new();
    for job in &jobs {
        let pool = pool::of_job(job, &shared)?;
        for workload in workload_lookup::workloads(catalog, &job.workload)? {
            let global_batch = job.global_batch.unwrap_or(workload.global_batch);
            let enumerated = plans::enumerate(workload, global_batch, &pool).into_iter();
            // A refused `dp1` is kept as a row, so that each job that was named has one.
            let is_kept = |plan: &Plan| {
                *plan == Plan::default() || plans::refusal(workload, global_batch, plan, &pool).is_none()
            };
            let valid = enumerated.map(|candidate| candidate.plan).filter(is_kept);
            let grid =
                Grid { batches: vec![global_batch], plans: Plans::Named(valid.collect()), ..Grid::default() };
            let job = Job { workload: workload.name.clone(), global_batch: None, ..job.clone() };
            all.extend(cells::alone(catalog, &[job], &grid, &pool, None)?);
        }
    }
    Ok(all)
}

/// Refuses plans that their devices cannot hold in fp64. If `dp1` is refused, all plans of its job are, because there is
/// nothing to compare them with.
///
/// # Errors
/// There is only one job, and none of its plans can run.
pub(super) fn refuse_outgrown(
    catalog: &Catalog,
    cells: &mut [Cell],
    settings: &Settings,
) -> anyhow::Result<()> {
    let mut estimates = Estimates::of_exact(settings, SEED);
    let mut of_dp1 = None;
    for cell in cells.iter_mut() {
        let (workload, global_batch, plan) = job_of(catalog, cell)?;
        if cell.unsupported.is_none() {
            let judgement = estimates.judge(workload, global_batch, &plan, &cell.devices, Effort::WhereTight);
            cell.unsupported = judgement.refusal;
        }
        if plan == Plan::default() {
            of_dp1 =
                cell.unsupported.as_ref().map(|reason| format!("it is compared with dp1, which {reason}"));
        } else if cell.unsupported.is_none() {
            cell.unsupported.clone_from(&of_dp1);
        }
    }
    let jobs = cells.iter().filter(|cell| cell.plan == Some(Plan::default())).count();
    if let ([dp1, ..], 1) = (&*cells, jobs)
        && let Some(reason) = &dp1.unsupported
    {
        return Err(Exit::Usage.because(format!("{} cannot run here: {reason}", dp1.name)));
    }
    Ok(())
}

fn job_of<'a>(catalog: &'a Catalog, cell: &Cell) -> anyhow::Result<(&'a Workload, u32, Plan)> {
    let global_batch = cell.global_batch.context("a cell with a workload has a batch")?;
    let plan = cell.plan.context("a cell with a workload has a plan")?;
    Ok((workload_lookup::workload(catalog, &cell.workload)?, global_batch, plan))
}

/// Trains under each plan and compares the losses with those of `dp1`, which comes first.
pub(super) fn verify(bench: &Bench<'_>) -> anyhow::Result<(Vec<VerifyPlanRow>, SamplerCost)> {
    let &Bench { run, manifest, catalog } = bench;
    let line = |row: &VerifyPlanRow| {
        format!("{}@{}: {}", row.job, row.plan, verdict(row.status, row.reason.as_deref()))
    };
    let mut expected = Vec::new();
    bench.each_cell(line, |cell, launcher| {
        let (workload, global_batch, plan) = job_of(catalog, cell)?;
        let job = format!("{}@b{global_batch}", workload.name);
        if let Some(reason) = &cell.unsupported {
            return Ok(Some(unsupported(job, plan, reason)));
        }
        let number = run.next_number()?;
        let mut request = launch::request(run, manifest, catalog, cell, (number, 0), Some(STEPS))?;
        let Program::Training(training) = &mut request.spec.program else {
            unreachable!("a cell of a workload is no command")
        };
        training.make_exact();
        let launch = request.spec.launch.clone();
        let Some(end) = launcher.launch(request) else { return Ok(None) };
        let losses = losses(run, &launch, &plan);
        if plan == Plan::default() {
            expected.clone_from(&losses);
        }
        Ok(Some(judge(job, plan, &losses, &expected, &end)))
    })
}

/// The job's loss of each step that all ranks completed; `None` where it is not finite.
fn losses(run: &RunDir, launch: &str, plan: &Plan) -> Vec<Option<f64>> {
    let of_rank = |rank| events::read(&run.events_path(launch, rank), rank).unwrap_or_default();
    let events: Vec<_> = (0..plan.ranks()).map(of_rank).collect();
    job_steps(&events, plan.pp.into()).into_iter().map(|step| step.loss).collect()
}

/// The row of a plan that was not started.
fn unsupported(job: String, plan: Plan, reason: &str) -> VerifyPlanRow {
    VerifyPlanRow {
        job,
        plan,
        devices: plan.ranks(),
        steps: 0,
        loss_difference: None,
        status: Status::Unsupported,
        verified: false,
        reason: Some(reason.into()),
    }
}

fn judge(
    job: String,
    plan: Plan,
    losses: &[Option<f64>],
    expected: &[Option<f64>],
    end: &LaunchEnd,
) -> VerifyPlanRow {
    let finite = |losses: &[Option<f64>]| losses.iter().copied().collect::<Option<Vec<f64>>>();
    let apart = |(loss, expected): (&f64, &f64)| (loss - expected).abs() / expected.abs();
    let (loss_difference, reason) = if let Some(detail) = &end.err_detail {
        (None, Some(detail.clone()))
    } else if losses.len() as u64 != STEPS {
        (None, Some(format!("it made {} steps of {STEPS}", losses.len())))
    } else {
        match (finite(losses), finite(expected)) {
            (None, _) => (None, Some("its loss is not finite".into())),
            (Some(losses), Some(expected)) if expected.len() == losses.len() => {
                let largest = losses.iter().zip(&expected).map(apart).fold(0.0, f64::max);
                (Some(largest), (largest > TOLERANCE).then(|| "its losses are not those of dp1".into()))
            }
            _ => (None, Some("dp1 has no losses to compare with".into())),
        }
    };
    VerifyPlanRow {
        job,
        plan,
        devices: plan.ranks(),
        steps: losses.len() as u64,
        loss_difference,
        status: if reason.is_none() { Status::Ok } else { Status::Failed },
        verified: reason.is_none(),
        reason,
    }
}

pub(super) fn show(rows: &[VerifyPlanRow], layout: TableLayout) -> anyhow::Result<()> {
    let mut table = table::new(&["job", "plan", "devices", "steps", "difference", "verdict"]);
    table.mark_text(&["plan", "verdict"]);
    for row in rows {
        table.add_row([
            row.job.clone(),
            row.plan.to_string(),
            row.devices.to_string(),
            row.steps.to_string(),
            or_dash(row.loss_difference.map(|difference| format!("{difference:.1e}"))),
            verdict(row.status, row.reason.as_deref()),
        ]);
    }
    layout.print(&table)
}

#[cfg(test)]
mod tests {
    use schema::{FORMAT, units::Nanos};

    use super::*;

    #[test]
    fn a_plan_is_held_to_the_losses_of_dp1() {
        let end = |err_detail: Option<&str>| LaunchEnd {
            format: FORMAT,
            mono_ns: Nanos(1),
            enough_mono_ns: None,
            err: None,
            err_detail: err_detail.map(str::to_owned),
            killed_after: None,
            notes: Default::default(),
            ranks: vec![],
        };
        let of_dp1: Vec<_> = (0..STEPS).map(|step| Some(5.0 - step as f64 / 10.0)).collect();
        let changed = |factor: f64| -> Vec<_> {
            let times =
                |(step, loss): (usize, &Option<f64>)| loss.map(|l| if step == 7 { l * factor } else { l });
            of_dp1.iter().enumerate().map(times).collect()
        };
        let not_finite = [&of_dp1[1..], &[None]].concat();
        let none: &[Option<f64>] = &[];
        let cases = [
            (of_dp1.clone(), &of_dp1[..], None, None),
            (changed(1.0 + 1e-12), &of_dp1, None, None),
            (changed(1.0 - 1e-8), &of_dp1, None, Some("its losses are not those of dp1")),
            (of_dp1[1..].to_vec(), &of_dp1, None, Some("it made 19 steps of 20")),
            (not_finite.clone(), &of_dp1, None, Some("its loss is not finite")),
            (of_dp1.clone(), &not_finite, None, Some("dp1 has no losses to compare with")),
            (of_dp1.clone(), none, None, Some("dp1 has no losses to compare with")),
            (of_dp1.clone(), &of_dp1, Some("rank 1 was killed"), Some("rank 1 was killed")),
        ];
        let plan: Plan = "dp2-gc".parse().expect("canonical");
        for (losses, expected, ended, reason) in cases {
            let row = judge("a@b8".into(), plan, &losses, expected, &end(ended));
            let status = if reason.is_none() { Status::Ok } else { Status::Failed };
            assert_eq!((row.reason.as_deref(), row.verified, row.status), (reason, reason.is_none(), status));
            assert_eq!((row.devices, row.steps), (2, losses.len() as u64));
        }
        let row = judge("a@b8".into(), plan, &changed(1.0 - 1e-8), &of_dp1, &end(None));
        assert!((row.loss_difference.expect("they were compared") / 1e-8 - 1.0).abs() < 1e-6);
    }
}
