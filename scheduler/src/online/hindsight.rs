//! A run simulated again with what was measured in it.

use anyhow::{Context as _, bail, ensure};
use cli::agree::Consent;
use formats::{
    decision::{self, Action, ClusterEvent, JobId, Turn},
    rows::{DecisionDifference, MachineSpeed, Outcome, Skip},
};
use launches::recorded::Recorded;
use record::{
    rows::{self},
    run_dir::RunDir,
};

use super::{
    first_difference::DecisionsOfJobs,
    machine_speed::machine_speed,
    predict::{Chance, simulate_with},
    run_inputs::RunInputs,
};
use crate::hindsight::Hindsight;

/// A run that was simulated again.
pub struct SimulatedAgain {
    /// The outcomes of the simulation.
    pub outcomes: Vec<Outcome>,
    /// The speed of the machine over the run.
    pub speed: Vec<MachineSpeed>,
    /// The first decision of the simulation that is not that of the run.
    pub first_difference: Option<DecisionDifference>,
}

/// Simulates a run again with the step times of each launch and the duration of each switch in its journal.
///
/// # Errors
/// Fails if the run has no journal, if its journal is not one of its jobs and devices, if it could not be predicted, and if a launch
/// failed in it, which a simulation does not repeat. Fails if the user does not agree to start its policy, if that is a program.
pub fn hindsight(run: &RunDir, consent: &Consent) -> anyhow::Result<SimulatedAgain> {
    let inputs = RunInputs::read(run)?;
    let turns = decision::read(&run.decisions_path())?;
    check_fits(&inputs, &turns).with_context(|| run.decisions_path().display().to_string())?;
    let recorded = Recorded::new(&turns);
    let failures = recorded.failures;
    ensure!(
        failures == 0,
        "{}: {failures} launches failed or devices were lost in it, which hindsight does not repeat",
        run.path().display()
    );
    let skips: Vec<Skip> = rows::read_appended(&run.skips_path())?;
    let speed = machine_speed(&inputs, &recorded, &skips);
    let truth = &*inputs.models.truth;
    let course = Box::new(Hindsight::new(recorded));
    let chance = Chance { seed: inputs.manifest.seed, truth, course };
    let why = || format!("{} cannot be simulated again", run.path().display());
    let mut decided = DecisionsOfJobs::default();
    let simulated = simulate_with(&inputs, chance, &mut decided, consent).with_context(why)?;
    simulated.ended.with_context(why)?;
    let outcomes = simulated.jobs.outcomes().collect();
    let name = |job: JobId| inputs.asked[job.0 as usize].name.to_string();
    let first_difference = DecisionsOfJobs::new(&turns).first_difference(&decided, name);
    Ok(SimulatedAgain { outcomes, speed, first_difference })
}

/// Checks that a journal names only jobs and devices of its run.
///
/// # Errors
/// It is the journal of another run.
fn check_fits(inputs: &RunInputs, turns: &[Turn]) -> anyhow::Result<()> {
    let (jobs, devices) = (inputs.asked.len(), inputs.topology.devices());
    for (turn, line) in turns.iter().zip(1..) {
        let named =
            turn.events.iter().filter_map(ClusterEvent::job).chain(turn.actions.iter().map(Action::job));
        if let Some(other) = named.into_iter().find(|job| job.0 as usize >= jobs) {
            bail!("line {line}: there is no job {}, as the trace of the run has {jobs} jobs", other.0);
        }
        let of_events = turn.events.iter().filter_map(|happened| match happened {
            ClusterEvent::DeviceLost { device } | ClusterEvent::DeviceBack { device } => Some(device),
            _ => None,
        });
        let of_actions = turn.actions.iter().flat_map(|action| match action {
            Action::Start { devices, .. } => &devices[..],
            _ => &[],
        });
        if let Some(other) = of_events.chain(of_actions).find(|device| device.0 >= devices) {
            bail!(
                "line {line}: there is no device {}, as the cluster of the run has {devices} devices",
                other.0
            );
        }
    }
    Ok(())
}
