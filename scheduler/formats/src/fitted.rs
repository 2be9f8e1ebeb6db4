//! `MODEL.json`: formulas fitted to measured step times, the rows that they were fitted to, and their errors.

use std::path::Path;

use record::facts::Facts;
use schema::{
    files::{RunError, read, read_json_of, write_json},
    plan::Plan,
    words,
};
use serde::{Deserialize, Serialize};

use crate::{covariance, interference_fit::InterferenceFit};

/// The format that this version writes and reads.
const FORMAT: u32 = 1;

words! {
    /// The formulas for the time of a step.
    FormulaName {
        /// All plans: data, tensor and pipeline parallelism, ZeRO, gc, offload, bf16.
        Tandem = "tandem",
        /// Plain data parallelism with batches of every size.
        TandemBatches = "tandem-batches",
        /// Rubick's for data parallelism, ZeRO and offload.
        Rubick = "rubick",
        /// Rubick's for tensor and pipeline parallelism.
        Rubick3d = "rubick-3d",
        /// The seven parameters of Pollux.
        Pollux = "pollux",
    }
}

words! {
    /// How the value of a parameter was found.
    Origin {
        /// The rows determine it.
        Fitted = "fitted",
        /// The rows say little of it, so that it is close to what was assumed before.
        Assumed = "assumed",
        /// It was measured in another way, or follows from the rows, and is not fitted.
        Given = "given",
    }
}

words! {
    /// The layouts of the files that rows come from.
    Layout {
        /// A run of `profile`.
        Run = "run",
        /// A table of `profile export`.
        Export = "export",
        /// Step times of any origin: `job,devices,step_s,..`.
        StepTimes = "step-times",
        /// Pairs of jobs that shared a device, of any origin: `mode,job_a,job_b,..`.
        Pairs = "pairs",
        /// Iteration times of the artifact of Rubick: `exec_plan,placement,iter_time,..`.
        Rubick = "rubick",
        /// Step times of the artifact of Pollux: `placement,local_bsz,step_time,..`.
        Pollux = "pollux",
        /// Parameters of Rubick's formulas, as its artifact publishes them: `model,k_bwd,k_sync,..`.
        RubickParameters = "rubick-parameters",
    }
}

words! {
    /// What a predicted time stands on.
    BasisWord {
        /// The configuration was measured.
        Measured = "measured",
        /// The configuration was measured, and the other rows contradict what was measured. The time is that of a formula.
        Doubtful = "measured, doubtful",
        /// A formula whose parameters the rows determine.
        Formula = "formula",
        /// A formula in which what was assumed before the fit matters.
        Extrapolated = "extrapolated",
        /// A formula with published parameters, without a row of the workload.
        Published = "published",
    }
}

/// `sched predict`: the time of a step, with its 95 % interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictedStep {
    /// The job in full spelling.
    pub job: String,
    pub device_type: String,
    /// Number of devices on each node.
    pub placement: Vec<u32>,
    /// Cores of the host for each rank.
    pub cpus: Option<u16>,
    pub ranks_per_device: u32,
    /// The other jobs on the devices, in full spelling.
    pub with: Vec<String>,
    /// The step time beside them over that alone, which `step_ns` includes.
    pub slowdown: Option<f64>,
    pub step_ns: u64,
    pub step_ns_ci_lo: u64,
    pub step_ns_ci_hi: u64,
    pub samples_per_s: f64,
    pub samples_per_s_ci_lo: f64,
    pub samples_per_s_ci_hi: f64,
    /// What the time alone stands on.
    pub basis: BasisWord,
    /// Absent if the configuration was measured.
    pub formula: Option<FormulaName>,
}

/// Models of the step times of workloads on devices of one type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    pub format: u32,
    /// The program that made the fit.
    pub version: String,
    pub seed: u64,
    /// The type of the devices of all rows.
    pub device_type: String,
    /// Whether the devices are cores of a host, whose memory is the host's.
    #[serde(default)]
    pub is_on_cores: bool,
    /// Whether formulas answer only for the kinds of plans that the rows of a workload have, on as many devices and with as many samples in a
    /// micro-batch as these rows have, from the fewest to the most.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub within_rows: bool,
    pub sources: Vec<ModelSource>,
    pub workloads: Vec<FittedWorkload>,
    /// Configurations that did not fit, and that no row of their workload has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfit: Vec<UnfitRow>,
    /// How much jobs on the same devices slow each other down; absent if it was not fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interference: Option<InterferenceFit>,
}

/// Where rows come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSource {
    /// The last part of the path of the run or the file.
    pub name: String,
    pub layout: Layout,
    /// Number of rows that were fitted to.
    pub rows: u32,
    /// Memory of the smallest device of its rows; absent if it is not known, or is the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The BLAKE3 digest of the file of the rows.
    pub blake3: String,
}

