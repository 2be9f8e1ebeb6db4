//! The memory of a rank of a workload or a program under any plan, by a model of `sched fit`.

use formats::{
    fitted::{FittedRow, FittedWorkload, MemoryFit, ModelFile, UnfitRow},
    rows::MemorySource,
};
use jobs::plans::memory::{CUDA_CONTEXT_BYTES, DeviceMemory, Numbers, activation_bytes, states_bytes};
use model::{MemoryModel, MemorySetting, memory};
use record::facts::Facts;
use schema::{catalog::CatalogEntry, plan::Plan};

use crate::measured;

/// Standard deviation of the logarithm of the activations of a sample: by their closed form alone, as what a fit starts from, and
/// where nothing is known.
const DOUBT: f64 = 0.3;
const DOUBT_BEFORE_FIT: f64 = 1.0;
const DOUBT_WITHOUT_FORM: f64 = 3.0;

/// The memory of the ranks of a workload or a program.
#[derive(Clone, Debug)]
pub struct RankMemory<'a> {
    name: &'a str,
    states: Option<ModelStates>,
    memory: DeviceMemory,
    rows: &'a [FittedRow],
    model: Option<(MemoryModel, MemorySource)>,
    /// Memory of the devices of each source of the rows, where it is known.
    sources: Vec<Option<u64>>,
    /// For each memory of devices, the most that a row on them needed by the estimate.
    ran: Vec<Ran>,
    unfit: Vec<Unfit>,
}

/// What a model keeps between two steps, without its buffers.
#[derive(Clone, Copy, Debug)]
pub struct ModelStates {
    parameters: u64,
    per_parameter: u64,
}

/// Rows that ran on devices of this memory.
#[derive(Clone, Copy, Debug)]
struct Ran {
    memory_bytes: u64,
    /// The most that one of them needs, by the estimate.
    estimate_bytes: u64,
}

/// A configuration that did not fit.
#[derive(Clone, Copy, Debug)]
struct Unfit {
    plan: Plan,
    global_batch: u32,
    /// Memory of its devices, if known.
    memory_bytes: Option<u64>,
    /// What it needs by the estimate; `None` if that is not known.
    estimate_bytes: Option<u64>,
}

/// The peak of the largest rank, with what CUDA itself takes of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    pub bytes: u64,
    /// The upper end of the 95 % interval. [`u64::MAX`] if the plan did not fit on devices whose memory is not known.
    pub at_most: u64,
    pub source: MemorySource,
}

impl ModelStates {
    /// The model states of a workload or a program, by what was measured of it, or else by its definition. `None` if the number of its parameters
    /// or the state of its optimizer is not known.
    pub fn from_entry(entry: CatalogEntry<'_>, measured: Facts) -> Option<ModelStates> {
        let facts = measured::known_of(measured, measured::facts(Some(entry)));
        let per_parameter = facts.state_per_parameter?.into();
        Some(ModelStates { parameters: facts.parameters?, per_parameter })
    }

    /// The least that a rank holds under a plan, in bytes.
    pub fn bytes(&self, plan: &Plan, memory: DeviceMemory) -> u64 {
        states_bytes(self.parameters, self.per_parameter, plan, memory, Numbers::Fp32)
    }
}

/// Fits the memory of a workload or a program to the peaks among its rows. `None` if the catalog and the rows have too little.
pub fn fit(entry: CatalogEntry<'_>, fitted: &FittedWorkload, memory: DeviceMemory) -> Option<MemoryFit> {
    let states = ModelStates::from_entry(entry, fitted.facts)?;
    let rows: Vec<(MemorySetting, u64)> = fitted
        .rows
        .iter()
        .filter_map(|row| {
            let setting = setting(states, memory, &row.plan, row.global_batch);
            Some((setting, row.peak_memory_bytes?))
        })
        .collect();
    // Half of the largest peak of a micro-batch, if nothing else is known.
    let of_micro_batch = |(setting, bytes): &(MemorySetting, u64)| {
        let divisor = f64::from(setting.plan.batch_divisor());
        0.5 * *bytes as f64 * divisor / f64::from(setting.global_batch)
    };
    let (activations, doubt) = match activation_bytes(fitted.facts) {
        Some(bytes) => (bytes, DOUBT_BEFORE_FIT),
        None => (rows.iter().map(of_micro_batch).fold(1.0, f64::max), DOUBT_WITHOUT_FORM),
    };
    memory::fit(&rows, memory::priors(activations, doubt, fitted.facts))
}

