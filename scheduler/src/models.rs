//! The models of a run: the truth of its simulation, and what its policy believes.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use engine::topology::Topology;
use formats::fitted::ModelFile;
use model::{
    BeliefError, FittedModel, HostDrift, InTurns, KnownOrFitted, PackingClasses, PredictRequest, Prediction,
    Spread, Throughput, switch_costs::StartsAndExits,
};
use record::{
    manifest::{Manifest, SizeOfError},
    rows::Warnings,
};

use crate::inputs;

/// What a policy believes and what a simulated cluster does.
pub struct Models {
    belief: Layers,
    /// The truth of a simulation. That of a run on devices is the machine, and its prediction takes the belief without its error.
    pub truth: Box<dyn Throughput>,
    /// The drift of the machine that the truth was measured on.
    pub drift: HostDrift,
    /// The starts and exits of jobs in the tables that the truth was measured in.
    pub starts_and_exits: StartsAndExits,
    /// The programs in these tables that have durations in place of steps.
    pub programs_without_steps: BTreeSet<String>,
}

/// The tables and fitted models of a run.
#[derive(Clone, Copy)]
pub struct ModelFiles<'a> {
    pub tables: &'a [PathBuf],
    pub fitted: &'a [PathBuf],
}

impl Models {
    /// Builds the models that a manifest names from the files of the run.
    ///
    /// # Errors
    /// Fails if a table is no run of `profile`, if a file cannot be read, and if a fitted model is of a type of device that the
    /// cluster does not have, and the manifest does not say that it answers for all types.
    pub fn new(manifest: &Manifest, topology: &Topology, files: ModelFiles<'_>) -> anyhow::Result<Models> {
        let of = manifest.scheduling.as_ref();
        let simulated = of.and_then(|of| of.simulated.as_ref());
        let any_device = of.is_some_and(|of| of.any_device);
        let fitted = files
            .fitted
            .iter()
            .map(|path| fitted(path, topology, any_device))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let known = |tables: &Option<Vec<u32>>, numbers: &[u32]| -> anyhow::Result<KnownOrFitted> {
            let named: Option<Vec<PathBuf>> = tables.as_ref().map(|numbers| among(files.tables, numbers));
            let table = inputs::table(named.as_deref().unwrap_or(files.tables))?;
            Ok(KnownOrFitted { table, fitted: among(&fitted, numbers) })
        };
        let belief = known(of.map_or(&None, |of| &of.model), of.map_or(&[][..], |of| &of.fitted_model))?;
        let truth = match simulated {
            Some(simulated) => known(&simulated.truth, &simulated.fitted_truth)?,
            None => belief.clone(),
        };
        let threads = of.and(manifest.settings.threads);
        let layers = |known| Layers {
            known,
            threads: threads.map(|threads| u16::try_from(threads).unwrap_or(u16::MAX)),
            spread_slowdown: of.and_then(|of| of.spread_slowdown),
            error: None,
        };
        let error = of.and_then(|of| of.belief_error).map(|size| (size, manifest.seed));
        Ok(Models {
            belief: Layers { error, ..layers(belief) },
            drift: truth.table.host_drift(),
            starts_and_exits: truth.table.starts_and_exits().clone(),
            programs_without_steps: truth.table.programs_without_steps().map(str::to_owned).collect(),
            truth: layers(truth).build(),
        })
    }

    /// The classes of jobs that the policy believes. `None` if no model has slowdowns.
    pub fn classes(&self) -> Option<&dyn PackingClasses> {
        let known = &self.belief.known;
        known.fitted.iter().any(|model| model.interference().is_some()).then_some(known)
    }

    /// What the policy believes at the start of a run. Each engine has its own, because it may learn.
    pub fn belief(&self) -> Box<dyn Throughput> {
        self.belief.clone().build()
    }
}

fn among<T: Clone>(all: &[T], numbers: &[u32]) -> Vec<T> {
    numbers.iter().filter_map(|number| all.get(*number as usize).cloned()).collect()
}

fn fitted(path: &Path, topology: &Topology, any_device: bool) -> anyhow::Result<FittedModel> {
    let model = FittedModel::new(&ModelFile::read(path)?).with_context(|| path.display().to_string())?;
    let mut types: Vec<&str> = topology.nodes().iter().map(|node| &*node.device_type).collect();
    types.dedup();
    if any_device {
        return Ok(model.for_all_devices());
    }
    if !types.contains(&model.device_type()) {
        bail!(
            "{}: was fitted to devices of type '{}', and those of the cluster are of type '{}'; fit a model to rows of these, or add \
             --any-device to take it for them",
            path.display(),
            model.device_type(),
            types.join("', '")
        );
    }
    Ok(model)
}

/// What a model is made of, the innermost first.
#[derive(Clone)]
struct Layers {
    known: KnownOrFitted,
    /// Number of threads of launches, unless the policy chose another.
    threads: Option<u16>,
    spread_slowdown: Option<f64>,
    /// The size of the errors, and their seed.
    error: Option<(SizeOfError, u64)>,
}

impl Layers {
    fn build(self) -> Box<dyn Throughput> {
        let mut model: Box<dyn Throughput> = Box::new(self.known);
        if let Some(threads) = self.threads {
            model = Box::new(WithThreads { model, threads });
        }
        model = Box::new(InTurns { model });
        if let Some(slowdown) = self.spread_slowdown {
            model = Box::new(Spread { model, slowdown });
        }
        if let Some((SizeOfError { sigma, bias }, seed)) = self.error {
            model = Box::new(BeliefError { model, sigma, bias, seed });
        }
        model
    }
}

/// A model of launches that have this number of threads unless the policy chose another.
struct WithThreads {
    model: Box<dyn Throughput>,
    threads: u16,
}

impl WithThreads {
    fn asked<'a>(&self, question: &PredictRequest<'a>) -> PredictRequest<'a> {
        PredictRequest { cpus: question.cpus.or(Some(self.threads)), ..*question }
    }
}

impl Throughput for WithThreads {
    fn predict(&self, question: &PredictRequest<'_>) -> Option<Prediction> {
        self.model.predict(&self.asked(question))
    }

    fn warnings(&self, question: &PredictRequest<'_>) -> Warnings {
        self.model.warnings(&self.asked(question))
    }

    fn peak_memory_bytes(&self, question: &PredictRequest<'_>) -> Option<u64> {
        self.model.peak_memory_bytes(&self.asked(question))
    }

    fn minds_neighbours(&self) -> bool {
        self.model.minds_neighbours()
    }

    fn observe(&mut self, question: &PredictRequest<'_>, step_ns: f64) -> bool {
        let asked = self.asked(question);
        self.model.observe(&asked, step_ns)
    }

    fn version(&self) -> Option<u64> {
        self.model.version()
    }
}