/// The fits of a workload, in the order in which they are asked: the one with the smallest error on rows that others describe as
/// well comes first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedWorkload {
    pub workload: String,
    pub facts: Facts,
    pub rows: Vec<FittedRow>,
    /// How much launches of one configuration differ; absent if none was launched twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launches_differ: Option<LaunchesDiffer>,
    pub fits: Vec<FormulaFit>,
    /// Errors on the held-out configurations of the formulas in the order that the others give, so that the choice has not seen them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_out: Vec<FitErrors>,
    /// The memory of a rank; absent if too few peaks were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryFit>,
}

/// Differences between launches of one configuration, which no prediction of a launch can be better than:
/// `|launch / geometric mean of the other launches - 1|`, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchesDiffer {
    /// Number of launches that others are compared with.
    pub launches: u32,
    pub mean_percent: f64,
    pub p95_percent: f64,
    pub max_percent: f64,
}

impl LaunchesDiffer {
    /// From the times of the launches of each configuration; `None` if none was launched twice. `p95` is that of the nearest rank.
    pub fn of<'a>(configurations: impl IntoIterator<Item = &'a [u64]>) -> Option<LaunchesDiffer> {
        let mut percents = Vec::new();
        for launches in configurations.into_iter().filter(|launches| launches.len() > 1) {
            let total: f64 = launches.iter().map(|ns| (*ns as f64).ln()).sum();
            for ns in launches {
                let log = (*ns as f64).ln();
                let others = (total - log) / (launches.len() - 1) as f64;
                percents.push(100.0 * ((log - others).exp() - 1.0).abs());
            }
        }
        percents.sort_by(f64::total_cmp);
        let count = percents.len() as f64;
        Some(LaunchesDiffer {
            launches: percents.len() as u32,
            mean_percent: percents.iter().sum::<f64>() / count,
            p95_percent: *percents.get(((0.95 * count).ceil() as usize).max(1) - 1)?,
            max_percent: *percents.last()?,
        })
    }
}

/// A row that was fitted to: a configuration of the workload, and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedRow {
    /// The number of its source.
    pub source: u32,
    pub global_batch: u32,
    pub plan: Plan,
    /// Number of devices on each node.
    pub placement: Vec<u32>,
    /// Cores of the host for each rank.
    pub cpus: Option<u16>,
    /// Ranks on each device.
    pub ranks_per_device: u32,
    pub step_ns: u64,
    /// Means of parts of the step, if they were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synchronised_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_ns: Option<u64>,
    /// Peak of tensor memory of the largest rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    /// All other rows contradict it, and nothing is fitted to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub doubtful: bool,
    /// What the first formula predicts of it when its configuration is left out of the fit; absent if the formula does not describe it,
    /// or if too few other configurations are left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOutStep>,
}

/// The time of a step that was predicted of a configuration from all others, with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOutStep {
    pub step_ns: u64,
    pub step_ns_ci_lo: u64,
    pub step_ns_ci_hi: u64,
}

/// A configuration that did not fit into the memory of its devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnfitRow {
    /// The number of its source.
    pub source: u32,
    pub workload: String,
    pub global_batch: u32,
    pub plan: Plan,
    /// Number of devices on each node.
    pub placement: Vec<u32>,
    /// Memory of a device; absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// A formula and its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FormulaFit {
    pub formula: FormulaName,
    /// Number of rows that the formula describes.
    pub rows: u32,
    /// Scale of the residuals of logarithms of times.
    pub scale: f64,
    /// Half of a 95 % interval over the standard deviation, both of the logarithm.
    pub reach: f64,
    pub parameters: Vec<FittedParameter>,
    /// Covariance of the logarithms of the parameters, row by row.
    pub covariance: Vec<Vec<f64>>,
    /// Errors on configurations that were left out of a fit, one after another.
    pub leave_one_out: Vec<FitErrors>,
    /// Errors on a part of the configurations, chosen by the seed, of a fit to the others.
    pub held_out: Vec<FitErrors>,
}

/// Coefficients of the formula for the peak of tensor memory of a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryFit {
    /// Number of rows with a measured peak.
    pub rows: u32,
    /// Scale of the residuals of logarithms of peaks.
    pub scale: f64,
    /// Half of a 95 % interval over the standard deviation, both of the logarithm.
    pub reach: f64,
    pub parameters: Vec<FittedParameter>,
    /// Covariance of the logarithms of the parameters, row by row.
    pub covariance: Vec<Vec<f64>>,
    /// Errors on configurations that were left out of a fit, one after another.
    pub leave_one_out: Vec<FitErrors>,
}

/// A parameter with its 95 % interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedParameter {
    pub name: String,
    pub unit: String,
    pub value: f64,
    pub ci_lo: f64,
    pub ci_hi: f64,
    pub origin: Origin,
    /// Median of what was assumed before the fit, and the standard deviation of its logarithm; 0 if the value is given.
    pub prior: f64,
    pub prior_sd: f64,
}

