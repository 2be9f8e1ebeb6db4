//! The memory of a rank of a workload under any plan, by a model of `sched fit`.

use jobs::plans::memory::{CUDA_CONTEXT_BYTES, DeviceMemory, Numbers, activation_bytes, states_bytes};
use model::{MemoryModel, MemorySetting, memory};
use schema::{
    catalog::Workload,
    fitted::{FittedRow, FittedWorkload, MemoryFit},
    plan::Plan,
    rows::MemorySource,
};

/// Standard deviation of the logarithm of the activations of a sample: by their closed form alone, as what a fit starts from, and
/// where nothing is known.
const DOUBT: f64 = 0.3;
const DOUBT_BEFORE_FIT: f64 = 1.0;
const DOUBT_WITHOUT_FORM: f64 = 3.0;

/// The memory of the ranks of a workload.
#[derive(Clone, Debug)]
pub struct RankMemory<'a> {
    workload: &'a Workload,
    parameters: Option<u64>,
    memory: DeviceMemory,
    rows: &'a [FittedRow],
    model: Option<(MemoryModel, MemorySource)>,
}

/// The peak of the largest rank, with what CUDA itself takes of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peak {
    pub bytes: u64,
    /// The upper end of the 95 % interval.
    pub at_most: u64,
    pub source: MemorySource,
}

/// Fits the memory of a workload to the peaks among its rows. `None` if the catalog and the rows have too little.
pub fn fit(workload: &Workload, fitted: &FittedWorkload, memory: DeviceMemory) -> Option<MemoryFit> {
    let parameters = fitted.facts.parameters.or(workload.parameters)?;
    let rows: Vec<(MemorySetting, u64)> = fitted
        .rows
        .iter()
        .filter_map(|row| {
            let setting = setting(workload, parameters, memory, &row.plan, row.global_batch);
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
    pub fn new(workload: &'a Workload, fitted: &'a FittedWorkload, memory: DeviceMemory) -> RankMemory<'a> {
        let of_fit = fitted.memory.as_ref().and_then(MemoryModel::of_file);
        let assumed = || {
            let activations = activation_bytes(fitted.facts)?;
            let priors = memory::priors(activations, DOUBT, fitted.facts);
            Some((MemoryModel::assumed(priors), MemorySource::Assumed))
        };
        RankMemory {
            workload,
            parameters: fitted.facts.parameters.or(workload.parameters),
            memory,
            rows: &fitted.rows,
            model: of_fit.map(|model| (model, MemorySource::Fitted)).or_else(assumed),
        }
    }

    /// The peak under a plan; `None` if not even the number of parameters is known.
    pub fn peak(&self, plan: &Plan, global_batch: u32) -> Option<Peak> {
        let beside = if self.memory == DeviceMemory::Own { CUDA_CONTEXT_BYTES } else { 0 };
        let is_of = |row: &&FittedRow| row.plan == *plan && row.global_batch == global_batch;
        let measured = self.rows.iter().filter(is_of).filter_map(|row| row.peak_memory_bytes).max();
        if let Some(bytes) = measured {
            let bytes = bytes + beside;
            return Some(Peak { bytes, at_most: bytes, source: MemorySource::Measured });
        }
        let setting = setting(self.workload, self.parameters?, self.memory, plan, global_batch);
        let Some((model, source)) = &self.model else {
            let bytes = setting.states_bytes + beside;
            return Some(Peak { bytes, at_most: bytes, source: MemorySource::States });
        };
        let (bytes, (_, at_most)) = model.predict(&setting);
        Some(Peak { bytes: bytes as u64 + beside, at_most: at_most as u64 + beside, source: *source })
    }
}

fn setting(
    workload: &Workload,
    parameters: u64,
    memory: DeviceMemory,
    plan: &Plan,
    global_batch: u32,
) -> MemorySetting {
    let states_bytes = states_bytes(parameters, &workload.optimizer, plan, memory, Numbers::Fp32);
    MemorySetting { parameters, states_bytes, global_batch, plan: *plan }
}
