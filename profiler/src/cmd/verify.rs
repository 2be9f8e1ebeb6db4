//! `profile verify`: does every workload build what it says, and learn.

mod bench;
mod plans;

use std::path::PathBuf;

use schema::{
    FORMAT,
    catalog::{Catalog, Workload},
    device::Device,
    events,
    manifest::{Cell, Settings},
    rows::{self, ErrorKind, VerifyRow},
    run_dir::RunDir,
    shapes::Shapes,
    spec::LaunchEnd,
    units::{HumanBytes, Nanos},
    wire::{Event, EventLine},
};

use self::bench::Bench;
use super::{Exit, list};
use crate::{
    blocks,
    cells::{self, Grid, Plans},
    named,
    plans::{Effort, Estimates, Judgement},
    pool, programs,
    run::{self, Request},
    table::{self, grouped, or_dash},
};

/// The loss is taken over so many steps at either end: single steps scatter.
const LOSS_STEPS: usize = 3;

/// Train every workload for a few steps: parameters as published, and a loss that falls.
///
/// A workload that needs more memory than the device has is not trained: its parameters and operations are counted by the
/// shapes of its tensors, and held to the catalog.
///
/// With --plans, all plans of a job are held to each other instead: whatever the plan, the same is computed.
///
/// Example: `profile verify`
///
/// Example: `profile verify resnet18-cifar gpt2-mini --device cuda:0`
///
/// Example: `profile verify gpt2-mini@b8 --plans --device cpu:0,cpu:1`
#[derive(clap::Args)]
pub(super) struct Args {
    /// Workloads and sets to verify, as `set:quick`, all of the catalog where none is named; with --plans, jobs
    /// `WORKLOAD[@bN][@on=DEVICE]` and sets.
    #[arg(value_name = "WORKLOAD|JOB")]
    workloads: Vec<String>,
    /// Train under every plan that is valid on the pool, and hold the losses of 20 steps to those of dp1.
    ///
    /// All are computed in fp64, where a plan may only change the order of sums: losses that are more than 1e-9 apart are
    /// not the same. What differs between plans by design is left out: dropout and stochastic depth are 0, what a model
    /// draws is its mean, batch norm uses its running statistics as they began, and advantages are not normalised.
    #[arg(long, requires = "workloads")]
    plans: bool,
    /// Devices to take ranks from, in this order. Without it, the best that is present.
    #[arg(long, value_name = "POOL", value_delimiter = ',')]
    device: Vec<Device>,
    /// Memory of each CPU device, as 2GiB [default: its share of the machine's].
    #[arg(long, value_name = "SIZE")]
    memory: Option<HumanBytes>,
    /// A file of further workloads.
    #[arg(long, value_name = "FILE")]
    catalog: Vec<PathBuf>,
    /// Directory of the run [default: runs/<utc time>-verify-<hash>].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print rows as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let catalog = list::open(&args.catalog)?;
    let pool = pool::resolve(&args.device, None)?;
    let cells = if args.plans {
        plans::cells(&catalog, &args.workloads, &pool)?
    } else {
        cells_of(&chosen(&catalog, &args.workloads)?, &catalog, &pool)?
    };
    let settings = Settings {
        heartbeat_s: Some(300.0),
        memory_bytes: args.memory.map(|HumanBytes(bytes)| bytes),
        catalogs: args.catalog.clone(),
        ..Settings::default()
    };
    let manifest = run::manifest(&catalog, Request { cells, groups: Vec::new(), settings, seed: 1 })?;
    let run = RunDir::create(&args.out.clone().unwrap_or_else(|| run::directory("verify", &manifest)))?;
    run.write_manifest(&manifest)?;
    let bench = Bench { run: &run, manifest: &manifest, catalog: &catalog };
    let verdicts: Vec<bool> = if args.plans {
        let rows = plans::verify(&bench)?;
        print(args.json, || rows::to_json(&rows), || plans::show(&rows));
        rows.iter().map(|row| row.verified).collect()
    } else {
        let rows = verify(&bench)?;
        print(args.json, || rows::to_json(&rows), || show(&rows));
        rows.iter().map(|row| row.verified).collect()
    };
    eprintln!("run: {}", run.path().display());
    let interrupted = verdicts.len() < manifest.cells.len();
    Ok(match (interrupted, verdicts.into_iter().all(|verified| verified)) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Ok,
        (false, false) => Exit::SomeFailed,
    })
}

fn print(as_json: bool, json: impl FnOnce() -> String, show: impl FnOnce()) {
    if as_json {
        println!("{}", json());
    } else {
        show();
    }
}

