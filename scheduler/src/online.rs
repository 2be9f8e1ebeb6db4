//! A run on the testbed, from its directory to its last file.
//!
//! All inputs of a run are copied into its directory before it starts, so that a run is resumed in the same way as it is begun: the
//! journal is replayed, which restores the state of the engine and the policy, and then the run continues on the devices.

mod cluster_memory;
mod doubts;
mod draws;
mod fair_times;
mod first;
mod first_difference;
mod forward;
mod hindsight;
mod lacking;
mod lengths;
mod machine_speed;
mod predict;
mod run_inputs;
mod time_line;
mod true_plans;
mod world;

use std::{cell::RefCell, collections::BTreeMap, fs, path::Path, rc::Rc};

use anyhow::{Context as _, ensure};
use cli::agree::{self, Consent};
use colocate::sharing::backend;
use engine::{
    Engine,
    cluster::{Action, ClusterError, ClusterEvent, DeviceId, JobId},
    job::{Ending, Phase, State},
    replay::replay,
};
use formats::{
    decision::{self, Turn},
    rows::{DecisionTimes, Outcome, Part, Prediction, Skip, skipped_ns},
};
use jobs::{
    machine,
    plans::Estimates,
    run::{self, Observed},
};
use launches::{ResumePoint, fast_forward::FastForward, recorded::Recorded};
use record::{
    manifest::Manifest,
    rows::{self, Appender, Status},
    run_dir::RunDir,
    suspension::Suspension,
};
use rig::{Exit, Rig, cuda_checkpoint, interrupt::Interrupt, output, programs};
use schema::{device::Device, units::Nanos};
use testbed::{
    checkpoints::Checkpoints,
    process::{ProcessLauncher, TestbedSetup},
    recovery::{Recovered, WasPlaced, unrecorded},
};

pub use self::{
    doubts::doubts,
    draws::Draws,
    forward::Forwarded,
    hindsight::hindsight,
    machine_speed::machine_speed,
    predict::{Simulated, predict, predicted, simulate},
    run_inputs::{InputFiles, RunInputs, by_type, cluster, scheduling},
};
use self::{fair_times::FairTimes, machine_speed::SpeedWatch, time_line::DrawnNames, world::World};
use crate::{decisions::Decisions, live::Live, policy, policy::Timed};

/// The result of a run.
pub struct Ended {
    pub outcomes: Vec<Outcome>,
    /// Present if the run was fast-forwarded.
    pub forwarded: Option<Forwarded>,
    pub exit: Exit,
    /// Of the decisions since the run began or was resumed. `None` if there was none.
    pub decision_times: Option<DecisionTimes>,
}

