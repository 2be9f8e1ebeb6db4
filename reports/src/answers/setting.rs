//! What runs of one trace must have in common, so that only their policies differ.

use record::manifest::{FastForward, Scheduling, Simulated, SwitchCostFrom};

use crate::{
    run::{Run, RunKind},
    scheduled::place,
};

/// Runs with one setting, in the order of the report.
pub(super) struct RunsOfSetting<'a> {
    /// `Measured`, or with its place among several settings.
    pub name: String,
    pub is_measured: bool,
    pub runs: Vec<&'a Run>,
    setting: Setting,
}

/// The cluster, and what it does to jobs under any policy. Placement, sharing and the tables of a policy's model are choices of the
/// policy.
#[derive(PartialEq)]
struct Setting {
    kind: RunKind,
    place: String,
    threads: Option<u32>,
    host_cores: Option<u32>,
    checkpoint_every_s: Option<f64>,
    retries: Option<u32>,
    fast_forward: Option<FastForward>,
    simulation: Option<Simulation>,
}

/// The inputs of a simulation: on devices, costs and times are measured.
#[derive(PartialEq)]
struct Simulation {
    /// Without the numbers of files, which may differ between runs with the same files.
    cluster: Simulated,
    /// Draws of failures and noise differ between seeds.
    seed: u64,
    switch_costs: [Option<f64>; 3],
    switch_cost_from: Vec<SwitchCostFrom>,
    spread_slowdown: Option<f64>,
    /// The digests of the calibration and of the tables and models that give the true times.
    files: Vec<Option<String>>,
}

/// The runs by their settings.
pub(super) fn by_setting<'a>(runs: &[&'a Run]) -> Vec<RunsOfSetting<'a>> {
    let mut settings: Vec<RunsOfSetting> = Vec::new();
    for run in runs {
        let setting = setting(run);
        match settings.iter_mut().find(|of| of.setting == setting) {
            Some(of) => of.runs.push(run),
            None => settings.push(RunsOfSetting {
                name: String::new(),
                is_measured: setting.kind == RunKind::Scheduled,
                runs: vec![run],
                setting,
            }),
        }
    }
    settings.sort_by_key(|of| of.setting.kind);
    let names: Vec<String> = settings.iter().map(|of| name(of, &settings)).collect();
    for (of, name) in settings.iter_mut().zip(names) {
        of.name = name;
    }
    settings
}

/// A name that no other setting has: with the devices, or the first run if settings differ in something else.
fn name(of: &RunsOfSetting, settings: &[RunsOfSetting]) -> String {
    let kind = if of.is_measured { "Measured" } else { "Simulated" };
    let alike = || settings.iter().filter(|other| other.setting.kind == of.setting.kind);
    let at_place = alike().filter(|other| other.setting.place == of.setting.place).count();
    match (alike().count(), at_place) {
        (1, _) => kind.into(),
        (_, 1) if of.is_measured => format!("{kind} on {}", of.setting.place),
        _ => format!("{kind} in the setting of {}", of.runs[0].name),
    }
}

fn setting(run: &Run) -> Setting {
    let scheduling = run.manifest.scheduling.as_ref();
    Setting {
        kind: run.kind(),
        place: place(run),
        threads: run.manifest.settings.threads,
        host_cores: scheduling.and_then(|of| of.host_cores),
        checkpoint_every_s: scheduling.and_then(|of| of.checkpoint_every_s),
        retries: scheduling.map(|of| of.retries),
        fast_forward: scheduling.and_then(|of| of.fast_forward),
        simulation: scheduling
            .and_then(|scheduling| Some(simulation(run, scheduling, scheduling.simulated.as_ref()?))),
    }
}

fn simulation(run: &Run, scheduling: &Scheduling, simulated: &Simulated) -> Simulation {
    let digest = |path: std::path::PathBuf| {
        std::fs::read(path).ok().map(|bytes| blake3::hash(&bytes).to_hex().to_string())
    };
    let all = || (0..scheduling.tables).collect();
    let tables: Vec<u32> = simulated.truth.clone().unwrap_or_else(all);
    let tables = tables.into_iter().map(|number| run.dir.table(number));
    let tables = tables.flat_map(|table| [digest(table.summary_path()), digest(table.interference_path())]);
    let fitted = simulated
        .fitted_truth
        .iter()
        .map(|&number| scheduling.fitted.get(number as usize).map(|file| file.blake3.clone()));
    Simulation {
        cluster: Simulated { truth: None, fitted_truth: Vec::new(), ..simulated.clone() },
        seed: run.manifest.seed,
        switch_costs: [scheduling.switch_cost_s, scheduling.resume_cost_s, scheduling.start_cost_s],
        switch_cost_from: scheduling.switch_cost_from.clone(),
        spread_slowdown: scheduling.spread_slowdown,
        files: tables.chain(fitted).chain([digest(run.dir.calibration_path())]).collect(),
    }
}
