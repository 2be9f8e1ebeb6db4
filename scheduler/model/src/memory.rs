//! The peak of tensor memory of the largest rank of a job.
//!
//! A step has two moments that can be the highest: the end of a forward pass, with all activations, and a backward pass, with all
//! gradients. With W the bytes of all parameters in fp32, S the model states of a rank between steps and G its gradients, both times
//! `1 + stage (p - 1)` for the largest of p stages and s16 under bf16, and m samples of a micro-batch:
//!
//! ```text
//! act  = sample m f16 (1 + whole (t - 1)) / t                  activations under tensor parallelism; f16 under bf16
//! fwd  = min(p, A) act (1 + uneven (p - 1)) / p kept + held    of A micro-batches, at most p are in flight; kept under gc
//! bwd  = G + work act + bucket G (ZeRO) + G / d (zero2 and 3, A > 1)
//! held = G (A > p), G / d under zero2 and 3, else hold G (d > 1, no ZeRO): gradients that stay during a forward pass
//! peak = base W + S + max(fwd, bwd) + gather G (d - 1) / d (zero3; a fifth of it under gc) + cast F / 2 (bf16; F is G in fp32)
//! ```
//!
//! The terms are those of ZeRO (Rajbhandari et al., SC 2020) and of activations under tensor and pipeline parallelism (Korthikanti
//! et al., MLSys 2023); the shares are fitted, because allocators, buffers and uneven stages are not in a closed form.

mod fit;

use formats::fitted::{FittedParameter, MemoryFit, Origin};
use nalgebra::{SMatrix, SVector};
use num_dual::{DualNum, DualSVec64};
use record::facts::Facts;
use schema::plan::{Plan, Precision};

pub use fit::fit;

use crate::{
    formula::{Parameter, overlapped, parameter},
    priors::Prior,
};

const COUNT: usize = 13;

pub const PARAMETERS: [Parameter; COUNT] = [
    parameter("sample", "B", "activations of a sample on one device"),
    parameter("kept", "", "share of the activations that is kept under gc"),
    parameter("f16", "", "activations in bf16 over those in fp32"),
    parameter("hold", "", "share of the gradients that data-parallel ranks hold between steps"),
    parameter("bucket", "", "buckets of ZeRO over the gradients"),
    parameter("base", "", "buffers, samples and workspaces over all parameters"),
    parameter("whole", "", "share of the activations that tensor-parallel ranks do not divide"),
    parameter("gather", "", "gathered parameters under zero3 over those that other ranks have"),
    parameter("cast", "", "copies in bf16 over all of them"),
    parameter("uneven", "", "share of the activations that stages do not divide"),
    parameter("work", "", "activations of a backward pass at a time over those of a forward pass"),
    parameter("stage", "", "share of the parameters that stages do not divide"),
    parameter("s16", "", "states and gradients in bf16 over those in fp32"),
];

/// Sharpness of the maximum of two moments, which is smooth so that it has derivatives.
const SHARPNESS: f64 = 32.0;

type Parameters = SVector<f64, COUNT>;
type Dual = DualSVec64<COUNT>;

/// What the memory of a rank depends on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemorySetting {
    /// Trainable parameters of the whole model.
    pub parameters: u64,
    /// Model states of a rank between two steps, if stages have the same.
    pub states_bytes: u64,
    pub global_batch: u32,
    pub plan: Plan,
}

/// The memory of a workload, fitted or assumed.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryModel {
    pub priors: Vec<Prior>,
    logarithms: Parameters,
    covariance: SMatrix<f64, COUNT, COUNT>,
    scale: f64,
    reach: f64,
    /// Number of measured peaks that it was fitted to; 0 if it is assumed.
    pub rows: usize,
}

/// What is known before a fit. `activation_bytes` are those of a sample, as a closed form or the data suggest, and `doubt` the
/// standard deviation of their logarithm.
pub fn priors(activation_bytes: f64, doubt: f64, facts: Facts) -> Vec<Prior> {
    let p = |mean, sd| Prior { mean, sd };
    // Under gc the input of each layer and the activations of one are kept.
    let layers = facts.layers.map_or(4.0, f64::from);
    vec![
        p(activation_bytes, doubt),
        p(0.05 + 1.0 / layers, 0.7),
        p(0.75, 0.3),
        p(0.5, 0.7),
        p(0.3, 0.7),
        p(0.05, 1.5),
        p(0.2, 0.7),
        p(1.2, 0.5),
        p(0.4, 0.7),
        p(0.1, 1.0),
        p(0.8 / layers, 0.7),
        p(0.1, 1.0),
        // Masters stay in fp32, or else have half of the bytes.
        p(1.0, 0.3),
    ]
}

impl MemoryModel {
    /// The memory by priors alone, for a workload of which nothing was measured.
    pub fn assumed(priors: Vec<Prior>) -> MemoryModel {
        let mut model = MemoryModel::at(priors, Parameters::zeros());
        for (index, prior) in model.priors.iter().enumerate() {
            model.logarithms[index] = prior.mean.ln();
            model.covariance[(index, index)] = prior.sd * prior.sd;
        }
        model
    }

    fn at(priors: Vec<Prior>, logarithms: Parameters) -> MemoryModel {
        MemoryModel { priors, logarithms, covariance: SMatrix::zeros(), scale: 0.05, reach: 1.96, rows: 0 }
    }

