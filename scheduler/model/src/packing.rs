//! The classes by which a policy decides which jobs to pack: how much a job suffers beside others (Hu et al., "Lucid: A non-intrusive,
//! scalable and interpretable scheduler for deep learning training jobs", ASPLOS 2023).
//!
//! A job that was measured beside others is tiny, medium or jumbo by its mean speed there over that alone: 0.95 or more, 0.85 or
//! more, or less. These lines are those of the released artifact (repository S-Lab-System-Group/Lucid). A decision tree is fitted to
//! these classes, and tells that of a job from what it does alone, without what was measured beside others.

mod tree;

use std::collections::{BTreeMap, BTreeSet};

pub use formats::interference_fit::PackingClass;
use formats::interference_fit::{AloneFeature, ClassErrors, ClassesFit, JobAlone, TreeNode};
use schema::sharing::Sharing;

use self::tree::Sample;
use crate::{
    JobKey,
    interference::{Alone, Together, known_of_all},
};

/// The lowest mean speeds over those alone of tiny and of medium jobs.
const TINY: f64 = 0.95;
const MEDIUM: f64 = 0.85;
/// The largest sum of scores of jobs that are packed.
const PACKED: u32 = 2;

/// The class of a job and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classified {
    pub class: PackingClass,
    /// The conditions from the root of the tree to its leaf, such as `busy 0.31 <= 0.52`, in this order.
    pub path: Vec<String>,
}

/// What a job was measured to use alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UseAlone {
    /// The share of time in which its device is busy, from 0 to 1.
    pub busy: f64,
    /// The peak of the memory of its largest rank. `None` if it was not measured.
    pub peak_memory_bytes: Option<u64>,
}

/// What is known of jobs that decides which of them are packed.
pub trait PackingClasses: Sync {
    /// The class of a job. `None` if it was not measured alone.
    fn class(&self, job: &JobKey<'_>) -> Option<Classified>;

    /// What a job uses alone. `None` if it was not measured.
    fn use_alone(&self, _job: &JobKey<'_>) -> Option<UseAlone> {
        None
    }
}

/// Fits a tree to the jobs that were measured in pairs, and finds its errors. The mode is time slicing if jobs were measured under it,
/// because under modes with turns all jobs suffer alike. `None` if none were measured in pairs.
pub(crate) fn fit(jobs: &[JobAlone], together: &BTreeMap<Sharing, Vec<Together>>) -> Option<ClassesFit> {
    let is_pair = |of: &&Together| of.co_runners.len() == 1 && !of.blocks.is_empty();
    let has_pairs = |(_, rows): &(&Sharing, &Vec<Together>)| rows.iter().any(|of| is_pair(&of));
    let (sharing, rows) = together
        .get_key_value(&Sharing::TIME_SLICE)
        .filter(has_pairs)
        .or_else(|| together.iter().find(has_pairs))?;
    let labelled = Labelled::new(jobs, rows.iter().filter(is_pair));
    let nodes = labelled.tree(&BTreeSet::new());
    let errors = labelled.errors(rows.iter().filter(is_pair));
    Some(ClassesFit { sharing: sharing.clone(), nodes, errors })
}

/// Jobs that were measured in pairs, by their places, with what they do alone and their classes.
struct Labelled<'a> {
    jobs: &'a [JobAlone],
    features: Vec<AloneFeature>,
    alone: BTreeMap<usize, Alone>,
    samples: BTreeMap<usize, Sample>,
}

impl<'a> Labelled<'a> {
    fn new<'b>(jobs: &'a [JobAlone], pairs: impl Iterator<Item = &'b Together>) -> Labelled<'a> {
        let mut speeds: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for of in pairs {
            speeds.entry(of.job).or_default().push(speed(of));
        }
        let alone: BTreeMap<usize, Alone> = speeds.keys().map(|job| (*job, Alone::of(&jobs[*job]))).collect();
        let features = known_of_all(alone.values());
        let sample = |(job, speeds): (&usize, &Vec<f64>)| {
            let mean = speeds.iter().sum::<f64>() / speeds.len() as f64;
            let values = features.iter().map(|feature| alone[job].value(*feature).unwrap_or(0.0)).collect();
            (*job, Sample { values, class: class_of(mean) })
        };
        let samples = speeds.iter().map(sample).collect();
        Labelled { jobs, features, alone, samples }
    }

