//! A model of planted step times and peaks of memory, as `sched fit` would make it.

use formats::fitted::{FittedRow, FormulaName, Layout, ModelFile, ModelSource};
use jobs::plans::{
    memory::{DeviceMemory, Numbers, states_bytes},
    possible,
};
use model::{
    MemorySetting, Observation, Options, Parts, Placement, Setting, fit, fit_workload, formula, memory::peak,
};
use record::facts::Facts;
use scheduler::rank_memory;
use schema::{
    catalog::{CatalogEntry, Workload},
    plan::Plan,
};

/// Coefficients of the memory, in the order of `model::memory::PARAMETERS`; activations are those of a sample of GPT-2.
pub(super) const COEFFICIENTS: [f64; 13] = [8e8, 0.3, 0.7, 0.6, 0.3, 0.1, 0.2, 1.2, 0.4, 0.1, 0.1, 0.1, 1.0];

/// The facts of a transformer of the catalog of the size of GPT-2.
pub(super) fn facts(workload: &Workload) -> Facts {
    Facts {
        parameters: workload.parameters,
        layers: Some(12),
        sequence: Some(1024),
        hidden: Some(768),
        state_per_parameter: None,
    }
}

pub(super) fn setting(
    facts: Facts,
    global_batch: u32,
    plan: Plan,
    nodes: &[u32],
    cpus: Option<u16>,
) -> Setting {
    Setting { facts, global_batch, plan, placement: Placement::of(nodes), cpus, ranks_per_device: 1 }
}

/// Values of the parameters of the first formula: those that are assumed before a fit to some first times.
fn values(facts: Facts, options: &Options) -> Vec<f64> {
    let time = |(plan, step_s): (&str, f64)| {
        let plan: Plan = plan.parse().expect("canonical");
        Observation::new(setting(facts, 16, plan, &[plan.ranks()], None), step_s)
    };
    let first = [("dp1", 4.0), ("dp2", 2.1), ("dp4", 1.2)].map(time);
    let fit = fit(FormulaName::Tandem, &first, options).expect("there are three configurations");
    fit.priors.iter().map(|prior| prior.mean).collect()
}

/// A model of a transformer on GPUs, fitted to every `nth` plan of up to 4 devices, on one node and on two.
pub(super) fn model(workload: &Workload, global_batch: u32, nth: usize) -> ModelFile {
    let (facts, options) = (facts(workload), Options::new(Parts::A800, 1));
    let values = values(facts, &options);
    let plans = possible(CatalogEntry::Workload(workload), global_batch, 4, DeviceMemory::Own);
    let row = |(plan, nodes): (Plan, Vec<u32>)| {
        let setting = setting(facts, global_batch, plan, &nodes, Some(12));
        formula::applies(FormulaName::Tandem, &setting).ok()?;
        let step_s = formula::step(FormulaName::Tandem, &values, &setting).total;
        let parameters = facts.parameters.expect("the catalog has them");
        let states_bytes = states_bytes(
            parameters,
            workload.optimizer.state_per_parameter(),
            &plan,
            DeviceMemory::Own,
            Numbers::Fp32,
        );
        let peak = peak(&COEFFICIENTS, &MemorySetting { parameters, states_bytes, global_batch, plan });
        Some(FittedRow {
            source: 0,
            global_batch,
            plan,
            placement: nodes,
            cpus: Some(12),
            ranks_per_device: 1,
            step_ns: (step_s * 1e9).round() as u64,
            forward_ns: None,
            synchronised_ns: None,
            updated_ns: None,
            peak_memory_bytes: Some(peak.round() as u64),
            doubtful: false,
            left_out: None,
        })
    };
    let on_nodes = |plan: Plan| {
        let ranks = plan.ranks();
        let halves = (ranks > 1).then(|| (plan, vec![ranks / 2; 2]));
        [Some((plan, vec![ranks])), halves].into_iter().flatten()
    };
    let rows: Vec<FittedRow> = plans.into_iter().step_by(nth).flat_map(on_nodes).filter_map(row).collect();
    let source = ModelSource {
        name: "planted".into(),
        layout: Layout::Run,
        rows: rows.len() as u32,
        memory_bytes: None,
        blake3: "0".repeat(64),
    };
    let mut fitted = fit_workload(&workload.name, facts, rows, 0.3, &options).expect("there are many rows");
    fitted.memory = rank_memory::fit(CatalogEntry::Workload(workload), &fitted, DeviceMemory::Own);
    ModelFile {
        format: ModelFile::FORMAT,
        version: "test".into(),
        seed: 1,
        device_type: "H100".into(),
        is_on_cores: false,
        within_rows: false,
        sources: vec![source],
        workloads: vec![fitted],
        unfit: Vec::new(),
        interference: None,
    }
}
