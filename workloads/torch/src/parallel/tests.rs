//! Every plan computes the same thing: ranks that are threads, against one rank.

mod traffic;

use std::{collections::BTreeMap, env, sync::Mutex, thread};

use schema::{
    catalog::{self, Catalog, Optimizer},
    mesh::Mesh,
    plan::{Plan, Precision},
    spec::Training,
};
use tch::{Device, TchError, Tensor};

use crate::{
    data, models,
    nn::{parameters::Parameters, tensor_parallel::TensorParallel},
    parallel::Parallel,
    pipeline::cut,
    step::{Execution, Trainer},
    workload::{Batch, Share, Supervised, Update, Workload},
    world::World,
};

const STEPS: usize = 20;
const GLOBAL_BATCH: u32 = 8;
const SEED: u64 = 5;

pub(crate) const SGD: Optimizer = Optimizer::Sgd { learning_rate: 0.02, momentum: 0.9, weight_decay: 1e-4 };
/// It hides a gradient that is wrong by a constant factor, which SGD shows.
pub(crate) const ADAMW: Optimizer =
    Optimizer::Adamw { learning_rate: 1e-3, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.1 };

/// Sets the parameters of a part of a model to those of the whole, which is drawn once. Tests share the generator of the
/// process, and activation checkpointing sets it back, so that two draws from one seed may differ.
fn set_initial(workload: &catalog::Workload, parameters: &Parameters) {
    static DRAWN: Mutex<BTreeMap<String, BTreeMap<String, Tensor>>> = Mutex::new(BTreeMap::new());
    let mut drawn = DRAWN.lock().unwrap();
    let whole = drawn.entry(workload.name.clone()).or_insert_with(|| {
        tch::manual_seed(SEED as i64);
        let model = models::build(workload, Device::Cpu).unwrap();
        let entries = model.parameters().trainable("");
        entries.map(|entry| (entry.name().to_owned(), entry.tensor().detach())).collect()
    });
    for entry in parameters.trainable("") {
        let whole = &whole[entry.name()];
        let part = entry.slice().map_or_else(|| whole.shallow_clone(), |slice| slice.of(whole).unwrap());
        tch::no_grad(|| entry.tensor().shallow_clone().copy_(&part));
    }
}

/// A workload whose gradients are clipped.
struct Clipped(Box<dyn Workload>);

impl Workload for Clipped {
    fn parameters(&self) -> &Parameters {
        self.0.parameters()
    }

    fn updates(&self) -> &[Update] {
        self.0.updates()
    }

    fn loss(&self, update: usize, batch: &Batch) -> Result<Tensor, TchError> {
        self.0.loss(update, batch)
    }

    fn supervised(&self) -> Option<&Supervised> {
        self.0.supervised()
    }

    fn supervised_mut(&mut self) -> Option<&mut Supervised> {
        self.0.supervised_mut()
    }

    fn gradient_norm_max(&self, _update: usize) -> Option<f64> {
        Some(0.5)
    }
}

/// A job of a model of `definitions.toml`.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) model: &'a str,
    pub(crate) optimizer: Optimizer,
    pub(crate) plan: Plan,
    pub(crate) is_exact: bool,
    pub(crate) is_clipped: bool,
}

impl Case<'_> {
    /// The training of a launch.
    pub(crate) fn training(&self) -> Training {
        let mut catalog = Catalog::default();
        catalog.add("definitions.toml", include_str!("definitions.toml")).unwrap();
        let workload = catalog.get(self.model).expect("the file defines it").clone();
        let workload = catalog::Workload { optimizer: self.optimizer, ..workload };
        Training { exact: self.is_exact, ..Training::new(workload, GLOBAL_BATCH, self.plan) }
    }

    /// The trainer of a rank.
    pub(crate) fn trainer(&self, world: World) -> Trainer {
        let workload = self.training().workload;
        let Plan { dp, pp, ga, gc, offload, zero, precision, .. } = self.plan;
        let samples = GLOBAL_BATCH as usize / usize::from(dp * ga);
        let ranks = TensorParallel::new(world.tensor.clone());
        let cut = (pp > 1).then(|| cut(&workload, self.is_exact, samples as i64, &ranks, pp.into()).unwrap());
        let links = cut.as_ref().map(|cut| cut.stages[world.at.stage as usize].clone());
        let parameters = Parameters::new(Device::Cpu).part_of(ranks, links);
        let parameters = if self.is_exact { parameters.exact() } else { parameters };
        let model = models::build_in(&workload, parameters).unwrap();
        set_initial(&workload, model.parameters());
        let model = if self.is_clipped { Box::new(Clipped(model)) } else { model };
        let mut data = data::of(&*model, workload.model.samples(), None, SEED, Device::Cpu).unwrap();
        data.share_out(Share { rank: world.at.data, ranks: dp.into() }).unwrap();
        let execution = Execution {
            device: Device::Cpu,
            micro_batches: ga.into(),
            micro_batch_samples: samples,
            recompute: gc,
            bf16: precision == Precision::Bf16,
            offload: offload.then_some(1),
            zero,
        };
        Trainer::among(model, data, execution, world, cut.as_ref()).unwrap()
    }

    /// What `body` makes of the trainer of each rank, in the order of ranks.
    pub(crate) fn on_ranks<T: Send>(&self, body: impl Fn(&mut Trainer) -> T + Sync) -> Vec<T> {
        let body = &body;
        thread::scope(|scope| {
            let rank = |world| {
                scope.spawn(move || {
                    tch::set_num_threads(1);
                    body(&mut self.trainer(world))
                })
            };
            let ranks: Vec<_> = World::threads(Mesh::of(&self.plan)).into_iter().map(rank).collect();
            ranks.into_iter().map(|rank| rank.join().expect("its reason is above")).collect()
        })
    }

    /// The loss of the job in each of `steps` steps.
    pub(crate) fn losses(&self, steps: usize) -> Vec<f64> {
        let of_ranks = self.on_ranks(|trainer| {
            let step = |_| {
                trainer.issue().unwrap();
                trainer.completed(0).unwrap().unwrap().loss
            };
            (0..steps).map(step).collect::<Vec<f64>>()
        });
        let mean = |step: usize| {
            let losses: Vec<f64> =
                of_ranks.iter().map(|losses| losses[step]).filter(|loss| !loss.is_nan()).collect();
            assert_eq!(losses.len(), usize::from(self.plan.dp), "one rank of each replica has a loss");
            losses.iter().sum::<f64>() / losses.len() as f64
        };
        (0..steps).map(mean).collect()
    }
}

