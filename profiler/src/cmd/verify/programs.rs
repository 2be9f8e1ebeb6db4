//! `profile verify` of programs that the catalog defines: whether they train under each plan, and go on from what they save.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use anyhow::{Context as _, bail};
use cli::table::{self, or_dash};
use jobs::{
    catalog_programs,
    cells::{self, Grid, Plans},
    launch, plans, pool,
};
use record::{
    manifest::Cell,
    rows::{ProgramCheck, Status, VerifyProgramRow},
    run_dir::RunDir,
};
use rig::{LaunchRequest, SavedSteps, sampler::SamplerCost};
use schema::{
    catalog::{Catalog, CatalogProgram},
    device::Device,
    job::Job,
    plan::{Axis, Plan, Precision},
    surroundings::Surroundings,
    wire::Event,
};

use super::bench::{Bench, Launcher};
use crate::running::{Running, Trouble};

/// The number of steps of each launch.
const STEPS: u64 = 20;

/// The number of steps before a program is told to save. It takes as many after it has gone on.
const STEPS_BEFORE_SAVING: u64 = 8;

/// The time limit for the first step of a launch.
const FIRST_STEP: Duration = Duration::from_secs(300);

/// The largest relative difference between two losses in fp32, where plans change the order of sums, which grows over twenty steps. A
/// gradient that is averaged wrongly, or other samples, give more.
const TOLERANCE: f64 = 1e-3;

/// The same in bf16, which has 8 bits of precision.
const TOLERANCE_OF_BF16: f64 = 2e-2;

/// Whether all of these names are programs of the catalog.
///
/// # Errors
/// Only some of them are.
pub(super) fn are_all(catalog: &Catalog, names: &[String]) -> anyhow::Result<bool> {
    let is_program =
        |name: &&String| name.parse::<Job>().is_ok_and(|job| catalog.program(&job.workload).is_some());
    let (programs, others): (Vec<&String>, Vec<&String>) = names.iter().partition(is_program);
    match (programs.first(), others.first()) {
        (Some(program), Some(other)) => {
            bail!("'{program}' is a program and '{other}' is not; verify them one after another")
        }
        (program, _) => Ok(program.is_some()),
    }
}

/// A cell for each program and plan that the pool has devices for: all plans, or a few that have each axis. The plan with which others are
/// compared comes first.
pub(super) fn cells(
    catalog: &Catalog,
    names: &[String],
    named: &[Device],
    has_all: bool,
) -> anyhow::Result<Vec<Cell>> {
    let pool = pool::resolve(named, None)?;
    let mut all = Vec::new();
    for name in names {
        let job: Job = name.parse()?;
        if let Some(plan) = job.plan {
            bail!(
                "'{name}' names its plan {plan}, and a program is verified under all of its plans; remove it"
            );
        }
        let program = catalog.program(&job.workload).context("it is a program")?;
        let batch = job.global_batch.unwrap_or(program.batches[0]);
        let possible = plans::of_program(program, batch, &pool);
        let can_run = possible.iter().filter(|one| one.refusal.is_none());
        let mut plans: Vec<Plan> = can_run.map(|one| one.plan).collect();
        if plans.is_empty() {
            let why = possible.into_iter().find_map(|one| one.refusal).unwrap_or_default();
            bail!("'{name}': no plan can run here: {why}");
        }
        // A plan in bf16 is compared with the first one in bf16.
        plans.sort_by_key(|plan| (is_bf16(plan), plan.ranks(), plan.axes().len()));
        if !has_all {
            plans = with_each_axis(&plans);
        }
        let grid = Grid { batches: vec![batch], plans: Plans::Named(plans), ..Grid::default() };
        let job = Job { global_batch: None, ..job };
        all.extend(cells::alone(catalog, &[job], &grid, &pool, None)?);
    }
    catalog_programs::check(&all, catalog, &Surroundings::default())?;
    Ok(all)
}

/// Of these plans the first, the simplest with each axis, and the one with the most axes, in their order.
fn with_each_axis(plans: &[Plan]) -> Vec<Plan> {
    let axes: BTreeSet<Axis> = plans.iter().flat_map(Plan::axes).collect();
    let simplest = |axis: &Axis| {
        let with = plans.iter().filter(|plan| plan.axes().contains(axis));
        with.min_by_key(|plan| (plan.axes().len(), plan.ranks()))
    };
    let fullest = plans.iter().max_by_key(|plan| (plan.axes().len(), plan.ranks()));
    let chosen: Vec<&Plan> =
        plans.first().into_iter().chain(axes.iter().filter_map(simplest)).chain(fullest).collect();
    plans.iter().filter(|plan| chosen.contains(plan)).copied().collect()
}

fn is_bf16(plan: &Plan) -> bool {
    plan.precision == Precision::Bf16
}

/// The losses of a launch, by the step that its lines name.
type Losses = BTreeMap<u64, f64>;

/// What a launch showed.
#[derive(Default)]
struct Shown {
    ranks: u32,
    steps: u64,
    losses: Losses,
}

