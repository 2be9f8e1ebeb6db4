//! The program's information about itself, and its exports.

use std::{collections::HashMap, fs};

use crate::support::{cores, failure, launch, program, run_to_end};
use schema::{footprint::Answer, plan::Plan, shapes::Shapes, spec::LaunchSpec, wire::FailureKind};
use tch::{Kind, Tensor};

#[test]
fn it_tells_its_version_and_what_libtorch_can_do() {
    let version = program().arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    assert!(version.starts_with(concat!(
        "torch-worker ",
        env!("CARGO_PKG_VERSION"),
        " (libtorch 2.11.0, CUDA "
    )));

    let capabilities = program().arg("--capabilities").output().unwrap();
    assert!(capabilities.status.success());
    let capabilities: serde_json::Value = serde_json::from_slice(&capabilities.stdout).unwrap();
    assert_eq!(capabilities["libtorch"], "2.11.0");
    // With a device a tensor can be made; without one there is a reason.
    assert_eq!(capabilities["cuda_error"].is_null(), capabilities["cuda_devices"] != 0, "{capabilities}");
    if capabilities["cuda"].is_null() {
        let error = capabilities["cuda_error"].as_str().unwrap();
        assert!(error.starts_with("libtorch has no CUDA: libtorch_cuda.so: "), "{error}");
    }
}

#[test]
fn without_a_launch_it_says_what_is_missing() {
    let output = program().env_remove("TANDEM_SPEC").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("TANDEM_SPEC is not set"));
}

#[test]
fn a_model_of_any_size_is_counted_by_its_shapes() {
    let folder = tempfile::tempdir().unwrap();
    let spec = folder.path().join("spec.json");
    fs::write(&spec, serde_json::to_vec(&launch("llama-30b", 4, "dp1", None)).unwrap()).unwrap();
    let output = program().args(["--shapes", "--spec"]).arg(&spec).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shapes = Shapes::from_line(&String::from_utf8(output.stdout).unwrap()).unwrap();
    assert_eq!((shapes.parameters, shapes.buffers), (32_528_943_616, 0));
    assert_eq!(shapes.model_bytes, 4 * shapes.parameters);

    let both =
        program().args(["--shapes", "--export-initial", "file", "--spec"]).arg(&spec).output().unwrap();
    assert_eq!(both.status.code(), Some(2), "either counts or exports");
    let neither = program().arg("--spec").arg(&spec).output().unwrap();
    assert_eq!(neither.status.code(), Some(2), "a launch to do what with");
}

/// What `--footprint` answers for a launch.
fn footprint(launch: &LaunchSpec) -> Answer {
    footprint_of_rank(launch, 0)
}

fn footprint_of_rank(launch: &LaunchSpec, rank: u32) -> Answer {
    let folder = tempfile::tempdir().unwrap();
    let spec = folder.path().join("spec.json");
    fs::write(&spec, serde_json::to_vec(launch).unwrap()).unwrap();
    let output =
        program().args(["--footprint", "--rank", &rank.to_string(), "--spec"]).arg(&spec).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Answer::from_line(&String::from_utf8(output.stdout).unwrap()).unwrap()
}

#[test]
fn the_memory_of_a_launch_is_found_by_a_few_steps() {
    let Answer::Measured(found) = footprint(&launch("resnet18-mini", 2, "dp1", None)) else {
        panic!("it fits");
    };
    assert_eq!((found.micro_batches, found.parameters), ([2, 4], 701_466));
    // 1024 samples of 3x32x32 floats, with labels of 64 bits.
    assert_eq!(found.data_bytes, 1024 * (3 * 32 * 32 * 4 + 8));
    // Beside the model and the samples it holds the momentum of each parameter.
    let states = found.model_bytes + found.data_bytes + 4 * found.parameters;
    assert_eq!(found.persistent_bytes, states);
    assert!(found.building_bytes >= states);
    // What does not grow with the batch: what batch norm keeps of each channel, as much as its running statistics take,
    // and two numbers: the loss, and how many samples it is the mean of.
    let [few, many] = found.forward_bytes;
    let of_channels = found.model_bytes - 4 * found.parameters;
    assert_eq!(2 * few - many, of_channels + 2 * 4);
    for (samples, forward_bytes) in found.micro_batches.into_iter().zip(found.forward_bytes) {
        assert!(found.peak_bytes(samples) > found.persistent_bytes + forward_bytes, "{found:?}");
    }
    assert!(found.peak.len() > 1, "what is highest at few samples is not what is highest at many: {found:?}");

    // The first update leaves the images that it has learnt from, with their graph, to the second.
    let Answer::Measured(gan) = footprint(&launch("dcgan-mini", 2, "bf16", None)) else { panic!("it fits") };
    let images = 3 * 32 * 32 * 2;
    assert!(gan.activation_bytes_per_sample() > Some(images), "{gan:?}");
    let of_samples = gan.peak.iter().map(|[few, many]| many - few).max();
    assert!(of_samples > Some(2 * images), "{gan:?}");
}