/// Errors of predictions of rows that were not fitted to: `|predicted / measured - 1|`, in percent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FitErrors {
    /// Family of the plans, or `all`.
    pub plans: String,
    pub rows: u32,
    pub mean_percent: f64,
    pub p95_percent: f64,
    pub max_percent: f64,
    /// Share of the rows that lie in the predicted 95 % interval; absent where the reach of intervals was set by these rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covered_percent: Option<f64>,
}

impl ModelSource {
    /// A source whose rows are in a file with these bytes. Its name is the last part of `path`.
    pub fn new(path: &Path, layout: Layout, rows: usize, bytes: &[u8]) -> ModelSource {
        let name =
            path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into());
        let blake3 = blake3::hash(bytes).to_hex().to_string();
        ModelSource { name, layout, rows: rows as u32, memory_bytes: None, blake3 }
    }
}

impl ModelFile {
    /// The format of new files.
    pub const FORMAT: u32 = FORMAT;

    /// # Errors
    /// The file cannot be read, is torn, is of a newer format, or is no model.
    pub fn read(path: &Path) -> Result<ModelFile, RunError> {
        let remedy = |message: String| RunError::Parse { file: path.into(), message };
        let again = "; fit again with `sched fit`";
        let file: ModelFile = match read_json_of(path, FORMAT) {
            Ok(file) => file.ok_or_else(|| remedy(format!("is of an older format{again}")))?,
            Err(RunError::Parse { message, .. }) => return Err(remedy(format!("{message}{again}"))),
            Err(other) => return Err(other),
        };
        match file.problem() {
            Some(problem) => Err(remedy(format!("{problem}{again}"))),
            None => Ok(file),
        }
    }

    /// The BLAKE3 digest of the file at `path`, by which a change of it is noticed.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn digest(path: &Path) -> Result<String, RunError> {
        Ok(blake3::hash(read(path)?.as_bytes()).to_hex().to_string())
    }

    /// Memory of the smallest device that a row was measured on, where it is known.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.sources.iter().filter_map(|source| source.memory_bytes).min()
    }

    /// Replaces the file at `path` atomically.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), RunError> {
        write_json(path, self)
    }

    /// What is inconsistent, and where.
    fn problem(&self) -> Option<String> {
        for workload in &self.workloads {
            let of = format!("workload '{}'", workload.workload);
            for (number, row) in workload.rows.iter().enumerate() {
                let wrong = if row.step_ns == 0 {
                    "has a step_ns of 0"
                } else if row.placement.iter().sum::<u32>() == 0 || row.ranks_per_device == 0 {
                    "has no devices"
                } else if row.global_batch == 0 {
                    "has no samples"
                } else if row.source as usize >= self.sources.len() {
                    "names a source that the file does not have"
                } else {
                    continue;
                };
                return Some(format!("{of}: row {number} {wrong}"));
            }
            for fit in &workload.fits {
                let of = format!("{of}: formula '{}'", fit.formula);
                if let Some(wrong) = inconsistent(fit.scale, fit.reach, &fit.parameters, &fit.covariance) {
                    return Some(format!("{of}: {wrong}"));
                }
            }
            if let Some(memory) = &workload.memory {
                let wrong = inconsistent(memory.scale, memory.reach, &memory.parameters, &memory.covariance);
                if let Some(wrong) = wrong {
                    return Some(format!("{of}: memory: {wrong}"));
                }
            }
        }
        let has_source = |row: &UnfitRow| (row.source as usize) < self.sources.len();
        if let Some(number) = self.unfit.iter().position(|row| !has_source(row)) {
            return Some(format!("unfit row {number} names a source that the file does not have"));
        }
        self.interference.as_ref().and_then(InterferenceFit::problem)
    }
}

/// What is wrong with the numbers of a fit.
fn inconsistent(
    scale: f64,
    reach: f64,
    parameters: &[FittedParameter],
    covariance: &[Vec<f64>],
) -> Option<String> {
    if let Some(wrong) = covariance::problem(covariance, parameters.len(), "parameters") {
        return Some(wrong);
    }
    let is_positive = |number: f64| number > 0.0 && number.is_finite();
    if !(is_positive(scale) && is_positive(reach)) {
        return Some("scale and reach are not above 0 and finite".into());
    }
    for (index, parameter) in parameters.iter().enumerate() {
        let FittedParameter { name, value, prior, prior_sd, .. } = parameter;
        if !(is_positive(*value) && is_positive(*prior) && (*prior_sd == 0.0 || is_positive(*prior_sd))) {
            return Some(format!("parameter '{name}' is not above 0 and finite"));
        }
        // Rows can only add to what was assumed before the fit.
        let (variance, before) = (covariance[index][index], prior_sd * prior_sd);
        if variance > before * (1.0 + 1e-6) {
            return Some(format!(
                "parameter '{name}' has a variance of {variance} after the fit, and {before} was assumed before it"
            ));
        }
    }
    None
}
