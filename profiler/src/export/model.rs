//! Columns about a model, its plan and its data that are known before a launch.

use record::{
    manifest::DeviceFacts,
    rows::{Definition, ExportRow},
};
use schema::{
    catalog::{Catalog, Optimizer, Workload},
    footprint::{Footprint, MeasuredFootprint},
    plan::Plan,
    spec::{LaunchSpec, Program, Training},
};

use super::{Source, Subject};
use crate::derive::mfu;

pub(super) fn fill(row: &mut ExportRow, source: &Source, subject: &Subject, catalog: &Catalog) {
    let cell = subject.cell();
    row.ranks = Some(cell.devices.len() as u32);
    let Some(plan) = cell.plan else { return };
    fill_plan(row, &plan);
    let settings = &source.manifest.settings;
    row.loaders = Some(settings.loaders);
    row.real_data = Some(settings.data.is_some());
    row.offload_threads = settings.offload_threads.filter(|_| plan.offload);
    row.collectives = settings.collectives.filter(|_| plan.ranks() > 1);

    let own = subject.spec.and_then(training);
    let of_run =
        || source.specs.values().filter_map(training).find(|told| told.workload.name == cell.workload);
    let told = own.or_else(of_run).map(|training| &training.workload);
    let defined = told.map(|workload| (workload, Definition::Launch));
    let defined = defined.or_else(|| Some((catalog.get(&cell.workload)?, Definition::Catalog)));
    if let Some((workload, definition)) = defined {
        row.definition = Some(definition);
        fill_definition(row, workload);
        let is_first = |facts: &&DeviceFacts| Some(&facts.device) == cell.devices.first();
        let facts = source.manifest.devices.iter().find(is_first);
        let (machine, model) = (&source.manifest.machine, &workload.model);
        let peak = facts.and_then(|facts| mfu::peak(facts, machine, plan.precision, model));
        row.device_peak_flops_per_s = peak.map(|(_, flops_per_s)| flops_per_s);
    }

    let class = plan.of_footprint();
    let is_of_row = |known: &&MeasuredFootprint| {
        known.workload == cell.workload && known.plan == class && Some(&known.device) == cell.devices.first()
    };
    // Of several stages, those of the one that holds most.
    let of_stages = || source.footprints.iter().filter(is_of_row).map(|known| &known.footprint);
    row.model_bytes = of_stages().map(|footprint| footprint.model_bytes).max();
    row.activation_bytes_per_sample = of_stages().filter_map(Footprint::activation_bytes_per_sample).max();
}

fn training(spec: &LaunchSpec) -> Option<&Training> {
    match &spec.program {
        Program::Training(training) => Some(training),
        Program::AllReduce(_) | Program::Command(_) => None,
    }
}

fn fill_plan(row: &mut ExportRow, plan: &Plan) {
    row.dp = Some(plan.dp.into());
    row.tp = Some(plan.tp.into());
    row.pp = Some(plan.pp.into());
    row.zero = Some(plan.zero.into());
    row.ga = Some(plan.ga.into());
    row.gc = Some(plan.gc);
    row.offload = Some(plan.offload);
    row.precision = Some(plan.precision);
}

fn fill_definition(row: &mut ExportRow, workload: &Workload) {
    let features = workload.model.features();
    row.family = Some(workload.model.family_name());
    row.layers = features.layers;
    row.hidden = features.hidden;
    row.sequence = features.sequence;
    row.image = features.image;
    row.parameters_expected = workload.parameters;
    row.flops_per_sample = workload.flops_per_sample;
    let name = match workload.optimizer {
        Optimizer::Sgd { .. } => "sgd",
        Optimizer::Adam { .. } => "adam",
        Optimizer::Adamw { .. } => "adamw",
    };
    row.optimizer = Some(name.into());
    row.optimizer_state_per_parameter = Some(workload.optimizer.state_per_parameter() as u32);
}
