//! Predicts a run by a simulation with the same trace and the same policy.

use anyhow::Context as _;
use cli::agree::Consent;
use engine::{
    Engine,
    cluster::ClusterError,
    journal::{FirstRefusal, Journal, Unrecorded},
};
use formats::rows::{DecisionTimes, Draw, Outcome, Prediction};
use launches::simulated::{self, Exact, Faults, ProgressModel, SimulatedLauncher};
use model::Throughput;
use record::{
    manifest::Scheduling,
    rows::{self},
    run_dir::RunDir,
};
use schema::units::Nanos;

use super::{
    draws::Draws,
    fair_times::FairTimes,
    run_inputs::{RunInputs, scheduling},
};
use crate::{policy, policy::Timed};

/// The predictions of a run, and its draws if there are any.
pub struct Predicted {
    pub predictions: Vec<Prediction>,
    pub draws: Vec<Draw>,
}

impl Predicted {
    /// Writes the files of a prediction to the directory of a run.
    ///
    /// # Errors
    /// Fails if a file cannot be written.
    pub fn write(&self, run: &RunDir) -> anyhow::Result<()> {
        rows::write(&run.predictions_path(), &self.predictions)?;
        if !self.draws.is_empty() {
            rows::write(&run.draws_path(), &self.draws)?;
        }
        Ok(())
    }
}

/// Predicts the outcomes of a run, with intervals from a number of draws if that is given. Returns `None` if the costs of switches
/// are not known.
///
/// # Errors
/// Fails if the trace cannot be simulated, for example because a step time is not known.
pub fn predict(
    inputs: &RunInputs,
    draws: Option<u32>,
    consent: &Consent,
) -> anyhow::Result<Option<Predicted>> {
    if inputs.costs.is_none() {
        return Ok(None);
    }
    let why = "the trace cannot be simulated to predict it; to run it without a prediction, remove --machine and --switch-cost";
    inputs.check_times().with_context(|| inputs.files()).context(why)?;
    let mut unrecorded = Unrecorded;
    let mut refusal = FirstRefusal::new(&mut unrecorded);
    let Simulated { jobs, ended, .. } = simulate(inputs, &mut refusal, consent).context(why)?;
    if let Err(error) = ended {
        let told = format!("{why}{}{}", refusal.told(), inputs.measure_first());
        return Err(anyhow::Error::new(error).context(told));
    }
    let draws = draws.map(|count| Draws::new(inputs, count, consent)).transpose()?.unwrap_or_default();
    Ok(Some(predicted(inputs, jobs.outcomes(), &draws)))
}

/// The predictions that follow from simulated outcomes and from draws.
pub fn predicted(inputs: &RunInputs, outcomes: impl Iterator<Item = Outcome>, draws: &Draws) -> Predicted {
    let mut predictions: Vec<Prediction> = outcomes.map(|row| Prediction::from(&row)).collect();
    inputs.add_basis(&mut predictions);
    draws.add_intervals(&mut predictions);
    Predicted { predictions, draws: draws.rows.clone() }
}

/// The random parts of a simulation.
pub(super) struct Chance<'a> {
    pub(super) seed: u64,
    pub(super) truth: &'a dyn Throughput,
    pub(super) course: Box<dyn ProgressModel + 'a>,
}

/// The result of a simulation.
pub struct Simulated<'a> {
    pub jobs: SimulatedJobs<'a>,
    /// The error that ended it early, if any.
    pub ended: Result<(), ClusterError>,
    /// `None` if the policy was never asked.
    pub decision_times: Option<DecisionTimes>,
}

/// The jobs at the end of a simulation.
pub struct SimulatedJobs<'a> {
    inputs: &'a RunInputs,
    engine: Engine<'a>,
}

impl SimulatedJobs<'_> {
    /// The outcomes of all jobs, in the order of the trace. Each is made when it is asked for: those of a million jobs would take half
    /// a gigabyte.
    pub fn outcomes(&self) -> impl Iterator<Item = Outcome> {
        let mut fair_times = FairTimes::new(self.inputs, &self.engine);
        self.engine.outcomes().map(move |row| fair_times.add_to(row))
    }

    /// The outcomes without the times of jobs alone and on a fair share, which take a question to the model for each kind of job.
    pub(super) fn outcomes_without_fair_times(&self) -> impl Iterator<Item = Outcome> {
        self.engine.outcomes()
    }
}

/// Simulates the trace of a run on its cluster.
///
/// # Errors
/// Fails if the costs of switches are not known, or the simulation cannot begin.
pub fn simulate<'a>(
    inputs: &'a RunInputs,
    journal: &mut dyn Journal,
    consent: &Consent,
) -> anyhow::Result<Simulated<'a>> {
    let (seed, truth) = (inputs.manifest.seed, &*inputs.models.truth);
    simulate_with(inputs, Chance { seed, truth, course: Box::new(Exact) }, journal, consent)
}

pub(super) fn simulate_with<'a>(
    inputs: &'a RunInputs,
    chance: Chance<'_>,
    journal: &mut dyn Journal,
    consent: &Consent,
) -> anyhow::Result<Simulated<'a>> {
    let costs = inputs.costs.as_ref().context("the costs of switches are not known")?;
    let scheduling = scheduling(&inputs.manifest)?;
    let settings = settings(scheduling, chance.seed);
    let truth = Box::new(chance.truth);
    let launcher = SimulatedLauncher::new(&inputs.topology, &inputs.asked, truth, costs, settings);
    let launcher = launcher.with_context(|| inputs.files())?.on_course(chance.course);
    let mut policy = Timed::new(policy::build(&scheduling.policy, consent)?);
    let mut engine = inputs.engine();
    let ended = engine.run(&mut launcher.into_cluster(), &mut policy, journal).map_err(|error| match error {
        ClusterError::Other(error) => ClusterError::Other(error.context(inputs.files())),
        error => error,
    });
    Ok(Simulated { jobs: SimulatedJobs { inputs, engine }, ended, decision_times: policy.times() })
}

/// The settings of the simulation of a run.
pub(super) fn settings(scheduling: &Scheduling, seed: u64) -> simulated::Settings {
    let simulated = scheduling.simulated.clone().unwrap_or_default();
    let time = |seconds: Option<f64>| seconds.map(Nanos::from_secs_f64);
    let mean_ns = |seconds: f64| seconds * 1e9;
    simulated::Settings {
        seed,
        sharing: scheduling.sharing.clone(),
        suspension: scheduling.suspension,
        noise: simulated.noise_percent / 100.0,
        refuses_endless: true,
        progress_every: time(scheduling.progress_every_s),
        checkpoint_every: time(scheduling.checkpoint_every_s),
        faults: Faults {
            device_mtbf_ns: simulated.device_up_s.map(mean_ns),
            device_repair_ns: simulated.device_down_s.map_or(0.0, mean_ns),
            launch_mtbf_ns: simulated.launch_up_s.map(mean_ns),
        },
    }
}
