//! Launches of several ranks, through the program itself: each rank is a process, as the harness starts them.

use std::fs;

use schema::{
    spec::{LaunchSpec, Program},
    units::Nanos,
    wire::{Command, Event, EventLine, FailureKind, Phases, Ready, Statistics},
};

use crate::support::{Worker, failure, launch, launch_ranks, program, run_to_end, steps};

fn ready(said: &[EventLine]) -> &Ready {
    let ready =
        said.iter().find_map(|line| if let Event::Ready(ready) = &line.event { Some(ready) } else { None });
    ready.unwrap_or_else(|| panic!("it is not ready: {said:#?}"))
}

fn held(index: u64) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Held { index: at } if *at == index)
}

#[test]
fn ranks_share_a_batch_out_start_equal_and_leave_together() {
    let (said, _) = run_to_end(&launch("gpt2-mini", 6, "dp1", Some(1)));
    let alone = steps(&said)[0].loss.expect("it has a loss");
    for ranks in [2, 3] {
        let plan = format!("dp{ranks}");
        let mut workers = Worker::start_ranks(&launch_ranks(ranks, "gpt2-mini", 6, &plan, None));
        workers[0].grant.extend_to(3);
        for worker in &mut workers {
            worker.wait_for(held(3));
            worker.command(&Command::Stop {});
        }
        let mut losses = Vec::new();
        for worker in workers {
            let (said, status) = worker.finish();
            assert!(status.success(), "{said:#?}");
            let steps = steps(&said);
            assert_eq!(steps.len(), 3);
            assert!(steps.iter().all(|step| step.samples == Some(6 / u64::from(ranks))), "{steps:#?}");
            losses.push(steps[0].loss.expect("it has a loss"));
        }
        let mean = losses.iter().sum::<f64>() / f64::from(ranks);
        assert!((mean - alone).abs() < 1e-5, "{ranks} ranks: {losses:?}, alone {alone}");
        assert!(losses.windows(2).all(|pair| pair[0] != pair[1]), "each has samples of its own: {losses:?}");
    }
}

#[test]
fn ranks_train_as_one_process_does_on_the_whole_batch_and_say_what_sharing_took() {
    const STEPS: usize = 4;
    let (said, _) = run_to_end(&launch("gpt2-mini", 4, "dp1", Some(STEPS as u64)));
    let parameters = ready(&said).parameters;
    let alone: Vec<_> = steps(&said)
        .iter()
        .map(|step| {
            let Phases { sync_total_ns, sync_exposed_ns, .. } = step.phases.clone().expect("it has phases");
            assert_eq!((sync_total_ns, sync_exposed_ns, step.sent_bytes), (None, None, None));
            step.loss.expect("it has a loss")
        })
        .collect();
    for plan in ["dp2", "dp2-ga2", "dp2-ga2-offload"] {
        let workers = Worker::start_ranks(&launch_ranks(2, "gpt2-mini", 4, plan, Some(STEPS as u64)));
        workers[0].grant.extend_to(STEPS as u64);
        let mut means = [0.0; STEPS];
        for worker in workers {
            let (said, status) = worker.finish();
            assert!(status.success(), "{said:#?}");
            for (mean, step) in means.iter_mut().zip(steps(&said)) {
                *mean += step.loss.expect("it has a loss") / 2.0;
                assert_eq!(
                    step.sent_bytes,
                    parameters.map(|count| 4 * count),
                    "each gradient goes out once a step"
                );
                let Phases { sync_total_ns, sync_exposed_ns, .. } =
                    step.phases.clone().expect("it has phases");
                assert!(sync_total_ns > Some(Nanos::ZERO) && sync_exposed_ns > Some(Nanos::ZERO), "{step:?}");
            }
        }
        for (mean, alone) in means.iter().zip(&alone) {
            assert!((mean - alone).abs() < 1e-3, "{plan}: {means:?}, alone {alone:?}");
        }
    }
}