impl<'a> RankMemory<'a> {
    /// The memory by what was fitted, or else by what is usual for a model with such facts, or else the model states alone.
    pub fn new(entry: CatalogEntry<'a>, fitted: &'a FittedWorkload, memory: DeviceMemory) -> RankMemory<'a> {
        let of_fit = fitted.memory.as_ref().and_then(MemoryModel::of_file);
        let assumed = || {
            let activations = activation_bytes(fitted.facts)?;
            let priors = memory::priors(activations, DOUBT, fitted.facts);
            Some((MemoryModel::assumed(priors), MemorySource::Assumed))
        };
        RankMemory {
            name: entry.name(),
            states: ModelStates::from_entry(entry, fitted.facts),
            memory,
            rows: &fitted.rows,
            model: of_fit.map(|model| (model, MemorySource::Fitted)).or_else(assumed),
            sources: Vec::new(),
            ran: Vec::new(),
            unfit: Vec::new(),
        }
    }

    /// The same, which also knows what ran and what did not fit when the rows of `file` were measured.
    #[must_use]
    pub fn with_outcomes(mut self, file: &ModelFile) -> RankMemory<'a> {
        self.sources = file.sources.iter().map(|source| source.memory_bytes).collect();
        let estimate = |memory: &RankMemory<'_>, plan: &Plan, global_batch| {
            memory.estimate(plan, global_batch).map(|peak| peak.bytes)
        };
        let mut ran: Vec<Ran> = Vec::new();
        for row in self.rows {
            let memory_bytes = self.memory_of(row.source);
            let Some((memory_bytes, estimate_bytes)) =
                memory_bytes.zip(estimate(&self, &row.plan, row.global_batch))
            else {
                continue;
            };
            match ran.iter_mut().find(|ran| ran.memory_bytes == memory_bytes) {
                Some(ran) => ran.estimate_bytes = ran.estimate_bytes.max(estimate_bytes),
                None => ran.push(Ran { memory_bytes, estimate_bytes }),
            }
        }
        let unfit = |row: &UnfitRow| Unfit {
            plan: row.plan,
            global_batch: row.global_batch,
            memory_bytes: row.memory_bytes,
            estimate_bytes: estimate(&self, &row.plan, row.global_batch),
        };
        let is_of_workload = |row: &&UnfitRow| row.workload == self.name;
        let unfit = file.unfit.iter().filter(is_of_workload).map(unfit).collect();
        RankMemory { ran, unfit, ..self }
    }

    /// Memory of the devices of a source.
    fn memory_of(&self, source: u32) -> Option<u64> {
        self.sources.get(source as usize).copied().flatten()
    }

    /// The peak under a plan; `None` if it was not measured and the model states are not known. What ran fits on devices of the memory that it
    /// ran on, and so does what needs at most as much by the estimate. What did not fit needs more than its devices have, and so does
    /// what needs at least as much at the same batch.
    pub fn peak(&self, plan: &Plan, global_batch: u32) -> Option<Peak> {
        let beside = if self.memory == DeviceMemory::Own { CUDA_CONTEXT_BYTES } else { 0 };
        let is_of = |row: &&FittedRow| row.plan == *plan && row.global_batch == global_batch;
        let ran_on = self.rows.iter().filter(is_of).filter_map(|row| self.memory_of(row.source)).min();
        let measured = self.rows.iter().filter(is_of).filter_map(|row| row.peak_memory_bytes).max();
        if let Some(bytes) = measured {
            let bytes = (bytes + beside).min(ran_on.unwrap_or(u64::MAX));
            return Some(Peak { bytes, at_most: bytes, source: MemorySource::Measured });
        }
        let estimate = self.estimate(plan, global_batch);
        if let Some(memory_bytes) = ran_on {
            return estimate.map(|estimate| estimate.capped(memory_bytes));
        }
        let refuted = self.unfit.iter().filter(|unfit| unfit.implies(plan, global_batch, estimate));
        let above = |unfit: &Unfit| unfit.memory_bytes.map_or(u64::MAX, |bytes| bytes + 1);
        if let Some(above) = refuted.map(above).max() {
            let estimate = estimate.map_or((0, 0), |estimate| (estimate.bytes, estimate.at_most));
            let least = if above == u64::MAX { 0 } else { above };
            let (bytes, at_most) = (estimate.0.max(least), estimate.1.max(above));
            return Some(Peak { bytes, at_most, source: MemorySource::Unfit });
        }
        let estimate = estimate?;
        let needs_more = self.ran.iter().filter(|ran| estimate.bytes <= ran.estimate_bytes);
        let cap = needs_more.map(|ran| ran.memory_bytes).filter(|bytes| *bytes < estimate.at_most).min();
        Some(cap.map_or(estimate, |memory_bytes| estimate.capped(memory_bytes)))
    }

    /// The peak under a plan by the formula; `None` if the model states are not known.
    fn estimate(&self, plan: &Plan, global_batch: u32) -> Option<Peak> {
        let beside = if self.memory == DeviceMemory::Own { CUDA_CONTEXT_BYTES } else { 0 };
        let setting = setting(self.states?, self.memory, plan, global_batch);
        let Some((model, source)) = &self.model else {
            let bytes = setting.states_bytes + beside;
            return Some(Peak { bytes, at_most: bytes, source: MemorySource::States });
        };
        let (bytes, (_, at_most)) = model.predict(&setting);
        Some(Peak { bytes: bytes as u64 + beside, at_most: at_most as u64 + beside, source: *source })
    }
}

impl Peak {
    /// The same for a plan that fits into this memory.
    fn capped(self, memory_bytes: u64) -> Peak {
        let (bytes, at_most) = (self.bytes.min(memory_bytes), self.at_most.min(memory_bytes));
        Peak { bytes, at_most, source: MemorySource::Ran }
    }
}

impl Unfit {
    /// Whether a plan with this estimate does not fit on such devices, either.
    fn implies(&self, plan: &Plan, global_batch: u32, estimate: Option<Peak>) -> bool {
        let needs_as_much =
            || estimate.zip(self.estimate_bytes).is_some_and(|(peak, unfit)| peak.bytes >= unfit);
        self.global_batch == global_batch && (self.plan == *plan || needs_as_much())
    }
}

fn setting(states: ModelStates, memory: DeviceMemory, plan: &Plan, global_batch: u32) -> MemorySetting {
    let states_bytes = states.bytes(plan, memory);
    MemorySetting { parameters: states.parameters, states_bytes, global_batch, plan: *plan }
}
