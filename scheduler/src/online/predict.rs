//! A run in virtual time: what is predicted of one before it, with the same trace and the same policy.

use std::path::Path;

use anyhow::Context as _;
use schema::{
    calibration::Calibration,
    rows::{Outcome, Prediction},
    sharing::Sharing,
    units::Nanos,
};

use super::{RunInputs, scheduling};
use crate::{
    cluster::ClusterError,
    engine,
    journal::{FirstRefusal, Journal, Unrecorded},
    policy,
    sim::{self, Faults, Measured, MeasuredElseNamed, Named, Sim, SwitchCosts},
    testbed::process::WORK_LEFT,
};

/// Simulates a run, with what `machine` says of switches. `None` where neither that nor the user tells what a switch costs.
///
/// # Errors
/// What keeps the trace from being simulated, as a step time that its tables do not have.
pub fn predict(inputs: &RunInputs, machine: Option<&Path>) -> anyhow::Result<Option<Vec<Prediction>>> {
    let named = scheduling(&inputs.manifest)?.switch_cost_s.map(Nanos::from_secs_f64);
    let Some(costs) = costs(machine, named)? else { return Ok(None) };
    let why = "the trace cannot be simulated, so nothing can be predicted of it; leave --machine and --switch-cost out to run it so";
    inputs.check_times().context(why)?;
    let mut unrecorded = Unrecorded;
    let mut refusal = FirstRefusal::new(&mut unrecorded);
    let (outcomes, ended) = simulate(inputs, &*costs, &mut refusal).context(why)?;
    if let Err(error) = ended {
        return Err(anyhow::Error::new(error).context(format!("{why}{}", refusal.told())));
    }
    Ok(Some(outcomes.iter().map(Prediction::from).collect()))
}

/// Runs a trace on the cluster of a run in virtual time: how its jobs fared, and what ended it before all of them had ended.
///
/// # Errors
/// What keeps it from being begun.
pub fn simulate(
    inputs: &RunInputs,
    costs: &dyn SwitchCosts,
    journal: &mut dyn Journal,
) -> anyhow::Result<(Vec<Outcome>, Result<(), ClusterError>)> {
    let scheduling = scheduling(&inputs.manifest)?;
    let simulated = scheduling.simulated.clone().unwrap_or_default();
    let time = |seconds: Option<f64>| seconds.map(Nanos::from_secs_f64);
    let mean_ns = |seconds: f64| seconds * 1e9;
    let settings = sim::Settings {
        seed: inputs.manifest.seed,
        sharing: Sharing::TIME_SLICE,
        noise: simulated.noise_percent / 100.0,
        progress_every: time(scheduling.progress_every_s),
        checkpoint_every: time(scheduling.checkpoint_every_s),
        faults: Faults {
            device_mtbf_ns: simulated.device_up_s.map(mean_ns),
            device_repair_ns: simulated.device_down_s.map_or(0.0, mean_ns),
            launch_mtbf_ns: simulated.launch_up_s.map(mean_ns),
        },
    };
    let mut sim = Sim::new(&inputs.topology, &inputs.asked, Box::new(inputs.table.clone()), costs, settings)?;
    let mut policy = policy::build(&scheduling.policy)?;
    let mut engine = inputs.engine();
    let ended = engine::run(&mut engine, &mut sim, &mut *policy, journal);
    Ok((engine.outcomes(), ended.map(drop)))
}

/// What was measured of switches, and what was named for those of which nothing was; `None` where there is neither.
///
/// # Errors
/// A calibration that cannot be read.
pub fn costs(machine: Option<&Path>, named: Option<Nanos>) -> anyhow::Result<Option<Box<dyn SwitchCosts>>> {
    let calibration = machine.map(Calibration::read).transpose()?;
    let measured = calibration.map(|calibration| Measured::new(&[calibration], WORK_LEFT)).transpose()?;
    Ok(match (measured, named.map(Named)) {
        (Some(measured), Some(named)) => Some(Box::new(MeasuredElseNamed(measured, named))),
        (Some(measured), None) => Some(Box::new(measured)),
        (None, Some(named)) => Some(Box::new(named)),
        (None, None) => None,
    })
}
