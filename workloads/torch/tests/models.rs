//! The models against what is published of them, and against other implementations.

use std::collections::BTreeMap;

use schema::catalog::{Catalog, Model, Workload};
use tch::{
    Device, Kind, Reduction, Tensor,
    nn::{ModuleT, Path, VarStore},
    vision,
};
use torch_worker::{
    data, models,
    nn::flops,
    shim::autograd::{AutocastBf16, backward},
    workload,
};

fn catalog(name: &str) -> Workload {
    Catalog::embedded().get(name).expect("the catalog has it").clone()
}

fn build(workload: &Workload) -> Box<dyn workload::Workload> {
    models::build(workload, Device::Cpu).unwrap()
}

fn batch(workload: &Workload, samples: usize) -> workload::Batch {
    data::open(&workload.model, None, 0, Device::Cpu).unwrap().next(samples).unwrap()
}

fn state(model: &dyn workload::Workload) -> BTreeMap<String, Tensor> {
    model.parameters().state().map(|(name, tensor)| (name.to_owned(), tensor.shallow_clone())).collect()
}

/// The largest difference, as a part of the largest value.
fn difference(a: &Tensor, b: &Tensor) -> f64 {
    assert_eq!(a.size(), b.size());
    ((a - b).abs().max() / b.abs().max().clamp_min(1e-12)).double_value(&[])
}

#[test]
fn parameters_and_operations_are_those_of_the_catalog() {
    for workload in Catalog::embedded().iter().filter(|w| !matches!(w.model, Model::Synthetic(_))) {
        let model = build(workload);
        assert_eq!(Some(model.parameters().count()), workload.parameters, "parameters of {}", workload.name);

        let batch = batch(workload, 1);
        let forward: Vec<u64> = (0..model.updates().len())
            .map(|update| flops::count(|| tch::no_grad(|| model.loss(update, &batch).unwrap())).1)
            .collect();
        let operations = match forward[..] {
            // A backward pass costs two forward passes.
            [forward] => 3 * forward,
            // The first update runs D twice and G once, the second runs D on the same fake image; what else is
            // differentiated is written down in the model's file.
            [both, discriminator] => 8 * discriminator + 3 * (both - 2 * discriminator),
            _ => unreachable!("no workload has three updates"),
        };
        assert_eq!(Some(operations), workload.flops_per_sample, "operations of {}", workload.name);
    }
}

#[test]
fn the_networks_of_dcgan_have_their_published_sizes() {
    let model = build(&catalog("dcgan"));
    let count = |prefix| model.parameters().with_prefix(prefix).iter().map(Tensor::numel).sum::<usize>();
    assert_eq!((count("generator."), count("discriminator.")), (3_576_704, 2_765_568));
}

