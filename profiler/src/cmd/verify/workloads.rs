//! `profile verify`: whether every workload matches its definition and learns.

use std::collections::BTreeMap;

use cli::table::{self, TableLayout, grouped, or_dash};
use jobs::{
    cells::{self, Grid, Plans},
    launch,
    plans::{Effort, Estimates},
    workload_lookup,
};
use record::{
    launch_end::LaunchEnd,
    manifest::{Cell, Manifest},
    rows::{ErrorKind, VerifyRow},
    steps::job_steps,
};
use rig::{programs, sampler::SamplerCost};
use schema::{
    FORMAT,
    catalog::{Catalog, Workload},
    device::Device,
    events,
    shapes::Shapes,
    units::Nanos,
    wire::{Event, EventLine},
};

use super::bench::Bench;

/// The number of steps at either end over which the loss is averaged, because single steps scatter.
const LOSS_STEPS: usize = 3;

/// One cell per workload, with the batch of its verification; for the whole catalog if `names` is empty.
pub(super) fn cells(catalog: &Catalog, names: &[String], pool: &[Device]) -> anyhow::Result<Vec<Cell>> {
    let chosen: Vec<&Workload> = if names.is_empty() {
        catalog.iter().collect()
    } else {
        let found = names.iter().map(|name| workload_lookup::workloads(catalog, name));
        found.collect::<anyhow::Result<Vec<_>>>()?.concat()
    };
    let mut all = Vec::new();
    for workload in chosen {
        let job = workload.name.parse()?;
        let grid =
            Grid { batches: vec![workload.verify.global_batch], plans: Plans::Default, ..Grid::default() };
        all.extend(cells::alone(catalog, &[job], &grid, pool, None)?);
    }
    Ok(all)
}

/// Trains each workload, or counts its parameters and operations from shapes if its device cannot hold it.
pub(super) fn verify(bench: &Bench<'_>) -> anyhow::Result<(Vec<VerifyRow>, SamplerCost)> {
    let &Bench { run, manifest, catalog } = bench;
    let outgrown = outgrown(manifest, catalog)?;
    let line = |row: &VerifyRow| format!("{}: {}", row.workload, verdict(row));
    bench.each_cell(line, |cell, launcher| {
        let workload = workload_lookup::workload(catalog, &cell.workload)?;
        if let Some(reason) = &cell.unsupported {
            return Ok(Some(unverified(workload, reason)));
        }
        let (number, steps) = (run.next_number()?, workload.verify.steps);
        let request = launch::request(run, manifest, catalog, cell, (number, 0), Some(steps))?;
        let launch = request.spec.launch.clone();
        if let Some(reason) = outgrown.get(&cell.name) {
            run.write_spec(&request.spec)?;
            let row = match programs::torch_shapes(&run.spec_path(&launch)) {
                Ok(shapes) => judge_shapes(workload, &shapes, reason),
                Err(error) => unverified(workload, &format!("{reason}; {error:#}")),
            };
            run.write_launch_end(&launch, &never_started(reason.clone()))?;
            return Ok(Some(row));
        }
        let Some(end) = launcher.launch(request) else { return Ok(None) };
        let of_rank = |rank| events::read(&run.events_path(&launch, rank), rank).unwrap_or_default();
        let ranks: Vec<_> = (0..cell.devices.len() as u32).map(of_rank).collect();
        let stages = cell.plan.map_or(1, |plan| plan.pp.into());
        Ok(Some(judge(workload, &ranks, stages, &end)))
    })
}

/// The reason for each cell that needs more memory than its device has, by name. All estimates are made before the first
/// launch, because their messages would break the progress bar.
fn outgrown(manifest: &Manifest, catalog: &Catalog) -> anyhow::Result<BTreeMap<String, String>> {
    let mut estimates = Estimates::new(&manifest.settings, manifest.seed);
    let mut reasons = BTreeMap::new();
    for cell in manifest.cells.iter().filter(|cell| cell.unsupported.is_none()) {
        let (Some(batch), Some(plan)) = (cell.global_batch, &cell.plan) else { continue };
        let workload = workload_lookup::workload(catalog, &cell.workload)?;
        let judgement = estimates.judge(workload, batch, plan, &cell.devices, Effort::WhereTight);
        reasons.extend(judgement.refusal.map(|reason| (cell.name.clone(), reason)));
    }
    Ok(reasons)
}

