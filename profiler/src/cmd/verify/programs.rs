//! `profile verify` of programs that the catalog defines: whether they train under each plan, and go on from what they save.

mod cells;
mod judge;

use std::{collections::BTreeMap, fs, time::Duration};

use anyhow::Context as _;
use cli::table::{self, TableLayout, or_dash};
use jobs::launch;
use record::{
    manifest::Cell,
    rows::{ProgramCheck, Status, VerifyProgramRow},
    run_dir::RunDir,
};
use rig::{LaunchRequest, SavedSteps, sampler::SamplerCost};
use schema::{
    catalog::{Catalog, CatalogProgram},
    plan::Plan,
    wire::Event,
};

pub(super) use self::cells::{are_all, cells};
use self::judge::{Losses, Shown, finished, is_bf16, judge, row};
use super::{
    bench::{Bench, Launcher},
    verdict,
};
use crate::running::{Begins, Running, Trouble};

/// The number of steps of each launch.
const STEPS: u64 = 20;

/// The number of steps before the order to save, and again after the program has gone on.
const STEPS_BEFORE_SAVING: u64 = 8;

/// The time limit for the first step of a launch.
const FIRST_STEP: Duration = Duration::from_secs(300);

/// Trains under each plan, and after the first plan of a program lets it save and go on.
/// Returns the rows of each cell.
pub(super) fn verify(bench: &Bench<'_>) -> anyhow::Result<(Vec<Vec<VerifyProgramRow>>, SamplerCost)> {
    let line = |rows: &Vec<VerifyProgramRow>| match rows.last() {
        Some(row) => format!("{}@{}: {}", row.program, row.plan, verdict(row.status, row.reason.as_deref())),
        None => String::new(),
    };
    let mut known: BTreeMap<(String, u32, bool), Losses> = BTreeMap::new();
    let cells = &bench.manifest.cells;
    let mut number = 0;
    bench.each_cell(line, |cell, launcher| {
        number += 1;
        let (program, batch, plan) = of_cell(bench.catalog, cell)?;
        let mut row = row(program, batch, plan, ProgramCheck::Plan);
        if let Some(reason) = &cell.unsupported {
            (row.status, row.reason) = (Status::Unsupported, Some(reason.clone()));
            return Ok(Some(vec![row]));
        }
        let key = (program.name.clone(), batch, is_bf16(&plan));
        match trained(bench, launcher, cell) {
            Err(Trouble::Interrupted) => return Ok(None),
            Err(Trouble::Failed(why)) => row.reason = Some(why),
            Ok(shown) => {
                judge(&mut row, program, &shown, known.get(&key));
                known.entry(key).or_insert(shown.losses);
            }
        }
        let mut rows = vec![finished(row)];
        let is_same =
            |other: &Cell| (&other.workload, other.global_batch) == (&cell.workload, cell.global_batch);
        let is_first = number == 1 || !is_same(&cells[number - 2]);
        let saves = program.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.save.is_some());
        if is_first && saves {
            let of_program: Vec<&Cell> =
                cells.iter().filter(|other| is_same(other) && other.unsupported.is_none()).collect();
            let undisturbed = known.get(&(program.name.clone(), batch, false)).cloned().unwrap_or_default();
            match resumed(bench, launcher, &of_program, &undisturbed)? {
                Some(more) => rows.extend(more),
                None => return Ok(None),
            }
        }
        Ok(Some(rows))
    })
}

fn of_cell<'a>(catalog: &'a Catalog, cell: &Cell) -> anyhow::Result<(&'a CatalogProgram, u32, Plan)> {
    let program = catalog.program(&cell.workload).context("a cell of a program")?;
    let batch = cell.global_batch.context("a cell of a program has a batch")?;
    Ok((program, batch, cell.plan.context("a cell of a program has a plan")?))
}

/// Trains for some steps.
fn trained(bench: &Bench<'_>, launcher: &mut Launcher, cell: &Cell) -> Result<Shown, Trouble> {
    let request = request(bench, cell)?;
    let name = request.spec.launch.clone();
    let mut running = launcher.drive(request);
    running.begin(Begins::Ready, STEPS, FIRST_STEP)?;
    running.all_say(|event| matches!(event, Event::Held { index: STEPS }).then_some(()))?;
    running.wait_for_ranks(cell.plan.map_or(1, |plan| plan.ranks()))?;
    running.leave()?;
    Ok(shown(bench, cell, &name, &running))
}

fn request(bench: &Bench<'_>, cell: &Cell) -> Result<LaunchRequest, Trouble> {
    let failed = |error: anyhow::Error| Trouble::Failed(format!("{error:#}"));
    let number = bench.run.next_number().map_err(|error| failed(error.into()))?;
    let mut request =
        launch::request(bench.run, bench.manifest, bench.catalog, cell, (number, 0), None).map_err(failed)?;
    request.spec.surroundings.get_or_insert_default();
    Ok(request)
}

