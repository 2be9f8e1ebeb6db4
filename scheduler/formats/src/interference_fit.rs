//! The part of `MODEL.json` about jobs that share devices: how much they slow each other down, and which of them are packed.

use schema::{plan::Plan, sharing::Sharing, words};
use serde::{Deserialize, Serialize};

use crate::{covariance, fitted::ModelSource};

words! {
    /// What a prediction of a slowdown is made by.
    SlowdownEstimator {
        /// The fitted model.
        Model = "model",
        /// The geometric mean of the slowdowns in groups of the same size.
        Constant = "constant",
        /// The sum of the shares of time in which the members are busy alone, or 1 if that is less.
        Utilisations = "utilisations",
        /// The slowdown in the other blocks of the same group: no prediction of a block can be better.
        OtherBlocks = "other-blocks",
    }
}

words! {
    /// The part of the rows that is left out of a fit and then predicted.
    LeftOutPart {
        /// All groups with a workload, one workload after another.
        Workload = "workload",
        /// All groups with a workload but those with a stressor, one workload after another: its sensitivity to stressors is known.
        BesideOthers = "beside-others",
        /// One group after another.
        Group = "group",
        /// One block after another.
        Block = "block",
    }
}

words! {
    /// How much a job is slowed down by others on its devices.
    PackingClass {
        /// Hardly at all.
        Tiny = "tiny",
        Medium = "medium",
        /// Much. A job of which nothing is known is of this class.
        Jumbo = "jumbo",
    }
}

words! {
    /// What is measured of a job alone.
    AloneFeature {
        /// The share of time in which its device is busy.
        Busy = "busy",
        /// The CPU time of its processes over the time.
        Host = "host",
        /// The share of time in which its device's memory transfers data.
        Traffic = "traffic",
        /// The logarithm of the time of a step in seconds.
        Step = "step",
        /// The logarithm of 1 plus the peak of its tensor memory in MiB.
        Memory = "memory",
    }
}

impl AloneFeature {
    /// A value as people read it, with its unit: those of logarithms are shown without them.
    pub fn shown(self, value: f64) -> String {
        match self {
            AloneFeature::Busy | AloneFeature::Host | AloneFeature::Traffic => format!("{value:.2}"),
            AloneFeature::Step => format!("{:.2} ms", 1e3 * value.exp()),
            AloneFeature::Memory => format!("{:.2} MiB", value.exp_m1()),
        }
    }
}

impl PackingClass {
    /// The sharing score: 0, 1 or 2. Lucid packs two jobs if the sum of their scores is 2 or less.
    pub fn score(self) -> u32 {
        match self {
            PackingClass::Tiny => 0,
            PackingClass::Medium => 1,
            PackingClass::Jumbo => 2,
        }
    }
}

/// Models of the slowdowns of jobs that share devices of one type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterferenceFit {
    pub sources: Vec<ModelSource>,
    /// What the jobs do alone. Other parts name jobs by their places in this list.
    pub jobs: Vec<JobAlone>,
    /// One for each sharing mode.
    pub modes: Vec<ModeFit>,
    /// The classes of jobs; absent if they were measured in no pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<ClassesFit>,
}

/// What was measured of a job alone on its devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobAlone {
    /// The workload, or the name of a command.
    pub workload: String,
    pub global_batch: Option<u32>,
    pub plan: Option<Plan>,
    /// What workloads have in common that are variants of one model. They share effects, and are left out together. Absent for the workload
    /// itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// Absent if it is not known, like the values below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_ns: Option<u64>,
    /// From 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// In cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<f64>,
    /// From 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
}

impl JobAlone {
    /// What it shares effects with.
    pub fn family(&self) -> &str {
        self.family.as_deref().unwrap_or(&self.workload)
    }
}