#[test]
fn a_rank_whose_peer_is_killed_fails_with_the_next_collective() {
    let mut workers = Worker::start_ranks(&launch_ranks(2, "gpt2-mini", 4, "dp2", None));
    workers[0].grant.extend_to(u64::MAX);
    for worker in &mut workers {
        worker.wait_for(|event| matches!(event, Event::Step(step) if step.index == 2));
    }
    workers[1].kill();
    let (said, status) = workers.swap_remove(0).finish();
    assert_eq!(status.code(), Some(1));
    let (kind, error) = failure(&said);
    assert_eq!(kind, FailureKind::Collective, "{error}");
    assert!(error.starts_with("a collective failed: "), "{error}");
}

#[test]
fn ranks_draw_the_same_parameters_and_take_their_parts_of_the_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let export = |spec: &LaunchSpec, name: &str, rank: u32| {
        fs::write(path("spec.json"), serde_json::to_vec(spec).unwrap()).unwrap();
        let mut command = program();
        command.arg("--spec").arg(path("spec.json")).arg("--export-data").arg(path(name));
        let output = command.args(["--rank", &rank.to_string()]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let tensors = tch::Tensor::read_safetensors(path(name)).unwrap();
        tensors.into_iter().find(|(name, _)| name == "targets.0").expect("a micro-batch was exported").1
    };
    let whole = export(&launch("neumf", 8, "dp1", None), "whole", 0);
    let two = launch_ranks(2, "neumf", 8, "dp2", None);
    let parts = [0, 1].map(|rank| export(&two, "part", rank));
    assert_eq!(tch::Tensor::cat(&parts, 0), whole);
}

#[test]
fn batch_norm_over_a_part_of_the_batch_is_said() {
    for (workload, global_batch, plan, statistics) in [
        ("resnet18-mini", 4, "dp1", None),
        ("resnet18-mini", 4, "ga2", Some(Statistics::Local)),
        ("gpt2-mini", 4, "ga2", None),
    ] {
        let (said, _) = run_to_end(&launch(workload, global_batch, plan, Some(1)));
        assert_eq!(ready(&said).statistics, statistics, "{workload}, {plan}");
    }
    for worker in Worker::start_ranks(&launch_ranks(2, "resnet18-mini", 4, "dp2", Some(1))) {
        worker.grant.extend_to(1);
        let (said, _) = worker.finish();
        assert_eq!(ready(&said).statistics, Some(Statistics::Local));
    }
}

#[test]
fn an_lstm_that_computes_in_fp32_under_bf16_is_said() {
    #[cfg(target_arch = "x86_64")]
    let has_kernel = std::arch::is_x86_feature_detected!("avx512bw");
    #[cfg(not(target_arch = "x86_64"))]
    let has_kernel = true;
    let in_fp32: &[&str] = if has_kernel { &[] } else { &["LSTM"] };
    for (workload, plan, layers) in
        [("lstm", "dp1", &[][..]), ("lstm", "bf16", in_fp32), ("espcn-mini", "bf16", &[])]
    {
        let (said, _) = run_to_end(&launch(workload, 2, plan, Some(1)));
        assert_eq!(ready(&said).fp32_layers, layers, "{workload}, {plan}");
    }
}

#[test]
fn ranks_that_were_told_nothing_of_use_about_where_to_meet_fail_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let used = folder.path().join("used");
    let mut spec = launch_ranks(2, "neumf", 4, "dp2", Some(1));
    let meet_in = |spec: &mut LaunchSpec, file: &std::path::Path| {
        let Program::Training(training) = &mut spec.program else { unreachable!("it trains") };
        training.rendezvous = Some(file.to_owned());
    };
    meet_in(&mut spec, &used);
    for worker in Worker::start_ranks(&spec) {
        worker.grant.extend_to(1);
        worker.finish();
    }
    // Nothing removes the file of ranks that end as processes do.
    for worker in Worker::start_ranks(&spec) {
        let (said, status) = worker.finish();
        assert_eq!(status.code(), Some(1));
        let (kind, error) = failure(&said);
        assert_eq!(kind, FailureKind::Collective, "{error}");
        assert!(error.contains("has been here before"), "{error}");
    }
}