/// Compares the shapes with the catalog; `reason` is why the workload was not trained.
fn judge_shapes(workload: &Workload, shapes: &Shapes, reason: &str) -> VerifyRow {
    let wrong = if workload.parameters != Some(shapes.parameters) {
        Some("its parameters are not those of the catalog")
    } else if workload.flops_per_sample.is_some_and(|flops| flops != shapes.flops_per_sample) {
        Some("its operations are not those of the catalog")
    } else {
        None
    };
    VerifyRow {
        parameters: Some(shapes.parameters),
        verified: wrong.is_none(),
        shapes_only: true,
        ..unverified(workload, wrong.unwrap_or(reason))
    }
}

/// The end of a launch of which no rank was started.
fn never_started(reason: String) -> LaunchEnd {
    LaunchEnd {
        format: FORMAT,
        mono_ns: Nanos::monotonic_now(),
        enough_mono_ns: None,
        err: Some(ErrorKind::Unsupported),
        err_detail: Some(reason),
        killed_after: None,
        notes: Default::default(),
        ranks: vec![],
    }
}

/// The row of a workload that could not be verified here.
fn unverified(workload: &Workload, reason: &str) -> VerifyRow {
    VerifyRow {
        workload: workload.name.clone(),
        parameters: None,
        parameters_expected: workload.parameters,
        steps: 0,
        loss_first: None,
        loss_last: None,
        verified: false,
        shapes_only: false,
        reason: Some(reason.into()),
    }
}

/// Compares the events of the ranks of a launch with the catalog. Each rank counts the parameters of the whole model.
fn judge(workload: &Workload, ranks: &[Vec<EventLine>], stages: u32, end: &LaunchEnd) -> VerifyRow {
    let parameters = ranks.first().into_iter().flatten().find_map(|line| match &line.event {
        Event::Ready(ready) => ready.parameters,
        _ => None,
    });
    let losses: Vec<Option<f64>> = job_steps(ranks, stages).into_iter().map(|step| step.loss).collect();
    let mean = |steps: &[Option<f64>]| -> Option<f64> {
        let sum: f64 = steps.iter().copied().sum::<Option<f64>>()?;
        (!steps.is_empty()).then(|| sum / steps.len() as f64)
    };
    let ends = LOSS_STEPS.min(losses.len());
    let (first, last) = (mean(&losses[..ends]), mean(&losses[losses.len() - ends..]));
    let reason = if let Some(detail) = &end.err_detail {
        Some(detail.clone())
    } else if workload.parameters.is_some() && parameters != workload.parameters {
        Some("its parameters are not those of the catalog".into())
    } else if losses.len() as u64 != workload.verify.steps {
        Some(format!("it made {} steps of {}", losses.len(), workload.verify.steps))
    } else {
        match (first, last) {
            (Some(first), Some(last)) if last < first => None,
            (Some(_), Some(_)) => Some("its loss does not fall".into()),
            _ => Some("its loss is not finite".into()),
        }
    };
    VerifyRow {
        workload: workload.name.clone(),
        parameters,
        parameters_expected: workload.parameters,
        steps: losses.len() as u64,
        loss_first: first,
        loss_last: last,
        verified: reason.is_none(),
        shapes_only: false,
        reason,
    }
}

fn verdict(row: &VerifyRow) -> String {
    match &row.reason {
        None => "verified".into(),
        Some(reason) if row.verified => format!("verified by shapes alone: it {reason}"),
        Some(reason) => reason.clone(),
    }
}

pub(super) fn show(rows: &[VerifyRow], layout: TableLayout) -> anyhow::Result<()> {
    let mut table = table::new(&["workload", "parameters", "steps", "first loss", "last loss", "verdict"]);
    table.mark_text(&["verdict"]);
    for row in rows {
        let loss = |loss: Option<f64>| or_dash(loss.map(|loss| format!("{loss:.4}")));
        table.add_row([
            row.workload.clone(),
            or_dash(row.parameters.map(grouped)),
            row.steps.to_string(),
            loss(row.loss_first),
            loss(row.loss_last),
            verdict(row),
        ]);
    }
    layout.print(&table)
}