/// Begins or resumes the run of a directory, and runs it to its end.
///
/// # Errors
/// Fails before anything starts if a file is invalid, the user does not agree to start a program of the run, the policy decides otherwise than its journal says, or the machine lacks
/// something. Fails later if the run cannot go on; outcomes are written in this case, too.
pub fn conduct(run: &RunDir, consent: &Consent) -> anyhow::Result<Ended> {
    let observed = Observed::from_now();
    let _lock = run::lock(run)?;
    let inputs = RunInputs::read(run)?;
    agree::programs_of(&inputs.manifest).try_for_each(|program| consent.check(&program))?;
    let scheduling = scheduling(&inputs.manifest)?.clone();
    ensure!(scheduling.simulated.is_none(), "{} was simulated; begin it again", run.path().display());
    let (asked, cells) = (inputs.asked.len(), inputs.manifest.cells.len());
    ensure!(
        asked == cells,
        "{}: it has {asked} jobs, and the run was begun with {cells}; put it back, or begin a new run",
        run.arrivals_path().display()
    );
    let devices: Vec<Device> = inputs.manifest.devices.iter().map(|facts| facts.device.clone()).collect();
    probe(&inputs.manifest)?;

    // Files that are needed only at the end of the run, or to resume it, are checked now rather than after hours.
    run::check_data(inputs.manifest.settings.data.as_deref())?;
    let predicted = read_predictions(run)?;

    let mut engine = inputs.engine();
    let mut policy = policy::build(&scheduling.policy, consent)?;
    let turns = match run.decisions_path() {
        path if path.is_file() => Some(decision::read(&path)?),
        _ => None,
    };
    ensure_whole(run, turns.as_deref())?;
    let turns = turns.unwrap_or_default();
    replay(&mut engine, &mut *policy, &turns).context("the run cannot go on as it began")?;
    let mut checkpoints = Checkpoints::open(run, inputs.asked.len() as u32)?;
    let skips: Vec<Skip> = rows::read_appended(&run.skips_path())?;
    let resume = resume_point(run, &inputs, &engine, (&checkpoints, &skips), &turns)?;
    // A scheduler that died may not have removed the checkpoints of jobs that are not started again.
    for (id, job) in (0..).map(JobId).zip(engine.view().jobs) {
        let is_over = match &job.state {
            State::Ended { how, .. } => matches!(how, Ending::Finished | Ending::ByPolicy),
            State::Placed(placed) => placed.phase == Phase::Ending,
            State::Waiting { .. } => false,
        };
        if is_over {
            checkpoints.forget(id);
        }
    }

    let footprints = run.footprints()?.map(|known| known.measured).unwrap_or_default();
    let every = |seconds: Option<f64>| seconds.map(Nanos::from_secs_f64);
    let setup = TestbedSetup {
        run: run.clone(),
        manifest: inputs.manifest.clone(),
        catalog: inputs.catalog.clone(),
        devices,
        asked: inputs.asked.clone(),
        sharing: scheduling.sharing.clone(),
        suspension: scheduling.suspension,
        checkpoint_every: every(scheduling.checkpoint_every_s),
        keeps_steps: scheduling.fast_forward.is_some(),
        checkpoints,
        estimates: Estimates::of_run(&inputs.manifest, footprints),
        rig: Rig::new(programs::all()?)?,
        sampler: run::start_sampler(run, &inputs.manifest)?,
        interrupt: Interrupt::listen().context("cannot install the signal handlers")?,
    };
    let launcher = ProcessLauncher::new(setup)?;
    let mut parts = Appender::<Part>::open(&run.parts_path())?;
    parts.push(&[part(&turns, resume.at)])?;
    let (at, jumps, skips) = (resume.at, forward::next_jump(&skips), Rc::new(RefCell::new(skips)));
    let mut journal = SpeedWatch {
        inputs: &inputs,
        recorded: Recorded::new(&turns),
        skips: Rc::clone(&skips),
        has_warned: false,
        journal: Live::new(Decisions::open(&run.decisions_path())?, &inputs.topology),
    };
    let mut policy = Timed::new(policy);
    let world = World {
        engine: &mut engine,
        policy: &mut policy,
        journal: &mut journal,
        asked: &inputs.asked,
        progress_every: every(scheduling.progress_every_s),
        resume,
    };
    let (launcher, waited, ended) = match scheduling.fast_forward {
        Some(rule) => {
            let log = forward::log(run, &inputs.asked, Rc::clone(&skips))?;
            let (launcher, ended) = world.run(FastForward::new(launcher, rule, at, jumps, log));
            let (launcher, waited) = launcher.into_parts();
            (launcher, Some(waited), ended)
        }
        None => {
            let (launcher, ended) = world.run(launcher);
            (launcher, None, ended)
        }
    };
    let SpeedWatch { recorded, .. } = journal;
    let closed = launcher.close();
    let mut fair_times = FairTimes::new(&inputs, &engine);
    let outcome = |row: Outcome| Outcome {
        predicted_jct_ns: predicted.get(&row.job).copied().flatten(),
        ..fair_times.add_to(row)
    };
    let mut outcomes: Vec<Outcome> = engine.outcomes().map(outcome).collect();
    let skips = skips.take();
    let forwarded = waited.map(|waited| forward::add_skipped(run, &skips, waited, &mut outcomes)).transpose();
    let written = rows::write(&run.outcomes_path(), &outcomes)
        .and_then(|()| rows::write(&run.speed_path(), &machine_speed(&inputs, &recorded, &skips)))
        .map_err(anyhow::Error::from);
    let written = written.and_then(|()| Ok((forwarded?, closed?)));
    let written = written.and_then(|written| Ok(run.sync_appended().map(|()| written)?));
    let exit = match (&ended, &written) {
        (Err(ClusterError::Other(error)), _) | (_, Err(error)) => Exit::of(error),
        (Err(ClusterError::Interrupted), _) => Exit::Interrupted,
        (Ok(_), _) if outcomes.iter().all(|row| row.status.is_as_meant()) => Exit::Ok,
        _ => Exit::SomeFailed,
    };
    let has_not_ended = |row: &&Outcome| row.end_ns.is_none() && row.status == Status::Failed;
    let missing = outcomes.iter().filter(has_not_ended).map(|row| row.name.clone()).collect();
    let cost = written.as_ref().map(|(_, cost)| *cost).unwrap_or_default();
    run::write_end(run, exit, missing, observed, cost)?;
    draw_time_line(run, &inputs, &outcomes);
    match ended {
        Ok(_) | Err(ClusterError::Interrupted) => {
            let decision_times = policy.times();
            written.map(|(forwarded, _)| Ended { outcomes, forwarded, exit, decision_times })
        }
        Err(error @ ClusterError::Stuck { .. }) => Err(Exit::SomeFailed.because(error.to_string())),
        Err(ClusterError::Other(error)) => Err(error),
        Err(error @ ClusterError::Nothing) => Err(error.into()),
    }
}

