//! Predicts a run by a simulation with the same trace and the same policy.

use anyhow::Context as _;
use schema::{
    rows::{Outcome, Prediction},
    units::Nanos,
};

use super::run_inputs::{RunInputs, scheduling};
use crate::{
    cluster::ClusterError,
    engine,
    journal::{FirstRefusal, Journal, Unrecorded},
    policy,
    sim::{self, Faults, Sim},
};

/// Predicts the outcomes of a run. Returns `None` if the costs of switches are not known.
///
/// # Errors
/// Fails if the trace cannot be simulated, for example because a step time is not known.
pub fn predict(inputs: &RunInputs) -> anyhow::Result<Option<Vec<Prediction>>> {
    if inputs.costs.is_none() {
        return Ok(None);
    }
    let why = "the trace cannot be simulated to predict it; to run it without a prediction, remove --machine and --switch-cost";
    inputs.check_times().context(why)?;
    let mut unrecorded = Unrecorded;
    let mut refusal = FirstRefusal::new(&mut unrecorded);
    let (outcomes, ended) = simulate(inputs, &mut refusal).context(why)?;
    if let Err(error) = ended {
        let told = format!("{why}{}{}", refusal.told(), inputs.measure_first());
        return Err(anyhow::Error::new(error).context(told));
    }
    let mut predictions: Vec<Prediction> = outcomes.iter().map(Prediction::from).collect();
    inputs.add_warnings(&mut predictions);
    Ok(Some(predictions))
}

/// Simulates the trace of a run on its cluster. Returns the outcomes, and the error that ended the simulation early, if any.
///
/// # Errors
/// Fails if the costs of switches are not known, or the simulation cannot begin.
pub fn simulate(
    inputs: &RunInputs,
    journal: &mut dyn Journal,
) -> anyhow::Result<(Vec<Outcome>, Result<(), ClusterError>)> {
    let costs = inputs.costs.as_deref().context("the costs of switches are not known")?;
    let scheduling = scheduling(&inputs.manifest)?;
    let simulated = scheduling.simulated.clone().unwrap_or_default();
    let time = |seconds: Option<f64>| seconds.map(Nanos::from_secs_f64);
    let mean_ns = |seconds: f64| seconds * 1e9;
    let settings = sim::Settings {
        seed: inputs.manifest.seed,
        sharing: scheduling.sharing.clone(),
        noise: simulated.noise_percent / 100.0,
        progress_every: time(scheduling.progress_every_s),
        checkpoint_every: time(scheduling.checkpoint_every_s),
        faults: Faults {
            device_mtbf_ns: simulated.device_up_s.map(mean_ns),
            device_repair_ns: simulated.device_down_s.map_or(0.0, mean_ns),
            launch_mtbf_ns: simulated.launch_up_s.map(mean_ns),
        },
    };
    let mut sim =
        Sim::new(&inputs.topology, &inputs.asked, Box::new(&*inputs.models.truth), costs, settings)?;
    let mut policy = policy::build(&scheduling.policy)?;
    let mut engine = inputs.engine();
    let ended = engine::run(&mut engine, &mut sim, &mut *policy, journal);
    Ok((engine.outcomes(), ended.map(drop)))
}