/// Loss, gradients and running statistics of one training step equal those of tch's own implementation, whose names are
/// the same.
fn resnet_equals_the_reference<M: ModuleT>(name: &str, reference: impl Fn(&Path<'_>, i64) -> M) {
    let mut workload = catalog(name);
    let Model::Resnet { image, .. } = &mut workload.model else { unreachable!("it is a ResNet") };
    // Large enough for every stage to have more than one pixel, and quick.
    *image = 96;
    let model = build(&workload);
    let batch = batch(&workload, 4);

    let mut store = VarStore::new(Device::Cpu);
    let reference = reference(&store.root(), 1000);
    let ours = state(model.as_ref());
    assert!(ours.keys().eq(BTreeMap::from_iter(store.variables()).keys()), "both use torchvision's names");
    tch::no_grad(|| {
        for (name, mut tensor) in store.variables() {
            tensor.copy_(&ours[&name]);
        }
    });
    store.unfreeze();

    let loss = model.loss(0, &batch).unwrap();
    backward(&loss, &[]).unwrap();
    let expected = reference.forward_t(&batch.inputs, true).cross_entropy_for_logits(&batch.targets);
    expected.backward();

    assert!(difference(&loss.detach(), &expected.detach()) < 1e-5);
    for (name, tensor) in store.variables() {
        // Gradients of parameters; running statistics as they are after the step.
        let (ours, reference) = if tensor.requires_grad() {
            (ours[&name].grad(), tensor.grad())
        } else {
            (ours[&name].copy(), tensor)
        };
        let apart = difference(&ours, &reference);
        assert!(apart < 1e-5, "{name}: {apart}");
    }
}

#[test]
fn resnet18_equals_the_reference() {
    resnet_equals_the_reference("resnet18", vision::resnet::resnet18);
}

#[test]
fn resnet50_equals_the_reference() {
    resnet_equals_the_reference("resnet50", vision::resnet::resnet50);
}

/// GPT-2 once more, in single operations: attention as a product, a mask, a softmax and a product.
fn gpt2_loss(state: &BTreeMap<String, Tensor>, batch: &workload::Batch, layers: u32, heads: i64) -> Tensor {
    let get = |name: &str| &state[name];
    let (samples, tokens) = batch.inputs.size2().unwrap();
    let norm = |x: &Tensor, name: &str| {
        let centred = x - x.mean_dim([-1].as_slice(), true, None);
        let variance = centred.square().mean_dim([-1].as_slice(), true, None);
        centred / (variance + 1e-5).sqrt() * get(&format!("{name}.weight")) + get(&format!("{name}.bias"))
    };
    let linear = |x: &Tensor, name: &str| {
        x.matmul(&get(&format!("{name}.weight")).tr()) + get(&format!("{name}.bias"))
    };
    let future = Tensor::ones([tokens, tokens], (Kind::Bool, Device::Cpu)).triu(1);

    let mut x = get("wte.weight").index_select(0, &batch.inputs.flatten(0, -1)).view([samples, tokens, -1])
        + get("wpe.weight");
    let width = x.size()[2];
    for layer in 0..layers {
        let name = |part: &str| format!("h.{layer}.{part}");
        let qkv = linear(&norm(&x, &name("ln_1")), &name("attn.c_attn"));
        let per_head = |index: i64| {
            qkv.narrow(2, index * width, width).view([samples, tokens, heads, width / heads]).transpose(1, 2)
        };
        let scores = per_head(0).matmul(&per_head(1).transpose(2, 3)) / ((width / heads) as f64).sqrt();
        let weights = scores.masked_fill(&future, f64::NEG_INFINITY).softmax(-1, None);
        let mixed = weights.matmul(&per_head(2)).transpose(1, 2).reshape([samples, tokens, width]);
        x += linear(&mixed, &name("attn.c_proj"));
        let inner = linear(&norm(&x, &name("ln_2")), &name("mlp.c_fc"));
        // Hendrycks and Gimpel, 2016: the approximation by tanh.
        let inside: Tensor =
            (&inner + 0.044_715 * inner.pow_tensor_scalar(3)) * (2.0 / std::f64::consts::PI).sqrt();
        let inner = 0.5 * inner * (1.0 + inside.tanh());
        x += linear(&inner, &name("mlp.c_proj"));
    }
    let logits = norm(&x, "ln_f").matmul(&get("wte.weight").tr());
    logits.flatten(0, 1).cross_entropy_loss::<Tensor>(
        &batch.targets.flatten(0, 1),
        None,
        Reduction::Mean,
        -100,
        0.0,
    )
}

#[test]
fn gpt2_equals_single_operations() {
    let workload = catalog("gpt2-mini");
    let model = build(&workload);
    let (batch, state) = (batch(&workload, 2), state(model.as_ref()));
    // Biases and scales begin at zero and one, where a mistake in them would not show.
    tch::no_grad(|| {
        for tensor in state.values().filter(|tensor| tensor.dim() == 1) {
            let _ = tensor
                .shallow_clone()
                .g_add_(&(Tensor::arange(tensor.numel() as i64, tch::kind::FLOAT_CPU).sin() * 0.1));
        }
    });
    let gradients = |loss: Tensor| {
        backward(&loss, &[]).unwrap();
        let gradients: Vec<_> = state.values().map(|tensor| tensor.grad().copy()).collect();
        state.values().for_each(|tensor| tensor.shallow_clone().zero_grad());
        (loss.detach(), gradients)
    };
    let (loss, ours) = gradients(model.loss(0, &batch).unwrap());
    let (expected, reference) = gradients(gpt2_loss(&state, &batch, 4, 8));
    assert!(difference(&loss, &expected) < 1e-5);
    for ((name, ours), reference) in state.keys().zip(&ours).zip(&reference) {
        assert!(difference(ours, reference) < 1e-3, "{name}");
    }
}

#[test]
fn initial_weights_have_the_spread_that_the_papers_give() {
    let deviation =
        |model: &dyn workload::Workload, name: &str| state(model)[name].std(true).double_value(&[]);
    let near =
        |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 0.05, "{value} for {expected}");
    let gpt2 = build(&catalog("gpt2-mini"));
    near(deviation(gpt2.as_ref(), "wte.weight"), 0.02);
    near(deviation(gpt2.as_ref(), "h.3.mlp.c_fc.weight"), 0.02);
    near(deviation(gpt2.as_ref(), "h.3.mlp.c_proj.weight"), 0.02 / 8.0_f64.sqrt());
    let resnet = build(&catalog("resnet18-cifar"));
    near(deviation(resnet.as_ref(), "layer2.0.conv1.weight"), (2.0 / (128.0 * 9.0_f64)).sqrt());
    near(deviation(resnet.as_ref(), "fc.weight"), (1.0 / (3.0 * 512.0_f64)).sqrt());
    let dcgan = build(&catalog("dcgan"));
    near(deviation(dcgan.as_ref(), "generator.main.3.weight"), 0.02);
}