/// Writes `trace.json`. A picture that cannot be written leaves the result of the run as it is.
fn draw_time_line(run: &RunDir, inputs: &RunInputs, outcomes: &[Outcome]) {
    let names = DrawnNames {
        jobs: inputs.asked.iter().map(|job| job.name.clone()).collect(),
        devices: inputs.manifest.devices.iter().map(|facts| facts.device.to_string()).collect(),
    };
    if let Err(error) = time_line::write(run, &names, outcomes) {
        let path = run.trace_path();
        output::note(format_args!("warning: {} cannot be written: {error:#}", path.display()));
    }
}

/// Checks that jobs can share the devices of a run in its sharing mode, and be suspended there in its way.
///
/// # Errors
/// Fails if the machine lacks what the mode or the way needs.
pub fn probe(manifest: &Manifest) -> anyhow::Result<()> {
    let devices: Vec<Device> = manifest.devices.iter().map(|facts| facts.device.clone()).collect();
    let scheduling = scheduling(manifest)?;
    if scheduling.suspension == Suspension::CudaCheckpoint {
        let why_not = |why| Exit::MachineLacks.because(format!("--suspend {}: {why}", scheduling.suspension));
        cuda_checkpoint::check(&devices).map_err(why_not)?;
    }
    backend(&scheduling.sharing, &devices).probe().map_err(|why| Exit::MachineLacks.because(why))
}

/// The state from which a run is resumed after these turns. Its time is that of the last sign of life. Jobs that were on devices
/// have left them, and lost devices are back, because all devices have been opened anew.
fn resume_point(
    run: &RunDir,
    inputs: &RunInputs,
    engine: &Engine<'_>,
    (checkpoints, skips): (&Checkpoints, &[Skip]),
    turns: &[Turn],
) -> anyhow::Result<ResumePoint> {
    let view = engine.view();
    let started = || (0..).map(JobId).zip(view.jobs).filter(|(_, job)| job.account.starts > 0);
    let placed: Vec<_> = started()
        .filter(|(_, job)| matches!(job.state, State::Placed(_)))
        .map(|(id, job)| (id, job, &inputs.asked[id.0 as usize]))
        .map(|(id, job, request)| WasPlaced {
            job: id,
            asked: request.steps.filter(|_| request.part_ns.is_none()),
            parts: request.part_ns.and(request.steps),
            told: job.steps,
            start: job.account.starts - 1,
            started_at: started_at(turns, id),
        })
        .collect();
    let starts: BTreeMap<JobId, u32> = started().map(|(id, job)| (id, job.account.starts)).collect();
    for launch in unrecorded(run, &inputs.manifest, &starts)? {
        output::note(format_args!(
            "warning: {launch} was started, and the scheduler ended before it had recorded this; what the launch did since its \
             last checkpoint is done again"
        ));
    }
    let recovered = Recovered::read(run, &inputs.manifest, (checkpoints, skips), &placed)?;
    let parts: Vec<Part> = rows::read_appended(&run.parts_path())?;
    let said = parts.last().zip(recovered.last_word_mono_ns).map(|(part, word)| {
        let of_part = skips.partition_point(|row| row.from_ns < part.at_ns);
        let skipped = Nanos(skipped_ns(&skips[of_part..]));
        Nanos(part.at_ns) + word.saturating_sub(Nanos(part.mono_ns)) + skipped
    });
    let decided = turns.last().map(|turn| turn.at_ns);
    // The scheduler may have died before anything was said after its last jump.
    let jumped = skips.last().map(|row| Nanos(row.until_ns));
    let devices = (0..inputs.topology.devices()).map(DeviceId);
    let back = devices.filter(|device| view.occupancy.is_lost(*device));
    let events = turns.iter().flat_map(|turn| &turn.events);
    let arrived = events.filter(|happened| matches!(happened, ClusterEvent::Arrived { .. })).count();
    Ok(ResumePoint {
        at: said.max(decided).max(jumped).unwrap_or_default(),
        arrived,
        starts,
        left: recovered
            .fates
            .into_iter()
            .chain(back.map(|device| ClusterEvent::DeviceBack { device }))
            .collect(),
    })
}