fn chosen<'a>(catalog: &'a Catalog, names: &[String]) -> anyhow::Result<Vec<&'a Workload>> {
    if names.is_empty() {
        return Ok(catalog.iter().collect());
    }
    let found =
        names.iter().map(|name| named::workloads(catalog, name)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(found.concat())
}

/// One cell a workload, at the batch that verifies it.
fn cells_of(workloads: &[&Workload], catalog: &Catalog, pool: &[Device]) -> anyhow::Result<Vec<Cell>> {
    let mut all = Vec::new();
    for workload in workloads {
        let job = workload.name.parse()?;
        let grid = Grid { batches: vec![workload.verify.global_batch], plans: Plans::Default };
        all.extend(cells::alone(catalog, &[job], &grid, pool, None)?);
    }
    Ok(all)
}

fn verify(bench: &Bench<'_>) -> anyhow::Result<Vec<VerifyRow>> {
    let &Bench { run, manifest, catalog } = bench;
    let mut estimates = Estimates::new(&manifest.settings, manifest.seed);
    let line = |row: &VerifyRow| format!("{}: {}", row.workload, verdict(row));
    bench.each_cell(line, |cell, launcher| {
        let workload = named::workload(catalog, &cell.workload)?;
        if let Some(reason) = &cell.unsupported {
            return Ok(Some(unverified(workload, reason)));
        }
        let request = blocks::request(run, manifest, catalog, cell, 0, Some(workload.verify.steps))?;
        let launch = request.spec.launch.clone();
        let judgement = match (cell.global_batch, &cell.plan) {
            (Some(batch), Some(plan)) => {
                estimates.judge(workload, batch, plan, &cell.devices, Effort::WhereTight)
            }
            _ => Judgement::default(),
        };
        if let Some(reason) = judgement.refusal {
            run.write_spec(&request.spec)?;
            let row = match programs::torch_shapes(&run.spec_path(&launch)) {
                Ok(shapes) => judge_shapes(workload, &shapes, &reason),
                Err(error) => unverified(workload, &format!("{reason}; {error:#}")),
            };
            run.write_launch_end(&launch, &never_started(reason))?;
            return Ok(Some(row));
        }
        let Some(end) = launcher.launch(request) else { return Ok(None) };
        let events = events::read(&run.events_path(&launch, 0), 0).unwrap_or_default();
        Ok(Some(judge(workload, &events, &end)))
    })
}

/// Holds what shapes say to what the catalog says; `reason` is why nothing was trained.
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
        err: Some(ErrorKind::Unsupported),
        err_detail: Some(reason),
        ranks: vec![],
    }
}

/// A workload that was not trained here.
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

/// Holds what a launch said to what the catalog says.
fn judge(workload: &Workload, events: &[EventLine], end: &LaunchEnd) -> VerifyRow {
    let mut parameters = None;
    let mut losses = Vec::new();
    for line in events {
        match &line.event {
            Event::Ready(ready) => parameters = Some(ready.parameters),
            Event::Step(step) => losses.push(step.loss),
            _ => {}
        }
    }
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

fn show(rows: &[VerifyRow]) {
    let mut table = table::new(&["workload", "parameters", "steps", "first loss", "last loss", "verdict"]);
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
    table::print(&table);
}

#[cfg(test)]
mod tests {
    use schema::wire::{Ready, Step, Timing};

    use super::*;

    fn events(parameters: u64, losses: &[Option<f64>]) -> Vec<EventLine> {
        let ready = Event::Ready(Ready {
            parameters,
            model_bytes: 4,
            peak_bytes: None,
            statistics: None,
            startup_ns: Nanos(1),
            restore_ns: None,
        });
        let step = |(index, loss): (usize, &Option<f64>)| {
            let (index, dur_ns) = (index as u64, Nanos(1));
            let timing = Timing::Host;
            Event::Step(Step {
                index,
                dur_ns,
                samples: 1,
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
        let end = LaunchEnd { format: FORMAT, mono_ns: Nanos(1), err: None, err_detail: None, ranks: vec![] };
        let falling: Vec<_> = (0..5).map(|i| Some(5.0 - f64::from(i))).collect();
        let rising: Vec<_> = (0..5).map(|i| Some(f64::from(i))).collect();
        let verdict =
            |parameters, losses: &[Option<f64>]| judge(&workload, &events(parameters, losses), &end).reason;
        assert_eq!(verdict(7, &falling), None);
        assert_eq!(verdict(8, &falling).as_deref(), Some("its parameters are not those of the catalog"));
        assert_eq!(verdict(7, &rising).as_deref(), Some("its loss does not fall"));
        assert_eq!(verdict(7, &falling[..4]).as_deref(), Some("it made 4 steps of 5"));
        assert_eq!(verdict(7, &[None; 5]).as_deref(), Some("its loss is not finite"));
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