    /// The peak of the largest rank in bytes, and its 95 % interval.
    pub fn predict(&self, setting: &MemorySetting) -> (f64, (f64, f64)) {
        let (log, derivatives) = log_peak(&self.logarithms, setting);
        let half = self.reach * self.variance(&derivatives).sqrt();
        (log.exp(), ((log - half).exp(), (log + half).exp()))
    }

    /// Variance of the logarithm of a peak with these derivatives.
    fn variance(&self, derivatives: &Parameters) -> f64 {
        derivatives.dot(&(self.covariance * derivatives)).max(0.0) + self.scale * self.scale
    }

    /// The model as a file has it, without its errors.
    fn to_file(&self) -> MemoryFit {
        let parameter = |(index, parameter): (usize, &Parameter)| {
            let deviation = self.covariance[(index, index)].max(0.0).sqrt();
            let log = self.logarithms[index];
            let prior = self.priors[index];
            FittedParameter {
                name: parameter.name.into(),
                unit: parameter.unit.into(),
                value: log.exp(),
                ci_lo: (log - 1.96 * deviation).exp(),
                ci_hi: (log + 1.96 * deviation).exp(),
                origin: if crate::fit::says_little(deviation, prior.sd) {
                    Origin::Assumed
                } else {
                    Origin::Fitted
                },
                prior: prior.mean,
                prior_sd: prior.sd,
            }
        };
        let row = |row: usize| (0..COUNT).map(|column| self.covariance[(row, column)]).collect();
        MemoryFit {
            rows: self.rows as u32,
            scale: self.scale,
            reach: self.reach,
            parameters: PARAMETERS.iter().enumerate().map(parameter).collect(),
            covariance: (0..COUNT).map(row).collect(),
            leave_one_out: Vec::new(),
        }
    }

    /// The model of a file; `None` if it has other parameters. In a file without the last one, `s16`, it is 1.
    pub fn of_file(file: &MemoryFit) -> Option<MemoryModel> {
        let names: Vec<&str> = file.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        let known = PARAMETERS.map(|parameter| parameter.name);
        if names != known && names != known[..COUNT - 1] {
            return None;
        }
        let prior = |parameter: &FittedParameter| Prior { mean: parameter.prior, sd: parameter.prior_sd };
        let mut priors: Vec<Prior> = file.parameters.iter().map(prior).collect();
        priors.resize(COUNT, Prior::given(1.0));
        let is_known = |index: usize| index < names.len();
        Some(MemoryModel {
            priors,
            logarithms: Parameters::from_fn(|row, _| {
                if is_known(row) { file.parameters[row].value.ln() } else { 0.0 }
            }),
            covariance: SMatrix::from_fn(|row, column| {
                if is_known(row) && is_known(column) { file.covariance[row][column] } else { 0.0 }
            }),
            scale: file.scale,
            reach: file.reach,
            rows: file.rows as usize,
        })
    }
}

/// The logarithm of the peak, and its derivatives by the logarithms of the parameters.
fn log_peak(logarithms: &Parameters, setting: &MemorySetting) -> (f64, Parameters) {
    let values: [Dual; COUNT] =
        std::array::from_fn(|index| Dual::from_re(logarithms[index]).derivative(index).exp());
    let log = peak(&values, setting).ln();
    (log.re, log.eps.unwrap_generic(nalgebra::Const, nalgebra::Const))
}

/// The peak in bytes, with parameters in the order of [`PARAMETERS`].
pub fn peak<D: DualNum<f64> + Copy>(values: &[D; COUNT], setting: &MemorySetting) -> D {
    let &[sample, kept, f16, hold, bucket, base, whole, gather, cast, uneven, work, stage, s16] = values;
    let Plan { dp, tp, pp, zero, ga, gc, precision, .. } = setting.plan;
    let [data, tensor, stages, micro_batches] = [dp, tp, pp, ga].map(f64::from);
    let is_bf16 = precision == Precision::Bf16;
    let none = D::from(0.0);

    let all = 4.0 * setting.parameters as f64;
    let of_stage = stage * (stages - 1.0) + 1.0;
    let in_fp32 = of_stage * (all / (tensor * stages));
    let mut states = of_stage * setting.states_bytes as f64;
    let mut gradients = in_fp32;
    if is_bf16 {
        states *= s16;
        gradients *= s16;
    }
    // Gradients of the parameters that a rank updates.
    let owned = if zero >= 2 { gradients / data } else { gradients };

    let mut activations = sample * (f64::from(setting.global_batch) / (data * micro_batches));
    if is_bf16 {
        activations *= f16;
    }
    activations *= (whole * (tensor - 1.0) + 1.0) / tensor;

    let mut forward = activations * ((uneven * (stages - 1.0) + 1.0) / stages) * stages.min(micro_batches);
    if gc {
        forward *= kept;
    }
    if ga > pp {
        forward += owned;
    } else if dp > 1 && zero == 0 {
        forward += hold * gradients;
    }
    let mut backward = gradients + work * activations;
    if zero > 0 {
        backward += bucket * gradients;
    }
    if zero >= 2 && ga > 1 {
        backward += owned;
    }
    let gathered = if zero == 3 { gather * gradients * ((data - 1.0) / data) } else { none };
    let gathered = if gc { gathered * 0.2 } else { gathered };
    let casts = if is_bf16 { cast * in_fp32 * 0.5 } else { none };
    base * all + states + overlapped(forward, backward, D::from(SHARPNESS)) + gathered + casts
}