/// When the policy last started a job.
fn started_at(turns: &[Turn], id: JobId) -> Nanos {
    let starts = |action: &Action| matches!(action, Action::Start { job, .. } if *job == id);
    let last = turns.iter().rev().find(|turn| turn.actions.iter().any(starts));
    last.map(|turn| turn.at_ns).unwrap_or_default()
}

/// The boot in which the run was last continued, or else begun; `None` if it is unknown.
///
/// # Errors
/// `parts.csv` cannot be read.
pub fn last_boot(run: &RunDir, manifest: &Manifest) -> anyhow::Result<Option<String>> {
    let parts: Vec<Part> = rows::read_appended(&run.parts_path())?;
    let last = parts.into_iter().next_back().and_then(|part| part.boot_id);
    Ok(last.or_else(|| manifest.machine.boot_id.clone()))
}

fn part(turns: &[Turn], at: Nanos) -> Part {
    Part {
        turns: turns.len() as u64,
        at_ns: at.0,
        mono_ns: Nanos::monotonic_now().0,
        began_utc: run::utc_now(),
        boot_id: machine::boot_id(),
    }
}

/// Checks that the journal has all turns of the run. A run that is resumed without them would train finished jobs again and replace
/// their outcomes.
///
/// # Errors
/// Fails if turns are missing.
fn ensure_whole(run: &RunDir, turns: Option<&[Turn]>) -> anyhow::Result<()> {
    let parts: Vec<Part> = rows::read_appended(&run.parts_path())?;
    let decided = parts.iter().map(|part| part.turns).max().unwrap_or_default();
    let journal = run.decisions_path();
    let remedy = "put it back, or begin a new run";
    if let Some(turns) = turns {
        ensure!(
            turns.len() as u64 >= decided,
            "{}: it ends after {} turns, but parts.csv says that there were {decided}; {remedy}",
            journal.display(),
            turns.len()
        );
        return Ok(());
    }
    // The journal is made before the first launch.
    let has_begun = decided > 0 || run.outcomes_path().is_file() || !run.launches()?.is_empty();
    ensure!(
        !has_begun,
        "{}: it is missing, and jobs of this run were started; the run cannot go on without it; {remedy}",
        journal.display()
    );
    Ok(())
}

/// The predicted completion time of each job. Empty if the run has no predictions.
fn read_predictions(run: &RunDir) -> anyhow::Result<BTreeMap<JobId, Option<u64>>> {
    if !run.predictions_path().is_file() {
        return Ok(BTreeMap::new());
    }
    let predictions: Vec<Prediction> = rows::read(&run.predictions_path())?;
    Ok(predictions.iter().map(|row| (row.job, row.jct_ns)).collect())
}

/// Copies the inputs into the directory of a run, so that it can be resumed and replayed without the originals.
///
/// # Errors
/// Fails if a file cannot be copied.
pub fn keep_inputs(run: &RunDir, files: &InputFiles<'_>) -> anyhow::Result<()> {
    let InputFiles { trace, catalogs, models, history, machine, .. } = *files;
    let copy = |from: &Path, to: &Path| {
        fs::copy(from, to)
            .map(drop)
            .with_context(|| format!("{} cannot be copied to {}", from.display(), to.display()))
    };
    let folder = run.inputs_path();
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    copy(trace, &run.arrivals_path())?;
    history.map_or(Ok(()), |history| copy(history, &run.history_path()))?;
    machine.map_or(Ok(()), |machine| copy(machine, &run.calibration_path()))?;
    for (path, number) in catalogs.iter().zip(0..) {
        copy(path, &run.catalog_path(number))?;
    }
    for (path, number) in models.fitted.iter().zip(0..) {
        copy(path, &run.fitted_path(number))?;
    }
    for (path, number) in models.tables.iter().zip(0..) {
        let (from, to) = (RunDir::open(path)?, run.table(number));
        fs::create_dir_all(to.path()).with_context(|| to.path().display().to_string())?;
        copy(&from.manifest_path(), &to.manifest_path())?;
        copy(&from.summary_path(), &to.summary_path())?;
        if from.interference_path().is_file() {
            copy(&from.interference_path(), &to.interference_path())?;
        }
    }
    Ok(())
}