/// Parameters, optimizer state and gradients in numbers per parameter of the model, as by Rajbhandari et al., "ZeRO",
/// SC 2020, figure 1, and an equal share of each under tensor and pipeline parallelism.
#[test]
fn a_rank_holds_the_share_that_its_plan_says() {
    for (plan, parameters, state, gradients) in [
        ("dp1", 1.0, 2.0, 1.0),
        ("dp2-ga2", 1.0, 2.0, 1.0),
        ("dp2-zero1-ga2", 1.0, 1.0, 1.0),
        ("dp2-zero2-ga2", 1.0, 1.0, 0.5),
        ("dp2-zero3-ga2", 0.5, 1.0, 0.5),
        ("dp4-zero3-ga2", 0.25, 0.5, 0.25),
        ("tp2", 0.5, 1.0, 0.5),
        ("pp2", 0.5, 1.0, 0.5),
    ] {
        let (spelled, plan) = (plan, plan.parse::<Plan>().unwrap());
        // Activations that a stage is still sending are small in comparison.
        let spec = launch("gpt2-mini", plan.batch_divisor(), spelled, None);
        let ranks = plan.ranks() as u16;
        for rank in [0, u32::from(ranks) - 1] {
            let spec = LaunchSpec { devices: cores(ranks), ..spec.clone() };
            let Answer::Measured(found) = footprint_of_rank(&spec, rank) else { panic!("it fits") };
            let bytes = 4.0 * found.parameters as f64;
            let held = (found.persistent_bytes - found.data_bytes) as f64;
            let kept = found.gradient_bytes as f64;
            let (held, kept) = if plan.zero == 0 && plan.dp > 1 {
                // Small gradients lie in buckets, which are there all the time.
                (held + kept - bytes * gradients, bytes * gradients)
            } else {
                (held, kept)
            };
            for (what, found, expected) in [
                ("states", held, parameters + state),
                ("model", found.model_bytes as f64, parameters),
                ("gradients", kept, gradients),
            ] {
                let apart = found / (bytes * expected) - 1.0;
                assert!(apart.abs() < 0.1, "{what} of rank {rank} under {plan}: {apart:+.3}");
            }
        }
    }
}

/// The small products of its transform are oneDNN's in bf16 from four samples on, with memory that two do not take; and
/// what is the peak of two samples is not that of four.
#[test]
fn a_few_samples_tell_the_peak_of_many_where_more_samples_are_computed_in_another_way() {
    let peak_of_16 = |tried: u32| {
        let Answer::Measured(found) = footprint(&launch("pointnet-mini", tried, "bf16", None)) else {
            panic!("it fits");
        };
        (found.peak_bytes(16) - found.persistent_bytes) as i64
    };
    let (told, measured) = (peak_of_16(2), peak_of_16(8));
    assert!((told - measured).abs() < measured / 100, "{told} of 2 and 4 samples, {measured} of 8 and 16");
}

#[test]
fn tensors_are_held_to_the_memory_of_a_launch() {
    let mut small = launch("gpt2-mini", 2, "dp1", None);
    small.memory_bytes = Some(50 << 20);
    let Answer::Failed { kind, error } = footprint(&small) else { panic!("it takes more") };
    assert_eq!(kind, FailureKind::OutOfMemory);
    assert!(error.contains("of the 52428800 that are allowed"), "{error}");
    let (said, status) = run_to_end(&small);
    assert_eq!((failure(&said).0, status.code()), (FailureKind::OutOfMemory, Some(1)));
}

#[test]
fn exports_are_what_training_starts_from() {
    let folder = tempfile::tempdir().unwrap();
    let [spec, initial, again, data] =
        ["spec.json", "initial.safetensors", "again.safetensors", "data.safetensors"]
            .map(|name| folder.path().join(name));
    fs::write(&spec, serde_json::to_vec(&launch("resnet18-cifar", 6, "ga3", None)).unwrap()).unwrap();
    let export = |option: &str, file: &std::path::Path| {
        let mut command = program();
        command.arg("--spec").arg(&spec).arg(option).arg(file);
        if option == "--export-data" {
            command.args(["--steps", "2"]);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Tensor::read_safetensors(file).unwrap().into_iter().collect::<HashMap<_, _>>()
    };

    let parameters = export("--export-initial", &initial);
    assert_eq!(parameters["conv1.weight"].size(), [64, 3, 3, 3]);
    assert_eq!(parameters["layer1.0.bn1.running_var"].min().double_value(&[]), 1.0);
    assert!(parameters["conv1.weight"].std(true).double_value(&[]) > 0.0);
    export("--export-initial", &again);
    assert_eq!(fs::read(&initial).unwrap(), fs::read(&again).unwrap(), "the seed alone decides");

    let batches = export("--export-data", &data);
    assert_eq!(batches.len(), 2 * 2 * 3, "inputs and targets of two steps of three micro-batches");
    assert_eq!(batches["inputs.5"].size(), [2, 3, 32, 32]);
    assert_eq!((batches["targets.5"].size(), batches["targets.5"].kind()), (vec![2], Kind::Int64));
    assert_ne!(batches["inputs.0"], batches["inputs.1"]);
}
