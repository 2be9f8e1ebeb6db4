//! What is predicted of a run before it: the same trace and the same policy on a simulated cluster.

use std::path::Path;

use anyhow::Context as _;
use schema::{calibration::Calibration, rows::Prediction, sharing::Sharing, units::Nanos};

use super::{Given, scheduling};
use crate::{
    engine,
    journal::Unrecorded,
    policy,
    sim::{self, Measured, MeasuredElseNamed, Named, Sim, SwitchCosts},
};

/// Simulates a run, with what `machine` says of switches. `None` where neither that nor the user tells what a switch costs.
///
/// # Errors
/// What keeps the trace from being simulated, as a step time that its tables do not have.
pub fn predict(given: &Given, machine: Option<&Path>) -> anyhow::Result<Option<Vec<Prediction>>> {
    let scheduling = scheduling(&given.manifest)?;
    let Some(costs) = costs(machine, scheduling.switch_cost_s.map(Nanos::from_secs_f64))? else {
        return Ok(None);
    };
    let every = |seconds: Option<f64>| seconds.map(Nanos::from_secs_f64);
    let settings = sim::Settings {
        seed: given.manifest.seed,
        sharing: Sharing::TimeSlice,
        progress_every: every(scheduling.progress_every_s),
        checkpoint_every: every(scheduling.checkpoint_every_s),
        ..sim::Settings::default()
    };
    let why = "the trace cannot be simulated, so nothing can be predicted of it; leave --machine and --switch-cost out to run it so";
    let mut sim = Sim::new(&given.topology, &given.asked, Box::new(given.table.clone()), &*costs, settings)
        .context(why)?;
    let mut policy = policy::build(&scheduling.policy)?;
    let outcomes = engine::run(&mut given.engine(), &mut sim, &mut *policy, &mut Unrecorded).context(why)?;
    Ok(Some(outcomes.iter().map(Prediction::from).collect()))
}

/// What was measured of switches, and what was named for those of which nothing was; `None` where there is neither.
fn costs(machine: Option<&Path>, named: Option<Nanos>) -> anyhow::Result<Option<Box<dyn SwitchCosts>>> {
    let calibration = machine.map(Calibration::read).transpose()?;
    let measured = calibration.map(|calibration| Measured::new(&[calibration])).transpose()?;
    Ok(match (measured, named.map(Named)) {
        (Some(measured), Some(named)) => Some(Box::new(MeasuredElseNamed(measured, named))),
        (Some(measured), None) => Some(Box::new(measured)),
        (None, Some(named)) => Some(Box::new(named)),
        (None, None) => None,
    })
}
