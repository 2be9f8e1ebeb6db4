//! A decision tree (Breiman et al., "Classification and regression trees", 1984): splits that lower the Gini impurity most.

use formats::interference_fit::{AloneFeature, PackingClass, TreeNode};

/// The most splits between the root and a leaf.
const DEPTH: u32 = 3;
/// The fewest jobs of a leaf.
const FEWEST: usize = 1;
/// The smallest share of the impurity of all jobs by which a split has to lower it.
const WORTH: f64 = 0.02;

/// A job that a tree is fitted to: the values of features, and its class.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) values: Vec<f64>,
    pub(super) class: PackingClass,
}

/// Fits a tree. `features` are those of the values of samples.
pub(super) fn fit(features: &[AloneFeature], samples: &[Sample]) -> Vec<TreeNode> {
    let mut nodes = Vec::new();
    let all: Vec<&Sample> = samples.iter().collect();
    let worth = WORTH * impurity(&all);
    grow(&mut nodes, features, &all, DEPTH, worth);
    nodes
}

/// Adds the tree of these samples, whose root comes first.
fn grow(nodes: &mut Vec<TreeNode>, features: &[AloneFeature], samples: &[&Sample], depth: u32, worth: f64) {
    let place = nodes.len();
    nodes.push(leaf(samples));
    let Some(Found { feature, at, gain }) = best_split(features.len(), samples) else { return };
    if depth == 0 || gain <= worth {
        return;
    }
    let (below, above): (Vec<&Sample>, Vec<&Sample>) =
        samples.iter().copied().partition(|sample| sample.values[feature] <= at);
    let first = nodes.len() as u32;
    grow(nodes, features, &below, depth - 1, worth);
    let second = nodes.len() as u32;
    grow(nodes, features, &above, depth - 1, worth);
    // Two leaves of the same class say no more than their parent.
    let class = |node: u32| match nodes[node as usize] {
        TreeNode::Leaf { class, .. } => Some(class),
        TreeNode::Split { .. } => None,
    };
    if class(first).is_some() && class(first) == class(second) {
        nodes.truncate(place + 1);
        return;
    }
    nodes[place] = TreeNode::Split { feature: features[feature], at, below: first, above: second };
}

fn leaf(samples: &[&Sample]) -> TreeNode {
    let jobs = counts(samples);
    // Of equally frequent classes, the one that suffers most: it is not packed by mistake.
    let most = jobs.iter().max().copied().unwrap_or(0);
    let class = PackingClass::ALL.iter().rev().find(|class| jobs[class.score() as usize] == most);
    TreeNode::Leaf { class: class.copied().unwrap_or(PackingClass::Jumbo), jobs }
}

fn counts(samples: &[&Sample]) -> [u32; 3] {
    let mut counts = [0; 3];
    samples.iter().for_each(|sample| counts[sample.class.score() as usize] += 1);
    counts
}

/// The Gini impurity times the number of samples.
fn impurity(samples: &[&Sample]) -> f64 {
    let all = samples.len() as f64;
    let squares: f64 = counts(samples).iter().map(|count| f64::from(*count).powi(2)).sum();
    if samples.is_empty() { 0.0 } else { all - squares / all }
}

struct Found {
    feature: usize,
    at: f64,
    gain: f64,
}

/// The split that lowers the impurity most: of equal ones the first feature, and of this the lowest value.
fn best_split(features: usize, samples: &[&Sample]) -> Option<Found> {
    let whole = impurity(samples);
    let mut best: Option<Found> = None;
    for feature in 0..features {
        let mut sorted: Vec<&Sample> = samples.to_vec();
        sorted.sort_by(|a, b| a.values[feature].total_cmp(&b.values[feature]));
        for count in FEWEST..=sorted.len().saturating_sub(FEWEST) {
            let (below, above) = (sorted[count - 1].values[feature], sorted[count].values[feature]);
            if below == above {
                continue;
            }
            let gain = whole - impurity(&sorted[..count]) - impurity(&sorted[count..]);
            if best.as_ref().is_none_or(|best| gain > best.gain + 1e-12) {
                best = Some(Found { feature, at: (below + above) / 2.0, gain });
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(busy: f64, memory: f64, class: PackingClass) -> Sample {
        Sample { values: vec![busy, memory], class }
    }

    #[test]
    fn a_tree_finds_the_conditions_of_planted_classes() {
        let mut samples = Vec::new();
        for number in 0..10 {
            let value = f64::from(number);
            samples.push(sample(0.1 + value / 100.0, value, PackingClass::Tiny));
            samples.push(sample(0.6 + value / 100.0, value, PackingClass::Medium));
            samples.push(sample(0.6 + value / 100.0, 50.0 + value, PackingClass::Jumbo));
        }
        let nodes = fit(&[AloneFeature::Busy, AloneFeature::Memory], &samples);
        let leaf = |class, jobs| TreeNode::Leaf { class, jobs };
        assert_eq!(
            nodes,
            [
                TreeNode::Split { feature: AloneFeature::Busy, at: nodes_at(0.19, 0.6), below: 1, above: 2 },
                leaf(PackingClass::Tiny, [10, 0, 0]),
                TreeNode::Split {
                    feature: AloneFeature::Memory,
                    at: nodes_at(9.0, 50.0),
                    below: 3,
                    above: 4
                },
                leaf(PackingClass::Medium, [0, 10, 0]),
                leaf(PackingClass::Jumbo, [0, 0, 10]),
            ]
        );
    }

    fn nodes_at(below: f64, above: f64) -> f64 {
        (below + above) / 2.0
    }

    #[test]
    fn jobs_that_no_value_tells_apart_are_one_leaf() {
        let alike = [PackingClass::Tiny, PackingClass::Jumbo, PackingClass::Jumbo, PackingClass::Tiny]
            .map(|class| sample(0.5, 1.0, class));
        let nodes = fit(&[AloneFeature::Busy, AloneFeature::Memory], &alike);
        assert_eq!(nodes, [TreeNode::Leaf { class: PackingClass::Jumbo, jobs: [2, 0, 2] }]);
        assert_eq!(
            fit(&[AloneFeature::Busy], &[]),
            [TreeNode::Leaf { class: PackingClass::Jumbo, jobs: [0; 3] }]
        );
    }
}