/// Trains under each plan, and after the first plan of a program lets it save and go on.
/// Returns the rows of each cell.
pub(super) fn verify(bench: &Bench<'_>) -> anyhow::Result<(Vec<Vec<VerifyProgramRow>>, SamplerCost)> {
    let line = |rows: &Vec<VerifyProgramRow>| match rows.last() {
        Some(row) => format!("{}@{}: {}", row.program, row.plan, verdict(row)),
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
    running.begin(STEPS, FIRST_STEP)?;
    running.all_say(|event| matches!(event, Event::Held { index: STEPS }).then_some(()))?;
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
    let saves_at_its_end =
        bench.catalog.program(&cell.workload).and_then(|program| program.checkpoint.as_ref());
    let saves_at_its_end = saves_at_its_end.is_some_and(|checkpoint| checkpoint.saves_at_its_end());
    let request = request(bench, cell)?;
    let folder = request.spec.launch.clone();
    let mut running = launcher.drive(request);
    running.begin(STEPS_BEFORE_SAVING, FIRST_STEP)?;
    running.all_say(|event| matches!(event, Event::Held { index: STEPS_BEFORE_SAVING }).then_some(()))?;
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
    running.begin(STEPS_BEFORE_SAVING, FIRST_STEP)?;
    running.all_say(|event| matches!(event, Event::Held { index: STEPS_BEFORE_SAVING }).then_some(()))?;
    running.leave()?;
    Ok(shown(bench, cell, &name, &running))
}

fn row(program: &CatalogProgram, global_batch: u32, plan: Plan, check: ProgramCheck) -> VerifyProgramRow {
    VerifyProgramRow {
        program: program.name.clone(),
        global_batch,
        plan,
        check,
        devices: plan.ranks(),
        ranks: 0,
        steps: 0,
        saved_steps: None,
        loss_difference: None,
        status: Status::Ok,
        verified: false,
        reason: None,
    }
}

/// A row with its verdict.
fn finished(row: VerifyProgramRow) -> VerifyProgramRow {
    let verified = row.reason.is_none();
    VerifyProgramRow { status: if verified { Status::Ok } else { Status::Failed }, verified, ..row }
}

/// Judges what a launch showed. `expected` has the losses of the plan with which it is compared.
fn judge(row: &mut VerifyProgramRow, program: &CatalogProgram, shown: &Shown, expected: Option<&Losses>) {
    (row.ranks, row.steps) = (shown.ranks, shown.steps);
    if shown.ranks < row.plan.ranks() {
        row.reason = Some(format!("steps were seen in {} of {} ranks", shown.ranks, row.plan.ranks()));
        return;
    }
    if program.loss.is_none() {
        return;
    }
    if shown.losses.is_empty() {
        row.reason = Some("no line of its output has the pattern of `loss`".into());
        return;
    }
    let Some(expected) = expected else { return };
    // Steps may count from any number: the first of the plan that is compared with is that of the first step.
    let first = expected.keys().next().copied().unwrap_or_default() + row.saved_steps.unwrap_or_default();
    // The line of the last step may not be printed any more.
    let last = first + shown.steps.saturating_sub(1);
    let wanted: Vec<u64> = (first..last).filter(|step| expected.contains_key(step)).collect();
    let Some(missing) = wanted.iter().find(|step| !shown.losses.contains_key(step)) else {
        return judge_losses(row, &shown.losses, expected, &wanted);
    };
    let seen = shown.losses.keys().next().copied().unwrap_or_default();
    row.reason = Some(match row.saved_steps {
        Some(saved) if saved > 0 => {
            format!(
                "it went on with step {seen} and not with step {first}, after a checkpoint of {saved} steps"
            )
        }
        _ => format!("its output has no finite loss of step {missing}"),
    });
}

/// Compares the losses of these steps with those of the undisturbed launch.
fn judge_losses(row: &mut VerifyProgramRow, losses: &Losses, expected: &Losses, steps: &[u64]) {
    let apart =
        |step: &u64| (losses[step] - expected[step]).abs() / expected[step].abs().max(f64::MIN_POSITIVE);
    if steps.is_empty() {
        row.reason =
            Some("it has no step in common with the first plan, so that no loss was compared".into());
        return;
    }
    let largest = steps.iter().map(apart).fold(0.0, f64::max);
    row.loss_difference = Some(largest);
    let tolerance = if is_bf16(&row.plan) { TOLERANCE_OF_BF16 } else { TOLERANCE };
    if largest > tolerance {
        row.reason = Some(format!("its losses differ by more than {tolerance} from those of the first plan"));
    }
}

fn verdict(row: &VerifyProgramRow) -> String {
    match (&row.reason, row.status) {
        (None, _) => "verified".into(),
        (Some(reason), Status::Unsupported) => format!("unsupported: {reason}"),
        (Some(reason), _) => reason.clone(),
    }
}

pub(super) fn show(rows: &[VerifyProgramRow]) -> anyhow::Result<()> {
    let mut table =
        table::new(&["program", "plan", "check", "ranks", "steps", "saved", "difference", "verdict"]);
    for row in rows {
        table.add_row([
            format!("{}@b{}", row.program, row.global_batch),
            row.plan.to_string(),
            row.check.to_string(),
            format!("{} of {}", row.ranks, row.devices),
            row.steps.to_string(),
            or_dash(row.saved_steps),
            or_dash(row.loss_difference.map(|difference| format!("{difference:.1e}"))),
            verdict(row),
        ]);
    }
    for words in [1, 2, 7] {
        if let Some(column) = table.column_mut(words) {
            column.set_cell_alignment(comfy_table::CellAlignment::Left);
        }
    }
    table::print(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_plans_have_each_axis() {
        let parse = |names: &[&str]| -> Vec<Plan> {
            names.iter().map(|name| name.parse().expect("a plan")).collect()
        };
        let all = parse(&[
            "dp1",
            "ga2",
            "ga4",
            "gc",
            "ga2-gc",
            "dp2",
            "dp2-gc",
            "dp2-zero1",
            "dp2-zero1-gc",
            "bf16",
            "ga2-bf16",
            "dp2-zero1-ga2-gc-bf16",
        ]);
        let few = parse(&["dp1", "ga2", "gc", "dp2", "dp2-zero1", "bf16", "dp2-zero1-ga2-gc-bf16"]);
        assert_eq!(with_each_axis(&all), few);
        assert_eq!(with_each_axis(&[]), []);
    }
}