#[test]
fn parameters_of_two_links_are_gathered_at_most() {
    for plan in ["dp2-zero3", "dp2-zero3-ga2", "dp2-zero3-gc", "dp4-zero3-ga2-gc"] {
        for model in ["gpt2", "t5", "resnet"] {
            let plan: Plan = plan.parse().unwrap();
            let case = Case { model, optimizer: SGD, plan, is_exact: true, is_clipped: false };
            let found = case.on_ranks(|trainer| {
                for _ in 0..2 {
                    trainer.issue().unwrap();
                    trainer.completed(0).unwrap().unwrap();
                }
                trainer.parallels().next().and_then(Parallel::most_gathered).expect("it gathers")
            });
            for (most, links) in found {
                let largest = links.windows(2).map(|pair| pair[0] + pair[1]).max().unwrap();
                let all: usize = links.iter().sum();
                assert!(0 < most && most <= largest, "{model} {plan}: {most} of {largest}");
                assert!(largest < all, "{model}: two links are less than the model");
            }
        }
    }
}

/// Relative to what is expected.
pub(crate) fn largest_difference(ours: &[f64], expected: &[f64]) -> f64 {
    let apart = |(ours, expected): (&f64, &f64)| (ours - expected).abs() / expected.abs();
    ours.iter()
        .zip(expected)
        .map(apart)
        .fold(0.0, |most, next| if next.is_nan() { next } else { most.max(next) })
}

/// The plans that are tried with every model that allows them.
const PLANS: [&str; 26] = [
    "dp2",
    "dp2-ga2",
    "dp2-zero1",
    "dp2-zero1-ga2",
    "dp2-zero2-ga2",
    "dp2-zero2-offload",
    "dp2-zero3",
    "dp2-zero3-ga2-gc",
    "tp2",
    "tp2-ga2-gc",
    "pp2",
    "pp2-ga4",
    "pp2-ga4-gc",
    "dp4-zero3-gc",
    "dp4-zero2-ga2",
    "tp4",
    "pp4-ga8",
    "dp2-tp2",
    "dp2-pp2-ga2",
    "tp2-pp2-ga4-gc",
    "dp2-tp2-pp2-ga4",
    "dp2-tp4",
    "tp2-pp4-ga2",
    "dp8-zero2",
    "dp8-zero3",
    "pp8-ga4",
];

/// The models of `definitions.toml`.
const MODELS: [&str; 7] = ["gpt2", "bert", "t5", "translation", "llama", "vit", "resnet"];

/// Tries every plan with every optimizer, or without TANDEM_SLOW=1 a third of the plans, other ones with each model.
fn check(model: &str) {
    let has_tensor_parallelism = model != "resnet";
    let place = MODELS.iter().position(|other| *other == model).expect("it is one of them");
    let is_slow = env::var_os("TANDEM_SLOW").is_some_and(|value| value == "1");
    let mut wrong = Vec::new();
    for (number, (optimizer, is_clipped)) in
        [(SGD, false), (SGD, true), (ADAMW, true)].into_iter().enumerate()
    {
        let case = |plan: &str| {
            let plan = plan.parse().expect("canonical");
            Case { model, optimizer, plan, is_exact: true, is_clipped }
        };
        let expected = case("dp1").losses(STEPS);
        // Of single batches, the last one may be hard. What is drawn differs between processors.
        let (before, after) = expected.split_at(expected.len() / 2);
        let learns = after.iter().sum::<f64>() < before.iter().sum::<f64>();
        assert!(learns, "{model}: it learns nothing: {expected:?}");
        for (index, plan) in PLANS.iter().enumerate() {
            let is_chosen = is_slow || (index + place) % 9 == number;
            if plan.contains("tp") && !has_tensor_parallelism || !is_chosen {
                continue;
            }
            let ours = case(plan).losses(STEPS);
            let apart = largest_difference(&ours, &expected);
            println!("{apart:.1e} {model} {plan} {number}");
            if apart.is_nan() || apart > 1e-9 {
                wrong.push(format!("{model} {plan} {number}: {apart:.1e}: {ours:?} for {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn plans_of_gpt2_give_the_losses_of_dp1() {
    check("gpt2");
}

#[test]
fn plans_of_bert_give_the_losses_of_dp1() {
    check("bert");
}

#[test]
fn plans_of_t5_give_the_losses_of_dp1() {
    check("t5");
}

#[test]
fn plans_of_a_translator_give_the_losses_of_dp1() {
    check("translation");
}

#[test]
fn plans_of_llama_give_the_losses_of_dp1() {
    check("llama");
}

#[test]
fn plans_of_vit_give_the_losses_of_dp1() {
    check("vit");
}

#[test]
fn plans_of_resnet_give_the_losses_of_dp1() {
    check("resnet");
}
