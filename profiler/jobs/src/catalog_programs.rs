//! The cells of programs that the catalog defines: batches by plans, each with its command.

use std::path::Path;

use anyhow::Context as _;
use record::manifest::Cell;
use schema::{
    catalog::{Catalog, CatalogProgram},
    device::Device,
    job::Job,
    plan::Plan,
    sharing::Sharing,
    surroundings::Surroundings,
    values::Values,
};

use crate::{
    cells::{Grid, Plans, batches, joined, refuse_two_plans},
    plans::{self, Candidate},
    users_programs, vary,
};

/// Checks that the programs of these cells are there, and the folders that their definitions name. `surroundings` are those of all
/// programs of the run.
///
/// # Errors
/// A program of the catalog, or its folder, is not there.
pub fn check(cells: &[Cell], catalog: &Catalog, surroundings: &Surroundings) -> anyhow::Result<()> {
    let of_catalog = cells.iter().filter(|cell| cell.plan.is_some() && cell.unsupported.is_none());
    for (cell, argv) in of_catalog.filter_map(|cell| Some((cell, cell.command.as_ref()?))) {
        if let (None, Some(folder)) = (&surroundings.cwd, &cell.folder)
            && !Path::new(folder).is_dir()
        {
            let problem = format!("folder: there is no folder '{folder}' here; make it, or name another");
            return Err(catalog.error_of_program(&cell.workload, &problem).into());
        }
        let own = Surroundings::with_folder(Some(surroundings), cell.folder.as_ref()).unwrap_or_default();
        users_programs::check_program_exists(argv, &own).with_context(|| cell.job.clone())?;
    }
    Ok(())
}

/// The cells of a program over the grid and its values, each alone on the first devices of the pool. A combination that cannot
/// run is a cell with the reason. `Plans::All` leaves such cells out, but keeps one for a batch that would have no cell otherwise.
///
/// # Errors
/// The job and the grid both name batches or plans.
pub(crate) fn alone(
    program: &CatalogProgram,
    job: &Job,
    grid: &Grid,
    pool: &[Device],
) -> anyhow::Result<Vec<Cell>> {
    refuse_two_plans(job, grid)?;
    let mut cells = Vec::new();
    for global_batch in batches(program.batches[0], job, grid)? {
        let named = |plan: Plan| plans::candidate_of_program(program, global_batch, plan, pool);
        let candidates: Vec<Candidate> = match (job.plan, &grid.plans) {
            (Some(plan), _) => vec![named(plan)],
            (None, Plans::Default) => vec![named(program.plan)],
            (None, Plans::Named(plans)) => plans.iter().copied().map(named).collect(),
            (None, Plans::All) => {
                let all = plans::of_program(program, global_batch, pool);
                let first = all.first().cloned();
                let can_run: Vec<_> = all.into_iter().filter(|one| one.refusal.is_none()).collect();
                if can_run.is_empty() { first.into_iter().collect() } else { can_run }
            }
        };
        for candidate in candidates {
            let combinations = grid.vary.combinations(|name| program.defaults.contains_key(name));
            let cell = |values| cell_of(program, global_batch, candidate.clone(), pool, values);
            cells.extend(combinations.into_iter().map(cell));
        }
    }
    Ok(cells)
}

/// The cell of a program with this batch and plan, on the first devices of the pool.
///
/// # Errors
/// The program or its folder is not there.
pub fn cell(
    catalog: &Catalog,
    program: &CatalogProgram,
    global_batch: u32,
    plan: Plan,
    pool: &[Device],
) -> anyhow::Result<Cell> {
    let candidate = plans::candidate_of_program(program, global_batch, plan, pool);
    let cell = cell_of(program, global_batch, candidate, pool, Values::new());
    check(std::slice::from_ref(&cell), catalog, &Surroundings::default())?;
    Ok(cell)
}

fn cell_of(
    program: &CatalogProgram,
    global_batch: u32,
    candidate: Candidate,
    pool: &[Device],
    values: Values,
) -> Cell {
    let Candidate { plan, refusal } = candidate;
    let devices: Vec<Device> = pool.iter().take(plan.ranks() as usize).cloned().collect();
    let spelling = vary::spelled(&format!("{}@b{global_batch}@{plan}", program.name), &values);
    Cell {
        name: format!("{spelling}@on={}", joined(&devices)),
        sharing: Sharing::Alone,
        job: spelling,
        workload: program.name.clone(),
        command: Some(program.arguments(global_batch, &plan, &values)),
        folder: program.folder.clone(),
        all_reduce_bytes: None,
        global_batch: Some(global_batch),
        plan: Some(plan),
        devices,
        memory_estimate_bytes: None,
        vary: values,
        unsupported: refusal,
    }
}
