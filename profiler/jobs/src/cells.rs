//! Makes the cells of a run from what the user named: jobs by batches by plans.

use std::collections::BTreeSet;

use anyhow::{bail, ensure};
use record::manifest::Cell;
use schema::{
    catalog::{Catalog, Workload},
    device::Device,
    job::Job,
    plan::Plan,
    sharing::Sharing,
};

use crate::{
    catalog_programs,
    plans::{self, Effort, Estimates, Judgement},
    pool,
    vary::Varied,
    workload_lookup,
};

/// The axes of a grid. An empty list means the job's own value, or the workload's default.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    pub batches: Vec<u32>,
    pub plans: Plans,
    /// Values for names in the commands of programs.
    pub vary: Varied,
    /// The effort for memory estimates of jobs whose plans the user did not name.
    pub effort: Effort,
}

#[derive(Clone, Debug, Default)]
pub enum Plans {
    #[default]
    Default,
    Named(Vec<Plan>),
    /// All plans that are valid for the job on the pool.
    All,
}

/// The cells of `jobs` over the grid, each alone, on the first devices of the pool or on the job's own device.
///
/// A combination that cannot run is a cell with the reason. With `Plans::All`, combinations that do not fit are left out, but
/// one of them remains for a batch that would have no cell otherwise. Without estimates, it is not checked whether a
/// combination fits.
pub fn alone(
    catalog: &Catalog,
    jobs: &[Job],
    grid: &Grid,
    pool: &[Device],
    mut estimates: Option<&mut Estimates>,
) -> anyhow::Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for job in jobs {
        let pool = pool::of_job(job, pool)?;
        if let Some(program) = catalog.program(&job.workload) {
            cells.extend(catalog_programs::alone(program, job, grid, &pool)?);
            continue;
        }
        for workload in workloads(catalog, job)? {
            cells.extend(of_workload(workload, job, grid, &pool, estimates.as_deref_mut())?);
        }
    }
    Ok(cells)
}

fn of_workload(
    workload: &Workload,
    job: &Job,
    grid: &Grid,
    pool: &[Device],
    mut estimates: Option<&mut Estimates>,
) -> anyhow::Result<Vec<Cell>> {
    let mut cells = Vec::new();
    // A user who names plans compares them, and needs the memory of each.
    let named = job.plan.is_some() || !matches!(grid.plans, Plans::Default);
    let effort = if named { Effort::Measure } else { grid.effort };
    for global_batch in batches(workload.global_batch, job, grid)? {
        let (begin, mut left_out) = (cells.len(), None);
        for (plan, unsupported) in plans_of(workload, job, grid, global_batch, pool)? {
            let ranks = plan.ranks() as usize;
            let devices: Vec<Device> = pool.iter().take(ranks).cloned().collect();
            let judgement = match &mut estimates {
                Some(estimates) if unsupported.is_none() => {
                    estimates.judge(workload, global_batch, &plan, &devices, effort)
                }
                _ => Judgement::default(),
            };
            let fits = judgement.refusal.is_none();
            let spelling = format!("{}@b{global_batch}@{plan}", workload.name);
            let cell = Cell {
                name: format!("{spelling}@on={}", joined(&devices)),
                sharing: Sharing::Alone,
                job: spelling,
                workload: workload.name.clone(),
                command: None,
                all_reduce_bytes: None,
                global_batch: Some(global_batch),
                plan: Some(plan),
                devices,
                memory_estimate_bytes: judgement.memory_bytes,
                unsupported: unsupported.or(judgement.refusal),
                ..Cell::default()
            };
            if fits || !matches!(grid.plans, Plans::All) {
                cells.push(cell);
            } else {
                left_out.get_or_insert(cell);
            }
        }
        if let (Some(mut cell), true) = (left_out, cells.len() == begin) {
            let list = format!("`profile list --plans {}@b{global_batch}`", workload.name);
            let reason = cell.unsupported.unwrap_or_default();
            cell.unsupported = Some(format!("{reason}, and no other plan fits either; see {list}"));
            cells.push(cell);
        }
    }
    Ok(cells)
}

/// The workload of a job, or the workloads of its set.
fn workloads<'a>(catalog: &'a Catalog, job: &Job) -> anyhow::Result<Vec<&'a Workload>> {
    if workload_lookup::is_set(&job.workload) && job.to_string() != job.workload {
        bail!(
            "job '{job}': a set takes neither batch, plan nor device; write {} and use --batch, --plan and --device",
            job.workload
        );
    }
    workload_lookup::workloads(catalog, &job.workload)
}

/// The devices of one job in the form that rows have: `cpu:0`, `cpu:0,cpu:1`.
pub fn joined(devices: &[Device]) -> String {
    devices.iter().map(Device::to_string).collect::<Vec<_>>().join(",")
}

/// The batches of a job, of which `default` is the one for a job without.
pub(crate) fn batches(default: u32, job: &Job, grid: &Grid) -> anyhow::Result<Vec<u32>> {
    match (job.global_batch, grid.batches.is_empty()) {
        (Some(batch), true) => Ok(vec![batch]),
        (None, true) => Ok(vec![default]),
        (None, false) => Ok(grid.batches.clone()),
        (Some(_), false) => bail!("job '{job}' names its batch, and so does --batch; remove one of them"),
    }
}

