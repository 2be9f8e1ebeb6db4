//! Why a workload cannot run under a plan, whatever the machine.

use super::Workload;
use crate::plan::{Axis, Plan};

impl Workload {
    /// Returns the reason why the workload cannot run under this plan and batch on any machine.
    pub fn refuses(&self, plan: &Plan, global_batch: u32) -> Option<String> {
        if let Some(axis) = plan.axes().into_iter().find(|axis| !self.axes.contains(axis)) {
            return Some(self.refuses_axis(axis));
        }
        if let Some(reason) = self.refuses_degrees(plan) {
            return Some(reason);
        }
        if !global_batch.is_multiple_of(plan.batch_divisor()) {
            return Some(format!("a batch of {global_batch} cannot be cut into {}", plan.batch_divisor()));
        }
        self.model.refuses_batch(global_batch)
    }

    fn refuses_axis(&self, axis: Axis) -> String {
        let runs: Vec<String> = self.axes.iter().map(Axis::to_string).collect();
        let runs = if runs.is_empty() { "dp1 alone".into() } else { runs.join(", ") };
        let why = self.model.lacks(axis).map(|reason| format!(" because {reason}")).unwrap_or_default();
        format!("{} runs no plans with {axis}{why}; it runs {runs}", self.name)
    }

    /// Each tensor-parallel rank has at least one attention head, and each pipeline stage at least one link.
    fn refuses_degrees(&self, plan: &Plan) -> Option<String> {
        [(Axis::Tp, plan.tp, self.model.heads(), "heads"), (Axis::Pp, plan.pp, self.model.links(), "links")]
            .into_iter()
            .find_map(|(axis, degree, most, parts)| {
                let most = most.filter(|most| degree > 1 && u32::from(degree) > *most)?;
                let name = &self.name;
                Some(format!(
                    "{name} has {most} {parts} and {axis}{degree} needs {degree}; use {axis}{most} or less"
                ))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Catalog, Samples};

    fn refusal(workload: &str, plan: &str) -> Option<String> {
        let catalog = Catalog::embedded();
        let workload = catalog.get(workload).unwrap_or_else(|| panic!("{workload}"));
        workload.refuses(&plan.parse().expect("a plan"), 4_096)
    }

    #[test]
    fn an_axis_that_a_family_lacks_is_refused_with_the_reason() {
        let of_chains = "runs dp, pp, zero, ga, gc, offload, bf16";
        for (workload, plan, reason) in [
            (
                "lstm",
                "tp2",
                "because only attention and its feed-forward networks have a tensor-parallel form; it",
            ),
            ("resnet18", "dp2-tp2", of_chains),
            (
                "dcgan",
                "dp2-zero1",
                "with zero because networks that are updated in turn are not divided among",
            ),
            ("dcgan", "pp2", "it runs dp, ga, gc, offload, bf16"),
            (
                "td3-pendulum",
                "dp2",
                "with dp because it makes its data by acting in one environment, which ranks",
            ),
            ("ppo-cartpole", "gc", "ppo-cartpole runs no plans with gc; it runs ga, offload, bf16"),
            ("synthetic-sleep", "tp2", "synthetic-sleep runs no plans with tp; it runs dp, ga"),
            ("stress-io", "dp2", "with dp because it trains no network; it runs dp1 alone"),
        ] {
            let found = refusal(workload, plan).expect("refused");
            assert!(found.contains(reason), "{workload}@{plan}: {found}");
        }
        for (workload, plan) in [("gpt2", "dp2-tp2-pp2-ga2-gc"), ("gpt2", "dp2-zero3"), ("vae", "pp2")] {
            assert_eq!(refusal(workload, plan), None, "{workload}@{plan}");
        }
    }

    #[test]
    fn degrees_above_the_parts_of_a_model_are_refused() {
        for (workload, most, above, reason) in [
            ("gpt2", "tp12", "tp13", "gpt2 has 12 heads and tp13 needs 13; use tp12 or less"),
            ("t5-base", "tp12", "dp2-tp16", "t5-base has 12 heads and tp16 needs 16; use tp12 or less"),
            ("gpt2", "pp14", "pp15", "gpt2 has 14 links and pp15 needs 15; use pp14 or less"),
            ("vae", "pp2", "pp4", "vae has 2 links and pp4 needs 4; use pp2 or less"),
        ] {
            assert_eq!(refusal(workload, most), None, "{workload}@{most}");
            assert_eq!(refusal(workload, above).as_deref(), Some(reason));
        }
    }

    /// Each axis that a family can have is in its definitions, and no other, so that a message never gives a
    /// reason for what a workload runs.
    #[test]
    fn definitions_have_the_axes_of_their_families() {
        const ALL: [Axis; 8] =
            [Axis::Dp, Axis::Tp, Axis::Pp, Axis::Zero, Axis::Ga, Axis::Gc, Axis::Offload, Axis::Bf16];
        for workload in Catalog::embedded().iter().filter(|it| it.model.worker() == "torch-worker") {
            let acts = workload.model.samples() == Samples::Transitions;
            let can = |axis: &Axis| workload.model.lacks(*axis).is_none() && (!acts || *axis != Axis::Gc);
            let expected: Vec<Axis> = ALL.into_iter().filter(can).collect();
            assert_eq!(workload.axes, expected, "{}", workload.name);
            assert_eq!(workload.model.links().is_some(), expected.contains(&Axis::Pp), "{}", workload.name);
        }
    }

    #[test]
    fn links_are_the_blocks_of_a_model() {
        let catalog = Catalog::embedded();
        for (workload, links) in [
            ("bert-base", Some(14)),
            ("dcgan", None),
            ("deepspeech2", Some(9)),
            ("efficientnet-b0", Some(18)),
            ("espcn", Some(4)),
            ("gpt2", Some(14)),
            ("llama2-7b", Some(34)),
            ("lstm", Some(3)),
            ("mobilenet-v2", Some(19)),
            ("mobilenet-v3-small", Some(13)),
            ("neumf", Some(3)),
            ("pointnet", Some(4)),
            ("ppo-cartpole", None),
            ("resnet18", Some(10)),
            ("resnet50", Some(18)),
            ("roberta-large", Some(26)),
            ("synthetic-spin", None),
            ("t5-base", Some(27)),
            ("transformer", Some(15)),
            ("vae", Some(2)),
            ("vgg11", Some(12)),
            ("vit-b-16", Some(14)),
        ] {
            let model = &catalog.get(workload).unwrap_or_else(|| panic!("{workload}")).model;
            assert_eq!(model.links(), links, "{workload}");
        }
    }
}
