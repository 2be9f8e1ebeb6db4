//! Which jobs can continue from a checkpoint.

use std::mem::discriminant;

use serde_json::Value;

use super::Checkpoint;
use crate::{
    catalog::{Model, Optimizer},
    spec::Training,
};

impl Checkpoint {
    /// Why a job cannot continue from this checkpoint; `None` if it can. A checkpoint belongs to the definition of a model and
    /// a global batch, and not to a plan or a name. Format 1 knows the name alone.
    pub fn refuses(&self, training: &Training) -> Option<String> {
        let Training { workload, global_batch, .. } = training;
        let other = match (&self.model, &self.optimizer) {
            (Some(model), Some(optimizer)) => {
                difference(model, &workload.model).or_else(|| other_optimizer(optimizer, &workload.optimizer))
            }
            _ => (self.workload != workload.name).then(|| "its model has another name".into()),
        };
        let reason = match other {
            Some(other) => other,
            None if self.global_batch != *global_batch => "its global batch is another".into(),
            None => return None,
        };
        Some(format!(
            "is a checkpoint of {}@b{}, and this job is {}@b{global_batch}: {reason}",
            self.workload, self.global_batch, workload.name
        ))
    }
}

/// The first setting in which two definitions differ, in words.
fn difference(written: &Model, wanted: &Model) -> Option<String> {
    if written == wanted {
        return None;
    }
    let [(one, written), (other, wanted)] = [written, wanted].map(Model::tagged);
    if one != other {
        return Some(format!("its model is of the family {one}, and the job's of {other}"));
    }
    let names =
        [&written, &wanted].map(Value::as_object).into_iter().flatten().flat_map(|sizes| sizes.keys());
    let name = names.into_iter().find(|name| written.get(name) != wanted.get(name))?;
    let text = |sizes: &Value| sizes.get(name).map_or_else(|| "absent".into(), Value::to_string);
    Some(format!("`{name}` of its model is {}, and {} in this job", text(&written), text(&wanted)))
}

/// Settings such as the learning rate may change from launch to launch, and kinds of state may not.
fn other_optimizer(written: &Optimizer, wanted: &Optimizer) -> Option<String> {
    let (one, other) = (name_of(written), name_of(wanted));
    if discriminant(written) != discriminant(wanted) {
        return Some(format!("its optimizer is {one}, and the job's {other}"));
    }
    let has_momentum = |optimizer: &Optimizer| match optimizer.state_per_parameter() {
        0 => "without momentum",
        _ => "with momentum",
    };
    let (written, wanted) = (has_momentum(written), has_momentum(wanted));
    (written != wanted).then(|| format!("its optimizer is {one} {written}, and the job's {other} {wanted}"))
}

fn name_of(optimizer: &Optimizer) -> &'static str {
    match optimizer {
        Optimizer::Sgd { .. } => "sgd",
        Optimizer::Adam { .. } => "adam",
        Optimizer::Adamw { .. } => "adamw",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        catalog::Catalog,
        checkpoint::{FORMAT, tests::checkpoint},
    };

    #[test]
    fn a_checkpoint_belongs_to_a_definition_and_not_to_a_name() {
        let catalog = Catalog::embedded();
        let training = |name: &str, batch| {
            Training::new(catalog.get(name).unwrap().clone(), batch, "dp1".parse().unwrap())
        };
        let job = training("neumf", 8);
        let mut of_job = checkpoint("dp1".parse().unwrap(), "neumf", 3, Vec::new());
        (of_job.model, of_job.optimizer) = (Some(job.workload.model.clone()), Some(job.workload.optimizer));
        assert_eq!((of_job.format, of_job.refuses(&job)), (FORMAT, None));

        let changed = |change: &dyn Fn(&mut Training)| {
            let mut job = job.clone();
            change(&mut job);
            of_job.refuses(&job)
        };
        assert_eq!(changed(&|job| job.workload.name = "mine".into()), None, "another name");
        let faster = |job: &mut Training| match &mut job.workload.optimizer {
            Optimizer::Adam { learning_rate, .. } => *learning_rate *= 2.0,
            other => panic!("{other:?}"),
        };
        assert_eq!(changed(&faster), None, "another learning rate");
        let wider = |job: &mut Training| match &mut job.workload.model {
            Model::Neumf(model) => model.items += 1,
            other => panic!("{other:?}"),
        };
        let sgd = |momentum| Optimizer::Sgd { learning_rate: 0.1, momentum, weight_decay: 0.0 };
        let items = match &job.workload.model {
            Model::Neumf(model) => model.items,
            other => panic!("{other:?}"),
        };
        for (refused, words) in [
            (changed(&wider), format!("`items` of its model is {items}, and {} in this job", items + 1)),
            (
                changed(&|job| job.workload.optimizer = sgd(0.9)),
                "its optimizer is adam, and the job's sgd".into(),
            ),
            (
                changed(&|job| job.global_batch = 16),
                "of neumf@b8, and this job is neumf@b16: its global batch is another".into(),
            ),
            (
                of_job.refuses(&training("gpt2-mini", 8)),
                "this job is gpt2-mini@b8: its model is of the family neumf, and the job's of gpt2".into(),
            ),
        ] {
            let refused = refused.expect(&words);
            assert!(refused.contains(&words), "{refused}");
        }
        assert_eq!(
            other_optimizer(&sgd(0.0), &sgd(0.9)).unwrap(),
            "its optimizer is sgd without momentum, and the job's sgd with momentum"
        );

        // One of format 1 has a name alone.
        let old = Checkpoint { format: 1, model: None, optimizer: None, ..of_job };
        assert_eq!(old.refuses(&job), None);
        assert!(old.refuses(&training("gpt2-mini", 8)).unwrap().contains("another name"));
    }
}