#[cfg(test)]
mod tests {
    use schema::wire::{Ready, Step, Timing};

    use super::*;

    fn events(parameters: u64, losses: &[Option<f64>]) -> Vec<EventLine> {
        let ready = Event::Ready(Ready {
            parameters: Some(parameters),
            model_bytes: Some(4),
            optimizer_bytes: None,
            peak_bytes: None,
            statistics: None,
            fp32_layers: Vec::new(),
            startup_ns: Nanos(1),
            restore_ns: None,
        });
        let step = |(index, loss): (usize, &Option<f64>)| {
            let (index, dur_ns) = (index as u64, Nanos(1));
            let timing = Timing::Host;
            Event::Step(Step {
                index,
                dur_ns,
                samples: Some(1),
                loss: *loss,
                phases: None,
                sent_bytes: None,
                timing,
            })
        };
        let all = std::iter::once(ready).chain(losses.iter().enumerate().map(step));
        let line = |(seq, event)| EventLine { seq: seq as u64, rank: 0, mono_ns: Nanos(1), event };
        all.enumerate().map(line).collect()
    }

    #[test]
    fn a_workload_is_held_to_its_parameters_its_steps_and_its_loss() {
        let catalog = Catalog::embedded();
        let workload =
            Workload { parameters: Some(7), ..catalog.get("synthetic-spin").expect("there").clone() };
        let end = LaunchEnd {
            format: FORMAT,
            mono_ns: Nanos(1),
            enough_mono_ns: None,
            err: None,
            err_detail: None,
            killed_after: None,
            notes: Default::default(),
            ranks: vec![],
        };
        let falling: Vec<_> = (0..5).map(|i| Some(5.0 - f64::from(i))).collect();
        let rising: Vec<_> = (0..5).map(|i| Some(f64::from(i))).collect();
        let verdict = |parameters, losses: &[Option<f64>]| {
            judge(&workload, &[events(parameters, losses)], 1, &end).reason
        };
        assert_eq!(verdict(7, &falling), None);
        assert_eq!(verdict(8, &falling).as_deref(), Some("its parameters are not those of the catalog"));
        assert_eq!(verdict(7, &rising).as_deref(), Some("its loss does not fall"));
        assert_eq!(verdict(7, &falling[..4]).as_deref(), Some("it made 4 steps of 5"));
        assert_eq!(verdict(7, &[None; 5]).as_deref(), Some("its loss is not finite"));

        // The first of two stages has no loss, and counts the parameters of both.
        let first = events(7, &[None; 5]).into_iter().map(|mut line| {
            if let Event::Step(step) = &mut line.event {
                step.samples = Some(0);
            }
            line
        });
        let stages = [first.collect(), events(7, &falling)];
        let row = judge(&workload, &stages, 2, &end);
        assert_eq!((row.reason, row.parameters, row.loss_last), (None, Some(7), Some(2.0)));
    }

    #[test]
    fn what_is_not_trained_is_held_to_its_parameters_and_operations() {
        let catalog = Catalog::embedded();
        let workload = catalog.get("llama-30b").expect("there");
        let reason = "needs 364 GiB besides activations and cpu:0 has 64.0 GiB";
        let judged = |parameters, flops_per_sample| {
            let shapes = Shapes { parameters, buffers: 0, model_bytes: 4 * parameters, flops_per_sample };
            let row = judge_shapes(workload, &shapes, reason);
            (row.verified, verdict(&row))
        };
        let (parameters, operations) = (32_528_943_616, 417_188_963_942_400);
        let (verified, verdict) = judged(parameters, operations);
        assert!(verified && verdict.starts_with("verified by shapes alone: it needs 364 GiB"), "{verdict}");
        let wrong = |what| (false, format!("its {what} are not those of the catalog"));
        assert_eq!(judged(parameters - 1, operations), wrong("parameters"));
        assert_eq!(judged(parameters, operations - 1), wrong("operations"));
    }
}