/// The model of one sharing mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModeFit {
    pub sharing: Sharing,
    /// The largest number of jobs in a group. The model does not answer for larger ones.
    pub largest_group: u32,
    /// Whether predictions start from the slowdown of a fair share of the device. They start from 1 if the utilisation of a job is unknown.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub begins_at_fair_share: bool,
    pub measured: Vec<MeasuredSlowdown>,
    pub terms: Vec<InterferenceTerm>,
    /// What each family of workloads bears more than the terms say, and then what each does to others more than they say: what it adds to
    /// the logarithm of a slowdown.
    pub victims: Vec<WorkloadEffect>,
    pub aggressors: Vec<WorkloadEffect>,
    /// What each workload bears where the device is free whenever it needs it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub burdens: Vec<WorkloadEffect>,
    /// What each workload does to others where the device is free whenever they need it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<WorkloadEffect>,
    /// What single jobs bear and do more than their families, where a family has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub victim_jobs: Vec<WorkloadEffect>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggressor_jobs: Vec<WorkloadEffect>,
    /// Covariance of the coefficients: of terms and effects in the order of this file, row by row.
    pub covariance: Vec<Vec<f64>>,
    /// Standard deviations of the effects, and of residuals.
    pub victim_sd: f64,
    pub aggressor_sd: f64,
    #[serde(default)]
    pub burden_sd: f64,
    #[serde(default)]
    pub disturbance_sd: f64,
    #[serde(default)]
    pub victim_job_sd: f64,
    #[serde(default)]
    pub aggressor_job_sd: f64,
    pub residual_sd: f64,
    /// Half of a 95 % interval over the standard deviation, both of the logarithm: if a member has no effect, and if all have one.
    pub reach: f64,
    pub reach_of_known: f64,
    /// The same for each class of contention; without them, those above are of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reaches: Vec<ContentionReach>,
    pub errors: Vec<SlowdownErrors>,
    /// The errors of the model on families of workloads that were left out, for each class of contention.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors_by_contention: Vec<SlowdownErrors>,
}

words! {
    /// How much of its time a job loses by a fair share of the device.
    ContentionClass {
        /// Less than a tenth.
        Light = "light",
        /// Less than a third.
        Medium = "medium",
        Heavy = "heavy",
    }
}

impl ContentionClass {
    /// The class of a share of time that is lost.
    pub fn of_lost_share(lost: f64) -> ContentionClass {
        match lost {
            ..0.1 => ContentionClass::Light,
            ..0.333 => ContentionClass::Medium,
            _ => ContentionClass::Heavy,
        }
    }
}

/// The reach of intervals of a class of contention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContentionReach {
    pub class: ContentionClass,
    pub reach: f64,
    pub reach_of_known: f64,
}

fn yes() -> bool {
    true
}

/// The measured slowdown of a job beside others: the geometric mean over blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredSlowdown {
    pub job: u32,
    /// The other members, in ascending order.
    pub co_runners: Vec<u32>,
    pub slowdown: f64,
    /// The ends of the 95 % interval over blocks; absent with one block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci_lo: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci_hi: Option<f64>,
}

/// A term: `weight * (value - centre) / scale` is added to the logarithm of a slowdown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterferenceTerm {
    pub term: TermName,
    /// The feature; absent for `constant` and `size`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature: Option<AloneFeature>,
    pub weight: f64,
    pub centre: f64,
    pub scale: f64,
}

words! {
    /// The value of a term.
    TermName {
        /// 1.
        Constant = "constant",
        /// The number of jobs less two.
        Size = "size",
        /// The feature of the job.
        Victim = "victim",
        /// The mean of the feature of its co-runners.
        Aggressors = "aggressors",
        /// The feature of the job times the mean of that of its co-runners.
        Product = "product",
    }
}

/// What a workload, its family or a job of it adds to the logarithm of slowdowns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadEffect {
    /// The name of the family, or of the job in full spelling.
    pub workload: String,
    pub effect: f64,
}

/// Errors of predicted slowdowns: `|predicted / measured - 1|`, in percent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlowdownErrors {
    pub left_out: LeftOutPart,
    /// The number of jobs in the groups; absent for groups of all sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_size: Option<u32>,
    /// The class of contention; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contention: Option<ContentionClass>,
    pub estimator: SlowdownEstimator,
    /// The number of predictions.
    pub rows: u32,
    pub mean_percent: f64,
    pub p95_percent: f64,
    /// The mean of the absolute errors of speeds over those alone, `1 / slowdown`; absent in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_speed_error: Option<f64>,
    /// Share of the measured slowdowns that lie in the predicted 95 % interval; absent for estimators without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covered_percent: Option<f64>,
}