#[test]
fn the_mean_over_micro_batches_is_the_mean_over_the_batch() {
    // Batch norm looks at a micro-batch as a whole, so only models without it are so.
    for name in ["gpt2-mini", "lstm", "neumf"] {
        let workload = catalog(name);
        let model = build(&workload);
        let batch = batch(&workload, 4);
        let loss = |first, samples| {
            let slice = |tensor: &Tensor| tensor.narrow(0, first, samples);
            let part = workload::Batch { inputs: slice(&batch.inputs), targets: slice(&batch.targets) };
            model.loss(0, &part).unwrap().double_value(&[])
        };
        let halves = (loss(0, 2) + loss(2, 2)) / 2.0;
        assert!((loss(0, 4) - halves).abs() < 1e-5, "{name}");
    }
}

#[test]
fn autocast_to_bf16_changes_losses_little_and_leaves_them_in_fp32() {
    for name in ["dcgan", "gpt2-mini", "lstm", "neumf", "resnet18-cifar"] {
        let workload = catalog(name);
        let model = build(&workload);
        let batch = batch(&workload, 4);
        let updates = 0..model.updates().len();
        let exact: Vec<f64> =
            updates.clone().map(|update| model.loss(update, &batch).unwrap().double_value(&[])).collect();
        for update in updates {
            let rounded = {
                let _autocast = AutocastBf16::enter(Device::Cpu).unwrap();
                model.loss(update, &batch).unwrap()
            };
            assert_eq!(rounded.kind(), Kind::Float, "{name}");
            let apart = (rounded.double_value(&[]) / exact[update] - 1.0).abs();
            assert!(apart > 0.0 && apart < 0.05, "{name}: {} became {rounded}", exact[update]);
            backward(&rounded, &[]).unwrap();
        }
    }
}

#[test]
fn each_network_of_dcgan_learns_from_its_own_loss_alone() {
    let workload = catalog("dcgan");
    let model = build(&workload);
    let batch = batch(&workload, 4);
    let of = |prefix| model.parameters().with_prefix(prefix);
    let touched = |prefix| of(prefix).iter().filter(|tensor| tensor.grad().defined()).count();
    let [generator, discriminator] = ["generator.", "discriminator."];

    backward(&model.loss(0, &batch).unwrap(), &of(discriminator)).unwrap();
    assert_eq!((touched(generator), touched(discriminator)), (0, of(discriminator).len()));
    of(discriminator).iter_mut().for_each(Tensor::zero_grad);

    let kept = model.loss(1, &batch).unwrap();
    backward(&kept, &of(generator)).unwrap();
    assert_eq!(touched(generator), of(generator).len());
    for tensor in of(discriminator) {
        assert_eq!(tensor.grad().abs().max().double_value(&[]), 0.0);
    }
    let made_again = model.loss(1, &batch).unwrap();
    assert_eq!(kept.double_value(&[]), made_again.double_value(&[]), "the same noise makes the same images");
}

#[test]
fn architectures_that_cannot_be_are_refused() {
    let refused = |name: &str, change: &dyn Fn(&mut Model)| {
        let mut workload = catalog(name);
        change(&mut workload.model);
        models::build(&workload, Device::Cpu).err().expect("it must be refused").to_string()
    };
    let heads = |model: &mut Model| {
        if let Model::Gpt2 { heads, .. } = model {
            *heads = 7;
        }
    };
    assert_eq!(refused("gpt2-mini", &heads), "model.gpt2: width 256 is not a multiple of heads 7");
    let mlp = |first: Vec<u32>| {
        move |model: &mut Model| {
            if let Model::Neumf { mlp, .. } = model {
                mlp.clone_from(&first)
            }
        }
    };
    assert!(refused("neumf", &mlp(vec![])).starts_with("model.neumf: mlp is empty"));
    assert!(refused("neumf", &mlp(vec![7, 3])).starts_with("model.neumf: mlp starts with 7"));
    let image = |model: &mut Model| {
        if let Model::Dcgan { image, .. } = model {
            *image = 48;
        }
    };
    assert_eq!(refused("dcgan", &image), "model.dcgan: image 48: use a power of two from 16 on");
}