fn plans_of(
    workload: &Workload,
    job: &Job,
    grid: &Grid,
    global_batch: u32,
    pool: &[Device],
) -> anyhow::Result<Vec<(Plan, Option<String>)>> {
    let with_refusal = |plan| (plan, plans::refusal(workload, global_batch, &plan, pool));
    refuse_two_plans(job, grid)?;
    Ok(match (job.plan, &grid.plans) {
        (Some(plan), _) => vec![with_refusal(plan)],
        (None, Plans::Default) => vec![with_refusal(workload.plan)],
        (None, Plans::Named(plans)) => plans.iter().copied().map(with_refusal).collect(),
        (None, Plans::All) => plans::enumerate(workload, global_batch, pool)
            .into_iter()
            .filter(|candidate| candidate.refusal.is_none())
            .map(|candidate| (candidate.plan, None))
            .collect(),
    })
}

/// Checks that a job that names its plan is not crossed with others.
pub(crate) fn refuse_two_plans(job: &Job, grid: &Grid) -> anyhow::Result<()> {
    let is_twice = job.plan.is_some() && !matches!(grid.plans, Plans::Default);
    ensure!(!is_twice, "job '{job}' names its plan, and so does --plan; remove one of them");
    Ok(())
}

/// Checks that no cell occurs twice, because its rows could not be told apart.
pub fn distinct(cells: &[Cell]) -> anyhow::Result<()> {
    let mut names = BTreeSet::new();
    match cells.iter().find(|cell| !names.insert(&cell.name)) {
        Some(twice) => {
            bail!("'{}' is named twice; name it once, and set --repeats for more launches", twice.name)
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(jobs: &[&str], grid: &Grid) -> anyhow::Result<Vec<Cell>> {
        let jobs: Vec<Job> = jobs.iter().map(|job| job.parse().expect("a job")).collect();
        let cells = alone(&Catalog::embedded(), &jobs, grid, &[Device::Cpu(vec![0])], None)?;
        distinct(&cells)?;
        Ok(cells)
    }

    fn names(jobs: &[&str], grid: &Grid) -> Vec<String> {
        cells(jobs, grid).expect("a grid").into_iter().map(|cell| cell.name).collect()
    }

    #[test]
    fn a_grid_is_jobs_by_batches_by_plans() {
        assert_eq!(names(&["lstm"], &Grid::default()), ["lstm@b20@dp1@on=cpu:0"]);
        assert_eq!(names(&["lstm@b8@ga2@on=cpu:1"], &Grid::default()), ["lstm@b8@ga2@on=cpu:1"]);
        let plans = Plans::Named(vec!["dp1".parse().expect("plan"), "bf16".parse().expect("plan")]);
        let grid = Grid { batches: vec![8, 16], plans, ..Grid::default() };
        assert_eq!(names(&["lstm", "neumf"], &grid).len(), 8);
        let all = Grid { batches: vec![4], plans: Plans::All, ..Grid::default() };
        assert_eq!(names(&["lstm"], &all).len(), 12);
    }

    #[test]
    fn a_set_is_its_workloads_at_their_own_batches_and_plans() {
        let catalog = Catalog::embedded();
        let quick: Vec<_> = catalog.set("quick").map(|workload| workload.name.clone()).collect();
        let all = cells(&["set:quick", "synthetic-spin"], &Grid::default()).expect("a grid");
        let workloads: Vec<_> = all.iter().map(|cell| cell.workload.clone()).collect();
        assert_eq!(workloads, [quick.clone(), vec!["synthetic-spin".into()]].concat());
        assert!(
            all.iter()
                .all(|cell| cell.global_batch
                    == Some(catalog.get(&cell.workload).expect("there").global_batch))
        );
        let grid = Grid { batches: vec![4, 8], ..Grid::default() };
        assert_eq!(cells(&["set:quick"], &grid).expect("a grid").len(), 2 * quick.len());
    }

    #[test]
    fn what_cannot_run_is_a_cell_with_its_reason() {
        let plans = Plans::Named(vec!["dp1".parse().expect("plan"), "tp2".parse().expect("plan")]);
        let cells = cells(&["lstm"], &Grid { plans, ..Grid::default() }).expect("a grid");
        assert_eq!(cells[0].unsupported, None);
        let reason = cells[1].unsupported.as_deref().expect("refused");
        assert!(reason.starts_with("lstm runs no plans with tp because only attention "), "{reason}");
    }

    #[test]
    fn slips_are_named_with_the_remedy() {
        let error = |jobs: &[&str], grid: &Grid| cells(jobs, grid).expect_err("refused").to_string();
        let batches = Grid { batches: vec![8], ..Grid::default() };
        assert!(error(&["resnet81"], &Grid::default()).contains("did you mean 'resnet18'?"));
        assert!(error(&["lstm", "lstm"], &Grid::default()).contains("named twice"));
        assert!(error(&["set:quick", "lstm"], &Grid::default()).contains("named twice"));
        assert!(error(&["set:quick@b4"], &Grid::default()).contains("write set:quick and use --batch"));
        assert!(
            error(&["set:slow"], &Grid::default()).contains("there is no set 'slow'; the catalog has quick")
        );
        assert!(error(&["lstm@b4"], &batches).contains("remove one of them"));
    }
}