/// What the events and the output of a launch show.
fn shown(bench: &Bench<'_>, cell: &Cell, launch: &str, running: &Running<'_>) -> Shown {
    let steps: BTreeMap<u32, u64> = running
        .said
        .iter()
        .filter_map(|(rank, _, event)| match event {
            Event::Step(step) => Some((*rank, step.index + 1)),
            _ => None,
        })
        .collect();
    let program = bench.catalog.program(&cell.workload);
    let losses = program.map(|program| losses(bench.run, launch, program)).unwrap_or_default();
    Shown { ranks: steps.len() as u32, steps: steps.values().copied().min().unwrap_or_default(), losses }
}

/// The finite losses in the output of a launch.
fn losses(run: &RunDir, launch: &str, program: &CatalogProgram) -> Losses {
    let read = |path| fs::read(path).unwrap_or_default();
    let logs = [read(run.stdout_path(launch, 0)), read(run.stderr_path(launch, 0))].concat();
    let text = String::from_utf8_lossy(&logs).into_owned();
    text.split(['\n', '\r']).filter_map(|line| program.loss_in(line)).collect()
}

/// Saves under the first plan, and goes on: under that plan, and under the one with the most ranks if checkpoints are portable.
/// `undisturbed` has the losses of the first plan. `None` if the user interrupts.
fn resumed(
    bench: &Bench<'_>,
    launcher: &mut Launcher,
    cells: &[&Cell],
    undisturbed: &Losses,
) -> anyhow::Result<Option<Vec<VerifyProgramRow>>> {
    let Some(first) = cells.first() else { return Ok(Some(Vec::new())) };
    let (program, batch, _) = of_cell(bench.catalog, first)?;
    let most = cells.iter().filter(|cell| cell.plan.is_some_and(|plan| !is_bf16(&plan)));
    let most = most.max_by_key(|cell| cell.devices.len());
    let is_other = |cell: &&&Cell| cell.plan != first.plan && program.keeps_its_plan().is_none();
    let mut rows = Vec::new();
    for cell in std::iter::once(first).chain(most.filter(is_other)) {
        let (_, _, plan) = of_cell(bench.catalog, cell)?;
        let mut row = row(program, batch, plan, ProgramCheck::Resume);
        let went_on = saved(bench, launcher, first).and_then(|(folder, saved)| {
            row.saved_steps = Some(saved);
            went_on(bench, launcher, cell, &folder)
        });
        match went_on {
            Err(Trouble::Interrupted) => return Ok(None),
            Err(Trouble::Failed(why)) => row.reason = Some(why),
            Ok(shown) => {
                judge(&mut row, program, &shown, Some(undisturbed));
            }
        }
        rows.push(finished(row));
    }
    Ok(Some(rows))
}

/// Trains for some steps and saves. Returns the folder of the checkpoint and the steps that it holds.
fn saved(bench: &Bench<'_>, launcher: &mut Launcher, cell: &Cell) -> Result<(String, u64), Trouble> {
    let (program, ..) =
        of_cell(bench.catalog, cell).map_err(|error| Trouble::Failed(format!("{error:#}")))?;
    let saves_at_its_end =
        program.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.saves_at_its_end());
    let request = request(bench, cell)?;
    let folder = request.spec.launch.clone();
    let mut running = launcher.drive(request);
    running.begin(Begins::Ready, STEPS_BEFORE_SAVING, FIRST_STEP)?;
    running.all_say(|event| matches!(event, Event::Held { index: STEPS_BEFORE_SAVING }).then_some(()))?;
    running.wait_for_ranks(cell.plan.map_or(1, |plan| plan.ranks()))?;
    if !saves_at_its_end {
        running.save()?;
    }
    running.leave()?;
    match running.saved.last() {
        Some((_, SavedSteps::OfJob(steps) | SavedSteps::OfLaunch(steps))) => Ok((folder, *steps)),
        None => Err(Trouble::Failed("it ended without a sign of a checkpoint; see checkpoint.saved".into())),
    }
}

/// Goes on from a checkpoint for some steps.
fn went_on(bench: &Bench<'_>, launcher: &mut Launcher, cell: &Cell, folder: &str) -> Result<Shown, Trouble> {
    let mut request = request(bench, cell)?;
    launch::resume(&mut request.spec, bench.catalog, cell, folder);
    let name = request.spec.launch.clone();
    let mut running = launcher.drive(request);
    running.begin(Begins::Ready, STEPS_BEFORE_SAVING, FIRST_STEP)?;
    running.all_say(|event| matches!(event, Event::Held { index: STEPS_BEFORE_SAVING }).then_some(()))?;
    running.wait_for_ranks(cell.plan.map_or(1, |plan| plan.ranks()))?;
    running.leave()?;
    Ok(shown(bench, cell, &name, &running))
}

pub(super) fn show(rows: &[VerifyProgramRow], layout: TableLayout) -> anyhow::Result<()> {
    let mut table =
        table::new(&["program", "plan", "check", "ranks", "steps", "saved", "difference", "verdict"]);
    table.mark_text(&["plan", "check", "verdict"]);
    for row in rows {
        table.add_row([
            format!("{}@b{}", row.program, row.global_batch),
            row.plan.to_string(),
            row.check.to_string(),
            format!("{} of {}", row.ranks, row.devices),
            row.steps.to_string(),
            or_dash(row.saved_steps),
            or_dash(row.loss_difference.map(|difference| format!("{difference:.1e}"))),
            verdict(row.status, row.reason.as_deref()),
        ]);
    }
    layout.print(&table)
}