/// A decision tree that tells the class of a job from what it does alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassesFit {
    /// The mode in which the jobs were measured together.
    pub sharing: Sharing,
    /// The root is the first.
    pub nodes: Vec<TreeNode>,
    pub errors: ClassErrors,
}

/// A node of a decision tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum TreeNode {
    /// Jobs whose feature is `at` or less go on at the node `below`, others at `above`.
    Split { feature: AloneFeature, at: f64, below: u32, above: u32 },
    /// Jobs that end here are of this class. `jobs` has the numbers of tiny, medium and jumbo jobs that it was fitted to.
    Leaf { class: PackingClass, jobs: [u32; 3] },
}

/// Errors of classes, and of the rule that packs jobs whose scores sum up to 2 or less, by trees that were fitted without the workloads
/// of the jobs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassErrors {
    pub jobs: u32,
    /// Jobs whose class was predicted.
    pub right: u32,
    pub pairs: u32,
    /// Pairs in which neither job falls below 0.85 of its speed alone.
    pub good: u32,
    /// Pairs that the rule packs.
    pub packed: u32,
    /// Pairs that it packs and that are good.
    pub packed_good: u32,
}

impl ModeFit {
    /// All effects, in the order of the coefficients.
    pub fn effects(&self) -> [&[WorkloadEffect]; 6] {
        [
            &self.victims,
            &self.aggressors,
            &self.burdens,
            &self.disturbances,
            &self.victim_jobs,
            &self.aggressor_jobs,
        ]
    }
}

impl InterferenceFit {
    /// What is inconsistent, and where.
    pub(crate) fn problem(&self) -> Option<String> {
        let jobs = self.jobs.len() as u32;
        for mode in &self.modes {
            let of = format!("interference under {}", mode.sharing);
            let effects: usize = mode.effects().iter().map(|effects| effects.len()).sum();
            let count = mode.terms.len() + effects;
            let is_known = |row: &MeasuredSlowdown| {
                row.slowdown > 0.0
                    && row.slowdown.is_finite()
                    && std::iter::once(&row.job).chain(&row.co_runners).all(|job| *job < jobs)
            };
            let is_positive = |number: f64| number > 0.0 && number.is_finite();
            let wrong = if let Some(wrong) = covariance::problem(&mode.covariance, count, "coefficients") {
                wrong
            } else if !mode.terms.iter().all(|term| is_positive(term.scale)) {
                "a term has a scale that is not above 0 and finite".into()
            } else if !mode.terms.iter().all(|term| term.weight.is_finite() && term.centre.is_finite()) {
                "a term has a weight or a centre that is not finite".into()
            } else if ![mode.residual_sd, mode.reach, mode.reach_of_known]
                .into_iter()
                .chain(mode.reaches.iter().flat_map(|of_class| [of_class.reach, of_class.reach_of_known]))
                .all(is_positive)
            {
                "residual_sd and the reach are not above 0 and finite".into()
            } else if !mode.measured.iter().all(is_known) {
                "a measured slowdown is not above 0, or names a job that the file does not have".into()
            } else {
                continue;
            };
            return Some(format!("{of}: {wrong}"));
        }
        let nodes = self.classes.as_ref().map_or(&[][..], |classes| &classes.nodes);
        let goes_down = |(number, node): (usize, &TreeNode)| match node {
            TreeNode::Split { below, above, .. } => [below, above]
                .into_iter()
                .all(|next| (*next as usize) > number && (*next as usize) < nodes.len()),
            TreeNode::Leaf { .. } => true,
        };
        let is_tree =
            self.classes.is_none() || (!nodes.is_empty() && nodes.iter().enumerate().all(goes_down));
        (!is_tree).then(|| "the nodes of classes are no tree".into())
    }
}