    /// A tree that is fitted without the jobs of these families.
    fn tree(&self, left_out: &BTreeSet<&str>) -> Vec<TreeNode> {
        let kept = self.samples.iter().filter(|(job, _)| !left_out.contains(self.family(**job)));
        tree::fit(&self.features, &kept.map(|(_, sample)| sample.clone()).collect::<Vec<_>>())
    }

    fn family(&self, job: usize) -> &'a str {
        self.jobs[job].family()
    }

    /// Classes of jobs by trees without their family, and pairs of jobs by trees without the families of both.
    fn errors<'b>(&self, pairs: impl Iterator<Item = &'b Together>) -> ClassErrors {
        let mut trees: BTreeMap<BTreeSet<&str>, Vec<TreeNode>> = BTreeMap::new();
        let mut class = |job: usize, left_out: BTreeSet<&'a str>| {
            let nodes = trees.entry(left_out).or_insert_with_key(|left_out| self.tree(left_out));
            // A job that no row names as the victim is not known.
            self.alone.get(&job).map_or(PackingClass::Jumbo, |alone| classify(nodes, alone).class)
        };
        let mut worse: BTreeMap<[usize; 2], f64> = BTreeMap::new();
        for of in pairs {
            let mut pair = [of.job, of.co_runners[0]];
            pair.sort_unstable();
            let slowest = worse.entry(pair).or_insert(f64::INFINITY);
            *slowest = slowest.min(speed(of));
        }
        let is_right = |(job, sample): &(&usize, &Sample)| {
            class(**job, BTreeSet::from([self.family(**job)])) == sample.class
        };
        let right = self.samples.iter().filter(is_right).count() as u32;
        let (jobs, pairs) = (self.samples.len() as u32, worse.len() as u32);
        let mut errors = ClassErrors { jobs, right, pairs, good: 0, packed: 0, packed_good: 0 };
        for (pair, speed) in worse {
            let left_out = BTreeSet::from(pair.map(|job| self.family(job)));
            let scores = pair.map(|job| class(job, left_out.clone()).score());
            let (is_good, is_packed) = (speed >= MEDIUM, scores.iter().sum::<u32>() <= PACKED);
            errors.good += u32::from(is_good);
            errors.packed += u32::from(is_packed);
            errors.packed_good += u32::from(is_good && is_packed);
        }
        errors
    }
}

fn speed(of: &Together) -> f64 {
    let logs: f64 = of.blocks.iter().map(|slowdown| slowdown.ln()).sum();
    (-logs / of.blocks.len() as f64).exp()
}

fn class_of(mean_speed: f64) -> PackingClass {
    match mean_speed {
        TINY.. => PackingClass::Tiny,
        MEDIUM.. => PackingClass::Medium,
        _ => PackingClass::Jumbo,
    }
}

/// The class of a job by a tree.
pub(crate) fn classify(nodes: &[TreeNode], job: &Alone) -> Classified {
    let mut path = Vec::new();
    let mut place = 0;
    loop {
        match nodes.get(place) {
            Some(TreeNode::Leaf { class, .. }) => return Classified { class: *class, path },
            Some(TreeNode::Split { feature, at, below, above }) => {
                let Some(value) = job.value(*feature) else {
                    path.push(format!("{feature} is not known"));
                    return Classified { class: PackingClass::Jumbo, path };
                };
                let is_below = value <= *at;
                path.push(condition(*feature, value, is_below, *at));
                place = if is_below { *below } else { *above } as usize;
            }
            None => return Classified { class: PackingClass::Jumbo, path },
        }
    }
}

fn condition(feature: AloneFeature, value: f64, is_below: bool, at: f64) -> String {
    format!("{feature} {} {} {}", feature.shown(value), if is_below { "<=" } else { ">" }, feature.shown(at))
}
